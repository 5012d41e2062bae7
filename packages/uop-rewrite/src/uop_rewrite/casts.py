"""Casts: those that keep every value, between indices and integers that wrap, and chains of them. Week 1."""

from __future__ import annotations

from uop_ir import DType, Kind, Ops, UOp, dtypes

from .bounds import bounds
from .rules import INTEGERS


def fits(node: UOp, dtype: DType) -> bool:
    """Whether all values of a node lie between the least and the greatest of a type."""
    lo, hi = bounds(node)
    return bool(dtype.min <= lo and hi <= dtype.max)


def index_cast(node: UOp) -> UOp | None:
    """x for CAST(x) of an index that keeps its value in an integer type;
    a constant as an index; else None.
    """
    if node.op is Ops.CAST and node.src[0].dtype.kind is Kind.INDEX and fits(node.src[0], node.dtype):
        return node.src[0]
    if node.op is Ops.CONST and fits(node, dtypes.index):
        return UOp.const(dtypes.index, int(node.value))
    return None


def peel(n: UOp) -> UOp | None:
    """op(cast(x), cast(y)) as op(x, y) over the indices, where nothing wraps."""
    sides = [index_cast(s) for s in n.src]
    if n.shape != () or any(s is None for s in sides) or all(s.op is Ops.CONST for s in n.src):
        return None
    new = UOp(n.op, tuple(s for s in sides if s is not None))
    if new.dtype.kind is Kind.BOOL:
        return new
    return new.cast(n.dtype) if fits(new, n.dtype) and fits(new, new.dtype) else None


def through(n: UOp, x: UOp) -> UOp | None:
    """cast(cast(x)) to an integer or index == cast(x), where the first cast keeps every value."""
    inner = n.src[0]
    if x.dtype.kind in INTEGERS and inner.dtype.kind in INTEGERS and fits(x, inner.dtype):
        return x.cast(n.dtype)
    return None


#: The bits of the significand of each float type, the hidden one included.
_PRECISION = {dtypes.f16: 11, dtypes.bf16: 8, dtypes.f32: 24, dtypes.f64: 53}
_WIDER = {
    dtypes.f16: {dtypes.f32, dtypes.f64},
    dtypes.bf16: {dtypes.f32, dtypes.f64},
    dtypes.f32: {dtypes.f64},
    dtypes.f64: set(),
}


def lossless(n: UOp, x: UOp) -> UOp | None:
    """cast(cast(x)) == cast(x), where the first cast keeps every value and the second does the same to it."""
    inner = n.src[0].dtype
    if x.dtype in _WIDER:
        # between the two floats of 16 bits no machine converts but through a wider one
        through_wide = {x.dtype, n.dtype} == {dtypes.f16, dtypes.bf16}
        return x.cast(n.dtype) if inner in _WIDER[x.dtype] and not through_wide else None
    if inner not in _PRECISION or inner is dtypes.f16:  # f16 ends below the integers that it has bits for
        return None
    lo, hi = bounds(x)
    exact = max(abs(lo), abs(hi)) <= 1 << _PRECISION[inner]
    # an integer that does not fit wraps, a float saturates
    return x.cast(n.dtype) if exact and (n.dtype is dtypes.bool or fits(x, n.dtype)) else None


def bitcasts(n: UOp, x: UOp) -> UOp | None:
    """bitcast(bitcast(x)) == bitcast(x), unless the type between is a float, whose NaNs are one."""
    return None if n.src[0].dtype.is_float else x.bitcast(n.dtype)
