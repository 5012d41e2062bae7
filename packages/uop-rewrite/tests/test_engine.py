"""Matching and the engine: fixpoints, sharing, deep graphs, rules that never end."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from uop_ir import Kind, Ops, UOp, UopError, dtypes
from uop_rewrite import (
    ANY,
    INDEX,
    INTEGERS,
    Pattern,
    RewriteError,
    Rule,
    RuleSet,
    bounds,
    bounds_given,
    const,
    graph_rewrite,
    matches,
    observing,
    symbolic,
    var,
)

V = UOp.variable("v", 0, 9)
X, Y = UOp.param(0, 4, dtypes.i32), UOp.param(1, 4, dtypes.i32)
x, y = var("x"), var("y")


class Log:
    """An observer that writes all down."""

    def __init__(self, times: bool = False) -> None:
        self.times = times
        self.events: list[tuple[Any, ...]] = []
        self.seconds: list[float] = []

    def started(self, root: UOp, rules: RuleSet, order: str) -> None:
        self.events.append(("started", root, rules, order))

    def applied(self, rule: Rule, before: UOp, after: UOp) -> None:
        self.events.append(("applied", rule, before, after))

    def tried(self, rule: Rule, seconds: float, hit: bool) -> None:
        self.events.append(("tried", rule, hit))
        self.seconds.append(seconds)

    def finished(self, root: UOp, result: UOp | None) -> None:
        self.events.append(("finished", root, result))


def op(which: Ops, *src: Pattern) -> Pattern:
    return Pattern(which, src)


SWAP = Rule("add to mul", op(Ops.ADD, x, y), lambda x, y: x * y)


def test_names_bind_nodes() -> None:
    node = X - Y
    assert list(matches(op(Ops.SUB, x, y).named("n"), node)) == [{"n": node, "x": X, "y": Y}]
    assert not list(matches(op(Ops.ADD, x, y), node))
    assert not list(matches(Pattern(Ops.SUB, (x,)), node))


@pytest.mark.parametrize("which", [Ops.ADD, Ops.MUL, Ops.AND, Ops.OR, Ops.XOR, Ops.CMPEQ, Ops.CMPNE])
def test_commutative_ops_match_both_ways(which: Ops) -> None:
    pattern = op(which, x, const("a"))
    three = X.const_like(3)
    for node in (X.alu(which, 3), three.alu(which, X)):
        assert list(matches(pattern, node)) == [{"x": X, "a": three}]


@pytest.mark.parametrize("which", [Ops.SUB, Ops.DIV, Ops.MOD, Ops.MAX, Ops.CMPLT])
def test_other_ops_match_one_way(which: Ops) -> None:
    assert not list(matches(op(which, x, const("a")), X.const_like(3).alu(which, X)))


def test_a_repeated_name_is_one_node() -> None:
    assert list(matches(op(Ops.ADD, x, x), X + X)) == [{"x": X}]
    assert not list(matches(op(Ops.ADD, x, x), X + Y))
    assert list(matches(op(Ops.MUL, op(Ops.ADD, x, y), y), Y * (Y + X))) == [{"x": X, "y": Y}]


def test_the_condition_chooses_among_matches() -> None:
    rule = Rule("left", op(Ops.ADD, x, y), lambda x, y: x - y, when=lambda y: y is X)
    assert rule.apply(X + Y) is Y - X
    assert rule.apply(Y + Y) is None


def test_types_are_those_of_a_comparisons_operands() -> None:
    rule = Rule("less", op(Ops.CMPLT, x, y), lambda x, y: y < x, types=INDEX)
    v = UOp.variable("v", 0, 3)
    assert rule.apply(v < 2) is not None
    assert rule.apply(X < 2) is None
    assert Rule("void", Pattern(Ops.SINK), lambda: UOp.sink(), types=ANY).apply(UOp.sink(X)) is UOp.sink()


def test_context_is_passed_to_those_who_ask() -> None:
    rule = Rule("ctx", op(Ops.ADD, x, y), lambda ctx, y: ctx[y], when=lambda ctx, y: y in ctx)
    assert graph_rewrite(X + Y, RuleSet([rule]), {Y: X * X}) is X * X
    assert graph_rewrite(X + Y, RuleSet([rule]), {}) is X + Y


def test_rules_are_tried_in_order_and_sets_are_joined() -> None:
    other = RuleSet([Rule("add to sub", op(Ops.ADD, x, y), lambda x, y: x - y)])
    assert graph_rewrite(X + Y, RuleSet([SWAP]) + other) is X * Y
    assert graph_rewrite(X + Y, other + RuleSet([SWAP])) is X - Y
    anything = RuleSet([Rule("any", Pattern(name="x"), lambda x: Y if x is X else None), SWAP])
    assert graph_rewrite(X + X, anything) is Y * Y


def test_nothing_to_do_gives_the_same_node() -> None:
    node = (X * Y).reshape((2, 2)).permute((1, 0)).reduce(Ops.ADD, 1)
    assert graph_rewrite(node, RuleSet([SWAP])) is node
    assert graph_rewrite(node, RuleSet([])) is node


def test_rewrites_to_a_fixpoint_through_new_nodes() -> None:
    rules = RuleSet([
        SWAP,
        Rule("neg to add", op(Ops.NEG, x), lambda x: -(x + x) if x.op is not Ops.MUL else x - 1),
    ])  # fmt: skip
    assert graph_rewrite(-X, rules) is (X * X) - 1


def test_shared_nodes_are_rewritten_once() -> None:
    node = X
    for _ in range(200):
        node = node + node  # 2**200 paths
    log = Log()
    with observing(log):
        after = graph_rewrite(node, RuleSet([SWAP]))
    calls = Counter(event[2] for event in log.events if event[0] == "applied")
    assert len(after.toposort()) == 201
    assert len(calls) == 200
    assert set(calls.values()) == {1}


def test_an_observer_sees_each_rewrite() -> None:
    log, rules = Log(), RuleSet([SWAP])
    before, after = (X + Y) - 1, (X * Y) - 1
    with observing(log):
        assert graph_rewrite(before, rules) is after
    graph_rewrite(X + 1, rules)
    assert log.events == [
        ("started", before, rules, "bottom-up"),
        ("applied", SWAP, X + Y, X * Y),
        ("finished", before, after),
    ]


def test_an_observer_of_times_sees_each_rule_that_is_tried() -> None:
    never = Rule("never", op(Ops.ADD, x, y), lambda: None)
    log = Log(times=True)
    with observing(log):
        graph_rewrite(X + Y, RuleSet([never, SWAP]))
    assert [e for e in log.events if e[0] == "tried"] == [("tried", never, False), ("tried", SWAP, True)]
    assert all(seconds > 0 for seconds in log.seconds)


def test_the_inner_observer_stands_in_for_the_outer_one_until_it_leaves() -> None:
    wrong = Rule("to float", op(Ops.ADD, x, y), lambda x: x.cast(dtypes.f32))
    outer, inner = Log(), Log()
    with observing(outer):
        with observing(inner), pytest.raises(RewriteError):
            graph_rewrite(X + Y, RuleSet([wrong]))
        graph_rewrite(X, RuleSet([]))
    assert inner.events[-1] == ("finished", X + Y, None)
    assert [e[0] for e in outer.events] == ["started", "finished"]


@pytest.mark.net
def test_deep_chains() -> None:
    node = X
    for _ in range(100_000):
        node = -node
    other = RuleSet([Rule("other leaf", Pattern(Ops.PARAM, (), "n"), lambda n: Y if n is X else None)])
    after = graph_rewrite(node, other).toposort()
    assert len(after) == 100_001
    assert next(iter(after)) is Y


def test_a_rule_may_move_down_a_deep_chain() -> None:
    """Each replacement is rewritten within the one before:
    the depth is that of the graph, not growth without end.
    """
    node = X
    for _ in range(5000):
        node = node + Y
    down = RuleSet([Rule("neg down", op(Ops.NEG, op(Ops.ADD, x, y)), lambda x, y: -x - y)])
    after = graph_rewrite(-node, down)
    assert len(after.toposort()) == 2 + 5000 + 1


def test_rules_that_feed_each_other() -> None:
    rules = RuleSet([SWAP, Rule("mul to add", op(Ops.MUL, x, y), lambda x, y: x + y)])
    with pytest.raises(RewriteError, match=r"add to mul.*mul to add|mul to add.*add to mul"):
        graph_rewrite((X + Y) - 1, rules)


@pytest.mark.parametrize(
    "grow",
    [
        lambda x, a: x + a + a,
        lambda x, a: x + (a.value + 1),
        lambda x, a: -(x + (a.value + 1)),
        lambda x, a: (x + (a.value + 1)) * (x + (a.value + 2)),
        lambda x, a: (-x) + a,
    ],
)
def test_rules_that_grow(grow: Any) -> None:
    rules = RuleSet([Rule("grow", op(Ops.ADD, x, const("a")), grow)])
    with pytest.raises(RewriteError, match="grow") as error:
        graph_rewrite((X + 1) * 2, rules)
    assert isinstance(error.value, UopError)


def test_another_dtype_is_a_mistake_of_the_rule() -> None:
    rules = RuleSet([Rule("to float", op(Ops.ADD, x, y), lambda x: x.cast(dtypes.f32))])
    with pytest.raises(RewriteError, match="to float"):
        graph_rewrite(X + Y, rules)


@pytest.mark.parametrize("order", ["bottom-up", "top-down", "single-walk"])
@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("made", [5, 0, False, "x", (X,), NotImplemented, np.zeros(4, np.int32)], ids=repr)
def test_what_is_no_uop_is_a_mistake_of_the_rule(made: Any, compiled: bool, order: Any) -> None:
    rules = RuleSet([Rule("five", op(Ops.ADD, x, y), lambda x, y: made)], compiled=compiled)
    said = f"rule 'five' makes {made!r} of UOp(Ops.ADD, i32(4,), 2 sources): that is no UOp (return a UOp, or None"
    with pytest.raises(RewriteError, match=re.escape(said)):
        graph_rewrite(-(X + Y), rules, order=order)
    with observing(Log(times=True)), pytest.raises(RewriteError, match=re.escape(said)):
        graph_rewrite(-(X + Y), rules, order=order)


@pytest.mark.parametrize("compiled", [True, False])
def test_a_condition_counts_by_its_truth_and_what_it_raises_is_passed_on(compiled: bool) -> None:
    def given(held: Any) -> RuleSet:
        return RuleSet([Rule("if", op(Ops.ADD, x, y), lambda x, y: x * y, when=held)], compiled=compiled)

    for yes in (True, 1, "yes", [0], np.True_):
        assert graph_rewrite(X + Y, given(lambda yes=yes: yes)) is X * Y
    for no in (False, 0, None, "", (), np.False_):
        assert graph_rewrite(X + Y, given(lambda no=no: no)) is X + Y
    with pytest.raises(ZeroDivisionError):
        graph_rewrite(X + Y, given(lambda: 1 // 0))


def test_another_shape_is_not_applied() -> None:
    first = RuleSet([Rule("first", op(Ops.ADD, x, y), lambda x: x)])
    scalar = X.const_like(1)
    assert graph_rewrite(UOp(Ops.ADD, (scalar, X)), first) is X  # the other order keeps the shape
    assert (
        graph_rewrite(UOp(Ops.SUB, (scalar, X)), RuleSet([Rule("first", op(Ops.SUB, x, y), lambda x: x)])).op
        is Ops.SUB
    )


@pytest.mark.net
@pytest.mark.parametrize("dtype", [dtypes.index, dtypes.i32, dtypes.f32], ids=str)
def test_work_is_linear(dtype: Any) -> None:
    """The number of rules tried for each node of a chain does not depend on its length."""
    per_node = []
    for length in (200, 2000):
        r = UOp.range(9, 0)
        node = r if dtype is dtypes.index else r.cast(dtype)
        for i in range(length):
            node = (node + 1, node * 3, node.maximum(2 * i), node - 5)[i % 4]
        log = Log(times=True)
        with observing(log):
            graph_rewrite(node, symbolic)
        per_node.append(sum(e[0] == "tried" for e in log.events) / length)
    assert per_node[1] < 1.2 * per_node[0]
    assert per_node[1] < 60


def test_kinds() -> None:
    assert Kind.INDEX in INTEGERS
    assert {Kind.VOID} | {d.kind for d in dtypes.all} == ANY


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: graph_rewrite(5, symbolic), "graph_rewrite: 5 is no UOp"),  # type: ignore[arg-type]
        (lambda: graph_rewrite(UOp.const(dtypes.i32, 1), 5), "5 is no RuleSet"),  # type: ignore[arg-type]
        (lambda: bounds("x"), "bounds: 'x' is no UOp"),  # type: ignore[arg-type]
        (lambda: bounds_given(V, V), "bounds_given: .* is no condition"),
        (lambda: bounds_given(5, V), "bounds_given: 5 is no condition"),  # type: ignore[arg-type]
        (lambda: bounds_given(V < 3, 5), "bounds: 5 is no UOp"),  # type: ignore[arg-type]
    ],
)
def test_arguments_of_other_types_are_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(UopError, match=message):
        call()
