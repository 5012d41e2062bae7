"""Banks and barriers by themselves: wavefronts against a count over all lanes,
the padding against the emulator.
"""

from __future__ import annotations

import shutil
from math import prod

import numpy as np
import pytest

from uop_codegen_c import Freedoms, Schedule, ScheduleError, stages
from uop_codegen_cuda import check_kernel, generate, staging
from uop_codegen_cuda.banks import Access, best_padding, step_cost, wavefronts
from uop_codegen_cuda.barriers import with_barriers
from uop_codegen_cuda.shared import check_shared
from uop_codegen_cuda.staging import find_product
from uop_ir import AddrSpace, AxisType, BackendError, Ops, UOp, dtypes, index

EXACT = Freedoms(contract=False, reassociate=False)


@pytest.mark.parametrize(
    ("elements", "itemsize", "wanted"),
    [
        (range(32), 4, 1),
        ([7] * 32, 4, 1),
        (range(0, 64, 2), 4, 2),
        (range(0, 32 * 32, 32), 4, 32),
        (range(0, 33 * 32, 33), 4, 1),
        ([0, 32, 64, 1], 4, 3),
        (range(32), 8, 2),
        (range(0, 64, 2), 8, 4),
        ([5] * 32, 8, 2),
        (range(32), 2, 1),
        (range(0, 128, 4), 2, 2),
    ],
)
def test_wavefronts(elements: range | list[int], itemsize: int, wanted: int) -> None:
    assert wavefronts(list(elements), itemsize) == wanted


def test_a_padding_is_the_least_that_costs_least() -> None:
    """A fill along columns of rows of 64: a padding of 2 puts 16 rows beside each other,
    two elements of each.
    """
    fill, read = Access(4, row_x=1, along_y=1), Access(64, along_y=1)
    costs = [step_cost([fill, read], 64 + p, 4, (16, 16)) for p in range(32)]
    assert costs[0] == 8 * (4 * 16 + 64)
    assert min(costs) == 8 * (4 + 64)
    assert best_padding([fill, read], 64, 4, (16, 16)) == costs.index(min(costs)) == 2


def memory(slot: int, *shape: int) -> UOp:
    return UOp.param(slot, prod(shape), dtypes.f32).reshape(shape)


def matmul(m: int, n: int, k: int) -> UOp:
    left, right = memory(1, m, k).reshape((m, 1, k)), memory(2, k, n).permute((1, 0)).reshape((1, n, k))
    return UOp.sink(memory(0, m, n).store((left * right).reduce(Ops.ADD, 1)))


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ (apt install g++)")
@pytest.mark.parametrize("sizes", [(64, 128, 64), (96, 192, 32)])
def test_the_cost_is_what_the_emulator_counts(sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    body = matmul(m, n, k)
    product = find_product(next(root for name, root in stages(body, EXACT) if name == "bounds"))
    assert product is not None
    tile = product.tile()
    assert tile is not None
    direct = Schedule.parse("retype 0 global; retype 1 local")
    for schedule, wanted in ((staging(body, EXACT), product.staged(tile)), (direct, product.direct())):
        source = generate(body, EXACT, schedule=schedule)
        arrays = [np.ones(p.arg.size, np.float32) for p in source.params]
        costs = check_kernel(source, arrays).costs
        assert sum(c.moved for c in costs if (c.space, c.direction) == ("global", "load")) == wanted


# barriers

A, B = (UOp.alloc(slot, 64, dtypes.f32, AddrSpace.LOCAL) for slot in (0, 1))
OUT = UOp.param(0, 64, dtypes.f32)
THREAD = UOp(Ops.SPECIAL, (index(64),), "lidx0")
SHARED = frozenset({0, 1})
N = UOp.variable("n", 0, 4)


def fill(memory: UOp) -> UOp:
    return memory.index(THREAD).store(UOp.const(dtypes.f32, 1))


def read(memory: UOp, at: int = 0) -> UOp:
    return memory.index(index(at)).load()


def loop(number: int, *body: UOp, size: int | UOp = 4) -> list[UOp]:
    r = UOp.range(size, number, AxisType.REDUCE)
    return [r, *body, UOp(Ops.END, (fill(OUT), r))]


def branch(*body: UOp) -> list[UOp]:
    test = UOp(Ops.IF, (THREAD.eq(0),))
    return [test, *body, UOp(Ops.ENDIF, (test,))]


def shape(order: list[UOp]) -> str:
    """A program as letters: fills and reads of a and b,
    loops in brackets, branches in braces, barriers as bars.
    """
    letters = {Ops.BARRIER: "|", Ops.RANGE: "[", Ops.END: "]", Ops.IF: "{", Ops.ENDIF: "}"}
    names = {fill(A): "A", fill(B): "B", read(A): "a", read(B): "b"}
    return "".join(letters.get(n.op) or names.get(n, "") for n in with_barriers(order, SHARED))


@pytest.mark.parametrize(
    ("order", "wanted"),
    [
        ([fill(A), read(A)], "A|a"),
        ([fill(A), fill(B), read(A), read(B)], "AB|ab"),
        ([fill(A), read(A), fill(B), read(B)], "A|aB|b"),
        ([fill(A), read(A), fill(A), read(A)], "A|a|A|a"),
        ([fill(A), *loop(0, read(A))], "A|[a]"),
        ([fill(A), *loop(0, *loop(1, read(A)))], "A|[[a]]"),
        (loop(0, fill(A), *loop(1, read(A))), "[|A|[a]]"),
        (loop(0, fill(A), fill(B), *loop(1, read(A), read(B))), "[|AB|[ab]]"),
        ([fill(A), *loop(0, fill(B), read(A), read(B))], "A[|Ba|b]"),
        ([*loop(0, fill(A), read(A)), *loop(1, read(A))], "[|A|a][a]"),
        (loop(0, *loop(1, fill(A), read(A))), "[[|A|a]]"),
        ([*branch(fill(A)), read(A)], "{A}|a"),
        (loop(0, *branch(fill(A)), read(A)), "[|{A}|a]"),
        ([read(B), read(A)], "ba"),
        ([fill(A), *loop(0, fill(B), read(B)), read(A)], "A[|B|b]a"),
        ([fill(A), *loop(0, fill(B), read(B), size=N), read(A)], "A[|B|b]|a"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_barriers_where_a_fill_and_a_read_meet_and_nowhere_else(order: list[UOp], wanted: str) -> None:
    assert shape(order) == wanted


def test_a_barrier_in_a_branch_is_refused() -> None:
    with pytest.raises(BackendError, match="a barrier that not all threads of a block reach"):
        shape(branch(fill(A), read(A)))


@pytest.mark.parametrize("axis", [AxisType.LOCAL, AxisType.UPCAST, AxisType.UNROLL])
def test_a_loop_that_is_longer_for_some_values_of_an_axis_is_refused(axis: AxisType) -> None:
    i = UOp.range(32, 0, axis)
    j, q = UOp.range(i + 1, 1, AxisType.REDUCE), UOp.range(32, 2, AxisType.LOCAL)
    tile = UOp.alloc(0, 32, dtypes.f32, AddrSpace.LOCAL)
    filled = tile.after(tile.index(q).store(memory(1, 32).index(q).load()).end(q))
    total = filled.index(j).load().reduce(Ops.ADD, 0, (j,))
    root = UOp.sink(UOp.param(0, 32, dtypes.f32).index(i).store(total).end(i))
    with pytest.raises(ScheduleError, match=f"size of range 1 depends on range 0, {axis.value}"):
        check_shared(root)


def test_memory_of_a_thread_needs_no_barrier() -> None:
    order = [fill(A), read(A)]
    assert with_barriers(order, frozenset()) == order
