"""The orders of a rewrite: what each tries first, where each ends, each node once."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uop_ir import Ops, UOp, UopError, dtypes
from uop_rewrite import Order, Pattern, Rule, RuleSet, const, graph_rewrite, symbolic, var

X, Y = UOp.param(0, 4, dtypes.i32), UOp.param(1, 4, dtypes.i32)
x, y, a = var("x"), var("y"), const("a")
ORDERS: tuple[Order, ...] = ("bottom-up", "top-down", "single-walk")


def op(which: Ops, *src: Pattern) -> Pattern:
    return Pattern(which, src)


WHOLE = Rule("whole", op(Ops.NEG, op(Ops.ADD, x, y)), lambda x, y: x - y)
PART = Rule("part", op(Ops.ADD, x, y), lambda x, y: x * y)


def test_bottom_up_and_top_down_meet_a_term_at_its_two_ends() -> None:
    rules = RuleSet([WHOLE, PART])
    assert graph_rewrite(-(X + Y), rules) is -(X * Y)
    assert graph_rewrite(-(X + Y), rules, order="top-down") is X - Y
    assert graph_rewrite(-(X + Y), rules, order="single-walk") is -(X * Y)


def test_top_down_comes_back_to_a_node_whose_sources_changed() -> None:
    rules = RuleSet([Rule("neg of mul", op(Ops.NEG, op(Ops.MUL, x, y)), lambda x, y: x), PART])
    assert graph_rewrite(-(X + Y) - 1, rules, order="top-down") is X - 1


def test_a_single_walk_leaves_what_a_rule_made() -> None:
    twice = RuleSet(
        [Rule("down", op(Ops.ADD, x, a), lambda x, a: x + (a.value - 1), when=lambda a: a.value > 0)]
    )
    before = ((X + 3) * (X + 3)).maximum(X + 5)
    assert graph_rewrite(before, twice, order="single-walk") is ((X + 2) * (X + 2)).maximum(X + 4)
    assert graph_rewrite(before, twice) is ((X + 0) * (X + 0)).maximum(X + 0)


def test_a_single_walk_may_put_a_node_into_what_replaces_it() -> None:
    wrap = RuleSet([Rule("wrap", op(Ops.ADD, x, y).named("n"), lambda n: -n)])
    assert graph_rewrite((X + Y) + X, wrap, order="single-walk") is -(-(X + Y) + X)


@pytest.mark.net
@pytest.mark.parametrize("order", ORDERS)
def test_each_node_once_without_recursion_and_the_same_where_nothing_applies(order: Order) -> None:
    shared = X
    for _ in range(200):
        shared = shared - shared  # 2**200 paths
    deep = X
    for _ in range(30_000):
        deep = -deep
    calls: list[UOp] = []
    watch = RuleSet([Rule("watch", Pattern(None, None, "n"), lambda n: calls.append(n))])
    assert graph_rewrite(shared, watch, order=order) is shared
    assert sorted(map(id, calls)) == sorted(map(id, shared.toposort()))
    assert graph_rewrite(deep, RuleSet([PART]), order=order) is deep


def test_another_order_is_refused() -> None:
    order: Any = "sideways"
    with pytest.raises(UopError, match=r"no order 'sideways'.*bottom-up, top-down, single-walk"):
        graph_rewrite(X, RuleSet([]), order=order)


STEPS: dict[str, Any] = {
    "+": lambda p, q, k: p + q,
    "-": lambda p, q, k: p - q,
    "*": lambda p, q, k: p * k,
    "//": lambda p, q, k: p // k,
    "%": lambda p, q, k: p % k,
    "max": lambda p, q, k: p.maximum(q),
    "where": lambda p, q, k: (p < k).where(p, q),
}


@given(
    st.lists(
        st.tuples(st.sampled_from(list(STEPS)), st.integers(0, 9), st.integers(0, 9), st.integers(-2, 4)),
        min_size=1,
        max_size=6,
    )
)
def test_top_down_ends_where_no_rule_applies(kit: Any, program: list[tuple[str, int, int, int]]) -> None:
    made = [UOp.range(3, 0), UOp.range(4, 1), UOp.variable("v", -2, 2)]
    for name, p, q, k in program:
        made.append(STEPS[name](made[p % len(made)], made[-1 - q % 3], k))
    plain = RuleSet(symbolic.rules)
    after = graph_rewrite(made[-1], plain, order="top-down")
    kit.agree(made[-1], after)
    assert all(plain.rewrite(n) is None for n in after.toposort())
