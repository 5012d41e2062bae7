"""Quotients and remainders that nearly belong together: families of sums, simplified, against all values."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from uop_ir import UOp
from uop_rewrite import graph_rewrite, symbolic

V, R = UOp.variable("v", -9, 12), UOp.range(7, 0)


def nearly_whole() -> Iterator[UOp]:
    """x % a + y // b * c is x where x is y and a, b, c are one number: and where they are not?"""
    for shift, a, b in product((0, 1, -1, 4), (2, 3, 4), (2, 4)):
        for c in dict.fromkeys((a, b)):
            yield V % a + (V + shift) // b * c
            yield (V + shift) % a + V // b * c
            yield (V + shift) % a - (V // b) * -c + shift


def nested() -> Iterator[UOp]:
    for shift, a, b in product((0, 1, 3, -2), (2, 3), (2, 4)):
        yield V % a + V // a % b * a + shift
        yield V % a + (V + shift) // a % b * a
        yield (V // a + shift) // b
        yield (V // a + R + shift) // b
        yield (V % (a * b) + shift) // b
        yield (V // a * b + V % a + shift) % (a * b)


def factors() -> Iterator[UOp]:
    for shift, a, b in product((0, 1, 5, -3), (2, 3, 6), (4, 6)):
        yield (V * a + R * b + shift) // b
        yield (V * a + R * b + shift) % b
        yield (V * b + R + shift) // b
        yield (R - V * a + shift) % a
        yield (V * a + shift < R * b).where(V, R)


def comparisons() -> Iterator[UOp]:
    """A common factor goes out of a comparison where what is left has no say: at the edge, and just past it."""
    for a, size, limit in product((2, 3, 4), (1, 2, 3, 4, 5), range(-3, 10)):
        rest = UOp.range(size, 1)
        yield R * a + rest < limit
        yield rest - R * a < limit
        yield V * a < rest + limit


@pytest.mark.parametrize("family", [nearly_whole, nested, factors, comparisons], ids=lambda f: f.__name__)
def test_families(kit: Any, family: Any) -> None:
    for before in family():
        kit.agree(before, graph_rewrite(before, symbolic))
