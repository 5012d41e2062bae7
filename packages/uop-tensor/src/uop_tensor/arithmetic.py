"""Operators: arithmetic, comparison, bits, casts and where. Week 5."""

from __future__ import annotations

import math
from typing import Self, cast

from uop_ir import DType, Ops, UOp, dtypes

from . import compose, shapes
from .errors import TensorError
from .graph import broadcast_to, with_gradient_of
from .promotion import refuse_bool
from .value import Operand, Value, float_operand, operands

#: What stands for an op on bool, as in NumPy.
_OF_BOOL = {Ops.ADD: Ops.OR, Ops.MUL: Ops.AND, Ops.MAX: Ops.OR}


def _number_op(method: str, op: Ops, x: UOp, y: UOp) -> UOp:
    if x.dtype is dtypes.bool:
        if op not in _OF_BOOL:
            raise TensorError(
                f"{method}: operands of dtype bool", remedy="cast them to a number, or use ^ or ~"
            )
        op = _OF_BOOL[op]
    return x.alu(op, y)


def _divide(x: UOp, y: UOp) -> UOp:
    return float_operand(x) / float_operand(y)


def _floor_divide(method: str, x: UOp, y: UOp) -> UOp:
    return compose.floor_divide(x, y) if x.dtype.is_float else _number_op(method, Ops.DIV, x, y)


def _power(method: str, x: UOp, y: UOp) -> UOp:
    if x.dtype.is_float:
        return compose.power(x, y)
    refuse_bool(method, x.dtype)
    return compose.integer_power_of(x, y)


def _bits(method: str, op: Ops, x: UOp, y: UOp) -> UOp:
    if x.dtype.is_float or (x.dtype is dtypes.bool and op in (Ops.SHL, Ops.SHR)):
        raise TensorError(f"{method}: operands of dtype {x.dtype}", remedy="cast them to an integer type")
    return x.alu(op, y)


class Arithmetic(Value):
    """Operands broadcast as in NumPy and are promoted as the Array API says; a Python number takes the
    tensor's dtype.
    """

    def __add__(self, other: Operand) -> Self:
        return self._of(_number_op("+", Ops.ADD, *operands("+", self, other)))

    def __radd__(self, other: Operand) -> Self:
        return self._of(_number_op("+", Ops.ADD, *operands("+", other, self)))

    def __sub__(self, other: Operand) -> Self:
        return self._of(_number_op("-", Ops.SUB, *operands("-", self, other)))

    def __rsub__(self, other: Operand) -> Self:
        return self._of(_number_op("-", Ops.SUB, *operands("-", other, self)))

    def __mul__(self, other: Operand) -> Self:
        return self._of(_number_op("*", Ops.MUL, *operands("*", self, other)))

    def __rmul__(self, other: Operand) -> Self:
        return self._of(_number_op("*", Ops.MUL, *operands("*", other, self)))

    def __truediv__(self, other: Operand) -> Self:
        """x / y; integers are divided as f32."""
        return self._of(_divide(*operands("/", self, other)))

    def __rtruediv__(self, other: Operand) -> Self:
        return self._of(_divide(*operands("/", other, self)))

    def __floordiv__(self, other: Operand) -> Self:
        """floor(x / y); of integers, x // 0 is 0."""
        return self._of(_floor_divide("//", *operands("//", self, other)))

    def __rfloordiv__(self, other: Operand) -> Self:
        return self._of(_floor_divide("//", *operands("//", other, self)))

    def __mod__(self, other: Operand) -> Self:
        """The remainder with the sign of the divisor; of integers, x % 0 is x."""
        return self._of(_number_op("%", Ops.MOD, *operands("%", self, other)))

    def __rmod__(self, other: Operand) -> Self:
        return self._of(_number_op("%", Ops.MOD, *operands("%", other, self)))

    def __pow__(self, other: Operand) -> Self:
        """x ** y with the special cases of C's pow; small integer exponents are products, 0.5 is sqrt.

        Raises TensorError for an integer tensor and a negative Python exponent.
        """
        x, y = operands("**", self, other)
        if isinstance(other, int | float):
            if other < 0 and not x.dtype.is_float:
                raise TensorError(f"**: {x.dtype} to the power {other}", remedy="cast it to a float type")
            short = _short_power(x, other)
            if short is not None:
                return self._of(short)
        return self._of(_power("**", x, y))

    def __rpow__(self, other: Operand) -> Self:
        return self._of(_power("**", *operands("**", other, self)))

    def __neg__(self) -> Self:
        if self.dtype is dtypes.bool:
            raise TensorError("-: an operand of dtype bool", remedy="use ~")
        return self._of(-self.uop)

    def __pos__(self) -> Self:
        return self._of(self.uop)

    def __and__(self, other: Operand) -> Self:
        return self._of(_bits("&", Ops.AND, *operands("&", self, other)))

    def __rand__(self, other: Operand) -> Self:
        return self & other

    def __or__(self, other: Operand) -> Self:
        return self._of(_bits("|", Ops.OR, *operands("|", self, other)))

    def __ror__(self, other: Operand) -> Self:
        return self | other

    def __xor__(self, other: Operand) -> Self:
        return self._of(_bits("^", Ops.XOR, *operands("^", self, other)))

    def __rxor__(self, other: Operand) -> Self:
        return self ^ other

    def __invert__(self) -> Self:
        if self.dtype.is_float:
            raise TensorError(f"~: an operand of dtype {self.dtype}", remedy="cast it to an integer type")
        return self._of(compose.invert(self.uop))

    def __lshift__(self, other: Operand) -> Self:
        """x * 2**y, wrapping; a count that is negative or at least the width gives 0."""
        return self._of(_bits("<<", Ops.SHL, *operands("<<", self, other)))

    def __rlshift__(self, other: Operand) -> Self:
        return self._of(_bits("<<", Ops.SHL, *operands("<<", other, self)))

    def __rshift__(self, other: Operand) -> Self:
        """floor(x / 2**y); a count that is negative or at least the width gives 0, or -1 for negative x."""
        return self._of(_bits(">>", Ops.SHR, *operands(">>", self, other)))

    def __rrshift__(self, other: Operand) -> Self:
        return self._of(_bits(">>", Ops.SHR, *operands(">>", other, self)))

    def __lt__(self, other: Operand) -> Self:
        x, y = operands("<", *self._compared(other))
        return self._of(x.alu(Ops.CMPLT, y))

    def __gt__(self, other: Operand) -> Self:
        x, y = operands(">", *self._compared(other))
        return self._of(y.alu(Ops.CMPLT, x))

    def __le__(self, other: Operand) -> Self:
        x, y = operands("<=", *self._compared(other))
        return self._of(_at_most(x, y))

    def __ge__(self, other: Operand) -> Self:
        x, y = operands(">=", *self._compared(other))
        return self._of(_at_most(y, x))

    def __eq__(self, other: object) -> Self:  # type: ignore[override]  # elementwise, as in NumPy
        return self._equality("==", Ops.CMPEQ, other) if _comparable(other) else cast(Self, NotImplemented)

    def __ne__(self, other: object) -> Self:  # type: ignore[override]
        return self._equality("!=", Ops.CMPNE, other) if _comparable(other) else cast(Self, NotImplemented)

    __hash__ = Value.__hash__

    def _compared(self, other: Operand) -> tuple[Self, Operand]:
        """Both sides of a comparison; a Python int that the dtype
        does not hold counts as an infinity beside f64.
        """
        if type(other) is not int or not self.dtype.is_int or self.dtype.min <= other <= self.dtype.max:
            return self, other
        return self.cast(dtypes.f64), math.copysign(math.inf, other)

    def _equality(self, method: str, op: Ops, other: object) -> Self:
        x, y = operands(method, *self._compared(other))  # type: ignore[arg-type]  # refused where it is no operand
        return self._of(x.alu(op, y))

    def maximum(self, other: Operand) -> Self:
        """The greater of each pair; NaN where one is NaN. The gradient of a tie is shared (a constant takes
        none).
        """
        return self._of(_number_op("maximum", Ops.MAX, *operands("maximum", self, other)))

    def minimum(self, other: Operand) -> Self:
        """The lesser of each pair; NaN where one is NaN. The gradient of a tie is shared (a constant takes
        none).
        """
        x, y = operands("minimum", self, other)
        return self._of(x & y if x.dtype is dtypes.bool else compose.minimum(x, y))

    def clip(self, min: Operand | None = None, max: Operand | None = None) -> Self:
        """Each element brought between `min` and `max`, where given;
        `max` wins if they cross, and NaN over all.

        The gradient goes to an element that is within the bounds or at one,
        and to the bound beside any other.
        """
        out = self
        if min is not None:
            x, low = operands("clip", out, min)
            out = self._of(((x < low) | _is_nan(low)).where(low, x))
        if max is not None:
            x, high = operands("clip", out, max)
            out = self._of(((high < x) | _is_nan(high)).where(high, x))
        return out

    def where(self, yes: Operand, no: Operand) -> Self:
        """`yes` where this bool tensor is true, else `no`."""
        if self.dtype is not dtypes.bool:
            raise TensorError(
                f"where: the condition has dtype {self.dtype}", remedy="compare it, or cast it to bool"
            )
        x, y = operands("where", yes, no)
        shapes.broadcast("where", self.shape, x.shape, y.shape)
        return self._of(self.uop.where(x, y))

    def cast(self, dtype: DType) -> Self:
        """In another dtype: to nearest even; float to integer truncates and saturates, NaN gives 0; to bool
        is `x != 0`.
        """
        return self._of(self.uop.cast(dtype))

    def bitcast(self, dtype: DType) -> Self:
        """The same bits as another dtype of the same width."""
        if self.dtype is not dtype and (dtypes.bool in (dtype, self.dtype) or dtype.bits != self.dtype.bits):
            raise TensorError(
                f"bitcast: from {self.dtype} to {dtype}", remedy="both must be numbers of the same width"
            )
        return self._of(self.uop.bitcast(dtype))

    def float(self) -> Self:
        """As f32."""
        return self.cast(dtypes.f32)

    def double(self) -> Self:
        """As f64."""
        return self.cast(dtypes.f64)

    def half(self) -> Self:
        """As f16."""
        return self.cast(dtypes.f16)

    def bfloat16(self) -> Self:
        """As bf16."""
        return self.cast(dtypes.bf16)

    def int(self) -> Self:
        """As i32."""
        return self.cast(dtypes.i32)

    def short(self) -> Self:
        """As i16."""
        return self.cast(dtypes.i16)

    def long(self) -> Self:
        """As i64."""
        return self.cast(dtypes.i64)

    def bool(self) -> Self:
        """As bool: `x != 0`."""
        return self.cast(dtypes.bool)


def _is_nan(x: UOp) -> UOp:
    return compose.is_nan(x) if x.dtype.is_float else UOp.const(dtypes.bool, False)


def _comparable(other: object) -> bool:
    """Whether an operand may equal a tensor; all else is left to Python, to which it is another object."""
    return isinstance(other, Value | int | float) or hasattr(other, "dtype")


def _at_most(x: UOp, y: UOp) -> UOp:
    """x <= y; false beside NaN."""
    return (x.alu(Ops.CMPLT, y) | x.eq(y)) if x.dtype.is_float else compose.invert(y.alu(Ops.CMPLT, x))


def _short_power(x: UOp, exponent: float) -> UOp | None:
    """x ** exponent without logarithms, where that is short and exact enough; else None."""
    if exponent == 0:
        one = broadcast_to(x.const_like(1), x.shape)
        return with_gradient_of(one, x * 0) if x.dtype.is_float else one
    if exponent == 0.5 and x.dtype.is_float:
        return x.alu(Ops.SQRT)
    if not math.isfinite(exponent) or exponent != int(exponent):
        return None
    if x.dtype.is_float and abs(exponent) > 4:
        return None
    return (
        compose.short_power(x, int(exponent)) if x.dtype.is_float else compose.integer_power(x, int(exponent))
    )
