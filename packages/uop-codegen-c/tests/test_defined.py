"""What C leaves undefined or to the compiler has the one meaning of the IR:
in scalars, in vectors, and with constants.

Every pair of 8-bit integers; of wider ones the edges. The session `sanitize` runs this under UBSan as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from uop_codegen_c import settings
from uop_ir import DType, Ops, UOp, dtypes, override

Array = npt.NDArray[Any]
pytestmark = pytest.mark.net

BINARY = (Ops.ADD, Ops.SUB, Ops.MUL, Ops.DIV, Ops.MOD, Ops.SHL, Ops.SHR, Ops.MAX, Ops.CMPLT)
FLOATS = (dtypes.f16, dtypes.bf16, dtypes.f32, dtypes.f64)


def edges(dtype: DType) -> list[int]:
    low, high, bits = int(dtype.min), int(dtype.max), dtype.bits
    near = [low, low + 1, low // 2, high // 2, high // 2 + 1, high - 1, high, 0, 1, 2, 3, 7, 100]
    counts = [bits - 1, bits, bits + 1, 31, 32, 33, 63, 64, 65]
    negative = [-1, -2, -3, -7, -bits] if low else []
    return [n for n in dict.fromkeys([*near, *counts, *negative]) if low <= n <= high]


def pairs(dtype: DType) -> tuple[Array, Array]:
    values = list(range(int(dtype.min), int(dtype.max) + 1)) if dtype.bits == 8 else edges(dtype)
    x, y = np.meshgrid(np.array(values, dtype.numpy), np.array(values, dtype.numpy))
    return x.reshape(-1), y.reshape(-1)


def check(run_cpu: Any, run_interp: Any, values: list[UOp], inputs: list[Array]) -> None:
    """All values as the outputs of one kernel. Its inputs are the arguments behind them."""
    size = inputs[0].size
    body = UOp.sink(*(UOp.param(slot, size, v.dtype).store(v) for slot, v in enumerate(values)))
    arrays = [*(np.zeros(size, v.dtype.numpy) for v in values), *inputs]
    want = run_interp(body, arrays)
    for opt in (0, 1):
        with override(settings, opt=opt, strict=1):
            got = run_cpu(body, arrays)
        for mine, right, value in zip(got, want, values, strict=False):
            np.testing.assert_array_equal(mine, right, err_msg=f"{value} OPT={opt}")


@pytest.mark.parametrize("dtype", dtypes.ints, ids=str)
def test_binary_operations(run_cpu: Callable[..., Any], run_interp: Callable[..., Any], dtype: DType) -> None:
    x, y = pairs(dtype)
    first, second = (UOp.param(len(BINARY) + 1 + i, x.size, dtype) for i in (0, 1))
    check(run_cpu, run_interp, [*(first.alu(op, second) for op in BINARY), -first], [x, y])


@pytest.mark.parametrize("dtype", [dtypes.i8, dtypes.i32, dtypes.u32, dtypes.i64], ids=str)
@pytest.mark.parametrize("op", [Ops.DIV, Ops.MOD, Ops.SHL, Ops.SHR])
def test_a_constant_on_the_right(
    run_cpu: Callable[..., Any], run_interp: Callable[..., Any], dtype: DType, op: Ops
) -> None:
    constants = edges(dtype)
    x = np.array(constants, dtype.numpy)
    first = UOp.param(len(constants), x.size, dtype)
    check(run_cpu, run_interp, [first.alu(op, first.const_like(c)) for c in constants], [x])


def floats(dtype: DType) -> Array:
    """All patterns of 16 bits; of wider types what lies around the edges of integers,
    and what is no number.
    """
    if dtype.bits == 16:
        return np.arange(1 << 16, dtype=np.uint16).view(dtype.numpy)
    powers = [0.0, *(2.0**p for p in (-149, -1, 0, 1, 7, 8, 15, 16, 31, 32, 53, 62, 63, 64, 65, 127))]
    near = np.array([n for p in powers for n in (p, p - 1, p + 1, p + 0.5)], np.float64).astype(dtype.numpy)
    around = np.concatenate(
        [near, np.nextafter(near, dtype.numpy.type(np.inf)), np.nextafter(near, dtype.numpy.type(0))]
    )
    return np.concatenate([around, -around, np.array([np.inf, -np.inf, np.nan], dtype.numpy)])


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_float_as_an_integer(
    run_cpu: Callable[..., Any], run_interp: Callable[..., Any], dtype: DType
) -> None:
    """Truncated, saturated; NaN is 0. To bool it is whether it is not 0."""
    targets = (*dtypes.ints, dtypes.bool)
    given = floats(dtype)
    x = UOp.param(len(targets), given.size, dtype)
    check(run_cpu, run_interp, [x.cast(t) for t in targets], [given])


@pytest.mark.parametrize("dtype", dtypes.ints, ids=str)
def test_an_integer_as_any_other(
    run_cpu: Callable[..., Any], run_interp: Callable[..., Any], dtype: DType
) -> None:
    targets = (*dtypes.ints, dtypes.bool, *FLOATS)
    given = np.array(edges(dtype), dtype.numpy)
    x = UOp.param(len(targets), given.size, dtype)
    check(run_cpu, run_interp, [x.cast(t) for t in targets], [given])


SPECIAL = (0.0, 1.0, 2.5, 3.0, 1e-7, 6e4, np.inf, np.nan)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_floats_and_truths(
    run_cpu: Callable[..., Any], run_interp: Callable[..., Any], same_bits: Callable[..., None], dtype: DType
) -> None:
    """Zeros with their signs, NaN on either side, truths as numbers:
    all pairs of special values, bit for bit.
    """
    row = np.array([*SPECIAL, *(-s for s in SPECIAL)]).astype(dtype.numpy)
    given = [a.reshape(-1) for a in np.meshgrid(row, row)]
    given.append(np.arange(len(given[0])) % 3 == 0)
    x, y, b = (
        UOp.param(100 + i, a.size, t)
        for i, (a, t) in enumerate(zip(given, (dtype, dtype, dtypes.bool), strict=True))
    )
    less, same = x < y, x.eq(y)
    floats_ = [x.alu(op, y) for op in (Ops.ADD, Ops.SUB, Ops.MUL, Ops.DIV, Ops.MOD, Ops.MAX)]
    floats_ += [x.alu(op) for op in (Ops.NEG, Ops.RECIP, Ops.TRUNC)]
    moved = b.pad(((1, 0),)).shrink(((0, b.arg.size),))
    floats_ += [less.where(x, y), moved.where(x, y), same.cast(dtype), UOp(Ops.MULACC, (x, y, x))]
    truths = [less, same, x.ne(y), b < less, b & less, b | same, b ^ less, b.eq(less), b.where(less, same)]
    truths += [x.cast(dtypes.bool), b.shrink(((0, 1),)) ^ less]
    bits = [x.bitcast({16: dtypes.u16, 32: dtypes.i32, 64: dtypes.u64}[dtype.bits]), less.cast(dtypes.i32)]
    values = [*floats_, *truths, *bits]
    new = {p: UOp.param(len(values) + i, p.arg.size, p.dtype) for i, p in enumerate((x, y, b))}
    body = UOp.sink(*(UOp.param(i, 256, v.dtype).store(v.substitute(new)) for i, v in enumerate(values)))
    arrays = [*(np.zeros(256, v.dtype.numpy) for v in values), *given]
    want = run_interp(body, arrays)
    for opt in (0, 1):
        with override(settings, opt=opt, strict=1):
            for got, right in zip(run_cpu(body, arrays), want, strict=True):
                same_bits(got, right)


@pytest.mark.parametrize("opt", [0, 1])
def test_strict_sums_round_as_written(run_cpu: Callable[..., Any], opt: int) -> None:
    """A product is rounded before it is added;
    a sum goes from left to right, from +0.0, if it is of one element too.
    """
    rng = np.random.default_rng(0)
    x, y, z = (rng.standard_normal(64).astype(np.float32) for _ in range(3))
    memory = [UOp.param(4 + slot, 64, dtypes.f32) for slot in range(3)]
    values = [memory[0] * memory[1] + memory[2], memory[0].reduce(Ops.ADD, 1).reshape((1,))]
    values += [(memory[0] * memory[1]).reduce(Ops.ADD, 1).reshape((1,))]
    values += [UOp.param(7, 1, dtypes.f32).reshape((1, 1)).reduce(Ops.ADD, 1)]
    sizes = [64, 1, 1, 1]
    body = UOp.sink(
        *(UOp.param(i, n, dtypes.f32).store(v) for i, (n, v) in enumerate(zip(sizes, values, strict=True)))
    )
    arrays = [*(np.ones(n, np.float32) for n in sizes), x, y, z, np.array([-0.0], np.float32)]
    with override(settings, opt=opt, strict=1):
        fused, total, product, zero = run_cpu(body, arrays)[:4]
    np.testing.assert_array_equal(fused, x * y + z)
    assert total[0] == np.add.accumulate(x)[-1]
    assert product[0] == np.add.accumulate(x * y)[-1]
    assert zero[0] == 0
    assert not np.signbit(zero[0])
