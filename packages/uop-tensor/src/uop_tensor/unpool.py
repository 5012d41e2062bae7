"""Windows undone, and pools of norms: what goes back to the places that a window has seen. Week 5."""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import prod
from typing import Self

from uop_ir import Ops

from .conv import Each, check_windows, each
from .errors import TensorError
from .graph import fold
from .places import places_of
from .pooling import Pooling
from .promotion import accumulator, as_float
from .shapes import integers
from .windows import Sizes, unwindow, windows


class Unpooling(Pooling):
    """Operands have the shape (batch, channels, *space), or that without the batch."""

    def max_unpool1d(
        self,
        indices: Self,
        kernel_size: Each,
        stride: Each | None = None,
        padding: Each = 0,
        output_size: Sequence[int] | None = None,
    ) -> Self:
        """`max_unpool2d` over one axis of space."""
        return self._max_unpool(1, indices, kernel_size, stride, padding, output_size)

    def max_unpool2d(
        self,
        indices: Self,
        kernel_size: Each,
        stride: Each | None = None,
        padding: Each = 0,
        output_size: Sequence[int] | None = None,
    ) -> Self:
        """Zeros, with each element where it came from, as the `indices` of
        `max_pool2d(..., return_indices=True)` say.

        The space is (places - 1) * stride - 2 * padding + size, or `output_size`, which may have all axes. Of
        several elements for one place the last is taken; one with a position out of range is left out. Raises
        TensorError for indices of another shape.
        """
        return self._max_unpool(2, indices, kernel_size, stride, padding, output_size)

    def max_unpool3d(
        self,
        indices: Self,
        kernel_size: Each,
        stride: Each | None = None,
        padding: Each = 0,
        output_size: Sequence[int] | None = None,
    ) -> Self:
        """`max_unpool2d` over three axes of space."""
        return self._max_unpool(3, indices, kernel_size, stride, padding, output_size)

    def _max_unpool(
        self,
        space: int,
        indices: Self,
        kernel_size: Each,
        stride: Each | None,
        padding: Each,
        output_size: Sequence[int] | None,
    ) -> Self:
        method = f"max_unpool{space}d"
        _check_axes(method, self.shape, space + 1)
        if indices.shape != self.shape:
            raise TensorError(
                f"{method}: indices of shape {indices.shape} for {self.shape}", remedy="one an element"
            )
        size = each(method, "kernel_size", kernel_size, space, 1)
        strides = size if stride is None else each(method, "stride", stride, space, 1)
        cuts = each(method, "padding", padding, space, 0)
        places = self.shape[-space:]
        lengths = tuple(
            (n - 1) * s - 2 * c + k for n, s, c, k in zip(places, strides, cuts, size, strict=True)
        )
        if output_size is not None:
            lengths = integers(method, (output_size,))[-space:]
        if len(lengths) != space or min(lengths) < 1:
            raise TensorError(f"{method}: a space of {lengths}", remedy="one size from 1 an axis of space")
        front = self.shape[:-space]
        flat = (*front, prod(places))
        zeros = self._of(self.uop.const_like(0)).expand((*front, prod(lengths)))
        return zeros.scatter(-1, indices.reshape(flat), self.reshape(flat)).reshape((*front, *lengths))

    def im2col(self, kernel_size: Each, dilation: Each = 1, padding: Each = 0, stride: Each = 1) -> Self:
        """The windows of a space of two axes as columns: (batch, channels * elements of a window, places), as
        torch's `functional.unfold`. Raises TensorError where a window does not fit.
        """
        _check_axes("im2col", self.shape, 3)
        size, steps, cuts, strides = _windows("im2col", kernel_size, dilation, padding, stride)
        padded = self.pad([n for c in reversed(cuts) for n in (c, c)])
        check_windows("im2col", self.shape, padded.shape[-2:], size, steps)
        seen = windows(padded.uop, size, strides, steps)
        at = self.ndim - 2  # behind the places stand the elements of a window
        ordered = self._of(seen.permute((*range(at), at + 2, at + 3, at, at + 1)))
        *batch, channels = self.shape[:-2]
        return ordered.reshape((*batch, channels * prod(size), prod(ordered.shape[-2:])))

    def fold(
        self,
        output_size: Each,
        kernel_size: Each,
        dilation: Each = 1,
        padding: Each = 0,
        stride: Each = 1,
    ) -> Self:
        """The transpose of `im2col`: windows (batch,
        channels * elements of a window, places) added up where they stand.

        Raises TensorError where the windows are not those of a space of this size.
        """
        _check_axes("fold", self.shape, 2)
        size, steps, cuts, strides = _windows("fold", kernel_size, dilation, padding, stride)
        space = each("fold", "output_size", output_size, 2, 1)
        lengths = tuple(n + 2 * c for n, c in zip(space, cuts, strict=True))
        free = [n - d * (k - 1) - 1 for n, d, k in zip(lengths, steps, size, strict=True)]
        places = [f // s + 1 for f, s in zip(free, strides, strict=True)]
        *batch, rows, columns = self.shape
        if rows % prod(size) or min(free) < 0 or columns != prod(places):
            raise TensorError(
                f"fold: {self.shape} as windows of size {size} in a space of {space}",
                remedy=f"(batch, channels * {prod(size)}, {' * '.join(map(str, places))})",
            )
        seen = self.reshape((*batch, rows // prod(size), *size, *places))
        at = seen.ndim - 4
        ordered = seen.permute(*range(at), at + 2, at + 3, at, at + 1)
        whole = unwindow(ordered.uop, lengths, strides, steps)
        return self._of(whole).pad([-c for c in reversed(cuts) for _ in range(2)])

    def lp_pool1d(
        self, norm_type: float, kernel_size: Each, stride: Each | None = None, ceil_mode: bool = False
    ) -> Self:
        """`lp_pool2d` over one axis of space."""
        return self._lp_pool(1, norm_type, kernel_size, stride, ceil_mode)

    def lp_pool2d(
        self, norm_type: float, kernel_size: Each, stride: Each | None = None, ceil_mode: bool = False
    ) -> Self:
        """(sum x**p) ** (1/p) of each window, p the `norm_type`;
        of integers, as f32. The derivative at a sum of 0 is 0.

        With `ceil_mode`, what a window has less than others counts as the mean of its powers, as in torch.
        """
        return self._lp_pool(2, norm_type, kernel_size, stride, ceil_mode)

    def lp_pool3d(
        self, norm_type: float, kernel_size: Each, stride: Each | None = None, ceil_mode: bool = False
    ) -> Self:
        """`lp_pool2d` over three axes of space."""
        return self._lp_pool(3, norm_type, kernel_size, stride, ceil_mode)

    def _lp_pool(
        self, space: int, norm_type: float, kernel_size: Each, stride: Each | None, ceil_mode: bool
    ) -> Self:
        method = f"lp_pool{space}d"
        if not 0 < norm_type < math.inf:
            raise TensorError(f"{method}: norm_type={norm_type}", remedy="a number greater than 0")
        at = places_of(method, self.shape, space, kernel_size, stride, 0, 1, ceil_mode)
        dtype = as_float(self.dtype)
        powers = (self.cast(accumulator(dtype)) ** norm_type).uop
        seen = windows(at.padded(powers, powers.const_like(0)), at.size, at.stride, at.dilation)
        total = self._of(fold(seen, Ops.ADD, range(seen.ndim - space, seen.ndim)))
        for axis in range(space if ceil_mode else 0):
            total = total / self._of(at.counts(axis, True).cast(total.dtype)) * at.size[axis]
        zero = total.eq(0)
        return zero.where(0.0, zero.where(1.0, total) ** (1 / norm_type)).cast(dtype)


def _windows(method: str, *given: Each) -> tuple[Sizes, ...]:
    """Size, dilation, padding and stride along two axes."""
    names = (("kernel_size", 1), ("dilation", 1), ("padding", 0), ("stride", 1))
    return tuple(each(method, name, x, 2, least) for x, (name, least) in zip(given, names, strict=True))


def _check_axes(method: str, shape: tuple[int, ...], least: int) -> None:
    if len(shape) not in (least, least + 1):
        raise TensorError(
            f"{method}: a tensor of shape {shape}", remedy=f"it has {least} axes, or {least + 1} with a batch"
        )
