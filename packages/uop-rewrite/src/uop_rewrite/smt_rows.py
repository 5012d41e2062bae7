"""The formula of each op for the solver z3: one row an op, for each family of types. Week 1.

Families: bool; index, a mathematical integer; vector, an integer type as a bit vector;
wrapping, the same as an integer that wraps; float.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from uop_ir import DType, Kind, Ops, dtypes

try:
    import z3
except ImportError:  # the extra is not installed
    z3 = None

#: A formula of z3.
Formula = Any

#: Bits of the exponent, and of the significand with the one that is not stored.
FLOAT_BITS = {dtypes.f16: (5, 11), dtypes.bf16: (8, 8), dtypes.f32: (8, 24), dtypes.f64: (11, 53)}
#: The NaN that a BITCAST gives, as bits.
QUIET = {dtypes.f16: 0x7E00, dtypes.bf16: 0x7FC0, dtypes.f32: 0x7FC00000, dtypes.f64: 0x7FF8 << 48}


# integers, and integers that wrap


def _floor_div(x: Formula, y: Formula) -> Formula:
    """z3 divides so that the remainder is not negative: floor division for y > 0."""
    return z3.If(y == 0, 0, z3.If(y > 0, x / y, -x / -y))


def _floor_mod(x: Formula, y: Formula) -> Formula:
    return z3.If(y == 0, x, z3.If(y > 0, x % y, -(-x % -y)))


def wrapped(dtype: DType, x: Formula) -> Formula:
    return (x - int(dtype.min)) % (1 << dtype.bits) + int(dtype.min)


def _by_bits(function: Callable[..., Formula]) -> Callable[..., Formula]:
    """A row of vectors as one of wrapping integers."""

    def row(dtype: DType, x: Formula, y: Formula) -> Formula:
        vectors = [z3.Int2BV(v, dtype.bits) for v in (x, y)]
        return z3.BV2Int(function(dtype, *vectors), is_signed=dtype.kind is Kind.SIGNED)

    return row


# bit vectors


def _signed(signed: Callable[..., Formula], unsigned: Callable[..., Formula]) -> Callable[..., Formula]:
    def row(dtype: DType, *args: Formula) -> Formula:
        return (signed if dtype.kind is Kind.SIGNED else unsigned)(*args)

    return row


def _vector_div(x: Formula, y: Formula) -> Formula:
    """z3's signed division truncates: one less where the remainder has not the divisor's sign."""
    rest = z3.SRem(x, y)
    return z3.If(y == 0, 0, z3.If(z3.And(rest != 0, (rest < 0) != (y < 0)), x / y - 1, x / y))


def _vector_mod(x: Formula, y: Formula) -> Formula:
    rest = z3.SRem(x, y)
    return z3.If(y == 0, x, z3.If(z3.And(rest != 0, (rest < 0) != (y < 0)), rest + y, rest))


_less = _signed(lambda x, y: x < y, lambda x, y: z3.ULT(x, y))


# floats


def _float_max(dtype: DType, x: Formula, y: Formula) -> Formula:
    return z3.If(z3.Or(z3.fpIsNaN(y), z3.fpLT(x, y)), y, x)


_EQUALITY: dict[Ops, Callable[..., Formula]] = {
    Ops.CMPEQ: lambda dtype, x, y: x == y,
    Ops.CMPNE: lambda dtype, x, y: x != y,
}
_INTEGER: dict[Ops, Callable[..., Formula]] = {
    **_EQUALITY,
    Ops.CMPLT: lambda dtype, x, y: x < y,
    Ops.NEG: lambda dtype, x: -x,
    Ops.ADD: lambda dtype, x, y: x + y,
    Ops.SUB: lambda dtype, x, y: x - y,
    Ops.MUL: lambda dtype, x, y: x * y,
    Ops.DIV: lambda dtype, x, y: _floor_div(x, y),
    Ops.MOD: lambda dtype, x, y: _floor_mod(x, y),
    Ops.MAX: lambda dtype, x, y: z3.If(x < y, y, x),
    Ops.MULACC: lambda dtype, x, y, z: x * y + z,
}
_VECTOR: dict[Ops, Callable[..., Formula]] = {
    **_INTEGER,
    Ops.CMPLT: _less,
    Ops.DIV: _signed(_vector_div, lambda x, y: z3.If(y == 0, 0, z3.UDiv(x, y))),
    Ops.MOD: _signed(_vector_mod, lambda x, y: z3.If(y == 0, x, z3.URem(x, y))),
    Ops.MAX: lambda dtype, x, y: z3.If(_less(dtype, x, y), y, x),
    Ops.AND: lambda dtype, x, y: x & y,
    Ops.OR: lambda dtype, x, y: x | y,
    Ops.XOR: lambda dtype, x, y: x ^ y,
    Ops.SHL: lambda dtype, x, y: x << y,  # a count of the width or more gives 0, as here
    Ops.SHR: _signed(lambda x, y: x >> y, lambda x, y: z3.LShR(x, y)),
}
BITWISE = (Ops.AND, Ops.OR, Ops.XOR, Ops.SHL, Ops.SHR)
#: For each family of types and each op its formula; the first argument is the dtype of the operands.
ROWS: dict[str, dict[Ops, Callable[..., Formula]]] = {
    "bool": {
        **_EQUALITY,
        Ops.CMPLT: lambda dtype, x, y: z3.And(z3.Not(x), y),
        Ops.AND: lambda dtype, x, y: z3.And(x, y),
        Ops.OR: lambda dtype, x, y: z3.Or(x, y),
        Ops.XOR: lambda dtype, x, y: z3.Xor(x, y),
    },
    "index": _INTEGER,
    "wrapping": {**_INTEGER, **{op: _by_bits(_VECTOR[op]) for op in BITWISE}},
    "vector": _VECTOR,
    "float": {
        Ops.NEG: lambda dtype, x: z3.fpNeg(x),
        Ops.ADD: lambda dtype, x, y: z3.fpAdd(z3.RNE(), x, y),
        Ops.SUB: lambda dtype, x, y: z3.fpSub(z3.RNE(), x, y),
        Ops.MUL: lambda dtype, x, y: z3.fpMul(z3.RNE(), x, y),
        Ops.DIV: lambda dtype, x, y: z3.fpDiv(z3.RNE(), x, y),
        Ops.SQRT: lambda dtype, x: z3.fpSqrt(z3.RNE(), x),
        Ops.RECIP: lambda dtype, x: z3.fpDiv(z3.RNE(), z3.FPVal(1, x.sort()), x),
        Ops.TRUNC: lambda dtype, x: z3.fpRoundToIntegral(z3.RTZ(), x),
        Ops.MAX: _float_max,
        Ops.CMPLT: lambda dtype, x, y: z3.fpLT(x, y),
        Ops.CMPEQ: lambda dtype, x, y: z3.fpEQ(x, y),
        Ops.CMPNE: lambda dtype, x, y: z3.Not(z3.fpEQ(x, y)),
    },
}


# conversions: from the first dtype to the second


def _from_bool(source: DType, dtype: DType, x: Formula) -> Formula:
    one, zero = z3.BitVecVal(1, dtype.bits), z3.BitVecVal(0, dtype.bits)
    return z3.If(x, one, zero)


def _resize(source: DType, dtype: DType, x: Formula) -> Formula:
    if dtype.bits <= source.bits:
        return z3.Extract(dtype.bits - 1, 0, x)
    extend = z3.SignExt if source.kind is Kind.SIGNED else z3.ZeroExt
    return extend(dtype.bits - source.bits, x)


def _truncated(source: DType, dtype: DType, x: Formula) -> Formula:
    """A float as an integer: towards zero; what is out of range saturates, NaN gives 0."""
    least, most = (z3.BitVecVal(int(v), dtype.bits) for v in (dtype.min, dtype.max))
    wide = z3.FPSort(*FLOAT_BITS[dtypes.f64])
    exact = z3.fpToFP(z3.RNE(), x, wide)
    below, above = z3.FPVal(float(dtype.min), wide), z3.FPVal(float(int(dtype.max) + 1), wide)
    convert = z3.fpToSBV if dtype.kind is Kind.SIGNED else z3.fpToUBV
    inside = convert(z3.RTZ(), x, z3.BitVecSort(dtype.bits))
    bounded = z3.If(z3.fpLEQ(exact, below), least, z3.If(z3.fpGEQ(exact, above), most, inside))
    return z3.If(z3.fpIsNaN(x), z3.BitVecVal(0, dtype.bits), bounded)


def _to_float(source: DType, dtype: DType, x: Formula) -> Formula:
    convert = z3.fpSignedToFP if source.kind is Kind.SIGNED else z3.fpUnsignedToFP
    return convert(z3.RNE(), x, z3.FPSort(*FLOAT_BITS[dtype]))


def _to_bits(source: DType, dtype: DType, x: Formula) -> Formula:
    return z3.If(z3.fpIsNaN(x), z3.BitVecVal(QUIET[source], source.bits), z3.fpToIEEEBV(x))


def _from_bits(source: DType, dtype: DType, x: Formula) -> Formula:
    return z3.fpBVToFP(x, z3.FPSort(*FLOAT_BITS[dtype]))


def _same(source: DType, dtype: DType, x: Formula) -> Formula:
    return x


#: For CAST and BITCAST, and the families of both types,
#: the formula; the dtypes are those of source and result.
CONVERSIONS: dict[tuple[Ops, str, str], Callable[..., Formula]] = {
    (Ops.CAST, "bool", "bool"): _same,
    (Ops.CAST, "bool", "vector"): _from_bool,
    (Ops.CAST, "bool", "wrapping"): lambda source, dtype, x: z3.If(x, z3.IntVal(1), z3.IntVal(0)),
    (Ops.CAST, "bool", "index"): lambda source, dtype, x: z3.If(x, z3.IntVal(1), z3.IntVal(0)),
    (Ops.CAST, "bool", "float"): lambda source, dtype, x: _to_float(
        dtypes.u8, dtype, _from_bool(source, dtypes.u8, x)
    ),
    (Ops.CAST, "vector", "bool"): lambda source, dtype, x: x != 0,
    (Ops.CAST, "wrapping", "bool"): lambda source, dtype, x: x != 0,
    (Ops.CAST, "index", "bool"): lambda source, dtype, x: x != 0,
    (Ops.CAST, "float", "bool"): lambda source, dtype, x: z3.Not(z3.fpIsZero(x)),
    (Ops.CAST, "vector", "vector"): _resize,
    (Ops.CAST, "wrapping", "wrapping"): lambda source, dtype, x: wrapped(dtype, x),
    (Ops.CAST, "index", "wrapping"): lambda source, dtype, x: wrapped(dtype, x),
    (Ops.CAST, "wrapping", "index"): _same,
    (Ops.CAST, "index", "vector"): lambda source, dtype, x: z3.Int2BV(x, dtype.bits),
    (Ops.CAST, "vector", "index"): lambda source, dtype, x: z3.BV2Int(x, source.kind is Kind.SIGNED),
    (Ops.CAST, "index", "index"): _same,
    (Ops.CAST, "vector", "float"): _to_float,
    (Ops.CAST, "float", "vector"): _truncated,
    (Ops.CAST, "float", "float"): lambda source, dtype, x: (
        x if source is dtype else z3.fpToFP(z3.RNE(), x, z3.FPSort(*FLOAT_BITS[dtype]))
    ),
    (Ops.BITCAST, "vector", "vector"): _same,
    (Ops.BITCAST, "wrapping", "wrapping"): lambda source, dtype, x: wrapped(dtype, x),
    (Ops.BITCAST, "float", "vector"): _to_bits,
    (Ops.BITCAST, "vector", "float"): _from_bits,
    (Ops.BITCAST, "float", "float"): lambda source, dtype, x: _from_bits(
        source, dtype, _to_bits(source, dtype, x)
    ),
}
