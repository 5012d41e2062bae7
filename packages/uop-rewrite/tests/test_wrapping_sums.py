"""Sums of integers that wrap: like terms together, but not where others use the sums within them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from uop_ir import DType, Ops, UOp, dtypes
from uop_rewrite import graph_rewrite, symbolic

#: (an expression of x, y, z; how many operations are left)
CASES: list[tuple[Callable[[UOp, UOp, UOp], UOp], int]] = [
    (lambda x, y, z: x + y - x, 0),
    (lambda x, y, z: x * 3 + y - x * 2, 1),
    (lambda x, y, z: (x + 3) + (y + 5), 2),
    (lambda x, y, z: -(x - y), 1),
    (lambda x, y, z: (x * 4 + y) + x * 2, 2),
    (lambda x, y, z: (x + y).eq(y + x + x), 1),
    (lambda x, y, z: (x + 3).eq(5), 1),
    (lambda x, y, z: (x + 3).ne(y + 3), 1),
    (lambda x, y, z: (x * 2).eq(x), 1),
    (lambda x, y, z: (x * 2).eq(0), 2),  # true of 128 in 8 bits too
    (lambda x, y, z: (x + 1).eq(x), 0),
    (lambda x, y, z: (x + y).maximum(x + y + x), 3),
    (lambda x, y, z: (x + y + z) ^ (x + y), 3),
    (lambda x, y, z: (x + z + y) ^ (x + z), 3),
]


@pytest.mark.parametrize("dtype", [dtypes.i8, dtypes.u8, dtypes.i32, dtypes.u64], ids=str)
@pytest.mark.parametrize("number", range(len(CASES)))
def test_operations_left(kit: Any, number: int, dtype: DType) -> None:
    make, left = CASES[number]
    before = make(*(kit.scalar(name, dtype) for name in "xyz"))
    after = graph_rewrite(before, symbolic)
    kit.agree(before, after)
    assert sum(n.op is not Ops.CONST and bool(n.src) for n in after.toposort()) == left


def test_vectors(kit: Any) -> None:
    v, x = UOp.param(0, 4, dtypes.u8), kit.scalar("x", dtypes.u8)
    for before in ((v + x).eq(x), (x + 3).eq(v + 3), (v + x - v).eq(x)):
        after = graph_rewrite(before, symbolic)
        kit.agree(before, after)
        assert after.shape == (4,)


def test_rounds_of_additions_share(kit: Any) -> None:
    """Each sum stands on the one before and is used twice, as in a counter-based random generator."""
    x, y = kit.scalar("x", dtypes.u32), kit.scalar("y", dtypes.u32)
    for k in range(20):
        x = x + y
        y = ((y << (k % 7 + 1)) | (y >> (31 - k % 7))) ^ x
        x = x + (k % 3 + 1)
    before, after = x ^ y, graph_rewrite(x ^ y, symbolic)
    assert len(after.toposort()) <= len(before.toposort())
    kit.agree(before, after)


def test_sums_that_are_all_used_do_not_grow(kit: Any) -> None:
    """Fibonacci's: each sum is few multiples of two terms, and one addition to those before."""
    x, y = kit.scalar("x", dtypes.u8), kit.scalar("y", dtypes.u8)
    used = x ^ y
    for _ in range(30):
        x, y = y, x + y
        used = used ^ y
    after = graph_rewrite(used, symbolic)
    assert len(after.toposort()) <= len(used.toposort())
    kit.agree(used, after)


def test_a_long_sum_is_left_as_it_is(kit: Any) -> None:
    total = kit.scalar("x", dtypes.i32)
    for k in range(3000):
        total = total + kit.scalar(f"x{k}", dtypes.i32)
    assert graph_rewrite(total, symbolic) is total
