"""Elements by position, as nodes: picked where positions say, folded where they say, replaced there. Week 5.

All three are folds over a one-hot mask, `position == 0, 1, ..., n - 1`, which the C code generator turns into
one read, or one read, fold and write, an element.
"""

from __future__ import annotations

from uop_ir import REDUCE_IDENTITY, Ops, UOp, dtypes

from . import compose
from .creation import count
from .graph import broadcast_to, fold, shape_of, unsqueezed, with_gradient_of
from .promotion import SIGNED, accumulator


def wrapped(at: UOp, n: int) -> UOp:
    """Positions along n elements, where those from -n to -1 count from the end.
    What is out of range stays so.
    """
    if at.dtype is dtypes.u64:
        at = (at < n).where(at, n)
    if at.dtype.max < n or at.dtype is dtypes.u64:
        at = at.cast(dtypes.i64)
    if (
        at.dtype is dtypes.i64 and n < dtypes.i32.max // 2
    ):  # so that whatever is reckoned with them fits 64 bits
        at = compose.minimum(at.maximum(-n - 1), at.const_like(n)).cast(dtypes.i32)
    return (at < 0).where(at + n, at) if at.dtype.min < 0 else at


def picked(x: UOp, at: UOp, axis: int) -> UOp:
    """The elements of `x` at positions along an axis; the axes of `at` stand in the place of that axis.

    A position out of range gives 0. The gradient is the sum of those of all picks of an element.
    """
    found = _picked(x, at.reshape((*at.shape, *(1,) * x.ndim)), axis)
    front = [*range(at.ndim, at.ndim + axis), *range(at.ndim)]
    return found.permute([*front, *range(at.ndim + axis, found.ndim)])


def picked_along(x: UOp, at: UOp, axis: int) -> UOp:
    """For each element of `at` the one of `x` in the same place,
    but for the position along an axis, which `at` says.

    `x` and `at` have equal sizes along all other axes. A position out of range gives 0.
    """
    others = [a for a in range(x.ndim) if a != axis]
    at = at.permute([axis, *others])
    found = _picked(x, at.reshape((*at.shape[: axis + 1], 1, *at.shape[axis + 1 :])), axis)
    return found.permute([*range(1, axis + 1), 0, *range(axis + 1, x.ndim)])


def _picked(x: UOp, at: UOp, axis: int) -> UOp:
    """For each position in `at` the element of `x` along an axis,
    which is gone; 0 where the position is out of range.

    `at` broadcasts with x and has axes in front of those of x: so a gradient, a sum over these, has the
    layout of x. Floats are picked as integers, so that -0.0 stays what it is;
    their gradient is that of the sum of floats.
    """
    n = shape_of(x)[axis]
    mask = at.eq(count(n, at.dtype).reshape((n,) + (1,) * (x.ndim - axis - 1)))
    along = (at.ndim - x.ndim + axis,)
    if x.dtype is dtypes.bool:
        return fold(mask.where(x.cast(dtypes.u8), 0), Ops.ADD, along).cast(dtypes.bool)
    if not x.dtype.is_float:
        return fold(mask.where(x, 0), Ops.ADD, along)
    bits = fold(mask.where(x.bitcast(SIGNED[x.dtype.bits]), 0), Ops.ADD, along)
    return with_gradient_of(bits.bitcast(x.dtype), fold(mask.where(x, 0), Ops.ADD, along))


def one_hot(at: UOp, n: int) -> UOp:
    """A new last axis of n elements: true at the position that `at` says."""
    at = at if at.dtype.max >= n else at.cast(dtypes.i64)
    return unsqueezed(at, at.ndim).eq(count(n, at.dtype))


def grouped(op: Ops, values: UOp, at: UOp, axis: int, n: int) -> UOp:
    """Along an axis of n elements, for each the fold of the values whose position `at` names it,
    else op's identity.

    `values` and `at` have one shape. f16 and bf16 are folded, and returned, as f32.
    """
    values = values.cast(accumulator(values.dtype))
    order = [*(a for a in range(values.ndim) if a != axis), axis]
    values, at = (unsqueezed(x.permute(order), axis) for x in (values, at))
    mask = at.eq(count(n, at.dtype).reshape((n,) + (1,) * (at.ndim - axis - 1)))
    return fold(mask.where(values, REDUCE_IDENTITY[op](values.dtype)), op, (values.ndim - 1,))


def named(at: UOp, n: int) -> UOp:
    """For each of n positions, whether a vector of positions has it."""
    one = broadcast_to(UOp.const(dtypes.u8, 1), at.shape)
    return grouped(Ops.MAX, one, at, 0, n).ne(0)


def added(x: UOp, at: UOp, values: UOp, axis: int) -> UOp:
    """`x` with each of `values` added at its position along an axis; `at` has the shape of `values`.

    f16 and bf16 are added in f32.
    """
    # x - 0 keeps -0.0, which x + 0 does not: of floats, the negated values are subtracted
    negated = -values if x.dtype.is_float else values
    total = grouped(Ops.ADD, negated, at, axis, shape_of(x)[axis])
    start = x.cast(total.dtype)
    return (start - total if x.dtype.is_float else start + total).cast(x.dtype)


def replaced(x: UOp, at: UOp, values: UOp, axis: int) -> UOp:
    """`x` with elements along an axis replaced by those of `values` at positions, of which the last one wins.

    `at` has the shape (m,), `values` the dtype and shape of x, but for m elements along the axis.
    """
    last = _last(at, 0, shape_of(x)[axis])
    if last is None:
        return x
    named = last.ne(0).reshape((*last.shape, *(1,) * (x.ndim - axis - 1)))
    return named.where(picked(values, last - 1, axis), x)


def replaced_along(x: UOp, at: UOp, values: UOp, axis: int) -> UOp:
    """As `replaced`, with positions of their own in each place: `at` has the shape of `values`."""
    last = _last(at, axis, shape_of(x)[axis])
    return x if last is None else last.ne(0).where(picked_along(values, last - 1, axis), x)


def _last(at: UOp, axis: int, n: int) -> UOp | None:
    """For each of n positions, the number from 1 of the last one in `at`,
    along an axis, that is equal; 0: none is.
    """
    m = shape_of(at)[axis]
    if m == 0:
        return None
    number = (count(m, dtypes.u32) + 1).reshape((m,) + (1,) * (at.ndim - axis - 1))
    return grouped(Ops.MAX, broadcast_to(number, at.shape), at, axis, n)
