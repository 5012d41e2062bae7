"""The logarithm of the gamma function and its derivatives. Week 5.

Nodes of a float dtype, computed in f64: near a zero of these functions the terms of which they are sums
cancel.
"""

from __future__ import annotations

import math

from numpy.polynomial import Polynomial

from uop_ir import Ops, UOp, dtypes

from . import compose
from .compose import polynomial
from .transcendental import sine_of_quarter_turns

#: lgamma(t) / ((t - 1) (t - 2)) in t - 3/2 for t from 1 to 2: relative error 2**-54.
_LGAMMA = (
    0.4831289505409809,
    -0.14595989591430594,
    0.06291140107456485,
    -0.03130848750105327,
    0.01679709863121395,
    -0.009425622444829649,
    0.005446457842219553,
    -0.0032120742206072908,
    0.0019229162321227923,
    -0.001164411377219605,
    0.0007115202752051298,
    -0.00043803516132580534,
    0.00027130273545114005,
    -0.0001685717945035172,
    0.00010541715222185904,
    -6.793733027397047e-05,
    4.281642862794779e-05,
    -2.148770252062576e-05,
    1.3584275459130943e-05,
    -1.8527803997032962e-05,
    1.1820969445467145e-05,
)
#: Bernoulli numbers B(2), B(4), ..., B(16), of which both asymptotic series are made: Stirling's, and its
#: derivative.
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
_STIRLING = tuple(b / (2 * k * (2 * k - 1)) for k, b in enumerate(_BERNOULLI, 1))
_DIGAMMA = tuple(b / (2 * k) for k, b in enumerate(_BERNOULLI, 1))
#: From here on the series are right to the last bits.
_FAR = 8


def lgamma(x: UOp) -> UOp:
    """log|gamma(x)|: infinite at 0, -1, -2, ... and at both infinities."""
    y = x.cast(dtypes.f64)
    left = y < 0
    value = _lgamma(left.where(1 - y, y))
    # the reflection: gamma(y) gamma(1 - y) = pi / sin(pi y)
    sine = compose.absolute(sine_of_quarter_turns(2 * _past_whole(left.where(y, 0.5))))
    mirrored = (math.log(math.pi) - compose.log(sine)) - value
    infinite = y.eq(-math.inf)
    return infinite.where(y.const_like(math.inf), left.where(mirrored, value)).cast(x.dtype)


def digamma(x: UOp) -> UOp:
    """The derivative of `lgamma`; infinite at 0, NaN at -1, -2, ... and at the lower infinity."""
    y = x.cast(dtypes.f64)
    left = y < 0
    value = _digamma(left.where(1 - y, y))
    rest = 2 * _past_whole(left.where(y, 0.5))
    # cos(pi/2 r) = sin(pi/2 (1 - |r|)), which is exact near its zero
    tangent = sine_of_quarter_turns(rest) / sine_of_quarter_turns(1 - compose.absolute(rest))
    pole = tangent.eq(0)
    mirrored = value - y.const_like(math.pi) / pole.where(tangent.const_like(math.nan), tangent)
    return left.where(mirrored, value).cast(x.dtype)


def polygamma(n: int, x: UOp) -> UOp:
    """The n-th derivative of `digamma`, n > 0; at 0, -1, -2, ... infinite, of the sign that it has above."""
    y = x.cast(dtypes.f64)
    left = y < 0
    value = _polygamma(n, left.where(1 - y, y))
    rest = 2 * _past_whole(left.where(y, 0.5))
    sine = sine_of_quarter_turns(rest)
    pole = sine.eq(0)
    cotangent = sine_of_quarter_turns(1 - compose.absolute(rest)) / pole.where(sine.const_like(1), sine)
    # digamma(1 - y) - digamma(y) = pi cot(pi y), of which each derivative is a polynomial in the cotangent
    slope = Polynomial([0.0, math.pi])
    for _ in range(n):
        slope = slope.deriv() * Polynomial([-math.pi, 0.0, -math.pi])
    mirrored = value * (-1.0) ** n - polynomial(cotangent, tuple(slope.coef.tolist()))
    mirrored = pole.where(y.const_like(-math.inf * (-1.0) ** n), mirrored)
    return left.where(mirrored, value).cast(x.dtype)


def _polygamma(n: int, x: UOp) -> UOp:
    """Of x >= 0: n! times the sum of (x + k)**-(n + 1) over k, of which the rest from a large m = x + k on is
    the series of Euler and Maclaurin; the sign alternates.
    """
    terms = [compose.short_power(x + k, -n - 1) for k in range(_FAR + n)]
    m = x + (_FAR + n)
    inverse = m.alu(Ops.RECIP)
    rising = [math.prod(range(n + 1, n + 2 * k)) / math.factorial(2 * k) for k in range(1, 9)]
    series = tuple(b * r for b, r in zip(_BERNOULLI, rising, strict=True))
    rest = inverse * (0.5 + inverse * polynomial(inverse * inverse, series)) + 1 / n
    total = compose.short_power(m, -n) * rest
    for term in reversed(terms):  # the least first
        total = total + term
    return total * ((-1.0) ** (n + 1) * math.factorial(n))


def _past_whole(x: UOp) -> UOp:
    """`x` less the nearest whole number; NaN for an infinity."""
    return x - (x + (x < 0).where(x.const_like(-0.5), 0.5)).alu(Ops.TRUNC)


def _lgamma(x: UOp) -> UOp:
    """Of x >= 0. Below 3 by gamma(t + 1) = t gamma(t) from t between 1 and 2, above by Stirling's series."""
    near = x < 3
    s = near.where(x, 1)
    low, high = s < 1, s > 2
    past = low.where(s, high.where(s - 2, s - 1))  # t - 1, which is exact where it is small, or near 1
    log = compose.log(low.where(s, high.where(s - 1, 1)))
    below = past * (past - 1) * polynomial(past - 0.5, _LGAMMA) + low.where(-log, log)
    far = near.where(x.const_like(_FAR), x)
    shifted = far < _FAR
    base = shifted.where(far, 1)
    factors = base
    for step in range(1, 5):
        factors = factors * (base + step)
    m = shifted.where(far + 5, far)
    inverse = m.alu(Ops.RECIP)
    series = inverse * polynomial(inverse * inverse, _STIRLING) + (0.5 * math.log(2 * math.pi) - 0.5)
    above = (m - 0.5) * (compose.log(m) - 1) + series - compose.log(shifted.where(factors, 1))
    return near.where(below, above)


def _digamma(x: UOp) -> UOp:
    """Of x >= 0: the derivative of Stirling's series,
    for small x at x + 8, and digamma(x + 1) = digamma(x) + 1 / x.
    """
    near = x < _FAR
    s = near.where(x, 1)
    steps = s.alu(Ops.RECIP)
    for step in range(1, _FAR):
        steps = steps + (s + step).alu(Ops.RECIP)
    m = near.where(x + _FAR, x)
    inverse = m.alu(Ops.RECIP)
    square = inverse * inverse
    value = compose.log(m) - inverse * 0.5 - square * polynomial(square, _DIGAMMA)
    return near.where(value - steps, value)
