"""Edges of the semantics where a small mistake would otherwise go unseen:
midpoints, widths, orders of axes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from uop_ir import (
    Const,
    DType,
    Ops,
    ParseError,
    UOp,
    VerifyError,
    dtypes,
    evaluate,
    fold,
    index_map,
    parse_uir,
)


@pytest.mark.parametrize("rest", [-1, 0, 1])
@pytest.mark.parametrize("sign", [1, -1])
def test_integers_near_a_midpoint_of_bf16(rest: int, sign: int) -> None:
    """Between 2**60 and 2**60 + 2**53 lies no bf16.
    Half way, the even one wins; a bit more or less decides.
    """
    low, step = 1 << 60, 1 << 53
    value = sign * (low + step // 2 + rest)
    got = fold(Ops.CAST, dtypes.bf16, [Const(dtypes.i64, value)]).value
    assert got == sign * (low + step if rest > 0 else low)


@pytest.mark.parametrize("kind", [int, np.int64, Fraction, Decimal, np.longdouble])
@pytest.mark.parametrize(("dtype", "bits"), [(dtypes.bf16, 8), (dtypes.f32, 24), (dtypes.f64, 53)], ids=str)
@pytest.mark.parametrize("rest", [-1, 0, 1])
@pytest.mark.parametrize("sign", [1, -1])
def test_constants_near_a_midpoint(kind: Any, dtype: DType, bits: int, rest: int, sign: int) -> None:
    """Between 2**60 and the next float there is none. A number of any class rounds once, as an int does."""
    low, step = 1 << 60, 1 << (61 - bits)
    value = kind(sign * (low + step // 2 + rest))
    assert UOp.const(dtype, value).value == sign * (low + step if rest > 0 else low)


@pytest.mark.parametrize(
    ("dtype", "bits"), [(dtypes.f16, 11), (dtypes.bf16, 8), (dtypes.f32, 24), (dtypes.f64, 53)], ids=str
)
@pytest.mark.parametrize("sign", [1, -1])
def test_a_ratio_rounds_once(dtype: DType, bits: int, sign: int) -> None:
    """Half way from 1 to the float after it, and so little more or less that no f64 tells."""
    value: Any = 1 + Fraction(1, 1 << bits) + Fraction(sign, 1 << 99)
    assert UOp.const(dtype, value).value == (1 + 2.0 ** (1 - bits) if sign > 0 else 1)


@pytest.mark.parametrize("value", [1 << 70, Fraction(10**400 + 7), np.uint64((1 << 64) - 1), np.int8(-1)])
def test_integers_of_every_class_wrap(value: Any) -> None:
    for dtype in dtypes.ints:
        assert (UOp.const(dtype, value).value - int(value)) % (1 << dtype.bits) == 0


def test_a_fused_sum_near_a_midpoint_of_f64() -> None:
    """The product is a little less than half an ulp of the addend, by more bits than an f64 has."""
    x, y, z = 2.0**-53 * (1 + 2.0**-30), 1 - 2.0**-30, 1 + 2.0**-52
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    got = fold(Ops.MULACC, None, [UOp.const(dtypes.f64, v).arg for v in (x, y, z)]).value
    assert got == float(exact) == z
    assert x * y + z != z


def test_types_of_one_kind_are_no_one_type() -> None:
    short, long, condition = (UOp.param(i, 2, d) for i, d in enumerate((dtypes.i32, dtypes.i64, dtypes.bool)))
    makers: tuple[Callable[[], UOp], ...] = (
        lambda: short + long,
        lambda: condition.where(short, long),
        lambda: short < long,
        lambda: short.bitcast(dtypes.i64),
        lambda: long.bitcast(dtypes.i32),
        lambda: UOp.param(3, 2, dtypes.f32).bitcast(dtypes.f16),
    )
    for make in makers:
        with pytest.raises(VerifyError):
            make()


def test_a_reduction_drops_the_last_axes() -> None:
    x = UOp.param(0, 24, dtypes.i32).reshape((2, 3, 4))
    assert x.reduce(Ops.ADD, 1).shape == (2, 3)
    assert x.reduce(Ops.ADD, 2).shape == (2,)
    data = np.arange(24, dtype=np.int32)
    np.testing.assert_array_equal(
        evaluate([x.reduce(Ops.MAX, 1)], {x.src[0]: data})[0], [[3, 7, 11], [15, 19, 23]]
    )


def test_half_precision_accumulates_wide() -> None:
    """2048 + 1 is no f16: one by one the ones would be lost."""
    x = UOp.param(0, 2049, dtypes.f16)
    data = np.ones(2049, np.float16)
    data[0] = 2048
    assert evaluate([x.reduce(Ops.ADD, 1)], {x: data})[0] == 4096


def test_a_size_less_than_zero_is_no_size() -> None:
    with pytest.raises(ParseError, match="less than 0"):
        parse_uir("%0 = buffer -1 : dtype=f32 slot=0")


def constant(node: UOp) -> int:
    return int(evaluate([node], {})[0])


def moved(x: UOp) -> Sequence[UOp]:
    """Each movement op on a value of shape (2, 3, 4), and several of them."""
    return (
        x.reshape((4, 6)), x.reshape((6, 4)), x.reshape((2, 12)), x.reshape((24,)), x.reshape((3, 2, 2, 2)),
        x.permute((2, 0, 1)), x.permute((1, 0, 2)), x.flip((True, False, True)), x.flip((False, True, False)),
        x.pad(((1, 0), (0, 2), (2, 1))), x.shrink(((1, 2), (0, 2), (1, 4))), x.shrink(((0, 2), (1, 3), (2, 3))),
        x.reshape((2, 3, 4, 1)).expand((2, 3, 4, 3)), x.reshape((1, 2, 3, 4)).expand((2, 2, 3, 4)),
    )  # fmt: skip


@pytest.mark.parametrize("number", range(14))
def test_index_maps_say_what_the_interpreter_does(number: int) -> None:
    """On distinct elements, position by position."""
    memory = UOp.param(0, 24, dtypes.i32)
    data = np.arange(1, 25, dtype=np.int32)
    source = memory.reshape((2, 3, 4))
    node = moved(source)[number]
    result = evaluate([node], {memory: data})[0]
    before = evaluate([node.src[0]], {memory: data})[0]
    for at in product(*map(range, result.shape)):
        position, valid = index_map(node, [UOp.const(dtypes.index, i) for i in at])
        inside = valid is None or bool(constant(valid.where(UOp.const(dtypes.index, 1), 0)))
        assert result[at] == (before[tuple(constant(p) for p in position)] if inside else 0)


def test_the_width_of_a_type_in_memory_is_that_of_numpy() -> None:
    for dtype in dtypes.all:
        assert dtype.itemsize == dtype.numpy.itemsize
        if dtype.is_float:
            assert math.isinf(dtype.max)
        elif dtype is not dtypes.bool:
            info = np.iinfo(dtype.numpy)
            assert (dtype.min, dtype.max) == (info.min, info.max)


def test_a_node_with_another_arg_or_other_sources() -> None:
    r, q = UOp.range(3, 0), UOp.range(4, 0)
    assert r.replace(arg=(1, r.arg[1])) is UOp.range(3, 1)
    assert r.replace(src=q.src) is q
    assert r.replace() is r
