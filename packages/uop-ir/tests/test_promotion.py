"""Promotion, against the tables of the Array API standard,
written out here, and against NumPy and ml_dtypes.
"""

import itertools

import numpy as np
import pytest

from uop_ir import DType, Kind, VerifyError, by_name, dtypes, promote

# The tables of the standard (type promotion rules, 2023.12),
# and ours where it has none: - stands for no result.
SIGNED = """
        i8  i16 i32 i64
    i8  i8  i16 i32 i64
    i16 i16 i16 i32 i64
    i32 i32 i32 i32 i64
    i64 i64 i64 i64 i64
"""
UNSIGNED = """
        u8  u16 u32 u64
    u8  u8  u16 u32 u64
    u16 u16 u16 u32 u64
    u32 u32 u32 u32 u64
    u64 u64 u64 u64 u64
"""
MIXED = """
        u8  u16 u32 u64
    i8  i16 i32 i64 -
    i16 i16 i32 i64 -
    i32 i32 i32 i64 -
    i64 i64 i64 i64 -
"""
FLOATS = """
         f16 bf16 f32 f64
    f16  f16 f32  f32 f64
    bf16 f32 bf16 f32 f64
    f32  f32 f32  f32 f64
    f64  f64 f64  f64 f64
"""
NUMBERS = [d for d in dtypes.all if d is not dtypes.index]


def cells(table: str) -> dict[tuple[DType, DType], DType | None]:
    head, *rows = [line.split() for line in table.strip().splitlines()]
    return {
        (by_name(left), by_name(top)): None if cell == "-" else by_name(cell)
        for left, *row in rows
        for top, cell in zip(head, row, strict=True)
    }


TABLE = {
    **cells(SIGNED),
    **cells(UNSIGNED),
    **cells(MIXED),
    **cells(FLOATS),
    (dtypes.bool, dtypes.bool): dtypes.bool,
}


@pytest.mark.parametrize(("a", "b"), [*itertools.product(NUMBERS, NUMBERS)])
def test_each_pair(a: DType, b: DType) -> None:
    if a.is_float != b.is_float:  # beside the standard
        wanted: DType | None = a if a.is_float else b
    elif dtypes.bool in (a, b):
        wanted = b if a is dtypes.bool else a
    else:
        wanted = TABLE.get((a, b)) or TABLE.get((b, a))
    if wanted is None:
        assert {a.kind, b.kind} == {Kind.SIGNED, Kind.UNSIGNED}
        with pytest.raises(VerifyError, match=f"no dtype holds both {a} and {b} .CAST one"):
            promote(a, b)
        return
    assert promote(a, b) is wanted
    if a.is_float == b.is_float and {a, b} != {dtypes.f16, dtypes.bf16}:
        assert np.result_type(a.numpy, b.numpy) == wanted.numpy


@pytest.mark.parametrize("a", [d for d in NUMBERS if d.kind is not Kind.UNSIGNED], ids=str)
@pytest.mark.parametrize("b", [d for d in NUMBERS if d.kind is not Kind.UNSIGNED], ids=str)
def test_promotion_is_associative_without_unsigned_types(a: DType, b: DType) -> None:
    for c in (dtypes.bool, dtypes.i8, dtypes.i64, dtypes.f32, dtypes.f64):
        assert promote(a, b, c) is promote(promote(a, b), c) is promote(a, promote(b, c))


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_python_numbers_are_weak(dtype: DType) -> None:
    assert promote(dtype, True) is promote(dtype, bool) is promote(False, dtype) is dtype
    assert promote(dtype, 1) is promote(int, dtype) is (dtypes.i64 if dtype is dtypes.bool else dtype)
    assert promote(dtype, 1.5) is promote(float, dtype) is (dtype if dtype.is_float else dtypes.f32)
    assert promote(dtype, 1, 2.5, True) is promote(dtype, 2.5)
    assert promote(1, dtype, dtypes.f64) is dtypes.f64


def test_python_numbers_alone_have_their_defaults() -> None:
    assert [promote(t) for t in (bool, int, float)] == [dtypes.bool, dtypes.i64, dtypes.f32]
    assert promote(True, 2) is dtypes.i64
    assert promote(2, 2.5) is dtypes.f32


@pytest.mark.parametrize("dtype", dtypes.ints, ids=str)
def test_an_integer_must_be_a_value_of_the_type(dtype: DType) -> None:
    info = np.iinfo(dtype.numpy)
    assert promote(dtype, int(info.min)) is promote(dtype, int(info.max)) is dtype
    for number in (int(info.min) - 1, int(info.max) + 1):
        with pytest.raises(VerifyError, match=f"{number} is not a value of {dtype}"):
            promote(dtype, number)
        assert promote(dtype, number, 1.0) is dtypes.f32


@pytest.mark.parametrize(
    ("operands", "said"),
    [
        ((), "no operand"),
        ((dtypes.index,), "index is not promoted"),
        ((dtypes.i32, dtypes.void), "void is not promoted"),
        ((dtypes.f32, "x"), "'x' is neither a dtype nor a Python number"),
        ((dtypes.f32, complex), "neither a dtype"),
        ((1 << 63,), "is not a value of i64"),
        ((dtypes.bool, 1 << 63), "is not a value of i64"),
    ],
)
def test_what_is_not_promoted(operands: tuple[DType, ...], said: str) -> None:
    with pytest.raises(VerifyError, match=said):
        promote(*operands)
