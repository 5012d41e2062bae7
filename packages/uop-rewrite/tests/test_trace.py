"""Traces: what is recorded, the graph after each step,
what became of each node, and the JSON and the text of it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, ClassVar

import hypothesis
import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from uop_ir import Ops, UOp, dtypes, parse_uir
from uop_rewrite import (
    Fold,
    Pass,
    Pattern,
    RewriteError,
    Rule,
    RuleSet,
    Simplify,
    Trace,
    const,
    graph_rewrite,
    observing,
    symbolic,
    trace_json,
    trace_text,
    var,
)

SCHEMA = jsonschema.Draft202012Validator(json.loads((files("uop_rewrite") / "trace.schema.json").read_text()))
X, Y = UOp.param(0, 4, dtypes.i32), UOp.param(1, 4, dtypes.i32)
x, y, a = var("x"), var("y"), const("a")


def op(which: Ops, *src: Pattern) -> Pattern:
    return Pattern(which, src)


SWAP = Rule("add to mul", op(Ops.ADD, x, y), lambda x, y: x * y)
ONE = Rule("times one", op(Ops.MUL, x, a), lambda x, a: x, when=lambda a: a.value == 1)
TWICE = Rule("twice", op(Ops.ADD, x, x), lambda x: x * 2)
#: Rules without regions, which replace a term wherever it stands.
PLAIN = RuleSet([
    TWICE,
    ONE,
    Rule("plus zero", op(Ops.ADD, x, a), lambda x, a: x, when=lambda a: a.value == 0),
    Rule("factor", op(Ops.ADD, op(Ops.MUL, x, y), op(Ops.MUL, x, var("z"))), lambda x, y, z: x * (y + z)),
    Rule("minus", op(Ops.SUB, x, y), lambda x, y: x + y * -1),
    Rule("negate", op(Ops.NEG, x), lambda x: x * -1),
    Rule("nested", op(Ops.MUL, op(Ops.MUL, x, a), const("b")), lambda x, a, b: x * (a.value * b.value)),
])  # fmt: skip


@dataclass(frozen=True)
class Plain(Pass):
    name: ClassVar = "plain"
    purpose: ClassVar = "a few rules"

    def run(self, root: UOp) -> UOp:
        return graph_rewrite(root, PLAIN)


def by_substitution(root: UOp, equations: Sequence[tuple[UOp, UOp]]) -> UOp:
    """The root with each left side replaced by the right one wherever it stands, until none is left."""
    mapping = dict(equations)
    while True:
        new = root.substitute(mapping)
        if new is root:
            return new
        root = new


def test_a_trace_records_each_step() -> None:
    trace = Trace()
    root = (X + X) * 1
    assert trace.run(root, [Plain(), Fold()]) is X * 2
    plain, fold = trace.passes
    assert (plain.name, plain.purpose, plain.before, plain.after) == ("plain", "a few rules", root, X * 2)
    assert (fold.name, fold.before, fold.after) == ("fold", X * 2, X * 2)
    (rewrite,) = plain.rewrites
    assert (rewrite.root, rewrite.result, rewrite.order, rewrite.depth) == (root, X * 2, "bottom-up", 0)
    assert rewrite.steps == [(TWICE, X + X, X * 2), (ONE, X * 2 * 1, X * 2)]
    assert rewrite.places == [X + X, root]
    assert [rewrite.graph(n) for n in range(3)] == [root, X * 2 * 1, X * 2]


def test_a_rewrite_outside_of_passes_is_recorded_too() -> None:
    trace = Trace()
    trace.run(Y * 1, [Plain()])
    with observing(trace):
        graph_rewrite(X * 1, PLAIN)
        graph_rewrite(X, PLAIN)
    graph_rewrite(Y * 1, PLAIN)
    assert [(p.name, p.before, p.after, len(p.own)) for p in trace.passes] == [
        ("plain", Y * 1, Y, 1),
        ("rewrite", X * 1, X, 1),
        ("rewrite", X, X, 0),
    ]


@given(st.data())
def test_the_graph_after_each_step_is_that_of_substitution(kit: Any, data: st.DataObject) -> None:
    root = data.draw(kit.index_expressions())
    trace = Trace()
    trace.run(root, [Plain()])
    for rewrite in trace.passes[0].rewrites:
        for count in range(len(rewrite.steps) + 1):
            equations = [(step.before, step.after) for step in rewrite.steps[:count]]
            assert rewrite.graph(count) is by_substitution(root, equations)
        assert rewrite.graph(len(rewrite.steps)) is trace.passes[0].after


@given(st.data())
def test_every_graph_of_a_simplification_has_the_same_value(kit: Any, data: st.DataObject) -> None:
    root = data.draw(kit.index_expressions())
    trace = Trace()
    result = trace.run(root, [Simplify()])
    (rewrite,) = trace.passes[0].rewrites
    graphs = [rewrite.graph(count) for count in range(len(rewrite.steps) + 1)]
    assert graphs[0] is root
    assert graphs[-1] is result
    for graph in graphs[1:]:
        kit.agree(root, graph)


@dataclass(frozen=True)
class InTurn(Pass):
    name: ClassVar = "in turn"
    purpose: ClassVar = "sets of rules, one after the other"

    sets: tuple[RuleSet, ...]

    def run(self, root: UOp) -> UOp:
        for rules in self.sets:
            root = graph_rewrite(root, rules)
        return root


@pytest.mark.parametrize(
    "sets", [(symbolic,), (PLAIN, symbolic), (RuleSet([TWICE, ONE]), PLAIN, symbolic)], ids=len
)
@given(st.data())
def test_each_node_of_a_result_is_linked_to_where_it_came_from(
    kit: Any, sets: tuple[RuleSet, ...], data: st.DataObject
) -> None:
    root = data.draw(kit.index_expressions())
    trace = Trace()
    result = trace.run(root, [InTurn(sets)])
    links = trace.passes[0].links()
    before, after = root.toposort(), result.toposort()
    linked = {new for made in links.values() for new in made}
    assert links.keys() <= before.keys()
    assert linked <= after.keys()
    assert after.keys() - before.keys() <= linked
    assert result is root or result in links[root]


def test_links() -> None:
    root = UOp.sink((X + X) * 1, Y * 1)
    trace = Trace()
    result = trace.run(root, [Plain()])
    two = X.const_like(2)
    assert trace.passes[0].links() == {
        X + X: [X * 2, two],
        (X + X) * 1: [X * 2],
        Y * 1: [Y],
        root: [result],
    }
    assert [place for _, place in trace.passes[0].steps()] == [X + X, (X + X) * 1, Y * 1]


def test_what_a_single_walk_made_is_not_taken_for_what_it_met() -> None:
    rules = RuleSet([
        Rule("add to sub", op(Ops.ADD, x, y), lambda x, y: x - y),
        Rule("sub to add", op(Ops.SUB, x, y), lambda x, y: x + y),
    ])  # fmt: skip
    trace = Trace()
    root = UOp.sink(X + Y, X - Y)
    with observing(trace):
        result = graph_rewrite(root, rules, order="single-walk")
    assert trace.passes[0].links() == {X + Y: [X - Y], X - Y: [X + Y], root: [result]}


WRAP = Rule("wrap", op(Ops.SUB, x, y), lambda x, y: -(x + x).maximum(y))


@pytest.mark.parametrize("sets", [(RuleSet([TWICE, WRAP]),), (RuleSet([WRAP]), RuleSet([TWICE]))], ids=len)
def test_what_became_of_what_a_step_made_is_linked_to_where_the_step_was(sets: tuple[RuleSet, ...]) -> None:
    trace = Trace()
    result = trace.run(X - Y, [InTurn(sets)])
    two, double = X.const_like(2), X * 2
    assert result is -double.maximum(Y)
    assert trace.passes[0].links() == {X - Y: [result, two, double, double.maximum(Y)]}


def test_links_lead_through_all_rewrites_of_a_pass() -> None:
    double = Rule("double", op(Ops.MUL, x, a), lambda x, a: x - -x if a.value == 2 else None)
    trace = Trace()
    result = trace.run(-(X + X), [InTurn((RuleSet([TWICE]), RuleSet([double])))])
    assert result is -(X - -X)
    assert trace.passes[0].links() == {-(X + X): [result], X + X: [X - -X, -X]}


@pytest.mark.parametrize("order", ["top-down", "single-walk"])
def test_other_orders_are_replayed_as_they_ran(order: Any) -> None:
    rules = RuleSet([
        Rule("neg down", op(Ops.NEG, op(Ops.ADD, x, y)), lambda x, y: -x - y),
        Rule("wrap", op(Ops.SUB, x, y), lambda x, y: (x - y) * 1) if order == "single-walk" else ONE,
    ])  # fmt: skip
    root = -((X - Y) + (-(X + Y))) - (X - Y)
    trace = Trace()
    with observing(trace):
        result = graph_rewrite(root, rules, order=order)
    (rewrite,) = trace.passes[0].own
    assert rewrite.graph(0) is root
    assert rewrite.graph(len(rewrite.steps)) is result
    assert len(rewrite.places) == len(rewrite.steps) > 1
    assert set(rewrite.places) <= root.toposort().keys() | {
        n for s in rewrite.steps for n in s.after.toposort()
    }
    assert result in trace.passes[0].links()[root]


def test_a_rewrite_within_a_rule_is_told_apart() -> None:
    inner = Rule("inner", op(Ops.NEG, x), lambda x: graph_rewrite(x, RuleSet([ONE])))
    trace = Trace()
    with observing(trace):
        assert graph_rewrite(-(X * 1) + Y, RuleSet([inner])) is X + Y
    (step,) = trace.passes
    assert [(r.depth, [s.rule.name for s in r.steps]) for r in step.rewrites] == [
        (0, ["inner"]),
        (1, ["times one"]),
    ]
    assert [s.rule.name for s, _ in step.steps()] == ["inner"]
    assert [r["depth"] for r in trace_json(trace)["passes"][0]["rewrites"]] == [0, 1]


def test_a_trace_of_rules_without_end_is_kept() -> None:
    rules = RuleSet([SWAP, Rule("mul to add", op(Ops.MUL, x, y), lambda x, y: x + y)])
    trace = Trace()
    with observing(trace), pytest.raises(RewriteError):
        graph_rewrite((X + Y) - 1, rules)
    with observing(trace):
        graph_rewrite(X + Y, RuleSet([SWAP]))
    loop, good = trace.passes
    assert loop.after is None
    assert [s.rule.name for s in loop.rewrites[0].steps][:2] == ["add to mul", "mul to add"]
    assert loop.links() == {}
    assert good.after is X * Y
    assert "rewrite: 3 steps, 5 nodes before, an error" in list(trace_text(trace))
    found = trace_json(trace)
    SCHEMA.validate(found)
    assert found["passes"][0]["after"] is None
    assert found["passes"][0]["rewrites"][0]["result"] is None


# JSON


def test_the_schema_is_one_and_refuses_what_it_should() -> None:
    SCHEMA.check_schema(SCHEMA.schema)
    trace = Trace()
    trace.run(X * 1, [Plain()])
    found = trace_json(trace)
    assert SCHEMA.is_valid(found)
    for wrong in (
        {"version": 2},
        {"nodes": None},
        {"more": 1},
        {"passes": [{**found["passes"][0], "before": -1}]},
    ):
        assert not SCHEMA.is_valid({**found, **wrong})


def line(number: int, node: dict[str, Any]) -> str:
    return f"%{number} = {node['text']}\n"


@hypothesis.settings(max_examples=25)
@given(st.data())
def test_the_json_of_a_trace_keeps_to_its_schema_and_has_all_of_it(kit: Any, data: st.DataObject) -> None:
    root = data.draw(kit.index_expressions())
    trace = Trace()
    trace.run(root, [Fold(), Simplify()])
    found = json.loads(json.dumps(trace_json(trace)))
    SCHEMA.validate(found)
    nodes = parse_uir("".join(line(i, node) for i, node in enumerate(found["nodes"]))).nodes
    for node, row in zip(nodes, found["nodes"], strict=True):
        assert row["op"] == node.op.value
        assert [nodes[s] for s in row["src"]] == list(node.src)
        assert (row["dtype"], row["shape"]) == (str(node.dtype), list(node.shape))
    for step, wanted in zip(found["passes"], trace.passes, strict=True):
        assert (step["name"], nodes[step["before"]], nodes[step["after"]]) == (
            wanted.name, wanted.before, wanted.after,
        )  # fmt: skip
        assert [[nodes[n], nodes[m]] for n, m in step["links"]] == [
            [n, m] for n, made in wanted.links().items() for m in made
        ]
        for rewrite, own in zip(step["rewrites"], wanted.own, strict=True):
            assert (nodes[rewrite["root"]], nodes[rewrite["result"]]) == (own.root, own.result)
            assert [(s["rule"], nodes[s["before"]], nodes[s["after"]]) for s in rewrite["steps"]] == [
                (s.rule.name, s.before, s.after) for s in own.steps
            ]


class Viewer:
    """The graph after each step from JSON alone, as docs/trace.md says."""

    def __init__(self, found: dict[str, Any]) -> None:
        self.nodes = list(found["nodes"])
        self.known = {self.identity(n): i for i, n in enumerate(self.nodes)}

    @staticmethod
    def identity(node: dict[str, Any]) -> str:
        return json.dumps([node["src"], node["text"]])

    def graph(self, rewrite: dict[str, Any], count: int) -> str:
        """The text of the graph after `count` steps, in the numbers of the trace and beyond."""
        made = {s[side]: s["after"] for side in ("at", "before") for s in rewrite["steps"][:count]}
        root = self.resolve(rewrite["root"], made)
        below, order = [root], []
        while below:
            node = below.pop()
            if node not in order:
                order.append(node)
                below += self.nodes[node]["src"]
        return "".join(line(n, self.nodes[n]) for n in sorted(order))

    def resolve(self, number: int, made: dict[int, int]) -> int:
        if number in made:
            return self.resolve(made[number], made)
        node = self.nodes[number]
        src = [self.resolve(s, made) for s in node["src"]]
        if src == node["src"]:
            return number
        renamed = dict(zip(node["src"], src, strict=True))
        words = [
            f"%{renamed[int(w[1:])]}" if w[0] == "%" else w
            for w in node["text"].replace(",", " ,").split(" ")
        ]
        new = {**node, "src": src, "text": " ".join(words).replace(" ,", ",")}
        if self.identity(new) not in self.known:
            self.known[self.identity(new)] = len(self.nodes)
            self.nodes.append(new)
        return self.resolve(self.known[self.identity(new)], made)


def ordered(text: str) -> UOp:
    """The last node of a text whose lines stand in any order."""
    lines = text.splitlines()
    done: list[str] = []
    while lines:
        names = {line.split(" ")[0] for line in done}
        ready = [
            line
            for line in lines
            if {w.strip("%,") for w in line.split(" ")[2:] if w[0] == "%"} <= {n[1:] for n in names}
        ]
        done += ready
        lines = [line for line in lines if line not in ready]
    return parse_uir("\n".join(done)).root


@given(st.data())
def test_a_viewer_needs_no_more_than_the_json(kit: Any, data: st.DataObject) -> None:
    root = data.draw(kit.index_expressions())
    trace = Trace()
    trace.run(root, [Simplify()])
    found = trace_json(trace)
    viewer = Viewer(found)
    for rewrite in found["passes"][0]["rewrites"]:
        assert ordered(viewer.graph(rewrite, 0)) is root
        assert ordered(viewer.graph(rewrite, len(rewrite["steps"]))) is trace.passes[0].after


def test_the_json_of_a_small_trace() -> None:
    n = UOp.variable("n", 1, 4)
    part = X.shrink(((0, n),))
    trace = Trace()
    trace.run((part + part) * 1, [Plain()])
    found = trace_json(trace)
    assert [found["nodes"][i]["shape"] for i in (0, 1, 3)] == [[4], [], [None]]
    (step,) = found["passes"]
    two, one = step["rewrites"][0]["steps"]
    assert (two["rule"], two["at"], two["before"]) == ("twice", step["before"] - 2, step["before"] - 2)
    assert (one["rule"], one["at"], one["after"]) == ("times one", step["before"], two["after"])
    assert one["before"] not in (one["at"], one["after"])


def test_a_rewrite_whose_result_is_not_used_is_in_the_json() -> None:
    class Aside(Pass):
        name: ClassVar = "aside"
        purpose: ClassVar = "finds out, and changes nothing"

        def run(self, root: UOp) -> UOp:
            assert graph_rewrite(Y + (root * 1), PLAIN) is Y + root
            return root

    trace = Trace()
    trace.run(X, [Aside()])
    found = trace_json(trace)
    SCHEMA.validate(found)
    (step,) = found["passes"]
    assert step["before"] == step["after"]
    assert found["nodes"][step["rewrites"][0]["result"]]["op"] == "add"


def test_first_nodes_take_the_first_numbers() -> None:
    trace = Trace()
    trace.run(X * 1, [Plain()])
    numbered = [n["text"] for n in trace_json(trace, first=[Y, X, X.const_like(1), X * 1])["nodes"]]
    assert numbered == [
        "param 4 : dtype=i32 slot=1",
        "param 4 : dtype=i32 slot=0",
        "const 1 : dtype=i32",
        "mul %1, %2",
    ]
    assert list(trace_text(trace))[-1] == "plain: 1 step, 3 nodes before, 1 after"


# text


def test_text_shows_what_each_step_removed_and_added() -> None:
    trace = Trace()
    trace.run((X + X) * 1, [Plain()])
    assert list(trace_text(trace)) == [
        "plain 1: twice: %1 becomes %5",
        "- %1 = add %0, %0",
        "+ %4 = const 2 : dtype=i32",
        "+ %5 = mul %0, %4",
        "plain 2: times one: %6, which was %3, becomes %5",
        "- %2 = const 1 : dtype=i32",
        "- %6 = mul %5, %2",
        "plain: 2 steps, 4 nodes before, 3 after",
    ]


def test_a_term_within_its_replacement_is_not_removed() -> None:
    grow = Rule("grow", op(Ops.MUL, x, y), lambda x, y: -(x * y))
    trace = Trace()
    with observing(trace):
        graph_rewrite(X * Y, RuleSet([grow]), order="single-walk")
    assert list(trace_text(trace))[:2] == ["rewrite 1: grow: %2 becomes %3", "+ %3 = neg %2"]


def test_colour_is_asked_for() -> None:
    trace = Trace()
    trace.run((X + X) * 1, [Plain()])
    plain, coloured = list(trace_text(trace)), list(trace_text(trace, colour=True))
    assert "\x1b" not in "".join(plain)
    codes = {"-": "\x1b[31m", "+": "\x1b[32m"}
    *steps, summary = [f"{codes.get(line[0], chr(27) + '[1m')}{line}\x1b[0m" for line in plain]
    assert coloured == [*steps, plain[-1]] != [*steps, summary]


@hypothesis.settings(max_examples=50)
@given(st.data())
def test_the_changes_of_a_step_are_those_of_its_two_terms(kit: Any, data: st.DataObject) -> None:
    root = data.draw(kit.index_expressions())
    trace = Trace()
    trace.run(root, [Simplify()])
    nodes = [n["text"] for n in trace_json(trace)["nodes"]]
    text = list(trace_text(trace))
    lines = iter(text)
    for (_, before, after), _ in trace.passes[0].steps():
        assert " becomes " in next(lines)
        gone, new = (
            before.toposort().keys() - after.toposort(),
            after.toposort().keys() - before.toposort().keys(),
        )
        changed = [next(lines) for _ in range(len(gone) + len(new))]
        assert len([c for c in changed if c[0] == "-"]) == len(gone)
        ops = [nodes[int(c.split(" ")[1][1:])].split(" ")[0] for c in changed]
        assert sorted(ops) == sorted(n.op.value for n in [*gone, *new])


def test_a_step_in_a_large_term_shows_what_is_near_it() -> None:
    deep = X
    for i in range(5000):
        deep = deep * Y if i % 2 else deep + Y
    trace = Trace()
    trace.run(UOp.sink(Y * 1, deep * 1), [Plain()])
    *steps, _ = trace_text(trace)
    # Whether the constant is gone from the second term could be told only at its very end.
    assert steps[1:3] == ["- %1 = const 1 : dtype=i32", "- %2 = mul %0, %1"]
    assert steps[4:] == ["- %5004 = mul %5003, %1"]


def test_every_step_of_a_large_graph_is_exported_in_linear_time() -> None:
    sizes = []
    for length in (100, 1000):
        node = X
        for _ in range(length):
            node = -(node * 1)
        trace = Trace()
        trace.run(node, [Simplify()])
        sizes.append(len(json.dumps(trace_json(trace))) / length)
    assert sizes[1] < 1.5 * sizes[0]
