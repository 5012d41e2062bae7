"""A trace for the terminal: each step with what it removed and what it added, and a summary. Week 1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from uop_ir import UOp

from .numbering import Numbering
from .trace import PassTrace, Trace

#: Escape sequences of terminals, by what a line begins with.
COLOURS = {"-": "\x1b[31m", "+": "\x1b[32m"}
HEADING, PLAIN = "\x1b[1m", "\x1b[0m"


def trace_text(trace: Trace, first: Sequence[UOp] = (), colour: bool = False) -> Iterator[str]:
    """The lines that tell a trace. Nodes are numbered; those in `first` take the first numbers.

    Rewrites that a rule called are left out.
    """
    number = Numbering(trace, first)
    for step in trace.passes:
        for line in _steps(step, number):
            start = COLOURS.get(line[0], HEADING)
            yield f"{start}{line}{PLAIN}" if colour else line
    yield from map(summary, trace.passes)


def _steps(step: PassTrace, number: Numbering) -> Iterator[str]:
    for count, ((rule, before, after), place) in enumerate(step.steps(), 1):
        was = "" if place is before else f", which was %{number[place]},"
        yield f"{step.name} {count}: {rule.name}: %{number[before]}{was} becomes %{number[after]}"
        removed, added = number.changes(before, after)
        yield from (f"- {line}" for line in removed)
        yield from (f"+ {line}" for line in added)


def summary(step: PassTrace) -> str:
    """How many steps a pass took, and the nodes before and after it."""
    count = sum(len(rewrite.steps) for rewrite in step.own)
    steps = f"{count} step{'' if count == 1 else 's'}"
    after = "an error" if step.after is None else f"{len(step.after.toposort())} after"
    return f"{step.name}: {steps}, {len(step.before.toposort())} nodes before, {after}"
