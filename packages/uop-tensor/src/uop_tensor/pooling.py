"""Pooling: the greatest and the mean of windows, of one size or as long as the space allows. Week 5."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Self

import numpy as np

from uop_ir import DType, Ops, UOp, dtypes

from . import compose
from .conv import Convolution, Each
from .data import from_array
from .errors import TensorError
from .graph import fold, known_device
from .places import Part, along, crossed, parts_of, places_of
from .promotion import accumulator, as_float, as_number
from .windows import Sizes, windows


class Pooling(Convolution):
    """Windows slide over the space of a tensor (batch, channels, *space) or (channels, *space).

    The order of the parameters is torch's. `kernel_size` is the size of a window, `stride` the distance
    between windows, their size where it is not given. `padding` is at most half a window, and is no maximum.
    With `ceil_mode` the last window may end behind the padding, if it begins before that.
    """

    def max_pool1d(
        self,
        kernel_size: Each = 2,
        stride: Each | None = None,
        padding: Each = 0,
        dilation: Each = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        """`max_pool2d` over one axis of space."""
        return self._max_pool(1, kernel_size, stride, padding, dilation, ceil_mode, return_indices)

    def max_pool2d(
        self,
        kernel_size: Each = 2,
        stride: Each | None = None,
        padding: Each = 0,
        dilation: Each = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        """The greatest element of each window: (batch, channels, *places); NaN where there is one. Ties share
        the gradient evenly. A `kernel_size` of several numbers says over how many axes of space, as in
        tinygrad.

        With `return_indices`, a pair: these, and where they stand in the space, row-major, as i64; of equal
        ones the first, of several NaN the last.
        """
        return self._max_pool(
            _rank(kernel_size), kernel_size, stride, padding, dilation, ceil_mode, return_indices
        )

    def max_pool3d(
        self,
        kernel_size: Each = 2,
        stride: Each | None = None,
        padding: Each = 0,
        dilation: Each = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        """`max_pool2d` over three axes of space."""
        return self._max_pool(3, kernel_size, stride, padding, dilation, ceil_mode, return_indices)

    def avg_pool1d(
        self,
        kernel_size: Each = 2,
        stride: Each | None = None,
        padding: Each = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> Self:
        """`avg_pool2d` over one axis of space."""
        return self._avg_pool(1, kernel_size, stride, padding, ceil_mode, count_include_pad, None)

    def avg_pool2d(
        self,
        kernel_size: Each = 2,
        stride: Each | None = None,
        padding: Each = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Self:
        """The mean of each window; of integers, as f32.
        A `kernel_size` of several numbers says over how many axes.

        The zeros of the padding count as elements, unless `count_include_pad` is false; what is behind it
        does not. The sum is divided by `divisor_override` instead, where it is given.
        """
        rank = _rank(kernel_size)
        return self._avg_pool(
            rank, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
        )

    def avg_pool3d(
        self,
        kernel_size: Each = 2,
        stride: Each | None = None,
        padding: Each = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Self:
        """`avg_pool2d` over three axes of space."""
        return self._avg_pool(3, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)

    def _max_pool(
        self,
        space: int,
        kernel_size: Each,
        stride: Each | None,
        padding: Each,
        dilation: Each,
        ceil_mode: bool,
        return_indices: bool,
    ) -> Any:
        at = places_of(
            f"max_pool{space}d", self.shape, space, kernel_size, stride, padding, dilation, ceil_mode
        )
        x = as_number(self.uop)
        seen = windows(at.padded(x, _least(x.dtype)), at.size, at.stride, at.dilation)
        value = self._of(_greatest(seen, space).cast(self.dtype))
        if not return_indices:
            return value
        positions = [at.positions(axis) for axis in range(space)]
        inside = [(p > -1) & (p < n) for p, n in zip(positions, at.lengths, strict=True)]
        return value, self._of(_where_greatest(seen, positions, inside, at.lengths))

    def _avg_pool(
        self,
        space: int,
        kernel_size: Each,
        stride: Each | None,
        padding: Each,
        ceil_mode: bool,
        count_include_pad: bool,
        divisor_override: int | None,
    ) -> Self:
        method = f"avg_pool{space}d"
        at = places_of(method, self.shape, space, kernel_size, stride, padding, 1, ceil_mode)
        if divisor_override == 0:
            raise TensorError(f"{method}: divisor_override=0", remedy="give another number, or None")
        dtype = as_float(self.dtype)
        x = self.uop.cast(dtype)
        seen = windows(at.padded(x, x.const_like(0)), at.size, at.stride, at.dilation)
        total = _total(seen.cast(accumulator(dtype)), space)
        if divisor_override is not None:
            return self._of((total / divisor_override).cast(dtype))
        for axis in range(space):
            total = total / at.counts(axis, count_include_pad).cast(total.dtype)
        return self._of(total.cast(dtype))

    # as many places as asked for

    def adaptive_avg_pool1d(self, output_size: Each | Sequence[int | None]) -> Self:
        """`adaptive_avg_pool2d` over one axis of space."""
        return self._adaptive_avg(1, output_size)

    def adaptive_avg_pool2d(self, output_size: Each | Sequence[int | None]) -> Self:
        """The mean of as many windows an axis as `output_size` says (None:
        as many as elements); of integers, as f32.

        Of an axis of n elements, the i-th of m windows goes from floor(i * n / m) to ceil((i + 1) * n / m).
        """
        return self._adaptive_avg(2, output_size)

    def adaptive_avg_pool3d(self, output_size: Each | Sequence[int | None]) -> Self:
        """`adaptive_avg_pool2d` over three axes of space."""
        return self._adaptive_avg(3, output_size)

    def adaptive_max_pool1d(
        self, output_size: Each | Sequence[int | None], return_indices: bool = False
    ) -> Any:
        """`adaptive_max_pool2d` over one axis of space."""
        return self._adaptive_max(1, output_size, return_indices)

    def adaptive_max_pool2d(
        self, output_size: Each | Sequence[int | None], return_indices: bool = False
    ) -> Any:
        """The greatest element of each window of `adaptive_avg_pool2d`;
        `return_indices` as in `max_pool2d`.
        """
        return self._adaptive_max(2, output_size, return_indices)

    def adaptive_max_pool3d(
        self, output_size: Each | Sequence[int | None], return_indices: bool = False
    ) -> Any:
        """`adaptive_max_pool2d` over three axes of space."""
        return self._adaptive_max(3, output_size, return_indices)

    def _adaptive_avg(self, space: int, output_size: Each | Sequence[int | None]) -> Self:
        parts = parts_of(f"adaptive_avg_pool{space}d", self.shape, space, output_size)
        dtype = as_float(self.dtype)
        seen, inside = self.cast(dtype)._seen(parts)
        total = _total(_all(inside, space).where(seen.cast(accumulator(dtype)), 0), space)
        for axis, part in enumerate(parts):
            lengths = from_array((part.end - part.begin).astype(np.float32), known_device(self.uop))
            total = total / along(lengths.cast(total.dtype), axis, space)
        return self._of(total.cast(dtype))

    def _adaptive_max(
        self, space: int, output_size: Each | Sequence[int | None], return_indices: bool
    ) -> Any:
        parts = parts_of(f"adaptive_max_pool{space}d", self.shape, space, output_size)
        x = self._of(as_number(self.uop))
        seen, inside = x._seen(parts)
        seen = _all(inside, space).where(seen, _least(x.dtype))
        value = self._of(_greatest(seen, space).cast(self.dtype))
        if not return_indices:
            return value
        positions = [from_array(part.positions, known_device(self.uop)) for part in parts]
        return value, self._of(_where_greatest(seen, positions, inside, self.shape[-space:]))

    def _seen(self, parts: Sequence[Part]) -> tuple[UOp, list[UOp]]:
        """What stands in windows of any length, (..., *places,
        *most), and which positions an axis are within one.
        """
        x, space = self, len(parts)
        first = self.ndim - space
        for number, part in enumerate(parts):
            x = x[(slice(None),) * (first + 2 * number) + (part.positions,)]
        order = [*range(first, x.ndim, 2), *range(first + 1, x.ndim, 2)]
        device = known_device(self.uop)
        return x.permute((*range(first), *order)).uop, [from_array(part.inside, device) for part in parts]


def _rank(kernel_size: Each) -> int:
    return len(kernel_size) if isinstance(kernel_size, Sequence) and len(kernel_size) > 1 else 2


def _least(dtype: DType) -> UOp:
    return UOp.const(dtype, -np.inf if dtype.is_float else dtype.min)


def _within(seen: UOp, space: int) -> range:
    """The axes within windows (..., *places, *size)."""
    return range(seen.ndim - space, seen.ndim)


def _total(seen: UOp, space: int) -> UOp:
    return fold(seen, Ops.ADD, _within(seen, space))


def _greatest(seen: UOp, space: int) -> UOp:
    return fold(seen, Ops.MAX, _within(seen, space))


def _where_greatest(seen: UOp, positions: Sequence[UOp], inside: Sequence[UOp], lengths: Sizes) -> UOp:
    """The position in the space of the greatest element of each window; `positions` and `inside` are (places,
    size), an axis.

    A key for each candidate, of which the greatest wins: of numbers the first, of NaN the last.
    """
    space, elements = len(lengths), prod(lengths)
    flat: UOp | None = None
    for axis, at in enumerate(positions):
        step = crossed(
            at.cast(dtypes.i64 if 2 * elements > dtypes.i32.max else dtypes.i32), axis, space
        ) * prod(lengths[axis + 1 :])
        flat = step if flat is None else flat + step
    assert flat is not None
    best = fold(seen, Ops.MAX, _within(seen, space), keepdim=True)
    chosen = (seen.eq(best) & _all(inside, space)).where(elements - 1 - flat, -1)
    if seen.dtype.is_float:
        chosen = compose.is_nan(seen).where(elements + flat, chosen)
    key = _greatest(chosen, space)
    return (key < elements).where(elements - 1 - key, key - elements).cast(dtypes.i64)


def _all(inside: Sequence[UOp], space: int) -> UOp:
    """Where conditions (places, size), one an axis, all hold: (*places, *size)."""
    both = crossed(inside[0], 0, space)
    for axis, condition in enumerate(inside[1:], 1):
        both = both & crossed(condition, axis, space)
    return both
