"""Views: the same elements in another shape or order, or a part of them; joining tensors. Week 5."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import prod
from typing import Self, TypeVar

from uop_ir import Ops, UOp, dtypes

from . import shapes
from .activations import Activations
from .errors import TensorError
from .graph import broadcast_to, shape_of
from .promotion import promote

T = TypeVar("T", bound="Movement")


class Movement(Activations):
    """Shapes are given as loose numbers or as one tuple: `x.reshape(2, 3)`, `x.reshape((2, 3))`."""

    def reshape(self, *shape: int | Sequence[int]) -> Self:
        """The same elements, row-major, in another shape; one size may be -1."""
        new = shapes.filled("reshape", self.shape, shapes.integers("reshape", shape))
        return self._of(self.uop.reshape(new))

    view = reshape

    def flatten(self, start: int = 0, end: int = -1) -> Self:
        """The axes from `start` to `end`, both included, made one."""
        if self.ndim == 0:
            return self.reshape(1)
        first, last = (shapes.one_axis("flatten", self.ndim, a) for a in (start, end))
        if first > last:
            raise TensorError(f"flatten: axis {start} comes after axis {end}")
        return self.reshape(
            (*self.shape[:first], prod(self.shape[first : last + 1]), *self.shape[last + 1 :])
        )

    def expand(self, *shape: int | Sequence[int]) -> Self:
        """Axes of size 1 repeated; new axes come in front, and -1 keeps a size."""
        given = shapes.integers("expand", shape)
        old = (1,) * (len(given) - self.ndim) + self.shape
        new = tuple(o if n == -1 else n for n, o in zip(given, old, strict=False))
        if len(given) != len(old) or any(
            n != o and (o != 1 or (shapes.size_of(n) is None and n < 0))
            for n, o in zip(new, old, strict=True)
        ):
            raise TensorError(
                f"expand: {self.shape} does not grow to {given}", remedy="an axis is kept or grows from 1"
            )
        return self._of(broadcast_to(self.uop, new))

    broadcast_to = expand

    def permute(self, *order: int | Sequence[int]) -> Self:
        """The axes in another order."""
        given = shapes.integers("permute", order)
        axes = tuple(shapes.one_axis("permute", self.ndim, a) for a in given)
        if sorted(axes) != list(range(self.ndim)):
            raise TensorError(
                f"permute: {given} for a tensor of {self.ndim} axes", remedy="name each axis once"
            )
        return self._of(self.uop.permute(axes))

    def transpose(self, first: int = 1, second: int = 0) -> Self:
        """Two axes exchanged."""
        one, two = (shapes.one_axis("transpose", self.ndim, a) for a in (first, second))
        order = list(range(self.ndim))
        order[one], order[two] = two, one
        return self._of(self.uop.permute(order))

    def t(self) -> Self:
        """A matrix transposed; a vector or a number as it is."""
        if self.ndim > 2:
            raise TensorError(
                f"t: a tensor of shape {self.shape}", remedy="two axes at most; use mT or permute"
            )
        return self.T

    def ravel(self) -> Self:
        """All elements along one axis, row-major."""
        return self.reshape(-1) if self.numel() else self.reshape(0)

    @property
    def T(self) -> Self:
        """All axes in reverse order."""
        return self._of(self.uop.permute(range(self.ndim - 1, -1, -1)))

    @property
    def mT(self) -> Self:
        """The last two axes exchanged."""
        if self.ndim < 2:
            raise TensorError(f"mT: a tensor of shape {self.shape}", remedy="it needs two axes or more")
        return self.transpose(-1, -2)

    def squeeze(self, axis: int | Sequence[int] | None = None) -> Self:
        """Without the axes of size 1, or without those of them that are named; any other axis stays."""
        axes = shapes.axes("squeeze", self.ndim, axis)
        return self._of(self.uop.reshape([s for a, s in enumerate(self.shape) if a not in axes or s != 1]))

    def unsqueeze(self, axis: int) -> Self:
        """A new axis of size 1 at `axis`."""
        at = shapes.one_axis("unsqueeze", self.ndim + 1, axis)
        return self._of(self.uop.reshape((*self.shape[:at], 1, *self.shape[at:])))

    def flip(self, axis: int | Sequence[int] | None = None, *others: int) -> Self:
        """The named axes (None: all) reversed; they may be loose numbers."""
        named = (*shapes.integers("flip", (axis,)), *others) if others else axis
        axes = shapes.axes("flip", self.ndim, named)
        return self._of(self.uop.flip([a in axes for a in range(self.ndim)]))

    def shrink(self, bounds: Sequence[tuple[int, int] | None]) -> Self:
        """Of each axis the part (begin, end), end excluded; None keeps an axis whole."""
        if len(bounds) != self.ndim:
            raise TensorError(
                f"shrink: {list(bounds)} for a tensor of shape {self.shape}", remedy="give one pair an axis"
            )
        pairs = [
            (0, s) if b is None else shapes.integers("shrink", tuple(b))
            for b, s in zip(bounds, self.shape, strict=True)
        ]
        for pair, s in zip(pairs, self.shape, strict=True):
            if len(pair) != 2 or not 0 <= pair[0] <= pair[1] <= s:
                raise TensorError(
                    f"shrink: {pair} of an axis of size {s}", remedy="0 <= begin <= end <= size"
                )
        return self._of(self.uop.shrink([(p[0], p[1]) for p in pairs]))

    def cat(self, *others: Self, axis: int = 0) -> Self:
        """This tensor and others joined along an axis;
        the other axes must be equal. A list of all will do.
        """
        first, *rest = given = several("cat", (self, *others))
        at = shapes.one_axis("cat", first.ndim, axis)
        around = (*first.shape[:at], *first.shape[at + 1 :])
        for other in rest:
            if other.ndim != first.ndim or (*other.shape[:at], *other.shape[at + 1 :]) != around:
                raise TensorError(
                    f"cat: {other.shape} does not join {first.shape} along axis {at}",
                    remedy="the other axes must be equal",
                )
        return first._of(join(_alike("cat", given), at))

    concat = cat

    def stack(self, *others: Self, axis: int = 0) -> Self:
        """This tensor and others of its shape along a new axis. A list of all will do."""
        first, *rest = given = several("stack", (self, *others))
        at = shapes.one_axis("stack", first.ndim + 1, axis)
        for other in rest:
            if other.shape != first.shape:
                raise TensorError(
                    f"stack: {other.shape} beside {first.shape}", remedy="all shapes must be equal"
                )
        return first._of(_stack(_alike("stack", given), at))


def several(method: str, given: Sequence[T | Sequence[T]]) -> list[T]:
    """Tensors that are given one by one, or in lists.
    Raises TensorError for none, and for what is no tensor.
    """
    each = [x for part in given for x in (part if isinstance(part, list | tuple) else (part,))]
    if not each:
        raise TensorError(f"{method}: no tensors", remedy="give one or more")
    for x in each:
        if not isinstance(x, Movement):
            raise TensorError(
                f"{method}: {type(x).__name__} is no tensor", remedy=f"give tensors: x.{method}(y, z)"
            )
    return each


def _alike(method: str, tensors: Sequence[Movement]) -> list[UOp]:
    dtype = promote(method, *(t.dtype for t in tensors))
    return [t.uop.cast(dtype) for t in tensors]


def _stack(parts: Sequence[UOp], axis: int) -> UOp:
    stacked = UOp(Ops.STACK, parts)
    order = [*range(1, stacked.ndim)]
    order.insert(axis, 0)
    return stacked.permute(order)


def join(parts: Sequence[UOp], axis: int) -> UOp:
    """Equal parts are a STACK; others are chosen by where each one ends, so that every bit stays as it is."""
    if len(parts) == 1:
        return parts[0]
    shape = parts[0].shape
    if all(p.shape == shape for p in parts):
        return _stack(parts, axis).reshape((*shape[:axis], len(parts) * shape[axis], *shape[axis + 1 :]))
    ends = list(accumulate(shape_of(p)[axis] for p in parts))
    total, last = ends[-1], parts[-1]
    around = [(0, 0)] * len(shape)

    def grown(x: UOp, end: int) -> UOp:
        return x.pad([*around[:axis], (end - shape_of(x)[axis], total - end), *around[axis + 1 :]])

    out = grown(last, total)
    for part, end in zip(reversed(parts[:-1]), reversed(ends[:-1]), strict=True):
        before = broadcast_to(UOp.const(dtypes.bool, True), (end,)).pad([(0, total - end)])
        out = before.reshape((total,) + (1,) * (len(shape) - axis - 1)).where(grown(part, end), out)
    return out
