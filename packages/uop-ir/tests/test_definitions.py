"""EXP2, LOG2 and SIN against exact values by rational arithmetic: at most 2 ulp everywhere."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from uop_ir import Const, DType, Ops, UOp, VerifyError, definition, dtypes, evaluate, fold

WIDE = (dtypes.f32, dtypes.f64)
#: Bits after the point in the oracle's arithmetic; sine needs as many more as its argument has before it.
BITS = 240


def atanh(x: Fraction, bits: int) -> int:
    """atanh of a small number, times 2**bits."""
    if x < 0:
        return -atanh(-x, bits)
    term = (x.numerator << bits) // x.denominator
    square = (term * term) >> bits
    total, k = 0, 1
    while term:
        total += term // k
        term = (term * square) >> bits
        k += 2
    return total


@cache
def log_of_2(bits: int) -> int:
    return 2 * atanh(Fraction(1, 3), bits)


@cache
def pi(bits: int) -> int:
    """pi times 2**bits, by Machin's formula."""

    def inverse_tangent(n: int) -> int:
        term, total, k, sign = (1 << bits + 20) // n, 0, 1, 1
        while term:
            total += sign * (term // k)
            term //= n * n
            k, sign = k + 2, -sign
        return total

    return (16 * inverse_tangent(5) - 4 * inverse_tangent(239)) >> 20


def exact_exp2(x: float) -> Fraction:
    n = math.floor(x)
    step = (Fraction(x) - n) * log_of_2(BITS)
    power = int(step)
    term, total, k = 1 << BITS, 0, 1
    while term:
        total += term
        term = ((term * power) >> BITS) // k
        k += 1
    return Fraction(total, 1 << BITS) * Fraction(2) ** n


def exact_log2(x: float) -> Fraction:
    mantissa, exponent = math.frexp(x)
    if mantissa < 0.75:
        mantissa, exponent = mantissa * 2, exponent - 1
    ratio = (Fraction(mantissa) - 1) / (Fraction(mantissa) + 1)
    return exponent + Fraction(2 * atanh(ratio, BITS), log_of_2(BITS))


def exact_sin(x: float) -> Fraction:
    if abs(x) < 2.0**-100:  # x - x**3 / 6 is x to 200 bits
        return Fraction(x)
    bits = BITS + max(math.frexp(x)[1], 0)
    half_turn = pi(bits)
    turns, angle = divmod(int(Fraction(x) * (1 << bits)), half_turn)
    angle >>= bits - BITS
    term, total, k = angle, 0, 1
    while term:
        total += term if k % 4 == 1 else -term
        term = ((((term * angle) >> BITS) * angle) >> BITS) // ((k + 1) * (k + 2))
        k += 2
    return Fraction(-total if turns % 2 else total, 1 << BITS)


EXACT: dict[Ops, Callable[[float], Fraction]] = {
    Ops.EXP2: exact_exp2,
    Ops.LOG2: exact_log2,
    Ops.SIN: exact_sin,
}


def unit(value: Fraction, dtype: DType) -> Fraction:
    """The distance of neighbours among the floats at a value."""
    digits, least = (24, -149) if dtype is dtypes.f32 else (53, -1074)
    if value == 0:
        return Fraction(2) ** least
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    return Fraction(2) ** max(exponent - digits + 1, least)


def run(op: Ops, x: npt.NDArray[Any], dtype: DType) -> npt.NDArray[Any]:
    memory = UOp.buffer(len(x), dtype)
    return evaluate([UOp(op, (memory,))], {memory: x})[0]


def worst(op: Ops, x: npt.NDArray[Any], dtype: DType) -> float:
    """The greatest error in ulp; results past the greatest finite number must be infinite."""
    error = 0.0
    most = Fraction(2) ** (128 if dtype is dtypes.f32 else 1024)
    for argument, got in zip(x.tolist(), run(op, x, dtype).tolist(), strict=True):
        exact = EXACT[op](argument)
        if abs(exact) >= most:
            assert got == math.inf
        else:
            assert math.isfinite(got), argument
            error = max(error, float(abs(Fraction(got) - exact) / unit(exact, dtype)))
    return error


def random_bits(dtype: DType, rng: np.random.Generator, count: int) -> npt.NDArray[Any]:
    bits = rng.integers(0, (1 << dtype.bits) - 1, count, dtype=f"u{dtype.itemsize}", endpoint=True)
    values = bits.view(dtype.numpy)
    return np.asarray(values[np.isfinite(values)])


def argument_samples(op: Ops, dtype: DType, count: int) -> npt.NDArray[Any]:
    """Every binade, the middle of the range densely, denormals in and out, and the edges of overflow."""
    rng = np.random.default_rng(list(EXACT).index(op))
    everywhere = random_bits(dtype, rng, count)
    edge = 128.0 if dtype is dtypes.f32 else 1024.0
    tiny = np.finfo(dtype.numpy).smallest_subnormal * np.arange(1, 60)
    near_one = 1 + rng.uniform(-0.02, 0.02, count)
    if op is Ops.EXP2:
        low = -149.0 if dtype is dtypes.f32 else -1074.0
        parts = [
            rng.uniform(low - 2, edge + 1, count),
            rng.uniform(-1, 1, count),
            rng.uniform(low - 1, low + 25, count),
        ]
        parts += [
            np.arange(low - 1, edge + 1),
            np.arange(low, edge) + 0.5,
            np.nextafter([edge, 0.5, -0.5, 1.5], 0),
        ]
        everywhere = everywhere[np.abs(everywhere) < 4 * edge]
        return np.concatenate([*parts, tiny, everywhere]).astype(dtype.numpy)
    if op is Ops.LOG2:
        parts = [rng.uniform(0.5, 2, count), near_one, tiny, np.sqrt(0.5) + np.arange(-20, 20) * 1e-8]
        powers = np.ldexp(1.0, np.arange(-149, 128) if dtype is dtypes.f32 else np.arange(-1074, 1024))
        return np.concatenate([*parts, powers, np.abs(everywhere)]).astype(dtype.numpy)
    turns = np.arange(1, count) * (np.pi / 4)
    return np.concatenate([turns, rng.uniform(-1, 1, count), tiny, close_to_turns(), everywhere]).astype(
        dtype.numpy
    )


def close_to_turns() -> npt.NDArray[Any]:
    """Numerators of the continued fraction of pi, times powers of 2:
    floats that lie next to multiples of it.
    """
    rest, before, last, out = Fraction(pi(400), 1 << 400), 0, 1, []
    while last < 1 << 53:
        whole = rest.numerator // rest.denominator
        before, last = last, whole * last + before
        out.append(float(last))
        rest = 1 / (rest - whole)
    found = [v * 2.0**k for v in out[:-1] for k in range(-2, 3)]
    # the double that lies closest to a multiple of pi / 2 (Kahan)
    return np.array([*found, 6381956970095103.0 * 2.0**70, 6381956970095103.0])


def test_oracle_knows_the_functions() -> None:
    for x in (0.1, 0.75, 1.5, 3.0, 20.25):
        assert float(exact_exp2(x)) == pytest.approx(2.0**x, rel=1e-15)
        assert float(exact_log2(x)) == pytest.approx(math.log2(x), rel=1e-15)
        assert float(exact_sin(x)) == pytest.approx(math.sin(x), rel=1e-15)


@pytest.mark.net
@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("op", EXACT)
def test_at_most_two_units_from_exact(op: Ops, dtype: DType) -> None:
    assert worst(op, argument_samples(op, dtype, 500), dtype) <= 2.0


@pytest.mark.slow
@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("op", EXACT)
def test_at_most_two_units_from_exact_densely(op: Ops, dtype: DType) -> None:
    assert worst(op, argument_samples(op, dtype, 40_000), dtype) <= 2.0


def test_sine_of_the_double_closest_to_a_multiple_of_half_pi() -> None:
    x = np.array(
        [6381956970095103.0 * 2.0**797, -6381956970095103.0 * 2.0**797, 6381956970095103.0 * 2.0**796]
    )
    assert worst(Ops.SIN, x, dtypes.f64) <= 2.0


EDGES = [
    (Ops.EXP2, -math.inf, 0.0),
    (Ops.EXP2, math.inf, math.inf),
    (Ops.EXP2, 0.0, 1.0),
    (Ops.EXP2, -0.0, 1.0),
    (Ops.EXP2, 10.0, 1024.0),
    (Ops.EXP2, math.nan, math.nan),
    (Ops.EXP2, 1e30, math.inf),
    (Ops.EXP2, -1e30, 0.0),
    (Ops.LOG2, 0.0, -math.inf),
    (Ops.LOG2, -0.0, -math.inf),
    (Ops.LOG2, -1.0, math.nan),
    (Ops.LOG2, -math.inf, math.nan),
    (Ops.LOG2, math.inf, math.inf),
    (Ops.LOG2, math.nan, math.nan),
    (Ops.LOG2, 1.0, 0.0),
    (Ops.LOG2, 8.0, 3.0),
    (Ops.SIN, math.inf, math.nan),
    (Ops.SIN, -math.inf, math.nan),
    (Ops.SIN, math.nan, math.nan),
    (Ops.SIN, 0.0, 0.0),
    (Ops.SIN, -0.0, -0.0),
]


@pytest.mark.parametrize("dtype", dtypes.floats)
@pytest.mark.parametrize(("op", "x", "expected"), EDGES)
def test_edges(op: Ops, x: float, expected: float, dtype: DType) -> None:
    assert fold(op, None, [UOp.const(dtype, x).arg]) == UOp.const(dtype, expected).arg


def test_a_denormal_is_a_logarithm_too() -> None:
    assert fold(Ops.LOG2, None, [Const(dtypes.f32, 1)]) == UOp.const(dtypes.f32, -149.0).arg
    assert fold(Ops.EXP2, None, [UOp.const(dtypes.f32, -149.0).arg]) == Const(dtypes.f32, 1)
    assert fold(Ops.EXP2, None, [UOp.const(dtypes.f64, -1074.0).arg]) == Const(dtypes.f64, 1)
    assert fold(Ops.SIN, None, [Const(dtypes.f32, 1)]) == Const(dtypes.f32, 1)


@pytest.mark.parametrize("dtype", [dtypes.f16, dtypes.bf16])
@pytest.mark.parametrize("op", EXACT)
def test_halves_are_computed_in_f32(op: Ops, dtype: DType) -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(dtype.numpy)
    with np.errstate(all="ignore"):
        wide = {Ops.EXP2: np.exp2, Ops.LOG2: np.log2, Ops.SIN: np.sin}[op](x.astype(np.float64))
        near = wide.astype(dtype.numpy)
        other = np.nextafter(wide.astype(np.float32), near.astype(np.float32)).astype(dtype.numpy)
    got = run(op, x, dtype)
    nan = np.isnan(got.astype(np.float32))
    assert np.array_equal(nan, np.isnan(wide))
    distance = np.abs(got.view(np.int16).astype(int) - near.view(np.int16).astype(int))
    assert other.shape == near.shape
    assert distance[~nan].max() <= 1
    assert np.count_nonzero(distance[~nan]) < 100


@pytest.mark.parametrize("dtype", dtypes.floats)
@pytest.mark.parametrize("op", EXACT)
def test_a_definition_is_arithmetic_only(op: Ops, dtype: DType) -> None:
    x = UOp.buffer(8, dtype)
    graph = definition(op, x)
    assert graph.dtype is dtype
    assert graph.shape == x.shape
    assert not {n.op for n in graph.toposort()} & {Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.SQRT, Ops.MOD}
    data = np.linspace(0.5, 4, 8).astype(dtype.numpy)
    assert np.array_equal(evaluate([graph], {x: data})[0], run(op, data, dtype))


def test_exp2_of_f32_needs_no_conversion() -> None:
    ops = {n.op for n in definition(Ops.EXP2, UOp.buffer(1, dtypes.f32)).toposort()}
    assert Ops.CAST not in ops
    assert Ops.DIV not in ops


def test_other_ops_have_no_definition() -> None:
    with pytest.raises(VerifyError, match="no definition"):
        definition(Ops.SQRT, UOp.buffer(1, dtypes.f32))
    with pytest.raises(VerifyError, match="no definition"):
        definition(Ops.SIN, UOp.buffer(1, dtypes.i32))
