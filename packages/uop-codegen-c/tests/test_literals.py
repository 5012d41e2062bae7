"""Constants in C have the bits that they have in the graph:
every kind of float, and the edges of every integer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from uop_codegen_c import settings
from uop_ir import Const, DType, Ops, UOp, dtypes, override

pytestmark = pytest.mark.net

FLOATS = {dtypes.f16: (5, 10), dtypes.bf16: (8, 7), dtypes.f32: (8, 23), dtypes.f64: (11, 52)}
COUNT = 160


def patterns(dtype: DType) -> list[int]:
    """Zeros, denormals, the edges of all binades, infinities,
    NaNs of either kind with payloads; and random ones.
    """
    exponents, fraction = FLOATS[dtype]
    top = (1 << exponents) - 1
    edges = [0, 1, 1 << (fraction - 1), (1 << fraction) - 1]
    found = [(e << fraction) | f for e in (0, 1, top // 2, top // 2 + 3, top - 1, top) for f in edges]
    found += [bits | 1 << (dtype.bits - 1) for bits in found]
    random = np.random.default_rng(0).integers(0, 1 << dtype.bits, COUNT - len(found), dtype=np.uint64)
    return [*found, *map(int, random)]


def stores(dtype: DType, values: list[UOp]) -> UOp:
    out = UOp.param(0, len(values), dtype)
    return UOp.sink(*(out.shrink(((i, i + 1),)).store(v.reshape((1,))) for i, v in enumerate(values)))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_float_keeps_its_bits(run_cpu: Callable[..., Any], dtype: DType) -> None:
    bits = patterns(dtype)
    assert len(bits) == COUNT
    body = stores(dtype, [UOp(Ops.CONST, (), Const(dtype, b)) for b in bits])
    (out,) = run_cpu(body, [np.zeros(COUNT, dtype.numpy)])
    np.testing.assert_array_equal(out.view(f"u{dtype.itemsize}"), np.array(bits, f"u{dtype.itemsize}"))


@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.f64], ids=str)
def test_a_float_keeps_its_bits_in_a_vector(run_cpu: Callable[..., Any], dtype: DType) -> None:
    bits = patterns(dtype)[:48]
    chosen, x = UOp.param(48, 32, dtypes.bool), UOp.param(49, 32, dtype)
    values = [chosen.where(UOp(Ops.CONST, (), Const(dtype, b)), x) for b in bits]
    body = UOp.sink(*(UOp.param(slot, 32, dtype).store(value) for slot, value in enumerate(values)))
    which = np.arange(32) % 3 > 0
    out = run_cpu(body, [*(np.zeros(32, dtype.numpy) for _ in bits), which, np.ones(32, dtype.numpy)])
    for got, wanted in zip(out, bits, strict=False):
        assert set(got.view(f"u{dtype.itemsize}")[which].tolist()) == {wanted}


@pytest.mark.parametrize("dtype", dtypes.ints, ids=str)
def test_an_integer_keeps_its_value(run_cpu: Callable[..., Any], dtype: DType) -> None:
    low, high = int(dtype.min), int(dtype.max)
    numbers = sorted(
        {low, low + 1, low // 2, -1 if low else 1, 0, 1, 7, high // 2, high // 2 + 1, high - 1, high}
    )
    (out,) = run_cpu(
        stores(dtype, [UOp.const(dtype, n) for n in numbers]), [np.zeros(len(numbers), dtype.numpy)]
    )
    assert out.tolist() == numbers


@pytest.mark.parametrize("opt", [0, 1])
def test_the_least_index_is_a_literal(run_cpu: Callable[..., Any], opt: int) -> None:
    """What is computed from positions alone is index arithmetic, with the constants of i64."""
    least = int(dtypes.i64.min)
    numbers = UOp(Ops.STACK, [UOp.const(dtypes.i64, n) for n in range(5)])
    body = UOp.sink(UOp.param(0, 5, dtypes.i64).store(numbers % least))
    with override(settings, opt=opt):
        (out,) = run_cpu(body, [np.zeros(5, np.int64)])
    assert out.tolist() == [0, *(least + n for n in range(1, 5))]


@pytest.mark.parametrize("dtype", dtypes.ints, ids=str)
def test_an_edge_beside_an_operator(
    run_cpu: Callable[..., Any], run_interp: Callable[..., Any], dtype: DType
) -> None:
    """A literal with a sign stands right of a minus, of a shift, of a comparison, of a division."""
    x = UOp.param(1, 9, dtype)
    given = np.array([dtype.min, dtype.max, 0, 1, 2, 3, 5, 7, 100], dtype.numpy)
    values = []
    for n in (int(dtype.min), int(dtype.max), 1):
        c = UOp.const(dtype, n)
        values += [x - c, c - x, -(x * c), (x ^ c) + c, x // c, x % c, (x < c).where(c, x)]
        values += [x.alu(Ops.SHL, c), x.alu(Ops.SHR, c)]
    there, stored = UOp.param(len(values), 9, dtype), []
    for slot, value in enumerate(values):
        stored.append(UOp.param(slot, 9, dtype).store(value.substitute({x: there})))
    body = UOp.sink(*stored)
    arrays = [*(np.zeros(9, dtype.numpy) for _ in values), given]
    for got, want in zip(run_cpu(body, arrays), run_interp(body, arrays), strict=True):
        np.testing.assert_array_equal(got, want)
