"""How elements are distributed: covariance, histograms, and integrals by trapezoids. Week 5."""

from __future__ import annotations

from typing import Self

from uop_ir import Ops, dtypes

from . import compose, shapes
from .data import Number
from .errors import TensorError
from .graph import broadcast_to, detach, fold
from .picking import grouped
from .promotion import accumulator, as_float
from .statistics import Statistics
from .value import Operand, Value


class Distribution(Statistics):
    """f16 and bf16 are computed in f32 and rounded once."""

    def cov(self, correction: Number = 1, fweights: Self | None = None, aweights: Self | None = None) -> Self:
        """The covariances of the rows of a matrix, whose columns are observations; of a vector, its variance.

        `fweights` says how often a column counts, `aweights` how much it weighs. Integers are computed as
        f32.
        """
        if self.ndim > 2:
            raise TensorError(
                f"cov: a tensor of shape {self.shape}", remedy="rows of observations, or one row"
            )
        dtype = as_float(self.dtype)
        rows = self.shape[0] if self.ndim == 2 else 1
        x = self.cast(accumulator(dtype)).reshape((rows, self.shape[-1] if self.ndim else 1))
        n = x.shape[1]
        counts, weights = (
            None if w is None else self._weights(name, w, n).cast(x.dtype)
            for name, w in (("fweights", fweights), ("aweights", aweights))
        )
        if counts is None and weights is None:
            centred = x - x.mean(1, keepdim=True)
            found = centred @ centred.mT / float(max(n - correction, 0))
        else:
            each = weights if counts is None else counts if weights is None else counts * weights
            assert each is not None
            total = each.sum()
            centred = x - (x * each).sum(1, keepdim=True) / total
            lost = 1 if weights is None else (each * weights).sum() / total
            found = centred @ (centred * each).mT / (total - lost * correction).maximum(0)
        found = found.cast(dtype)
        return found if rows != 1 else found.reshape(())

    def _weights(self, name: str, weights: Self, n: int) -> Self:
        if weights.shape != (n,) or (name == "fweights" and not weights.dtype.is_int):
            raise TensorError(
                f"cov: {name} {weights.dtype}{weights.shape} for {n} observations",
                remedy="one number each, of fweights an integer",
            )
        return weights

    def corrcoef(self) -> Self:
        """The correlations of the rows of a matrix, from -1 to 1; of a vector 1. See `cov`."""
        found = self.cov()
        if found.ndim == 0:
            return found / found
        scale = found.diagonal().sqrt()
        return (found / scale.unsqueeze(1) / scale).clip(-1, 1)

    def histc(self, bins: int = 100, min: float = 0, max: float = 0) -> Self:
        """How many elements lie in each of `bins` parts of equal size from `min` to `max`, in this dtype.

        Where both are the same, from the least element to the greatest. What lies outside does not count.
        """
        if not self.dtype.is_float:
            raise TensorError(f"histc: a tensor of dtype {self.dtype}", remedy="cast it to a float type")
        if bins < 1 or not min <= max:
            raise TensorError(f"histc: {bins} bins from {min} to {max}", remedy="at least 1, min <= max")
        x = detach(self.reshape(-1).uop.cast(accumulator(self.dtype)))
        low, high = x.const_like(min), x.const_like(max)
        if min == max and self.numel():
            low, high = -fold(-x, Ops.MAX, (0,)), fold(x, Ops.MAX, (0,))
        same = low.eq(high)
        low, high = same.where(low - 1, low), same.where(high + 1, high)
        place = compose.floor((x - low) / (high - low) * bins)
        place = x.eq(high).where(x.const_like(bins - 1), place)
        inside = ((x < low) | (high < x) | compose.is_nan(x)) ^ True
        at = inside.where(place, -1).cast(dtypes.i32)
        one = broadcast_to(x.const_like(1), x.shape)
        return self._of(grouped(Ops.ADD, one, at, 0, bins).cast(self.dtype))

    def trapezoid(self, x: Operand | None = None, *, dx: Operand = 1, axis: int = -1) -> Self:
        """The integral along an axis by the trapezoidal rule, of values at `x`, or `dx` apart.

        `x` is a vector, or broadcasts to this tensor. Integers are computed as f32.
        """
        return self._trapezoids("trapezoid", x, dx, axis).sum(axis)

    trapz = trapezoid

    def cumulative_trapezoid(self, x: Operand | None = None, *, dx: Operand = 1, axis: int = -1) -> Self:
        """The integrals up to each element but the first; see `trapezoid`."""
        return self._trapezoids("cumulative_trapezoid", x, dx, axis).cumsum(axis)

    def _trapezoids(self, method: str, x: Operand | None, dx: Operand, axis: int) -> Self:
        at = shapes.one_axis(method, self.ndim, axis)
        n = self.shape[at]
        y = self.cast(as_float(self.dtype))
        if x is None:
            width = dx
        else:
            places = self._operand(method, x) if not isinstance(x, Value) else self._of(x.uop)
            if places.ndim == 1:
                places = places.reshape((-1, *(1,) * (self.ndim - at - 1)))
            shapes.broadcast(method, self.shape, places.shape)
            along = places.ndim - (self.ndim - at)
            width = places.diff(axis=along)
        begin, end = y.narrow(at, 0, max(n - 1, 0)), y.narrow(at, min(n, 1), max(n - 1, 0))
        return (begin + end) * width * 0.5
