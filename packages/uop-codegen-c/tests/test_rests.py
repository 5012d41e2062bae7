"""The schedule that is chosen for a reduction makes vectors of all of it:
of what is left of vectors too. Week 6.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from uop_codegen_c import Freedoms, Machine, generate
from uop_ir import Ops, UOp, dtypes

FOLDS: dict[Ops, Callable[..., Any]] = {Ops.ADD: np.sum, Ops.MAX: np.max}


def folded(op: Ops, rows: int, size: int) -> UOp:
    """Each row folded into an element; with no rows, one row alone, as a scalar."""
    shape = (rows, size) if rows else (size,)
    x = UOp.param(1, max(rows, 1) * size, dtypes.f32).reshape(shape)
    out = UOp.param(0, max(rows, 1), dtypes.f32)
    return UOp.sink((out if rows else out.reshape(())).store(x.reduce(op, 1)))


@pytest.mark.parametrize("op", FOLDS, ids=str)
@pytest.mark.parametrize("rows", [0, 3])
@pytest.mark.parametrize("size", [2, 9, 31, 70, 259])
def test_a_fold_of_any_length(op: Ops, rows: int, size: int, run_cpu: Callable[..., Any]) -> None:
    """Against NumPy in f64, of small integers, whose sums are exact in any order."""
    given = np.random.default_rng(size).integers(-99, 99, (max(rows, 1), size)).astype(np.float32)
    got = run_cpu(folded(op, rows, size), [np.zeros(max(rows, 1), np.float32), given.reshape(-1)])[0]
    np.testing.assert_array_equal(got, FOLDS[op](given.astype(np.float64), axis=1))


@pytest.mark.parametrize("rows", [0, 3])
def test_no_loop_is_left_without_vectors(rows: int) -> None:
    """259 is 8 times 4 vectors of 8, a vector of 2, and 1; 70 is 2 times 4, a vector of 4, and one of 2."""
    for size, loops, widths in ((259, [8], (8, 2)), (70, [2], (8, 4, 2)), (64, [2], (8,)), (20, [2], (8, 4))):
        text = generate(folded(Ops.ADD, rows, size), Freedoms(), Machine(32, 16, 1)).text
        assert text.count("for (") == len(loops) + bool(rows)
        assert all(f"< {n};" in text for n in loops)
        assert {w for w in (2, 4, 8, 16) if f"load_f32x{w}(" in text} == set(widths)
        strict = generate(folded(Ops.ADD, rows, size), Freedoms(reassociate=False), Machine(32, 16, 1)).text
        assert "load_f32x" not in strict


def padded_product(rows: int, depth: int, columns: int, before: int, behind: int) -> UOp:
    """A product of matrices with columns of zeros before and behind it."""
    a = UOp.param(1, rows * depth, dtypes.f32).reshape((rows, 1, depth))
    b = UOp.param(2, depth * columns, dtypes.f32).reshape((depth, columns)).permute((1, 0))
    wide = (a * b.reshape((1, columns, depth))).reduce(Ops.ADD, 1).pad(((0, 0), (before, behind)))
    out = UOp.param(0, rows * (before + columns + behind), dtypes.f32)
    return UOp.sink(out.reshape(wide.shape).store(wide))


@pytest.mark.parametrize(("columns", "before", "behind"), [(1, 64, 0), (3, 0, 64), (16, 48, 48), (20, 64, 0)])
def test_a_piece_of_which_a_mask_leaves_nothing(
    columns: int, before: int, behind: int, run_cpu: Callable[..., Any]
) -> None:
    """The columns of a product are cut into pieces that are packed;
    of one that is all zeros nothing is loaded.
    """
    body = padded_product(40, 300, columns, before, behind)
    for width, strict in product((16, 32, 64), (False, True)):
        assert generate(body, Freedoms(reassociate=not strict), Machine(width, 32, 1)).text
    rng = np.random.default_rng(columns)
    a, b = (rng.integers(-9, 9, shape).astype(np.float32) for shape in ((40, 300), (300, columns)))
    want = np.pad(a @ b, ((0, 0), (before, behind)))  # of small integers: exact in any order
    got = run_cpu(body, [np.empty_like(want).reshape(-1), a.reshape(-1), b.reshape(-1)])[0]
    np.testing.assert_array_equal(got, want.reshape(-1))
