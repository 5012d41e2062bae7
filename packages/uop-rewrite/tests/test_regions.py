"""Regions: what is rewritten together is rewritten once, to a fixpoint, in linear time."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from uop_ir import Kind, Ops, UOp, dtypes
from uop_rewrite import BOOL, INDEX, Pattern, Region, Rule, RuleSet, build, const, graph_rewrite, linear, var

ARITHMETIC = (Ops.ADD, Ops.SUB, Ops.NEG, Ops.MUL)
SUMS = Region(
    "sums",
    (
        Pattern(Ops.ADD),
        Pattern(Ops.SUB),
        Pattern(Ops.NEG),
        Pattern(Ops.MUL, (var("x"), const("a"))),
    ),
    INDEX,
)
#: The nodes that "collect" was tried on.
tried: Counter[UOp] = Counter()


def collect(n: UOp) -> UOp:
    tried[n] += 1
    return build(linear(n))


RULES = [
    *(Rule("collect", Pattern(op, None, "n"), collect, types=INDEX) for op in ARITHMETIC),
    Rule(
        "div of multiple",
        Pattern(Ops.DIV, (Pattern(Ops.MUL, (var("x"), const("a"))), const("b"))),
        lambda x, a, b: x * (int(a.value) // int(b.value)),
        when=lambda a, b: b.value > 0 and a.value % b.value == 0,
        types=INDEX,
    ),
    Rule("maximum of itself", Pattern(Ops.MAX, (var("x"), var("x"))), lambda x: x, types=INDEX),
]
PLAIN, TOGETHER = RuleSet(RULES), RuleSet(RULES, [SUMS])
LEAVES = [UOp.range(3, 0), UOp.range(4, 1), UOp.variable("v", -2, 2)]


def outermost(root: UOp) -> list[UOp]:
    """The nodes of a graph that something outside of their region reads, the root among them."""
    nodes = root.toposort()
    read = {s for n in nodes for s in n.src if not (SUMS.has(n) and SUMS.has(s))}
    return [n for n in nodes if n in read or n is root or not SUMS.has(n)]


STEPS: dict[str, Any] = {
    "+": lambda p, q, k: p + q,
    "-": lambda p, q, k: p - q,
    "neg": lambda p, q, k: -p,
    "*": lambda p, q, k: p * k,
    "k*": lambda p, q, k: p.const_like(k) * p,
    "**": lambda p, q, k: p * q,
    "//": lambda p, q, k: p // k,
    "max": lambda p, q, k: p.maximum(q),
}
PROGRAMS = st.lists(
    st.tuples(st.sampled_from(list(STEPS)), st.integers(0, 99), st.integers(0, 99), st.integers(-2, 3)),
    min_size=1,
    max_size=9,
)


def graph(program: list[tuple[str, int, int, int]]) -> UOp:
    """A graph in which earlier nodes are shared at random; the root reads the last two."""
    made = list(LEAVES)
    for name, p, q, k in program:
        made.append(STEPS[name](made[p % len(made)], made[-1 - q % 3], k))
    return made[-1].maximum(made[-2])


@pytest.mark.net
@given(PROGRAMS)
@settings(max_examples=300)
def test_regions_keep_the_values_and_leave_nothing_to_do(kit: Any, program: Any) -> None:
    before = graph(program)
    after = graph_rewrite(before, TOGETHER)
    kit.agree(before, after)
    kit.agree(before, graph_rewrite(before, PLAIN))
    assert all(TOGETHER.rewrite(n) is None for n in outermost(after))
    assert graph_rewrite(after, TOGETHER) is after


def test_the_rules_of_a_region_run_on_its_outermost_node() -> None:
    r, q, v = LEAVES
    before = ((r + q) * 4 - v + r).maximum(3)
    tried.clear()
    after = graph_rewrite(before, TOGETHER)
    total = build(linear(before.src[0]))
    assert after is total.maximum(3)
    assert tried == {before.src[0]: 1, total: 1}


def test_what_others_read_is_a_root_of_its_own() -> None:
    r, q, v = LEAVES
    shared = r + q + r
    before = (shared + v) * (shared // 5)
    after = graph_rewrite(before, TOGETHER)
    assert after is build(linear(shared + v)) * (build(linear(shared)) // 5)


def test_a_leaf_that_becomes_a_sum_joins_the_region() -> None:
    r, q, v = LEAVES
    before = (((r * 4 + v * 0) * 2) // 8 + q - r).maximum(1)
    assert graph_rewrite(before, TOGETHER) is q.maximum(1)


def test_regions_of_two_kinds_do_not_mix() -> None:
    """A sum under a comparison under a conjunction: each region ends where the next begins."""
    r, q, v = LEAVES
    seen: list[UOp] = []

    def watch(n: UOp) -> None:
        seen.append(n)

    both = RuleSet(
        [Rule("watch", Pattern(op, None, "n"), watch, types=INDEX | BOOL) for op in (Ops.ADD, Ops.AND)],
        [Region("sums", (Pattern(Ops.ADD),), INDEX), Region("clauses", (Pattern(Ops.AND),), BOOL)],
    )
    first, second = r + q + v, r + v + 1
    before = (first < 3) & (second < 4) & (v < 1)
    assert graph_rewrite(before, both) is before
    assert seen == [first, second, before]


def test_sets_with_regions_are_joined() -> None:
    joined = RuleSet(RULES, [SUMS]) + RuleSet([], [SUMS])
    assert joined.regions == (SUMS,)
    assert (PLAIN + TOGETHER).region(LEAVES[0] + 1) is SUMS
    assert TOGETHER.region(LEAVES[0] * LEAVES[1]) is None
    assert TOGETHER.region(UOp.param(0, 4, dtypes.i32) + 1) is None
    assert Kind.INDEX in SUMS.types


def sums(n: int) -> UOp:
    total = UOp.variable("v0", 0, 3)
    for i in range(1, n):
        total = total + UOp.variable(f"v{i}", 0, 3) * i
    return total


def nested(n: int, swap: bool) -> UOp:
    total = UOp.variable("v0", 0, 3)
    for _ in range(n):
        total = total // 3 + total if swap else total + total // 3
    return total


@pytest.mark.parametrize(
    "make", [sums, lambda n: nested(n, False), lambda n: nested(n, True)], ids=["sum", "nested", "swapped"]
)
def test_the_work_is_linear(make: Any) -> None:
    """Calls of functions, of Python and of C, where no rule applies."""
    counts = []
    idle = [Rule("idle", Pattern(op, None, "n"), lambda: None, types=INDEX) for op in (*ARITHMETIC, Ops.DIV)]
    for n in (100, 1000):
        root, calls = make(n), Counter[str]()
        rules = RuleSet(idle, [SUMS])
        before = sys.getprofile()
        sys.setprofile(lambda frame, event, arg, calls=calls: calls.update([event]))  # type: ignore[misc]
        try:
            assert graph_rewrite(root, rules) is root
        finally:
            sys.setprofile(before)
        counts.append(calls["call"] + calls["c_call"])
    assert counts[1] < 11 * counts[0]


@given(PROGRAMS)
def test_a_set_that_remembers_gives_the_same(program: Any) -> None:
    before = graph(program)
    wanted = graph_rewrite(before, TOGETHER)
    remembering = TOGETHER.remembering()
    for node in [*before.toposort(), before, wanted]:  # parts first, so that much is known of the whole
        assert graph_rewrite(node, remembering) is graph_rewrite(node, TOGETHER)


def test_what_is_remembered_is_not_entered_again() -> None:
    before = graph([("+", 0, 1, 0), ("*", 1, 3, 3), ("//", 1, 0, 2), ("max", 2, 1, 0)])
    remembering = TOGETHER.remembering()
    after = graph_rewrite(before, remembering)
    tried.clear()
    assert graph_rewrite(after, remembering) is after
    assert not tried
