"""Running sums, products, extremes and differences along an axis. Week 5.

A running fold is a fold of all elements up to each one, by a mask; the code generators carry it along, so
that it takes one step an element.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Self

from uop_ir import REDUCE_IDENTITY, DType, Ops, UOp, dtypes

from . import compose, shapes
from .creation import count, lower
from .errors import TensorError
from .graph import detach, fold, unsqueezed, with_gradient_of
from .padding import constant
from .promotion import accumulator, as_float, as_number, sum_type
from .reduce import Reduction
from .transcendental import logaddexp
from .windows import cut


class Cumulative(Reduction):
    """The results have the shape of the tensor."""

    def cumsum(self, axis: int = 0, dtype: DType | None = None) -> Self:
        """The sums of the elements up to each one, in the dtype of `sum`; f16 and bf16 are added in f32."""
        at, dtype = self._axis_and_dtype("cumsum", axis, dtype)
        return self._of(running(self.uop.cast(dtype).cast(accumulator(dtype)), Ops.ADD, at).cast(dtype))

    def cumprod(self, axis: int, dtype: DType | None = None) -> Self:
        """The products of the elements up to each one,
        in the dtype of `prod`; f16 and bf16 are multiplied in f32.

        The gradient takes log2(n) steps an element, and is right beside zeros.
        """
        at, dtype = self._axis_and_dtype("cumprod", axis, dtype)
        x = self.uop.cast(dtype).cast(accumulator(dtype))
        product = running(x, Ops.MUL, at)
        if dtype.is_float:
            product = with_gradient_of(product, scan(x, at, UOp.__mul__, 1.0))
        return self._of(product.cast(dtype))

    def _axis_and_dtype(self, method: str, axis: int, dtype: DType | None) -> tuple[int, DType]:
        if dtype is dtypes.bool:
            raise TensorError(f"{method}: dtype bool", remedy="compare the result with 0")
        return shapes.one_axis(method, self.ndim, axis), dtype or sum_type(self.dtype)

    def cummax(self, axis: int = 0) -> tuple[Self, Self]:
        """The greatest of the elements up to each one, and its position as i64: of equal ones the last.

        NaN is the greatest. The gradient goes to the element at that position.
        """
        return self._extremes("cummax", axis, lambda x: x)

    def cummin(self, axis: int = 0) -> tuple[Self, Self]:
        """The least of the elements up to each one, and its position as i64: of equal ones the last.

        NaN is the least. The gradient goes to the element at that position.
        """
        return self._extremes("cummin", axis, compose.mirrored)

    def _extremes(self, method: str, axis: int, mirror: Callable[[UOp], UOp]) -> tuple[Self, Self]:
        at = shapes.one_axis(method, self.ndim, axis)
        x = as_number(self.uop)
        key = mirror(detach(x))
        best = running(key, Ops.MAX, at)
        last = key.eq(best) | compose.is_nan(key) if key.dtype.is_float else key.eq(best)
        n = self.shape[at]
        positions = count(n, dtypes.i32).reshape((n, *(1,) * (self.ndim - at - 1)))
        found = running(last.where(positions, -1), Ops.MAX, at)
        value = mirror(best)
        if x.dtype.is_float:
            here = unsqueezed(found, at + 1).eq(positions)
            value = with_gradient_of(value, fold(here.where(unsqueezed(x, at), 0), Ops.ADD, (at + 1,)))
        return self._of(value.cast(self.dtype)), self._of(found.cast(dtypes.i64))

    def logcumsumexp(self, axis: int) -> Self:
        """log(cumsum(exp(x))) without overflow, in log2(n) steps an element;
        f16 and bf16 are computed in f32.
        """
        at = shapes.one_axis("logcumsumexp", self.ndim, axis)
        dtype = as_float(self.dtype)
        x = self.uop.cast(accumulator(dtype))
        return self._of(scan(x, at, logaddexp, -math.inf).cast(dtype))

    def diff(
        self, n: int = 1, axis: int = -1, prepend: Self | None = None, append: Self | None = None
    ) -> Self:
        """The differences between each element and the one before it,
        taken n times; of bool, where they differ.

        `prepend` and `append` are joined to this tensor along the axis first.
        """
        at = shapes.one_axis("diff", self.ndim, axis)
        if n < 0:
            raise TensorError(f"diff: n={n}", remedy="at least 0")
        parts = [t for t in (prepend, self, append) if t is not None]
        x = parts[0].cat(*parts[1:], axis=at)
        for _ in range(min(n, x.shape[at])):
            size = max(x.shape[at] - 1, 0)
            after, before = x.narrow(at, x.shape[at] - size, size), x.narrow(at, 0, size)
            x = after != before if x.dtype is dtypes.bool else after - before
        return x


def running(x: UOp, op: Ops, axis: int) -> UOp:
    """The folds of the elements up to each one of an axis."""
    n = x.shape[axis]
    mask = lower(n, n).reshape((n, n, *(1,) * (x.ndim - axis - 1)))
    return fold(mask.where(unsqueezed(x, axis), REDUCE_IDENTITY[op](x.dtype)), op, (axis + 1,))


def scan(x: UOp, axis: int, combine: Callable[[UOp, UOp], UOp], identity: float) -> UOp:
    """What an associative function makes of the elements up to each one: each result joined with the one 1,
    2, 4, ... places before it.

    Hillis, Steele: Data parallel algorithms, 1986. Its gradient is the rule table's, as no element is divided
    out.
    """
    n, step = x.shape[axis], 1
    if isinstance(n, UOp):
        raise TensorError(
            "a scan along a size of a jitted function, whose value is needed",
            remedy="compute it for the greatest size, then slice",
        )
    before = [(0, 0)] * axis
    while step < n:
        kept = cut(x, axis, 0, n - step)
        moved = constant(kept, [*before, (step, 0), *[(0, 0)] * (x.ndim - axis - 1)], x.const_like(identity))
        x = combine(moved, x)
        step *= 2
    return x
