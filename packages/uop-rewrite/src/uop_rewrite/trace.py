"""Traces: what each pass did, rule by rule, recorded by an observer as references to nodes. Week 1.

Recording keeps three references a step and makes no text: nodes are immutable, so what they are later is what
they were then. Text is made from a trace by `trace_json`, `trace_text` and `trace_html`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from uop_ir import UOp

from .observer import observing
from .passes import Pass, run_passes
from .replay import Replay, Step
from .rules import Rule, RuleSet


@dataclass
class Rewrite:
    """One call of `graph_rewrite`. `result` is None where it raised an error.

    `depth` is 0 for one that a pass called, and more for one that a rule called while it was tried.
    """

    root: UOp
    rules: RuleSet
    order: str
    depth: int
    result: UOp | None = None
    steps: list[Step] = field(default_factory=list)

    def graph(self, count: int) -> UOp:
        """The whole graph after the first `count` steps. Linear in nodes and steps.

        Raises RewriteError where the rewrite was one without end, and `count` reaches to where that was seen.
        """
        return Replay(self.root, self.rules, self.order, self.steps[:count]).result

    @cached_property
    def replay(self) -> Replay | None:
        """The whole rewrite done again; None where it raised an error."""
        return None if self.result is None else Replay(self.root, self.rules, self.order, self.steps)

    @property
    def places(self) -> list[UOp]:
        """For each step the node that it rewrote, as in Replay;
        where the rewrite raised an error, `before` itself.
        """
        return [step.before for step in self.steps] if self.replay is None else self.replay.places


@dataclass
class PassTrace:
    """What a pass did: the graph before it, the one after
    it (None where it raised an error), and its rewrites.
    """

    name: str
    purpose: str
    before: UOp
    after: UOp | None = None
    rewrites: list[Rewrite] = field(default_factory=list)

    @property
    def own(self) -> list[Rewrite]:
        """The rewrites that the pass itself called and in which a rule applied."""
        return [rewrite for rewrite in self.rewrites if rewrite.depth == 0 and rewrite.steps]

    def steps(self) -> Iterator[tuple[Step, UOp]]:
        """The steps of these rewrites, each with its place."""
        for rewrite in self.own:
            yield from zip(rewrite.steps, rewrite.places, strict=True)

    def links(self) -> dict[UOp, list[UOp]]:
        """For nodes of the graph before: other nodes, of the graph after, that stand in their place.

        What a node became comes first, then what was made below that. Only rewrites tell: what a pass did by
        itself is not known. A pass that raised an error has none.
        """
        if self.after is None:
            return {}
        standing = {node: [node] for node in self.before.toposort()}  # what stands where these nodes stood
        below: dict[UOp, UOp] = {}  # nodes that steps made below that, and the node for which they did
        for rewrite in self.own:
            replay = rewrite.replay
            if replay is None:
                continue
            for node, place in replay.origins.items():
                source = standing[place][0] if place in standing else below.get(place)
                if source is not None:
                    below[node] = source
            below |= {new: below[node] for node, new in replay.became.items() if node in below}
            moved = [
                (node, new) for node, new in replay.became.items() if node is not new and node in standing
            ]
            for new, nodes in [(new, standing.pop(node)) for node, new in moved]:
                standing.setdefault(new, []).extend(nodes)
        links: dict[UOp, list[UOp]] = {}
        left = self.after.toposort()
        for node in left:
            for before in standing.get(node, ()):
                if before is not node:
                    links.setdefault(before, []).append(node)
        for node in left:
            if node in below and node not in standing:
                links.setdefault(below[node], []).append(node)
        return links


class Trace:
    """An observer that records each rewrite, in passes.

    `run` records passes by their names. A rewrite that is observed outside
    of `run` is recorded as a pass of its own with the name `rewrite`.
    """

    times = False

    def __init__(self) -> None:
        self.passes: list[PassTrace] = []
        self._pass: PassTrace | None = None
        self._open: list[Rewrite] = []

    def run(self, root: UOp, passes: Sequence[Pass]) -> UOp:
        """Run passes and record them; the result of the last. Raises what they raise."""
        results = run_passes(root, passes)
        try:
            with observing(self):
                for step in passes:
                    self._pass = PassTrace(step.name, step.purpose, root)
                    self.passes.append(self._pass)
                    _, root = next(results)
                    self._pass.after = root
        finally:
            self._pass = None
        return root

    # what `graph_rewrite` tells

    def started(self, root: UOp, rules: RuleSet, order: str) -> None:
        rewrite = Rewrite(root, rules, order, len(self._open))
        if self._pass is not None:
            self._pass.rewrites.append(rewrite)
        elif not self._open:
            self.passes.append(PassTrace("rewrite", "", root, rewrites=[rewrite]))
        else:
            self.passes[-1].rewrites.append(rewrite)
        self._open.append(rewrite)

    def applied(self, rule: Rule, before: UOp, after: UOp) -> None:
        self._open[-1].steps.append(Step(rule, before, after))

    def tried(self, rule: Rule, seconds: float, hit: bool) -> None:
        """Not asked for."""

    def finished(self, root: UOp, result: UOp | None) -> None:
        self._open.pop().result = result
        if self._pass is None and not self._open:
            self.passes[-1].after = result
