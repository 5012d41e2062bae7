"""Observers: who is told what each rewrite does, for traces and profiles;
one at a time, none by default. Week 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from uop_ir import UOp

    from .rules import Rule, RuleSet


class Observer(Protocol):
    """What `graph_rewrite` tells, whoever calls it.
    A rule that rewrites by itself nests one `started` in another.

    `times`: whether the engine is to time each rule that it tries.
    That is slow; without it, `tried` is not called.
    """

    times: bool

    def started(self, root: UOp, rules: RuleSet, order: str) -> None:
        """A rewrite begins, in one of the orders of `graph_rewrite`."""

    def applied(self, rule: Rule, before: UOp, after: UOp) -> None:
        """A rule made `after` of `before`, whose sources had been rewritten."""

    def tried(self, rule: Rule, seconds: float, hit: bool) -> None:
        """A rule was tried on a node; `hit`: it applied."""

    def finished(self, root: UOp, result: UOp | None) -> None:
        """The rewrite of `root` ended; `result` is None where it raised an error."""


_observer: Observer | None = None


def observer() -> Observer | None:
    """The observer in force."""
    return _observer


@contextmanager
def observing(who: Observer) -> Iterator[None]:
    """Tell `who` of each rewrite within the with block, in the place of an observer around it."""
    global _observer
    before, _observer = _observer, who
    try:
        yield
    finally:
        _observer = before
