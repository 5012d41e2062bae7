"""Replay: a rewrite done again from its recorded steps:
the graph after each, what became of each node, and of what.

Week 1. The engine runs again over the same graph, and in the place of the rules stands what they did.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

from uop_ir import UOp

from .engine import ORDERS
from .rules import Rule, RuleSet


class Step(NamedTuple):
    """A rule made `after` of `before`, a node over sources as they were then."""

    rule: Rule
    before: UOp
    after: UOp


class Replay:
    """The first steps of a rewrite of `root`, or all, done again. Linear in nodes and steps.

    `result`: the whole graph after them. `places`: for each step the node that it rewrote, as it was before
    its sources were rewritten: one of the first graph, or one that an earlier step made.
    """

    def __init__(self, root: UOp, rules: RuleSet, order: str, steps: Sequence[Step]) -> None:
        self.root = root
        self.order = order
        self.steps = steps
        self.places: list[UOp] = []
        self._made = {step.before: step for step in steps}
        self._now: dict[UOp, UOp] = {}  # what a node is over rewritten sources
        self._last: tuple[UOp, UOp] | None = None
        self.result = ORDERS[order](root, rules, self._find, None, self._moved)

    def _moved(self, node: UOp, now: UOp) -> None:
        self._now[node] = now
        self._last = node, now

    def _find(self, now: UOp, ctx: Any) -> tuple[Rule, UOp] | None:
        step = self._made.get(now)
        if step is None:
            return None
        self.places.append(self._last[0] if self._last is not None and self._last[1] is now else now)
        return step.rule, step.after

    @cached_property
    def became(self) -> dict[UOp, UOp]:
        """For each node of the first graph, and for each that a step made,
        what stands in its place in the end.
        """
        first = self.root.toposort()
        made = [node for nodes in self.made for node in nodes]
        if self.order == "single-walk":  # what a step made stays as it is
            return {node: node for node in made} | {
                node: self._next(self._now.get(node, node)) for node in first
            }
        ends: dict[UOp, UOp] = {}
        for node in [*first, *made]:
            path = [node]
            while path[-1] not in ends and (new := self._next(path[-1])) is not path[-1]:
                path.append(new)
            ends |= dict.fromkeys(path, ends.get(path[-1], path[-1]))
        return ends

    def _next(self, node: UOp) -> UOp:
        """What replaced a node; else what it was over rewritten sources; else itself."""
        step = self._made.get(node)
        return self._now.get(node, node) if step is None else step.after

    @cached_property
    def made(self) -> list[list[UOp]]:
        """The nodes that each step made: those below its `after` that were not there before."""
        known = set(self.root.toposort())
        made = []
        for step in self.steps:
            known.update(step.before.toposort(gate=lambda n: n not in known))
            made.append([n for n in step.after.toposort(gate=lambda n: n not in known) if n not in known])
            known.update(made[-1])
        return made

    @cached_property
    def origins(self) -> dict[UOp, UOp]:
        """For each node that a step made, and for what it became,
        the node of the first graph that led to the step.
        """
        origins = {node: node for node in self.root.toposort()}
        for place, made in zip(self.places, self.made, strict=True):
            origins |= dict.fromkeys(made, origins.get(place, self.root))
        for made in self.made:
            for node in made:
                origins.setdefault(self.became[node], origins[node])
        return origins
