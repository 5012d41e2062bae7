"""Expressions that nearly simplify: families of sums,
quotients, comparisons and guards, against all values.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from uop_ir import UOp
from uop_rewrite import graph_rewrite, symbolic

pytestmark = pytest.mark.net

v, r = UOp.variable("v", -9, 12), UOp.range(7, 0)


def nearly_whole() -> Iterator[UOp]:
    """x % a + y // b * c is x where x is y and a, b, c are one number: and where they are not?"""
    for shift, a, b in product((0, 1, -1, 4), (2, 3, 4), (2, 4)):
        for c in dict.fromkeys((a, b)):
            yield v % a + (v + shift) // b * c
            yield (v + shift) % a + v // b * c
            yield (v + shift) % a - (v // b) * -c + shift


def nested() -> Iterator[UOp]:
    for shift, a, b in product((0, 1, 3, -2), (2, 3), (2, 4)):
        yield v % a + v // a % b * a + shift
        yield v % a + (v + shift) // a % b * a
        yield (v // a + shift) // b
        yield (v // a + r + shift) // b
        yield (v % (a * b) + shift) // b
        yield (v // a * b + v % a + shift) % (a * b)


def factors() -> Iterator[UOp]:
    for shift, a, b in product((0, 1, 5, -3), (2, 3, 6), (4, 6)):
        yield (v * a + r * b + shift) // b
        yield (v * a + r * b + shift) % b
        yield (v * b + r + shift) // b
        yield (r - v * a + shift) % a
        yield (v * a + shift < r * b).where(v, r)


def comparisons() -> Iterator[UOp]:
    """A common factor goes out of a comparison where what is left has no say:
    at the edge, and just past it.
    """
    for a, size, limit in product((2, 3, 4), (1, 2, 3, 4, 5), range(-3, 10)):
        rest = UOp.range(size, 1)
        yield r * a + rest < limit
        yield rest - r * a < limit
        yield v * a < rest + limit


def guards() -> Iterator[UOp]:
    """What a condition says of a variable ends exactly where the condition does."""
    for limit, other in product((-2, 0, 3), (-3, -2, -1, 0, 1, 2, 3, 4)):
        for condition in (
            v < limit,
            v > limit,
            v.eq(limit),
            (v > limit) & (v < limit + 4),
            (v < limit) | (r < 2),
        ):
            yield condition.where((v < other).where(v * 2, r), r * 3)
            yield condition.where(v * 2, v.maximum(other))
            yield condition.where((v - other) // 4, (v + other) % 4)


@pytest.mark.parametrize(
    "family", [nearly_whole, nested, factors, comparisons, guards], ids=lambda f: f.__name__
)
def test_families(kit: Any, family: Any) -> None:
    for before in family():
        kit.agree(before, graph_rewrite(before, symbolic))
