"""Bindings: the names, attributes and items by which a traced function finds its tensors,
and whether they hold. Week 5.

A tensor that is assigned stays the same tensor: its value is looked up at each call. A name that is bound to
another tensor is another matter, since a replay would go on with the old one: then the function is traced
anew, and a function that does so itself is refused.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Iterator
from functools import partial
from inspect import getattr_static, isdatadescriptor
from itertools import chain
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any, TypeAlias

from uop_ir import UOp

from .constants import Constants, attributes, cell_reader, items, names_around
from .static import SCALARS, functions_of
from .structure import identity
from .tensor import Tensor

#: How many objects are looked through, and how many items of each.
LIMIT = 10_000
#: What holds no tensors that a function could come to see anew.
LEAVES = (UOp, ModuleType, type, str, bytes, int, float, complex, type(None))
#: Where something stands (a list, a dict, a cell, an object; None: where it cannot be replaced), its key, and
#: what it is.
_Edge: TypeAlias = "tuple[Any, Any, Any]"
#: What gives a place, or None where it is gone, and what reads its watched keys.
_Watch: TypeAlias = "tuple[Callable[[], Any], Callable[[Any], Any]]"


class Bindings:
    """What a function finds by its names, and in what it finds there."""

    def __init__(self, function: Callable[..., Any]) -> None:
        """What is there now: functions, lists, tuples,
        dicts and objects with a `__dict__` are looked through.
        """
        self._edges: list[tuple[Any, _Edge]] = []
        self._functions = functions_of(function)
        self._watches: list[_Watch] = []
        self._ids: list[int] = []
        self._scalars: dict[int, Any] = {}
        self._alive: dict[int, weakref.ref[Tensor]] = {}
        self._count = 0
        self._kept: list[Any] = []
        self.constants = Constants(function)
        waiting: list[Any] = [function, *self._functions]
        seen = set(map(id, waiting))
        for owner in waiting:  # it grows
            for edge in _edges(owner):
                self._edges.append((owner, edge))
                child = edge[2]
                if not isinstance(child, Tensor) and id(child) not in seen and len(seen) < LIMIT:
                    seen.add(id(child))
                    waiting.append(child)

    def changed(self) -> list[tuple[Any, Any, Tensor, object]]:
        """Where another object has come into the place of a tensor,
        under which key, that tensor, and the object.
        """
        return [
            (place, key, child, now)
            for _, (place, key, child) in self._edges
            if isinstance(child, Tensor) and place is not None and (now := _now(place, key)) is not child
        ]

    def restore(self) -> None:
        """Put each tensor back."""
        for place, key, child, _ in self.changed():
            if isinstance(place, CellType):
                place.cell_contents = child
            elif not isinstance(place, list):
                (place if isinstance(place, dict) else place.__dict__)[key] = child
            elif key < len(place):
                place[key] = child

    def watch(self, used: Collection[int]) -> bool:
        """From now on `hold` looks at all ways to the tensors of these ids, at what the function's own names
        are bound to, and at what is True or False of the objects among them (`training`, say). False where
        there is nothing to look at.
        """
        leads, own = self._leading_to(used), set(map(id, self._functions))
        places: dict[int, tuple[Any, list[Any]]] = {}
        objects: dict[int, Any] = {}
        for owner, (place, key, child) in self._edges:
            named = id(owner) in own
            if named and isinstance(child, weakref.ref | MethodType | partial):
                own.add(id(child))
            if named or id(child) in leads:
                if place is not None and _now(place, key) is child:
                    places.setdefault(id(place), (place, []))[1].append(key)
                objects[id(child)] = child
                if isinstance(child, Tensor):  # another one may come to have the id of one that is gone
                    self._alive[id(child)] = weakref.ref(child, partial(self._alive.pop, id(child)))
                if named and id(child) not in leads and not isinstance(child, Tensor):
                    self._kept.append(child)  # an id is that of one object as long as it lives
        flags = {key: names for key, x in objects.items() if (names := _flags(x))}
        for place, keys, reader in self.constants.unchanged():
            if reader is attributes:
                objects[id(place)] = place
                flags[id(place)] = [*dict.fromkeys((*flags.get(id(place), ()), *keys))]
            else:
                self._watches.append((_held(place), reader(keys)))
        for key, (place, keys) in places.items():
            if key in flags and _are_attributes(place, keys):
                flags[key] += keys  # one look at an object takes half as long as two
            else:
                self._watches.append((_held(place), _reader(place, keys)))
        for key, names in flags.items():
            self._watches.append((_held(objects[key]), attributes(names)))
        self._edges.clear()
        self._know([*chain.from_iterable(self._read())])
        self._count = len(self._alive)
        return bool(self._watches)

    def hold(self) -> bool:
        """Whether all that is watched is what it was."""
        if len(self._alive) != self._count:
            return False
        try:
            found = [*chain.from_iterable(self._read())]
        except (KeyError, IndexError, AttributeError, TypeError, ValueError):  # it is gone
            return False
        if [*map(id, found)] == self._ids:
            return True
        # a number that is equal may be another object
        kept = self._scalars
        for number, (value, known) in enumerate(zip(found, self._ids, strict=True)):
            if id(value) != known and (
                number not in kept
                or not isinstance(value, SCALARS)
                or identity(value) != identity(kept[number])
            ):
                return False
        self._know(found)
        return True

    def _know(self, found: list[Any]) -> None:
        """Take what is watched for what it has to be.
        Of a number or string, which is kept, no other one has the id.
        """
        self._ids = [*map(id, found)]
        self._scalars = {number: v for number, v in enumerate(found) if isinstance(v, SCALARS)}

    def _read(self) -> list[Any]:
        """What is watched, as it is now. Raises an error for what is gone."""
        return [read(held()) for held, read in self._watches]

    def _leading_to(self, used: Collection[int]) -> set[int]:
        """The ids of what leads to these."""
        owners: dict[int, list[Any]] = {}
        for owner, (_, _, child) in self._edges:
            owners.setdefault(id(child), []).append(owner)
        leads, waiting = set(used), list(used)
        for child in waiting:  # it grows
            new = {id(owner) for owner in owners.get(child, ())} - leads
            leads |= new
            waiting += new
        return leads


def _edges(x: Any) -> Iterator[_Edge]:
    """What an object refers to that may be or hold tensors."""
    return (edge for edge in _all_edges(x) if not isinstance(edge[2], LEAVES))


def _all_edges(x: Any) -> Iterator[_Edge]:
    if isinstance(x, FunctionType):
        yield from _names_of(x)
    elif isinstance(x, weakref.ref):
        yield None, None, x()
    elif isinstance(x, MethodType):
        yield from ((None, None, part) for part in (x.__func__, x.__self__))
    elif isinstance(x, partial):
        yield from ((None, None, part) for part in (x.func, x.args, x.keywords))
    elif isinstance(x, list):
        yield from ((x, i, item) for i, item in enumerate(x[:LIMIT]))
    elif isinstance(x, tuple | set | frozenset):
        yield from ((None, None, item) for item in tuple(x)[:LIMIT])
    elif isinstance(x, dict):
        yield from ((x, key, item) for key, item in list(x.items())[:LIMIT])
    elif (attributes := _attributes_of(x)) is not None:
        # of another jitted function: its captures are no business of this one
        inner = attributes.get("__wrapped__")
        names = list(attributes.items()) if inner is None else [(None, inner)]
        yield from ((x if name is not None else None, name, item) for name, item in names)


def _names_of(function: FunctionType) -> Iterator[_Edge]:
    # functions of this package hold no one's tensors
    own = str(function.__globals__.get("__name__")).startswith(f"{__package__}.")
    yield from (edge for edge in names_around(function) if not own or isinstance(edge[0], CellType))
    defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    yield from ((None, None, default) for default in defaults)


def _now(place: Any, key: Any) -> object:
    try:
        return _reader(place, [key])(place)[0]
    except (KeyError, IndexError, AttributeError, ValueError):
        return None


def _reader(place: Any, keys: list[Any]) -> Callable[[Any], Any]:
    if isinstance(place, CellType):
        return cell_reader(keys)
    read = items(keys)
    return read if isinstance(place, list | dict) else lambda x: read(x.__dict__)


def _flags(x: Any) -> list[str]:
    """The attributes of an object, or of its class, that are True or False. Properties are not asked."""
    own = _attributes_of(x)
    if own is None or isinstance(x, Tensor | FunctionType):
        return []
    found = {**dict(item for kind in reversed(type(x).__mro__) for item in vars(kind).items()), **own}
    return [name for name, value in found.items() if type(value) is bool and name.isidentifier()]


def _are_attributes(x: Any, keys: list[Any]) -> bool:
    """Whether to ask an object for these keys of its `__dict__` gives what stands there,
    and runs no one's code.
    """
    kind: Any = type(x)
    return kind.__getattribute__ is object.__getattribute__ and all(
        isinstance(key, str) and key.isidentifier() and not isdatadescriptor(getattr_static(kind, key, None))
        for key in keys
    )


def _attributes_of(x: Any) -> dict[str, Any] | None:
    """The `__dict__` of an object. None where it has none,
    or is one that stands for another which is not there.
    """
    try:
        found = x.__dict__
    except Exception:  # noqa: BLE001  # a proxy of a web framework raises errors of its own
        return None
    return found if isinstance(found, dict) else None


def _held(place: Any) -> Callable[[], Any]:
    """What gives an object, which it keeps alive only where there is no other way."""
    try:
        return weakref.ref(place)
    except TypeError:
        return lambda: place
