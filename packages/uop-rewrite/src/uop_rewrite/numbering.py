"""The nodes of a trace, numbered, each with its line of `.uir`; and what a step removed and added. Week 1."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from heapq import heappop, heappush

from uop_ir import UOp, format_uir

from .trace import Trace

#: Of a large term, a step shows what changed among this many of its outermost nodes.
SHOWN = 100
#: In which of two terms a node stands, as bits.
BEFORE, AFTER, BOTH = 1, 2, 3


class Numbering:
    """Numbers for the nodes that a trace shows: sources first,
    then as they come. `first` takes the first numbers.

    They are those of the graph of each pass, and those of both sides of each step.
    """

    def __init__(self, trace: Trace, first: Sequence[UOp] = ()) -> None:
        self.numbers: dict[UOp, int] = {}
        for node in first:
            self._add(node)
        for step in trace.passes:
            self._add(step.before)
            for rewrite in step.rewrites:
                if rewrite.steps:
                    self._add(rewrite.root)
                for _, before, after in rewrite.steps:
                    self._add(before)
                    self._add(after)
                if rewrite.steps and rewrite.result is not None:
                    self._add(rewrite.result)
            if step.after is not None:
                self._add(step.after)

    def _add(self, root: UOp) -> None:
        numbers = self.numbers
        for node in root.toposort(gate=lambda n: n not in numbers):
            numbers.setdefault(node, len(numbers))

    def __getitem__(self, node: UOp) -> int:
        return self.numbers[node]

    @cached_property
    def lines(self) -> list[str]:
        """The line of each node, by its number."""
        return format_uir(list(self.numbers)).splitlines()

    @cached_property
    def _nodes(self) -> list[UOp]:
        return list(self.numbers)

    def changes(self, before: UOp, after: UOp) -> tuple[list[str], list[str]]:
        """The lines of a term that are gone from another, and those that are new in it, operands first.

        Exact for terms of up to SHOWN nodes; of larger ones, what differs deeper is left out.
        """
        sides = {self[before]: BEFORE}
        sides[self[after]] = sides.get(self[after], 0) | AFTER
        queue = sorted(-number for number in sides)
        found: dict[int, list[str]] = {BEFORE: [], AFTER: []}
        # how many in the queue are known of one term only
        apart = sum(side != BOTH for side in sides.values())
        for _ in range(SHOWN):
            if not apart:
                break
            # Users have greater numbers than their sources: all users of what comes next have been here.
            number = -heappop(queue)
            side = sides.pop(number)
            if side != BOTH:
                found[side].append(self.lines[number])
                apart -= 1
            for source in map(self.numbers.__getitem__, self._nodes[number].src):
                if source not in sides:
                    heappush(queue, -source)
                was = sides.get(source, BOTH)
                sides[source] = sides.get(source, 0) | side
                apart += (sides[source] != BOTH) - (was != BOTH)
        return found[BEFORE][::-1], found[AFTER][::-1]
