"""Tune: a search for a faster schedule of one kernel, by timing. Week 6.

A beam: of all schedules that were timed, the `width` best that were not looked around yet are, until a round
finds nothing better or the time is over. It begins with the chosen schedule, none, and those that would be
chosen for other machines. Who times, times in a process of its own (`tune_worker`); a schedule whose results
are not those of the chosen one counts as infinitely slow. The best few are held against the chosen one, in
turns: only one that is faster there is found.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from math import inf
from statistics import median
from typing import Protocol

from uop_ir import UOp, UopError

from .freedoms import Freedoms
from .lower import at_loop_level
from .machine import Machine, this_machine
from .optimize import choose
from .schedule import Schedule
from .tune_space import Scheduled, legal_part, neighbours, variants
from .tune_worker import Worker
from .tuned import Find

#: What a schedule must take of the time of the chosen one,
#: in turns, to be better; and in what part of the turns.
CONFIRMED, WINS = 0.97, 0.75
#: How many of the best are held against the chosen one.
FINALISTS = 3
#: Schedules slower than the best by more are not looked around.
KEPT = 1.5
#: A round that makes the best no faster than this is the last.
PROGRESS = 0.99
#: Seconds below which a kernel is left as it is: its call from Python takes as long.
WORTH_SECONDS = 5e-6
#: Schedules that are compiled together.
BATCH = 8


class Timer(Protocol):
    """Who times the schedules of a kernel."""

    def measure(self, schedules: Sequence[Schedule]) -> list[float]:
        """Seconds of each; infinite where it fails, is wrong, or takes too long."""

    def turns(self, one: Schedule, other: Schedule) -> list[tuple[float, float]]:
        """Seconds of both, in turns; none where one of them fails."""


def tune(
    body: UOp,
    free: Freedoms,
    width: int,
    seconds: float,
    say: Callable[[str], None],
    known: Schedule,
) -> Find:
    """Search for a schedule of a kernel's body,
    looking around `width` of them at a time, for about so many seconds.

    `say` is told of each that is the best so far; a `known` one is timed too. Raises UopError where the
    kernel cannot be run in another process.
    """
    root = at_loop_level(body, free)
    worker = Worker(body, free)
    try:
        return Search(root, free, this_machine(), worker, width, seconds, say).run(known)
    finally:
        worker.end()


class Search:
    """A search under way: what was timed, by program, so that two schedules of one program are one."""

    def __init__(
        self,
        root: UOp,
        free: Freedoms,
        machine: Machine,
        timer: Timer,
        width: int,
        seconds: float,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.root, self.free, self.machine = root, free, machine
        self.timer, self.width, self.say, self.clock = timer, width, say, clock
        self.limit, self.ends = seconds, inf
        self.times: dict[UOp, tuple[float, Schedule]] = {}
        self.best = inf

    def run(self, known: Schedule) -> Find:
        """Search, and hold the best against the chosen schedule.
        Raises UopError where that one cannot be timed.
        """
        chosen = choose(self.root, self.free, self.machine)
        self.time([chosen])
        usual = self.times[chosen[1]][0]
        if usual == inf:
            raise UopError(
                "tune: a process that runs the kernel by the schedule that is chosen fails, or is slow",
                remedy="smaller arguments, or no search (BEAM=0)",
            )
        self.ends = self.clock() + self.limit
        if usual > WORTH_SECONDS:
            self.time([legal_part(self.root, known, self.free)])
            self.time(variants(self.root, self.free, self.machine))
            self.beam()
        found, old, new = self.confirmed(chosen[0], usual)
        refused = sum(seconds == inf for seconds, _ in self.times.values())
        text = None if found is None else str(found)
        return Find(text, str(chosen[0]), old, new, len(self.times), refused, self.width, self.limit)

    def beam(self) -> None:
        """Look around the best, round by round."""
        seen: set[UOp] = set()
        before = inf
        while self.best <= PROGRESS * before and not self.over():
            before = self.best
            near = sorted(
                (seconds, place, program)
                for place, (program, (seconds, _)) in enumerate(self.times.items())
                if program not in seen and seconds < KEPT * self.best
            )
            for _, _, program in near[: self.width]:
                seen.add(program)
                self.time(neighbours(self.root, self.times[program][1], self.free))

    def over(self) -> bool:
        return self.clock() > self.ends

    def time(self, candidates: Iterable[Scheduled]) -> None:
        """Time what was not timed yet, until the time is over."""
        new = iter(candidates)
        while not self.over():
            batch: dict[UOp, Schedule] = {}
            for schedule, program in new:
                if program not in self.times:
                    batch.setdefault(program, schedule)
                if len(batch) == BATCH or self.over():
                    break
            if not batch:
                return
            times = self.timer.measure(list(batch.values()))
            for (program, schedule), seconds in zip(batch.items(), times, strict=True):
                self.times[program] = seconds, schedule
                if seconds < self.best:
                    self.best = seconds
                    self.say(f"{seconds * 1e3:9.3f} ms  {str(schedule) or 'none'}")

    def confirmed(self, chosen: Schedule, usual: float) -> tuple[Schedule | None, float, float]:
        """The first of the best few that is faster in turns,
        with the seconds of the chosen one and its own.
        """
        order = sorted(self.times.values(), key=lambda timed: timed[0])
        for seconds, schedule in islice(order, FINALISTS):
            if seconds >= CONFIRMED * usual:
                break
            turns = self.timer.turns(chosen, schedule)
            wins = [new < CONFIRMED * old for old, new in turns]
            if turns and sum(wins) >= WINS * len(turns):
                return schedule, median(old for old, _ in turns), median(new for _, new in turns)
        return None, usual, usual
