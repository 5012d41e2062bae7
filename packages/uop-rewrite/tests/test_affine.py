"""Division, remainder and comparison of all small sums of two terms: the rules for them, by brute force."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from uop_ir import UOp
from uop_rewrite import graph_rewrite, symbolic

R, V = UOp.range(3, 0), UOp.variable("v", -2, 2)


@pytest.mark.net
@pytest.mark.parametrize("k", [-4, -3, -1, 1, 2, 4])
@pytest.mark.parametrize("q", [-4, -2, -1, 0, 1, 2])
def test_sums_of_two_terms(kit: Any, k: int, q: int) -> None:
    total = V * k + R * q
    before = [
        node
        for c in range(-5, 6)
        for node in (
            total < c,
            UOp.const(V.dtype, c) < total,
            (total + c) // 4,
            (total + c) % 4,
            (total + c) // 6,
        )
    ]
    after = [graph_rewrite(node, symbolic) for node in before]
    found = kit.values([*before, *after])
    for node, one, two in zip(before, found[: len(before)], found[len(before) :], strict=True):
        np.testing.assert_array_equal(two, one, err_msg=str((k, q, node)))
