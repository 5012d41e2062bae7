"""Promotion: which dtype two operands have together, by the Array API; Python numbers are weak. Week 5."""

from __future__ import annotations

from functools import reduce

from uop_ir import DType, Kind, dtypes

from .errors import TensorError

#: What a Python number becomes where no tensor gives it a dtype.
DEFAULT: dict[type, DType] = {bool: dtypes.bool, int: dtypes.i64, float: dtypes.f32}
_RANK = {Kind.BOOL: 0, Kind.SIGNED: 1, Kind.UNSIGNED: 1, Kind.FLOAT: 2}
_SIGNED = {d.bits: d for d in (dtypes.i8, dtypes.i16, dtypes.i32, dtypes.i64)}


def check_dtype(dtype: DType) -> None:
    """Raise TensorError for a dtype that no tensor has: index, which is for loops and addresses, and void."""
    if dtype.kind not in _RANK:
        raise TensorError(f"a tensor of dtype {dtype}", remedy="use i64, or another type of numbers")


def promote(method: str, *types: DType) -> DType:
    """The least dtype that holds the values of all `types`; of a float and an integer, the float.

    Raises TensorError where there is none: u64 beside a signed integer.
    """
    return reduce(lambda a, b: _promote(method, a, b), types)


def _promote(method: str, a: DType, b: DType) -> DType:
    if a is b:
        return a
    if _RANK[a.kind] != _RANK[b.kind]:
        return a if _RANK[a.kind] > _RANK[b.kind] else b
    if a.is_float:
        return dtypes.f32 if a.bits == b.bits else max(a, b, key=lambda d: d.bits)
    if a.kind is b.kind:
        return max(a, b, key=lambda d: d.bits)
    signed, unsigned = (a, b) if a.kind is Kind.SIGNED else (b, a)
    bits = max(signed.bits, 2 * unsigned.bits)
    if bits not in _SIGNED:
        raise TensorError(f"{method}: no dtype holds both {a} and {b}", remedy="cast one of them")
    return _SIGNED[bits]


def with_number(method: str, dtype: DType, number: float) -> DType:
    """The dtype of a tensor of `dtype` beside a Python number: its own, unless the number is of a higher
    kind.

    Raises TensorError for an integer that `dtype` does not hold.
    """
    check_dtype(dtype)
    own = DEFAULT[type(number)]
    if _RANK[own.kind] > _RANK[dtype.kind]:
        return own
    if type(number) is int and dtype.is_int and not dtype.min <= number <= dtype.max:
        raise TensorError(f"{method}: {number} is not a value of {dtype}", remedy="cast the tensor first")
    return dtype


def as_float(dtype: DType) -> DType:
    """The dtype in which a function of real numbers is computed: f32 for integers and bool."""
    return dtype if dtype.is_float else DEFAULT[float]


def accumulator(dtype: DType) -> DType:
    """The dtype in which a dtype is added up: f32 for f16 and bf16, which are rounded once, at the end."""
    return dtypes.f32 if dtype.is_float and dtype.bits == 16 else dtype


def sum_type(dtype: DType) -> DType:
    """The dtype of a sum or product: floats keep theirs, signed integers and bool become i64, unsigned ones
    u64.
    """
    if dtype.is_float:
        return dtype
    return dtypes.u64 if dtype.kind is Kind.UNSIGNED else dtypes.i64
