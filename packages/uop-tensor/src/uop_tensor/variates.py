"""From random bits to numbers: uniform, normal and whole ones. Week 5."""

from __future__ import annotations

import math

from uop_ir import DType, Ops, UOp, dtypes

from .threefry import Words, draw
from .transcendental import sine_of_quarter_turns

#: How many random bits a number from [0, 1) has: as many as are exact in its dtype.
_DIGITS = {dtypes.f64: 53, dtypes.f32: 24, dtypes.f16: 11, dtypes.bf16: 8}
_LOW = (1 << 32) - 1


def unit(n: int, dtype: DType, device: str | None) -> UOp:
    """n numbers from [0, 1), in f64 or f32, as many digits as `dtype` has."""
    ((first, second),) = draw(n, 1, device)
    digits = _DIGITS[dtype]
    if dtype is dtypes.f64:
        bits = _joined((first, second))
        return (bits >> bits.const_like(64 - digits)).bitcast(dtypes.i64).cast(dtype) * 2.0**-digits
    return (first >> first.const_like(32 - digits)).bitcast(dtypes.i32).cast(dtypes.f32) * 2.0**-digits


def normal(n: int, dtype: DType, device: str | None) -> UOp:
    """n normal numbers, in f64 or f32: sqrt(-2 log(u)) sin(pi/2 v), u from (0, 1] and v from [-1, 1].

    That is the method of Box and Muller (1958): sin(2 pi w) has the same distribution for w from [0, 1].
    """
    if dtype is dtypes.f64:
        first, second = map(_joined, draw(n, 2, device))
        inner, signed = dtypes.f64, dtypes.i64
    else:
        ((first, second),) = draw(n, 1, device)
        inner, signed = dtypes.f32, dtypes.i32
    scale = 2.0 ** (1 - signed.bits)
    # of the numbers u, the least is half of what is next: the logarithm of 0 would be infinite
    u = (first >> first.const_like(1)).bitcast(signed).cast(inner)
    u = u.maximum(u.const_like(0.5)) * scale
    v = second.bitcast(signed).cast(inner) * scale
    return (u.alu(Ops.LOG2) * (-2 * math.log(2))).alu(Ops.SQRT) * sine_of_quarter_turns(v)


def below(n: int, limit: int, device: str | None) -> UOp:
    """n whole numbers from 0 to limit - 1, in u64, for a limit up to 2**64: floor(limit * r), r from [0, 1).

    r has at least 32 bits more than the limit (Lemire: Fast random integer generation in an interval, 2019),
    so that no number is more likely than another by a share of over 2**-32.
    """
    if limit == 1 << 64:
        return _joined(*draw(n, 1, device))
    if limit <= 1 << 32:
        high, low = (word.cast(dtypes.u64) * limit for word in draw(n, 1, device)[0])
        return _shifted(high + _shifted(low))
    high, low = map(_joined, draw(n, 2, device))
    upper, rest = high * limit, _times(low, limit)
    carry = (upper + rest < rest).cast(dtypes.u64)
    return _times(high, limit) + carry


def _joined(words: Words) -> UOp:
    """Two words as one of 64 bits, the first in front."""
    first, second = (word.cast(dtypes.u64) for word in words)
    return (first << first.const_like(32)) | second


def _shifted(x: UOp) -> UOp:
    return x >> x.const_like(32)


def _times(x: UOp, factor: int) -> UOp:
    """The upper 64 bits of the product of a u64 and a factor below 2**64."""
    low, high = x & _LOW, _shifted(x)
    inner, outer = low * (factor >> 32), high * (factor & _LOW)
    middle = _shifted(low * (factor & _LOW)) + (inner & _LOW) + (outer & _LOW)
    return high * (factor >> 32) + _shifted(inner) + _shifted(outer) + _shifted(middle)
