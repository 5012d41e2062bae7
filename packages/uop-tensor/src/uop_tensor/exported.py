"""Numbers of an exported function: what Python computes from them is computed by the program. Week 5."""

from __future__ import annotations

import operator
from collections.abc import Callable

from uop_ir import DType, Ops, Param, UOp, dtypes

from .live import JitError
from .tensor import Tensor
from .weak import Number


class Expression:
    """A number that a program is given, or computes from such: an i64 or f64, as Python's ints and floats."""

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor

    def scalar(self, dtype: DType) -> UOp:
        """The number in a dtype. An integer becomes a float by way of f64, as in Python.

        Raises JitError for an integer that has become a float.
        """
        if dtype.is_int and self._tensor.dtype.is_float:
            raise JitError(
                "an int to a negative power, in place of an int",
                remedy="give the base or the exponent as a float",
            )
        value = self._tensor.cast(dtypes.f64) if dtype.is_float else self._tensor
        return value.cast(dtype).uop

    def __abs__(self) -> Expression:
        return Expression(self._tensor.abs())

    def __neg__(self) -> Expression:
        return Expression(-self._tensor)

    def __pos__(self) -> Expression:
        return self

    def __trunc__(self) -> Expression:
        return self._rounded(Tensor.trunc)

    def __floor__(self) -> Expression:
        return self._rounded(Tensor.floor)

    def __ceil__(self) -> Expression:
        return self._rounded(Tensor.ceil)

    def __round__(self, digits: int | None = None) -> Expression:
        if digits is not None:
            raise JitError(
                "round() to digits has no place in an exported program", remedy="give the number rounded"
            )
        return self._rounded(Tensor.round)

    def _rounded(self, function: Callable[[Tensor], Tensor]) -> Expression:
        whole = self._tensor.dtype.is_int
        return self if whole else Expression(function(self._tensor).cast(dtypes.i64))


def argument(number: int, example: Number) -> tuple[UOp, Expression]:
    """The scalar that stands for a number among the arguments, of the type of an example."""
    dtype = dtypes.i64 if isinstance(example, int) else dtypes.f64
    param = UOp(Ops.PARAM, (), Param(dtype, name=f"arg{number}"))
    return param, Expression(Tensor._of(param))


def _binary(function: Callable[[Tensor, Tensor], Tensor], reflected: bool) -> Callable[..., Expression]:
    def method(self: Expression, other: Expression | Number) -> Expression:
        own, beside = self._tensor, _tensor(other)
        exponent = self if reflected else other
        negative_power = function is operator.pow and isinstance(exponent, int) and exponent < 0
        if own.dtype is not beside.dtype or function is operator.truediv or negative_power:
            own, beside = own.cast(dtypes.f64), beside.cast(dtypes.f64)
        return Expression(function(beside, own) if reflected else function(own, beside))

    return method


def _tensor(number: Expression | Number) -> Tensor:
    if isinstance(number, Expression):
        return number._tensor
    return Tensor._of(UOp.const(dtypes.i64 if isinstance(number, int) else dtypes.f64, number))


def _operators() -> None:
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
        for prefix in ("", "r"):
            setattr(Expression, f"__{prefix}{name}__", _binary(getattr(operator, name), bool(prefix)))


_operators()
