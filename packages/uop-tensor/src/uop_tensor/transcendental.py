"""Logarithms and exponentials near their zeros, inverse and hyperbolic functions, as compositions. Week 5.

As in `compose`: nodes of a float dtype, f16 and bf16 computed in f32. |x| is a choice by the sign here, not
`absolute`, so that the derivative at 0 is that of the function.
"""

from __future__ import annotations

import math

from uop_ir import DType, Ops, UOp, dtypes

from . import compose
from .compose import polynomial, wide
from .graph import OWN_RULE, detach, with_gradient_of

#: log(2) in two parts, the first so short that its product with an exponent is exact; the greatest exponent;
#: the digits of a mantissa, the integer that has a number's bits.
_BINARY = {
    dtypes.f32: (0.693359375, -2.12194440e-4, 127, 23, dtypes.i32),
    dtypes.f64: (6.93147180369123816490e-01, 1.90821492927058770002e-10, 1023, 52, dtypes.i64),
}
#: pi/2: the nearest number, and the rest.
_HALF_PI = {
    dtypes.f32: (1.5707963705062866, -4.371139000186241e-08),
    dtypes.f64: (1.5707963267948966, 6.123233995736766e-17),
}
#: (asin(s) - s) / s**3 in s**2 for |s| <= 1/2, minimax: relative error of asin 2**-27, then 2**-55.
_ASIN: dict[DType, tuple[float, ...]] = {
    dtypes.f32: (
        0.16666753590106964,
        0.07495240867137909,
        0.04547717422246933,
        0.024147283285856247,
        0.042219046503305435,
    ),
    dtypes.f64: (
        0.16666666666665383,
        0.07500000000343103,
        0.0446428568234543,
        0.030381959331654534,
        0.022371753529436374,
        0.01735977081357386,
        0.013884603027858223,
        0.012173240275720762,
        0.006511055501140161,
        0.01957327461766129,
        -0.016292975986049636,
        0.03195814937920416,
    ),
}
#: (atan(s) - s) / s**3 in s**2 for |s| <= tan(pi/8), minimax: relative error of atan 2**-30, then 2**-59.
_ATAN: dict[DType, tuple[float, ...]] = {
    dtypes.f32: (
        -0.33333316445350647,
        0.19998489320278168,
        -0.14243850111961365,
        0.10596010833978653,
        -0.060834746807813644,
    ),
    dtypes.f64: (
        -0.333333333333332,
        0.1999999999995409,
        -0.14285714280249312,
        0.1111111078617857,
        -0.09090897837633669,
        0.07692061658393282,
        -0.06663120627751075,
        0.058480107031721136,
        -0.05039853611611188,
        0.03807852780014989,
        -0.01792250673074666,
    ),
}


def magnitude(x: UOp) -> UOp:
    """-x where x is negative; -0.0 stays."""
    return (x < 0).where(-x, x)


def exp_of_sum(x: UOp, rest: UOp | None = None) -> UOp:
    """exp(x + rest), rest small: 2**n exp(r) with r = x - n log(2),
    to 2 ulp. (`exp` loses as much as x has units.)

    n keeps to the exponents that there are, so that r takes what is beyond them. It is what adding 1.5 *
    2**digits rounds to, and then stands in the low bits.
    """
    high, low, most, digits, integer = _BINARY[x.dtype]
    turns = x * math.log2(math.e)
    turns = (turns < 1 - most).where(x.const_like(1 - most), (turns > most).where(x.const_like(most), turns))
    shifter = x.const_like(1.5 * 2**digits)
    shifted = detach(turns + shifter)
    n = shifted - shifter
    exponent = shifted.bitcast(integer) - shifter.bitcast(integer) + most
    r = (x - n * high) - n * low
    r = r if rest is None else r + rest
    power = (exponent << exponent.const_like(digits)).bitcast(x.dtype)
    return (r * math.log2(math.e)).alu(Ops.EXP2) * power


@wide
def log1p(x: UOp) -> UOp:
    """log(u) + (x - (u - 1)) / u with u = 1 + x rounded (after W. Kahan); negated twice, which keeps -0.0."""
    u = x + 1
    regular = (u > 0) & (u < math.inf)
    rest = detach(regular.where((x - (u - 1)) / u, 0))
    return -(-compose.log(u) - rest)


@wide
def expm1(x: UOp) -> UOp:
    """exp(x) - 1; near 0, where that cancels, 2t / (1 - t) with t = tanh(x/2)."""
    near = magnitude(x) < 1
    p, q = compose.tanh_parts(near.where(x * 0.5, 0))
    return near.where((p + p) / (q - p), exp_of_sum(x) - 1)


@wide
def sinh(x: UOp) -> UOp:
    """(h*h - 1/(h*h)) / 2 with h = exp(|x|/2),
    which does not overflow before the result; near 0, 2t / (1 - t*t).
    """
    near = magnitude(x) < 1
    p, q = compose.tanh_parts(near.where(x * 0.5, 0))
    half = exp_of_sum(near.where(x.const_like(0.5), magnitude(x) * 0.5))
    far = (half * 0.5) * half - (half * half).alu(Ops.RECIP) * 0.5
    return near.where((p + p) * q / ((q - p) * (q + p)), (x < 0).where(-far, far))


@wide
def cosh(x: UOp) -> UOp:
    """1 + 2 sinh(x/2)**2."""
    half = sinh(x * 0.5)
    return (half + half) * half + 1


@wide
def asinh(x: UOp) -> UOp:
    """log1p(a + a*a / (1 + sqrt(1 + a*a))) with a = |x|; log(2a) where the square would not count."""
    a = magnitude(x)
    large = a > 2.0**14 if x.dtype is dtypes.f32 else a > 2.0**28
    v = large.where(x.const_like(1), a)
    value = log1p(v * (v / ((v * v + 1).alu(Ops.SQRT) + 1) + 1))
    value = large.where(compose.log(large.where(a, 1)) + math.log(2), value)
    return (x < 0).where(-value, value)


@wide
def acosh(x: UOp) -> UOp:
    """log1p(t + sqrt(t) sqrt(x + 1)) with t = x - 1; log(2x) for large x."""
    large = x > 2.0**14 if x.dtype is dtypes.f32 else x > 2.0**28
    v = large.where(x.const_like(2), x)
    value = log1p((v - 1) + (v - 1).alu(Ops.SQRT) * (v + 1).alu(Ops.SQRT))
    return large.where(compose.log(large.where(x, 1)) + math.log(2), value)


@wide
def atanh(x: UOp) -> UOp:
    """log1p(2a / (1 - a)) / 2 with a = |x|."""
    a = magnitude(x)
    value = log1p((a + a) / (1 - a)) * 0.5
    # the gradient is infinite at -1 and 1, where that of the quotient is NaN
    return with_gradient_of((x < 0).where(-value, value), (compose.log(1 + x) - compose.log(1 - x)) * 0.5)


def _sine_terms(count: int) -> tuple[float, ...]:
    """The Taylor coefficients of sin(pi/2 x) / x in x*x."""
    quarter = math.pi / 2
    terms = [quarter]
    for k in range(1, count):
        terms.append(-terms[-1] * quarter * quarter / (2 * k * (2 * k + 1)))
    return tuple(terms)


#: On [-1, 1] what follows is below 2**-30 and 2**-59.
_SINE = {dtypes.f32: _sine_terms(7), dtypes.f64: _sine_terms(11)}


def sine_of_quarter_turns(x: UOp) -> UOp:
    """sin(pi/2 x) for |x| <= 1, f32 or f64: a polynomial,
    where SIN first looks for what is past whole turns.
    """
    return polynomial(x * x, _SINE[x.dtype]) * x


@wide
def tan(x: UOp) -> UOp:
    """2 sin(x)**2 / sin(2x): no cosine, which is less exact where it is small.
    Its gradient is 1 + tan(x)**2.
    """
    sine, double = x.alu(Ops.SIN), (x + x).alu(Ops.SIN)
    zero = double.eq(0)
    value = zero.where(x, sine * ((sine + sine) / zero.where(double.const_like(1), double)))
    node = with_gradient_of(value, x)
    node.memo[OWN_RULE] = lambda node, g: (None, g * (node * node + 1))
    return node


def _arc(x: UOp) -> tuple[UOp, UOp]:
    """Whether |x| > 1/2, and asin of |x| there of sqrt((1 - |x|) / 2) instead:
    asin(a) = pi/2 - 2 asin(that).
    """
    a = magnitude(x)
    large = a > 0.5
    below = (1 - a) * 0.5
    z = large.where(below, a * a)
    s = large.where(large.where(below, 1).alu(Ops.SQRT), a)
    return large, s + s * z * polynomial(z, _ASIN[x.dtype])


@wide
def asin(x: UOp) -> UOp:
    high, low = _HALF_PI[x.dtype]
    large, value = _arc(x)
    value = large.where(high - ((value + value) - low), value)
    return (x < 0).where(-value, value)


@wide
def acos(x: UOp) -> UOp:
    high, low = _HALF_PI[x.dtype]
    large, value = _arc(x)
    negative = x < 0
    twice = value + value
    of_large = negative.where(2 * high - (twice - 2 * low), twice)
    return large.where(of_large, high - (negative.where(-value, value) - low))


@wide
def atan(x: UOp) -> UOp:
    """Of a = |x| beyond tan(3pi/8) as pi/2 + atan(-1/a),
    beyond tan(pi/8) as pi/4 + atan((a - 1) / (a + 1)).
    """
    negative = compose.sign_bit(x)
    a = negative.where(-x, x)
    large, middle = a > math.tan(3 * math.pi / 8), a > math.tan(math.pi / 8)
    y = large.where(a.const_like(-1), middle.where(a - 1, a)) / large.where(a, middle.where(a + 1, 1))
    z = y * y
    value = y + y * z * polynomial(z, _ATAN[x.dtype])
    high, low = _HALF_PI[x.dtype]
    turned = large.where(x.const_like(high), high / 2) + (value + large.where(x.const_like(low), low / 2))
    value = middle.where(turned, value)
    return negative.where(-value, value)


@wide
def atan2(y: UOp, x: UOp) -> UOp:
    """The angle of (x, y): atan of the lesser by the greater,
    turned to its octant. The signs of zeros count.
    """
    left, down = compose.sign_bit(x), compose.sign_bit(y)
    right, up = left.where(-x, x), down.where(-y, y)
    steep = right < up
    least, most = steep.where(right, up), steep.where(up, right)
    both = least.eq(most) & (most.eq(0) | most.eq(math.inf))  # the quotient is then 0, or 1
    value = atan(both.where(least.eq(math.inf).cast(x.dtype), least) / both.where(most.const_like(1), most))
    high, low = _HALF_PI[x.dtype]
    value = steep.where(high - (value - low), value)
    value = left.where(2 * high - (value - 2 * low), value)
    return down.where(-value, value)


@wide
def hypot(x: UOp, y: UOp) -> UOp:
    """sqrt(x*x + y*y), both divided by the greater,
    so that no square overflows; its derivative at (0, 0) is 0.
    """
    a, b = compose.absolute(x), compose.absolute(y)
    scale = detach(a.maximum(b))
    scale = ((scale > 0) & (scale < math.inf)).where(scale, 1)
    total = (x / scale) * (x / scale) + (y / scale) * (y / scale)
    zero = total.eq(0)
    root = zero.where(total, zero.where(total.const_like(1), total).alu(Ops.SQRT)) * scale
    return (a.eq(math.inf) | b.eq(math.inf)).where(x.const_like(math.inf), root)


@wide
def logaddexp(x: UOp, y: UOp) -> UOp:
    """log(exp(x) + exp(y)), without overflow."""
    same = x.eq(y) & compose.absolute(x).eq(math.inf)
    return x.maximum(y) + same.where(
        x.const_like(math.log(2)), log1p(exp_of_sum(-compose.absolute(same.where(x.const_like(0), x - y))))
    )


@wide
def softplus(x: UOp) -> UOp:
    """log(1 + exp(x)) = max(x, 0) + log1p(exp(-|x|)); the derivative at 0 is that of both sides, 1/2."""
    negative = x < 0
    least = exp_of_sum(negative.where(x, -x))
    return negative.where(x.const_like(0), x) + log1p(least)


@wide
def logit(x: UOp) -> UOp:
    """log(x / (1 - x)); around 1/2, where that cancels, 2 atanh(2x - 1)."""
    near = (x > 0.25) & (x < 0.75)
    value = near.where(
        2 * atanh(near.where(x + x - 1, 0)), compose.log(near.where(x.const_like(1), x / (1 - x)))
    )
    return with_gradient_of(value, compose.log(x) - compose.log(1 - x))


@wide
def xlogy(x: UOp, y: UOp) -> UOp:
    """x log(y); 0 where x is 0, unless y is NaN. The derivative in x is log(y), in y x / y, 0 at (0, 0)."""
    skip = x.eq(0) & (y.eq(0) | y.eq(math.inf) | (y < 0))
    return skip.where(x.const_like(0), x * compose.log(skip.where(y.const_like(1), y)) + 0)  # -0.0 is 0.0
