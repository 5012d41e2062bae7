"""Arguments and results of a jitted function: tensors and numbers in lists, tuples, dicts and dataclasses. Week 5."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from types import GeneratorType, NoneType
from typing import Any

import numpy as np

from uop_ir import DType, get_backend

from .errors import TensorError
from .graph import known_device
from .live import JitError
from .tensor import Tensor

#: What is part of the signature by its value.
STATIC = (bool, str, bytes, NoneType, DType, Enum)
TENSORS = frozenset({Tensor})
EMPTY_DICT = dict, (), ()
REMEDIES: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (GeneratorType, "a generator is used up by one call: give a list"),
    (np.ndarray, "give Tensor(array)"),
    (np.generic, "a NumPy number is no Python number: give float(x), int(x) or Tensor(x)"),
    ((set, frozenset), "a set has no order: give a list"),
)


@dataclass(frozen=True)
class Static:
    """An argument that is part of the signature, whatever its type."""

    value: object


@dataclass(frozen=True)
class Bounds:
    """What a size may be, both included, and the parameter that it is given to."""

    name: str
    low: int
    high: int


@dataclass(frozen=True)
class Size:
    """An argument that is a size."""

    value: object
    bounds: Bounds


class Tree:
    """Leaves in order: distinct tensors and numbers. `structure` has their places, and is hashable.

    A place is ("tensor", i), ("number", i), ("static", identity, value), ("dataclass", type, ...), (list, ...),
    (tuple or named tuple, ...), (dict, keys, their identities, ...). The numbers of a result are what they are computed from. `sizes`
    are the bounds of those numbers that are sizes.
    """

    __slots__ = ("numbers", "places", "sizes", "structure", "tensors")

    def __init__(self, structure: Any, tensors: Sequence[Tensor] = (), numbers: Sequence[Any] = ()) -> None:
        self.structure = structure
        self.tensors = list(tensors)
        self.numbers = list(numbers)
        self.places: dict[int, tuple[str, int]] = {}
        self.sizes: dict[int, Bounds] = {}

    @property
    def signature(self) -> object:
        """What decides which trace serves: structure, static values, and what each tensor and number is."""
        kinds = [_kind(t) for t in self.tensors]
        return self.structure, *kinds, *map(type, self.numbers)

    def unchanged(self, value: object, tensors: Sequence[Any], numbers: Sequence[Any]) -> bool:
        """Whether a value that `rebuild` has given still is what it was."""
        return _is(self.structure, value, tensors, numbers)

    def rebuild(self, tensors: Sequence[Any], numbers: Sequence[Any]) -> Any:
        """The value with other leaves in the same places."""
        return _rebuild(self.structure, tensors, numbers)


def _kind(tensor: Tensor) -> object:
    value = tensor.uop
    kind = value.memo.get("jit.kind")
    if kind is None:
        kind = value.memo["jit.kind"] = value.shape, value.dtype, known_device(value)
    return type(tensor), kind, kind[2] or get_backend().name, tensor._requires_grad


def flatten(name: str, value: object) -> Tree:
    """The tree of a value. Raises JitError for a leaf that is neither a tensor, a number nor of a static type."""
    tree = Tree(None)
    tree.structure = _place(name, value, tree)
    return tree


def flatten_call(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tree:
    """The tree of (args, kwargs). Nothing but distinct tensors by position, as most calls have, takes 0.7 us, not 4."""
    if kwargs or not TENSORS.issuperset(map(type, args)) or len(set(map(id, args))) != len(args):
        return flatten(name, (args, kwargs))
    return Tree(_tensors_only(len(args)), args)


@cache
def _tensors_only(count: int) -> object:
    return tuple, (tuple, *[("tensor", i) for i in range(count)]), EMPTY_DICT


# Functions, not closures that call themselves: such a cycle would keep the tensors of each call until the collector
# runs. By type, since to ask for one after the other takes 2 us for a call of one tensor.


def _place(name: str, x: Any, tree: Tree) -> Any:
    return (PLACES.get(type(x)) or _uncommon)(name, x, tree)


def _tensor(name: str, x: Tensor, tree: Tree) -> Any:
    place = tree.places.get(id(x))
    if place is None:
        place = tree.places[id(x)] = "tensor", len(tree.tensors)
        tree.tensors.append(x)
    return place


def _number(name: str, x: Any, tree: Tree) -> Any:
    tree.numbers.append(x)
    return "number", len(tree.numbers) - 1


def _sequence(name: str, x: Any, tree: Tree) -> Any:
    return (type(x), *[_place(name, v, tree) for v in x])


def _dict(name: str, x: Any, tree: Tree) -> Any:
    if not x:
        return EMPTY_DICT
    return dict, tuple(x), tuple(map(identity, x)), *[_place(name, v, tree) for v in x.values()]


def _static(name: str, x: Any, tree: Tree) -> Any:
    return "static", type(x), x


def _uncommon(name: str, x: Any, tree: Tree) -> Any:
    kind = type(x)
    if isinstance(x, Tensor):
        return _tensor(name, x, tree) if x._weak is None else _number(name, x._weak, tree)
    if isinstance(x, tuple) and hasattr(kind, "_fields"):
        return _sequence(name, x, tree)
    if kind is Static:
        return "static", identity(_hashable(name, x.value)), x.value
    if kind is Size:
        return _size(x, tree)
    if isinstance(x, STATIC):
        return _static(name, x, tree)
    if is_dataclass(x) and not isinstance(x, type):
        return ("dataclass", kind, *[_place(name, getattr(x, f.name), tree) for f in fields(x)])
    remedy = "give tensors, numbers, str, bool or None, in lists, tuples, dicts and dataclasses; close over the rest"
    raise JitError(
        f"{name}: {kind.__name__} as argument or result of a jitted function",
        remedy=next((r for types, r in REMEDIES if isinstance(x, types)), remedy),
    )


PLACES: dict[type, Callable[[str, Any, Tree], Any]] = {
    Tensor: _tensor,
    int: _number,
    float: _number,
    list: _sequence,
    tuple: _sequence,
    dict: _dict,
    bool: _static,
    str: _static,
    NoneType: _static,
}


def _size(x: Size, tree: Tree) -> Any:
    value, bounds = x.value, x.bounds
    if type(value) is not int or not bounds.low <= value <= bounds.high:
        raise TensorError(
            f"jit: the size {bounds.name} is {value!r}, and no int from {bounds.low} to {bounds.high}"
        )
    tree.sizes[len(tree.numbers)] = bounds
    tree.numbers.append(value)
    return "number", len(tree.numbers) - 1


def identity(value: Any) -> object:
    """What tells values apart that are equal to Python, such as 1, 1.0 and True, or 0.0 and -0.0."""
    kind = type(value)
    if kind is float:
        return value.hex()
    if kind is tuple or kind is frozenset:
        return kind, *map(identity, value)
    return kind, value


def _hashable(name: str, value: object) -> object:
    try:
        hash(value)
    except TypeError:
        raise JitError(f"{name}: a static argument of type {type(value).__name__} has no hash") from None
    return value


def _rebuild(place: Any, tensors: Sequence[Any], numbers: Sequence[Any]) -> Any:
    kind = place[0]
    if kind == "tensor":
        return tensors[place[1]]
    if kind == "number":
        return numbers[place[1]]
    if kind == "static":
        return place[2]
    if kind is dict:
        return dict(zip(place[1], [_rebuild(p, tensors, numbers) for p in place[3:]], strict=True))
    if kind == "dataclass":
        made = object.__new__(place[1])
        for f, p in zip(fields(made), place[2:], strict=True):
            object.__setattr__(made, f.name, _rebuild(p, tensors, numbers))
        return made
    parts = [_rebuild(p, tensors, numbers) for p in place[1:]]
    return parts if kind is list else tuple(parts) if kind is tuple else kind(*parts)


def _is(place: Any, value: Any, tensors: Sequence[Any], numbers: Sequence[Any]) -> bool:
    kind = place[0]
    if kind == "tensor":
        return value is tensors[place[1]]
    if kind == "number":
        return value is numbers[place[1]]
    if kind == "static":
        return value is place[2]
    if kind is dict:
        places, values, same = place[3:], list(value.values()), tuple(value) == place[1]
    elif kind == "dataclass":
        places, same = place[2:], True
        values = [getattr(value, f.name, None) for f in fields(value)]
    else:
        places, values = place[1:], list(value)
        same = len(values) == len(places)
    return same and all(
        _is_type(p, v) and _is(p, v, tensors, numbers) for p, v in zip(places, values, strict=True)
    )


def _is_type(place: Any, value: object) -> bool:
    """Whether a value can be what a place says, by its type: a list among the arguments was not replaced by a number."""
    kind = place[1] if place[0] == "dataclass" else place[0]
    return not isinstance(kind, type) or type(value) is kind
