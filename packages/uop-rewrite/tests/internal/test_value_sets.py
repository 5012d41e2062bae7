"""Sets of integers: what an operation makes of them holds every result,
by brute force; bounds of bits are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from uop_ir import UOp
from uop_rewrite import bounds
from uop_rewrite import value_sets as sets
from uop_rewrite.bit_bounds import and_bounds, or_bounds, xor_bounds
from uop_rewrite.value_sets import FEW, ValueSet, value_set

BITS = 8
OPERATIONS: dict[str, tuple[Callable[[ValueSet, ValueSet], ValueSet], Callable[[int, int], int]]] = {
    "add": (sets.add, lambda p, q: p + q),
    "subtract": (sets.subtract, lambda p, q: p - q),
    "multiply": (sets.multiply, lambda p, q: p * q),
    "maximum": (sets.maximum, max),
    "divide": (sets.divide, lambda p, q: p // q if q else 0),
    "modulo": (sets.modulo, lambda p, q: p % q if q else p),
    "and": (lambda x, y: sets.bit_and(x, y, BITS), lambda p, q: p & q),
    "or": (lambda x, y: sets.bit_or(x, y, BITS), lambda p, q: p | q),
    "xor": (lambda x, y: sets.bit_xor(x, y, BITS), lambda p, q: p ^ q),
    "shift left": (lambda x, y: sets.shift_left(x, y, BITS), lambda p, q: p << q if 0 <= q < BITS else 0),
    "shift right": (
        lambda x, y: sets.shift_right(x, y, BITS),
        lambda p, q: p >> (q if 0 <= q < BITS else BITS),
    ),
    "union, of the first": (lambda x, y: sets.union((x, y)), lambda p, q: p),
    "union, of the second": (lambda x, y: sets.union((x, y)), lambda p, q: q),
}


def holds(found: ValueSet, value: int) -> bool:
    if not found.least <= value <= found.greatest:
        return False
    return value == found.offset if found.step == 0 else (value - found.offset) % found.step == 0


def some_set(random: np.random.Generator) -> ValueSet:
    least, size, step = (int(random.integers(*span)) for span in ((-128, 100), (0, 250), (1, 9)))
    return value_set(least, min(least + size, 127), step, int(random.integers(0, 9)))


@pytest.mark.net
@pytest.mark.parametrize("name", OPERATIONS)
def test_every_result_is_held(name: str) -> None:
    operation, exact = OPERATIONS[name]
    random = np.random.default_rng(3)
    large = 0
    for _ in range(250):
        x, y = some_set(random), some_set(random)
        found = operation(x, y)
        large += x.size * y.size > FEW
        assert all(holds(found, exact(p, q)) for p, q in product(x.values(), y.values())), (x, y, found)
    assert large > 50


def test_the_form_is_one() -> None:
    """The ends belong to the set, and a single value has step 0."""
    assert value_set(1, 12, 4, 3) == ValueSet(3, 11, 4, 3)
    assert value_set(-5, 6, 4, 6) == ValueSet(-2, 6, 4, 2)
    assert value_set(4, 6, 5, 0) == ValueSet(5, 5, 0, 5)
    assert sets.constant(7) == value_set(7, 7)


def test_squares_and_opposites() -> None:
    random = np.random.default_rng(4)
    for _ in range(100):
        x = some_set(random)
        assert all(holds(sets.square(x), v * v) for v in x.values())
        assert all(holds(sets.negate(x), -v) for v in x.values())
    assert sets.square(ValueSet(-3, 5)).least == 0


@pytest.mark.parametrize(
    ("ends", "exact"), [(and_bounds, int.__and__), (or_bounds, int.__or__), (xor_bounds, int.__xor__)]
)
def test_bounds_of_bits_are_exact(
    ends: Callable[[tuple[int, int], tuple[int, int]], tuple[int, int]], exact: Callable[[int, int], int]
) -> None:
    intervals = [(a, b) for a in range(8) for b in range(a, 8)]
    for (a, b), (c, d) in product(intervals, intervals):
        results = {exact(p, q) for p in range(a, b + 1) for q in range(c, d + 1)}
        assert ends((a, b), (c, d)) == (min(results), max(results))


def test_a_choice_by_a_comparison_of_its_own_operands(kit: Any) -> None:
    """where(x < y, x, y) and its like: the bounds are the least and the greatest that are reached."""
    v, w = UOp.variable("v", -3, 5), UOp.variable("w", 0, 9)
    low = v.const_like(-3)
    for x, y in ((v, w), (w, v)):
        for yes, no in ((v, w), (w, v), (v, low), (w, low), (low, v), (low, w)):
            choice = (x < y).where(yes, no)
            found = kit.values([choice])[0]
            least, greatest = bounds(choice)
            assert least <= found.min()
            assert found.max() <= greatest
    assert bounds((v < w).where(v, w)) == (-3, 5)
    assert bounds((v < w).where(w, v)) == (0, 9)


def test_remainders_of_8_bits_are_tight() -> None:
    random = np.random.default_rng(0)
    for _ in range(100):
        (a, b), (c, d) = np.sort(random.integers(-128, 128, (2, 2))).tolist()
        x, y = np.arange(a, b + 1)[:, None], np.arange(c, d + 1)
        found = np.where(y == 0, x, x % np.where(y == 0, 1, y))
        assert sets.modulo(sets.value_set(a, b), sets.value_set(c, d))[:2] == (found.min(), found.max())


def test_remainders_by_many_divisors_are_held() -> None:
    """More than are tried one by one, which have steps of their own."""
    random = np.random.default_rng(1)
    for _ in range(40):
        least, step, offset, size = (
            int(random.integers(*span)) for span in ((-900, 9), (1, 13), (0, 13), (1, 90))
        )
        by = int(random.integers(2, 9))
        x = value_set(least, least + step * size, step, offset)
        low = int(random.integers(-400 * by, 40))
        y = value_set(low, low + 400 * by, by, int(random.integers(0, 9)))
        assert y.size > sets.DIVISORS
        found = sets.modulo(x, y)
        assert all(holds(found, p % q if q else p) for p, q in product(x.values(), y.values())), (x, y, found)
