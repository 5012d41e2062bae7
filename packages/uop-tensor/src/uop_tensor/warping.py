"""Space seen through a grid of places: grid_sample and affine_grid. Week 5."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import prod
from typing import Self

from uop_ir import UOp, dtypes

from . import compose
from .errors import TensorError
from .graph import broadcast_to, detach, shape_of, with_gradient_of
from .picking import picked_along
from .promotion import accumulator, as_float, promote
from .resize import Resizing, cubic_far, cubic_near
from .shapes import integers

#: Positions along an axis brought to where a padding has its elements.
Outside = Callable[[UOp], UOp]
Around = list[tuple[UOp, UOp]]


class Warping(Resizing):
    """A tensor is (batch, channels, *space), with a space of two or three axes. Coordinates go from -1 to 1,
    the last axis of the space first: from edge to edge, or with `align_corners` from middle to middle of the
    outermost elements.
    """

    def grid_sample(
        self,
        grid: Self,
        mode: str = "bilinear",
        padding_mode: str = "zeros",
        align_corners: bool | None = None,
    ) -> Self:
        """The values at places of the space: of `grid` (batch, *places, axes) as (batch, channels, *places).

        `mode` is "bilinear" (of the 4 or 8 elements around a place), "nearest" (halves to the even one) or
        "bicubic" (of 16 elements, of a space of two axes). Outside there are `padding_mode` "zeros",
        the nearest element ("border"), or the space mirrored ("reflection"). Gradients flow to the grid too;
        of "nearest" they are 0.
        """
        axes = self.ndim - 2
        if (
            axes not in (2, 3)
            or grid.ndim != self.ndim
            or grid.shape[0] != self.shape[0]
            or grid.shape[-1] != axes
        ):
            raise TensorError(
                f"grid_sample: a grid of shape {grid.shape} for a tensor of shape {self.shape}",
                remedy="(batch, *places, 2) for (batch, channels, h, w), or as much with three axes",
            )
        if mode not in _AROUND or padding_mode not in _OUTSIDE or (mode == "bicubic" and axes == 3):
            raise TensorError(
                f"grid_sample: mode={mode!r}, padding_mode={padding_mode!r} in {axes} axes",
                remedy=f"one of {', '.join(_AROUND)} (bicubic in 2 axes); one of {', '.join(_OUTSIDE)}",
            )
        batch, channels, *space = self.shape
        if 0 in space:
            raise TensorError(f"grid_sample: a tensor of shape {self.shape}", remedy="its space is not empty")
        dtype = as_float(promote("grid_sample", self.dtype, grid.dtype))
        x = self.uop.cast(accumulator(dtype)).reshape((batch, channels, prod(space)))
        corners = bool(align_corners)

        def around(part: UOp, size: int) -> Around:
            at = _in_elements(part.cast(x.dtype), size, corners)
            return _AROUND[mode](at, lambda at: _OUTSIDE[padding_mode](at, size, corners))

        parts = zip(grid.unbind(-1)[::-1], space, strict=True)
        shape = (batch, channels, *grid.shape[1:-1])
        total = broadcast_to(x.const_like(0), shape)
        for corner in product(*(around(part.uop, size) for part, size in parts)):
            value = self._of(_element(x, [at for at, _ in corner], space)).reshape(shape).uop
            for _, share in corner:
                value = value * share.reshape((batch, 1, *share.shape[1:]))
            total = total + value
        return self._of(total.cast(dtype))

    def affine_grid(self, size: Sequence[int], align_corners: bool | None = None) -> Self:
        """The grid for `grid_sample` by matrices (batch, axes, axes + 1), which take coordinates of a result
        of shape `size`, (batch, channels, *places), to those of the space: (batch, *places, axes).
        """
        wanted = integers("affine_grid", (size,))
        batch, places = wanted[:1], wanted[2:]
        axes = len(places)
        if (
            axes not in (2, 3)
            or min(wanted) < 0
            or self.shape != (*batch, axes, axes + 1)
            or not self.dtype.is_float
        ):
            raise TensorError(
                f"affine_grid: {self.dtype}{self.shape} for a result of shape {tuple(size)}",
                remedy="floats (batch, 2, 3) for (batch, channels, h, w), or (batch, 3, 4) with three axes",
            )
        steps = []
        for axis, n in enumerate(places):
            end = 1.0 if align_corners else (n - 1) / max(n, 1)
            line = self.linspace(-end, end, n, dtype=self.dtype) if n > 1 else self.zeros(n, dtype=self.dtype)
            steps.append(line.reshape((n, *(1,) * (axes - axis - 1))).expand(places))
        ones = self.ones(*places, dtype=self.dtype)
        base = steps[-1].stack(*steps[-2::-1], ones, axis=-1)
        return (base.unsqueeze(-2) * self.reshape((*batch, *(1,) * axes, axes, axes + 1))).sum(-1)


def _in_elements(at: UOp, size: int, corners: bool) -> UOp:
    """Coordinates from -1 to 1 as positions along an axis."""
    return (at + 1) * ((size - 1) / 2) if corners else ((at + 1) * size - 1) * 0.5


def _bordered(at: UOp, size: int, corners: bool) -> UOp:
    """The nearest position within an axis."""
    return compose.minimum(at.maximum(0), at.const_like(size - 1))


def _reflected(at: UOp, size: int, corners: bool) -> UOp:
    """Positions mirrored at the outermost middles, or edges, as often as it takes to come within the axis."""
    low, span = (0.0, size - 1) if corners else (-0.5, size)
    if span == 0:
        return at * 0
    away = compose.absolute(at - low)
    turns = compose.floor(away / span)
    rest = away - detach(turns) * span
    odd = (turns * 0.5).ne(compose.floor(turns * 0.5))
    return _bordered(odd.where(span - rest, rest) + low, size, corners)


_OUTSIDE: dict[str, Callable[[UOp, int, bool], UOp]] = {
    "zeros": lambda at, size, corners: at,
    "border": _bordered,
    "reflection": _reflected,
}


def _two(at: UOp, outside: Outside) -> Around:
    at = outside(at)
    first = detach(compose.floor(at))
    share = at - first
    return [(first, 1 - share), (first + 1, share)]


def _one(at: UOp, outside: Outside) -> Around:
    at = outside(at)
    one = broadcast_to(at.const_like(1), at.shape)
    return [(compose.round_half_even(detach(at)), with_gradient_of(one, at * 0))]


def _four(at: UOp, outside: Outside) -> Around:
    first = detach(compose.floor(at))
    share = at - first
    weights = cubic_far(share + 1), cubic_near(share), cubic_near(1 - share), cubic_far(2 - share)
    return [(outside(first + n), weight) for n, weight in zip(range(-1, 3), weights, strict=True)]


#: The positions around places along an axis, and their shares.
_AROUND: dict[str, Callable[[UOp, Outside], Around]] = {"bilinear": _two, "nearest": _one, "bicubic": _four}


def _element(x: UOp, at: Sequence[UOp], space: Sequence[int]) -> UOp:
    """The elements of x (batch, channels, space) at whole positions along each axis of the space, 0 outside:
    (batch, channels, places).
    """
    flat, inside = UOp.const(dtypes.i32, 0), UOp.const(dtypes.bool, True)
    for position, size in zip(at, space, strict=True):
        within = (position > -1) & (position < size)
        inside = within & inside
        flat = flat * size + within.where(position, 0).cast(dtypes.i32)
    batch, channels, _ = shape_of(x)
    found = inside.where(flat, -1).reshape((batch, 1, prod(shape_of(inside)[1:])))
    return picked_along(x, broadcast_to(found, (batch, channels, found.shape[2])), 2)
