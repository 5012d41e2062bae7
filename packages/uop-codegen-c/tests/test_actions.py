"""Each axis action gives a program that stores the same values; the interpreter runs both."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from uop_codegen_c import (
    Action,
    Freedoms,
    Reorder,
    Retype,
    Schedule,
    ScheduleError,
    Split,
    Stage,
    apply_schedule,
    linearize,
    stages,
)
from uop_ir import AddrSpace, AxisType, DType, Ops, UOp, call_params, dtypes, index, run_program


def matmul(rows: int, columns: int, inner: int) -> UOp:
    """x @ w.T: both operands are contiguous along the reduction.
    Ranges: 0 rows, 1 columns, 2 the reduction.
    """
    x, w = UOp.param(1, rows * inner, dtypes.i32), UOp.param(2, columns * inner, dtypes.i32)
    shape = (rows, columns, inner)
    product = x.reshape((rows, 1, inner)).expand(shape) * w.reshape((1, columns, inner)).expand(shape)
    out = UOp.param(0, rows * columns, dtypes.i32).reshape((rows, columns))
    return UOp.sink(out.store(product.reduce(Ops.ADD, 1)))


def loops(body: UOp) -> UOp:
    return next(root for name, root in stages(body) if name == "simplify")


SCHEDULES = [
    "split 0 3 loop",
    "split 0 4 upcast",
    "split 1 4 vector",
    "split 1 4 vector; split 0 2 upcast",
    "split 2 4 upcast",
    "split 2 2 vector",
    "split 2 3 upcast",
    "retype 2 upcast",
    "split 2 2 unroll",
    "split 2 4 unroll",
    "retype 2 unroll",
    "retype 0 unroll",
    "split 1 7 loop",
    "retype 0 thread",
    "split 1 8 loop; retype 4 vector",
    "reorder (1, 0)",
    "reorder (1, 0); split 1 4 loop; reorder (3, 0, 4); stage 2 (2, 4); retype 4 vector; split 0 4 upcast",
    "stage 2 (2, 1)",
    "stage 2 (2, 1); split 1 4 vector; split 0 3 upcast",
    "stage 1 (0, 2); stage 2 (1, 2)",
    "stage 1 (2,)",
    "pad 0 4; split 0 4 upcast",
    "pad 1 4; split 1 4 unroll; pad 2 2; split 2 2 unroll",
    "pad 2 8; split 2 4 vector",
    "pad 1 2; pad 2 3; stage 2 (2, 1); split 2 3 upcast; retype 0 thread",
    "hold 2 (0, 1)",
    "hold 2 (1, 0); retype 3 upcast; split 4 2 upcast",
    "split 0 3 loop; pad 1 4; split 1 4 loop; reorder (3, 5, 4, 6); hold 2 (4, 6); retype 7 upcast; retype 8 vector",
    "hold 2 (1,); split 0 4 upcast; split 1 4 vector",
    "pad 1 2; hold 2 (1,); split 3 2 vector; split 2 2 unroll; retype 0 thread",
    "pad 2 2; split 2 2 warp; retype 3 group",
]


@pytest.mark.net
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_an_action_keeps_the_values(schedule: str, run_cpu: Callable[..., Any]) -> None:
    rows, columns, inner = 6, 9, 5
    body = matmul(rows, columns, inner)
    rng = np.random.default_rng(0)
    x, w = rng.integers(-9, 9, (rows, inner)), rng.integers(-9, 9, (columns, inner))
    arrays = [
        np.zeros(rows * columns, np.int32),
        x.astype(np.int32).reshape(-1),
        w.astype(np.int32).reshape(-1),
    ]
    program = Schedule.parse(schedule).apply(loops(body))
    for _, root in [("optimize", program), *stages(program, first="expand")]:
        memory = [a.copy() for a in arrays]
        run_program(root, dict(zip(call_params(body), memory, strict=True)))
        np.testing.assert_array_equal(memory[0].reshape(rows, columns), x @ w.T)


@pytest.mark.parametrize(
    ("schedule", "reason"),
    [
        ("split 7 2 loop", "no range 7"),
        ("split 0 7 loop", "factor 7 for range 0 of 6"),
        (
            "split 0 6 loop",
            r"factor 6 for range 0 of 6 \(2 to 5, or retype 0 loop\)|2 to 5, or retype 0 loop",
        ),
        ("split 0 0 loop", "factor 0"),
        ("split 0 2 reduce", "range 0 is of a store: no reduce"),
        ("split 2 2 thread", "range 2 is of a reduction: no thread"),
        ("split 0 2 group", "range 0 is of a store: no group"),
        ("split 0 2 thread", "range 4 is not the outermost loop"),
        ("split 1 4 vector; split 4 2 upcast", "range 4 is a vector already"),
        ("split 1 3 vector", "3 lanes of range 1"),
        ("split 1 4 vector; split 0 2 vector", "depends on range 0 and on range 4, a vector"),
        ("split 1 4 vector; split 2 4 vector", "depends on range 2 and on range 4, a vector"),
        ("retype 2 thread", "not the outermost loop"),
        ("retype 1 thread", "range 1 is not the outermost loop"),
        ("retype 0 thread; reorder (1, 0)", "range 0 is not the outermost loop"),
        ("split 2 2 unroll; reorder (4, 3)", "range 4 is not the innermost of its reduction"),
        ("reorder (0, 2)", "no loop nest closes exactly"),
        ("reorder (0, 0)", "each of which must stand once"),
        ("stage 0 (0,)", "no load of argument 0"),
        ("stage 1 (1,)", "no load of argument 1"),
        ("stage 1 (2, 2)", "each of which must stand once"),
        ("retype 0 vector", "6 lanes of range 0"),
        ("split 0 2 vector; stage 1 (2,)", "inside of range 4, a vector"),
        ("stage 1 (2,); split 0 2 vector", "scratch memory is filled inside of range 0"),
        ("hold 0 (1,)", "range 0 is of no reduction"),
        ("hold 2 (2,)", r"does not depend on the ranges \[2\]"),
        ("hold 2 (0, 2)", r"does not depend on the ranges \[0, 2\]"),
        ("hold 2 (0, 0)", "each of which must stand once"),
        ("hold 9 (0,)", "no range 9"),
        ("hold 2 (0,); hold 2 (3,)", "range 3 fills scratch memory"),
        ("stage 1 (2,); hold 2 (0,)", "scratch memory is filled inside of range 0"),
        ("split 0 2 vector; hold 2 (1,)", "inside of range 4, a vector"),
        ("pad 0 3", "range 0 of 6 to a multiple of 3"),
        ("stage 1 (2,); pad 2 3", "range 2 indexes scratch memory"),
        ("retype 0 upcast; pad 0 4", "range 0 is upcast already"),
        ("pad 1 4; split 1 4 vector", "whether a store is made depends on range 1"),
    ],
)
def test_an_illegal_action_is_refused_with_the_reason(schedule: str, reason: str) -> None:
    with pytest.raises(ScheduleError, match=reason):
        Schedule.parse(schedule).apply(loops(matmul(6, 9, 5)))


@pytest.mark.parametrize(
    ("schedule", "reason"),
    [
        ("split 0 100 upcast; split 1 100 upcast", "10000 copies"),
        ("stage 1 (0, 2)", "a tile of 4400000 bytes"),
        ("hold 2 (0, 1)", "a tile of 4000000 bytes"),
        ("split 0 500 upcast; split 2 3 unroll", "1500 copies"),
        ("stage 1 (2,); split 0 250 upcast", "1100000 bytes of scratch memory"),
    ],
)
def test_what_would_be_too_much_is_refused(schedule: str, reason: str) -> None:
    with pytest.raises(ScheduleError, match=reason):
        Schedule.parse(schedule).apply(loops(matmul(1000, 1000, 1100)))


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: Split(0, 2.0, AxisType.LOOP), "split: factor is 2.0"),  # type: ignore[arg-type]
        (lambda: Split(0, 2, "vector"), "split: axis is 'vector' (give AxisType)"),  # type: ignore[arg-type]
        (lambda: Retype(True, AxisType.LOOP), "retype: number is True"),
        (lambda: Reorder([0, 1]), "reorder: numbers is [0, 1]"),  # type: ignore[arg-type]
        (lambda: Stage(1, (0, 1.0)), "stage: numbers is (0, 1.0)"),  # type: ignore[arg-type]
    ],
)
def test_an_action_of_other_types_is_refused_where_it_is_made(make: Callable[[], Any], reason: str) -> None:
    with pytest.raises(ScheduleError, match=re.escape(reason)):
        make()


@pytest.mark.parametrize(
    "schedule",
    ["split 0 2 vector", "split 0 2 upcast", "split 0 5 loop", "split 0 4 warp", "retype 0 unroll"],
)
@pytest.mark.parametrize("dtype", [dtypes.i32, dtypes.f32], ids=str)
def test_without_the_freedom_only_sums_of_integers_are_reordered(schedule: str, dtype: DType) -> None:
    total = UOp.param(1, 64, dtype).reduce(Ops.ADD, 1)
    root = loops(UOp.sink(UOp.param(0, 1, dtype).reshape(()).store(total)))
    strict = Freedoms(contract=False, reassociate=False)
    parsed = Schedule.parse(schedule.replace("loop", "reduce"))
    assert parsed.apply(root, Freedoms()) is not root
    if dtype is dtypes.f32 and "unroll" not in schedule:
        with pytest.raises(ScheduleError, match=r"reduce add of f32 in another order \(STRICT=0\)|STRICT=0"):
            parsed.apply(root, strict)
    else:
        assert parsed.apply(root, strict) is parsed.apply(root)


@pytest.mark.parametrize(
    "schedule", ["split 0 8 vector", "split 0 4 upcast", "split 0 5 unroll", "pad 0 3; split 0 9 unroll"]
)
def test_a_fold_of_what_does_not_depend_on_its_range(schedule: str) -> None:
    two = UOp.const(dtypes.u32, 2)
    total = two.reduce(Ops.MUL, 0, (UOp.range(16, 0, AxisType.REDUCE),))
    out = UOp.param(0, 1, dtypes.u32)
    program = Schedule.parse(schedule).apply(UOp.sink(out.index(index(0)).store(total)))
    *_, (_, root) = stages(program, first="expand")
    memory = np.zeros(1, np.uint32)
    run_program(root, {out: memory})
    assert memory[0] == 2**16


@pytest.mark.parametrize(("apart", "contracted"), [(False, 4), (True, 1)])
def test_a_padded_sum_of_products_of_loads_is_contracted(apart: bool, contracted: int) -> None:
    """Past the end both factors are 0. Of x - 1 neither is: there the sum folds its identity, but in the copy
    that does not reach the end.
    """
    x, y = (UOp.param(slot, 13, dtypes.f32) for slot in (1, 2))
    product = (x - 1.0) * y if apart else x * y
    body = UOp.sink(UOp.param(0, 1, dtypes.f32).reshape(()).store(product.reduce(Ops.ADD, 1)))
    program = Schedule.parse("pad 0 4; split 0 4 upcast").apply(loops(body))
    *_, (_, root) = stages(program, first="expand")
    assert sum(n.op is Ops.MULACC for n in root.toposort()) == contracted
    a, b = np.random.default_rng(0).integers(-9, 9, (2, 13)).astype(np.float32)
    memory = [np.zeros(1, np.float32), a, b]
    run_program(root, dict(zip(call_params(body), memory, strict=True)))
    assert memory[0] == ((a - 1) @ b if apart else a @ b)


def test_an_operand_that_the_program_stores_to_is_not_staged() -> None:
    x = UOp.param(0, 8, dtypes.f32)
    with pytest.raises(ScheduleError, match="the program stores to argument 0"):
        Stage(0, (0,)).apply(loops(UOp.sink(x.store(x * 2.0))))


def test_a_walk_that_carries_a_sum_keeps_its_order() -> None:
    x = UOp.param(1, 16, dtypes.f32)
    i, j = UOp.range(16, 0), UOp.range(16, 1, AxisType.REDUCE)
    value = (j < i + 1).where(x.index(j).load(), 0.0).reduce(Ops.ADD, 0, (j,))
    root = UOp.sink(UOp.param(0, 16, dtypes.f32).index(i).store(value).end(i))
    carried = next(root for name, root in stages(root, first="simplify") if name == "bounds")
    for schedule in ("split 2 4 loop", "retype 2 vector", "retype 2 upcast", "pad 2 3"):
        with pytest.raises(ScheduleError, match="carries values"):
            Schedule.parse(schedule).apply(carried)


def test_a_sum_is_not_shared_by_threads() -> None:
    total = UOp.param(1, 64, dtypes.i32).reduce(Ops.ADD, 1)
    root = loops(UOp.sink(UOp.param(0, 1, dtypes.i32).reshape(()).store(total)))
    with pytest.raises(ScheduleError, match="thread: range 0 is not the outermost loop of a store"):
        Retype(0, AxisType.THREAD).apply(root)


def test_each_thread_has_scratch_memory_of_its_own() -> None:
    """A staged row stands inside of the loop that threads share, and each of several rows of a thread too."""
    whole: list[Action] = [Stage(1, (2,)), Retype(0, AxisType.THREAD)]
    parts: list[Action] = [Stage(1, (2,)), Split(0, 3, AxisType.UPCAST), Retype(4, AxisType.THREAD)]
    for schedule, rows in ((whole, 1), (parts, 3)):
        program = apply_schedule(loops(matmul(6, 9, 5)), schedule)
        *_, (_, root) = stages(program, first="expand")
        order = linearize(root)
        (shared,) = [n for n in order if n.op is Ops.RANGE and n.arg[1] is AxisType.THREAD]
        local = [n for n in order if n.op is Ops.ALLOC and n.arg.addrspace is AddrSpace.LOCAL]
        assert len(local) == rows
        assert min(map(order.index, local)) > order.index(shared)


def test_a_staged_operand_is_read_from_local_memory_in_its_new_order() -> None:
    program = apply_schedule(loops(matmul(6, 9, 5)), [Stage(2, (2, 1))])
    (memory,) = [n for n in program.toposort() if n.op is Ops.ALLOC]
    assert memory.arg.size == 5 * 9
    assert not [
        n for n in program.toposort() if n.op is Ops.LOAD and n.src[0].src[0] is UOp.param(2, 45, dtypes.i32)
    ][1:]


def test_rows_of_a_staged_operand_stand_apart_by_their_padding() -> None:
    body = matmul(6, 9, 5)
    program = apply_schedule(loops(body), [Stage(2, (2, 1), 3)])
    (memory,) = [n for n in program.toposort() if n.op is Ops.ALLOC]
    assert memory.arg.size == 5 * (9 + 3)
    rng = np.random.default_rng(0)
    x, w = rng.integers(-9, 9, (6, 5)), rng.integers(-9, 9, (9, 5))
    given = [a.astype(np.int32) for a in (np.zeros(6 * 9), x.reshape(-1), w.reshape(-1))]
    run_program(program, dict(zip(call_params(body), given, strict=True)))
    np.testing.assert_array_equal(given[0].reshape(6, 9), x @ w.T)
    with pytest.raises(ScheduleError, match="stage: a padding of -1 elements"):
        Stage(2, (2, 1), -1).apply(loops(body))
    with pytest.raises(ScheduleError, match="stage: a tile of 300180 bytes"):
        Stage(2, (2, 1), 15000).apply(loops(body))


@pytest.mark.net
@pytest.mark.parametrize("axis", [AxisType.LOOP, AxisType.UPCAST], ids=lambda a: a.value)
@pytest.mark.parametrize("factor", [2, 3, 4, 5])
@pytest.mark.parametrize("number", [0, 1])
def test_scratch_memory_inside_of_a_range_that_is_split(number: int, factor: int, axis: AxisType) -> None:
    """A row of an operand, filled anew for each value of the range: each copy of the loop has its own."""
    rows, columns, inner = 6, 9, 5
    body = matmul(rows, columns, inner)
    rng = np.random.default_rng(0)
    x, w = rng.integers(-9, 9, (rows, inner)), rng.integers(-9, 9, (columns, inner))
    program = apply_schedule(loops(body), [Stage(1 + number, (2,)), Split(number, factor, axis)])
    given = [np.zeros(rows * columns), x.reshape(-1), w.reshape(-1)]
    roots = [program, *(root for _, root in stages(program, first="expand"))]
    programs: list[UOp | list[UOp]] = [*roots, linearize(roots[-1])]
    for root in programs:
        memory = [a.astype(np.int32) for a in given]
        run_program(root, dict(zip(call_params(body), memory, strict=True)))
        np.testing.assert_array_equal(memory[0].reshape(rows, columns), x @ w.T)
