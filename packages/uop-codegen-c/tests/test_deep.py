"""Deep expressions: the text is short lines,
which a C compiler takes in a time in proportion to their number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from uop_codegen_c import Freedoms, generate, linearize, render
from uop_ir import UOp, dtypes

Array = np.ndarray[Any, Any]


def deep(x: UOp, count: int) -> UOp:
    """So many steps, of two or three operations each, that no rule shortens."""
    value = x
    for i in range(count):
        value = value * 1.5 - x if i % 2 else (value * 0.5).maximum(x)
    return value


def expected(x: Array, count: int) -> Array:
    value = x
    for i in range(count):
        value = value * np.float32(1.5) - x if i % 2 else np.maximum(value * np.float32(0.5), x)
    return value


def stored(count: int) -> UOp:
    return UOp.sink(UOp.param(0, 19, dtypes.f32).store(deep(UOp.param(1, 19, dtypes.f32), count)))


def test_a_deep_expression_is_compiled(run_cpu: Callable[..., Any]) -> None:
    count = 1000
    body = stored(count)
    assert len(body.toposort()) > 2 * count
    x = np.linspace(-2, 2, 19, dtype=np.float32)
    out = run_cpu(body, [np.zeros(19, np.float32), x])[0]
    np.testing.assert_array_equal(out, expected(x, count))


@pytest.mark.parametrize("free", [Freedoms(), Freedoms(optimize=False)], ids=["optimized", "plain"])
def test_lines_stay_short(free: Freedoms) -> None:
    assert max(map(len, generate(stored(300), free).text.splitlines())) < 200


def chain(shared: bool, length: int) -> UOp:
    """Index arithmetic in which each step stands on the one before it, once or twice."""
    at = UOp.range(61, 0)
    for i in range(length):
        at = (at * 3 + (at // 2 if shared else i % 7)) % 61
    return at


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("valid", [True, False])
def test_index_arithmetic_is_written_once(shared: bool, valid: bool) -> None:
    """Written in place at each use, 200 steps that stand on each other twice would be 2**200 of them."""
    out, memory = UOp.param(0, 61, dtypes.f32), UOp.param(1, 61, dtypes.f32)
    at, r = chain(shared, 200), UOp.range(61, 0)
    place = memory.index(at, r < 50) if valid else memory.index(at)
    order = linearize(UOp.sink(out.index(r).store(place.load()).end(r)))
    lines = render("kernel", order, [out, memory])[1].splitlines()
    assert max(map(len, lines)) < 700
    assert sum(map(len, lines)) < 30_000


def test_reshapes_that_do_not_merge(run_cpu: Callable[..., Any]) -> None:
    """Each flattens and splits the index again, at other places."""
    x = UOp.param(1, 2310, dtypes.f32)
    value = x
    want: Array = np.arange(2310, dtype=np.float32)
    given = want
    for shape in ((6, 35, 11), (10, 21, 11), (14, 15, 11), (22, 5, 21), (33, 7, 10)) * 4:
        value, want = value.reshape(shape).permute((2, 0, 1)), want.reshape(shape).transpose(2, 0, 1)
    body = UOp.sink(UOp.param(0, 2310, dtypes.f32).store(value.reshape((2310,)) + 0.0))
    assert len(generate(body, Freedoms()).text) < 20_000
    np.testing.assert_array_equal(run_cpu(body, [np.zeros(2310, np.float32), given])[0], want.reshape(-1))
