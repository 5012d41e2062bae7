"""The table of elementwise ops against Python's big integers, fractions and float64."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from uop_ir import BoundsError, Const, DType, Ops, dtypes, fold
from uop_ir.dtype import constant
from uop_ir.rounding import multiply_add
from uop_ir.scalar import evaluate_op, to_array

HALVES = (dtypes.f16, dtypes.bf16)
WIDE = (dtypes.f32, dtypes.f64)


def wrap(dtype: DType, value: int) -> int:
    return int(constant(dtype, value).value)


def floor_divide(x: int, y: int) -> int:
    return x // y if y else 0


def shift(dtype: DType, x: int, y: int, left: bool) -> int:
    count = y % 256
    return x << count if left else x >> count


PAIRS: dict[Ops, Callable[[DType, int, int], int]] = {
    Ops.ADD: lambda d, x, y: x + y,
    Ops.SUB: lambda d, x, y: x - y,
    Ops.MUL: lambda d, x, y: x * y,
    Ops.DIV: lambda d, x, y: floor_divide(x, y),
    Ops.MOD: lambda d, x, y: x - floor_divide(x, y) * y,
    Ops.MAX: lambda d, x, y: max(x, y),
    Ops.AND: lambda d, x, y: x & y,
    Ops.OR: lambda d, x, y: x | y,
    Ops.XOR: lambda d, x, y: x ^ y,
    Ops.SHL: lambda d, x, y: shift(d, x, y, left=True),
    Ops.SHR: lambda d, x, y: shift(d, x, y, left=False),
    Ops.CMPLT: lambda d, x, y: x < y,
    Ops.CMPNE: lambda d, x, y: x != y,
    Ops.CMPEQ: lambda d, x, y: x == y,
}
COMPARISONS = (Ops.CMPLT, Ops.CMPNE, Ops.CMPEQ)


@pytest.mark.parametrize("op", PAIRS)
@pytest.mark.parametrize("dtype", [dtypes.i8, dtypes.u8])
def test_all_pairs_of_bytes(op: Ops, dtype: DType) -> None:
    values = range(int(dtype.min), int(dtype.max) + 1)
    x, y = np.meshgrid(np.array(values, dtype.numpy), np.array(values, dtype.numpy), indexing="ij")
    exact = np.array([[PAIRS[op](dtype, a, b) & 0xFF for b in values] for a in values], np.uint8)
    result_type = dtypes.bool if op in COMPARISONS else dtype
    result = evaluate_op(op, result_type, [x, y])
    assert result.dtype == result_type.numpy
    assert np.array_equal(result.view(np.uint8), exact)


@pytest.mark.parametrize("op", [op for op in PAIRS if op not in COMPARISONS])
@pytest.mark.parametrize("dtype", [dtypes.i16, dtypes.u16, dtypes.i32, dtypes.u32, dtypes.i64, dtypes.u64])
def test_edges_of_wide_integers(op: Ops, dtype: DType) -> None:
    least, most = int(dtype.min), int(dtype.max)
    edges = sorted(
        {least, least + 1, -1, 0, 1, 2, 3, 7, dtype.bits - 1, dtype.bits, most - 1, most} - {-1 - most}
    )
    edges = [wrap(dtype, e) for e in (*edges, least)]
    for x in edges:
        for y in edges:
            if op in (Ops.SHL, Ops.SHR):
                count = min(y % (1 << dtype.bits), 200)
                exact = x << count if op is Ops.SHL else x >> count
            else:
                exact = PAIRS[op](dtype, x, y)
            got = fold(op, None, [Const(dtype, x), Const(dtype, y)])
            assert got == Const(dtype, wrap(dtype, exact)), (x, y)


def test_negation_and_fused_integers_wrap() -> None:
    assert fold(Ops.NEG, None, [Const(dtypes.i8, -128)]) == Const(dtypes.i8, -128)
    assert fold(Ops.NEG, None, [Const(dtypes.u8, 1)]) == Const(dtypes.u8, 255)
    assert fold(Ops.MULACC, None, [Const(dtypes.i8, 100)] * 3) == Const(dtypes.i8, wrap(dtypes.i8, 10100))


def test_booleans() -> None:
    for x in (0, 1):
        for y in (0, 1):
            pair = [Const(dtypes.bool, x), Const(dtypes.bool, y)]
            assert fold(Ops.AND, None, pair).value == bool(x & y)
            assert fold(Ops.OR, None, pair).value == bool(x | y)
            assert fold(Ops.XOR, None, pair).value == bool(x ^ y)
            assert fold(Ops.CMPLT, None, pair).value == (x < y)


# index


def test_index_is_exact_or_refused() -> None:
    least, most = -(1 << 63), (1 << 63) - 1
    values = [least, least + 1, -(1 << 32), -3, -1, 0, 1, 2, 5, 1 << 31, 1 << 32, most - 1, most]
    exact = {op: PAIRS[op] for op in (Ops.ADD, Ops.SUB, Ops.MUL, Ops.DIV, Ops.MOD, Ops.MAX)}
    for op, function in exact.items():
        for x in values:
            for y in values:
                pair = [Const(dtypes.index, x), Const(dtypes.index, y)]
                expected = function(dtypes.index, x, y)
                if least <= expected <= most:
                    assert fold(op, None, pair).value == expected
                else:
                    with pytest.raises(BoundsError, match="overflows 64 bits"):
                        fold(op, None, pair)


# floats


def every(dtype: DType) -> npt.NDArray[Any]:
    return np.arange(1 << 16, dtype=np.uint16).view(dtype.numpy)


def same(x: npt.NDArray[Any], y: npt.NDArray[Any]) -> None:
    """Equal bits; all NaNs are one."""
    assert x.dtype == y.dtype
    bits = f"u{x.dtype.itemsize}"
    with np.errstate(invalid="ignore"):
        both_nan = np.isnan(x.astype(np.float64)) & np.isnan(y.astype(np.float64))
    wrong = (x.view(bits) != y.view(bits)) & ~both_nan
    assert not wrong.any(), (x[wrong][:5], y[wrong][:5])


UNARY: dict[Ops, Callable[[npt.NDArray[Any]], npt.NDArray[Any]]] = {
    Ops.RECIP: lambda x: 1 / x,
    Ops.SQRT: np.sqrt,
    Ops.TRUNC: np.trunc,
    Ops.NEG: np.negative,
}


@pytest.mark.parametrize("op", UNARY)
@pytest.mark.parametrize("dtype", HALVES)
def test_unary_ops_of_all_halves(op: Ops, dtype: DType) -> None:
    x = every(dtype)
    with np.errstate(all="ignore"):
        # float64 has more than twice the digits and two more: its one rounding more changes nothing
        expected = UNARY[op](x.astype(np.float64)).astype(np.float32).astype(dtype.numpy)
    same(evaluate_op(op, dtype, [x]), expected)


@pytest.mark.parametrize("dtype", HALVES)
def test_negation_flips_the_sign_bit(dtype: DType) -> None:
    x = every(dtype)
    result = evaluate_op(Ops.NEG, dtype, [x])
    number = ~np.isnan(x.astype(np.float32))
    assert np.array_equal(result.view(np.uint16)[number], x.view(np.uint16)[number] ^ 0x8000)


def specials(dtype: DType, rng: np.random.Generator, count: int = 5_000) -> npt.NDArray[Any]:
    """Random bit patterns and the values at the edges."""
    bits = (
        rng.integers(0, 1 << dtype.bits, count, dtype=f"u{dtype.itemsize}", endpoint=False)
        if (dtype.bits < 64)
        else rng.integers(0, (1 << 64) - 1, count, dtype=np.uint64, endpoint=True)
    )
    edges = np.array([0.0, -0.0, 1, -1, 0.5, 3, -7, np.inf, -np.inf, np.nan], dtype.numpy)
    random = bits.view(dtype.numpy)
    near = rng.standard_normal(count).astype(dtype.numpy)
    return np.concatenate([random, near, np.repeat(edges, 10), np.tile(edges, 10)])


BINARY: dict[Ops, Callable[[float, float], float]] = {
    Ops.ADD: lambda x, y: x + y,
    Ops.SUB: lambda x, y: x - y,
    Ops.MUL: lambda x, y: x * y,
    Ops.MAX: lambda x, y: y if math.isnan(y) or x < y else x,
}


@pytest.mark.parametrize("op", BINARY)
def test_binary_ops_of_f32_round_once(op: Ops) -> None:
    rng = np.random.default_rng(1)
    x, y = specials(dtypes.f32, rng), rng.permutation(specials(dtypes.f32, rng))
    with np.errstate(all="ignore"):
        wide = [BINARY[op](float(a), float(b)) for a, b in zip(x, y, strict=True)]
        expected = np.array(wide, np.float64).astype(np.float32)
    same(evaluate_op(op, dtypes.f32, [x, y]), expected)


@pytest.mark.parametrize("dtype", WIDE)
def test_float_division_is_the_nearest_quotient(dtype: DType) -> None:
    rng = np.random.default_rng(2)
    x, y = specials(dtype, rng, 500), rng.permutation(specials(dtype, rng, 500))
    result = evaluate_op(Ops.DIV, dtype, [x, y])
    for a, b, got in zip(x, y, result, strict=True):
        if not (np.isfinite(a) and np.isfinite(b)) or b == 0 or a == 0 or not np.isfinite(got):
            continue
        exact = Fraction(float(a)) / Fraction(float(b))
        error = abs(Fraction(float(got)) - exact)
        for neighbour in (
            np.nextafter(got, dtype.numpy.type(np.inf)),
            np.nextafter(got, -dtype.numpy.type(np.inf)),
        ):
            assert not np.isfinite(neighbour) or error <= abs(Fraction(float(neighbour)) - exact)


@pytest.mark.parametrize("dtype", WIDE)
def test_float_modulo_is_the_exact_remainder(dtype: DType) -> None:
    rng = np.random.default_rng(3)
    x, y = specials(dtype, rng, 500), rng.permutation(specials(dtype, rng, 500))
    with np.errstate(all="ignore"):
        same(evaluate_op(Ops.MOD, dtype, [x, y]), np.mod(x, y))
    for a, b, got in zip(x, y, evaluate_op(Ops.MOD, dtype, [x, y]), strict=True):
        if not (np.isfinite(a) and np.isfinite(b)) or b == 0:
            continue
        exact = Fraction(float(a)) % Fraction(float(b))
        nearest = float(exact) if dtype is dtypes.f64 else round_once(exact)
        assert float(got) == nearest
        assert got != 0 or np.signbit(got) == np.signbit(b)


def round_once(value: Fraction) -> float:
    """The nearest float32 by comparing with its neighbours."""
    with np.errstate(all="ignore"):
        near = np.float32(float(value))
        around = (np.nextafter(near, np.float32(-np.inf)), near, np.nextafter(near, np.float32(np.inf)))
    limit = Fraction(2) ** 128
    distances = []
    for candidate in around:
        at = Fraction(float(candidate)) if np.isfinite(candidate) else limit * (1 if candidate > 0 else -1)
        distances.append((abs(at - value), int(candidate.view(np.uint32)) & 1, float(candidate)))
    return min(distances)[2]


def test_maximum_keeps_its_operands_in_order() -> None:
    nan = float("nan")
    for x, y, expected in [
        (0.0, -0.0, 0.0),
        (-0.0, 0.0, -0.0),
        (nan, 1.0, nan),
        (1.0, nan, nan),
        (1.0, 2.0, 2.0),
    ]:
        got = fold(Ops.MAX, None, [constant(dtypes.f32, x), constant(dtypes.f32, y)]).value
        assert (math.isnan(got) and math.isnan(expected)) or math.copysign(1, got) == math.copysign(
            1, expected
        )
        assert got == expected or math.isnan(expected)


@pytest.mark.parametrize("op", [Ops.ADD, Ops.MUL, Ops.DIV, Ops.MOD])
@pytest.mark.parametrize("dtype", HALVES)
def test_halves_compute_in_f32(op: Ops, dtype: DType) -> None:
    rng = np.random.default_rng(4)
    x, y = specials(dtype, rng), rng.permutation(specials(dtype, rng))
    wide = evaluate_op(op, dtypes.f32, [x.astype(np.float32), y.astype(np.float32)])
    with np.errstate(all="ignore"):
        same(evaluate_op(op, dtype, [x, y]), wide.astype(dtype.numpy))


# x * y + z


def fused(x: float, y: float, z: float, dtype: DType) -> float | None:
    """The exact value rounded once, for finite numbers;
    None where its sign of zero or overflow needs care.
    """
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if exact == 0:
        return None
    if dtype is dtypes.f32:
        return None if abs(exact) >= 2**128 else round_once(exact)
    return None if abs(exact) >= 2**1024 else float(exact)


def triples(dtype: DType, rng: np.random.Generator, count: int) -> list[npt.NDArray[Any]]:
    """Random bits, values of one size, and addends that nearly
    cancel the product or sit at a midpoint of it.
    """
    x, y, z = (specials(dtype, rng, count) for _ in range(3))
    y, z = rng.permutation(y), rng.permutation(z)
    scale = dtype.numpy.type(2) ** rng.integers(-30, 30, (3, count)).astype(dtype.numpy)
    near = rng.standard_normal((3, count)).astype(dtype.numpy) * scale
    with np.errstate(all="ignore"):
        cancel = -(near[0] * near[1])
        tiny = near[2] * dtype.numpy.type(2.0 ** -(60 if dtype is dtypes.f32 else 400))
        low = near[0] * dtype.numpy.type(2.0 ** -(100 if dtype is dtypes.f32 else 600))
        lower = near[1] * dtype.numpy.type(2.0 ** -(40 if dtype is dtypes.f32 else 460))
    whole = rng.integers(1, 1 << 13, (2, count)).astype(dtype.numpy)
    return [
        np.concatenate([x, near[0], near[0], whole[0], low]),
        np.concatenate([y, near[1], near[1], whole[1], lower]),
        np.concatenate([z, near[2], cancel, tiny, low]),
    ]


@pytest.mark.parametrize("dtype", WIDE)
def test_multiply_accumulate_rounds_once(dtype: DType) -> None:
    x, y, z = triples(dtype, np.random.default_rng(5), 500)
    result = evaluate_op(Ops.MULACC, dtype, [x, y, z])
    different = 0
    with np.errstate(all="ignore"):
        plain = x * y + z
    for a, b, c, got, twice in zip(x, y, z, result, plain, strict=True):
        if not (np.isfinite(a) and np.isfinite(b) and np.isfinite(c)):
            wide = float(c) if np.isfinite(a) and np.isfinite(b) else float(twice)
            assert math.isnan(got) if math.isnan(wide) else got == wide
            continue
        expected = fused(float(a), float(b), float(c), dtype)
        if expected is not None:
            assert float(got) == expected, (a, b, c)
            different += float(twice) != expected
    assert different > 50


@pytest.mark.parametrize("dtype", WIDE)
def test_multiply_accumulate_signs_of_zero(dtype: DType) -> None:
    for x, y, z, negative in [
        (0.0, 1.0, 0.0, False),
        (-0.0, 1.0, -0.0, True),
        (-0.0, 1.0, 0.0, False),
        (2.0, 3.0, -6.0, False),
        (-2.0, 3.0, 6.0, False),
    ]:
        got = multiply_add(*(np.array([v], dtype.numpy) for v in (x, y, z)))
        assert got[0] == 0
        assert bool(np.signbit(got[0])) is negative


def test_multiply_accumulate_overflows_to_infinity() -> None:
    big = constant(dtypes.f64, 1e300)
    assert fold(Ops.MULACC, None, [big, big, big]).value == math.inf
    assert fold(Ops.MULACC, None, [big, constant(dtypes.f64, -1e300), big]).value == -math.inf
    most = constant(dtypes.f32, float(np.finfo(np.float32).max))
    two = constant(dtypes.f32, 2.0)
    assert fold(Ops.MULACC, None, [most, two, constant(dtypes.f32, -most.value)]).value == most.value


# casts


@cache
def all_finite(dtype: DType) -> list[float]:
    numbers = every(dtype).astype(np.float32)
    return sorted(set(numbers[np.isfinite(numbers)].tolist()))


def nearest(value: Fraction, dtype: DType) -> float:
    """The nearest value of a 16-bit float, ties to even, by search among all."""
    table = all_finite(dtype)
    at = bisect_left(table, value)
    around = table[max(at - 2, 0) : at + 2]
    even = [
        (abs(Fraction(v) - value), int(np.float64(v).astype(dtype.numpy).view(np.uint16)) & 1, v)
        for v in around
    ]
    return min(even)[2]


@pytest.mark.net
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("source", [dtypes.f64, dtypes.i64, dtypes.u64, dtypes.i32, dtypes.u32])
def test_narrowing_rounds_once(dtype: DType, source: DType) -> None:
    rng = np.random.default_rng(6)
    base = rng.integers(1, 1 << 12, 60) * 2 + 1
    rows: list[int] = []
    for odd in base.tolist():
        for place in (0, 3, 17, 40):
            rows.extend((odd << place) + tail for tail in (-1, 0, 1))
    fitting = [r for r in rows if r < 60000 or dtype is dtypes.bf16]
    if source.is_float:
        x = np.array(fitting, np.float64)
    else:
        x = np.array([r for r in fitting if r <= source.max], source.numpy)
    if source.min:
        x = np.concatenate([x, -x])
    result = evaluate_op(Ops.CAST, dtype, [x])
    for value, got in zip(x.tolist(), result.astype(np.float64).tolist(), strict=True):
        assert got == nearest(Fraction(value), dtype)
        assert not source.is_float or got == constant(dtype, value).value


@pytest.mark.parametrize("source", [dtypes.f16, dtypes.bf16, dtypes.f32, dtypes.f64])
@pytest.mark.parametrize("target", [*dtypes.ints, dtypes.index])
def test_floats_to_integers_truncate_and_saturate(source: DType, target: DType) -> None:
    edges = np.array([2.0**k + d for k in (7, 8, 15, 16, 31, 32, 63, 64) for d in (-1, -0.5, 0, 1)])
    with np.errstate(all="ignore"):
        x = np.concatenate([edges, -edges, specials(dtypes.f64, np.random.default_rng(7), 200)]).astype(
            source.numpy
        )
    result = evaluate_op(Ops.CAST, target, [x])
    for value, got in zip(x.astype(np.float64).tolist(), result.tolist(), strict=True):
        if math.isnan(value):
            assert got == 0
        elif math.isinf(value):
            assert got == (target.max if value > 0 else target.min)
        else:
            assert got == min(max(int(value), int(target.min)), int(target.max))


def test_casts_of_integers_wrap_and_bool_is_nonzero() -> None:
    for source in dtypes.ints:
        edges = [int(source.min), int(source.max), 0, 1, int(source.max) // 2]
        for target in dtypes.ints:
            got = evaluate_op(Ops.CAST, target, [np.array(edges, source.numpy)])
            assert got.tolist() == [wrap(target, e) for e in edges]
        assert evaluate_op(Ops.CAST, dtypes.bool, [np.array(edges, source.numpy)]).tolist() == [
            e != 0 for e in edges
        ]
    halves = np.array([0.25, -0.0, np.nan], np.float32)
    assert evaluate_op(Ops.CAST, dtypes.bool, [halves]).tolist() == [True, False, True]
    with pytest.raises(BoundsError, match="index"):
        evaluate_op(Ops.CAST, dtypes.index, [np.array([1 << 63], np.uint64)])


def test_wide_integers_to_floats_round_to_even() -> None:
    for value in ((1 << 53) + 1, (1 << 53) + 3, (1 << 63) - 1, -(1 << 62) - 1, (1 << 60) + (1 << 7)):
        got = fold(Ops.CAST, dtypes.f64, [Const(dtypes.i64, value)]).value
        assert got == float(value)
    for value in (
        (1 << 24) + 1,
        (1 << 24) + 3,
        (1 << 63) - 1,
        (1 << 40) + (1 << 16),
        (1 << 40) + (1 << 16) + 1,
    ):
        got = fold(Ops.CAST, dtypes.f32, [Const(dtypes.i64, value)]).value
        assert got == round_once(Fraction(value))


# bits


@pytest.mark.parametrize("dtype", dtypes.floats)
def test_bitcast_of_nan_is_canonical(dtype: DType) -> None:
    bits = {16: dtypes.u16, 32: dtypes.u32, 64: dtypes.u64}[dtype.bits]
    quiet = {dtypes.f16: 0x7E00, dtypes.bf16: 0x7FC0, dtypes.f32: 0x7FC00000, dtypes.f64: 0x7FF8000000000000}[
        dtype
    ]
    payload = Const(dtype, quiet | 1 | 1 << (dtype.bits - 1))
    assert math.isnan(payload.value)
    assert fold(Ops.BITCAST, bits, [payload]) == Const(bits, quiet)
    minus = constant(dtype, -0.0)
    assert fold(Ops.BITCAST, bits, [minus]) == Const(bits, 1 << (dtype.bits - 1))
    assert fold(Ops.BITCAST, dtype, [Const(bits, 1 << (dtype.bits - 1))]) == minus
    assert to_array(payload).view(bits.numpy) == payload.bits


def test_fold_takes_the_type_of_its_operands() -> None:
    half = constant(dtypes.f16, 0.5)
    assert fold(Ops.WHERE, None, [Const(dtypes.bool, 0), constant(dtypes.f16, 1.0), half]) == half
    assert fold(Ops.CMPLT, None, [half, constant(dtypes.f16, 1.0)]) == Const(dtypes.bool, 1)
    assert fold(Ops.SQRT, None, [constant(dtypes.f32, 2.0)]) == constant(dtypes.f32, math.sqrt(2.0))
