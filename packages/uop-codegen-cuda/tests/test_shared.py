"""Operands of products in shared memory: the interpreter's bits in every order,
no race, and no barrier too many.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from math import prod
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from uop_codegen_c import Freedoms, Schedule, ScheduleError
from uop_codegen_cuda import CudaSource, check_kernel, generate, staging
from uop_ir import DType, Ops, UOp, UopError, dtypes, index

Check = Callable[..., CudaSource]
Runner = Callable[..., list[npt.NDArray[Any]]]
EXACT = Freedoms(contract=False, reassociate=False)
BARRIER = re.compile(r"^ *__syncthreads\(\);\n", re.MULTILINE)


def memory(slot: int, *shape: int, dtype: DType = dtypes.f32) -> UOp:
    return UOp.param(slot, prod(shape), dtype).reshape(shape)


def product(a: UOp, b: UOp, op: Ops = Ops.ADD) -> UOp:
    """The matrix product of (..., m, k) and (..., k, n), or another fold of the products."""
    *batch, m, k = a.shape
    n = b.shape[-1]
    order = (*range(len(batch)), len(batch) + 1, len(batch))
    left, right = a.reshape((*batch, m, 1, k)), b.permute(order).reshape((*batch, 1, n, k))
    return (left * right).reduce(op, 1)


def distances(m: int, n: int, k: int) -> UOp:
    """The squares of the distances between m points and n others in k dimensions."""
    apart = memory(1, m, 1, k).expand((m, n, k)) - memory(2, 1, n, k).expand((m, n, k))
    return UOp.sink(memory(0, m, n).store((apart * apart).reduce(Ops.ADD, 1)))


def matmul(m: int, n: int, k: int, dtype: DType = dtypes.f32) -> UOp:
    a, b = memory(1, m, k, dtype=dtype), memory(2, k, n, dtype=dtype)
    return UOp.sink(memory(0, m, n, dtype=dtype).store(product(a, b)))


def transposed(m: int, n: int, k: int) -> UOp:
    a, b = memory(1, k, m).permute((1, 0)), memory(2, n, k).permute((1, 0))
    return UOp.sink(memory(0, m, n).store(product(a, b)))


def batched(*sizes: int) -> UOp:
    *batch, m, n, k = sizes
    return UOp.sink(memory(0, *batch, m, n).store(product(memory(1, *batch, m, k), memory(2, *batch, k, n))))


def with_itself(m: int, k: int) -> UOp:
    x = memory(1, m, k)
    return UOp.sink(memory(0, m, m).store(product(x, x.permute((1, 0)))))


def layer(m: int, n: int, k: int) -> UOp:
    """A product, a bias for each column, and what is negative replaced by 0."""
    out = product(memory(1, m, k), memory(2, k, n)) + memory(3, n).reshape((1, n)).expand((m, n))
    return UOp.sink(memory(0, m, n).store(out.maximum(0.0)))


def into_columns(m: int, n: int, k: int) -> UOp:
    """A product that is stored column by column."""
    out = memory(0, n, m).permute((1, 0))
    return UOp.sink(out.store(product(memory(1, m, k), memory(2, k, n))))


KERNELS = {
    "whole tiles": matmul(64, 128, 48),
    "one step": matmul(32, 32, 16),
    "odd": matmul(65, 70, 33),
    "one more": matmul(49, 33, 17),
    "one less": matmul(63, 31, 47),
    "wide": matmul(14, 200, 100),
    "transposed": transposed(48, 80, 32),
    "odd, transposed": transposed(61, 45, 19),
    "batched": batched(3, 32, 48, 32),
    "odd, batched": batched(2, 29, 45, 37),
    "heads": batched(2, 3, 40, 47, 24),
    "with itself": with_itself(50, 40),
    "layer": layer(45, 60, 30),
    "into columns": into_columns(40, 64, 24),
    "f64": matmul(33, 47, 18, dtypes.f64),
    "i32": matmul(31, 64, 33, dtypes.i32),
    "distances": distances(30, 47, 21),
    "greatest": UOp.sink(memory(0, 30, 47).store(product(memory(1, 30, 21), memory(2, 21, 47), Ops.MAX))),
}


def filled(source: CudaSource) -> list[npt.NDArray[Any]]:
    random = np.random.default_rng(1)
    return [random.integers(-9, 10, p.arg.size).astype(p.dtype.numpy) for p in source.params]


@pytest.mark.parametrize("name", KERNELS)
def test_staged_products_are_the_interpreters_in_every_order(name: str, check: Check) -> None:
    source = check(KERNELS[name], freedoms=EXACT)
    assert source.text.count("__shared__") == 2
    assert source.block == (16, 16, 1)


@pytest.mark.parametrize("name", ["whole tiles", "one step", "odd", "odd, transposed", "odd, batched", "f64"])
def test_nothing_races_and_no_barrier_is_redundant(name: str) -> None:
    """Without any one of its barriers, the checker reports a race."""
    source = generate(KERNELS[name], EXACT)
    assert not check_kernel(source, filled(source)).findings
    barriers = list(BARRIER.finditer(source.text))
    assert len(barriers) == (1 if name == "one step" else 2)
    for barrier in barriers:
        text = source.text[: barrier.start()] + source.text[barrier.end() :]
        found = check_kernel(replace(source, text=text), filled(source)).findings
        assert {f.kind for f in found} & {"race", "uninitialised"}, text


@pytest.mark.net
@settings(max_examples=max(3, settings().max_examples // 20))
@given(seed=st.integers(0, 2**32))
def test_random_products(check: Check, seed: int) -> None:
    """Of any sizes, in any order of their axes, with something made of them:
    staged or not, bit for bit, and clean.
    """
    random = Random(seed)  # noqa: S311  a test's numbers
    m, n, k = (random.randint(1, 100) for _ in range(3))
    batch = tuple(random.randint(1, 3) for _ in range(random.choice((0, 0, 1, 2))))
    dtype = random.choice((dtypes.f32, dtypes.f32, dtypes.f64, dtypes.i32, dtypes.u32))

    def operand(slot: int, rows: int, columns: int) -> UOp:
        if random.random() < 0.5:
            return memory(slot, *batch, rows, columns, dtype=dtype)
        turned = memory(slot, *batch, columns, rows, dtype=dtype)
        return turned.permute((*range(len(batch)), len(batch) + 1, len(batch)))

    value = product(operand(1, m, k), operand(2, k, n), random.choice((Ops.ADD, Ops.ADD, Ops.MAX)))
    if random.random() < 0.5:
        value = value * 3 + memory(3, *batch, m, n, dtype=dtype)
    body = UOp.sink(operand(0, m, n).store(value))
    source = check(body, freedoms=EXACT, seed=seed)
    assert not check_kernel(source, filled(source)).findings, source.text


def test_a_contracted_product_is_fused_and_near(run_cuda: Runner) -> None:
    body = matmul(65, 70, 48)
    source = generate(body)
    assert "fmaf" in source.text
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(n).astype(np.float32) for n in (65 * 48, 48 * 70))
    got, *_ = run_cuda(source, [np.zeros(65 * 70, np.float32), a, b])
    x, y = a.reshape(65, 48).astype(np.float64), b.reshape(48, 70).astype(np.float64)
    bound = 48 * np.finfo(np.float32).eps * (abs(x) @ abs(y))
    assert (abs(got.reshape(65, 70) - x @ y) <= bound).all()


def moved(source: CudaSource) -> dict[tuple[str, str], tuple[int, int]]:
    """What all blocks of a product move by space and direction,
    and the ideal: what one does, as all do the same.
    """
    blocks = prod(int(n.value) for n in source.grid)
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for c in check_kernel(replace(source, grid=(index(1),) * 3), filled(source)).costs:
        so_far = found.get((c.space, c.direction), (0, 0))
        found[c.space, c.direction] = (so_far[0] + blocks * c.moved, so_far[1] + blocks * c.ideal)
    return found


def test_what_a_product_of_256_x_256_moves() -> None:
    """A thread for each sum: in each of 256 terms a warp loads 1 sector of one operand and 4 of the other.
    Staged: 16 blocks load 16 times 2 x 64 x 16 elements, 8 a sector. Rows of 64 without padding are stored in
    one bank, and read without conflicts.
    """
    body = matmul(256, 256, 256)
    direct = generate(body, EXACT, schedule=Schedule.parse("retype 0 global; retype 1 local"))
    assert moved(direct)["global", "load"] == (2048 * 256 * 5, 2048 * 256 * 5)
    staged = moved(generate(body, EXACT))
    assert staged["global", "load"] == (16 * 16 * 256, 16 * 16 * 256)
    assert staged["global", "store"] == (8192, 8192)
    assert staged["shared", "store"] == (16384, 16384)
    assert staged["shared", "load"] == (262144, 262144)
    unpadded = re.sub(r"(stage \d \([^)]*\)) \d+", r"\1", str(staging(body, EXACT)))
    bare = moved(generate(body, EXACT, schedule=Schedule.parse(unpadded)))
    assert bare["shared", "store"] == (8192 * 16 + 8192 * 2, 16384)
    assert bare["shared", "load"] == (262144, 262144)


@pytest.mark.parametrize(
    "body",
    [
        matmul(1, 512, 64),
        matmul(64, 64, 15),
        matmul(17, 17, 32),
        UOp.sink(memory(0, 64, 64).store(memory(1, 64, 64) * memory(2, 64, 64))),
        matmul(64, 64, 64, dtypes.f16),
        batched(2, 3, 80, 80, 16),
    ],
    ids=["one row", "few terms", "little more than a block", "no sum", "f16", "a grid of four dimensions"],
)
def test_what_is_not_worth_it_stays_as_it_is(body: UOp) -> None:
    assert "__shared__" not in generate(body, EXACT).text
    assert not staging(body, EXACT).actions


@pytest.mark.parametrize(
    "name", ["whole tiles", "one step", "odd", "transposed", "odd, batched", "with itself"]
)
def test_a_schedule_is_printed_read_and_replayed(name: str) -> None:
    body = KERNELS[name]
    printed = str(staging(body, EXACT))
    assert printed.count("stage") == 2
    assert generate(body, EXACT, schedule=Schedule.parse(printed)) == generate(body, EXACT)


def test_a_long_expression_leaves_room_for_fewer_sums(check: Check) -> None:
    out = product(memory(1, 64, 32), memory(2, 32, 64))
    for _ in range(10):
        out = (out * 0.125).alu(Ops.EXP2)
    source = check(UOp.sink(memory(0, 64, 64).store(out)), freedoms=EXACT)
    assert source.text.count("__shared__") == 2
    assert source.text.count("data0[") == 4


def test_rows_are_padded_where_unpadded_ones_conflict() -> None:
    """Of rows of 64 elements, one a lane is stored in one bank;
    an operand that is contiguous along them needs none.
    """
    stages = re.findall(r"stage (\d) \([^)]*\)( \d+)?", str(staging(matmul(64, 64, 32), EXACT)))
    assert stages == [("1", " 2"), ("2", " 16")]


#: A product of 32 x 32 with 32 terms: 8 x 8 threads,
#: each of 4 x 4 sums; steps of 8; what stages comes behind it.
TILE = "split 0 8 local; retype 3 upcast; split 1 8 local; retype 5 upcast; split 2 8 reduce; reorder (4, 6, 3, 5); "


@pytest.mark.parametrize(
    ("stages", "barriers"),
    [
        ("stage 1 (8, 3, 4); retype 9 local; retype 11 local; reorder (9, 11, 10)", 2),
        ("stage 1 (8, 3, 4); retype 9 local", 2),
        ("stage 1 (8, 3, 4) 5; retype 11 local; reorder (11, 10, 9)", 2),
        ("stage 1 (7, 8, 3, 4); retype 9 local; split 12 2 local; reorder (9, 14, 10, 11, 13)", 1),
        (
            "stage 1 (7, 8, 3, 4); stage 2 (8, 5, 6); retype 13 local; retype 15 local; reorder (13, 15, 14)",
            2,
        ),
        ("stage 1 (8, 3, 4); stage 2 (8, 5, 6)", 0),
    ],
    ids=["two axes", "one axis", "inner axis", "all terms", "one of two", "a tile for each thread"],
)
def test_other_fills(stages: str, barriers: int, check: Check) -> None:
    """Threads that have no part in a fill wait for it all the same."""
    source = check(matmul(32, 32, 32), freedoms=EXACT, schedule=Schedule.parse(TILE + stages))
    assert len(BARRIER.findall(source.text)) == barriers
    assert not check_kernel(source, filled(source)).findings


@pytest.mark.parametrize(
    ("body", "schedule", "message"),
    [
        (
            matmul(64, 32, 256),
            "split 0 8 local; retype 3 upcast; stage 1 (2, 3, 4); retype 7 local",
            "65536 bytes of shared memory",
        ),
        (
            matmul(36, 32, 32),
            "split 0 8 local; stage 1 (2, 4); retype 8 local",
            "shared memory in a kernel of several loop nests",
        ),
        (
            matmul(64, 32, 32),
            "split 0 8 local; stage 1 (2, 4); retype 5 local",
            "a tile filled by 32 threads along x, where the block has 8",
        ),
        (
            matmul(64, 32, 32),
            "retype 1 local; split 2 8 reduce; stage 2 (4); retype 5 local",
            "a tile for each value of range 1, local, that several threads fill",
        ),
    ],
    ids=["too large", "a rest", "too many threads", "a tile for each thread"],
)
def test_an_illegal_fill_is_refused(body: UOp, schedule: str, message: str) -> None:
    with pytest.raises(ScheduleError, match=re.escape(message)):
        generate(body, EXACT, schedule=Schedule.parse(schedule))


@pytest.mark.parametrize(
    ("schedule", "message", "remedy"),
    [
        ("retype 0 local; retype 1 local", "4096 threads a block", "at most 1024"),
        ("split 1 4 vector", "range 4 is vector", "upcast"),
        ("retype 0 thread", "range 0 is thread", "global or local"),
        ("split 0 8 local; retype 3 local; split 1 8 local; retype 5 local", "4 local axes", "at most 3"),
        (
            "split 0 8 global; retype 3 global; split 1 8 global; retype 5 global",
            "4 global axes",
            "at most 3",
        ),
        ("retype 1 local", "range 1, local, is not an outermost one", "reorder"),
    ],
    ids=["threads", "a vector", "threads of a CPU", "local axes", "global axes", "a thread within a loop"],
)
def test_a_launch_that_no_gpu_has_is_refused(schedule: str, message: str, remedy: str) -> None:
    with pytest.raises(ScheduleError, match=re.escape(message)) as caught:
        generate(matmul(64, 64, 64), EXACT, schedule=Schedule.parse(schedule))
    assert remedy in str(caught.value.remedy)


@pytest.mark.parametrize(
    ("shape", "axis", "message"),
    [
        ((2, 65536, 2), "global", "65536 blocks along y"),
        ((65536, 2, 2), "global", "65536 blocks along z"),
        ((65, 2, 2), "local", "65 threads along z"),
    ],
    ids=["y", "z", "threads"],
)
def test_a_dimension_that_is_too_long_is_refused(shape: tuple[int, ...], axis: str, message: str) -> None:
    body = UOp.sink(memory(0, *shape).store(memory(1, *shape) + 1.0))
    retyped = "; ".join(f"retype {n} {axis}" for n in range(3))
    with pytest.raises(ScheduleError, match=message):
        generate(body, EXACT, schedule=Schedule.parse(retyped))


@pytest.mark.parametrize("schedule", ["retype 0 local", [], 3])
def test_a_schedule_of_another_type_is_refused(schedule: Any) -> None:
    with pytest.raises(UopError, match=r"schedule is of type \w+, no Schedule") as caught:
        generate(matmul(32, 32, 32), EXACT, schedule=schedule)
    assert "Schedule.parse" in str(caught.value.remedy)


def test_many_products_are_staged_where_the_first_dimension_holds_them() -> None:
    """One tile a product, so that the batch is the only axis of blocks;
    with more tiles it is not the first.
    """
    source = generate(batched(65536, 32, 32, 32), EXACT)
    assert source.text.count("__shared__") == 2
    assert [n.value for n in source.grid] == [65536, 1, 1]
    assert "__shared__" not in generate(batched(65536, 128, 128, 32), EXACT).text


def test_threads_that_may_not_come_to_a_barrier_are_refused() -> None:
    n = UOp.variable("n", 1, 32)
    a, b = memory(1, 32, 32).shrink([(0, n), (0, 32)]), memory(2, 32, 32)
    out = memory(0, 32, 32).shrink([(0, n), (0, 32)])
    left, right = a.reshape((n, 1, 32)), b.permute((1, 0)).reshape((1, 32, 32))
    body = UOp.sink(out.store((left * right).reduce(Ops.ADD, 1)))
    with pytest.raises(ScheduleError, match="shared memory, where range 0 has no constant size"):
        generate(body, EXACT, schedule=Schedule.parse("retype 0 local; stage 2 (2, 1); retype 3 local"))


def test_elements_that_need_each_other_are_not_left_to_threads() -> None:
    x = memory(0, 300)
    body = UOp.sink(x.store(x - x.reduce(Ops.ADD, 1)))
    with pytest.raises(ScheduleError, match="one depends on another"):
        generate(body, EXACT, schedule=Schedule.parse("retype 0 local"))
