"""Passes: named, frozen objects in a tuple that can be printed, with their order and the reasons for it. Week 1."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from uop_ir import Ops, UOp, UopError, settings

from .engine import RewriteError


@dataclass(frozen=True)
class Pass:
    """One step from graph to graph. `function(root, context)` gives the new root; no op of `eliminates` is left in it."""

    name: str
    function: Callable[[UOp, Any], UOp]
    purpose: str
    eliminates: frozenset[Ops] = frozenset()


@dataclass(frozen=True)
class Before:
    """A constraint on the order of passes, and why."""

    first: str
    then: str
    reason: str


def check_order(passes: Sequence[Pass], constraints: Sequence[Before]) -> None:
    """Raise UopError where the passes break a constraint, or where one names a pass that is not there.

    Each pass stands once: a constraint on the order of two would not say which is meant.
    """
    place: dict[str, int] = {}
    for i, p in enumerate(passes):
        if place.setdefault(p.name, i) != i:
            raise UopError(f"order of passes: {p.name} stands twice", remedy="give each a name of its own")
    for c in constraints:
        for name in (c.first, c.then):
            if name not in place:
                raise UopError(f"order of passes: no pass {name!r}", remedy=", ".join(place))
        if place[c.first] > place[c.then]:
            raise UopError(f"order of passes: {c.first} must come before {c.then}: {c.reason}")


def run_passes(root: UOp, passes: Sequence[Pass], context: Any = None) -> Iterator[tuple[Pass, UOp]]:
    """Run passes one after the other; yields each with its result.

    Under CHECK=1 each result is verified. Raises RewriteError where a pass did not do what it says: our mistake.
    """
    gone: frozenset[Ops] = frozenset()
    for step in passes:
        root = step.function(root, context)
        gone |= step.eliminates
        if settings.check:
            _verify(step, root, gone)
        yield step, root


def _verify(step: Pass, root: UOp, gone: frozenset[Ops]) -> None:
    """Nodes are right by themselves, since they are checked when made; this is what concerns the whole program."""
    order = root.toposort()
    left = sorted({n.op.name for n in order if n.op in gone})
    if left:
        raise RewriteError(f"pass {step.name} left {', '.join(left)}")
    closed = {r for n in order if n.op in (Ops.END, Ops.REDUCE) for r in n.src[1:]}
    unclosed = [int(n.arg[0]) for n in order if n.op is Ops.RANGE and n not in closed]
    if unclosed:
        raise RewriteError(f"pass {step.name} left ranges {unclosed} that nothing closes")
