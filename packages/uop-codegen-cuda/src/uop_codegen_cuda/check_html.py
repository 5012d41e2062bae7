"""Reports of checked kernels as one HTML page that needs nothing else:
the text, and what each line does and costs. Week 8.

The page is `check.html`; what is filled in is written here, all text escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from itertools import zip_longest
from math import log2
from string import Template

from .check import UNITS, Cost, Report

HEADINGS = ("", "", "access", "requests", "moved", "ideal", "times")


def check_html(reports: Sequence[Report], title: str) -> str:
    """Reports as the text of an HTML file."""
    page = Template((files(__package__) / "check.html").read_text(encoding="utf-8"))
    return page.substitute(title=escape(title), kernels="\n".join(map(_kernel, reports)))


def _kernel(report: Report) -> str:
    heading = escape(str(report).partition("\n")[0])
    names = "".join(f"<th>{name}</th>" for name in HEADINGS)
    rows = [
        row
        for number, text in enumerate(report.source.text.splitlines(), 1)
        for row in _rows(report, number, text)
    ]
    return f"<h2>{heading}</h2>\n<table>\n<tr>{names}</tr>\n{chr(10).join(rows)}\n</table>"


def _rows(report: Report, number: int, text: str) -> Iterator[str]:
    """A line with its accesses, one a row, and below it what it does wrong."""
    costs: list[Cost | None] = [c for c in report.costs if c.line == number]
    first = (f"<th>{number}</th><td>{escape(text)}</td>",)
    for line, cost in zip_longest(first, costs or [None], fillvalue=None):
        yield f"<tr>{line or '<th></th><td></td>'}{_cells(cost) if cost else ''}</tr>"
    for finding in report.findings:
        if finding.line == number:
            what = f"{finding.kind}: {finding.what}"
            yield f"<tr><th></th><td class=wrong colspan={len(HEADINGS) - 1}>{escape(what)}</td></tr>"


def _cells(cost: Cost) -> str:
    times = cost.moved / cost.ideal
    red = min(log2(times) / 5, 1.0)  # 32 times is all that it can be for accesses of 4 bytes
    numbers = (f"{cost.requests}", f"{cost.moved} {UNITS[cost.space]}", f"{cost.ideal}")
    cells = "".join(f"<td class=number>{n}</td>" for n in numbers)
    colour = f'style="background: rgb(var(--cost) / {red:.2f})"'
    return f"<td>{cost.space} {cost.direction}</td>{cells}<td class=number {colour}>{times:.2f}</td>"
