"""The program of shuffles and shared memory that a shared reduction becomes:
the interpreter runs it, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from uop_codegen_c import Freedoms
from uop_codegen_cuda import generate
from uop_codegen_cuda.lower import stages
from uop_ir import DType, Level, Ops, UOp, dtypes, run_program, verify

Run = Callable[..., list[npt.NDArray[Any]]]


def memory(slot: int, *shape: int, dtype: DType = dtypes.f32) -> UOp:
    return UOp.param(slot, prod(shape), dtype).reshape(shape)


def over(x: UOp, op: Ops) -> UOp:
    """The fold of each row, in each of its places."""
    *rows, _ = x.shape
    return x.reduce(op, 1).reshape((*rows, 1)).expand(x.shape)


def softmax(*shape: int) -> UOp:
    x = memory(1, *shape)
    exponential = (x - over(x, Ops.MAX)).alu(Ops.EXP2)
    return UOp.sink(memory(0, *shape).store(exponential / over(exponential, Ops.ADD)))


def moments(*shape: int) -> UOp:
    """The sum and the sum of squares of each row, which one walk makes."""
    x = memory(1, *shape)
    return UOp.sink(memory(0, *shape[:-1]).store(x.reduce(Ops.ADD, 1) * (x * x).reduce(Ops.ADD, 1)))


def total(*shape: int) -> UOp:
    return UOp.sink(memory(0, 1).reshape(()).store(memory(1, *shape).reduce(Ops.ADD, len(shape))))


def nested(rows: int, columns: int) -> UOp:
    """The sum over rows of the greatest of each: lanes take the one, warps the other."""
    x = memory(1, rows, columns)
    largest = x.reduce(Ops.MAX, 1)
    return UOp.sink(memory(0, 1).reshape(()).store((largest * largest).reduce(Ops.ADD, 1)))


KERNELS = {
    "softmax, two warps a row": softmax(2, 300),
    "softmax, a warp a row": softmax(9, 40),
    "two sums in one walk": moments(3, 300),
    "all": total(12, 150),
    "within another": nested(9, 70),
    "within a short one": nested(3, 300),
}


@pytest.mark.parametrize("name", KERNELS)
def test_the_interpreter_gives_its_bits(name: str, run_cuda: Run) -> None:
    body = KERNELS[name]
    source = generate(body)
    assert "__shfl_down_sync" in source.text
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(p.arg.size).astype(np.float32) for p in source.params]
    programs = dict(stages(body, Freedoms()))
    assert verify(programs["linear"]) is Level.LINEAR
    root = programs["accumulate"]
    assert isinstance(root, UOp)
    wanted = [a.copy() for a in arrays]
    run_program(root, dict(zip(source.params, wanted, strict=True)))
    for order in ("ascending", "descending", "random"):
        got = run_cuda(source, arrays, order=order)
        np.testing.assert_array_equal(got[0].view(np.uint32), wanted[0].view(np.uint32))
