"""The definition of SIN: exact reduction of the argument in integers, then a polynomial. Week 1.

Reduction after Payne and Hanek, "Radian reduction for trigonometric functions" (SIGNUM Newsletter, 1983): of
the product of the argument's integer mantissa and 2/pi only the bits around the binary point are computed,
since higher ones stand for whole turns. The top two bits are the quadrant, those below them the angle in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from .dtype import dtypes
from .polynomial import horner
from .uop import UOp

#: The first 1184 bits of 2/pi after the binary point.
_TWO_OVER_PI = (
    "a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424dd2e006492eea"
    "09d1921cfe1deb1cb129a73ee88235f52ebb4484e99c7026b45f7e413991d639835339f49c845f8bbdf9283b"
    "1ff897ffde05980fef2f118b5a0a6d1f6d367ecf27cb09b74f463f669e5fea2d7527bac7ebe5f17b3d0739f7"
    "8a5292ea6bfb5fb11f8d5d0856033046"
)
_WORDS = tuple(int(_TWO_OVER_PI[i : i + 8], 16) for i in range(0, len(_TWO_OVER_PI), 8))
#: pi/2: the nearest float64, and the rest.
_HALF_PI = (1.5707963267948966, 6.123233995736766e-17)
#: (sin(x) - x) / x**3 and (cos(x) - 1 + x**2/2) / x**4 in x**2 for |x| <= pi/4,
#: minimax: for a result in f32, in f64.
_SIN_F32 = (-0.16666666663859916, 0.008333331875907186, -0.00019840087206174887, 2.724997157812807e-06)
_COS_F32 = (0.0416666666643244, -0.001388888767282051, 2.4800600685613686e-05, -2.73009882812996e-07)
_SIN_F64 = (
    -0.16666666666666666,
    0.00833333333333095,
    -0.00019841269836759135,
    2.7557316102700763e-06,
    -2.5051131852505074e-08,
    1.5918128461975127e-10,
)
_COS_F64 = (
    0.041666666666666664,
    -0.0013888888888887398,
    2.480158729876587e-05,
    -2.755731727174606e-07,
    2.0876146258920914e-09,
    -1.1382630985385937e-11,
)
_LOW = 0xFFFFFFFF
#: Dekker's constant: cuts a float64 into two halves of 26 bits.
_SPLIT = 2.0**27 + 1


def sine_f32(x: UOp) -> UOp:
    """sin(x) of f32: the reduced angle in f64, so that the one rounding that counts is the last."""
    bits = x.bitcast(dtypes.u32)
    exponent = (bits >> bits.const_like(23)) & 0xFF
    mantissa = ((bits & 0x7FFFFF) | 0x800000).cast(dtypes.u64)
    # |x| is mantissa * 2**(exponent - 150); from 0.5 on exponent is 126 at least,
    # and 120 makes room for a zero word
    words = _window((0, *_WORDS[:7]), exponent - 120, 3)
    turns = ((mantissa * words[0]) << mantissa.const_like(32)) + mantissa * words[1]
    turns = turns + ((mantissa * words[2]) >> mantissa.const_like(32))  # 2 bits of quadrant, 62 of fraction
    quadrant, fraction = _quadrant(turns)
    small = _magnitude(x) < 0.5
    wide = _magnitude(x).cast(dtypes.f64)
    angle = small.where(wide, fraction.cast(dtypes.f64) * (_HALF_PI[0] * 2.0**-62))
    z = angle * angle
    sine = angle + angle * z * horner(z, _SIN_F32)
    cosine = (1.0 - z * 0.5) + z * z * horner(z, _COS_F32)
    value = _by_quadrant(small.where(quadrant.const_like(0), quadrant), sine, cosine)
    return _finish(x, value.cast(dtypes.f32), tiny=2.0**-12)


def sine_f64(x: UOp) -> UOp:
    """sin(x) of f64: 126 bits of the fraction,
    the reduced angle and the polynomials in two parts (after fdlibm).
    """
    bits = x.bitcast(dtypes.u64)
    exponent = ((bits >> bits.const_like(52)) & 0x7FF).cast(dtypes.u32)
    mantissa = (bits & ((1 << 52) - 1)) | (1 << 52)
    # |x| is mantissa * 2**(exponent - 1075); from 0.5 on exponent is 1022 at least,
    # and 1013 makes room for two words
    upper, lower = _multiply(mantissa, _window((0, 0, *_WORDS), exponent - 1013, 6))
    quadrant, fraction = _quadrant(upper)
    small = _magnitude(x) < 0.5
    high, low = _angle(fraction, lower)
    high = small.where(_magnitude(x), high)
    low = small.where(low.const_like(0.0), low)
    z = high * high
    cube = z * high
    rest = horner(z, _SIN_F64[1:])
    sine = high - ((z * (low * 0.5 - cube * rest) - low) - cube * _SIN_F64[0])
    half = z * 0.5
    near = 1.0 - half
    cosine = near + (((1.0 - near) - half) + (z * (z * horner(z, _COS_F64)) - high * low))
    value = _by_quadrant(small.where(quadrant.const_like(0), quadrant), sine, cosine)
    return _finish(x, value, tiny=2.0**-27)


def _magnitude(x: UOp) -> UOp:
    return (x < 0.0).where(-x, x)


def _window(table: Sequence[int], start: UOp, count: int) -> list[UOp]:
    """`count` words of 32 bits (in u64) of the bits of `table` from the bit `start`, a u32, on,
    the first the highest.

    The last word at which a window starts is a power of two: the highest bit of `start` chooses it alone.
    """
    words = [start.const_like(word) for word in table]
    position = start >> start.const_like(5)
    last = len(table) - count - 1
    stage, end = last >> 1, words[last:]
    while stage:  # drop as many words as the bits of `position` say, the highest bit first
        chosen = (position & stage).ne(0)
        words = [chosen.where(words[i + stage], words[i]) for i in range(count + stage)]
        stage >>= 1
    at_end = (position & last).ne(0)
    words = [at_end.where(there, here) for there, here in zip(end, words, strict=True)]
    inside = (start.const_like(32) - (start & 31)).cast(dtypes.u64)
    wide = [word.cast(dtypes.u64) for word in words]
    return [(((left << left.const_like(32)) | right) >> inside) & _LOW for left, right in pairwise(wide)]


def _multiply(mantissa: UOp, words: Sequence[UOp]) -> tuple[UOp, UOp]:
    """Bits 64 to 191 of the product of 53 bits and six words of 32,
    as two u64; off by a few of the lowest unit.
    """
    shift = mantissa.const_like(32)
    right, left = mantissa & _LOW, mantissa >> shift
    low_products = [right * w for w in reversed(words)]
    high_products = [left * w for w in reversed(words)]
    columns = []
    carry = mantissa.const_like(0)
    for k in range(2, 6):
        column = (low_products[k - 1] >> shift) + (low_products[k] & _LOW)
        column = column + (high_products[k - 2] >> shift) + (high_products[k - 1] & _LOW) + carry
        carry = column >> shift
        columns.append(column)
    low, high = (columns[i] & _LOW for i in (0, 2))
    return (columns[3] << shift) | high, (columns[1] << shift) | low


def _quadrant(turns: UOp) -> tuple[UOp, UOp]:
    """The nearest quarter turn, and what is left as a signed fraction of 62 bits."""
    quadrant = (turns + (1 << 61)) >> turns.const_like(62)
    return quadrant, (turns - (quadrant << turns.const_like(62))).bitcast(dtypes.i64)


def _angle(fraction: UOp, lower: UOp) -> tuple[UOp, UOp]:
    """A fraction of a quarter turn, of 62 and 64 more bits, as an angle in two parts."""
    near = fraction.cast(dtypes.f64)
    left = (fraction - near.cast(dtypes.i64)).cast(dtypes.f64)
    high, low = _two_sum(near * 2.0**-62, left * 2.0**-62 + lower.cast(dtypes.f64) * 2.0**-126)
    product, error = _two_product(high, high.const_like(_HALF_PI[0]))
    return _two_sum(product, error + (high * _HALF_PI[1] + low * _HALF_PI[0]))


def _two_sum(x: UOp, y: UOp) -> tuple[UOp, UOp]:
    """The sum and its rounding error (Knuth)."""
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


def _two_product(x: UOp, y: UOp) -> tuple[UOp, UOp]:
    """The product and its rounding error (Dekker)."""
    product = x * y
    x_high = x * _SPLIT - (x * _SPLIT - x)
    y_high = y * _SPLIT - (y * _SPLIT - y)
    x_low, y_low = x - x_high, y - y_high
    return product, ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low


def _by_quadrant(quadrant: UOp, sine: UOp, cosine: UOp) -> UOp:
    value = (quadrant & 1).ne(0).where(cosine, sine)
    return (quadrant & 2).ne(0).where(-value, value)


def _finish(x: UOp, value: UOp, tiny: float) -> UOp:
    """The sign of x; x itself where it is so small that sin(x) rounds to it;
    NaN where it is infinite or NaN.
    """
    size = _magnitude(x)
    value = (x < 0.0).where(-value, value)
    value = (size < tiny).where(x, value)
    return (size < float("inf")).where(value, x.const_like(float("nan")))
