"""Schedules: axis actions as text that is printed,
read and replayed, each legal or refused with the reason. Week 6.

    schedule = [ action ] { ( ";" | newline ) [ action ] }
    action   = "split" range factor axis | "retype" range axis | "reorder" ranges
             | "pad" range multiple | "stage" argument ranges [ padding ] | "hold" range ranges
    ranges   = "(" range { "," range } [ "," ] ")"
    axis     = "loop" | "reduce" | "thread" | "upcast" | "vector" | "unroll"
             | "global" | "local" | "warp" | "group"

The others are integers; `#` starts a comment. A range is named by its number, an argument by its slot.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from uop_ir import AxisType, Ops, ParseError, Span, UOp
from uop_rewrite import ANY, Pattern, Rule, RuleSet, graph_rewrite

from .actions import Action, Checked, Reorder, Retype, Split
from .freedoms import Freedoms
from .schedule_legal import ScheduleError
from .schedule_memory import Hold, Pad, Stage

TOKEN = re.compile(r"\d+|\w+|\S")


@dataclass(frozen=True)
class Schedule:
    """Actions in order, and the places where they stand in a text, if they come from one."""

    actions: tuple[Action, ...] = ()
    spans: tuple[Span, ...] = field(default=(), compare=False, repr=False)

    def __str__(self) -> str:
        return "; ".join(map(str, self.actions))

    def __iter__(self) -> Iterator[Action]:
        return iter(self.actions)

    @staticmethod
    def parse(text: str, file: str = "schedule") -> Schedule:
        """The schedule of a text. Raises ParseError with line and column,
        ScheduleError for what is no text.
        """
        if not isinstance(text, str):
            raise ScheduleError(f"Schedule.parse: {text!r} is no text", remedy='"retype 0 vector", say')
        actions: list[Action] = []
        spans: list[Span] = []
        for number, whole in enumerate(text.split("\n"), 1):
            line = whole.partition("#")[0]
            start = 0
            for part in line.split(";"):
                if part.strip():
                    reader = _Reader(file, number, whole, line[: start + len(part)], start)
                    spans.append(reader.span())
                    actions.append(reader.action())
                start += len(part) + 1
        return Schedule(tuple(actions), tuple(spans))

    def apply(self, root: UOp, freedoms: Freedoms | None = None) -> UOp:
        """A program at loop level after all actions, in order.

        Raises ScheduleError for the first that is not legal,
        or reorders a sum of floats where the freedoms forbid it.
        """
        return apply_schedule(root, self, freedoms)


def apply_schedule(root: UOp, schedule: Schedule | Iterable[Action], freedoms: Freedoms | None = None) -> UOp:
    """A program after all actions of a schedule, in order. Each is a step of a trace.

    Raises ScheduleError for the first that is not legal;
    with `freedoms`, also for one that needs what they forbid.
    """
    given: object = schedule
    if isinstance(given, str):
        raise ScheduleError(f"a schedule that is a text, {schedule!r}", remedy="Schedule.parse reads it")
    spans = schedule.spans if isinstance(schedule, Schedule) else ()
    for number, action in enumerate(schedule):
        if not callable(getattr(action, "apply", None)):
            raise ScheduleError(
                f"action {number + 1} is {action!r}", remedy="Retype(0, AxisType.VECTOR), say"
            )
        try:
            if freedoms is not None:
                check_freedoms(root, action, freedoms)
            root = apply_action(root, action)
        except ScheduleError as error:
            span = spans[number] if number < len(spans) else None
            message = error.message if span else f"action {number + 1}, {action}: {error.message}"
            raise ScheduleError(message, span=span, remedy=error.remedy) from None
    return root


def apply_action(root: UOp, action: Action) -> UOp:
    """A program after one action, as a rewrite of the whole that a trace shows."""
    rule = Rule(
        str(action),
        Pattern(Ops.SINK, None, "whole"),
        lambda whole: action.apply(whole),
        when=lambda whole: whole is root,
        types=ANY,
    )
    return graph_rewrite(root, RuleSet([rule], compiled=False), order="single-walk")


def check_freedoms(root: UOp, action: Action, freedoms: Freedoms) -> None:
    """Raise ScheduleError where an action needs a freedom of arithmetic that is not given."""
    if freedoms.reassociate:
        return
    reordered = action.reorders(root) if isinstance(action, Checked) else None
    if reordered is not None:
        name = reordered.arg[0].value
        raise ScheduleError(f"reduce {name} of {reordered.dtype} in another order", remedy="STRICT=0")


class _Reader:
    """Reads one action of a line."""

    def __init__(self, file: str, number: int, whole: str, line: str, start: int) -> None:
        self.file, self.number, self.whole = file, number, whole
        self.tokens = [(m.group(), m.start()) for m in TOKEN.finditer(line, start)]
        self.end = len(line.rstrip())
        self.at = 0

    def span(self) -> Span:
        column = self.tokens[self.at][1] if self.at < len(self.tokens) else self.end
        return Span(self.file, self.number, column + 1, self.whole)

    def error(self, wanted: str) -> ParseError:
        return ParseError(f"expected {wanted}", span=self.span())

    def next(self) -> str:
        """The token to be read; empty at the end."""
        return self.tokens[self.at][0] if self.at < len(self.tokens) else ""

    def action(self) -> Action:
        make = ACTIONS.get(self.next())
        if make is None:
            raise self.error(f"an action: {', '.join(ACTIONS)}")
        self.at += 1
        out = make(self)
        if self.next():
            raise self.error("; or the end of the line")
        return out

    def integer(self, what: str) -> int:
        if not self.next().isdecimal():
            raise self.error(f"{what}, an integer")
        self.at += 1
        return int(self.tokens[self.at - 1][0])

    def optional(self, what: str) -> int:
        """An integer that may stand at the end; 0 where none does."""
        return self.integer(what) if self.next() else 0

    def axis(self) -> AxisType:
        for axis in AxisType:
            if axis.value == self.next():
                self.at += 1
                return axis
        raise self.error(f"an axis: {', '.join(axis.value for axis in AxisType)}")

    def ranges(self) -> tuple[int, ...]:
        self.sign("(")
        found = [self.integer("a range")]
        while self.next() == ",":
            self.at += 1
            if self.next() == ")":
                break
            found.append(self.integer("a range"))
        self.sign(")")
        return tuple(found)

    def sign(self, sign: str) -> None:
        if self.next() != sign:
            raise self.error(sign)
        self.at += 1


#: How each action is read. A package adds its own under their names.
ACTIONS: dict[str, Callable[[_Reader], Action]] = {
    "split": lambda read: Split(read.integer("a range"), read.integer("a factor"), read.axis()),
    "retype": lambda read: Retype(read.integer("a range"), read.axis()),
    "reorder": lambda read: Reorder(read.ranges()),
    "pad": lambda read: Pad(read.integer("a range"), read.integer("a multiple")),
    "stage": lambda read: Stage(read.integer("an argument"), read.ranges(), read.optional("a padding")),
    "hold": lambda read: Hold(read.integer("a range"), read.ranges()),
}
