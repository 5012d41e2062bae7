"""Bounds under a guard: they hold for all values at which the condition does,
and are tight where accesses need it.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from uop_ir import Ops, UOp, VerifyError, dtypes
from uop_rewrite import bounds, bounds_given

R, Q, S, T = (UOp.range(size, number) for number, size in enumerate((12, 5, 12, 5)))
V = UOp.variable("v", -3, 9)


def number(value: int) -> UOp:
    return UOp.const(dtypes.index, value)


def within(low: int, node: UOp, high: int) -> UOp:
    return (number(low - 1) < node) & (node < high + 1)


LOADED = UOp.param(0, 4, dtypes.i32).index(number(0)).load().cast(dtypes.index)
PLAIN = UOp.param(0, 4, dtypes.i32).index(number(1)).load()


@pytest.mark.parametrize(
    ("condition", "node", "wanted"),
    [
        # a window of a padded image: two sums, each of two ranges
        (within(1, R + Q, 8) & within(1, S + T, 8), (R + Q) * 8 + (S + T) - 9, (0, 63)),
        (within(1, R + Q, 8) & within(1, S + T, 8), R * 8 + S + Q * 8 + T - 9, (0, 63)),
        (within(1, R + Q, 8), -R - Q, (-8, -1)),
        # a pixel that is not in the first column, in the second row or behind; a row
        ((number(4) < R) & (number(0) < R % 5), R - 6, (0, 5)),
        ((R % 5 < 4) & (R < 10), R, (0, 8)),
        (number(0) < R * 3 % 4, R * 24 - 24, (0, 240)),
        ((number(0) < R) & (number(0) < (R * 3 + 1) % 4), R * 24 - 25, (23, 239)),
        ((number(0) < R // 5) & (R // 5 < 2), R, (5, 9)),
        # the same with a stride of 2: of 14 * R + 7 * Q one
        # fact says something of 7 * R + 7 * Q, the other of all
        ((number(0) < R + Q) & (R * 2 + Q < 8), (R * 2 + Q) * 7, (7, 49)),
        # a position from the end of an axis of symbolic size
        (R < V, V - R - 1, (0, 8)),
        # a row that an integer in memory names
        (within(0, LOADED, 64), LOADED * 4 + Q, (0, 260)),
        (within(0, LOADED, 64) & (Q < 3), LOADED * 4 + Q, (0, 258)),
        # what a sum says of its terms, and their quotients and remainders
        (R + S < 7, R // 2, (0, 3)),
        (R + S < 7, R.maximum(S), (0, 6)),
        ((number(6) < R) & (R < 9), R % 7, (0, 1)),
        ((number(6) < R) & (R < 9), (R - 7) * 3, (0, 3)),
        ((R < S) & (S < 4), R, (0, 2)),
        (R.eq(S) & (S < 4), R, (0, 3)),
        # an integer that is compared as such
        ((PLAIN < 7) & (PLAIN.const_like(-1) < PLAIN), PLAIN.cast(dtypes.index) + 1, (1, 7)),
        # nothing is learned of others, or from an OR
        (R < 3, S, (0, 11)),
        ((R < 3) | (S < 3), R, (0, 11)),
    ],
    ids=str,
)
def test_what_a_condition_says(condition: UOp, node: UOp, wanted: tuple[int, int]) -> None:
    assert bounds_given(condition, node) == wanted


def test_vectors_and_values_without_order_have_their_plain_bounds() -> None:
    lanes = UOp(Ops.STACK, [number(i) for i in range(4)])
    assert bounds_given(R < 3, lanes + R) == bounds(lanes + R) == (0, 14)
    with pytest.raises(VerifyError, match="no bounds of f32"):
        bounds_given(R < 3, UOp.const(dtypes.f32, 1.0))


@pytest.mark.net
@settings(max_examples=150)
@given(data=st.data())
def test_they_hold_wherever_the_condition_does(kit: Any, data: st.DataObject) -> None:
    """Against every value of the variables, by the interpreter."""

    def expression() -> UOp:
        node: UOp = data.draw(kit.index_expressions((R, Q, V), most=6))
        return node if node.dtype is dtypes.index else node.where(R, V)

    def condition() -> UOp:
        low, high, sides = data.draw(st.integers(-8, 20)), data.draw(st.integers(-8, 20)), expression()
        made = (
            number(low) < sides,
            sides < high,
            sides.eq(high),
            high > R + Q,
            number(low) < V - R,
            (R % 5).eq(abs(low) % 5),
            number(abs(low) % 4) > V % 4,
            number(low) < V // 3,
        )
        return data.draw(st.sampled_from(made))

    guard, node = condition() & condition() & condition(), expression()
    for both in (guard, guard & (R < 4)):
        holds, found = kit.values([both, node])
        low, high = bounds_given(both, node)
        for value in found[holds.astype(bool)]:
            assert low <= value <= high
        for choice in (both.where(node, V), both.where(V, node)):
            (chosen,) = kit.values([choice])
            assert bounds(choice)[0] <= chosen.min() <= chosen.max() <= bounds(choice)[1]
