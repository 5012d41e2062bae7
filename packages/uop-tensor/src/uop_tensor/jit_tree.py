"""Arguments and results of a jitted function:
tensors and numbers in lists, tuples, dicts and dataclasses. Week 5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from enum import Enum
from types import GeneratorType, NoneType
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from uop_ir import DType, UOp, get_backend

from .errors import TensorError
from .graph import known_device
from .live import JitError
from .structure import (
    DICT,
    EMPTY_DICT,
    NUMBER,
    SEQUENCES,
    STATIC,
    TENSOR,
    Container,
    Place,
    data_class,
    identity,
    named_tuple,
)
from .tensor import Tensor

#: What is part of the signature by its value.
STATIC_TYPES = (bool, str, bytes, NoneType, DType, Enum)
NUMBERS = frozenset({int, float})
#: In the memo of a value: its shape, dtype and device.
KIND = "jit.kind"
REMEDIES: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (GeneratorType, "a generator is used up by one call: give a list"),
    (np.ndarray, "give Tensor(array)"),
    (np.generic, "a NumPy number is no Python number: give float(x), int(x) or Tensor(x)"),
    ((set, frozenset), "a set has no order: give a list"),
)
Signature: TypeAlias = "tuple[object, ...]"


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
    """Leaves in order: distinct tensors and numbers. `structure` is the Place of the whole.

    The numbers of a result are what they are computed from. `sizes` are the bounds of those numbers that are
    sizes.
    """

    __slots__ = ("numbers", "sizes", "structure", "tensors")

    def __init__(
        self,
        structure: Place,
        tensors: Sequence[Tensor],
        numbers: Sequence[Any] = (),
        sizes: Mapping[int, Bounds] | None = None,
    ) -> None:
        self.structure = structure
        self.tensors = tensors
        self.numbers = numbers
        self.sizes = sizes or {}

    def signature(self) -> Signature:
        """What decides which trace serves: structure, static values, and what each tensor and number is."""
        return self.structure, *[_kind(t) for t in self.tensors], *map(type, self.numbers)

    def unchanged(self, value: object, tensors: Sequence[Any], numbers: Sequence[Any]) -> bool:
        """Whether a value that `rebuild` has given still is what it was."""
        same: bool = self.structure[0].unchanged(self.structure, value, tensors, numbers)
        return same

    def rebuild(self, tensors: Sequence[Any], numbers: Sequence[Any]) -> Any:
        """The value with other leaves in the same places."""
        return self.structure[0].rebuild(self.structure, tensors, numbers)


def _kind(tensor: Tensor) -> object:
    """What of a tensor is part of a signature."""
    return type(tensor), tensor._requires_grad, tensor.uop.memo.get(KIND) or _kind_of(tensor.uop)


def _kind_of(value: UOp) -> tuple[object, ...]:
    """What of a value is part of a signature; it is kept,
    unless it follows from where values go by default.
    """
    device = known_device(value)
    if device is None:
        return value.shape, value.dtype, get_backend().name
    kind = value.memo[KIND] = value.shape, value.dtype, device
    return kind


def leaves_of(args: tuple[Any, ...]) -> tuple[Signature, Sequence[Tensor], Sequence[Any]] | None:
    """Signature, tensors and numbers of a call with distinct tensors and numbers by position and nothing
    else, as most are: 0.6 us, where its Tree takes 4. None for any other call.
    """
    kinds = [
        x.uop.memo.get(KIND) or _kind_of(x.uop) for x in args if type(x) is Tensor and not x._requires_grad
    ]
    tensors: Sequence[Tensor] = args
    numbers: Sequence[Any] = ()
    if len(kinds) != len(args):
        numbers = [x for x in args if type(x) in NUMBERS]
        if len(kinds) + len(numbers) != len(args):
            return None
        tensors = [x for x in args if type(x) is Tensor]
        kinds.append(tuple(map(type, args)))
    if len(tensors) > 1 and len({*tensors}) != len(tensors):
        return None
    return tuple(kinds), tensors, numbers


def flatten(name: str, value: object) -> Tree:
    """The tree of a value. Raises JitError for a leaf that is neither a tensor,
    a number nor of a static type.
    """
    found = _Flattening(name, {}, [], [], {})
    structure = _place(value, found)
    return Tree(structure, found.tensors, found.numbers, found.sizes)


class _Flattening(NamedTuple):
    """Leaves as they are found."""

    name: str
    places: dict[int, Place]
    tensors: list[Tensor]
    numbers: list[Any]
    sizes: dict[int, Bounds]


# Functions, not closures that call themselves: such a cycle would keep the tensors of each call until the
# collector runs. By type, since to ask for one after the other takes 2 us for a call of one tensor.


def _place(x: Any, found: _Flattening) -> Place:
    return (PLACES.get(type(x)) or _uncommon)(x, found)


def _tensor(x: Tensor, found: _Flattening) -> Place:
    place = found.places.get(id(x))
    if place is None:
        place = found.places[id(x)] = TENSOR, len(found.tensors)
        found.tensors.append(x)
    return place


def _number(x: Any, found: _Flattening) -> Place:
    found.numbers.append(x)
    return NUMBER, len(found.numbers) - 1


def _sequence(x: Any, found: _Flattening) -> Place:
    return SEQUENCES[type(x)], (), (), *[_place(v, found) for v in x]


def _dict(x: Any, found: _Flattening) -> Place:
    return (
        (DICT, tuple(x), tuple(map(identity, x)), *[_place(v, found) for v in x.values()])
        if x
        else EMPTY_DICT
    )


def _static(x: Any, found: _Flattening) -> Place:
    return STATIC, type(x), x


def _uncommon(x: Any, found: _Flattening) -> Place:
    kind: Any = type(x)
    if isinstance(x, Tensor):
        return _tensor(x, found) if x._weak is None else _number(x._weak, found)
    if isinstance(x, tuple) and hasattr(kind, "_fields"):
        return _parts(named_tuple(kind), x, found)
    if kind is Static:
        return STATIC, identity(_hashable(found.name, x.value)), x.value
    if kind is Size:
        return _size(x, found)
    if isinstance(x, STATIC_TYPES):
        return _static(x, found)
    if is_dataclass(x) and not isinstance(x, type):
        return _parts(data_class(kind), x, found)
    remedy = "give tensors, numbers, str, bool or None, in lists, tuples, dicts and dataclasses; close over the rest"
    raise JitError(
        f"{found.name}: {kind.__name__} as argument or result of a jitted function",
        remedy=next((r for types, r in REMEDIES if isinstance(x, types)), remedy),
    )


PLACES: dict[type, Callable[[Any, _Flattening], Place]] = {
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


def _parts(container: Container, x: Any, found: _Flattening) -> Place:
    keys, parts = container.parts(x)
    return container, keys, (), *[_place(v, found) for v in parts]


def _size(x: Size, found: _Flattening) -> Place:
    value, bounds = x.value, x.bounds
    if type(value) is not int or not bounds.low <= value <= bounds.high:
        raise TensorError(
            f"jit: the size {bounds.name} is {value!r}, and no int from {bounds.low} to {bounds.high}"
        )
    found.sizes[len(found.numbers)] = bounds
    return _number(value, found)


def _hashable(name: str, value: object) -> object:
    try:
        hash(value)
    except TypeError:
        raise JitError(f"{name}: a static argument of type {type(value).__name__} has no hash") from None
    return value
