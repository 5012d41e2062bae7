"""Windows that slide over the last axes, as movement, and the sum of windows back into place. Week 5.

A window copies nothing: the axis is repeated in rows, and each row begins further on. Row k of an axis of
size n, with shifts of d, is what a reshape of all rows in one to rows of n + d elements makes:

    flat position of (k, i): k * (n + d) + i == k * n + (i + k * d), which is element i + k * d of row k
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from uop_ir import Ops, UOp

from .graph import OWN_RULE, fold, shape_of, unsqueezed, with_gradient_of
from .promotion import accumulator

Sizes = tuple[int, ...]


def windows(x: UOp, size: Sizes, stride: Sizes, dilation: Sizes) -> UOp:
    """All windows over the last axes: (..., *places, *size), with as many places an axis as fit.

    Element (o, k) of an axis is element `o * stride + k * dilation` of it.
    Each axis is at least as long as a window.
    """
    first = x.ndim - len(size)
    lengths = shape_of(x)[first:]
    value = x
    for number, (k, s, d) in enumerate(zip(size, stride, dilation, strict=True)):
        # an axis of positions becomes one of elements in the window and one of places
        axis = first + 2 * number
        value = _repeated(value, axis, k)
        value = every(_advanced(value, axis, d), axis + 1, s)
    order = [*range(first + 1, value.ndim, 2), *range(first, value.ndim, 2)]
    return _with_rule(
        value.permute((*range(first), *order)), x, lambda g: unwindow(g, lengths, stride, dilation)
    )


def unwindow(g: UOp, lengths: Sizes, stride: Sizes, dilation: Sizes) -> UOp:
    """What windows took apart, added up where it came from: (..., *places, *size) to (..., *lengths).

    f16 and bf16 are added in f32. It is what the gradient of `windows` does, and `windows` that of its own.
    """
    spatial = len(lengths)
    first = g.ndim - 2 * spatial
    size = shape_of(g)[first + spatial :]
    value = g.permute((*range(first), *(a for n in range(spatial) for a in (first + spatial + n, first + n))))
    for number, (length, s, d) in enumerate(zip(lengths, stride, dilation, strict=True)):
        axis = first + 2 * number
        value = (
            _put_back(value, axis, length, s)
            if d == 1
            else _delayed(spread(value, axis + 1, s), axis, d, length)
        )
    total = fold(value.cast(accumulator(g.dtype)), Ops.ADD, range(first, value.ndim, 2)).cast(g.dtype)
    return _with_rule(total, g, lambda h: windows(h, size, stride, dilation))


def _put_back(x: UOp, axis: int, length: int, stride: int) -> UOp:
    """Elements of windows and places, (size, places), where they came from:
    (rows, length), whose rows add up to it.

    With a stride s, the elements q * s + r come from each s-th element of a window only, those from r on: s
    elements of a place stand side by side, and rows are shifted by turns of s elements.
    """
    size, places = shape_of(x)[axis : axis + 2]
    rows = -(-size // stride)
    turns = max(-(-length // stride), places + rows - 1)
    x = _grow(x, axis, 0, rows * stride - size)
    x = x.reshape((*x.shape[:axis], rows, stride, *x.shape[axis + 1 :]))
    x = x.permute((*range(axis + 1), axis + 2, axis + 1, *range(axis + 3, x.ndim)))
    return cut(_flat(_delayed(x, axis, 1, turns), axis + 1), axis + 1, 0, length)


def _with_rule(value: UOp, x: UOp, rule: Callable[[UOp], UOp]) -> UOp:
    """A value whose gradient with respect to `x` is what a rule makes of its own gradient."""
    node = with_gradient_of(value, x)
    node.memo[OWN_RULE] = lambda node, g: (None, rule(g))
    return node


def spread(x: UOp, axis: int, stride: int) -> UOp:
    """An axis with `stride - 1` zeros between its elements."""
    n = shape_of(x)[axis]
    if stride == 1 or n == 0:
        return x
    x = _grow(unsqueezed(x, axis + 1), axis + 1, 0, stride - 1)
    x = x.reshape((*x.shape[:axis], n * stride, *x.shape[axis + 2 :]))
    return cut(x, axis, 0, (n - 1) * stride + 1)


def cut(x: UOp, axis: int, begin: int | UOp, end: int | UOp) -> UOp:
    """The part of an axis from `begin` to `end`, excluded."""
    return x.shrink([(begin, end) if a == axis else (0, s) for a, s in enumerate(x.shape)])


def _grow(x: UOp, axis: int, before: int, after: int) -> UOp:
    return x.pad([(before, after) if a == axis else (0, 0) for a in range(x.ndim)])


def _repeated(x: UOp, axis: int, count: int) -> UOp:
    """An axis repeated, in rows: the new axis stands before it."""
    return unsqueezed(x, axis).expand((*x.shape[:axis], count, *x.shape[axis:]))


def every(x: UOp, axis: int, stride: int) -> UOp:
    """The elements 0, stride, 2 * stride, ... of an axis."""
    n = -(-shape_of(x)[axis] // stride)
    if stride == 1:
        return x
    # filled up to a multiple, of which the first of each group is taken
    x = _grow(x, axis, 0, n * stride - shape_of(x)[axis])
    x = x.reshape((*x.shape[:axis], n, stride, *x.shape[axis + 1 :]))
    return cut(x, axis + 1, 0, 1).reshape((*x.shape[: axis + 1], *x.shape[axis + 2 :]))


def _advanced(x: UOp, axis: int, shift: int) -> UOp:
    """Rows (count, n), row k from element k * shift on,
    all as long as the last: (count, n - (count - 1) * shift).
    """
    count, n = shape_of(x)[axis : axis + 2]
    if count == 1:
        return x
    flat = _grow(_flat(x, axis), axis, 0, count * shift)
    return cut(_rows_of(flat, axis, n + shift), axis + 1, 0, n - (count - 1) * shift)


def _delayed(x: UOp, axis: int, shift: int, length: int) -> UOp:
    """Rows (count, n), row k after k * shift zeros, with zeros up to a length: (count, length).

    With `most = (count - 1) * shift` zeros before it, row k begins at `most - k * shift`.
    """
    count, n = shape_of(x)[axis : axis + 2]
    if count == 1:
        return _grow(x, axis + 1, 0, length - n)
    most = (count - 1) * shift
    wide = length + most
    flat = _flat(_grow(x, axis + 1, most, length - n), axis)
    flat = cut(flat, axis, most, most + count * (wide - shift))
    return cut(_rows_of(flat, axis, wide - shift), axis + 1, 0, length)


def _flat(x: UOp, axis: int) -> UOp:
    """Rows one after the other: an axis and the next made one."""
    return x.reshape((*x.shape[:axis], prod(shape_of(x)[axis : axis + 2]), *x.shape[axis + 2 :]))


def _rows_of(x: UOp, axis: int, length: int) -> UOp:
    """An axis as rows of a length."""
    return x.reshape((*x.shape[:axis], shape_of(x)[axis] // length, length, *x.shape[axis + 1 :]))
