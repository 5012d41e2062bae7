"""Arguments and results of a jitted function: tensors and numbers in lists, tuples, dicts and dataclasses. Week 5."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from types import GeneratorType, NoneType
from typing import Any

import numpy as np

from uop_ir import DType, get_backend

from .graph import known_device
from .live import JitError
from .tensor import Tensor

#: What is part of the signature by its value.
STATIC = (bool, str, bytes, NoneType, DType, Enum)
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


@dataclass
class Tree:
    """Leaves in order: distinct tensors and numbers. `structure` has their places, and is hashable.

    A place is ("tensor", i), ("number", i), ("static", type, value), ("dataclass", type, ...), (list, ...),
    (tuple or named tuple, ...), (dict, keys, ...).
    """

    structure: Any = None
    tensors: list[Tensor] = field(default_factory=list)
    numbers: list[Any] = field(default_factory=list)  # of a result, what a number is computed from
    _places: dict[int, int] = field(default_factory=dict)

    @property
    def signature(self) -> object:
        """What decides which trace serves: structure, static values, and what each tensor and number is."""
        return (
            self.structure,
            tuple([_kind(t) for t in self.tensors]),
            tuple([type(n) for n in self.numbers]),
        )

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
    tree = Tree()
    tree.structure = _place(name, value, tree)
    return tree


def _place(name: str, x: Any, tree: Tree) -> Any:
    # Not a closure that calls itself: such a cycle would keep the tensors of each call until the collector runs.
    kind = type(x)
    if isinstance(x, Tensor):
        if x._weak is not None:
            tree.numbers.append(x._weak)
            return "number", len(tree.numbers) - 1
        place = tree._places.setdefault(id(x), len(tree.tensors))
        if place == len(tree.tensors):
            tree.tensors.append(x)
        return "tensor", place
    if kind is int or kind is float:
        tree.numbers.append(x)
        return "number", len(tree.numbers) - 1
    if kind is tuple or kind is list or (isinstance(x, tuple) and hasattr(kind, "_fields")):
        return (kind, *[_place(name, v, tree) for v in x])
    if kind is dict:
        return (dict, tuple(x), *[_place(name, v, tree) for v in x.values()])
    if kind is Static:
        return "static", type(x.value), _hashable(name, x.value)
    if isinstance(x, STATIC):
        return "static", kind, x
    if is_dataclass(x) and not isinstance(x, type):
        return ("dataclass", kind, *[_place(name, getattr(x, f.name), tree) for f in fields(x)])
    remedy = "give tensors, numbers, str, bool or None, in lists, tuples, dicts and dataclasses; close over the rest"
    raise JitError(
        f"{name}: {kind.__name__} as argument or result of a jitted function",
        remedy=next((r for types, r in REMEDIES if isinstance(x, types)), remedy),
    )


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
        return dict(zip(place[1], [_rebuild(p, tensors, numbers) for p in place[2:]], strict=True))
    if kind == "dataclass":
        made = object.__new__(place[1])
        for f, p in zip(fields(made), place[2:], strict=True):
            object.__setattr__(made, f.name, _rebuild(p, tensors, numbers))
        return made
    parts = [_rebuild(p, tensors, numbers) for p in place[1:]]
    return parts if kind is list else tuple(parts) if kind is tuple else kind(*parts)
