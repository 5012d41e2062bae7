"""The error function: erf, erfc, erfinv, the exact gelu. Week 5.

Nodes of a float dtype, as in `compose`; f16 and bf16 are computed in f32.
"""

from __future__ import annotations

import math

from uop_ir import DType, Ops, UOp, dtypes

from .compose import exp, log, polynomial, wide
from .graph import OWN_RULE, detach, with_gradient_of
from .transcendental import exp_of_sum, magnitude

#: erf(x) / x in x**2 for |x| <= 1/2, minimax: relative error 2**-29, then 2**-65.
_ERF: dict[DType, tuple[float, ...]] = {
    dtypes.f32: (
        1.1283791065216064,
        -0.37612608075141907,
        0.11282822489738464,
        -0.02675718627870083,
        0.00471799261868,
    ),
    dtypes.f64: (
        1.1283791670955126,
        -0.3761263890318375,
        0.11283791670954864,
        -0.02686617064499765,
        0.005223977621974559,
        -0.0008548326505843988,
        0.00012055285871644205,
        -1.4922990331249497e-05,
        1.6370956910554456e-06,
        -1.4618451371674646e-07,
    ),
}
#: exp(t*t) (1 + 2t) erfc(t) in q = (t - 4) / (t + 4) for t from 1/2 to the last that has an erfc, minimax:
#: relative error 2**-28, then 2**-58. The form is that of M. Shepherd and J. Laframboise, "Chebyshev
#: Approximation of (1 + 2x) exp(x**2) erfc x in 0 <= x < infinity" (Math. Comp., 1981).
_ERFC: dict[DType, tuple[float, ...]] = {
    dtypes.f32: (
        1.2329951524734497,
        -0.1396210640668869,
        0.015379810705780983,
        0.06809455156326294,
        -0.10104429721832275,
        0.09376781433820724,
        -0.06626258790493011,
        0.0369923934340477,
        -0.016572697088122368,
        0.005274700000882149,
    ),
    dtypes.f64: (
        1.2329951186255526,
        -0.1396211168405625,
        0.015379652102618992,
        0.06809705425469025,
        -0.10103906603625126,
        0.09373283499845333,
        -0.0663303658136724,
        0.037167515535415016,
        -0.01619773403742569,
        0.005031970001111371,
        -0.0007577734547219681,
        -0.00019925685429307276,
        0.0001506225210628402,
        -2.43984963417337e-05,
        -1.1224800010670084e-05,
        5.707577880415907e-06,
        2.996634380511363e-07,
        -8.21133844076162e-07,
        6.693458642181471e-08,
        1.046125452528017e-07,
        -1.2191800174662043e-08,
        -1.0134251963447584e-08,
    ),
}
#: erfinv(x) / x in w = -log(1 - x*x) for w to 5, and erfinv(x) / s in 1/s for s = sqrt(w) from there to the
#: last x below 1, minimax: absolute error of erfinv 2**-20,
#: of which a step by Halley's method makes less than 2**-58.
_ERFINV_NEAR = (
    0.8862266888407374,
    0.2320213661512416,
    0.011509270837735137,
    -0.0022567574766795416,
    -0.0002027767927393142,
    8.512141523670671e-05,
    -8.709533806187911e-06,
    3.156369689125517e-07,
)
_ERFINV_FAR = (
    1.0013742034826258,
    -0.05747936277470602,
    -0.8566562020180898,
    2.3150830106135456,
    -3.13070187261867,
    3.0033096498395193,
    -1.615003286679171,
)
#: Where erfc is 0, and what rounds a smaller number, when it is added, to so few digits that its square is
#: exact.
_LAST = {dtypes.f32: (10.2, 1.5 * 2.0**16), dtypes.f64: (27.5, 1.5 * 2.0**32)}


def _erf_near(x: UOp) -> UOp:
    return x * polynomial(x * x, _ERF[x.dtype])


def _erfc_far(t: UOp) -> UOp:
    """erfc of t >= 1/2. The exponent -t*t is a square that is exact, and a rest."""
    last, shifter = _LAST[t.dtype]
    t = (t > last).where(t.const_like(last), t)
    short = detach(t + shifter) - shifter
    power = exp_of_sum(-(short * short), -((t - short) * (t + short)))
    return power * (polynomial((t - 4) / (t + 4), _ERFC[t.dtype]) / (t + t + 1))


@wide
def erf(x: UOp) -> UOp:
    a = magnitude(x)
    near = a < 0.5
    far = 1 - _erfc_far(near.where(x.const_like(1), a))
    return near.where(_erf_near(near.where(x, 0)), (x < 0).where(-far, far))


@wide
def erfc(x: UOp) -> UOp:
    """1 - erf(x), without cancellation."""
    a = magnitude(x)
    near = a < 0.5
    far = _erfc_far(near.where(x.const_like(1), a))
    return near.where(1 - _erf_near(near.where(x, 0)), (x < 0).where(2 - far, far))


def erfinv(x: UOp) -> UOp:
    """The inverse of erf, in f64: a guess that is right to 2**-20,
    and a step by Halley's method. NaN outside of [-1, 1].

    The guess is made in two pieces as that of M.
    Giles, "Approximating the erfinv function" (GPU Computing Gems, 2011).
    """
    y = x.cast(dtypes.f64)
    a = magnitude(y)
    w = -log((1 - a) * (1 + a))
    near = w < 5
    s = near.where(w.const_like(1), w).alu(Ops.SQRT)
    guess = near.where(a * polynomial(w, _ERFINV_NEAR), s * polynomial(s.alu(Ops.RECIP), _ERFINV_FAR))
    # erf(guess) - a; for a near 1, from what both lack of 1
    off = (a < 0.5).where(erf(guess) - a, (1 - a) - erfc(guess))
    step = off * exp(guess * guess) * (math.sqrt(math.pi) / 2)
    guess = guess - step / (guess * step + 1)
    found = a.eq(1).where(a.const_like(math.inf), guess)
    node = with_gradient_of((y < 0).where(-found, found), y)
    node.memo[OWN_RULE] = lambda node, g: (None, g * exp(node * node) * (math.sqrt(math.pi) / 2))
    return node.cast(x.dtype)


@wide
def gelu(x: UOp) -> UOp:
    """x times the normal distribution's function, erfc(-x / sqrt(2)) / 2."""
    return x * 0.5 * erfc(x * -math.sqrt(0.5))
