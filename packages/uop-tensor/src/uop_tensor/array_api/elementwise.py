"""Functions of one element or two: methods of Tensor under the names of the standard. Week 5."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from uop_tensor.data import Number
from uop_tensor.tensor import Tensor

from .array import Array, as_array


def _unary(name: str, method: Callable[[Any], Tensor]) -> Callable[[Tensor], Array]:
    """A method of Tensor as a function of one array."""

    def function(x: Tensor, /) -> Array:
        return as_array(method(as_array(x)))

    return _named(function, name, method)


def _binary(name: str, method: Callable[..., Tensor]) -> Callable[[Tensor, Tensor], Array]:
    """A method of Tensor as a function of two arrays, which broadcast and are promoted."""

    def function(x1: Tensor, x2: Tensor, /) -> Array:
        return as_array(method(as_array(x1), as_array(x2)))

    return _named(function, name, method)


def _named(function: Callable[..., Array], name: str, method: Callable[..., Tensor]) -> Callable[..., Array]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = method.__doc__ or f"The method `{method.__name__}` of Tensor."
    return function


abs = _unary("abs", Tensor.abs)
acos = _unary("acos", Tensor.acos)
acosh = _unary("acosh", Tensor.acosh)
asin = _unary("asin", Tensor.asin)
asinh = _unary("asinh", Tensor.asinh)
atan = _unary("atan", Tensor.atan)
atanh = _unary("atanh", Tensor.atanh)
bitwise_invert = _unary("bitwise_invert", Tensor.bitwise_not)
ceil = _unary("ceil", Tensor.ceil)
conj = _unary("conj", Tensor.positive)
cos = _unary("cos", Tensor.cos)
cosh = _unary("cosh", Tensor.cosh)
exp = _unary("exp", Tensor.exp)
expm1 = _unary("expm1", Tensor.expm1)
floor = _unary("floor", Tensor.floor)
isfinite = _unary("isfinite", Tensor.isfinite)
isinf = _unary("isinf", Tensor.isinf)
isnan = _unary("isnan", Tensor.isnan)
log = _unary("log", Tensor.log)
log10 = _unary("log10", Tensor.log10)
log1p = _unary("log1p", Tensor.log1p)
log2 = _unary("log2", Tensor.log2)
logical_not = _unary("logical_not", Tensor.logical_not)
negative = _unary("negative", Tensor.neg)
positive = _unary("positive", Tensor.positive)
real = _unary("real", Tensor.positive)
round = _unary("round", Tensor.round)
sign = _unary("sign", Tensor.sign)
signbit = _unary("signbit", Tensor.signbit)
sin = _unary("sin", Tensor.sin)
sinh = _unary("sinh", Tensor.sinh)
sqrt = _unary("sqrt", Tensor.sqrt)
square = _unary("square", Tensor.square)
tan = _unary("tan", Tensor.tan)
tanh = _unary("tanh", Tensor.tanh)
trunc = _unary("trunc", Tensor.trunc)

add = _binary("add", Tensor.add)
atan2 = _binary("atan2", Tensor.atan2)
bitwise_and = _binary("bitwise_and", Tensor.bitwise_and)
bitwise_left_shift = _binary("bitwise_left_shift", Tensor.bitwise_left_shift)
bitwise_or = _binary("bitwise_or", Tensor.bitwise_or)
bitwise_right_shift = _binary("bitwise_right_shift", Tensor.bitwise_right_shift)
bitwise_xor = _binary("bitwise_xor", Tensor.bitwise_xor)
copysign = _binary("copysign", Tensor.copysign)
divide = _binary("divide", Tensor.div)
equal = _binary("equal", Tensor.eq)
floor_divide = _binary("floor_divide", Tensor.floor_divide)
greater = _binary("greater", Tensor.gt)
greater_equal = _binary("greater_equal", Tensor.ge)
hypot = _binary("hypot", Tensor.hypot)
less = _binary("less", Tensor.lt)
less_equal = _binary("less_equal", Tensor.le)
logaddexp = _binary("logaddexp", Tensor.logaddexp)
logical_and = _binary("logical_and", Tensor.logical_and)
logical_or = _binary("logical_or", Tensor.logical_or)
logical_xor = _binary("logical_xor", Tensor.logical_xor)
maximum = _binary("maximum", Tensor.maximum)
minimum = _binary("minimum", Tensor.minimum)
multiply = _binary("multiply", Tensor.mul)
not_equal = _binary("not_equal", Tensor.ne)
pow = _binary("pow", Tensor.pow)
remainder = _binary("remainder", Tensor.mod)
subtract = _binary("subtract", Tensor.sub)


def imag(x: Tensor, /) -> Array:
    """Zeros: there are no complex numbers."""
    return as_array(x).zeros_like()


def clip(
    x: Tensor,
    /,
    min: Number | Tensor | None = None,
    max: Number | Tensor | None = None,
) -> Array:
    """Each element brought between `min` and `max`, where given, in the dtype of `x`."""
    array = as_array(x)
    return array.clip(min, max).cast(array.dtype)
