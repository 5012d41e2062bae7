"""Gauss-Jordan elimination, Cholesky, Householder and substitution as graphs, a step for each column. Week 5.

After each step the matrix is turned or shifted, so that the next one works on the first column again: all
steps are one program, compiled once. Nodes of f32 or f64, matrices (..., n, n).
"""

from __future__ import annotations

from collections.abc import Sequence

from uop_ir import Ops, UOp, dtypes

from . import compose
from .creation import count
from .graph import broadcast_to, detach, fold, shape_of, stored


def part(x: UOp, rows: tuple[int, int] | None, columns: tuple[int, int] | None) -> UOp:
    """Some rows and columns (None: all) of matrices."""
    *batch, n, m = shape_of(x)
    return x.shrink([*((0, s) for s in batch), rows or (0, n), columns or (0, m)])


def padded(x: UOp, rows: tuple[int, int], columns: tuple[int, int]) -> UOp:
    """Zeros around matrices."""
    return x.pad([*[(0, 0)] * (x.ndim - 2), rows, columns])


def transposed(x: UOp) -> UOp:
    return x.permute((*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


def product(x: UOp, y: UOp) -> UOp:
    """x @ transposed(y)."""
    left = x.reshape((*x.shape[:-1], 1, x.shape[-1]))
    right = y.reshape((*y.shape[:-2], 1, *y.shape[-2:]))
    whole = left * right
    return fold(whole, Ops.ADD, (whole.ndim - 1,))


def _over_rows(x: UOp, op: Ops = Ops.ADD) -> UOp:
    return fold(x, op, (x.ndim - 2,), keepdim=True)


def eliminate(a: UOp, b: UOp, singular: bool = False) -> tuple[UOp, list[UOp], UOp]:
    """The x with a @ x = b, b (..., n, m); the pivots, each (..., 1, 1); and the sign of their order.

    The pivot of a column is its greatest element in a row that has none yet, the first of equal ones; rows
    stay where they are, so that `a` ends as the permutation that puts them in order. `singular` goes on
    behind a pivot of 0, with another x; otherwise x is infinite or NaN.
    """
    n = shape_of(a)[-1]
    free = broadcast_to(UOp.const(dtypes.bool, True), (*a.shape[:-1], 1))
    order = (n - count(n, dtypes.i32)).reshape((n, 1))
    sign = broadcast_to(a.const_like(1), (*a.shape[:-2], 1, 1))
    pivots: list[UOp] = []
    for _ in range(n):
        column = part(a, None, (0, 1))
        size = free.where(detach(compose.absolute(column)), -1)
        chosen = (free & size.eq(_over_rows(size, Ops.MAX))).where(order, 0)
        place = _over_rows(chosen, Ops.MAX)
        here = stored(order.eq(place))
        above = _over_rows((free & (place < order)).cast(dtypes.i32))
        sign = (above % 2).eq(0).where(sign, -sign)
        row, right = (stored(_over_rows(here.where(x, 0))) for x in (a, b))
        pivot = part(row, None, (0, 1))
        pivots.append(pivot)
        divisor = pivot.eq(0).where(pivot.const_like(1), pivot) if singular else pivot
        row, right = row / divisor, right / divisor
        a = here.where(row, a - column * row)
        a = stored(
            padded(part(a, None, (1, n)), (0, 0), (0, 1)) + padded(part(a, None, (0, 1)), (0, 0), (n - 1, 0))
        )
        b = stored(here.where(right, b - column * right))
        free = stored(free & compose.invert(here))
    return product(transposed(a), transposed(b)), pivots, sign


def _shifted(x: UOp) -> UOp:
    """Without the first row and column, and zeros at the end."""
    *_, n, m = shape_of(x)
    return padded(part(x, (1, n), (1, m)), (0, 1), (0, 1))


def _joined(columns: Sequence[UOp]) -> UOp:
    """Columns (..., n, 1) beside each other."""
    stacked = UOp(Ops.STACK, columns)  # k, ..., n, 1
    return stacked.permute((*range(1, stacked.ndim - 1), 0, stacked.ndim - 1)).reshape(
        (*stacked.shape[1:-1], len(columns))
    )


def cholesky(a: UOp) -> UOp:
    """The lower triangular L with L @ L.T = a, a symmetric; only the lower triangle is looked at."""
    n = shape_of(a)[-1]
    columns = []
    for k in range(n):
        column = part(a, None, (0, 1))
        root = part(column, (0, 1), None).alu(Ops.SQRT)
        column = stored(column / root)
        a = stored(_shifted(a - column * transposed(column)))
        columns.append(padded(part(column, (0, n - k), None), (k, 0), (0, 0)))
    return _joined(columns)


def substitute(a: UOp, b: UOp, unit: bool) -> UOp:
    """The x with a @ x = b for lower triangular a; `unit`: its diagonal counts as ones."""
    n = shape_of(a)[-1]
    rows = []
    for _ in range(n):
        row = part(b, (0, 1), None)
        row = stored(row if unit else row / part(a, (0, 1), (0, 1)))
        rows.append(transposed(row))
        rest = b - part(a, None, (0, 1)) * row
        b = stored(padded(part(rest, (1, n), None), (0, 1), (0, 0)))
        a = stored(_shifted(a))
    return transposed(_joined(rows))


def householder(a: UOp) -> tuple[UOp, UOp]:
    """Q (..., n, n) orthogonal and R (..., n, m) upper triangular with Q @ R = a,
    by reflections as in LAPACK.

    Each makes the first column a multiple of the first unit vector; then that row and column are done.
    """
    *batch, n, m = shape_of(a)
    q = broadcast_to(
        count(n, dtypes.i32).reshape((n, 1)).eq(count(n, dtypes.i32)).cast(a.dtype), (*batch, n, n)
    )
    rows = []
    for k in range(min(n, m)):
        column = part(a, None, (0, 1))
        first, below = part(column, (0, 1), None), padded(part(column, (1, n), None), (1, 0), (0, 0))
        rest = _over_rows(below * below)
        plain = rest.eq(0)
        norm = plain.where(rest.const_like(1), first * first + rest).alu(Ops.SQRT)
        beta = compose.sign_bit(first).where(norm, -norm)
        tau = stored(plain.where(rest.const_like(0), (beta - first) / beta))
        top = padded(broadcast_to(a.const_like(1), (*batch, 1, 1)), (0, n - 1), (0, 0))
        v = stored(top + below / plain.where(rest.const_like(1), first - beta))
        a = stored(a - v * (_over_rows(v * a) * tau))
        rows.append(transposed(padded(part(a, (0, 1), (0, m - k)), (0, 0), (k, 0))))
        a = stored(_shifted(a))
        # the rows of q that this step turns stand k further down
        turned = padded(part(v, (0, n - k), None), (k, 0), (0, 0))
        q = stored(
            q - fold(transposed(turned) * q, Ops.ADD, (q.ndim - 1,), keepdim=True) * transposed(turned) * tau
        )
    r = transposed(_joined(rows))
    return q, padded(r, (0, n - min(n, m)), (0, 0))
