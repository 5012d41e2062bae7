"""Passes: named, frozen objects in a tuple that can be printed, with their order and the reasons for it. Week 1."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from uop_ir import UOp, UopError


@dataclass(frozen=True)
class Pass:
    """One step from graph to graph. `function(root, context)` gives the new root."""

    name: str
    function: Callable[[UOp, Any], UOp]
    purpose: str


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
    """Run passes one after the other; yields each with its result."""
    for step in passes:
        root = step.function(root, context)
        yield step, root
