"""Dtypes of the standard: their names, what they hold, and which go together. Week 5."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from dataclasses import dataclass

from uop_ir import DType, Kind, VerifyError, dtypes, promote
from uop_tensor.errors import KindError, TensorError
from uop_tensor.tensor import Tensor

from .array import Array, as_array

#: By the names that they have in the standard.
#: f16 and bf16, which it does not have, are taken by all functions.
DTYPES = {
    "bool": dtypes.bool,
    "int8": dtypes.i8,
    "int16": dtypes.i16,
    "int32": dtypes.i32,
    "int64": dtypes.i64,
    "uint8": dtypes.u8,
    "uint16": dtypes.u16,
    "uint32": dtypes.u32,
    "uint64": dtypes.u64,
    "float32": dtypes.f32,
    "float64": dtypes.f64,
}
bool = dtypes.bool  # the standard's name, as those of functions below
int8, int16, int32, int64 = dtypes.i8, dtypes.i16, dtypes.i32, dtypes.i64
uint8, uint16, uint32, uint64 = dtypes.u8, dtypes.u16, dtypes.u32, dtypes.u64
float32, float64 = dtypes.f32, dtypes.f64

#: By the name of a kind, which dtypes are of it.
KINDS: dict[str, Callable[[DType], object]] = {
    "bool": lambda d: d is dtypes.bool,
    "signed integer": lambda d: d.kind is Kind.SIGNED,
    "unsigned integer": lambda d: d.kind is Kind.UNSIGNED,
    "integral": lambda d: d.is_int,
    "real floating": lambda d: d.is_float,
    "complex floating": lambda d: False,
    "numeric": lambda d: d.is_int or d.is_float,
}


def isdtype(dtype: DType, kind: DType | str | tuple[DType | str, ...]) -> builtins.bool:
    """Whether a dtype is of a kind, or of one of several.
    Raises KindError for a kind that the standard does not have.
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, DType):
        return dtype is kind
    if kind not in KINDS:
        raise KindError(f"isdtype: kind {kind!r}", remedy=f"one of {', '.join(KINDS)}, or a dtype")
    return builtins.bool(KINDS[kind](dtype))


def can_cast(from_: DType | Tensor, to: DType, /) -> builtins.bool:
    """Whether what is of the one dtype can be of the other by promotion.
    Never across bool, integers and floats.
    """
    given = _dtype("can_cast", from_)
    if (given.is_int, given.is_float) != (to.is_int, to.is_float):
        return False
    try:
        return promote(given, to) is to
    except VerifyError:  # u64 and a signed integer
        return False


def result_type(*arrays_and_dtypes: Tensor | DType | float) -> DType:
    """The dtype that arrays, dtypes and Python numbers have together.

    Raises TensorError where there is none: u64 beside a signed integer.
    """
    if not arrays_and_dtypes:
        raise KindError("result_type: of nothing", remedy="give arrays or dtypes")
    given = [
        x if isinstance(x, builtins.bool | int | float) else _dtype("result_type", x)
        for x in arrays_and_dtypes
    ]
    try:
        return promote(*given)
    except VerifyError as error:
        raise TensorError(f"result_type: {error.message}", remedy="cast one of them") from None


def astype(x: Tensor, dtype: DType, /, *, copy: builtins.bool = True, device: str | None = None) -> Array:
    """The array in another dtype; with `copy=False` and the dtype that it has, the array itself.

    A float to an integer is truncated and saturated.
    """
    array = as_array(x)
    if device is not None:
        array = array.to(device)
    if array.dtype is dtype:
        return Array._of(array.uop) if copy else array
    return array.cast(dtype)


#: Binary digits behind the point.
_DIGITS = {dtypes.f16: 10, dtypes.bf16: 7, dtypes.f32: 23, dtypes.f64: 52}


@dataclass(frozen=True)
class FloatInfo:
    """What a float dtype holds, in Python numbers."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


@dataclass(frozen=True)
class IntegerInfo:
    """What an integer dtype holds."""

    bits: int
    max: int
    min: int
    dtype: DType


def finfo(type: DType | Tensor, /) -> FloatInfo:
    """The limits of a float dtype, or of that of an array. Raises KindError for others."""
    dtype = _dtype("finfo", type)
    if not dtype.is_float:
        raise KindError(f"finfo: dtype {dtype}", remedy="a float dtype; iinfo is for integers")
    digits = _DIGITS[dtype]
    top = 1 << (dtype.bits - digits - 2)  # the exponents of normal numbers lie from 2 - top to top - 1
    eps = 2.0**-digits
    greatest = (2 - eps) * 2.0 ** (top - 1)
    return FloatInfo(dtype.bits, eps, greatest, -greatest, 2.0 ** (2 - top), dtype)


def iinfo(type: DType | Tensor, /) -> IntegerInfo:
    """The limits of an integer dtype, or of that of an array. Raises KindError for others."""
    dtype = _dtype("iinfo", type)
    if not dtype.is_int:
        raise KindError(f"iinfo: dtype {dtype}", remedy="an integer dtype; finfo is for floats")
    return IntegerInfo(dtype.bits, int(dtype.max), int(dtype.min), dtype)


def _dtype(function: str, given: object) -> DType:
    if isinstance(given, DType):
        return given
    if isinstance(given, Tensor):
        return given.dtype
    raise KindError(f"{function}: {given!r} is no dtype and no array", remedy="such as array_api.float32")
