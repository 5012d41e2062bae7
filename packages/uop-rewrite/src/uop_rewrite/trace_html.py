"""A trace as one HTML page that needs nothing else: a column a pass, a line a node, nodes to follow. Week 1.

The page is `trace.html`; what is filled in is written here, all text escaped.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from string import Template
from typing import NamedTuple

from uop_ir import UOp

from .numbering import Numbering
from .trace import PassTrace, Trace
from .trace_text import summary


def trace_html(trace: Trace, title: str, first: Sequence[UOp] = ()) -> str:
    """A trace as the text of an HTML file. Nodes are numbered; those in `first` take the first numbers.

    Rewrites that a rule called are left out.
    A graph has one line a node, so the page grows as the graphs and the steps do.
    """
    number = Numbering(trace, first)
    columns = list(_columns(trace))
    links = [_links(column.step, number) for column in columns[1:]]
    page = Template((files(__package__) / "trace.html").read_text(encoding="utf-8"))
    return page.substitute(
        title=escape(title),
        columns="\n".join(_section(columns, place, number) for place in range(len(columns))),
        links=json.dumps(links, separators=(",", ":")),
    )


class Column(NamedTuple):
    """A graph, and the pass that gave it; None for one that was given.
    An error in the pass has left no nodes.
    """

    step: PassTrace | None
    nodes: dict[UOp, None]


def _columns(trace: Trace) -> Iterator[Column]:
    last: UOp | None = None
    for step in trace.passes:
        if step.before is not last:
            yield Column(None, step.before.toposort())
        last = step.after
        yield Column(step, {} if last is None else last.toposort())


def _links(step: PassTrace | None, number: Numbering) -> list[list[int]]:
    return [] if step is None else [[number[a], number[b]] for a, new in step.links().items() for b in new]


def _section(columns: Sequence[Column], place: int, number: Numbering) -> str:
    step, nodes = columns[place]
    last = place + 1 == len(columns) or columns[place + 1].step is None
    before = nodes if step is None else columns[place - 1].nodes
    after = nodes if last else columns[place + 1].nodes
    if step is None:
        heading = f"<div><h2>input</h2><p>{len(nodes)} nodes</p></div>"
    else:
        heading = f"<div><h2>{escape(step.name)}</h2><p>{escape(step.purpose)}</p><p>{escape(summary(step))}</p></div>"
        heading += (
            f"<details><summary>steps</summary><ol class=steps>{''.join(_steps(step, number))}</ol></details>"
        )
    lines = "".join(_line(node, node not in before, node not in after, number) for node in nodes)
    return f"<section>{heading}<ol class=nodes>\n{lines}</ol></section>"


def _line(node: UOp, new: bool, gone: bool, number: Numbering) -> str:
    kind = " ".join(name for name, has in (("new", new), ("gone", gone)) if has)
    n = number[node]
    return f'<li data-n={n} class="{kind}">{escape(number.lines[n])}</li>\n'


def _steps(step: PassTrace, number: Numbering) -> Iterator[str]:
    for rewrite in step.own:
        origins = {} if rewrite.replay is None else rewrite.replay.origins
        for (rule, before, after), place in zip(rewrite.steps, rewrite.places, strict=True):
            at, b, a = number[origins.get(place, place)], number[before], number[after]
            removed, added = number.changes(before, after)
            lines = [f"<del>- {escape(line)}</del>" for line in removed]
            lines += [f"<ins>+ {escape(line)}</ins>" for line in added]
            yield f"<li data-at={at} data-before={b} data-after={a}><details><summary>{escape(rule.name)}"
            yield f": %{b} becomes %{a}</summary><pre>{chr(10).join(lines)}</pre></details></li>\n"
