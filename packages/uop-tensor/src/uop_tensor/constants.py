"""Constants: numbers, strings and lengths that a traced function may read from the objects around it. Week 5.

A trace has them as they were, so that another value is a new trace. What a function may read is told by the
names in its code, in that of the functions and methods of these names, and so on. What it only counts up
(`calls += 1`), and what is another after the trace than before, is not among them.
"""

from __future__ import annotations

import dis
import sys
import sysconfig
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from operator import attrgetter, itemgetter
from types import (
    CellType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any, NamedTuple, TypeAlias

from uop_ir import DType, UOp

from .static import SCALARS, code_names, codes, functions_of
from .structure import identity
from .tensor import Tensor

#: How many objects are looked through; up to how many items of one the values count,
#: and not only how many there are.
LIMIT, ITEMS = 10_000, 100
NUMBERS = (int, float)
#: What is looked into no further.
CLOSED = (UOp, DType, Tensor, *SCALARS, bytes, complex)
#: Packages whose functions and objects hold no one's numbers.
OWN = {"uop_ir", "uop_rewrite", "uop_tensor", "numpy", "builtins"}
#: Where modules are that are no part of the program: on disk, or within the interpreter.
INSTALLED = (*map(sysconfig.get_path, ("stdlib", "purelib", "platlib")), "built-in", "frozen")
#: Methods that are called without being named.
UNSAID = (
    "__call__",
    "__getattr__",
    "__getitem__",
    "__iter__",
    "__len__",
    "__enter__",
    "__exit__",
    "__bool__",
)
#: What reads some values of a place at once.
Reader: TypeAlias = "Callable[[Any], Any]"


class Found(NamedTuple):
    """Where values stand, under which keys, what makes a reader of keys,
    and what they were before the trace.
    """

    place: Any
    keys: list[Any]
    reader: Callable[[list[Any]], Reader]
    before: list[Any]

    def now(self) -> list[Any]:
        """What they are; empty where one is gone."""
        try:
            return list(self.reader(self.keys)(self.place))[: len(self.keys)]
        except (KeyError, IndexError, AttributeError, ValueError):
            return []


class Constants:
    """What a function may read from the objects around it, before it is traced."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._values, self._names = set[str](), set[str]()
        #: Of the code of each function the names around it that it reads.
        self._around: dict[CodeType, set[str]] = {}
        own = functions_of(function)
        known, reached = -1, list[Any]()
        while known < len(self._names):  # a new name may be that of a method of an object that is known
            known = len(self._names)
            reached = self._reached([function, *own])
        # what the function itself reads by its names is part of the signature
        signature = set(map(id, own))
        self._own = [found for x in reached if id(x) in signature for found in self._constants_of(x)]
        self._found = [found for x in reached if id(x) not in signature for found in self._constants_of(x)]

    def changed(self) -> list[str]:
        """The names of the numbers that are read and that the function has changed."""
        return [
            key
            for found in (*self._own, *self._found)
            for key, old, new in zip(found.keys, found.before, found.now(), strict=False)
            if key in self._values and type(old) in NUMBERS and type(new) in NUMBERS and old != new
        ]

    def unchanged(self) -> Iterator[tuple[Any, list[Any], Callable[[list[Any]], Reader]]]:
        """After the trace, and once: each place, its keys whose values are the same as before,
        and what makes a reader.
        """
        for found in self._found:
            values = zip(found.keys, found.before, found.now(), strict=False)
            same = [key for key, old, new in values if identity(old) == identity(new)]
            if same:
                yield found.place, same, found.reader
        self._found.clear()
        self._own.clear()

    def _reached(self, waiting: list[Any]) -> list[Any]:
        """These objects, and all that the names in their code lead to."""
        seen = set(map(id, waiting))
        for owner in waiting:  # it grows
            for child in self._parts_of(owner):
                if not isinstance(child, CLOSED) and id(child) not in seen and len(seen) < LIMIT:
                    seen.add(id(child))
                    waiting.append(child)
        return waiting

    def _parts_of(self, x: Any) -> Iterator[Any]:
        if isinstance(x, FunctionType):
            own = _is_own(x.__globals__.get("__name__"))
            if not own:
                self._learn(x.__code__)
            # a jitted method is a function of this package, and has the object in a cell
            yield from (v for place, _, v in names_around(x) if not own or isinstance(place, CellType))
            yield from (*(x.__defaults__ or ()), *(x.__kwdefaults__ or {}).values())
        elif isinstance(x, MethodType):
            yield from (x.__func__, x.__self__)
        elif isinstance(x, partial):
            yield from (x.func, x.args, x.keywords)
        elif isinstance(x, weakref.ref):
            yield x()
        elif isinstance(x, list | tuple | set | frozenset):
            yield from list(x)[:LIMIT]
        elif isinstance(x, dict):
            yield from list(x.values())[:LIMIT]
        else:
            yield from self._parts_of_object(x)

    def _parts_of_object(self, x: Any) -> Iterator[Any]:
        """What stands under the names, and the methods and properties of these names."""
        own = _dict_of(x)
        if isinstance(x, type | ModuleType):
            named = [v for name, v in own.items() if name in self._names]
            for v in named if _is_of_the_program(x) else ():
                yield from functions_of(v) or [v]
            return
        if "__wrapped__" in own:
            yield own["__wrapped__"]
        if not _is_own(type(x).__module__):
            yield from (v for name, v in own.items() if name in self._names)
            for kind in type(x).__mro__:
                for name, v in vars(kind).items():
                    if name in self._names or name in UNSAID:
                        found: Any = v.fget if isinstance(v, property) else v
                        yield from functions_of(found)

    def _learn(self, code: CodeType) -> None:
        if code in self._around:
            return
        asked = {
            text
            for part in codes(code)
            if "getattr" in part.co_names
            for text in part.co_consts
            if isinstance(text, str)
        }
        attributes, self._around[code] = _read(code)
        self._names |= code_names(code) | asked
        self._values |= attributes | self._around[code] | asked

    def _constants_of(self, x: Any) -> Iterator[Found]:
        if isinstance(x, FunctionType):
            for place, name, v in names_around(x):
                known = isinstance(place, CellType) or name in self._around.get(x.__code__, ())
                if known and isinstance(v, SCALARS):
                    yield _found(place, [name], cell_reader if isinstance(place, CellType) else items)
        elif isinstance(x, list | dict):
            pairs = list(x.items() if isinstance(x, dict) else enumerate(x))
            yield _found(x, [None], lambda _: lambda x: (len(x),))
            keys = [key for key, v in pairs[:ITEMS] if isinstance(v, SCALARS)]
            if keys:
                yield _found(x, keys, items)
        else:
            names = [name for name in _scalar_names(x) if name in self._values]
            if names:
                yield _found(x, names, attributes)


def names_around(function: FunctionType) -> Iterator[tuple[Any, str, Any]]:
    """Where the names of a function stand that are not its own,
    a cell or its globals; each name; what it is now.
    """
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield cell, name, cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    around = function.__globals__
    yield from ((around, name, around[name]) for name in code_names(function.__code__) if name in around)


def attributes(names: list[str]) -> Reader:
    """A reader of attributes."""
    return attrgetter(*names, *names[: len(names) == 1])  # of one name it would give no tuple


def items(keys: list[Any]) -> Reader:
    """A reader of the items of a list or dict."""
    return itemgetter(*keys, *keys[: len(keys) == 1])


def cell_reader(names: list[str]) -> Reader:
    """A reader of what a cell has, as many times as it has names."""
    return lambda cell: (cell.cell_contents,)


def _found(place: Any, keys: list[Any], reader: Callable[[list[Any]], Reader]) -> Found:
    return Found(place, keys, reader, list(reader(keys)(place))[: len(keys)])


def _read(code: CodeType) -> tuple[set[str], set[str]]:
    """The attributes, and the names around it, whose values code, and what is within it, reads for another
    end than to count them up or to call.
    """
    attributes, names = set[str](), Counter[str]()
    for part in codes(code):
        before = ""
        for step in dis.get_instructions(part):
            if step.opname == "LOAD_ATTR" and step.argrepr == step.argval and before != "COPY":
                attributes.add(step.argval)
            elif step.opname in ("LOAD_GLOBAL", "LOAD_DEREF"):
                names[step.argval] += 1
            elif step.opname in ("STORE_GLOBAL", "STORE_DEREF"):
                names[step.argval] -= 1
            before = step.opname
    return attributes, {name for name, more in names.items() if more > 0}


def _scalar_names(x: Any) -> list[str]:
    """The attributes of an object, of its class, or of a module, that are numbers, strings or None."""
    kinds = x.__mro__ if isinstance(x, type) else type(x).__mro__
    if _is_own((x if isinstance(x, type) else type(x)).__module__) and not isinstance(x, ModuleType):
        return []
    found: dict[str, Any] = {}
    for kind in reversed(kinds):
        found |= vars(kind)
    found |= _dict_of(x)
    slots = {name: getattr(x, name, None) for name, v in found.items() if type(v) is MemberDescriptorType}
    return [name for name, v in {**found, **slots}.items() if isinstance(v, SCALARS)]


def _dict_of(x: Any) -> dict[str, Any]:
    """The `__dict__` of an object; empty where it has none,
    or is one that stands for another which is not there.
    """
    try:
        found = x.__dict__
    except Exception:  # noqa: BLE001  # a proxy of a web framework raises errors of its own
        return {}
    return dict(found) if isinstance(found, dict | MappingProxyType) else {}


def _is_of_the_program(x: type | ModuleType) -> bool:
    """Whether a module, or that of a class, is of the program itself, and not one that is installed."""
    module = x if isinstance(x, ModuleType) else sys.modules.get(x.__module__)
    place = (
        getattr(module, "__file__", None) or getattr(getattr(module, "__spec__", None), "origin", None) or ""
    )
    return not (_is_own(getattr(module, "__name__", "")) or place.startswith(INSTALLED))


def _is_own(module: object) -> bool:
    return str(module).partition(".")[0] in OWN
