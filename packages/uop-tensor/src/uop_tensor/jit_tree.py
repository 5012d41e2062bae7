"""Arguments and results of a jitted function: tensors and numbers in lists, tuples and dicts. Week 5."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from uop_ir import DType

from .live import JitError
from .tensor import Tensor

STATIC = (bool, str, type(None), DType)


@dataclass
class Tree:
    """Leaves in order: distinct tensors and numbers. `structure` has their places, and is hashable.

    A place is ("tensor", i), ("number", i), ("static", type, value), (list, ...), (tuple, ...), (dict, keys, ...).
    """

    structure: Any = None
    tensors: list[Tensor] = field(default_factory=list)
    numbers: list[int | float] = field(default_factory=list)

    @property
    def signature(self) -> object:
        """What decides which trace serves: structure, static values, and what each tensor and number is."""
        kinds = tuple((type(t), t.uop.shape, t.uop.dtype, t.device, t._requires_grad) for t in self.tensors)
        return self.structure, kinds, tuple(isinstance(n, int) for n in self.numbers)

    def rebuild(self, tensors: Sequence[Any], numbers: Sequence[Any]) -> Any:
        """The value with other leaves in the same places."""
        return _rebuild(self.structure, tensors, numbers)


def flatten(name: str, value: object) -> Tree:
    """The tree of a value. Raises JitError for a leaf that is neither a tensor, a number nor of a static type."""
    tree = Tree()
    tree.structure = _place(name, value, tree, {})
    return tree


def _place(name: str, x: Any, tree: Tree, seen: dict[int, int]) -> Any:
    # Not a closure that calls itself: such a cycle would keep the tensors of each call until the collector runs.
    if isinstance(x, Tensor):
        if id(x) not in seen:
            seen[id(x)] = len(tree.tensors)
            tree.tensors.append(x)
        return "tensor", seen[id(x)]
    if type(x) in (list, tuple):
        return (type(x), *(_place(name, v, tree, seen) for v in x))
    if type(x) is dict:
        return (dict, tuple(x), *(_place(name, v, tree, seen) for v in x.values()))
    if isinstance(x, STATIC):
        return "static", type(x), x
    if isinstance(x, int | float):
        tree.numbers.append(x)
        return "number", len(tree.numbers) - 1
    raise JitError(
        f"{name}: {type(x).__name__} as argument or result of a jitted function",
        remedy="give tensors, numbers, str, bool or None, in lists, tuples and dicts; close over the rest",
    )


def _rebuild(place: Any, tensors: Sequence[Any], numbers: Sequence[Any]) -> Any:
    kind = place[0]
    if kind == "tensor":
        return tensors[place[1]]
    if kind == "number":
        return numbers[place[1]]
    if kind == "static":
        return place[2]
    if kind is dict:
        return dict(zip(place[1], (_rebuild(p, tensors, numbers) for p in place[2:]), strict=True))
    return kind(_rebuild(p, tensors, numbers) for p in place[1:])
