"""Functions of real numbers as compositions of ops: exp, tanh, rounding, powers. Week 5.

Each takes and gives nodes of a float dtype. Those marked `wide` compute f16 and bf16 in f32 and round once.
They are written so that their gradients, which the rule table derives, are finite where the function is
smooth.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, cast

import numpy as np

from uop_ir import DType, Ops, UOp, dtypes

from .graph import OWN_RULE, with_gradient_of
from .promotion import SIGNED

P = ParamSpec("P")


def wide(function: Callable[P, UOp]) -> Callable[P, UOp]:
    """Compute f16 and bf16, in which all operands are, in f32."""

    @wraps(function)
    def computed(*args: P.args, **kwargs: P.kwargs) -> UOp:
        (dtype,) = {x.dtype for x in args if isinstance(x, UOp)}
        if dtype.bits != 16:
            return function(*args, **kwargs)
        inner = [x.cast(dtypes.f32) if isinstance(x, UOp) else x for x in args]
        return cast("UOp", cast("Any", function)(*inner, **kwargs)).cast(dtype)

    return computed


def is_nan(x: UOp) -> UOp:
    return x.ne(x)


def invert(x: UOp) -> UOp:
    """Not; for integers, every bit."""
    return x ^ (int(x.dtype.max) if _unsigned(x) else -1)


def _unsigned(x: UOp) -> bool:
    return x.dtype.min == 0


def mirrored(x: UOp) -> UOp:
    """The same elements in the opposite order: floats negated, integers with every bit inverted."""
    return -x if x.dtype.is_float else invert(x)


def minimum(x: UOp, y: UOp) -> UOp:
    return mirrored(mirrored(x).maximum(mirrored(y)))


def absolute(x: UOp) -> UOp:
    """|x|; |-0.0| is 0.0, and the derivative at 0 is 0 (MAX shares a tie)."""
    return (0 - x).maximum(x) if x.dtype.is_float else x.maximum(-x)


def sign(x: UOp) -> UOp:
    """-1, 0 or 1; NaN stays."""
    zero = x.const_like(0)
    signs = (zero < x).cast(x.dtype) - (x < zero).cast(x.dtype)
    return x.eq(x).where(signs, math.nan) if x.dtype.is_float else signs


def sign_bit(x: UOp) -> UOp:
    """Whether a number is negative, -0.0 included; false for NaN, whose bits are canonical."""
    if x.dtype.is_float:
        x = x.bitcast(SIGNED[x.dtype.bits])
    return x < 0 if x.dtype.min < 0 else x.ne(x)


def greatest_finite(dtype: DType) -> float:
    """The greatest finite number of a float dtype."""
    return float(np.nextafter(dtype.numpy.type(np.inf), dtype.numpy.type(0)))


def flat_sqrt(x: UOp) -> UOp:
    """sqrt(x), whose derivative at 0 is 0."""
    zero = x.eq(0)
    return zero.where(x.const_like(0), zero.where(x.const_like(1), x).alu(Ops.SQRT))


@wide
def exp(x: UOp) -> UOp:
    return (x * math.log2(math.e)).alu(Ops.EXP2)


@wide
def log(x: UOp) -> UOp:
    return x.alu(Ops.LOG2) * math.log(2)


@wide
def cos(x: UOp) -> UOp:
    """1 - 2 sin(x/2)^2: x/2 is exact, so large arguments are as good as those of SIN.
    Its gradient is -sin(x).
    """
    half_sine = (x * 0.5).alu(Ops.SIN)
    node = with_gradient_of(1 - 2 * half_sine * half_sine, x)
    node.memo[OWN_RULE] = lambda node, g: (None, -(g * x.alu(Ops.SIN)))
    return node


@wide
def sigmoid(x: UOp) -> UOp:
    """exp(min(x, 0)) / (1 + exp(-|x|)): no exponential overflows, here or in the gradient."""
    negative = x < 0
    e = exp(negative.where(x, -x))
    return negative.where(e, 1) / (1 + e)


@wide
def tanh(x: UOp) -> UOp:
    """(1 - e) / (1 + e) with e = exp(-2|x|), with the sign of x; near 0, where that cancels, a Pade
    approximant.
    """
    negative = x < 0
    near = negative.where(-x, x) < 0.5
    e = exp(negative.where(x, -x) * 2)
    far = (1 - e) / (1 + e)
    p, q = tanh_parts(near.where(x, 0))
    return near.where(p / q, negative.where(-far, far))


#: x P(x^2) / Q(x^2): convergents of x/(1 + x^2/(3 + x^2/(5 + ...))), exact to the last bits for |x| < 0.5.
_TANH = {
    32: ((945, 105, 1), (945, 420, 15)),
    64: ((2027025, 270270, 6930, 36), (2027025, 945945, 51975, 630, 1)),
}


def tanh_parts(x: UOp) -> tuple[UOp, UOp]:
    """Numerator and denominator of tanh(x), f32 or f64, for |x| < 0.5."""
    numerator, denominator = _TANH[x.dtype.bits]
    square = x * x
    return x * polynomial(square, numerator), polynomial(square, denominator)


def polynomial(x: UOp, coefficients: tuple[float, ...]) -> UOp:
    """The coefficient of the lowest power comes first."""
    value = x.const_like(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        value = value * x + c
    return value


@wide
def gelu(x: UOp) -> UOp:
    """x (1 + tanh u) / 2 = x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3)."""
    return x * sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x))


@wide
def silu(x: UOp) -> UOp:
    return x * sigmoid(x)


def floor(x: UOp) -> UOp:
    whole = x.alu(Ops.TRUNC)
    return (x < whole).where(whole - 1, whole)


def ceil(x: UOp) -> UOp:
    whole = x.alu(Ops.TRUNC)
    return (whole < x).where(whole + 1, whole)


def round_half_even(x: UOp) -> UOp:
    whole = x.alu(Ops.TRUNC)
    rest = absolute(x - whole)
    odd = (whole * 0.5).ne((whole * 0.5).alu(Ops.TRUNC))
    away = (rest > 0.5) | (rest.eq(0.5) & odd)
    return away.where(whole + (x < 0).where(x.const_like(-1), 1), whole)


@wide
def floor_divide(x: UOp, y: UOp) -> UOp:
    """x // y of floats as in Python: exact where x - x % y is; -0.0 and a division by 0 as in NumPy."""
    quotient = x / y
    exact = (x - x % y) / y
    down = floor(exact)
    down = (exact - down > 0.5).where(down + 1, down)
    down = exact.eq(0).where(quotient * 0, down)
    finite_by_infinite = absolute(y).eq(math.inf) & (absolute(x) < math.inf)
    apart = ((x < 0) ^ (y < 0)) & x.ne(0)
    down = finite_by_infinite.where(apart.where(quotient.const_like(-1), quotient), down)
    return y.eq(0).where(quotient, down)


def truncated_quotient(x: UOp, y: UOp) -> UOp:
    """x / y of integers without its fraction; x / 0 is 0."""
    floored = x // y
    inexact = (x % y).ne(0) & y.ne(0)
    return (inexact & ((x < 0) ^ (y < 0))).where(floored + 1, floored)


def truncated_remainder(x: UOp, y: UOp) -> UOp:
    """The remainder with the sign of x; of integers, that of a division by 0 is x."""
    if not x.dtype.is_float:
        return x - truncated_quotient(x, y) * y
    negative = sign_bit(x)
    rest = negative.where(-x, x) % (y < 0).where(-y, y)
    return negative.where(-rest, rest)


def power(x: UOp, y: UOp) -> UOp:
    """x ** y of floats, with the special cases of C's pow; the base and exponent share a dtype.

    2^(y log2|x|) in the next wider float, so that an f32 result is right to the last bits (f64: to about
    1e-13).
    """
    dtype = x.dtype
    inner = dtypes.f64 if dtype is dtypes.f32 else dtypes.f32 if dtype.bits == 16 else dtype
    return _power(x.cast(inner), y.cast(inner)).cast(dtype)


def _power(x: UOp, y: UOp) -> UOp:
    zero = x.eq(0)
    below = (x < 0) | (zero & (x.alu(Ops.RECIP) < 0))
    magnitude = below.where(-x, x)
    safe = zero.where(x.const_like(1), magnitude)
    value = (y * safe.alu(Ops.LOG2)).alu(Ops.EXP2)
    # 1 to any power, -1 to an infinity, and anything to the power 0 are 1, where the formula gives NaN
    finite = magnitude < math.inf
    one = (x.eq(1) & is_nan(y)) | (magnitude.eq(1) & absolute(y).eq(math.inf)) | (y.eq(0) & invert(finite))
    value = one.where(x.const_like(1), value)
    value = zero.where(_power_of_zero(magnitude, y), value)
    # a negative base: an odd exponent keeps the sign; a fraction has no real result
    whole = y.alu(Ops.TRUNC).eq(y)
    odd = whole & (y * 0.5).alu(Ops.TRUNC).ne(y * 0.5)
    value = (below & odd).where(-value, value)
    unreal = (x < 0) & invert(whole) & finite
    # not a constant, whose gradient would be 0; where it is not taken, none flows through it
    return unreal.where(unreal.where(x + y, 1) * math.nan, value)


def _power_of_zero(x: UOp, y: UOp) -> UOp:
    """x ** y where x is 0, written so that the derivative in x is right too: 0 for y > 1, 1 for y = 1, else
    infinite.
    """
    root = ((y > 0) & (y < 1)).where(x, 1).alu(Ops.SQRT)
    positive = (y > 1).where(x.const_like(0), y.eq(1).where(x, root))
    value = y.eq(0).where(x.const_like(1), (y > 0).where(positive, math.inf))
    return is_nan(y).where(y, value)


def lerp(start: UOp, end: UOp, weight: UOp) -> UOp:
    """start + weight * (end - start), from the nearer end:
    a weight of 0 gives `start` and one of 1 gives `end`.
    """
    way = end - start
    return (weight + weight < 1).where(start + weight * way, end - way * (1 - weight))


def integer_power(x: UOp, exponent: int) -> UOp:
    """x ** exponent by repeated squaring, exponent >= 1."""
    result: UOp | None = None
    while True:
        if exponent & 1:
            result = x if result is None else result * x
        exponent >>= 1
        if not exponent:
            assert result is not None
            return result
        x = x * x


@wide
def short_power(x: UOp, exponent: int) -> UOp:
    """x ** exponent of a float by products, exponent not 0."""
    product = integer_power(x, abs(exponent))
    return product if exponent > 0 else product.alu(Ops.RECIP)


def integer_power_of(x: UOp, y: UOp) -> UOp:
    """x ** y of integers, wrapping; a negative exponent gives the truncated reciprocal (0, 1 or -1)."""
    result, base = x.const_like(1), x
    for bit in range(x.dtype.bits):
        result = (y & (1 << bit)).ne(0).where(result * base, result)
        base = base * base
    if _unsigned(x):
        return result
    unit = x.eq(1) | x.eq(-1)
    return (y < 0).where(unit.where(result, 0), result)
