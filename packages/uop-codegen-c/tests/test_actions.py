"""Each axis action gives a program that stores the same values; the interpreter runs both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from uop_codegen_c import (
    Action,
    Reorder,
    Retype,
    ScheduleError,
    Split,
    Stage,
    apply_schedule,
    linearize,
    stages,
)
from uop_ir import AddrSpace, AxisType, Ops, UOp, call_params, dtypes, run_program


def matmul(rows: int, columns: int, inner: int) -> UOp:
    """x @ w.T: both operands are contiguous along the reduction. Ranges: 0 rows, 1 columns, 2 the reduction."""
    x, w = UOp.param(1, rows * inner, dtypes.i32), UOp.param(2, columns * inner, dtypes.i32)
    shape = (rows, columns, inner)
    product = x.reshape((rows, 1, inner)).expand(shape) * w.reshape((1, columns, inner)).expand(shape)
    out = UOp.param(0, rows * columns, dtypes.i32).reshape((rows, columns))
    return UOp.sink(out.store(product.reduce(Ops.ADD, 1)))


def loops(body: UOp) -> UOp:
    return next(root for name, root in stages(body) if name == "simplify")


SCHEDULES: list[tuple[Action, ...]] = [
    (Split(0, 3, AxisType.LOOP),),
    (Split(0, 4, AxisType.UPCAST),),
    (Split(1, 4, AxisType.VECTOR),),
    (Split(1, 5, AxisType.VECTOR), Split(0, 2, AxisType.UPCAST)),
    (Split(2, 4, AxisType.UPCAST),),
    (Split(2, 2, AxisType.VECTOR),),
    (Split(2, 3, AxisType.UPCAST),),
    (Split(2, 5, AxisType.UPCAST),),
    (Split(1, 7, AxisType.LOOP),),
    (Retype(0, AxisType.THREAD),),
    (Retype(1, AxisType.VECTOR),),
    (Reorder((1, 0)),),
    (Stage(2, (2, 1)),),
    (Stage(2, (2, 1)), Split(1, 4, AxisType.VECTOR), Split(0, 3, AxisType.UPCAST)),
    (Stage(1, (0, 2)), Stage(2, (1, 2))),
    (Stage(1, (2,)),),
]


@pytest.mark.net
@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_an_action_keeps_the_values(schedule: Sequence[Action], run_cpu: Callable[..., Any]) -> None:
    rows, columns, inner = 6, 9, 5
    body = matmul(rows, columns, inner)
    rng = np.random.default_rng(0)
    x, w = rng.integers(-9, 9, (rows, inner)), rng.integers(-9, 9, (columns, inner))
    arrays = [
        np.zeros(rows * columns, np.int32),
        x.astype(np.int32).reshape(-1),
        w.astype(np.int32).reshape(-1),
    ]
    program = apply_schedule(loops(body), schedule)
    for _, root in [("optimize", program), *stages(program, first="expand")]:
        memory = [a.copy() for a in arrays]
        run_program(root, dict(zip(call_params(body), memory, strict=True)))
        np.testing.assert_array_equal(memory[0].reshape(rows, columns), x @ w.T)


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        (Split(7, 2, AxisType.LOOP), "no range 7"),
        (Split(0, 7, AxisType.LOOP), "factor 7 for range 0 of 6"),
        (Split(0, 0, AxisType.LOOP), "factor 0"),
        (Retype(2, AxisType.THREAD), "not the outermost loop"),
        (Reorder((0, 2)), "no loop nest closes exactly"),
        (Stage(0, (0,)), "no load of argument 0"),
        (Stage(1, (1,)), "no load of argument 1"),
    ],
)
def test_an_illegal_action_is_refused_with_the_reason(action: Action, reason: str) -> None:
    with pytest.raises(ScheduleError, match=reason):
        action.apply(loops(matmul(6, 9, 5)))


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
