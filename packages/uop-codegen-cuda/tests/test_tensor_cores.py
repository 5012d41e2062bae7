"""Products on tensor cores: the interpreter's bits in every order of the threads, nothing that races,
and the reason where there are none.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from math import prod
from random import Random
from typing import Any

import hypothesis
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from uop_codegen_c import Freedoms, Schedule, ScheduleError
from uop_codegen_cuda import CudaSource, check_kernel, chosen_schedule, emit_linear, emulate, generate
from uop_ir import DType, Ops, UOp, dtypes, format_uir, override, parse_uir, settings

Check = Callable[..., CudaSource]
Runner = Callable[..., list[npt.NDArray[Any]]]
STRICT = Freedoms(contract=False, reassociate=False)
F16, BF16, F32, I8, I32 = dtypes.f16, dtypes.bf16, dtypes.f32, dtypes.i8, dtypes.i32


def memory(slot: int, *shape: int, dtype: DType = F16) -> UOp:
    return UOp.param(slot, prod(shape), dtype).reshape(shape)


def product(a: UOp, b: UOp, total: DType = F32) -> UOp:
    """The matrix product of (..., m, k) and (..., k, n), summed in a wider type."""
    *batch, m, k = a.shape
    n = b.shape[-1]
    order = (*range(len(batch)), len(batch) + 1, len(batch))
    left, right = a.reshape((*batch, m, 1, k)), b.permute(order).reshape((*batch, 1, n, k))
    return (left.cast(total) * right.cast(total)).reduce(Ops.ADD, 1)


def matmul(m: int, n: int, k: int, dtype: DType = F16, total: DType = F32) -> UOp:
    value = product(memory(1, m, k, dtype=dtype), memory(2, k, n, dtype=dtype), total)
    return UOp.sink(memory(0, m, n, dtype=total).store(value))


def transposed(m: int, n: int, k: int) -> UOp:
    """Of two operands and of the result, each in memory the other way."""
    a, b = memory(1, k, m).permute((1, 0)), memory(2, n, k).permute((1, 0))
    return UOp.sink(memory(0, n, m, dtype=F32).permute((1, 0)).store(product(a, b)))


def batched(*sizes: int) -> UOp:
    *batch, m, n, k = sizes
    value = product(memory(1, *batch, m, k), memory(2, *batch, k, n)).cast(F16)
    return UOp.sink(memory(0, *batch, m, n).store(value))


def layer(m: int, n: int, k: int) -> UOp:
    """A product of what is negative replaced by 0, with a bias for each column, rounded to bf16."""
    x, weight = memory(1, m, k, dtype=BF16).maximum(0.0), memory(2, k, n, dtype=BF16)
    bias = memory(3, n, dtype=F32).reshape((1, n)).expand((m, n))
    return UOp.sink(memory(0, m, n, dtype=BF16).store((product(x, weight) + bias).cast(BF16)))


#: Programs, and the instruction that each has in its text.
KERNELS = {
    "one tile": (matmul(16, 8, 16), "mma_m16n8k16_f16"),
    "four warps": (matmul(64, 64, 48), "mma_m16n8k16_f16"),
    "transposed": (transposed(32, 64, 32), "mma_m16n8k16_f16"),
    "padded": (matmul(60, 45, 50), "mma_m16n8k16_f16"),
    "batched": (batched(3, 32, 16, 16), "mma_m16n8k16_f16"),
    "layer": (layer(32, 32, 32), "mma_m16n8k16_bf16"),
    "i8": (matmul(16, 16, 64, I8, I32), "mma_m16n8k32_s8"),
}


@pytest.mark.parametrize("name", KERNELS)
def test_a_product_is_the_interpreters_in_every_order(name: str, check: Check) -> None:
    """The emulator adds one term after another, as a REDUCE does, and no product is rounded."""
    body, instruction = KERNELS[name]
    with override(settings, check=1):  # each pass gives a program that the verifier takes
        assert f"{instruction}(" in check(body).text


@pytest.mark.net
@hypothesis.settings(max_examples=max(3, hypothesis.settings().max_examples // 20))
@given(seed=st.integers(0, 2**32))
def test_random_products(check: Check, seed: int) -> None:
    """Of any sizes, in any order of their axes, on tensor cores or not: bit for bit, and clean."""
    random = Random(seed)  # noqa: S311  a test's numbers
    m, n, k = (random.randint(1, 100) for _ in range(3))
    batch = tuple(random.randint(1, 3) for _ in range(random.choice((0, 0, 1))))
    dtype, total = random.choice(((F16, F32), (BF16, F32), (I8, I32)))

    def operand(slot: int, rows: int, columns: int, dtype: DType) -> UOp:
        if random.random() < 0.5:
            return memory(slot, *batch, rows, columns, dtype=dtype)
        turned = memory(slot, *batch, columns, rows, dtype=dtype)
        return turned.permute((*range(len(batch)), len(batch) + 1, len(batch)))

    value = product(operand(1, m, k, dtype), operand(2, k, n, dtype), total)
    body = UOp.sink(operand(0, m, n, total).store(value))
    source = check(body, seed=seed)
    assert not check_kernel(source, arrays(source)).findings, source.text


def test_instructions_of_several_kernels_stand_in_one_text(run_cuda: Runner) -> None:
    sources = [generate(KERNELS[name][0]) for name in ("one tile", "i8")]
    assert [kernel.source for kernel in emulate(sources)] == sources


def arrays(source: CudaSource) -> list[npt.NDArray[Any]]:
    random = np.random.default_rng(1)
    return [random.integers(-9, 10, p.arg.size).astype(p.dtype.numpy) for p in source.params]


def test_nothing_races_and_no_barrier_is_redundant() -> None:
    source = generate(matmul(32, 32, 64))
    given = arrays(source)
    assert not check_kernel(source, given).findings
    barriers = list(re.finditer(r"^ *__syncthreads\(\);\n", source.text, re.MULTILINE))
    assert len(barriers) == 2
    for barrier in barriers:
        text = source.text[: barrier.start()] + source.text[barrier.end() :]
        assert {f.kind for f in check_kernel(replace(source, text=text), given).findings} & {"race"}


def test_lanes_that_do_not_come_are_reported() -> None:
    source = generate(matmul(16, 8, 16))
    text = re.sub(r"(acc0 = mma\w+\(.*\);)", r"if (lidx0 < 16) { \1 }", source.text)
    assert text != source.text
    assert {f.kind for f in check_kernel(replace(source, text=text), arrays(source)).findings} == {"mask"}


def test_none_where_the_order_of_a_sum_is_fixed() -> None:
    assert "mma" not in generate(matmul(32, 32, 32), STRICT).text
    schedule = Schedule.parse("tensor_core (0, 1, 2)")
    with pytest.raises(ScheduleError, match="reduce add of f32 in another order"):
        generate(matmul(32, 32, 32), STRICT, schedule=schedule)
    assert "mma_m16n8k32_s8(" in generate(matmul(32, 32, 32, I8, I32), STRICT, schedule=schedule).text


@pytest.mark.parametrize(
    "body",
    [
        matmul(32, 32, 32, F32),
        matmul(17, 9, 17),
        UOp.sink(
            memory(0, 64, 64, dtype=F32).store(product(memory(1, 64, 50).alu(Ops.EXP2), memory(2, 50, 64)))
        ),
        UOp.sink(memory(0, 32, 32).store(product(memory(1, 32, 32), memory(2, 32, 32), F16))),
    ],
    ids=["f32", "too small", "a factor that is 1 where it is padded", "summed in f16"],
)
def test_none_is_chosen(body: UOp) -> None:
    assert "mma" not in generate(body).text


def test_a_schedule_is_printed_and_read() -> None:
    body = matmul(32, 16, 16)
    schedule = chosen_schedule(body)
    assert "tensor_core (" in str(schedule)
    assert Schedule.parse(str(schedule)).actions == schedule.actions
    assert generate(body, schedule=schedule) == generate(body)


def test_the_program_of_a_thread_is_printed_and_read() -> None:
    text = emit_linear(matmul(16, 8, 16), Freedoms())
    assert "name=mma_m16n8k16_f16" in text
    assert format_uir(parse_uir(text).nodes) == text


PADDED = "pad 0 16; pad 1 8; pad 2 16; tensor_core (0, 1, 2); retype 3 global; reorder (3, 5, 4, 6)"


def test_a_schedule_may_pad(check: Check) -> None:
    """What is past the end is loaded as 0 and not stored."""
    source = check(matmul(21, 13, 19), schedule=Schedule.parse(PADDED))
    assert "mma_m16n8k16_f16(" in source.text
    assert not check_kernel(source, arrays(source)).findings


@pytest.mark.parametrize(
    ("body", "schedule", "reason"),
    [
        (matmul(33, 8, 16), "tensor_core (0, 1, 2)", "range 0 is no multiple of 16"),
        (matmul(16, 8, 16), "tensor_core (0, 1)", "those of the rows, the columns, the terms"),
        (matmul(16, 8, 16), "tensor_core (0, 0, 2)", "no loop nest of stores has both range 0 and range 0"),
        (matmul(32, 32, 32), "tensor_core (0, 2, 1)", "no loop nest of stores has both range 0 and range 2"),
        (matmul(32, 32, 32), "tensor_core (0, 1, 7)", "no range 7"),
        (matmul(32, 32, 32), "split 1 8 loop; tensor_core (0, 3, 4)", "range 4 is of no reduction"),
        (matmul(16, 16, 16, F32), "tensor_core (0, 1, 2)", "no sum of products of two casts"),
        (matmul(16, 16, 16, F16, dtypes.f64), "tensor_core (0, 1, 2)", "products of f16 summed in f64"),
        (matmul(16, 16, 16), "retype 0 upcast; tensor_core (0, 1, 2)", "range 0 is upcast already"),
        (matmul(16, 8, 16), "stage 1 (2,); tensor_core (0, 1, 2)", "a tile for each value of range 0, warp"),
        (matmul(16, 8, 16), "retype 0 warp", "range 0 of a store is warp"),
        (matmul(16, 16, 16), "retype 0 warp; retype 1 warp; retype 2 warp", "warp axes of .16, 16, 16., where"),
        (matmul(16, 8, 64), "tensor_core (0, 1, 2); split 3 2 unroll", "of a tensor core's sum is unroll"),
        (matmul(2048, 8, 16), "tensor_core (0, 1, 2); retype 3 local", "4096 threads with the lanes of each warp"),
    ],
)  # fmt: skip
def test_what_is_not_legal_is_refused_with_the_reason(body: UOp, schedule: str, reason: str) -> None:
    with pytest.raises(ScheduleError, match=reason):
        generate(body, schedule=Schedule.parse(schedule))


def test_both_factors_of_one_row_are_refused() -> None:
    x = memory(1, 16, 1, 16).expand((16, 8, 16)).cast(F32)
    body = UOp.sink(memory(0, 16, 8, dtype=F32).store((x * x.alu(Ops.EXP2)).reduce(Ops.ADD, 1)))
    with pytest.raises(ScheduleError, match="no sum of products of two casts"):
        generate(body, schedule=Schedule.parse("tensor_core (0, 1, 2)"))
    y = memory(2, 16, 1, 16).expand((16, 8, 16)).cast(F32)
    body = UOp.sink(memory(0, 16, 8, dtype=F32).store((x * y).reduce(Ops.ADD, 1)))
    with pytest.raises(ScheduleError, match="a factor that does not depend on range 1"):
        generate(body, schedule=Schedule.parse("tensor_core (0, 1, 2)"))
