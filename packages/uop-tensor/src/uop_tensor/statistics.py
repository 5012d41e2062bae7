"""More folds: extremes and moments together, sums without NaN,
norms of vectors and distances of them. Week 5.
"""

from __future__ import annotations

import math
from typing import Self

from uop_ir import DType, Ops, UOp

from . import compose, shapes
from .errors import TensorError
from .graph import broadcast_to, fold
from .linalg import LinearAlgebra
from .promotion import accumulator, as_float, promote
from .shapes import Axis
from .value import Operand, device_beside, strong


class Statistics(LinearAlgebra):
    """`axis` is a number, several, or None for all axes; `keepdim` keeps them with size 1."""

    def amax(self, axis: Axis = None, keepdim: bool = False) -> Self:
        """`max`."""
        return self.max(axis, keepdim)

    def amin(self, axis: Axis = None, keepdim: bool = False) -> Self:
        """`min`."""
        return self.min(axis, keepdim)

    def aminmax(self, axis: Axis = None, keepdim: bool = False) -> tuple[Self, Self]:
        """The least and the greatest."""
        return self.min(axis, keepdim), self.max(axis, keepdim)

    def std_mean(self, axis: Axis = None, keepdim: bool = False, correction: int = 1) -> tuple[Self, Self]:
        """`std` and `mean`."""
        return self.std(axis, keepdim, correction), self.mean(axis, keepdim)

    def var_mean(self, axis: Axis = None, keepdim: bool = False, correction: int = 1) -> tuple[Self, Self]:
        """`var` and `mean`."""
        return self.var(axis, keepdim, correction), self.mean(axis, keepdim)

    def equal(self, other: Operand) -> bool:
        """Whether the shapes are the same, and every element is equal; it is read at once."""
        node = strong("equal", other, device_beside(self))
        return isinstance(node, UOp) and node.shape == self.shape and bool((self == other).all())

    def allclose(
        self, other: Operand, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
    ) -> bool:
        """Whether all elements are close (see `isclose`); it is read at once."""
        return bool(self.isclose(other, rtol, atol, equal_nan).all())

    def nansum(self, axis: Axis = None, keepdim: bool = False, dtype: DType | None = None) -> Self:
        """The sum of what is not NaN."""
        return self.isnan().where(0, self).sum(axis, keepdim, dtype)

    def nanmean(self, axis: Axis = None, keepdim: bool = False) -> Self:
        """The mean of what is not NaN; NaN where nothing is left."""
        dtype = as_float(self.dtype)
        x = self.cast(accumulator(dtype))
        counted = (~x.isnan()).cast(x.dtype).sum(axis, keepdim)
        return (x.nansum(axis, keepdim) / counted).cast(dtype)

    def count_nonzero(self, axis: Axis = None, keepdim: bool = False) -> Self:
        """How many elements are not zero, as i64."""
        return self.bool().sum(axis, keepdim)

    def softmin(self, axis: int = -1) -> Self:
        """softmax(-x)."""
        return (-self).softmax(axis)

    def norm(self, p: float | str = 2, axis: Axis = None, keepdim: bool = False) -> Self:
        """(sum |x|**p) ** (1/p) of the elements along the axes, taken as one vector; "fro" is 2.

        p = inf is the greatest |x|, -inf the least, 0 the number of elements that are not zero. The
        derivative of a norm that is 0 is 0. f16 and bf16 are computed in f32; squares may overflow.
        """
        order = {"fro": 2.0, "inf": math.inf, "-inf": -math.inf}.get(p) if isinstance(p, str) else float(p)
        if order is None or math.isnan(order):
            raise TensorError(f"norm: p={p!r}", remedy='a number, inf, -inf or "fro"')
        dtype = as_float(self.dtype)
        size = self.cast(accumulator(dtype)).abs()
        if math.isinf(order):
            found = size.max(axis, keepdim) if order > 0 else size.min(axis, keepdim)
            return found.cast(dtype)
        axes = shapes.axes("norm", self.ndim, axis)
        x = size.uop
        powers = x.ne(0).cast(x.dtype) if order == 0 else _positive_power(x, order)
        total = fold(powers, Ops.ADD, axes, keepdim)
        return self._of((total if order in (0, 1) else _positive_power(total, 1 / order)).cast(dtype))

    def dist(self, other: Operand, p: float = 2) -> Self:
        """The `norm` of the difference of all elements."""
        return (self - other).norm(p)

    def cosine_similarity(self, other: Operand, axis: int = 1, eps: float = 1e-8) -> Self:
        """sum(x y) / (|x| |y|) of the vectors along an axis; a length counts as `eps` at least."""
        x, y, dtype = self._vectors("cosine_similarity", other)
        shape = shapes.broadcast("cosine_similarity", x.shape, y.shape)
        x, y = (self._of(broadcast_to(v.uop, shape)) for v in (x, y))
        lengths = x.norm(2, axis).maximum(eps) * y.norm(2, axis).maximum(eps)
        return ((x * y).sum(axis) / lengths).cast(dtype)

    def pairwise_distance(
        self, other: Operand, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
    ) -> Self:
        """The norm of x - y + eps along the last axis."""
        x, y, dtype = self._vectors("pairwise_distance", other)
        shapes.broadcast("pairwise_distance", x.shape, y.shape)
        return (x - y + eps).norm(p, -1, keepdim).cast(dtype)

    def cdist(self, other: Operand, p: float = 2.0) -> Self:
        """The distances of each row of x (..., n, k) from each of y (..., m, k), as (..., n, m)."""
        x, y, dtype = self._vectors("cdist", other)
        if x.ndim < 2 or y.ndim < 2 or x.shape[-1] != y.shape[-1]:
            raise TensorError(
                f"cdist: shapes {x.shape} and {y.shape}", remedy="give (..., n, k) and (..., m, k)"
            )
        shapes.broadcast("cdist", x.shape[:-2], y.shape[:-2])
        return (x.unsqueeze(-2) - y.unsqueeze(-3)).norm(p, -1).cast(dtype)

    def _vectors(self, method: str, other: Operand) -> tuple[Self, Self, DType]:
        """Both in one float dtype, f32 at least, and the dtype of the result."""
        node = strong(method, other, device_beside(self))
        if not isinstance(node, UOp) or not (self.ndim and node.ndim):
            raise TensorError(f"{method}: a number is no vector", remedy="give tensors of one axis or more")
        dtype = as_float(promote(method, self.dtype, node.dtype))
        return self.cast(accumulator(dtype)), self._of(node.cast(accumulator(dtype))), dtype


def _positive_power(x: UOp, exponent: float) -> UOp:
    """x ** exponent of what is not negative; the derivative at 0 is 0."""
    if exponent in (1, 2):
        return x if exponent == 1 else x * x
    if exponent < 0:
        return compose.power(x, x.const_like(exponent))
    zero = x.eq(0)
    safe = zero.where(x.const_like(1), x)
    power = safe.alu(Ops.SQRT) if exponent == 0.5 else compose.power(safe, x.const_like(exponent))
    return zero.where(x.const_like(0), power)
