"""What each elementwise op computes: one row an op, on NumPy arrays, exactly as the semantics says. Week 1.

The interpreter runs on this table and constants are folded by it, so there is one definition of every value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .dtype import Const, DType, Kind, dtypes
from .errors import BoundsError
from .ops import Ops
from .rounding import multiply_add, narrow

Array: TypeAlias = "npt.NDArray[Any]"

#: Bit patterns of the one NaN that a computation gives.
_QUIET = {dtypes.f16: 0x7E00, dtypes.bf16: 0x7FC0, dtypes.f32: 0x7FC00000, dtypes.f64: 0x7FF8 << 48}


def _unsigned(x: Array) -> Array:
    return np.asarray(x).view(f"u{x.dtype.itemsize}")


def _divide(dtype: DType, x: Array, y: Array) -> Array:
    if dtype.is_float:
        return np.asarray(x / y)
    zero = y == 0
    return np.where(zero, x.dtype.type(0), np.floor_divide(x, np.where(zero, x.dtype.type(1), y)))


def _modulo(dtype: DType, x: Array, y: Array) -> Array:
    """x - (x // y) * y. The remainder of floats is exact but for the one addition that gives it y's sign."""
    if not dtype.is_float:
        return np.asarray(x - _divide(dtype, x, y) * y)
    rest = np.fmod(x, y)
    signed = np.where(rest == 0, np.copysign(x.dtype.type(0), y), rest)
    return np.where((rest != 0) & ((rest < 0) != (y < 0)), rest + y, signed)


def _shift_left(dtype: DType, x: Array, y: Array) -> Array:
    count, most = _unsigned(y), y.dtype.type(dtype.bits - 1)
    return np.where(count < dtype.bits, x << np.where(count < dtype.bits, y, most), x.dtype.type(0))


def _shift_right(dtype: DType, x: Array, y: Array) -> Array:
    count, most = _unsigned(y), y.dtype.type(dtype.bits - 1)
    shifted = x >> np.where(count < dtype.bits, y, most)
    if dtype.kind is Kind.SIGNED:
        return np.asarray(shifted)
    return np.where(count < dtype.bits, shifted, x.dtype.type(0))


def _multiply_accumulate(dtype: DType, x: Array, y: Array, z: Array) -> Array:
    return multiply_add(x, y, z) if dtype.is_float else np.asarray(x * y + z)


def _truncate(x: Array, dtype: DType) -> Array:
    """Floats as integers, towards zero; what is out of range saturates, NaN gives 0."""
    whole = np.trunc(x.astype(np.float64))
    least, most = int(dtype.min), int(dtype.max)
    inside = (whole >= float(least)) & (whole < float(most + 1))
    edge = np.where(whole < 0, dtype.numpy.type(least), dtype.numpy.type(most))
    edge = np.where(np.isnan(whole), dtype.numpy.type(0), edge)
    return np.asarray(np.where(inside, np.where(inside, whole, 0.0).astype(dtype.numpy), edge))


def _cast(dtype: DType, x: Array) -> Array:
    if dtype is dtypes.bool:
        return np.asarray(x != 0)
    if dtype.is_float:
        return narrow(x, dtype) if dtype.bits == 16 and x.dtype != dtype.numpy else x.astype(dtype.numpy)
    if x.dtype.kind not in "iub":  # a float: NumPy's own, or bfloat16
        return _truncate(x, dtype)
    if dtype is dtypes.index and x.dtype == np.uint64 and np.any(x > np.uint64(dtype.max)):
        raise BoundsError(f"{Ops.CAST!r}: {np.max(x)} is past the range of index")
    return x.astype(dtype.numpy)


def _bitcast(dtype: DType, x: Array) -> Array:
    bits = _unsigned(np.asarray(x))
    for source, quiet in _QUIET.items():
        if x.dtype == source.numpy:
            bits = np.where(np.isnan(x), bits.dtype.type(quiet), bits)
    return np.asarray(bits).view(dtype.numpy)


#: For each op its value; the first argument is the dtype of the result.
#: Call `evaluate_op`, which widens and checks.
EVALUATE: dict[Ops, Callable[..., Any]] = {
    Ops.CAST: _cast,
    Ops.BITCAST: _bitcast,
    Ops.RECIP: lambda dtype, x: x.dtype.type(1) / x,
    Ops.SQRT: lambda dtype, x: np.sqrt(x),
    Ops.TRUNC: lambda dtype, x: np.trunc(x),
    Ops.NEG: lambda dtype, x: np.negative(x),
    Ops.ADD: lambda dtype, x, y: x + y,
    Ops.SUB: lambda dtype, x, y: x - y,
    Ops.MUL: lambda dtype, x, y: x * y,
    Ops.DIV: _divide,
    Ops.MOD: _modulo,
    Ops.MAX: lambda dtype, x, y: np.where(np.isnan(y) | (x < y), y, x),
    Ops.AND: lambda dtype, x, y: x & y,
    Ops.OR: lambda dtype, x, y: x | y,
    Ops.XOR: lambda dtype, x, y: x ^ y,
    Ops.SHL: _shift_left,
    Ops.SHR: _shift_right,
    Ops.CMPLT: lambda dtype, x, y: x < y,
    Ops.CMPNE: lambda dtype, x, y: x != y,
    Ops.CMPEQ: lambda dtype, x, y: x == y,
    Ops.WHERE: lambda dtype, condition, x, y: np.where(condition, x, y),
    Ops.MULACC: _multiply_accumulate,
}
#: The ops that only move bits: they need no wider type. All others of 16-bit floats compute in float32.
_MOVE_BITS = frozenset({Ops.CAST, Ops.BITCAST, Ops.WHERE})
#: The arithmetic of index, on Python's integers.
INDEX_ARITHMETIC: dict[Ops, Callable[..., int]] = {
    Ops.NEG: lambda x: -x,
    Ops.ADD: lambda x, y: x + y,
    Ops.SUB: lambda x, y: x - y,
    Ops.MUL: lambda x, y: x * y,
    Ops.DIV: lambda x, y: x // y if y else 0,
    Ops.MOD: lambda x, y: x % y if y else x,
    Ops.MAX: max,
}
#: While all operands are below this, no op of index overflows.
_SMALL = 1 << 31


def evaluate_op(op: Ops, dtype: DType, args: Sequence[Array]) -> Array:
    """One elementwise op on arrays or NumPy scalars of the operands' dtypes; `dtype` is that of the result.

    EXP2, LOG2 and SIN are not here: they mean their definitions. Raises BoundsError where an index overflows.
    """
    with np.errstate(all="ignore"):
        if dtype is dtypes.index and op in INDEX_ARITHMETIC:
            return _index(op, args)
        if op not in _MOVE_BITS and args[0].dtype in (dtypes.f16.numpy, dtypes.bf16.numpy):
            wide = [x.astype(np.float32) for x in args]
            result = EVALUATE[op](dtypes.f32 if dtype.is_float else dtype, *wide)
            return np.asarray(result).astype(dtype.numpy)
        return np.asarray(EVALUATE[op](dtype, *args))


def _index(op: Ops, args: Sequence[Array]) -> Array:
    if all(np.all((x < _SMALL) & (x > -_SMALL)) for x in args):
        return np.asarray(EVALUATE[op](dtypes.index, *args))
    exact = np.frompyfunc(lambda *x: index_op(op, *map(int, x)), len(args), 1)(*args)
    return np.asarray(exact, dtype=np.int64)


def index_op(op: Ops, *args: int) -> int:
    """One op of INDEX_ARITHMETIC on integers. Raises BoundsError where the result has no place in 64 bits."""
    result = INDEX_ARITHMETIC[op](*args)
    if not -(1 << 63) <= result < 1 << 63:
        raise BoundsError(
            f"{op!r}: index overflows 64 bits: {', '.join(map(str, args))}", remedy="smaller sizes"
        )
    return result


def to_array(value: Const) -> Array:
    """A constant as an array of shape (), its bits kept.
    Raises BoundsError for an index that needs more than 64 bits.
    """
    if value.dtype is dtypes.index and not -(1 << 63) <= value.bits < 1 << 63:
        raise BoundsError(f"{Ops.CONST!r}: index overflows 64 bits: {value.bits}", remedy="smaller sizes")
    if value.dtype.is_float:
        return np.array(value.bits, f"u{value.dtype.itemsize}").view(value.dtype.numpy)
    return np.array(value.bits, value.dtype.numpy)


def from_array(dtype: DType, value: Array) -> Const:
    """An array of one element as a constant; every NaN becomes the canonical one."""
    if dtype.is_float:
        unsigned = dtypes.u16 if dtype.bits == 16 else dtypes.u32 if dtype.bits == 32 else dtypes.u64
        value = _bitcast(unsigned, np.asarray(value))
    return Const(dtype, int(value))
