"""Linear algebra of small matrices: determinants, inverses, equations and factors. Week 5."""

from __future__ import annotations

import math
from typing import Self

from uop_ir import DType, UOp

from . import compose, shapes
from .elimination import cholesky, eliminate, householder, part, substitute, transposed
from .errors import TensorError
from .graph import broadcast_to, with_gradient_of
from .products import Products
from .promotion import accumulator, as_float
from .value import Operand

#: Each column is a few kernels of a plan, so their number is bounded.
LARGEST = 64


class LinearAlgebra(Products):
    """Of matrices (..., n, m) with at most 64 columns;
    integers are taken as f32, f16 and bf16 computed in f32.

    Everything has gradients. What is singular gives infinities and NaN, since nothing is looked at while a
    graph is made.
    """

    def det(self) -> Self:
        """The determinant of square matrices, by elimination;
        its gradient at singular ones is not that of torch.
        """
        (a,), dtype = self._small("det", square=True)
        _, pivots, sign = eliminate(a, part(a, None, (0, 0)), singular=True)
        for pivot in pivots:
            sign = sign * pivot
        return self._of(sign.reshape(self.shape[:-2]).cast(dtype))

    def slogdet(self) -> tuple[Self, Self]:
        """The sign of the determinant, and the logarithm of its magnitude."""
        (a,), dtype = self._small("slogdet", square=True)
        _, pivots, sign = eliminate(a, part(a, None, (0, 0)), singular=True)
        total = sign * 0
        for pivot in pivots:
            sign = sign * compose.sign(pivot)
            total = total + compose.log(compose.absolute(pivot))
        shape = self.shape[:-2]
        return self._of(sign.reshape(shape).cast(dtype)), self._of(total.reshape(shape).cast(dtype))

    def logdet(self) -> Self:
        """The logarithm of the determinant; NaN where that is negative."""
        sign, logarithm = self.slogdet()
        return (sign < 0).where(math.nan, logarithm)

    def inv(self) -> Self:
        """The inverse of square matrices."""
        (a,), dtype = self._small("inv", square=True)
        n = self.shape[-1]
        one = type(self).eye(n, dtype=a.dtype).uop
        return self._of(eliminate(a, broadcast_to(one, a.shape))[0].cast(dtype))

    inverse = inv

    def matrix_power(self, n: int) -> Self:
        """Square matrices (..., m, m) multiplied n times, by repeated squaring;
        n = 0 gives the identity, n < 0 a power of the inverse.
        """
        self._square("matrix_power")
        if n < 0:
            return self.inv().matrix_power(-n)
        result: Self | None = None
        power = self
        while n:
            if n & 1:
                result = power if result is None else result @ power
            n >>= 1
            power = power @ power if n else power
        if result is not None:
            return result
        one = type(self).eye(self.shape[-1], dtype=self.dtype)
        return one.expand(self.shape)

    def solve(self, other: Operand) -> Self:
        """The x with self @ x = other: of one vector (n,), or of matrices (..., n, k); batches broadcast."""
        (a, b), dtype = self._small("solve", other, square=True)
        if not b.ndim:
            raise TensorError("solve: a right side of shape ()", remedy="it has one axis or more")
        vector = b.ndim == 1
        b = b.reshape((*b.shape, 1)) if vector else b
        a, b = self._beside("solve", a, b)
        x = eliminate(a, b)[0]
        return self._of((x.reshape(x.shape[:-1]) if vector else x).cast(dtype))

    def solve_triangular(
        self, other: Operand, *, upper: bool, left: bool = True, unitriangular: bool = False
    ) -> Self:
        """The x with self @ x = other (`left`) or x @ self = other, of triangular matrices.

        The other triangle is not looked at, nor, if `unitriangular`, the diagonal, which counts as ones.
        """
        (a, b), dtype = self._small("solve_triangular", other, square=True)
        if b.ndim < 2:
            raise TensorError(
                f"solve_triangular: a right side of shape {b.shape}", remedy="it has two axes or more"
            )
        if not left:  # the transposes: self.T @ x.T = other.T
            a, b = transposed(a), transposed(b)
        a, b = self._beside("solve_triangular", a, b)
        lower = upper != left
        if not lower:  # from the last row to the first
            a, b = _reversed(a, both=True), _reversed(b, both=False)
        x = substitute(a, b, unitriangular)
        x = x if lower else _reversed(x, both=False)
        return self._of((x if left else transposed(x)).cast(dtype))

    def cholesky(self, upper: bool = False) -> Self:
        """The lower triangular L with L @ L.T = self,
        of symmetric positive definite matrices; `upper`: its transpose.

        Only the lower triangle is looked at (`upper`: the upper one); NaN where a matrix is not positive
        definite.
        """
        (a,), dtype = self._small("cholesky", square=True)
        # both triangles take part in the gradient, evenly, as those of a symmetric matrix change together
        a = with_gradient_of(transposed(a) if upper else a, (a + transposed(a)) / 2)
        found = cholesky(a)
        return self._of((transposed(found) if upper else found).cast(dtype))

    def qr(self, mode: str = "reduced") -> tuple[Self, Self]:
        """Q with orthonormal columns and upper triangular R with Q @ R = self, signs as in LAPACK.

        Of (..., n, m) and k = min(n, m), Q is (..., n, k) and R (..., k, m), with mode="complete" (..., n, n)
        and (..., n, m).
        """
        if mode not in ("reduced", "complete"):
            raise TensorError(f"qr: mode={mode!r}", remedy='"reduced" or "complete"')
        (a,), dtype = self._small("qr", square=False)
        q, r = householder(a)
        if mode == "reduced":
            k = min(self.shape[-2:])
            q, r = part(q, None, (0, k)), part(r, (0, k), None)
        return self._of(q.cast(dtype)), self._of(r.cast(dtype))

    def _small(self, method: str, *others: Operand, square: bool) -> tuple[tuple[UOp, ...], DType]:
        """This tensor and others in one dtype, f32 or f64, and the dtype of the result."""
        if square:
            self._square(method)
        elif self.ndim < 2:
            raise TensorError(
                f"{method}: a tensor of shape {self.shape}", remedy="it needs matrices (..., n, m)"
            )
        if not 1 <= min(self.shape[-2:]) <= max(self.shape[-2:]) <= LARGEST:
            raise TensorError(
                f"{method}: matrices of shape {self.shape}",
                remedy=f"1 to {LARGEST} rows and columns; use numpy()",
            )
        nodes = self._two(method, others[0]) if others else (self.uop,)
        dtype = as_float(nodes[0].dtype)
        return tuple(n.cast(accumulator(dtype)) for n in nodes), dtype

    def _beside(self, method: str, a: UOp, b: UOp) -> tuple[UOp, UOp]:
        """Matrices and right sides as batches of one shape."""
        if a.shape[-1] != b.shape[-2]:
            raise TensorError(
                f"{method}: a right side of shape {b.shape} for matrices of shape {a.shape}",
                remedy="as many rows as the matrices",
            )
        batch = shapes.broadcast(method, a.shape[:-2], b.shape[:-2])
        return broadcast_to(a, (*batch, *a.shape[-2:])), broadcast_to(b, (*batch, *b.shape[-2:]))


def _reversed(x: UOp, both: bool) -> UOp:
    """The rows in reverse order, or rows and columns."""
    return x.flip([*[False] * (x.ndim - 2), True, both])
