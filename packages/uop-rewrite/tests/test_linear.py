"""Linear forms: what they hold, one canonical node for each, and division of their parts."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from uop_ir import Ops, UOp, dtypes
from uop_rewrite import Linear, build, graph_rewrite, linear, symbolic

R, Q, P = UOp.range(6, 0), UOp.range(4, 1), UOp.range(30, 2)
V, W = UOp.variable("v", -3, 5), UOp.variable("w", 1, 3)
TERMS = (R, Q, V, W, V * W, V // 3)
forms = st.builds(
    lambda ks, c: Linear(tuple((t, k) for t, k in zip(TERMS, ks, strict=True) if k), c),
    st.lists(st.integers(-4, 4), min_size=len(TERMS), max_size=len(TERMS)),
    st.integers(-9, 9),
)


def test_the_form_of_a_sum() -> None:
    form = linear((R * 3 + Q - V) * 2 - (R - 5) - -Q)
    assert dict(form.terms) == {R: 5, Q: 3, V: -2}
    assert form.constant == 5
    assert linear(R - R) == Linear((), 0)


def test_the_node_of_a_form_reads_like_a_persons() -> None:
    assert build(linear(1 + Q + R * 4)) is R * 4 + Q + 1
    assert build(linear(-V + R)) is R - V
    assert build(linear(-(V * 2) - 3)) is V * -2 - 3
    assert build(linear(-(V * 2) - 2)) is V * -2 + -2  # one constant, not two
    assert build(linear(-V)) is -V
    assert build(Linear((), 7)) is UOp.const(dtypes.index, 7)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # x * (c + 1) // c == x + x // c
        ((R * 3 + Q) // 2, R + (R + Q) // 2),
        ((R * 3 + V) // 2 % 5, (R + (R + V) // 2) % 5),
        # (x // c + z) % b * c + x % c == (x + c * z) % (b * c)
        ((P // 3 + 4) % 5 * 3 + P % 3, (P + 12) % 15),
        (((R * 5 + V) // 2 + Q - 3) % 4 * 6 + (R + V) % 2 * 3, (R * 5 + V + Q * 2 - 6) % 8 * 3),
        # a quotient in a quotient stays where one quotient takes more nodes
        ((R // 5 + R // 4 + R) // 8, (R // 5 + R // 4 + R) // 8),
        # a choice has the shorter of a condition and its negation
        ((V < V * W + 1).where(R, Q), (V * W < V).where(Q, R)),
        ((R < Q + 1).where(UOp.const(dtypes.index, 7), V), (Q < R).where(V, 7)),
        ((Q < R).ne(True).where(V, 0), (Q < R).where(UOp.const(dtypes.index, 0), V)),
        ((Q < R).ne(True).where(V.maximum(0), 4), (Q < R).where(UOp.const(dtypes.index, 4), V.maximum(0))),
    ],
    ids=str,
)
def test_fewer_nodes(kit: Any, before: UOp, after: UOp) -> None:
    new = graph_rewrite(before, symbolic)
    assert new is graph_rewrite(after, symbolic)
    assert len(new.toposort()) <= len(after.toposort())
    kit.agree(before, new)


def test_a_sum_goes_on_where_the_one_before_it_ends(kit: Any) -> None:
    """Remainders of sums are opened: each sum has all terms of the one before, and shares them."""
    x = P
    for k in range(12):
        x = ((x * 3 + (R, Q)[k % 2]) // 2) % 30
    new = graph_rewrite(x, symbolic)
    assert len(new.toposort()) <= len(x.toposort())
    kit.agree(x, new)


def test_a_mask_is_no_choice_the_other_way_round() -> None:
    memory = UOp.param(0, 8, dtypes.i32)
    for value in (V.cast(dtypes.i32), memory.index(R).load(), memory.index(R).load().cast(dtypes.index)):
        mask = (R < Q + 1).where(value, 0)
        assert graph_rewrite(mask, symbolic) is mask


def test_ranges_of_one_number_have_one_order() -> None:
    other = UOp.range(9, 0)
    assert build(linear(R + other)) is build(linear(other + R))


def test_what_is_known_of_nodes_does_not_keep_them_alive() -> None:
    def rewritten() -> list[weakref.ref[UOp]]:
        r, q, v = UOp.range(13, 771), UOp.range(5, 772), UOp.variable("mortal", -3, 9)
        mask = (r + q < 9) & (r < 7) & ((r * 2 + q) // 4 < 3) & (v + r < 8) | q.eq(v)
        before = mask.where(r * 5 + q, v // 3 + (r % 4).maximum(q))
        nodes = {*before.toposort(), *graph_rewrite(before, symbolic).toposort()}
        return [weakref.ref(n) for n in nodes if n.op is not Ops.CONST]

    gc.disable()
    try:
        assert [ref() for ref in rewritten() if ref() is not None] == []
    finally:
        gc.enable()


@given(form=forms)
def test_build_and_back(form: Linear) -> None:
    back = linear(build(form))
    assert dict(back.terms) == dict(form.terms)
    assert back.constant == form.constant
    assert build(back) is build(form)
    assert build(Linear(form.terms[::-1], form.constant)) is build(form)


@settings(max_examples=50)
@given(form=forms, divisor=st.integers(1, 6))
def test_split_and_interval(kit: Any, form: Linear, divisor: int) -> None:
    quotient, rest = form.split(divisor)
    assert 0 <= rest.constant < divisor
    assert all(k % divisor for _, k in rest.terms)
    kit.agree(build(form), build(quotient) * divisor + build(rest))
    lo, hi = form.interval()
    found = kit.values([build(form)])[0]
    assert lo <= found.min() <= found.max() <= hi


def test_shared_sums_are_entered_once() -> None:
    node: UOp = R
    for _ in range(60):
        node = node + node
    assert linear(node) == Linear(((R, 1 << 60),), 0)


def test_equal_indices_become_one_node() -> None:
    """What lowering relies on: reshapes there and back, padding and flips cancel."""

    def simple(node: UOp) -> UOp:
        return graph_rewrite(node, symbolic)

    flat = R * 4 + Q
    assert simple(flat // 4) is R
    assert simple(flat % 4) is Q
    assert simple(flat // 2 % 2 * 2 + flat % 2) is Q
    assert simple(flat // 2 * 2 + flat % 2) is simple(flat)
    assert simple(flat // 8 * 8 + flat // 4 % 2 * 4 + flat % 4) is simple(flat)
    assert simple(5 - (5 - R)) is R
    assert simple((R + 2 < 2).ne(True)) is UOp.const(dtypes.bool, True)
    assert simple(flat < 24) is UOp.const(dtypes.bool, True)
    assert simple(flat < 8) is (R < 2)
    assert simple(flat + V < flat + 1) is (V < 1)
    assert simple(R * -4 < -8) is (UOp.const(dtypes.index, 2) < R)
    assert simple(V < R) is (V < R)
    assert simple(R.cast(dtypes.i32) * 4 + 3).op is Ops.CAST
