"""The HTML page of a trace, read by a parser:
it has what the trace has, and nothing that a name could smuggle in.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any, ClassVar

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from uop_ir import Ops, UOp, dtypes
from uop_rewrite import (
    Fold,
    Pass,
    Pattern,
    Rule,
    RuleSet,
    Simplify,
    Trace,
    graph_rewrite,
    trace_html,
    trace_json,
    var,
)

#: Names that HTML, JavaScript or string.Template could take for something else.
AWKWARD = (
    "<b>&amp;",
    '"quoted"',
    "it's",
    "</script><script>alert(1)</script>",
    "$title",
    "${columns}",
    "<!--",
    "é\\n",
)
VOID = {"meta", "link", "br"}


@dataclass
class Column:
    name: str = ""
    about: str = ""
    nodes: list[tuple[int, str, str]] = field(default_factory=list)
    steps: list[tuple[int, int, int, str, str]] = field(default_factory=list)


class Page(HTMLParser):
    """What a browser would show. Fails where a tag is not closed, and notes every tag and attribute."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[tuple[str, dict[str, str | None]]] = []
        self.columns: list[Column] = []
        self.text: dict[str, str] = {}
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append((tag, given))
        if tag not in VOID:
            self.open.append((tag, given))
        if tag == "section":
            self.columns.append(Column())
        if tag == "li" and "data-n" in given:
            self.columns[-1].nodes.append((int(given["data-n"] or ""), "", given["class"] or ""))
        if tag == "li" and "data-at" in given:
            at, before, after = (int(given[f"data-{k}"] or "") for k in ("at", "before", "after"))
            self.columns[-1].steps.append((at, before, after, "", ""))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        tag, given = self.open[-1] if self.open else ("", {})
        where = f"{tag}#{given['id']}" if "id" in given else tag
        self.text[where] = self.text.get(where, "") + data
        if not self.columns:
            return
        column = self.columns[-1]
        if tag == "h2":
            column.name += data
        elif tag == "p":
            column.about += data
        elif tag == "li" and "data-n" in given:
            n, text, kind = column.nodes[-1]
            column.nodes[-1] = n, text + data, kind
        elif tag in ("summary", "del", "ins", "pre") and column.steps:
            at, before, after, title, diff = column.steps[-1]
            title, diff = (title + data, diff) if tag == "summary" else (title, diff + data)
            column.steps[-1] = at, before, after, title, diff


def check(trace: Trace, title: str) -> Page:
    """The page of a trace, after a check that all of the trace is on it."""
    page, found = Page(trace_html(trace, title)), trace_json(trace)
    text = [f"%{i} = {node['text']}" for i, node in enumerate(found["nodes"])]
    assert page.text["title"] == page.text["h1"] == title
    assert [c.name for c in page.columns] == ["input", *(p["name"] for p in found["passes"])]
    roots = [found["passes"][0]["before"], *(p["after"] for p in found["passes"])]
    graphs = [_below(root, found["nodes"]) for root in roots]
    for place, (column, graph) in enumerate(zip(page.columns, graphs, strict=True)):
        assert {n for n, _, _ in column.nodes} == graph
        assert len(column.nodes) == len(graph)
        assert all(line == text[n] for n, line, _ in column.nodes)
        last, coming = graphs[max(place - 1, 0)], graphs[min(place + 1, len(graphs) - 1)]
        assert all(("new" in kind.split()) == (n not in last) for n, _, kind in column.nodes)
        assert all(("gone" in kind.split()) == (n not in coming) for n, _, kind in column.nodes)
    for column, step in zip(page.columns[1:], found["passes"], strict=True):
        steps = [s for rewrite in step["rewrites"] if rewrite["depth"] == 0 for s in rewrite["steps"]]
        assert [(before, after, title) for _, before, after, title, _ in column.steps] == [
            (s["before"], s["after"], f"{s['rule']}: %{s['before']} becomes %{s['after']}") for s in steps
        ]
        assert {at for at, *_ in column.steps} <= _below(step["before"], found["nodes"])
        assert all(line[2:] in text for *_, diff in column.steps for line in diff.splitlines())
    assert json.loads(page.text["script#links"]) == [p["links"] for p in found["passes"]]
    return page


def _below(root: int, nodes: list[dict[str, Any]]) -> set[int]:
    found: set[int] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += nodes[node]["src"]
    return found


@hypothesis.settings(max_examples=25)
@given(st.data())
def test_a_page_has_what_the_trace_has(kit: Any, data: st.DataObject) -> None:
    trace = Trace()
    trace.run(data.draw(kit.index_expressions()), [Fold(), Simplify()])
    check(trace, "index.uir")


def named(name: str) -> Page:
    """The page of a trace in which all that can have a name has this one."""
    x, y = (UOp.buffer(4, dtypes.i32, device=name) for _ in range(2))
    rule = Rule(name, Pattern(Ops.NEG, (var("x"),)), lambda x: y)

    class Named(Pass):
        purpose: ClassVar = name

        def run(self, root: UOp) -> UOp:
            return graph_rewrite(root, RuleSet([rule]))

    Named.name = name
    trace = Trace()
    assert trace.run(-x, [Named()]) is y
    return check(trace, name)


@pytest.mark.parametrize("name", AWKWARD)
def test_names_stay_text(name: str) -> None:
    page, plain = named(name), named("plain")
    assert [(tag, given.keys()) for tag, given in page.tags] == [
        (tag, given.keys()) for tag, given in plain.tags
    ]
    assert name in page.columns[1].about
    assert page.columns[1].steps[0][3].startswith(name)


def test_a_step_leads_to_a_node_of_the_column_before() -> None:
    wrap = Rule("wrap", Pattern(Ops.SUB, (var("x"), var("y"))), lambda x, y: -(x * 1).maximum(y))
    one = Rule("times one", Pattern(Ops.MUL, (var("x"), var("a"))), lambda x: x)

    class Both(Pass):
        name: ClassVar = "both"
        purpose: ClassVar = ""

        def run(self, root: UOp) -> UOp:
            return graph_rewrite(root, RuleSet([wrap, one]))

    x, y = UOp.param(0, 4, dtypes.i32), UOp.param(1, 4, dtypes.i32)
    trace = Trace()
    assert trace.run(x - y, [Both()]) is -x.maximum(y)
    assert [(title[:9], at) for at, _, _, title, _ in check(trace, "a").columns[1].steps] == [
        ("wrap: %2 ", 2),
        ("times one", 2),
    ]


def test_a_page_needs_nothing_else() -> None:
    trace = Trace()
    trace.run(UOp.variable("x", 0, 1) * 1, [Simplify()])
    text = trace_html(trace, "a")
    assert not re.search(
        r"\b(src|href|action|srcset)\s*=|url\(|@import|https?:|//[a-z]+\.|fetch\(|import\(", text
    )


def test_columns_of_rewrites_that_do_not_follow_from_each_other() -> None:
    trace = Trace()
    x = UOp.variable("x", 0, 9)
    trace.run(x * 1, [Simplify()])
    trace.run(x + 0, [Simplify()])
    page = Page(trace_html(trace, "a"))
    assert [c.name for c in page.columns] == ["input", "simplify", "input", "simplify"]
    assert all(kind == "" for _, _, kind in page.columns[1].nodes)
    first, second = (p["links"] for p in trace_json(trace)["passes"])
    assert json.loads(page.text["script#links"]) == [first, [], second]


def test_a_page_of_a_deep_graph_grows_as_the_graph_does() -> None:
    sizes = []
    for length in (100, 1000):
        node = UOp.param(0, 4, dtypes.i32)
        for _ in range(length):
            node = -(node * 1)
        trace = Trace()
        trace.run(node, [Fold(), Simplify()])
        sizes.append(len(trace_html(trace, "deep")) / length)
    assert sizes[1] < 1.5 * sizes[0]
