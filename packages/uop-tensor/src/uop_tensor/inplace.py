"""Methods that give their tensor the result: `x.add_(y)` is `x.assign(x.add(y))`. Week 5."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from uop_ir import DType, dtypes

from . import shapes
from .data import Number
from .errors import TensorError
from .graph import broadcast_to, detach
from .indexing import as_value
from .reading import Reading
from .value import Operand, Value, grad_enabled

#: The binary digits of a whole number that a float dtype holds.
_DIGITS = {dtypes.f16: 11, dtypes.bf16: 8, dtypes.f32: 24, dtypes.f64: 53}
P = ParamSpec("P")
S = TypeVar("S", bound="Changing")


class InPlace(Generic[P]):
    """The method of its name without the `_`, whose result the tensor takes as its value, in its dtype; it
    returns the tensor.
    """

    def __init__(self, method: Callable[Concatenate[Any, P], Any]) -> None:
        self.__doc__ = f"`x.assign(x.{method.__name__}(...))`, in the dtype of x."

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, tensor: None, owner: type) -> Self: ...
    @overload
    def __get__(self, tensor: S, owner: type) -> Callable[P, S]: ...
    def __get__(self, tensor: S | None, owner: type) -> Self | Callable[P, S]:
        if tensor is None:
            return self
        method = getattr(tensor, self.name.removesuffix("_"))

        @wraps(method)
        def changed(*args: P.args, **kwargs: P.kwargs) -> S:
            return tensor._change(self.name, method(*args, **kwargs))

        return changed


class Changing(Reading):
    """Tensors are values: views, and what was computed before, keep the old one, as with `assign`.

    The names are those of torch; what would change the shape, such as `unsqueeze_`, is not there. Raises
    TensorError for a result of another shape, for floats in a tensor of integers, numbers in one of bool, and
    for a tensor with `requires_grad`, outside of `no_grad`.
    """

    def _change(self, method: str, new: Value) -> Self:
        if self._requires_grad and grad_enabled():
            raise TensorError(
                f"{method}: a tensor with requires_grad is changed, where no gradient could flow",
                remedy="change it within no_grad(), or take the result without the _",
            )
        if new.shape != self.shape or not _holds(self.dtype, new.dtype):
            raise TensorError(
                f"{method}: {new.dtype}{new.shape} into a tensor {self.dtype}{self.shape}",
                remedy="shape and kind of number must stay; take the result without the _",
            )
        value = new.uop.cast(self.dtype)
        self._rebind(value if grad_enabled() else detach(value))
        return self

    def zero_(self) -> Self:
        """0 everywhere."""
        return self._change("zero_", self.zeros_like())

    def fill_(self, value: Self | Number) -> Self:
        """One number everywhere, in this dtype."""
        new = as_value(self.uop, value)
        if new.ndim:
            raise TensorError(f"fill_: a value of shape {new.shape}", remedy="one number; use copy_ for more")
        return self._change("fill_", self._of(broadcast_to(new, self.shape)))

    def copy_(self, src: Self) -> Self:
        """The elements of a tensor that broadcasts to this one, in this dtype."""
        if shapes.broadcast("copy_", self.shape, src.shape) != self.shape:
            raise TensorError(f"copy_: {src.shape} into {self.shape}", remedy="it broadcasts to this shape")
        return self._change("copy_", self._of(broadcast_to(src.uop.cast(self.dtype), self.shape)))

    def uniform_(self, low: float = 0.0, high: float = 1.0) -> Self:
        """Uniform on [low, high)."""
        return self._change("uniform_", self.rand(self.shape, low=low, high=high, **self._options(None)))

    def normal_(self, mean: float = 0.0, std: float = 1.0) -> Self:
        """Normal with this mean and standard deviation."""
        return self._change("normal_", self.normal(self.shape, mean=mean, std=std, **self._options(None)))

    def exponential_(self, lambd: float = 1.0) -> Self:
        """Exponential with this rate."""
        return self._change("exponential_", self.exponential(self.shape, lambd=lambd, **self._options(None)))

    def bernoulli_(self, p: Operand = 0.5) -> Self:
        """1 with probability p, else 0."""
        return self._change("bernoulli_", (self.rand_like() < p).cast(self.dtype))

    def random_(self, *bounds: int) -> Self:
        """Uniform whole numbers from 0, or the first of two bounds, to the last one, excluded.

        Without bounds, all that an integer dtype holds from 0 on, and all that a float dtype holds without a
        gap. Raises TensorError for bounds that are not within that.
        """
        kind = self.dtype if self.dtype.is_int else dtypes.i64
        last = kind.max if self.dtype.is_int else 1 << _DIGITS.get(self.dtype, 0)
        least = kind.min if self.dtype.is_int else -last if self.dtype.is_float else 0
        low, high = bounds if len(bounds) == 2 else (0, bounds[0] if bounds else int(last) + 1)
        if len(bounds) > 2 or not least <= low < high <= last + 1:
            raise TensorError(
                f"random_: bounds {bounds} of a tensor of {self.dtype}",
                remedy=f"at most two, ascending, from {least} to {last + 1}",
            )
        return self._change("random_", self.randint_like(low, high, kind).cast(self.dtype))

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set `requires_grad`; returns this tensor."""
        self.requires_grad = requires_grad
        return self

    def detach_(self) -> Self:
        """A constant to `backward` from here on; returns this tensor."""
        self.requires_grad = False
        self.uop = detach(self.uop)
        return self

    # functions of one element

    abs_ = InPlace(Reading.abs)
    absolute_ = InPlace(Reading.abs)
    acos_ = InPlace(Reading.acos)
    acosh_ = InPlace(Reading.acosh)
    arccos_ = InPlace(Reading.acos)
    arccosh_ = InPlace(Reading.acosh)
    arcsin_ = InPlace(Reading.asin)
    arcsinh_ = InPlace(Reading.asinh)
    arctan_ = InPlace(Reading.atan)
    arctanh_ = InPlace(Reading.atanh)
    asin_ = InPlace(Reading.asin)
    asinh_ = InPlace(Reading.asinh)
    atan_ = InPlace(Reading.atan)
    atanh_ = InPlace(Reading.atanh)
    bitwise_not_ = InPlace(Reading.bitwise_not)
    ceil_ = InPlace(Reading.ceil)
    cos_ = InPlace(Reading.cos)
    cosh_ = InPlace(Reading.cosh)
    deg2rad_ = InPlace(Reading.deg2rad)
    digamma_ = InPlace(Reading.digamma)
    erf_ = InPlace(Reading.erf)
    erfc_ = InPlace(Reading.erfc)
    erfinv_ = InPlace(Reading.erfinv)
    exp_ = InPlace(Reading.exp)
    exp2_ = InPlace(Reading.exp2)
    expm1_ = InPlace(Reading.expm1)
    floor_ = InPlace(Reading.floor)
    frac_ = InPlace(Reading.frac)
    lgamma_ = InPlace(Reading.lgamma)
    log_ = InPlace(Reading.log)
    log10_ = InPlace(Reading.log10)
    log1p_ = InPlace(Reading.log1p)
    log2_ = InPlace(Reading.log2)
    logical_not_ = InPlace(Reading.logical_not)
    logit_ = InPlace(Reading.logit)
    nan_to_num_ = InPlace(Reading.nan_to_num)
    neg_ = InPlace(Reading.neg)
    negative_ = InPlace(Reading.neg)
    rad2deg_ = InPlace(Reading.rad2deg)
    reciprocal_ = InPlace(Reading.reciprocal)
    relu_ = InPlace(Reading.relu)
    round_ = InPlace(Reading.round)
    rsqrt_ = InPlace(Reading.rsqrt)
    sgn_ = InPlace(Reading.sgn)
    sigmoid_ = InPlace(Reading.sigmoid)
    sign_ = InPlace(Reading.sign)
    sin_ = InPlace(Reading.sin)
    sinc_ = InPlace(Reading.sinc)
    sinh_ = InPlace(Reading.sinh)
    sqrt_ = InPlace(Reading.sqrt)
    square_ = InPlace(Reading.square)
    tan_ = InPlace(Reading.tan)
    tanh_ = InPlace(Reading.tanh)
    trunc_ = InPlace(Reading.trunc)

    # operators, and functions of more

    add_ = InPlace(Reading.add)
    addcdiv_ = InPlace(Reading.addcdiv)
    addcmul_ = InPlace(Reading.addcmul)
    addmm_ = InPlace(Reading.addmm)
    addmv_ = InPlace(Reading.addmv)
    addr_ = InPlace(Reading.addr)
    arctan2_ = InPlace(Reading.atan2)
    atan2_ = InPlace(Reading.atan2)
    baddbmm_ = InPlace(Reading.baddbmm)
    bitwise_and_ = InPlace(Reading.bitwise_and)
    bitwise_left_shift_ = InPlace(Reading.bitwise_left_shift)
    bitwise_or_ = InPlace(Reading.bitwise_or)
    bitwise_right_shift_ = InPlace(Reading.bitwise_right_shift)
    bitwise_xor_ = InPlace(Reading.bitwise_xor)
    clamp_ = InPlace(Reading.clamp)
    clamp_max_ = InPlace(Reading.clamp_max)
    clamp_min_ = InPlace(Reading.clamp_min)
    clip_ = InPlace(Reading.clip)
    copysign_ = InPlace(Reading.copysign)
    div_ = InPlace(Reading.div)
    divide_ = InPlace(Reading.div)
    eq_ = InPlace(Reading.eq)
    floor_divide_ = InPlace(Reading.floor_divide)
    fmod_ = InPlace(Reading.fmod)
    gcd_ = InPlace(Reading.gcd)
    ge_ = InPlace(Reading.ge)
    greater_ = InPlace(Reading.gt)
    greater_equal_ = InPlace(Reading.ge)
    gt_ = InPlace(Reading.gt)
    heaviside_ = InPlace(Reading.heaviside)
    hypot_ = InPlace(Reading.hypot)
    lcm_ = InPlace(Reading.lcm)
    ldexp_ = InPlace(Reading.ldexp)
    le_ = InPlace(Reading.le)
    lerp_ = InPlace(Reading.lerp)
    less_ = InPlace(Reading.lt)
    less_equal_ = InPlace(Reading.le)
    logical_and_ = InPlace(Reading.logical_and)
    logical_or_ = InPlace(Reading.logical_or)
    logical_xor_ = InPlace(Reading.logical_xor)
    lt_ = InPlace(Reading.lt)
    mul_ = InPlace(Reading.mul)
    multiply_ = InPlace(Reading.mul)
    ne_ = InPlace(Reading.ne)
    nextafter_ = InPlace(Reading.nextafter)
    not_equal_ = InPlace(Reading.ne)
    pow_ = InPlace(Reading.pow)
    remainder_ = InPlace(Reading.mod)
    sub_ = InPlace(Reading.sub)
    subtract_ = InPlace(Reading.sub)
    true_divide_ = InPlace(Reading.div)
    xlogy_ = InPlace(Reading.xlogy)

    # along axes, and by position

    cumprod_ = InPlace(Reading.cumprod)
    cumsum_ = InPlace(Reading.cumsum)
    index_add_ = InPlace(Reading.index_add)
    index_copy_ = InPlace(Reading.index_copy)
    index_fill_ = InPlace(Reading.index_fill)
    index_put_ = InPlace(Reading.index_put)
    index_reduce_ = InPlace(Reading.index_reduce)
    masked_fill_ = InPlace(Reading.masked_fill)
    masked_scatter_ = InPlace(Reading.masked_scatter)
    put_ = InPlace(Reading.put)
    scatter_ = InPlace(Reading.scatter)
    scatter_add_ = InPlace(Reading.scatter_add)
    scatter_reduce_ = InPlace(Reading.scatter_reduce)
    tril_ = InPlace(Reading.tril)
    triu_ = InPlace(Reading.triu)


def _holds(own: DType, new: DType) -> bool:
    """Whether a result may be cast to a dtype in place: not from a higher kind of number, as in torch."""
    return own.is_float or (not new.is_float and (own is not dtypes.bool or new is dtypes.bool))
