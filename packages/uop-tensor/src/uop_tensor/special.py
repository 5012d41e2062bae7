"""Transcendental functions: trigonometric,
hyperbolic and their inverses, error and gamma function. Week 5.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Self

from uop_ir import Ops, UOp, dtypes

from . import compose, error_function, exact, gamma, transcendental
from .errors import TensorError
from .graph import detach
from .named import Named
from .value import Operand, float_operand, operands


class Special(Named):
    """f32 and f64 results are within a few units in the last
    place (docs/functions.md has what was measured).
    """

    def tan(self) -> Self:
        """The tangent, of radians."""
        return self._real(transcendental.tan)

    def asin(self) -> Self:
        """The arc sine, from -pi/2 to pi/2; NaN outside of [-1, 1]."""
        return self._real(transcendental.asin)

    arcsin = asin

    def acos(self) -> Self:
        """The arc cosine, from 0 to pi; NaN outside of [-1, 1]."""
        return self._real(transcendental.acos)

    arccos = acos

    def atan(self) -> Self:
        """The arc tangent, from -pi/2 to pi/2."""
        return self._real(transcendental.atan)

    arctan = atan

    def atan2(self, other: Operand) -> Self:
        """The angle of the point (other, self), from -pi to pi; the signs of zeros count, as in C."""
        y, x = map(float_operand, operands("atan2", self, other))
        return self._of(transcendental.atan2(y, x))

    arctan2 = atan2

    def sinh(self) -> Self:
        """The hyperbolic sine."""
        return self._real(transcendental.sinh)

    def cosh(self) -> Self:
        """The hyperbolic cosine."""
        return self._real(transcendental.cosh)

    def asinh(self) -> Self:
        """The inverse of sinh."""
        return self._real(transcendental.asinh)

    arcsinh = asinh

    def acosh(self) -> Self:
        """The inverse of cosh, from 0; NaN below 1."""
        return self._real(transcendental.acosh)

    arccosh = acosh

    def atanh(self) -> Self:
        """The inverse of tanh; NaN outside of [-1, 1]."""
        return self._real(transcendental.atanh)

    arctanh = atanh

    def erf(self) -> Self:
        """2 / sqrt(pi) times the integral of exp(-t*t) from 0 to x."""
        return self._real(error_function.erf)

    def erfc(self) -> Self:
        """1 - erf(x), without cancellation."""
        return self._real(error_function.erfc)

    def erfinv(self) -> Self:
        """The inverse of erf, infinite at -1 and 1; NaN outside of [-1, 1]."""
        return self._real(error_function.erfinv)

    def lgamma(self) -> Self:
        """The logarithm of |gamma(x)|, infinite at 0, -1, -2, ...; its derivative is `digamma`."""
        return self._real(gamma.lgamma)

    def digamma(self) -> Self:
        """The derivative of `lgamma`; NaN at -1, -2, ..., infinite at 0 with the other sign than the zero."""
        return self._real(gamma.digamma)

    def polygamma(self, n: int) -> Self:
        """The n-th derivative of `digamma`, for n from 0 to 20. Raises TensorError for another n.

        At 0, -1, -2, ... it is infinite, with the sign that it has above 0.
        """
        if not 0 <= n <= 20:
            raise TensorError(f"polygamma: n={n}", remedy="from 0 to 20")
        return self._real(partial(gamma.polygamma, n)) if n else self.digamma()

    def log1p(self) -> Self:
        """log(1 + x), exact near 0."""
        return self._real(transcendental.log1p)

    def expm1(self) -> Self:
        """exp(x) - 1, exact near 0."""
        return self._real(transcendental.expm1)

    def log10(self) -> Self:
        """The logarithm to base 10."""
        return self._real(compose.wide(lambda x: x.alu(Ops.LOG2) * math.log10(2)))

    def logit(self, eps: float | None = None) -> Self:
        """log(x / (1 - x)), the inverse of `sigmoid`; `eps` first brings x into [eps, 1 - eps]."""
        x = self if eps is None else self.clip(eps, 1 - eps)
        return x._real(transcendental.logit)

    def logaddexp(self, other: Operand) -> Self:
        """log(exp(self) + exp(other)), without overflow."""
        x, y = map(float_operand, operands("logaddexp", self, other))
        return self._of(transcendental.logaddexp(x, y))

    def hypot(self, other: Operand) -> Self:
        """sqrt(self**2 + other**2), without overflow; infinite beside an infinity, even of NaN."""
        x, y = map(float_operand, operands("hypot", self, other))
        return self._of(transcendental.hypot(x, y))

    def xlogy(self, other: Operand) -> Self:
        """self * log(other); 0 where self is 0, unless other is NaN."""
        x, y = map(float_operand, operands("xlogy", self, other))
        return self._of(transcendental.xlogy(x, y))

    def gcd(self, other: Operand) -> Self:
        """The greatest common divisor of integers, not negative; of 0 and 0 it is 0.

        It takes as many remainders as the greatest numbers of the dtype need: 93 of 64 bits.
        """
        return self._of_integers("gcd", other, exact.gcd)

    def lcm(self, other: Operand) -> Self:
        """The least common multiple of integers, not negative unless it wraps; beside 0 it is 0."""
        return self._of_integers("lcm", other, exact.lcm)

    def _of_integers(self, method: str, other: Operand, function: Callable[[UOp, UOp], UOp]) -> Self:
        x, y = operands(method, self, other)
        if not x.dtype.is_int:
            raise TensorError(f"{method}: operands of dtype {x.dtype}", remedy="cast them to an integer type")
        return self._of(function(x, y))

    def nextafter(self, other: Operand) -> Self:
        """The next number of the dtype on the way to `other`; a constant to `backward`, as in torch."""
        x, y = (detach(float_operand(n)) for n in operands("nextafter", self, other))
        return self._of(exact.nextafter(x, y))

    def heaviside(self, values: Operand) -> Self:
        """0 where x < 0, 1 where x > 0, `values` where it is 0; NaN stays."""
        x, y = operands("heaviside", self, values)
        if x.dtype is dtypes.bool:
            raise TensorError("heaviside: operands of dtype bool", remedy="cast them to a number")
        step = (x < 0).where(x.const_like(0), 1)
        step = x.eq(0).where(y, step)
        return self._of(compose.is_nan(x).where(x, step) if x.dtype.is_float else step)

    def ldexp(self, other: Operand) -> Self:
        """self * 2**other."""
        x, y = map(float_operand, operands("ldexp", self, other))
        return self._of(x * y.alu(Ops.EXP2))

    def sinc(self) -> Self:
        """sin(pi x) / (pi x); 1 at 0."""

        def function(x: UOp) -> UOp:
            zero = x.eq(0)
            angle = zero.where(x.const_like(1), x) * math.pi
            return zero.where(x.const_like(1), angle.alu(Ops.SIN) / angle)

        return self._real(compose.wide(function))
