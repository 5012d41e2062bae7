"""Promotion: the dtype that operands have together, by the Array API; Python numbers are weak. Week 1.

The IR promotes nothing, CAST is explicit; what stands above it asks here.
"""

from __future__ import annotations

from itertools import product

from .dtype import DType, Kind, dtypes
from .errors import VerifyError

#: What a Python number becomes where no operand gives it a dtype.
_DEFAULT: dict[type, DType] = {bool: dtypes.bool, int: dtypes.i64, float: dtypes.f32}
_RANK = {Kind.BOOL: 0, Kind.SIGNED: 1, Kind.UNSIGNED: 1, Kind.FLOAT: 2}
#: A signed and an unsigned integer: the least signed one that holds both. None holds u64.
_MIXED: dict[tuple[DType, DType], DType] = {
    (dtypes.i8, dtypes.u8): dtypes.i16,
    (dtypes.i8, dtypes.u16): dtypes.i32,
    (dtypes.i8, dtypes.u32): dtypes.i64,
    (dtypes.i16, dtypes.u8): dtypes.i16,
    (dtypes.i16, dtypes.u16): dtypes.i32,
    (dtypes.i16, dtypes.u32): dtypes.i64,
    (dtypes.i32, dtypes.u8): dtypes.i32,
    (dtypes.i32, dtypes.u16): dtypes.i32,
    (dtypes.i32, dtypes.u32): dtypes.i64,
    (dtypes.i64, dtypes.u8): dtypes.i64,
    (dtypes.i64, dtypes.u16): dtypes.i64,
    (dtypes.i64, dtypes.u32): dtypes.i64,
}


def _pair(a: DType, b: DType) -> DType | None:
    if a is b:
        return a
    if _RANK[a.kind] != _RANK[b.kind]:
        return max(a, b, key=lambda d: _RANK[d.kind])
    if a.bits == b.bits and a.is_float:
        return dtypes.f32  # f16 has more digits, bf16 a wider range
    if a.kind is b.kind:
        return max(a, b, key=lambda d: d.bits)
    return _MIXED.get((a, b)) or _MIXED.get((b, a))


_PROMOTABLE = tuple(d for d in dtypes.all if d.kind in _RANK)
_TABLE: dict[tuple[DType, DType], DType | None] = {
    (a, b): _pair(a, b) for a, b in product(_PROMOTABLE, _PROMOTABLE)
}


def promote(*operands: DType | type | float) -> DType:
    """The dtype that operands have together: dtypes, Python numbers, or the types bool, int and float.

    It is that of the Array API standard, and where the standard leaves it open: of a float and an integer, or
    of bool and a number, the former and the number; of f16 and bf16, f32. A Python number takes the dtype of
    the others, and its default where it is of a higher kind than they,
    or alone: i64 for an int, f32 for a float.

    Raises VerifyError where there is no such dtype: for u64 beside a signed integer, for index and void,
    which are not among the numbers of the standard;
    for an integer that the dtype does not hold; and for no operand at all.
    """
    dtype: DType | None = None
    numbers: list[type | float] = []
    for operand in operands:
        if isinstance(operand, DType):
            dtype = _together(dtype or operand, operand)
        else:
            numbers.append(operand)
    for number in numbers:
        own = _default(number)
        if dtype is None or _RANK[own.kind] > _RANK[dtype.kind]:
            dtype = own
    if dtype is None:
        raise VerifyError("no operand to promote")
    for number in numbers:
        if type(number) is int and dtype.is_int and not dtype.min <= number <= dtype.max:
            raise VerifyError(f"{number} is not a value of {dtype}", remedy="CAST to a wider type first")
    return dtype


def _together(a: DType, b: DType) -> DType:
    found = _TABLE.get((a, b))
    if found is not None:
        return found
    for dtype in (a, b):
        if dtype.kind not in _RANK:
            raise VerifyError(f"{dtype} is not promoted", remedy="CAST it to a type of numbers, such as i64")
    raise VerifyError(f"no dtype holds both {a} and {b}", remedy="CAST one of them")


def _default(operand: type | float) -> DType:
    kind = operand if isinstance(operand, type) else type(operand)
    if kind not in _DEFAULT:
        raise VerifyError(f"{operand!r} is neither a dtype nor a Python number", remedy="bool, int or float")
    return _DEFAULT[kind]
