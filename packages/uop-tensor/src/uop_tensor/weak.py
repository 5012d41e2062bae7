"""Python numbers that a jitted function is given: within the trace they stay Python numbers. Week 5.

Beside a tensor such a number takes the dtype that it takes outside of jit, and what is computed from numbers
alone is computed by Python, at each call. Each dtype that a number takes is a scalar of the program.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from uop_ir import DType, Ops, Param, UOp

from .errors import TensorError
from .jit_tree import Bounds
from .live import JitError
from .promotion import DEFAULT
from .tensor import Tensor

#: What of two sizes makes one.
SIZES = (operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod)
#: The operators of NumPy: the methods of a number in front, and behind.
_UFUNCS = {
    **{
        ufunc: (f"__{name}__", f"__r{name}__")
        for ufunc, name in {
            "add": "add", "subtract": "sub", "multiply": "mul", "divide": "truediv", "floor_divide": "floordiv",
            "remainder": "mod", "power": "pow", "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor",
            "left_shift": "lshift", "right_shift": "rshift",
        }.items()
    },
    "less": ("__lt__", "__gt__"),
    "less_equal": ("__le__", "__ge__"),
    "greater": ("__gt__", "__lt__"),
    "greater_equal": ("__ge__", "__le__"),
    "equal": ("__eq__", "__eq__"),
    "not_equal": ("__ne__", "__ne__"),
}  # fmt: skip
Number: TypeAlias = "int | float"
Compute: TypeAlias = "Callable[[Sequence[Number]], Any]"


@dataclass(frozen=True, eq=False)
class Weak:
    """A number: of which type it is, how it is computed from the numbers of a call, and as what size it may
    stand in shapes, if it may."""

    kind: type
    compute: Compute
    trace: Scalars
    size: UOp | None = None

    def node(self, dtype: DType) -> UOp:
        """The number as a scalar of a dtype."""
        return self.trace.scalar(self, dtype)


@dataclass(frozen=True)
class Scalar:
    """A scalar of a program, whose value each call computes."""

    weak: Weak
    dtype: DType

    def value(self, numbers: Sequence[Number]) -> Number:
        """Raises TensorError for an integer that the dtype does not hold,
        and for one that has become a float.
        """
        found = self.weak.compute(numbers)
        dtype = self.dtype
        if not isinstance(found, int | float):
            raise TensorError(f"jit: {found!r} is no real number")
        if dtype.is_float:
            try:
                return float(found)
            except OverflowError:  # as an integer beside a tensor of floats
                return math.inf if found > 0 else -math.inf
        if type(found) is not int:
            raise TensorError(
                f"jit: {found!r} in place of an int", remedy="give the base or the exponent as a float"
            )
        if not dtype.min <= found <= dtype.max:
            raise TensorError(f"jit: {found} is not a value of {dtype}", remedy="cast the tensor first")
        return found


@dataclass
class Scalars:
    """The numbers of a trace."""

    function: str
    scalars: dict[str, Scalar] = field(default_factory=dict)
    closed: bool = False
    _params: dict[tuple[Weak, DType], UOp] = field(default_factory=dict)

    def argument(self, number: int, example: Number, bounds: Bounds | None = None) -> TracedNumber:
        """A number among the arguments, of the type of an example; within bounds, if it is a size."""
        weak = Weak(type(example), operator.itemgetter(number), self)
        if bounds is not None:
            size = UOp.variable(f"size_{bounds.name}", bounds.low, bounds.high)
            self.scalars[size.arg.name] = Scalar(weak, size.dtype)
            weak = replace(weak, size=size)
        return TracedNumber._made(weak)

    def close(self) -> None:
        """The trace is over."""
        self.closed = True

    def scalar(self, weak: Weak, dtype: DType) -> UOp:
        """The PARAM of a number in a dtype. Raises JitError after the trace."""
        if self.closed:
            raise JitError(
                f"a number that {self.function} was given has outlived the trace", remedy="return it instead"
            )
        if (weak, dtype) not in self._params:
            name = f"number{len(self._params)}"
            self.scalars[name] = Scalar(weak, dtype)
            self._params[weak, dtype] = UOp(Ops.PARAM, (), Param(dtype, name=name))
        return self._params[weak, dtype]


class TracedNumber(Tensor):
    """A number within a trace. To methods that ask for a tensor it is one of shape (), i64 or f32."""

    _weak: Weak

    @classmethod
    def _made(cls, weak: Weak) -> TracedNumber:
        # not entered among the tensors that are alive: it has no hash, and is no state
        self = cls.__new__(cls)
        self.uop, self._weak = weak.node(DEFAULT[weak.kind]), weak
        return self

    @classmethod
    def _of(cls, uop: UOp) -> Self:
        return Tensor._of(uop)  # type: ignore[return-value]  # what is computed from it is a tensor

    @property
    def _size(self) -> UOp | None:
        """What `shapes.size_of` finds: the number as a size."""
        return self._weak.size

    def _refuse(self, what: str) -> NoReturn:
        name = self._weak.trace.function
        raise JitError(
            f"{what} asks for the value of a number while {name} is traced by jit, which serves all values",
            remedy="name its parameter in jit(static=[...]): each value then has a trace of its own; a size that shall not, "
            "in jit(sizes={...})",
        )

    def _data(self, method: str) -> npt.NDArray[Any]:
        self._refuse(method)

    def __index__(self) -> int:  # noqa: PLE0305  # it never returns
        self._refuse("a size, a position or range()")

    def __array__(self, *args: object, **kwargs: object) -> npt.NDArray[Any]:
        self._refuse("NumPy")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *given: Any, **options: Any) -> Any:  # type: ignore[override]  # tensors have None
        """An operator of NumPy, beside an array or a number of it, is that of this number; all else asks for
        its value.
        """
        name = _UFUNCS.get(ufunc.__name__)
        if name is None or method != "__call__" or options or len(given) != 2:
            self._refuse(f"numpy.{ufunc.__name__}")
        left, right = given
        return getattr(self, name[0])(right) if left is self else getattr(self, name[1])(left)

    def __getattr__(self, name: str) -> NoReturn:
        """What ints and floats have beyond operators, such as `bit_length` and `is_integer`."""
        if name.startswith("_") or not hasattr(self._weak.kind, name):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        self._refuse(f".{name}")

    def __hash__(self) -> int:  # noqa: PLE0309  # it never returns
        self._refuse("a key, or hash(),")

    def __round__(self, digits: int | None = None) -> TracedNumber:
        return _of_one(self, lambda n: round(n, digits), int if digits is None else self._weak.kind)

    def __divmod__(self, other: object) -> tuple[Any, Any]:
        return self // other, self % other  # type: ignore[operator]

    def __rdivmod__(self, other: object) -> tuple[Any, Any]:
        return other // self, other % self  # type: ignore[operator]

    def __repr__(self) -> str:
        return f"TracedNumber({self._weak.kind.__name__})"


def _of_one(number: TracedNumber, function: Callable[[Any], Any], kind: type) -> TracedNumber:
    """What is computed from one number, of a type of its own."""
    weak = number._weak
    return TracedNumber._made(Weak(kind, lambda numbers: function(weak.compute(numbers)), weak.trace))


def _unary(function: Callable[[Any], Any], kind: type | None) -> Callable[[TracedNumber], TracedNumber]:
    return lambda number: _of_one(number, function, kind or number._weak.kind)


def _binary(name: str, function: Callable[[Any, Any], Any], reflected: bool) -> Callable[..., Tensor]:
    beside_tensor = getattr(Tensor, name)

    def method(self: TracedNumber, other: object) -> Any:
        own = self._weak
        size: UOp | int | None
        if isinstance(other, TracedNumber):
            kind, compute, size = other._weak.kind, other._weak.compute, other._weak.size
        elif type(other) in (bool, int, float):
            kind, compute, size = type(other), lambda numbers: other, other if type(other) is int else None
        else:
            return beside_tensor(self, other)
        left, right = (compute, own.compute) if reflected else (own.compute, compute)
        together = float if float in (kind, own.kind) or function is operator.truediv else int
        value = lambda numbers: function(left(numbers), right(numbers))
        return TracedNumber._made(
            Weak(together, value, own.trace, _combined(function, own.size, size, reflected))
        )

    return method


def _combined(
    function: Callable[[Any, Any], Any], own: UOp | None, other: UOp | int | None, reflected: bool
) -> UOp | None:
    """The size that a number has which is computed from two, if both are sizes or ints."""
    if own is None or other is None or function not in SIZES:
        return None
    size: UOp = function(other, own) if reflected else function(own, other)
    return size


def _operators() -> None:
    for name in ("neg", "pos", "abs"):
        setattr(TracedNumber, f"__{name}__", _unary(getattr(operator, name), None))
    for function in (math.trunc, math.floor, math.ceil):
        setattr(TracedNumber, f"__{function.__name__}__", _unary(function, int))
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
        for prefix in ("", "r"):
            method = f"__{prefix}{name}__"
            setattr(TracedNumber, method, _binary(method, getattr(operator, name), bool(prefix)))


_operators()
