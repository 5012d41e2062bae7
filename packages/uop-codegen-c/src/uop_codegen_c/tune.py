"""Tune: a search for a faster schedule of one kernel, by timing, in a process of its own with a limit of time. Week 6.

From the empty schedule and the chosen one on, each of the best few is extended by every legal action of a table; what is
faster is extended again. A candidate counts only if its results are those of the chosen schedule, and the best one only
if it is faster in a second measurement, in turns with the chosen one.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt

from uop_ir import AxisType, Ops, Plan, UOp, UopError, call_params, format_uir, parse_uir

from .actions import Action, Reorder, Retype, Split
from .cpu import CpuBackend
from .freedoms import Freedoms
from .lower import generate, stages
from .machine import this_machine
from .optimize import choose
from .schedule import Schedule, apply_schedule
from .schedule_legal import ScheduleError, extent
from .schedule_memory import Stage

#: Seconds for one candidate, to lower, compile, check and time it; after that its process is ended.
CANDIDATE_SECONDS = 20.0
#: What a candidate must take of the time of the chosen schedule, in turns, to be better.
CONFIRMED = 0.97
FACTORS = (2, 4, 6, 8, 16, 32)
AXES = (AxisType.UPCAST, AxisType.UNROLL, AxisType.LOOP, AxisType.REDUCE)
#: Relative distance of floats that a candidate's sums, added in another order, may have.
TOLERANCE = {2: 2e-2, 4: 1e-4, 8: 1e-10}


@dataclass(frozen=True)
class Tuned:
    """What a search found: schedules and their seconds in turns, and how many candidates it measured and refused."""

    chosen: Schedule
    best: Schedule
    chosen_seconds: float
    best_seconds: float
    measured: int
    refused: int


def tune(
    body: UOp, freedoms: Freedoms, width: int = 4, seconds: float = 60.0, say: Callable[[str], None] = print
) -> Tuned:
    """Search for a schedule of a kernel's body, keeping `width` of them at a time, for about so many seconds.

    `say` is told of each that is the best so far. Raises UopError where the kernel cannot be run by itself.
    """
    if any(p.arg.size is None for p in call_params(body)):
        raise UopError("tune: a kernel with scalars or symbolic sizes", remedy="give it with constant sizes")
    root = next(root for name, root in stages(body, freedoms) if name == "bounds")
    chosen = choose(root, freedoms, this_machine())[0]
    ends = time.monotonic() + seconds
    worker = _Worker(body, freedoms)
    try:
        times: dict[str, float] = {}
        first = [chosen, Schedule()]
        beam = [s for s in first if _timed(worker, s, times) < float("inf")]
        best = chosen
        refused = 0
        while beam and time.monotonic() < ends:
            found: list[Schedule] = []
            for schedule in beam:
                for longer in extended(root, schedule, freedoms):
                    if time.monotonic() > ends or str(longer) in times:
                        continue
                    if _timed(worker, longer, times) == float("inf"):
                        refused += 1
                        continue
                    found.append(longer)
                    if times[str(longer)] < times[str(best)]:
                        best = longer
                        say(f"{times[str(best)] * 1e3:9.3f} ms  {best}")
            found = [s for s in found if times[str(s)] < 2 * times[str(best)]]
            beam = sorted(found, key=lambda s: times[str(s)])[:width]
        old, new = worker.ask(chosen, best) or (times[str(chosen)], float("inf"))
        if new > CONFIRMED * old:
            best, new = chosen, old
        return Tuned(chosen, best, old, new, len(times), refused)
    finally:
        worker.end()


def _timed(worker: _Worker, schedule: Schedule, times: dict[str, float]) -> float:
    """Seconds of a schedule, infinite where its results differ, it fails, or takes too long."""
    if str(schedule) not in times:
        answer = worker.ask(schedule)
        times[str(schedule)] = answer[0] if answer else float("inf")
    return times[str(schedule)]


def extended(root: UOp, schedule: Schedule, freedoms: Freedoms) -> Iterator[Schedule]:
    """A schedule with each action more that the table has and that is legal behind it."""
    now = apply_schedule(root, schedule, freedoms)
    for action in actions(now):
        try:
            same = apply_schedule(now, [action], freedoms) is now
        except ScheduleError:
            continue
        if not same:
            yield Schedule((*schedule.actions, action))


def actions(root: UOp) -> Iterator[Action]:
    """Actions that may be of use on a program, legal or not."""
    order = root.toposort()
    lanes = this_machine().vector_bytes // 4
    ranges = [r for r in order if r.op is Ops.RANGE and r.src[0].op is Ops.CONST]
    for r in ranges:
        number = int(r.arg[0])
        yield from (Retype(number, a) for a in (AxisType.THREAD, AxisType.VECTOR) if extent(r) > 1)
        yield from (Split(number, f, AxisType.VECTOR) for f in {lanes, lanes // 2})
        yield from (Split(number, f, a) for f in FACTORS for a in AXES)
    for n in order:
        if n.op is Ops.END and len(n.src) > 2:
            numbers = [int(r.arg[0]) for r in n.src[1:]]
            for i in range(1, len(numbers)):
                yield Reorder((*numbers[: i - 1], numbers[i], numbers[i - 1], *numbers[i + 1 :]))
        if n.op is Ops.LOAD and n.src[0].src[0].op is Ops.PARAM:
            reduced = [int(r.arg[0]) for r in ranges if r.arg[1] is AxisType.REDUCE]
            for r in ranges:
                yield Stage(n.src[0].src[0].arg.slot, (*(q for q in reduced if q != r.arg[0]), int(r.arg[0])))


class _Worker:
    """A spawned process that measures schedules of one kernel; started anew where it dies or takes too long."""

    def __init__(self, body: UOp, freedoms: Freedoms) -> None:
        self.text, self.freedoms = format_uir(body), freedoms
        self.process: Any = None

    def ask(self, *schedules: Schedule) -> tuple[float, ...] | None:
        """Seconds of schedules in turns; None where one fails, is wrong or too slow."""
        context = multiprocessing.get_context("spawn")
        if self.process is None:
            self.connection, theirs = context.Pipe()
            self.process = context.Process(
                target=_serve, args=(theirs, self.text, self.freedoms), daemon=True
            )
            self.process.start()
            theirs.close()
        try:
            self.connection.send([str(s) for s in schedules])
            if self.connection.poll(CANDIDATE_SECONDS):
                answer: tuple[float, ...] | None = self.connection.recv()
                return answer
        except (EOFError, OSError):
            pass
        self.end()
        return None

    def end(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.connection.close()
            self.process = None


def _serve(connection: Connection, text: str, freedoms: Freedoms) -> None:
    """What the process does: for each list of schedules their seconds, or None."""
    body = parse_uir(text).root
    arrays = _inputs(body)
    want = _Run(body, freedoms, None, arrays).results()
    while True:
        try:
            schedules = connection.recv()
        except EOFError:
            return
        try:
            runs = [_Run(body, freedoms, Schedule.parse(s), arrays) for s in schedules]
            right = all(_same(run.results(), want) for run in runs)
            connection.send(_in_turns(runs) if right else None)
        except UopError:
            connection.send(None)


def _inputs(body: UOp) -> list[npt.NDArray[Any]]:
    rng = np.random.default_rng(0)
    out: list[npt.NDArray[Any]] = []
    for p in call_params(body):
        values = rng.standard_normal(p.arg.size) if p.dtype.is_float else rng.integers(0, 2, p.arg.size)
        out.append(values.astype(p.dtype.numpy))
    return out


class _Run:
    """A kernel by a schedule, with memory of its own."""

    def __init__(
        self, body: UOp, freedoms: Freedoms, schedule: Schedule | None, arrays: list[npt.NDArray[Any]]
    ) -> None:
        self.backend = CpuBackend(lambda body: generate(body, freedoms, schedule=schedule))
        params = call_params(body)
        self.run = self.backend.link(Plan((UOp(Ops.CALL, (body, *params)),), params, ()))
        self.arrays = arrays
        self.memory = [self.backend.allocate(a.nbytes) for a in arrays]

    def results(self) -> list[npt.NDArray[Any]]:
        """The arguments after one run."""
        for memory, array in zip(self.memory, self.arrays, strict=True):
            self.backend.copy_in(memory, array)
        self.run(self.memory, ())
        out = [np.empty_like(a) for a in self.arrays]
        for memory, array in zip(self.memory, out, strict=True):
            self.backend.copy_out(memory, array)
        return out

    def seconds(self, times: int) -> float:
        """Of one run, on average of so many."""
        began = time.perf_counter()
        for _ in range(times):
            self.run(self.memory, ())
        return (time.perf_counter() - began) / times


def _in_turns(runs: list[_Run]) -> tuple[float, ...]:
    """The time of each: the least of a few for one alone, else the median of several turns."""
    times = [max(1, min(1000, int(0.01 / max(run.seconds(1), 1e-7)))) for run in runs]
    rounds = 3 if len(runs) == 1 else 15
    found = [[run.seconds(n) for run, n in zip(runs, times, strict=True)] for _ in range(rounds)]
    return tuple((min if len(runs) == 1 else median)(column) for column in zip(*found, strict=True))


def _same(got: list[npt.NDArray[Any]], want: list[npt.NDArray[Any]]) -> bool:
    return all(_close(g, w) for g, w in zip(got, want, strict=True))


def _close(got: npt.NDArray[Any], want: npt.NDArray[Any]) -> bool:
    if want.dtype.kind in "biu":
        return np.array_equal(got, want)
    bound = TOLERANCE[want.dtype.itemsize]
    wide_got, wide_want = got.astype(np.float64), want.astype(np.float64)
    finite = wide_want[np.isfinite(wide_want)]
    largest = float(np.abs(finite).max()) if finite.size else 0.0
    return np.allclose(wide_got, wide_want, rtol=bound, atol=bound * largest, equal_nan=True)
