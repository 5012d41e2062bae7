"""Padding: axes grown at both ends, by a number or by what the axis itself holds. Week 5."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import index
from typing import Any, Self, TypeAlias

from uop_ir import UOp, dtypes

from .data import Number
from .errors import TensorError
from .graph import broadcast_to, shape_of
from .movement import Movement, join
from .value import operands
from .windows import cut

#: Flat, as in torch: (before, after) of the last axis, then of the one before it, and so on. Or a pair an
#: axis.
Widths: TypeAlias = "Sequence[int] | Sequence[Sequence[int] | None]"
Pair: TypeAlias = "tuple[int, int]"


class Padding(Movement):
    """Widths are written as torch writes them or as NumPy does."""

    def pad(self, padding: Widths, mode: str = "constant", value: Number = 0) -> Self:
        """Axes grown by (before, after); a negative width cuts off.

        `padding` is flat, `(left, right, top, bottom, ...)` from the last axis on as in torch, or holds a
        pair for each axis, the first one first, as in NumPy; None is (0, 0). `mode` "constant" fills with
        `value`, "reflect" mirrors without repeating the edge, "replicate" repeats the edge, "circular" begins
        again at the other end.
        """
        pairs = _pairs(padding, self.shape)
        if mode == "constant":
            return self._of(constant(self.uop, pairs, operands("pad", self, value)[1].cast(self.dtype)))
        if mode not in _EDGES:
            raise TensorError(
                f"pad: mode={mode!r}", remedy=f'give "constant", {", ".join(map(repr, _EDGES))}'
            )
        if value != 0:
            raise TensorError(
                f"pad: value={value} for mode={mode!r}", remedy='a value is for mode="constant"'
            )
        most, edges = _EDGES[mode]
        # what comes round again is what is left; a mirror and an edge stand where they were
        x = _cut(self.uop, pairs) if mode == "circular" else self.uop
        for axis, (pair, size) in enumerate(zip(pairs, shape_of(x), strict=True)):
            if max(pair) > most(size):
                raise TensorError(
                    f"pad: {pair} along axis {axis} of {self.shape}, mode={mode!r}",
                    remedy=f"this mode grows an end of that axis by at most {most(size)}",
                )
        for axis, (before, after) in enumerate(pairs):
            x = _grown(x, axis, max(before, 0), max(after, 0), edges)
        return self._of(x if mode == "circular" else _cut(x, pairs))


def constant(x: UOp, pairs: Sequence[Pair], value: UOp) -> UOp:
    """`x` grown by pairs of widths and filled with a value; what a negative width cuts off is cut off."""
    x = _cut(x, pairs)
    widths = [(max(before, 0), max(after, 0)) for before, after in pairs]
    padded = x.pad(widths)
    if padded is x or value is value.const_like(0):
        return padded
    inside = broadcast_to(UOp.const(dtypes.bool, True), x.shape).pad(widths)
    return inside.where(padded, value)


def _cut(x: UOp, pairs: Sequence[Pair]) -> UOp:
    """`x` without what negative widths cut off."""
    return x.shrink([(max(-b, 0), s - max(-a, 0)) for (b, a), s in zip(pairs, shape_of(x), strict=True)])


def _pairs(padding: Widths, shape: tuple[int, ...]) -> list[Pair]:
    """(before, after) of each axis, as the user meant it."""
    given: list[Any] = list(padding)
    pairs: list[Pair] | None
    try:
        if all(hasattr(p, "__index__") for p in given):
            flat = iter(index(p) for p in given)
            pairs = list(zip(flat, flat, strict=True))[::-1]
            pairs = [(0, 0)] * (len(shape) - len(pairs)) + pairs
        else:
            pairs = [(index(before), index(after)) for before, after in (p or (0, 0) for p in given)]
    except (TypeError, ValueError):
        pairs = None
    if pairs is None or len(pairs) != len(shape):
        raise TensorError(
            f"pad: {padding} for a tensor of shape {shape}",
            remedy="give (before, after) an axis, or one flat row of them from the last axis on",
        )
    for (before, after), s in zip(pairs, shape, strict=True):
        if before + s < 0 or after + s < 0 or before + s + after < 0:
            raise TensorError(f"pad: {padding} cuts off more than {shape} has")
    return pairs


def _grown(
    x: UOp, axis: int, before: int, after: int, edges: Callable[[int, int, int], tuple[Part, Part]]
) -> UOp:
    """An axis with what stands before it and after it, both of its own elements."""
    first, last = edges(shape_of(x)[axis], before, after)
    front = [_part(x, axis, first, before)] if before else []
    back = [_part(x, axis, last, after)] if after else []
    return join([*front, x, *back], axis)


#: The bounds of a part of an axis, and whether it is mirrored.
Part: TypeAlias = "tuple[int, int, bool]"


def _part(x: UOp, axis: int, part: Part, length: int) -> UOp:
    begin, end, mirrored = part
    x = cut(x, axis, begin, end)
    if mirrored:
        x = x.flip([a == axis for a in range(x.ndim)])
    return x.expand([length if a == axis else s for a, s in enumerate(x.shape)])


def _reflected(size: int, before: int, after: int) -> tuple[Part, Part]:
    return (1, before + 1, True), (size - 1 - after, size - 1, True)


def _replicated(size: int, before: int, after: int) -> tuple[Part, Part]:
    return (0, 1, False), (size - 1, size, False)


def _circular(size: int, before: int, after: int) -> tuple[Part, Part]:
    return (size - before, size, False), (0, after, False)


#: A mode, by how much it grows an end of an axis at most, and what it puts there.
_EDGES: dict[str, tuple[Callable[[int], int], Callable[[int, int, int], tuple[Part, Part]]]] = {
    "reflect": (lambda size: max(size - 1, 0), _reflected),
    "replicate": (lambda size: 1 << 31 if size else 0, _replicated),
    "circular": (lambda size: size, _circular),
}
