"""Profiles: how long each pass and each rule took, and how often a rule was tried and applied. Week 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from time import perf_counter
from typing import Any

from uop_ir import UOp

from .observer import observing
from .passes import Pass, run_passes
from .rules import Rule, RuleSet

#: What the table calls the time of a pass that is not that of a rule:
#: walks, and what the pass does by itself.
OTHER = "(no rule)"


@dataclass
class RuleProfile:
    """How often a rule was tried and applied. `seconds`
    is without those of rules that it had tried by itself.
    """

    tried: int = 0
    applied: int = 0
    seconds: float = 0.0


@dataclass
class PassProfile:
    """A pass: `seconds` in all, number of nodes before and after, and its rules by name.

    The seconds are those under observation, which is slower.
    """

    name: str
    seconds: float
    before: int
    after: int
    rules: dict[str, RuleProfile] = field(default_factory=dict)


class Profile:
    """An observer that times rules. `run` also times passes;
    outside of it, rules alone are timed, in `rules`.
    """

    times = True

    def __init__(self) -> None:
        self.passes: list[PassProfile] = []
        self.rules: dict[str, RuleProfile] = {}
        #: For each rewrite that is open, the seconds of rules tried by the rule at hand.
        self._within: list[float] = []

    def run(self, root: UOp, passes: Sequence[Pass]) -> UOp:
        """Run passes and time them; the result of the last. Raises what they raise."""
        results = run_passes(root, passes)
        outer = self.rules
        try:
            for step in passes:
                self.rules = {}
                before = root
                with observing(self):
                    start = perf_counter()
                    _, root = next(results)
                    seconds = perf_counter() - start
                nodes = [len(r.toposort()) for r in (before, root)]
                self.passes.append(PassProfile(step.name, seconds, nodes[0], nodes[1], self.rules))
        finally:
            self.rules = outer
        return root

    # what `graph_rewrite` tells

    def started(self, root: UOp, rules: RuleSet, order: str) -> None:
        self._within.append(0.0)

    def applied(self, rule: Rule, before: UOp, after: UOp) -> None:
        """Told by `tried` too."""

    def tried(self, rule: Rule, seconds: float, hit: bool) -> None:
        found = self.rules.setdefault(rule.name, RuleProfile())
        found.tried += 1
        found.applied += hit
        found.seconds += seconds - self._within[-1]
        self._within[-1] = 0.0
        if len(self._within) > 1:
            self._within[-2] += seconds

    def finished(self, root: UOp, result: UOp | None) -> None:
        self._within.pop()

    def json(self) -> list[dict[str, Any]]:
        """The passes as objects that `json.dump` writes, fields as in PassProfile and RuleProfile."""
        return [asdict(step) for step in self.passes]


def profile_table(profile: Profile) -> str:
    """Passes in order; then their rules, those that took longest first,
    with their share of the time of all passes.
    """
    total = sum(step.seconds for step in profile.passes)
    passes = [(p.name, "", p.before, p.after, p.seconds) for p in profile.passes]
    rules: list[tuple[str, str, int | str, int | str, float]] = [
        (p.name, name, r.tried, r.applied, r.seconds) for p in profile.passes for name, r in p.rules.items()
    ]
    rules += [
        (p.name, OTHER, "", "", p.seconds - sum(r.seconds for r in p.rules.values())) for p in profile.passes
    ]
    rules.sort(key=lambda row: -row[-1])
    rows = [
        ("pass", "", "nodes", "after", "time", "share"),
        *(_row(*p, total) for p in passes),
        ("", "", "", "", "", ""),
        ("pass", "rule", "tried", "applied", "time", "share"),
        *(_row(*r, total) for r in rules),
    ]
    w = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        f"{a:<{w[0]}}  {b:<{w[1]}}  {c:>{w[2]}}  {d:>{w[3]}}  {e:>{w[4]}}  {f:>{w[5]}}".rstrip()
        for a, b, c, d, e, f in rows
    )


def _row(
    name: str, rule: str, first: int | str, second: int | str, seconds: float, total: float
) -> tuple[str, str, str, str, str, str]:
    return name, rule, str(first), str(second), f"{seconds * 1e3:.3f} ms", f"{seconds / total:.1%}"
