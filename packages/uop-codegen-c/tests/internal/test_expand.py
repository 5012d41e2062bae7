"""Expand on programs that the passes before it seldom make."""

from __future__ import annotations

import numpy as np
import pytest

from uop_codegen_c.expand import expand
from uop_ir import AxisType, Ops, UOp, dtypes, index, run_program


@pytest.mark.parametrize(("op", "expected"), [(Ops.ADD, 10), (Ops.MAX, 4)])
def test_a_reduction_of_the_range_itself(op: Ops, expected: int) -> None:
    r = UOp.range(5, 0, AxisType.UPCAST)
    out = UOp.param(0, 1, dtypes.i64)
    program = expand(UOp.sink(out.index(index(0)).store(r.reduce(op, 0, [r]).cast(dtypes.i64))))
    array = np.zeros(1, np.int64)
    run_program(program, {out: array})
    assert not any(n.op is Ops.RANGE for n in program.toposort())
    assert array[0] == expected


def test_a_reduction_of_what_does_not_stand_on_its_range() -> None:
    r = UOp.range(3, 0, AxisType.UPCAST)
    out, x = UOp.param(0, 1, dtypes.i32), UOp.param(1, 1, dtypes.i32)
    value = x.index(index(0)).load().reduce(Ops.ADD, 0, [r])
    array = np.zeros(1, np.int32)
    run_program(expand(UOp.sink(out.index(index(0)).store(value))), {out: array, x: np.array([7], np.int32)})
    assert array[0] == 21
