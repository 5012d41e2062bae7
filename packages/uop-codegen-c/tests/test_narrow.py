"""f16 and bf16 as storage: every pattern widens right, and every wider type rounds once."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from uop_codegen_c import settings
from uop_ir import DType, UOp, dtypes, override

NARROW = [dtypes.f16, dtypes.bf16]
PATTERNS = np.arange(1 << 16, dtype=np.uint16)


def cast(source: DType, target: DType, size: int) -> UOp:
    return UOp.sink(UOp.param(0, size, target).store(UOp.param(1, size, source).cast(target)))


def run(run_cpu: Callable[..., Any], body: UOp, target: DType, given: npt.NDArray[Any]) -> npt.NDArray[Any]:
    out: npt.NDArray[Any] = run_cpu(body, [np.zeros(given.size, target.numpy), given])[0]
    return out


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_every_pattern_widens(
    dtype: DType, run_cpu: Callable[..., Any], same_bits: Callable[..., None]
) -> None:
    given = PATTERNS.view(dtype.numpy)
    same_bits(run(run_cpu, cast(dtype, dtypes.f32, given.size), dtypes.f32, given), given.astype(np.float32))


@pytest.mark.net
@pytest.mark.parametrize("target", [d for d in dtypes.all if d not in (dtypes.index, dtypes.f32)], ids=str)
@pytest.mark.parametrize("source", NARROW, ids=str)
def test_every_pattern_of_a_result_converts(
    source: DType,
    target: DType,
    run_cpu: Callable[..., Any],
    run_interp: Callable[..., Any],
    same_bits: Callable[..., None],
) -> None:
    """To each type, by way of f32, whether it is an element or a result that is cast."""
    given = PATTERNS.view(source.numpy)
    zero = UOp.const(source, 0.0).reshape((1,)).expand((given.size,))
    for value in (UOp.param(1, given.size, source), zero + UOp.param(1, given.size, source)):
        body = UOp.sink(UOp.param(0, given.size, target).store(value.cast(target)))
        inputs = [np.zeros(given.size, target.numpy), given]
        with np.errstate(invalid="ignore"):  # signaling NaNs
            same_bits(run_cpu(body, inputs)[0], run_interp(body, inputs)[0])


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_every_pattern_keeps_its_bits_and_nan_is_canonical(dtype: DType, run_cpu: Callable[..., Any]) -> None:
    given = PATTERNS.view(dtype.numpy)
    body = UOp.sink(
        UOp.param(0, given.size, dtypes.u16).store(UOp.param(1, given.size, dtype).bitcast(dtypes.u16))
    )
    quiet = 0x7E00 if dtype is dtypes.f16 else 0x7FC0
    with np.errstate(invalid="ignore"):
        want = np.where(np.isnan(given), quiet, PATTERNS)
    np.testing.assert_array_equal(run(run_cpu, body, dtypes.u16, given), want)


def nearest(value: Fraction, values: list[float]) -> float:
    """The finite value of a type nearest to a fraction,
    ties to the even pattern; infinity past the last half step.
    """
    place = bisect(values, float(value))
    around = [i for i in range(place - 2, place + 3) if 0 <= i < len(values)]
    best = min(around, key=lambda i: (abs(Fraction(values[i]) - value), i % 2))
    step = Fraction(values[-1]) - Fraction(values[-2])
    if value >= Fraction(values[-1]) + step / 2:
        return float("inf")
    return values[best]


@pytest.mark.net
@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize("source", [dtypes.f64, dtypes.f32, dtypes.i64, dtypes.u64, dtypes.i32], ids=str)
def test_a_wider_type_rounds_once(dtype: DType, source: DType, run_cpu: Callable[..., Any]) -> None:
    """At, just below and just above the middle of two neighbours, where rounding twice goes wrong."""
    with np.errstate(invalid="ignore"):
        positive = PATTERNS[: 1 << 15].view(dtype.numpy).astype(np.float64)
    values = positive[np.isfinite(positive)]
    steps = values.tolist()
    rng = np.random.default_rng(0)
    low = rng.integers(0, len(values) - 1, 2000)
    middle = (values[low] + values[low + 1]) / 2
    if source.is_float:
        near = np.concatenate(
            [middle, np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf), values[-3:]]
        )
        given = near.astype(source.numpy)
        given = given[np.isfinite(given)]
    else:
        inside = middle[(middle >= 1) & (middle < float(source.max) / 2)].astype(source.numpy)
        given = np.concatenate([inside, inside + 1, inside - 1])
    want = [nearest(Fraction(x.item()), steps) for x in given]
    got = run(run_cpu, cast(source, dtype, given.size), dtype, given).astype(np.float64)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("opt", [0, 1])
def test_f32_as_bf16(opt: int, run_cpu: Callable[..., Any]) -> None:
    """Every upper half of an f32 with lower halves about the middle,
    by itself and as a vector, against ml_dtypes.
    """
    low = np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
    given = ((PATTERNS.astype(np.uint32) << 16)[:, None] | low).reshape(-1).view(np.float32)
    with override(settings, opt=opt):
        got = run(run_cpu, cast(dtypes.f32, dtypes.bf16, given.size), dtypes.bf16, given)
    with np.errstate(invalid="ignore"):
        want = np.where(np.isnan(given), np.float32("nan"), given).astype(dtypes.bf16.numpy)
    np.testing.assert_array_equal(got.view(np.uint16), want.view(np.uint16))


@pytest.mark.parametrize("opt", [0, 1])
def test_f32_as_f16(opt: int, run_cpu: Callable[..., Any]) -> None:
    """Every upper half of an f32 with lower halves about each middle,
    by itself and as a vector, against NumPy.
    """
    low = (np.arange(8, dtype=np.uint32) << 13)[:, None] | np.array([0, 1, 0x1000, 0x1FFF], np.uint32)
    given = ((PATTERNS.astype(np.uint32) << 16)[:, None] | low.reshape(-1)).reshape(-1).view(np.float32)
    with override(settings, opt=opt):
        got = run(run_cpu, cast(dtypes.f32, dtypes.f16, given.size), dtypes.f16, given)
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        want = np.where(np.isnan(given), np.float32("nan"), given).astype(np.float16)
    np.testing.assert_array_equal(got.view(np.uint16), want.view(np.uint16))
