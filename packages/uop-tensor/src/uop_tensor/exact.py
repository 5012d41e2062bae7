"""Greatest common divisors, and the next number of a float dtype. Week 5."""

from __future__ import annotations

from uop_ir import DType, UOp, dtypes

from . import compose
from .promotion import SIGNED

_UNSIGNED = {d.bits: d for d in (dtypes.u8, dtypes.u16, dtypes.u32, dtypes.u64)}


def gcd(x: UOp, y: UOp) -> UOp:
    """The greatest common divisor of integers, by Euclid's algorithm; that of 0 and 0 is 0."""
    unsigned = _UNSIGNED[x.dtype.bits]
    one, other = (compose.absolute(n).cast(unsigned) if n.dtype.min < 0 else n for n in (x, y))
    for _ in range(_steps(unsigned)):
        one, other = other, one % other  # by 0 it is the dividend: behind the end, both take turns
    return one.maximum(other).cast(x.dtype)


def _steps(dtype: DType) -> int:
    """How many remainders Euclid's algorithm takes at most: two Fibonacci numbers take most (Lame, 1844)."""
    steps, low, high = 0, 0, 1
    while high <= dtype.max:
        steps, low, high = steps + 1, high, low + high
    return steps


def lcm(x: UOp, y: UOp) -> UOp:
    """The least common multiple of integers, not negative unless it wraps; beside 0 it is 0."""
    one, other = (compose.absolute(n) if n.dtype.min < 0 else n for n in (x, y))
    return one // gcd(x, y) * other


def nextafter(x: UOp, y: UOp) -> UOp:
    """The number after x on the way to y, in their float dtype: the bits, plus or minus one."""
    bits = x.bitcast(SIGNED[x.dtype.bits])
    away = (x < y) ^ (x < 0)
    least = bits.const_like(1).bitcast(x.dtype)
    step = x.eq(0).where(
        (y < 0).where(-least, least), (bits + away.where(bits.const_like(1), -1)).bitcast(x.dtype)
    )
    nan = compose.is_nan(x) | compose.is_nan(y)
    return nan.where(x + y, x.eq(y).where(y, step))
