"""Replay: what each step made, and from what."""

from __future__ import annotations

from uop_ir import Ops, UOp, dtypes
from uop_rewrite import Pattern, Rule, RuleSet, Trace, const, graph_rewrite, observing, var

X, Y = UOp.param(0, 4, dtypes.i32), UOp.param(1, 4, dtypes.i32)
x, a = var("x"), const("a")
RULES = RuleSet([
    Rule("times one", Pattern(Ops.MUL, (x, a)), lambda x, a: x, when=lambda a: a.value == 1),
    Rule("negate", Pattern(Ops.NEG, (x,)), lambda x: x * -1),
])  # fmt: skip


def test_a_step_did_not_make_what_stood_under_its_node() -> None:
    root = -(X * 1).maximum(Y)
    trace = Trace()
    with observing(trace):
        result = graph_rewrite(root, RULES)
    replay = trace.passes[0].rewrites[0].replay
    assert replay is not None
    assert replay.result is result is X.maximum(Y) * -1
    assert replay.made == [[], [X.const_like(-1), result]]
    assert replay.places == [X * 1, root]
    assert {node: replay.origins[node] for node in replay.made[1]} == {X.const_like(-1): root, result: root}
    assert replay.became[(X * 1).maximum(Y)] is X.maximum(Y)
