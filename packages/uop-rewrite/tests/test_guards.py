"""Simplification under a guard: conjunctions,
choices and validity masks, for all values of their variables.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from uop_ir import Ops, UOp, dtypes
from uop_rewrite import bounds, bounds_given, graph_rewrite, symbolic

R, Q = UOp.range(12, 0), UOp.range(5, 1)
V, W = UOp.variable("v", -3, 9), UOp.variable("w", 0, 6)
B = UOp.range(2, 2)
TRUE, FALSE = UOp.const(dtypes.bool, True), UOp.const(dtypes.bool, False)
TWO = UOp.const(dtypes.index, 2)


def simple(node: UOp) -> UOp:
    return graph_rewrite(node, symbolic)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # clauses about one sum
        ((R < 7) & (R < 5), R < 5),
        ((TWO < R) & (R < 4), R.eq(3)),
        ((TWO < R) & (R < 3), FALSE),
        ((R < 5) | (R < 7), R < 7),
        ((TWO < R) | (R < 3), TRUE),
        ((R + Q < 7) & (Q + R < 5) & (R < 12), R + Q < 5),
        # clauses that others imply, or exclude
        ((R < 3) & (R * 2 + Q < 20), R < 3),
        ((R < 3) & (R - Q < 3), R < 3),
        ((R < 3) & R.eq(4), FALSE),
        ((R < 3) & R.ne(4), R < 3),
        # what several say of the terms of a sum, together
        ((R < 3) & (Q < 2) & (R * 5 + Q < 12), (R < 3) & (Q < 2)),
        ((R < 3) & (TWO < Q) & (Q < R * 2 + 1), (R < 3) & (TWO < Q) & (Q < R * 2 + 1)),
        ((TWO < R) & (Q < 2) & (Q < R * 2 - 3), (TWO < R) & (Q < 2)),
        ((R * 2 < 6) & (R < 5), R < 3),
        # what a clause says of a term alone, given the bounds of the others
        ((R < Q) & (R < 4), R < Q),
        ((R < 3) & (R < Q) & (R < 4), (R < 3) & (R < Q)),
        ((Q < W) & (R < Q) & (R < 4), (Q < W) & (R < Q)),
        ((R * 2 < Q - 2) & (R + W < 7), R * 2 < Q - 2),
        ((R < B) & (Q < R), FALSE),
        ((R < Q) & (Q < W) & (W < 2), FALSE),
        ((R < Q) & (R.eq(V) | (V < 9)) & V.eq(9), (R < Q) & V.eq(9) & R.eq(9)),
        ((V < (-R) // 6) & ((B - R).maximum(V) < V * -4), V < (-R) // 6),
        ((R < Q).where(R // 4, 1), (R < Q).where(R.const_like(0), 1)),
        ((Q < R + 1).where(R.const_like(7), R // 4), (R < Q).where(R.const_like(0), 7)),
        # a remainder in several clauses
        ((R < 4) & (TWO < (R + Q) % 9) & ((R + Q) % 9 < 6), (R < 4) & (TWO < R + Q) & (R + Q < 6)),
        # an expression under a clause
        ((R < 4) & (R // 4).eq(Q), (R < 4) & Q.eq(0)),
        ((R < 4).where(R % 4, 7), (R < 4).where(R, 7)),
        ((R < 4).where(R.const_like(7), R.maximum(4)), (R < 4).where(R.const_like(7), R)),
        (((TWO < R + Q) & (R + Q < 11)).where((R + Q - 3) // 8, Q), ((TWO < R + Q) & (R + Q < 11)).where(R.const_like(0), Q)),
        ((V < 2).where((V < 2).where(R, Q), W), (V < 2).where(R, W)),
        ((V < 2).where(R, (V < 2).where(Q, W)), (V < 2).where(R, W)),
    ],
    ids=str,
)  # fmt: skip
def test_what_a_guard_says(kit: Any, before: UOp, after: UOp) -> None:
    assert simple(before) is simple(after)
    kit.agree(before, simple(before))


def test_a_position_under_its_validity() -> None:
    memory = UOp.param(0, 64, dtypes.f32)
    valid = (R < 8) & (TWO < R)
    assert simple(memory.index((R - 3) % 8 * 4 + Q, valid)) is simple(memory.index(R * 4 - 12 + Q, valid))


def test_a_validity_that_is_decided(kit: Any) -> None:
    memory = UOp.param(0, 64, dtypes.f32)
    for valid, after in ((R < 20, memory.index(R).load()), (R < 0, memory.const_like(0.0))):
        before = memory.index(R, valid).load()
        assert simple(before) is after
        kit.agree(before, after)
    assert simple(memory.index(R, R < 0)) is not memory.index(R)


def test_one_iteration_is_a_constant_to_those_who_use_it(kit: Any) -> None:
    one, memory, n = UOp.range(1, 9), UOp.param(0, 64, dtypes.f32), UOp.variable("n", 1, 4)
    zero = UOp.const(dtypes.index, 0)
    for before, after in (
        (memory.index(one).load(), memory.index(zero).load()),
        (one.cast(dtypes.f32), UOp.const(dtypes.f32, 0.0)),
        (one // n, zero),
        (one % n, zero),
        (one * n, zero),
    ):
        assert simple(before) is after
        kit.agree(before, after)


def test_a_condition_within_its_own_choice(kit: Any) -> None:
    zero = UOp.const(dtypes.index, 0)
    p, q = (UOp.param(slot, 1, dtypes.bool).index(zero).load() for slot in (0, 1))
    for before, after in ((p.where(p, q), p | q), (p.where(q, p), p & q)):
        assert simple(before) is after
        kit.agree(before, after)


@settings(max_examples=40)
@given(low=st.integers(-3, 6), high=st.integers(-3, 14), k=st.integers(1, 9), m=st.integers(1, 9))
def test_accesses_under_a_mask(kit: Any, low: int, high: int, k: int, m: int) -> None:
    """Masks with every edge, empty ones too: what is read, and where nothing is read 0, stays as it was."""
    memory = UOp.param(0, 64, dtypes.f32)
    v = V
    valid = (UOp.const(dtypes.index, low) < v) & (v < high)
    for at in (
        (V - low) % k * m % 64,
        (V + R) // k % m + R,
        (V - low - 1).maximum(0) % 64,
    ):
        before = memory.index(at, valid).load()
        kit.agree(before, simple(before))


def test_no_access_is_simplified_under_a_choice() -> None:
    """A LOAD is done whatever the condition says: its position has to stay inside of the memory."""
    load = UOp.param(0, 4, dtypes.f32).index(R % 4).load()
    before = (R < 4).where(load, load.const_like(0))
    assert simple(before) is before
    assert simple((R < 4) & (UOp.param(0, 4, dtypes.i32).index(R % 4).load() < 1)).op is Ops.AND
    assert R % 4 in simple((R < 4) & (UOp.param(0, 4, dtypes.i32).index(R % 4).load() < 1)).toposort()


@pytest.mark.net
@settings(max_examples=60)
@given(data=st.data())
def test_random_guards(kit: Any, data: st.DataObject) -> None:
    """Conjunctions, disjunctions and choices of random comparisons."""

    def number(depth: int = 2) -> UOp:
        leaf = data.draw(st.sampled_from([R, Q, V, W]))
        if not depth:
            return leaf
        k = data.draw(st.integers(1, 7))
        return data.draw(
            st.sampled_from(
                [leaf, leaf * k, leaf + k, leaf // k, leaf % k, leaf + number(depth - 1), leaf * k - V]
            )
        )

    def condition() -> UOp:
        made = number() < data.draw(st.integers(-4, 16))
        return data.draw(st.sampled_from([made, made.ne(True), number().eq(number(0))]))

    both = condition() & condition() & condition()
    either = condition() | condition()
    for before in (both, either, both.where(number(), number()), (both | either).where(number(), number())):
        kit.agree(before, simple(before))
        assert simple(simple(before)) is simple(before)


def test_a_variable_of_any_name_may_stand_under_a_guard(kit: Any) -> None:
    """Terms under a guard are taken for variables for a time, whose names a program may have, too."""
    w = UOp.variable("_given0", 0, 3)
    before = (R < 4).where(R % 4 + w % 4 * R, w)
    kit.agree(before, simple(before))


def test_choices_of_conditions_that_are_no_comparisons(kit: Any) -> None:
    p, q = kit.scalar("p", dtypes.bool), kit.scalar("q", dtypes.bool)
    for before in (
        (p | q) | p,
        p | p.ne(True),
        (p & q) | (q & p),
        p | (q & p.ne(True)),
        (p | q) & (p | q).ne(True),
    ):
        kit.agree(before, simple(before))
    assert simple((p | q) | p) is simple(p | q)
    assert simple(p | (q | p.ne(True))) is TRUE


@pytest.mark.net
def test_many_clauses_take_time_in_proportion() -> None:
    """Two clauses about each of 2,000 variables, and as many about one."""
    wide = UOp.variable("wide", 0, 10_000)
    node, one = R < 9, R < 9
    for i in range(2000):
        v = UOp.variable(f"v{i}", 0, 9)
        node = node & (v < 5) & (v < 4)
        one = one & (wide < 5000 - i)
    assert len(simple(node).toposort()) < 3 * 2000 + 10
    assert simple(one) is simple((R < 9) & (wide < 3001))


def test_what_is_known_of_an_element_says_nothing_of_another(kit: Any) -> None:
    """A condition on x, and x in another order: found by random tensors."""
    x = UOp.param(0, 4, dtypes.i32)
    flags = UOp.param(1, 4, dtypes.bool)
    square = flags.reshape((2, 2))
    moved = (x < 5).where(x.flip((True,)), 0)
    assert bounds(moved) == (dtypes.i32.min, dtypes.i32.max)
    for before in (
        moved.shrink(((2, 3),)).reshape(()) < 7,
        flags & flags.flip((True,)),
        flags | flags.flip((True,)),
        flags.where(flags.flip((True,)), flags),
        square | (square ^ square.permute((1, 0))).shrink(((0, 1), (1, 2))),
        UOp(Ops.STACK, (x < 5, x < 6)) & (x < 5),
    ):
        kit.agree(before, simple(before))


def test_choices_within_choices_take_time_in_proportion(kit: Any) -> None:
    x, ys = UOp.variable("x", 0, 999), [UOp.variable(f"y{i}", 0, 99) for i in range(3)]
    chosen, other = x, x
    for i in range(200):
        chosen = (x < 500 - 2 * i).where(ys[i % 3], chosen)
        other = (ys[i % 3] < 50).where(ys[(i + 1) % 3] + i, other + 1)
    assert simple(chosen).shape == simple(other).shape == ()


def test_sums_of_many_quotients_take_time_in_proportion() -> None:
    total, parts = UOp.const(dtypes.index, 0), UOp.const(dtypes.index, 0)
    for i in range(1000):
        v = UOp.variable(f"v{i}", 0, 99)
        total, parts = total + v // 3, parts + v // 4 * 4 + v % 4
    assert simple(total < 1000).op is Ops.CMPLT
    assert simple(parts).op is Ops.ADD


def test_prefixes_of_a_sum_share_their_nodes() -> None:
    total, sums = UOp.variable("x0", 0, 9), []
    for i in range(1, 41):
        total = total + UOp.variable(f"x{i}", 0, 9)
        sums.append(total)
    assert len(simple(UOp.sink(*sums)).toposort()) == 41 + 40 + 1


@pytest.mark.parametrize("op", [Ops.AND, Ops.OR])
def test_clauses_of_a_shared_condition(op: Ops) -> None:
    """Written out, the condition has 2**60 clauses; there are two."""
    p, q = (UOp.variable(name, 0, 9) for name in "pq")
    one, other = p < 5, q < 5
    both = UOp(op, (one, other))
    for _ in range(60):
        one, other = UOp(op, (one, other)), UOp(op, (other, one))
    assert graph_rewrite(one, symbolic) is graph_rewrite(both, symbolic)
    assert bounds(one.where(p, q)) == bounds(both.where(p, q))
    assert bounds_given(one, p) == bounds_given(both, p)


@pytest.mark.parametrize("size", [W, R], ids=["a variable", "another range"])
def test_a_range_keeps_its_size_under_a_condition_about_it(size: UOp) -> None:
    """A range of another size would be another one, which nothing closes."""
    inner = UOp.range(size, 7)
    node = size.eq(TWO).where(inner % 2, UOp.const(dtypes.index, 5))
    assert {n for n in simple(node).toposort() if n.op is Ops.RANGE and n.arg[0] == 7} <= {inner}
