"""Which axes become blocks and threads, that every stage means the same, and what shares a grid."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from uop_codegen_c import Freedoms, ScheduleError
from uop_codegen_cuda import Block, CudaSource, emit_cuda, emit_linear, emit_map, generate
from uop_ir import AxisType, Ops, UOp, call_params, dtypes, parse_uir, run_program

Array = npt.NDArray[Any]
Check = Callable[..., CudaSource]
EXACT = Freedoms(contract=False, reassociate=False)


def f32(slot: int, *shape: int) -> UOp:
    return UOp.param(slot, prod(shape), dtypes.f32).reshape(shape)


def increment(*shape: int) -> UOp:
    return UOp.sink(f32(0, *shape).store(f32(1, *shape) + 1.0))


def sizes(source: CudaSource) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    return tuple(n.value for n in source.grid), source.block


@pytest.mark.parametrize(
    ("shape", "grid", "block"),
    [
        ((7,), (1, 1, 1), (7, 1, 1)),
        ((256,), (1, 1, 1), (256, 1, 1)),
        ((257,), (2, 1, 1), (256, 1, 1)),
        ((3, 5), (3, 1, 1), (5, 1, 1)),
        ((3, 600), (3, 3, 1), (256, 1, 1)),
        ((2, 3, 4, 5), (4, 3, 2), (5, 1, 1)),
        ((2, 3, 4, 300), (2, 4, 3), (256, 1, 1)),
        ((2, 3, 2, 2, 3), (2, 2, 3), (3, 1, 1)),
        ((70000, 3), (70000, 1, 1), (3, 1, 1)),
        ((66000, 2, 3), (66000, 2, 1), (3, 1, 1)),
        ((1, 1), (1, 1, 1), (1, 1, 1)),
    ],
)
def test_axes(shape: tuple[int, ...], grid: tuple[int, ...], block: tuple[int, ...], check: Check) -> None:
    assert sizes(check(increment(*shape))) == (grid, block)


def test_an_axis_of_no_elements(check: Check) -> None:
    assert sizes(check(increment(3, 0))) == ((1, 1, 1), (1, 1, 1))


def test_threads_go_along_contiguous_memory(check: Check) -> None:
    """The axis that the store moves along by one element, not the last one."""
    body = UOp.sink(f32(0, 9, 30).permute((1, 0)).store(f32(1, 30, 9) + 1.0))
    assert sizes(check(body)) == ((9, 1, 1), (30, 1, 1))


@pytest.mark.parametrize("first", [1, 255, 256, 257, 600])
@pytest.mark.parametrize("second", [1, 40, 600])
def test_a_grid_for_each_size(first: int, second: int, check: Check) -> None:
    """One text serves all sizes; two nests share the grid, and neither steps over its end."""
    a, b = UOp.variable("a", 1, 600), UOp.variable("b", 1, 600)
    x = f32(2, 600)
    body = UOp.sink(
        f32(0, 600).shrink([(0, a)]).store(x.shrink([(0, a)]) + 1.0),
        f32(1, 600).shrink([(0, b)]).store(x.shrink([(0, b)]) * 2.0),
    )
    check(body, first, second)


@pytest.mark.parametrize("size", [1, 7, 100])
def test_a_symbolic_axis_within_a_block(size: int, check: Check) -> None:
    n = UOp.variable("n", 1, 100)
    bounds: list[tuple[int | UOp, int | UOp]] = [(0, 5), (0, n)]
    source = check(UOp.sink(f32(0, 5, 100).shrink(bounds).store(f32(1, 5, 100).shrink(bounds) + 1.0)), size)
    assert source.block == (100, 1, 1)


@pytest.mark.parametrize("size", [1, 7, 100])
def test_a_symbolic_axis_of_blocks(size: int, check: Check) -> None:
    n = UOp.variable("n", 1, 100)
    bounds: list[tuple[int | UOp, int | UOp]] = [(0, n), (0, 5)]
    check(UOp.sink(f32(0, 100, 5).shrink(bounds).store(f32(1, 100, 5).shrink(bounds) + 1.0)), size)


def test_outputs_of_several_shapes(check: Check) -> None:
    """A matrix, a vector and a scalar of one input, on one grid."""
    x = f32(3, 20, 300)
    body = UOp.sink(
        f32(0, 20, 300).store(x + 1.0),
        f32(1, 20).store(x.reduce(Ops.ADD, 1)),
        f32(2, 1).reshape(()).store(x.reduce(Ops.MAX, 2)),
    )
    assert sizes(check(body, freedoms=EXACT)) == ((2, 20, 1), (256, 1, 1))


def test_in_place(check: Check) -> None:
    x = f32(0, 300)
    assert sizes(check(UOp.sink(x.store(x + 1.0)))) == ((2, 1, 1), (256, 1, 1))


def test_an_element_that_another_needs_is_not_left_to_threads(check: Check) -> None:
    """Each element less the sum of all, in place: no thread may store before all others have read."""
    x = f32(0, 300)
    assert sizes(check(UOp.sink(x.store(x - x.reduce(Ops.ADD, 1))), freedoms=EXACT)) == ((1, 1, 1), (1, 1, 1))


def test_without_the_optimizer_one_thread_runs_all(check: Check) -> None:
    source = check(increment(4, 5), freedoms=Freedoms(optimize=False))
    assert sizes(source) == ((1, 1, 1), (1, 1, 1))
    assert source.text.count("for (") == 2


def test_a_contracted_sum_is_fused(check: Check) -> None:
    """The fused operation is a function that rounds once; the interpreter runs the program of one thread."""
    for terms in (24, 33, 64):
        x, y = f32(1, 4, terms), f32(2, 4, terms)
        assert "fmaf(x, y, z)" in generate(UOp.sink(f32(0, 4).store((x * y).reduce(Ops.ADD, 1)))).text


def less_its_maximum(*shape: int) -> UOp:
    x, wide = f32(1, *shape), (*shape[:-1], 1)
    return UOp.sink(f32(0, *shape).store(x - x.reduce(Ops.MAX, 1).reshape(wide).expand(shape)))


@pytest.mark.parametrize("emit", [emit_map, emit_linear])
@pytest.mark.parametrize("body", [increment(300), less_its_maximum(3, 20)], ids=["short block", "reduction"])
def test_stages_mean_the_same(emit: Callable[[UOp, Freedoms], str], body: UOp) -> None:
    """Read back from their text, the loops and the program of one thread give what the kernel gives."""
    parsed = parse_uir(emit(body, EXACT))
    size = call_params(body)[0].arg.size
    given = np.arange(size, dtype=np.float32) % 17
    out, want = np.zeros(size, np.float32), np.zeros(size, np.float32)
    memory = {n: given if n.arg.slot else out for n in parsed.nodes if n.op is Ops.PARAM}
    run_program(parsed.nodes if emit is emit_linear else parsed.root, memory)
    run_program(body, {p: given if p.arg.slot else want for p in call_params(body)})
    np.testing.assert_array_equal(out, want)


def test_stages_are_texts_of_their_own() -> None:
    body = increment(3, 300)
    assert "axis=local" in emit_map(body, EXACT)
    assert "name=lidx0" in emit_linear(body, EXACT)
    assert "threadIdx.x" in emit_cuda(body, EXACT)


def test_a_block_needs_a_store() -> None:
    loop = UOp.range(10, 0, AxisType.REDUCE)
    root = UOp.sink(
        f32(0, 1)
        .index(UOp.const(dtypes.index, 0))
        .store(f32(1, 10).index(loop).load().reduce(Ops.ADD, 0, [loop]))
    )
    with pytest.raises(ScheduleError, match="block: no store in a loop over range 0"):
        Block(0, 4).apply(root)


def test_narrow_floats_are_storage(check: Callable[..., CudaSource]) -> None:
    x, y = UOp.param(1, 300, dtypes.f16), UOp.param(2, 300, dtypes.f16)
    source = check(UOp.sink(UOp.param(0, 300, dtypes.f16).store(x * y + 0.5)), freedoms=EXACT)
    assert "uint16_t *__restrict__ data0" in source.text


def test_a_running_sum_is_one_sum_a_thread(check: Check) -> None:
    """What a loop would carry from element to element, no thread waits for."""
    count = UOp(Ops.STACK, [UOp.const(dtypes.i32, i) for i in range(64)])
    shape = (64, 64)
    before = count.reshape((1, 64)).expand(shape) < (count + 1).reshape((64, 1)).expand(shape)
    total = before.where(f32(1, 64).reshape((1, 64)).expand(shape), 0.0).reduce(Ops.ADD, 1)
    assert sizes(check(UOp.sink(f32(0, 64).store(total)))) == ((1, 1, 1), (64, 1, 1))
