"""Elements past 4 GB of one buffer: memory that is there in name only, until a page of it is touched."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest

from uop_codegen_c import CpuBackend, Freedoms, KernelSource, generate, linearize, render, settings, stages
from uop_ir import Ops, Plan, UOp, call_params, dtypes, index, override

ROW = (1 << 30) + 7
SIZE = 5 * ROW
FAR = (1 << 32) + 5
NO_RESERVE = 0x4000  # Linux: MAP_NORESERVE

Array: TypeAlias = npt.NDArray[Any]
Runner: TypeAlias = Callable[[UOp, Array, list[Array]], list[Array]]


@pytest.fixture
def sparse() -> Array:
    """5 GB of zeros, of which only the pages that are touched take memory."""
    whole = mmap.mmap(-1, SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE)
    return np.frombuffer(whole, np.uint8)


def runner(cpu: CpuBackend) -> Runner:
    """Run a kernel whose first argument is the sparse memory; gives the others after it."""

    def run(body: UOp, far: Array, others: list[Array]) -> list[Array]:
        params = call_params(body)
        memory = [cpu.allocate(8), *(cpu.allocate(a.nbytes) for a in others)]
        memory[0].data, memory[0].size = far.ctypes.data, far.nbytes
        for there, array in zip(memory[1:], others, strict=True):
            cpu.copy_in(there, array)
        cpu.link(Plan((UOp(Ops.CALL, (body, *params)),), params))(memory, [])
        out = [np.empty_like(a) for a in others]
        for there, array in zip(memory[1:], out, strict=True):
            cpu.copy_out(there, array)
        return out

    return run


@pytest.fixture
def run(cpu: CpuBackend) -> Runner:
    return runner(cpu)


def memory() -> UOp:
    return UOp.param(0, SIZE, dtypes.u8)


@pytest.mark.parametrize("opt", [0, 1])
def test_a_window_far_behind_the_start(run: Runner, sparse: Array, opt: int) -> None:
    values = np.arange(1, 41, dtype=np.uint8)
    body = UOp.sink(memory().shrink(((FAR, FAR + 40),)).store(UOp.param(1, 40, dtypes.u8) * 2))
    with override(settings, opt=opt):
        run(body, sparse, [values])
    np.testing.assert_array_equal(sparse[FAR : FAR + 40], values * 2)
    assert not sparse[5 : 5 + 40].any()  # where 32 bits would lead
    assert not sparse[FAR - 9 : FAR].any()


@pytest.mark.parametrize("opt", [0, 1])
def test_the_columns_of_long_rows(run: Runner, sparse: Array, opt: int) -> None:
    columns = memory().reshape((5, ROW)).shrink(((0, 5), (3, 35)))
    for row in range(5):
        sparse[row * ROW + 3 : row * ROW + 35] = np.arange(32) + row
    body = UOp.sink(UOp.param(1, 160, dtypes.u8).reshape((5, 32)).store(columns))
    with override(settings, opt=opt):
        assert "int64_t ridx0" in generate(body).text
        (out,) = run(body, sparse, [np.zeros(160, np.uint8)])
    np.testing.assert_array_equal(out.reshape(5, 32), np.arange(32) + np.arange(5)[:, None])


def test_a_place_that_is_read_from_memory(cpu: CpuBackend, sparse: Array) -> None:
    """Good places beside negative ones, one past the end, and such as 32 bits would make good."""
    places = np.array([FAR, 5, SIZE - 1, SIZE, -1, FAR + (1 << 33), -(1 << 63), (1 << 63) - 1], np.int64)
    sparse[[FAR, 5, SIZE - 1]] = 11, 22, 33
    r = UOp.range(8, 0)
    out, which = UOp.param(1, 8, dtypes.u8), UOp.param(2, 8, dtypes.i64)
    at = which.index(r).load().cast(dtypes.index)
    value = memory().index(at, (index(-1) < at) & (at < SIZE)).load()
    *_, (_, root) = stages(UOp.sink(out.index(r).store(value).end(r)), Freedoms(), "bounds")
    helpers, text = render("places", linearize(root), [memory(), out, which])
    source = KernelSource("places", "\n".join(["#include <stdint.h>", *helpers]), text)
    stand_in = UOp.sink(out.store(which.cast(dtypes.u8) + memory().shrink(((0, 8),))))  # the same arguments
    (got, _) = runner(CpuBackend(lambda body: source))(stand_in, sparse, [np.zeros(8, np.uint8), places])
    assert got.tolist() == [11, 22, 33, 0, 0, 0, 0, 0]
