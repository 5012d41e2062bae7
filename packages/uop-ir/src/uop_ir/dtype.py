"""The types of values: name, width, NumPy counterpart, and how a constant of each is kept. Week 1."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from numbers import Rational, Real
from struct import Struct
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import numpy.typing as npt

from .errors import VerifyError
from .rounding import narrow


class Kind(Enum):
    """What arithmetic a type has."""

    VOID = "void"
    BOOL = "bool"
    SIGNED = "signed"
    UNSIGNED = "unsigned"
    FLOAT = "float"
    INDEX = "index"

    #: By identity: members are single, and Enum's own hash is a Python function.
    __hash__ = object.__hash__


@dataclass(frozen=True, eq=False)
class DType:
    """A type of values. There is one object a type, so types are compared by identity."""

    name: str
    kind: Kind
    bits: int

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> str | tuple[Any, ...]:
        return by_name, (self.name,)

    @property
    def itemsize(self) -> int:
        """Bytes that one element takes in memory."""
        return max(self.bits // 8, 1)

    @property
    def is_float(self) -> bool:
        return self.kind is Kind.FLOAT

    @property
    def is_int(self) -> bool:
        """True for the integers that wrap: neither bool nor index."""
        return self.kind in (Kind.SIGNED, Kind.UNSIGNED)

    @property
    def min(self) -> float | int:
        """The least value; for `index`, the least that the interpreter can hold."""
        return _least(self)

    @property
    def max(self) -> float | int:
        """The greatest value; for `index`, the greatest that the interpreter can hold."""
        return _greatest(self)

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype with the same values (bf16 from ml_dtypes, index as int64)."""
        return _NUMPY[self]


def _least(dtype: DType) -> float | int:
    if dtype.is_float:
        return float("-inf")
    return -(1 << (dtype.bits - 1)) if dtype.kind in (Kind.SIGNED, Kind.INDEX) else 0


def _greatest(dtype: DType) -> float | int:
    if dtype.is_float:
        return float("inf")
    if dtype.kind in (Kind.SIGNED, Kind.INDEX):
        return (1 << (dtype.bits - 1)) - 1
    return (1 << dtype.bits) - 1


class dtypes:
    """All types, by name."""

    void = DType("void", Kind.VOID, 0)
    bool = DType("bool", Kind.BOOL, 1)
    i8 = DType("i8", Kind.SIGNED, 8)
    i16 = DType("i16", Kind.SIGNED, 16)
    i32 = DType("i32", Kind.SIGNED, 32)
    i64 = DType("i64", Kind.SIGNED, 64)
    u8 = DType("u8", Kind.UNSIGNED, 8)
    u16 = DType("u16", Kind.UNSIGNED, 16)
    u32 = DType("u32", Kind.UNSIGNED, 32)
    u64 = DType("u64", Kind.UNSIGNED, 64)
    f16 = DType("f16", Kind.FLOAT, 16)
    bf16 = DType("bf16", Kind.FLOAT, 16)
    f32 = DType("f32", Kind.FLOAT, 32)
    f64 = DType("f64", Kind.FLOAT, 64)
    index = DType("index", Kind.INDEX, 64)

    all: tuple[DType, ...] = (bool, i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64, index)
    floats: tuple[DType, ...] = (f16, bf16, f32, f64)
    ints: tuple[DType, ...] = (i8, i16, i32, i64, u8, u16, u32, u64)


_NUMPY: dict[DType, np.dtype[Any]] = {
    dtypes.bool: np.dtype(np.bool_),
    dtypes.i8: np.dtype(np.int8),
    dtypes.i16: np.dtype(np.int16),
    dtypes.i32: np.dtype(np.int32),
    dtypes.i64: np.dtype(np.int64),
    dtypes.u8: np.dtype(np.uint8),
    dtypes.u16: np.dtype(np.uint16),
    dtypes.u32: np.dtype(np.uint32),
    dtypes.u64: np.dtype(np.uint64),
    dtypes.f16: np.dtype(np.float16),
    dtypes.bf16: np.dtype(ml_dtypes.bfloat16),
    dtypes.f32: np.dtype(np.float32),
    dtypes.f64: np.dtype(np.float64),
    dtypes.index: np.dtype(np.int64),
}
#: The least and the greatest `bits` of a constant of each type;
#: of index, those that the interpreter can hold.
CONST_RANGES = {d: (0, (1 << d.bits) - 1) if d.is_float else (int(d.min), int(d.max)) for d in dtypes.all}
_INTEGERS = {d: bounds for d, bounds in CONST_RANGES.items() if not d.is_float}
_NOTHING = (0, -1)
_BY_NUMPY = {numpy: dtype for dtype, numpy in _NUMPY.items() if dtype is not dtypes.index}
_BY_NAME = {dtype.name: dtype for dtype in (*dtypes.all, dtypes.void)}
_FLOATS = frozenset(dtypes.floats)
#: For `struct`: a float, and the unsigned integer that holds its bits.
_FORMATS = {dtypes.f64: (Struct("<d"), Struct("<Q")), dtypes.f32: (Struct("<f"), Struct("<I"))}
#: Those that struct rounds to as we do; of an f16 NaN it would not read the payload.
_ROUNDING = {**_FORMATS, dtypes.f16: (Struct("<e"), Struct("<H"))}


def by_name(name: str) -> DType:
    """The type with this name; raises VerifyError for a name that is none."""
    try:
        return _BY_NAME[name]
    except (KeyError, TypeError):
        raise VerifyError(f"unknown dtype {name!r}", remedy=f"one of {', '.join(_BY_NAME)}") from None


def from_numpy(dtype: npt.DTypeLike) -> DType:
    """The type with the same values as a NumPy dtype; raises VerifyError where there is none."""
    try:
        given = np.dtype(dtype)
    except (TypeError, ValueError, SyntaxError):
        raise VerifyError(f"{dtype!r} is no NumPy dtype", remedy="such as np.float32") from None
    found = _BY_NUMPY.get(given.newbyteorder("="))
    if found is None:
        raise VerifyError(f"NumPy dtype {given} has no counterpart", remedy="convert it with astype")
    return found


class Const(NamedTuple):
    """A constant, told apart by type and bits: -0.0 is not 0.0, and a NaN equals itself.

    `bits` is the value itself for bool, integers and index, and the bit pattern for floats.
    """

    dtype: DType
    bits: int

    def __repr__(self) -> str:
        return f"Const({self.dtype.name}, {self.bits})"

    @property
    def value(self) -> bool | int | float:
        """The constant as a Python value (a float for f16, bf16 and f32 too: exactly representable)."""
        dtype, bits = self
        if dtype in _FLOATS:
            return float_from_bits(dtype, bits)
        return bool(bits) if dtype is dtypes.bool else bits


def float_from_bits(dtype: DType, bits: int) -> float:
    """The value of a float's bit pattern."""
    if dtype not in _FORMATS:
        return float(np.uint16(bits).view(dtype.numpy))
    to_float, to_bits = _FORMATS[dtype]
    value: float = to_float.unpack(to_bits.pack(bits))[0]
    return value


def float_to_bits(dtype: DType, value: float) -> int:
    """The bit pattern of a value rounded to nearest even; a value past the range becomes an infinity."""
    formats = _ROUNDING.get(dtype)
    if formats is not None and not math.isnan(value):  # of a NaN, struct may not keep the payload
        to_float, to_bits = formats
        try:
            bits: int = to_bits.unpack(to_float.pack(value))[0]
        except OverflowError:  # finite, and past the range
            value = math.copysign(math.inf, value)
        else:
            return bits
    with np.errstate(over="ignore", invalid="ignore"):
        wide = np.asarray(value, np.float64)
        near = narrow(wide, dtype) if dtype.bits == 16 else wide.astype(dtype.numpy)
        return int(near.view(f"u{dtype.itemsize}"))


def constant(dtype: DType, value: float) -> Const:
    """`value` as a constant of `dtype`: floats round to nearest even, integers wrap, bool is `value != 0`.

    Raises VerifyError where the value has no place in the type:
    a fraction, infinity or NaN in an integer; and what is no number.
    """
    return Const(dtype, constant_bits(dtype, value))


def constant_bits(dtype: DType, value: float) -> int:
    """The `bits` of `constant`."""
    try:
        if type(value) is int:
            least, greatest = _INTEGERS.get(dtype, _NOTHING)
            if least <= value <= greatest:
                return value
        elif type(value) is float and dtype in _FLOATS:
            return float_to_bits(dtype, value)
        return _other_bits(dtype, value)
    except (ArithmeticError, TypeError, ValueError):  # no dtype, or no number: not even an array of one
        raise _no_constant(dtype, value) from None


def _other_bits(dtype: Any, value: Any) -> int:
    """The bits of a number that is of another type than the constant, or past its range."""
    if not isinstance(dtype, DType) or dtype is dtypes.void:
        raise _no_constant(dtype, value)
    if type(value) is not int and type(value) is not float:
        if not _is_real(value):
            raise _no_constant(dtype, value)
        if isinstance(value, Rational) and value.denominator == 1:  # an integer of NumPy, say
            value = int(value.numerator)
    if dtype in _FLOATS:
        return float_to_bits(dtype, _float(dtype, value))
    if dtype is dtypes.bool:
        return int(value != 0)
    if type(value) is not int and (not math.isfinite(value) or int(value) != value):
        raise _no_constant(dtype, value)
    bits = int(value)
    if dtype is not dtypes.index:
        bits &= (1 << dtype.bits) - 1
        if bits > CONST_RANGES[dtype][1]:
            bits -= 1 << dtype.bits
    return bits


def _no_constant(dtype: object, value: object) -> VerifyError:
    if not isinstance(dtype, DType):
        return VerifyError(f"{dtype!r} is no dtype", remedy="such as dtypes.f32")
    number = isinstance(value, float)
    remedy = "use a float type, or CAST" if number else "an int, a float or a bool is"
    return VerifyError(f"{value!r} is no constant of type {dtype}", remedy=remedy)


def _is_real(value: Any) -> bool:
    """Whether a value is a number on the real line. NumPy makes floats of complex numbers and texts, too."""
    if isinstance(value, Real):
        return True
    return hasattr(value, "__float__") and not isinstance(value, str | bytes) and not np.iscomplexobj(value)


def _float(dtype: DType, value: float) -> float:
    """A number as a float64 that rounds to `dtype` as the number itself does."""
    try:
        near = float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    if dtype is dtypes.f64 or near == value or math.isnan(near):
        return near
    # rounded to odd, of the two float64 that the number lies between: see `rounding`
    odd = float_to_bits(dtypes.f64, near) & 1
    return near if odd else math.nextafter(near, math.inf if near < value else -math.inf)
