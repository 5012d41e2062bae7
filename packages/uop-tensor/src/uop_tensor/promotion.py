"""Promotion: which dtype two operands have together, by the Array API; Python numbers are weak. Week 5."""

from __future__ import annotations

import uop_ir
from uop_ir import DType, Kind, UOp, VerifyError, dtypes

from .errors import TensorError

#: What a Python number becomes where no tensor gives it a dtype.
DEFAULT: dict[type, DType] = {kind: uop_ir.promote(kind) for kind in (bool, int, float)}

#: The signed integers by their bits: a float's bits are those of one.
SIGNED = {dtype.bits: dtype for dtype in (dtypes.i8, dtypes.i16, dtypes.i32, dtypes.i64)}


def check_dtype(dtype: DType) -> None:
    """Raise TensorError for a dtype that no tensor has: index, which is for loops and addresses, and void."""
    if dtype.kind in (Kind.INDEX, Kind.VOID):
        raise TensorError(f"a tensor of dtype {dtype}", remedy="use i64, or another type of numbers")


def as_number(x: UOp) -> UOp:
    """A value of bool as 0 and 1 of u8; any other as it is."""
    return x.cast(dtypes.u8) if x.dtype is dtypes.bool else x


def refuse_bool(method: str, dtype: DType) -> None:
    """Raise TensorError for bool where operands are numbers."""
    if dtype is dtypes.bool:
        raise TensorError(f"{method}: operands of dtype bool", remedy="cast them to a number")


def promote(method: str, *types: DType) -> DType:
    """The dtype that `types` have together.

    Raises TensorError where there is none: u64 beside a signed integer.
    """
    try:
        return uop_ir.promote(*types)
    except VerifyError as error:
        raise TensorError(f"{method}: {error.message}", remedy="cast one of them") from None


def with_number(method: str, dtype: DType, number: float) -> DType:
    """The dtype of a tensor of `dtype` beside a Python number: its own, unless the number is of a higher
    kind.

    Raises TensorError for an integer that `dtype` does not hold.
    """
    check_dtype(dtype)
    try:
        return uop_ir.promote(dtype, number)
    except VerifyError as error:
        raise TensorError(f"{method}: {error.message}", remedy="cast the tensor first") from None


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
