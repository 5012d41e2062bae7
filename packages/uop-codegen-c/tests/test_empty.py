"""Axes of size 0: nothing is stored, and a reduction over nothing gives the identity, optimized or not."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import pytest

from uop_codegen_c import settings
from uop_ir import Ops, UOp, dtypes, override

IDENTITY = {Ops.ADD: 0.0, Ops.MUL: 1.0, Ops.MAX: -np.inf}


@pytest.mark.parametrize("opt", [0, 1])
@pytest.mark.parametrize("op", IDENTITY, ids=lambda op: op.value)
@pytest.mark.parametrize("shape", [(0,), (1, 0), (17, 0), (16, 0, 8), (16, 8, 0)], ids=str)
def test_a_reduction_over_nothing(
    run_cpu: Callable[..., Any], shape: tuple[int, ...], op: Ops, opt: int
) -> None:
    axes = len(shape) - shape.index(0)
    kept = shape[: shape.index(0)]
    value = UOp.param(1, 0, dtypes.f32).reshape(shape).reduce(op, axes)
    body = UOp.sink(UOp.param(0, prod(kept), dtypes.f32).reshape(kept).store(value))
    with override(settings, opt=opt):
        out = run_cpu(body, [np.full(prod(kept), 7, np.float32), np.zeros(0, np.float32)])[0]
    np.testing.assert_array_equal(out, np.full(prod(kept), IDENTITY[op], np.float32))


@pytest.mark.parametrize("opt", [0, 1])
@pytest.mark.parametrize("shape", [(0,), (0, 16), (16, 0), (3, 0, 8)], ids=str)
def test_an_empty_store(run_cpu: Callable[..., Any], shape: tuple[int, ...], opt: int) -> None:
    value = UOp.param(1, 0, dtypes.f32).reshape(shape) * 2.0
    body = UOp.sink(UOp.param(0, 0, dtypes.f32).reshape(shape).store(value))
    with override(settings, opt=opt):
        assert run_cpu(body, [np.zeros(0, np.float32), np.zeros(0, np.float32)])[0].size == 0
