"""Folding axes: sums, extremes, moments, positions of extremes. Week 5."""

from __future__ import annotations

import math
from typing import Self

from uop_ir import DType, Ops, UOp, dtypes
from uop_rewrite import bounds

from . import compose, shapes
from .creation import count_to
from .errors import TensorError
from .graph import detach, fold, shape_of
from .promotion import accumulator, as_float, as_number, sum_type
from .random import Random
from .shapes import Axis


class Reduction(Random):
    """`axis` is a number, several, or None for all axes; `keepdim` keeps them with size 1."""

    def sum(self, axis: Axis = None, keepdim: bool = False, dtype: DType | None = None) -> Self:
        """Signed integers and bool are added as i64, unsigned ones as u64, f16 and bf16 in f32."""
        return self._fold("sum", Ops.ADD, axis, keepdim, dtype)

    def prod(self, axis: Axis = None, keepdim: bool = False, dtype: DType | None = None) -> Self:
        """The product, in the dtype of `sum`."""
        return self._fold("prod", Ops.MUL, axis, keepdim, dtype)

    def _fold(self, method: str, op: Ops, axis: Axis, keepdim: bool, dtype: DType | None) -> Self:
        if dtype is dtypes.bool:
            raise TensorError(f"{method}: dtype bool", remedy="compare the result with 0")
        axes = shapes.axes(method, self.ndim, axis)
        return self._of(fold(self.uop.cast(dtype or sum_type(self.dtype)), op, axes, keepdim))

    def max(self, axis: Axis = None, keepdim: bool = False) -> Self:
        """The greatest; NaN where there is one. Ties share the gradient evenly. Raises TensorError for no
        elements.
        """
        return self._of(_extreme(self.uop, self._nonempty("max", axis), keepdim))

    def min(self, axis: Axis = None, keepdim: bool = False) -> Self:
        """The least; NaN where there is one. Ties share the gradient evenly. Raises TensorError for no
        elements.
        """
        found = _extreme(compose.mirrored(self.uop), self._nonempty("min", axis), keepdim)
        return self._of(compose.mirrored(found))

    def _nonempty(self, method: str, axis: Axis) -> tuple[int, ...]:
        axes = shapes.axes(method, self.ndim, axis)
        if any(
            bounds(dim)[0] == 0 if isinstance(dim, UOp) else dim == 0
            for dim in (self.uop.shape[a] for a in axes)
        ):
            raise TensorError(
                f"{method}: no elements along axis {axis} of {self.shape}", remedy="it has no value there"
            )
        return axes

    def mean(self, axis: Axis = None, keepdim: bool = False, dtype: DType | None = None) -> Self:
        """The sum divided by the number of elements,
        in a float dtype if one is given; of integers, as f32.
        """
        dtype = _float_type("mean", self.dtype, dtype)
        x = self.uop.cast(dtype).cast(accumulator(dtype))
        axes = shapes.axes("mean", self.ndim, axis)
        return self._of(_mean(x, axes, keepdim).cast(dtype))

    def var(
        self,
        axis: Axis = None,
        keepdim: bool = False,
        correction: float = 1,
        *,
        unbiased: bool | None = None,
    ) -> Self:
        """The sum of squared distances from the mean, divided by the number of elements less `correction`.

        `unbiased` is another name of a correction of 1 or 0.
        """
        correction = correction if unbiased is None else int(unbiased)
        dtype = as_float(self.dtype)
        x = self.uop.cast(accumulator(dtype))
        axes = shapes.axes("var", self.ndim, axis)
        distance = x - _mean(x, axes, keepdim=True)
        total = fold(distance * distance, Ops.ADD, axes, keepdim)
        n = _number_of_elements(x, axes)
        left = (n - correction).maximum(0) if isinstance(n, UOp) else max(n - correction, 0)
        return self._of((total / left).cast(dtype))

    def std(
        self,
        axis: Axis = None,
        keepdim: bool = False,
        correction: float = 1,
        *,
        unbiased: bool | None = None,
    ) -> Self:
        """The square root of the variance; where that is 0, the derivative is 0."""
        return self.var(axis, keepdim, correction, unbiased=unbiased)._real(compose.flat_sqrt)

    def any(self, axis: Axis = None, keepdim: bool = False) -> Self:
        """Whether an element is not zero."""
        return self._of(_any(self.uop.cast(dtypes.bool), shapes.axes("any", self.ndim, axis), keepdim))

    def all(self, axis: Axis = None, keepdim: bool = False) -> Self:
        """Whether no element is zero."""
        zero = compose.invert(self.uop.cast(dtypes.bool))
        return self._of(compose.invert(_any(zero, shapes.axes("all", self.ndim, axis), keepdim)))

    def argmax(self, axis: int | None = None, keepdim: bool = False) -> Self:
        """The position of the first greatest element along an axis (None: of all, row-major), as i64; NaN is
        greatest.
        """
        return self._of(self._first("argmax", axis, keepdim, least=False))

    def argmin(self, axis: int | None = None, keepdim: bool = False) -> Self:
        """The position of the first least element along an axis (None: of all, row-major), as i64; NaN is
        least.
        """
        return self._of(self._first("argmin", axis, keepdim, least=True))

    def _first(self, method: str, axis: int | None, keepdim: bool, least: bool) -> UOp:
        self._nonempty(method, axis)
        x = as_number(self.uop)
        if least:
            x = compose.mirrored(x)
        if axis is None:
            x = x.reshape((self.numel(),))
        at = shapes.one_axis(method, x.ndim, 0 if axis is None else axis)
        size = x.shape[at]
        found = x.eq(fold(x, Ops.MAX, (at,), keepdim=True))
        if x.dtype.is_float:
            found = found | compose.is_nan(x)
        # of the positions counted from the end, the greatest is the first
        n = size.cast(dtypes.i32) if isinstance(size, UOp) else size
        from_end = (n - count_to(size, dtypes.i32)).reshape((size, *(1,) * (x.ndim - at - 1)))
        first = n - fold(found.where(from_end, 0), Ops.MAX, (at,), keepdim)
        if axis is None and keepdim:
            first = first.reshape((1,) * self.ndim)
        return first.cast(dtypes.i64)

    def logsumexp(self, axis: Axis = None, keepdim: bool = False) -> Self:
        """log(sum(exp(x))), without overflow; of no elements -inf."""
        axes = shapes.axes("logsumexp", self.ndim, axis)
        dtype = as_float(self.dtype)
        x = self.uop.cast(accumulator(dtype))
        shift = detach(fold(x, Ops.MAX, axes, keepdim=True))
        shift = (compose.absolute(shift) < math.inf).where(shift, 0)
        total = compose.log(fold(compose.exp(x - shift), Ops.ADD, axes, keepdim=True)) + shift
        return self._of((total if keepdim else _without(total, axes)).cast(dtype))

    def softmax(self, axis: int = -1, dtype: DType | None = None) -> Self:
        """exp(x) / sum(exp(x)) along an axis, without overflow; computed in a float dtype if one is given."""
        x, axes, dtype = self._shifted("softmax", axis, dtype)
        powers = compose.exp(x)
        return self._of((powers / fold(powers, Ops.ADD, axes, keepdim=True)).cast(dtype))

    def log_softmax(self, axis: int = -1, dtype: DType | None = None) -> Self:
        """log(softmax(x)) along an axis, without overflow or underflow; in a float dtype if one is given."""
        x, axes, dtype = self._shifted("log_softmax", axis, dtype)
        total = compose.log(fold(compose.exp(x), Ops.ADD, axes, keepdim=True))
        return self._of((x - total).cast(dtype))

    def _shifted(self, method: str, axis: int, dtype: DType | None) -> tuple[UOp, tuple[int, ...], DType]:
        """This tensor less its greatest element along an axis,
        in f32 at least; the axis; the dtype of the result.
        """
        axes = (shapes.one_axis(method, self.ndim, axis),)
        dtype = _float_type(method, self.dtype, dtype)
        x = self.uop.cast(dtype).cast(accumulator(dtype))
        return x - detach(fold(x, Ops.MAX, axes, keepdim=True)), axes, dtype


def _float_type(method: str, own: DType, wanted: DType | None) -> DType:
    """The float dtype of a result: the one that is asked for, else a tensor's own, f32 for integers."""
    if wanted is not None and not wanted.is_float:
        raise TensorError(f"{method}: dtype {wanted}", remedy="a float type")
    return wanted or as_float(own)


def _without(x: UOp, axes: tuple[int, ...]) -> UOp:
    return x.reshape([s for a, s in enumerate(x.shape) if a not in axes])


def _mean(x: UOp, axes: tuple[int, ...], keepdim: bool) -> UOp:
    return fold(x, Ops.ADD, axes, keepdim) / _number_of_elements(x, axes)


def _number_of_elements(x: UOp, axes: tuple[int, ...]) -> int | UOp:
    """How many elements are folded along axes;
    where a size of a jitted function is among them, in the dtype of x.
    """
    n: int | UOp = math.prod(shape_of(x)[a] for a in axes)
    return n.cast(x.dtype) if isinstance(n, UOp) else n


def _extreme(x: UOp, axes: tuple[int, ...], keepdim: bool) -> UOp:
    if x.dtype is dtypes.bool:
        return _any(x, axes, keepdim)
    return fold(x, Ops.MAX, axes, keepdim)


def _any(x: UOp, axes: tuple[int, ...], keepdim: bool) -> UOp:
    return fold(x.cast(dtypes.u8), Ops.MAX, axes, keepdim).cast(dtypes.bool)
