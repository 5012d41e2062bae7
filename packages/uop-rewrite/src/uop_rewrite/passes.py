"""Passes: frozen dataclasses whose fields are their options, run in an order that has reasons. Week 1."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from uop_ir import Ops, UOp, UopError, VerifyError, format_uir, verify
from uop_ir import settings as ir_settings

from .installed import offered_names
from .rules import RewriteError
from .settings import settings

#: What PRINT_AFTER calls all passes.
ALL = "all"


@dataclass(frozen=True)
class Pass(ABC):
    """One step from graph to graph. A subclass is a frozen dataclass; its fields are the options of the pass.

    `name` and `purpose` are those of the class. No op of `eliminates` is left in what `run` returns.
    """

    name: ClassVar[str]
    purpose: ClassVar[str]
    eliminates: ClassVar[frozenset[Ops]] = frozenset()

    @abstractmethod
    def run(self, root: UOp) -> UOp:
        """The graph after this pass."""


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


def run_passes(root: UOp, passes: Sequence[Pass]) -> Iterator[tuple[Pass, UOp]]:
    """Run passes one after the other; yields each with its result.

    Under CHECK=1 the program is verified before the first and after each; the setting PRINT_AFTER has it
    printed. Raises VerifyError for a program that was wrong before, RewriteError where a pass made it so or
    left what it eliminates, and UopError where PRINT_AFTER names a pass that is not there.
    """
    printed = _printed(passes)
    if ir_settings.check:
        verify(root)
    gone: frozenset[Ops] = frozenset()
    for step in passes:
        root = step.run(root)
        gone |= step.eliminates
        if step.name in printed:
            print(f"# after {step.name}\n{format_uir(root)}", end="", file=sys.stderr)
        if ir_settings.check:
            _verify(step, root, gone)
        yield step, root


def _printed(passes: Sequence[Pass]) -> set[str]:
    """The names of the passes that PRINT_AFTER asks for."""
    asked = {name.strip() for name in settings.print_after.split(",")} - {""}
    if not asked:
        return asked
    here = {step.name for step in passes}
    # A name may be that of a pass of other programs: of those for another device, say.
    known = here | _defined() | offered_names()
    for name in sorted(asked - known - {ALL}):
        raise UopError(f"PRINT_AFTER: no pass {name!r}", remedy=", ".join([*sorted(known), ALL]))
    return here if ALL in asked else asked


def _defined() -> set[str]:
    """The names of all passes that have been imported."""
    names: set[str] = set()
    classes = Pass.__subclasses__()
    while classes:
        cls = classes.pop()
        names |= {cls.name} if hasattr(cls, "name") else set()
        classes += cls.__subclasses__()
    return names


def _verify(step: Pass, root: UOp, gone: frozenset[Ops]) -> None:
    left = sorted({n.op.name for n in root.toposort() if n.op in gone})
    if left:
        raise RewriteError(f"pass {step.name} left {', '.join(left)}")
    try:
        verify(root)
    except VerifyError as error:
        raise RewriteError(f"pass {step.name} made a program that is wrong: {error}") from error
