"""Functions of one element: exponentials, activations, rounding, powers. Week 5."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Self

from uop_ir import Ops, UOp, dtypes

from . import compose
from .arithmetic import Arithmetic
from .errors import TensorError
from .transcendental import exp_of_sum
from .value import float_operand, operands


class Elementwise(Arithmetic):
    """Functions of real numbers take integers and bool as f32; f16 and bf16 are computed in f32 and rounded
    once.
    """

    def _real(self, function: Callable[[UOp], UOp]) -> Self:
        return self._of(function(float_operand(self.uop)))

    def _rounded(self, function: Callable[[UOp], UOp]) -> Self:
        """Integers are whole already."""
        return self._of(function(self.uop) if self.dtype.is_float else self.uop)

    def exp(self) -> Self:
        """e to the power x."""
        return self._real(compose.wide(exp_of_sum))

    def exp2(self) -> Self:
        """2 to the power x."""
        return self._real(lambda x: x.alu(Ops.EXP2))

    def log(self) -> Self:
        """The natural logarithm."""
        return self._real(compose.log)

    def log2(self) -> Self:
        """The logarithm to base 2."""
        return self._real(lambda x: x.alu(Ops.LOG2))

    def sqrt(self) -> Self:
        """The square root; NaN of what is negative."""
        return self._real(lambda x: x.alu(Ops.SQRT))

    def rsqrt(self) -> Self:
        """1 / sqrt(x)."""
        return self._real(compose.wide(lambda x: x.alu(Ops.SQRT).alu(Ops.RECIP)))

    def reciprocal(self) -> Self:
        """1 / x."""
        return self._real(lambda x: x.alu(Ops.RECIP))

    def sin(self) -> Self:
        """The sine, of radians."""
        return self._real(lambda x: x.alu(Ops.SIN))

    def cos(self) -> Self:
        """The cosine, of radians, to a few units in the last place of 1."""
        return self._real(compose.cos)

    def tanh(self) -> Self:
        """The hyperbolic tangent."""
        return self._real(compose.tanh)

    def sigmoid(self) -> Self:
        """1 / (1 + exp(-x))."""
        return self._real(compose.sigmoid)

    def silu(self) -> Self:
        """x * sigmoid(x)."""
        return self._real(compose.silu)

    def relu(self) -> Self:
        """The greater of x and 0; NaN stays, and the derivative at 0 is 0."""
        zero, x = operands("relu", 0, self)
        return self._of(zero.maximum(x))

    def square(self) -> Self:
        """x * x."""
        return self * self

    def neg(self) -> Self:
        """-x."""
        return -self

    negative = neg

    def abs(self) -> Self:
        """|x|; that of the least integer is itself, as in NumPy. The derivative at 0 is 0."""
        signed = self.dtype.is_float or self.dtype.min < 0
        return self._of(compose.absolute(self.uop) if signed else self.uop)

    __abs__ = abs
    absolute = abs

    def sign(self) -> Self:
        """-1, 0 or 1; NaN stays."""
        if self.dtype is dtypes.bool:
            raise TensorError("sign: an operand of dtype bool", remedy="cast it to a number")
        return self._of(compose.sign(self.uop))

    def floor(self) -> Self:
        """The greatest whole number that is not greater than x."""
        return self._rounded(compose.floor)

    def ceil(self) -> Self:
        """The least whole number that is not less than x."""
        return self._rounded(compose.ceil)

    def round(self, decimals: int = 0) -> Self:
        """To the nearest whole number, halves to the even one;
        of floats, to the nearest multiple of 10**-decimals.
        """
        if decimals == 0 or not self.dtype.is_float:
            return self._rounded(compose.round_half_even)
        scale = 10.0 ** abs(decimals)

        def rounded(x: UOp) -> UOp:
            if decimals > 0:
                return compose.round_half_even(x * scale) / scale
            return compose.round_half_even(x / scale) * scale

        return self._real(compose.wide(rounded))

    def trunc(self) -> Self:
        """Towards zero."""
        return self._rounded(lambda x: x.alu(Ops.TRUNC))

    def isnan(self) -> Self:
        """Whether an element is NaN."""
        return self._of(compose.is_nan(self.uop))

    def isinf(self) -> Self:
        """Whether an element is infinite."""
        return self._of(
            compose.absolute(self.uop).eq(math.inf) if self.dtype.is_float else compose.is_nan(self.uop)
        )
