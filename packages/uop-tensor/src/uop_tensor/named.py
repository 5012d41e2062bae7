"""Operators by name, logic, closeness, and arithmetic in which several of them stand together. Week 5."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Self

from uop_ir import Ops, UOp, dtypes

from . import compose
from .elementwise import Elementwise
from .errors import TensorError
from .graph import with_gradient_of
from .promotion import refuse_bool
from .value import Operand, Value, float_operand, operands


class Named(Elementwise):
    """`x.add(y)` is `x + y`, and so on: names of torch and tinygrad, with the promotion of the operators."""

    def add(self, other: Operand, alpha: Operand = 1) -> Self:
        """self + alpha * other."""
        return self + self._scaled(other, alpha)

    def sub(self, other: Operand, alpha: Operand = 1) -> Self:
        """self - alpha * other."""
        return self - self._scaled(other, alpha)

    subtract = sub

    def _scaled(self, other: Operand, alpha: Operand) -> Operand:
        if type(alpha) is int and alpha == 1:
            return other
        return (other if isinstance(other, Named) else self._operand("alpha", other)) * alpha

    def _operand(self, method: str, other: Operand) -> Self:
        """An operand as a tensor, in the dtype that it takes beside this one."""
        return self._of(operands(method, self, other)[1])

    def mul(self, other: Operand) -> Self:
        """self * other."""
        return self * other

    multiply = mul

    def div(self, other: Operand, rounding_mode: str | None = None) -> Self:
        """self / other; `rounding_mode` "floor" is //, and "trunc" cuts the fraction off, as C does.

        Integers are divided as f32, unless a rounding mode keeps them; x / 0 is then 0.
        """
        if rounding_mode is None:
            return self / other
        if rounding_mode == "floor":
            return self // other
        if rounding_mode != "trunc":
            raise TensorError(f"div: rounding_mode={rounding_mode!r}", remedy='give "floor", "trunc" or None')
        x, y = operands("div", self, other)
        refuse_bool("div", x.dtype)
        return self._of((x / y).alu(Ops.TRUNC) if x.dtype.is_float else compose.truncated_quotient(x, y))

    divide = true_divide = div

    def floor_divide(self, other: Operand) -> Self:
        """self // other: the quotient, rounded down."""
        return self // other

    def pow(self, exponent: Operand) -> Self:
        """self**exponent."""
        return self**exponent

    def mod(self, other: Operand) -> Self:
        """self % other: the remainder with the sign of the divisor."""
        return self % other

    remainder = mod

    def fmod(self, other: Operand) -> Self:
        """The remainder with the sign of the dividend, exact, as C's fmod; of integers, fmod(x, 0) is x."""
        x, y = operands("fmod", self, other)
        refuse_bool("fmod", x.dtype)
        return self._of(compose.truncated_remainder(x, y))

    def eq(self, other: Operand) -> Self:
        """self == other."""
        return self._equality("==", Ops.CMPEQ, other)

    def ne(self, other: Operand) -> Self:
        """self != other."""
        return self._equality("!=", Ops.CMPNE, other)

    not_equal = ne

    def lt(self, other: Operand) -> Self:
        """self < other."""
        return self < other

    less = lt

    def le(self, other: Operand) -> Self:
        """self <= other."""
        return self <= other

    less_equal = le

    def gt(self, other: Operand) -> Self:
        """self > other."""
        return self > other

    greater = gt

    def ge(self, other: Operand) -> Self:
        """self >= other."""
        return self >= other

    greater_equal = ge

    def positive(self) -> Self:
        """+self: this tensor."""
        return self

    def bitwise_and(self, other: Operand) -> Self:
        """self & other."""
        return self & other

    def bitwise_or(self, other: Operand) -> Self:
        """self | other."""
        return self | other

    def bitwise_xor(self, other: Operand) -> Self:
        """self ^ other."""
        return self ^ other

    def bitwise_not(self) -> Self:
        """~self."""
        return ~self

    def bitwise_left_shift(self, other: Operand) -> Self:
        """self << other."""
        return self << other

    def bitwise_right_shift(self, other: Operand) -> Self:
        """self >> other."""
        return self >> other

    def logical_and(self, other: Operand) -> Self:
        """Whether both are not zero."""
        return self.bool() & self._truth("logical_and", other)

    def logical_or(self, other: Operand) -> Self:
        """Whether one is not zero."""
        return self.bool() | self._truth("logical_or", other)

    def logical_xor(self, other: Operand) -> Self:
        """Whether exactly one is not zero."""
        return self.bool() ^ self._truth("logical_xor", other)

    def logical_not(self) -> Self:
        """Whether it is zero."""
        return ~self.bool()

    def _truth(self, method: str, other: Operand) -> Self:
        # beside a bool, every other operand keeps a dtype of its own
        return self._of(operands(method, other if isinstance(other, Value) else self.bool(), other)[1]).bool()

    def isfinite(self) -> Self:
        """Neither infinite nor NaN."""
        return ~(self.isinf() | self.isnan())

    def isclose(
        self, other: Operand, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
    ) -> Self:
        """|self - other| <= atol + rtol * |other|, or equal; `equal_nan` takes two NaNs for equal.

        Integers are compared as f64.
        """
        x, y = (
            self._of(n if n.dtype.is_float else n.cast(dtypes.f64)) for n in operands("isclose", self, other)
        )
        close = (x == y) | (y.isfinite() & ((x - y).abs() <= y.abs() * rtol + atol))
        return close | (x.isnan() & y.isnan()) if equal_nan else close

    def nan_to_num(self, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Self:
        """NaN and infinities replaced; an infinity by the greatest or least finite number,
        where none is given.
        """
        if not self.dtype.is_float:
            return self
        limit = float(compose.greatest_finite(self.dtype))
        x = self.uop
        x = x.eq(math.inf).where(x.const_like(limit if posinf is None else posinf), x)
        x = x.eq(-math.inf).where(x.const_like(-limit if neginf is None else neginf), x)
        return self._of(compose.is_nan(x).where(x.const_like(nan), x))

    def signbit(self) -> Self:
        """Whether the sign is negative, that of -0.0 too; every NaN counts as positive."""
        return self._of(compose.sign_bit(self.uop))

    def copysign(self, other: Operand) -> Self:
        """|self| with the sign bit of `other`; the derivative at 0 is 0."""
        x, y = map(float_operand, operands("copysign", self, other))
        size, negative = compose.absolute(x), compose.sign_bit(y)
        value = (compose.sign_bit(x) ^ negative).where(-x, x)
        return self._of(with_gradient_of(value, negative.where(-size, size)))

    def sgn(self) -> Self:
        """sign, of bool too, which stays."""
        return self if self.dtype is dtypes.bool else self.sign()

    def frac(self) -> Self:
        """What `trunc` cuts off; of an infinity, NaN."""
        return self - self.trunc()

    def lerp(self, end: Operand, weight: Operand) -> Self:
        """self + weight * (end - self), written so that a weight of 0 gives self and one of 1 gives `end`."""
        start, *others = operands("lerp", self, end, weight)
        refuse_bool("lerp", start.dtype)
        return self._of(compose.lerp(start, *others))

    def addcmul(self, first: Operand, second: Operand, value: Operand = 1) -> Self:
        """self + value * first * second."""
        return self + self._operand("addcmul", first) * value * second

    def addcdiv(self, first: Operand, second: Operand, value: Operand = 1) -> Self:
        """self + value * first / second."""
        return self + self._operand("addcdiv", first) * value / second

    def clamp(self, min: Operand | None = None, max: Operand | None = None) -> Self:
        """`clip`."""
        return self.clip(min, max)

    def clamp_min(self, min: Operand) -> Self:
        """`clip` from below."""
        return self.clip(min=min)

    def clamp_max(self, max: Operand) -> Self:
        """`clip` from above."""
        return self.clip(max=max)

    def fmax(self, other: Operand) -> Self:
        """The greater of each pair; where one is NaN, the other."""
        return self._of_numbers("fmax", other, UOp.maximum)

    def fmin(self, other: Operand) -> Self:
        """The lesser of each pair; where one is NaN, the other."""
        return self._of_numbers("fmin", other, compose.minimum)

    def _of_numbers(self, method: str, other: Operand, function: Callable[[UOp, UOp], UOp]) -> Self:
        x, y = operands(method, self, other)
        refuse_bool(method, x.dtype)
        chosen = function(x, y)
        if not x.dtype.is_float:
            return self._of(chosen)
        return self._of(compose.is_nan(x).where(y, compose.is_nan(y).where(x, chosen)))

    def type_as(self, other: Value) -> Self:
        """In the dtype of another tensor."""
        return self.cast(other.dtype)

    def rad2deg(self) -> Self:
        """Radians in degrees."""
        return self._real(lambda x: x * (180 / math.pi))

    def deg2rad(self) -> Self:
        """Degrees in radians."""
        return self._real(lambda x: x * (math.pi / 180))
