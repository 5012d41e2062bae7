"""One kernel with a symbolic size serves every size in its range, compiled once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from uop_codegen_c import generate
from uop_ir import Ops, UOp, dtypes


def kernel() -> UOp:
    n = UOp.variable("n", 1, 64)
    x = UOp.param(2, 64, dtypes.f32).shrink(((0, n),))
    total = UOp.param(1, 1, dtypes.f32).reshape(()).store((x * x).reduce(Ops.ADD, 1))
    return UOp.sink(UOp.param(0, 64, dtypes.f32).shrink(((0, n),)).store(x * 2.0 + 1.0), total)


def test_every_size_from_1_to_64(run_cpu: Callable[..., Any], run_interp: Callable[..., Any]) -> None:
    body = kernel()
    rng = np.random.default_rng(0)
    x = rng.integers(-8, 8, 64).astype(np.float32)  # sums of small integers are exact in any order
    for n in range(1, 65):
        given = [np.full(64, -1, np.float32), np.zeros(1, np.float32), x]
        out, total, _ = run_cpu(body, given, n)
        np.testing.assert_array_equal(out, np.where(np.arange(64) < n, x * 2 + 1, -1))
        assert total[0] == np.sum(x[:n] ** 2)
        for got, want in zip(run_cpu(body, given, n), run_interp(body, given, n), strict=True):
            np.testing.assert_array_equal(got, want)


def test_the_size_is_an_argument_of_one_text() -> None:
    text = generate(kernel()).text
    assert "const int n = (int)scalars[0];" in text
    assert "ridx0 < n" in text
