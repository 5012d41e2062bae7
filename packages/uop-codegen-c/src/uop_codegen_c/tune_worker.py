"""Tune worker: a process that lowers, compiles,
checks and times schedules of one kernel, and may die of it. Week 6.

It is started from nothing, never forked: a fork would share locks and threads, and no module of the program
that is tuned may run twice. The job is a file; then a line of JSON is asked and lines of JSON are answered:

    {"measure": [schedule, ...]}   "ready" when they are compiled, then for each its seconds, "wrong", or null
    {"turns": [one, other]}        "ready", then a list of pairs of seconds, or null

It compiles to a cache of its own, which goes with it. One that takes longer than CANDIDATE_SECONDS for an
answer is ended, by a signal of its own where nobody is left to do it; only then its cache stays in the folder
of temporary files.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from math import inf
from pathlib import Path
from typing import Any

from uop_ir import BackendError, UOp, UopError, call_params, format_uir, override, parse_uir
from uop_ir import settings as ir_settings

from .freedoms import Freedoms
from .lower import argument_bytes
from .schedule import Schedule
from .settings import settings
from .tune_bench import Bench

#: Seconds for one answer: some schedules lowered and compiled, one checked and timed, or two timed in turns.
CANDIDATE_SECONDS = 20
#: Bytes of arguments that a kernel may have: they are made several times.
MOST_BYTES = 1 << 30
PROGRAM = (
    "import json, sys; job = json.load(open(sys.argv[1])); sys.path[:] = job['path']; "
    "from uop_codegen_c.tune_worker import serve; serve(job)"
)


class Worker:
    """Times schedules of one kernel in a process of its own, started anew where it dies or takes too long."""

    def __init__(self, body: UOp, free: Freedoms) -> None:
        """Raises UopError for a kernel whose arguments are too large to be made again."""
        nbytes = argument_bytes(call_params(body))
        if nbytes > MOST_BYTES:
            raise UopError(f"tune: a kernel with {nbytes} bytes of arguments", remedy=f"at most {MOST_BYTES}")
        self.folder = tempfile.TemporaryDirectory(prefix="uop-tune-")
        self.process: subprocess.Popen[bytes] | None = None
        self.said = b""
        job = {
            "path": sys.path,
            "body": format_uir(body),
            "freedoms": asdict(free),
            "settings": {**asdict(settings), "uop_cache": self.folder.name, "beam": 0},
            "check": ir_settings.check,
        }
        (Path(self.folder.name) / "job.json").write_text(json.dumps(job))

    def measure(self, schedules: Sequence[Schedule]) -> list[float]:
        """Seconds of each; infinite where it fails, is wrong, or takes too long."""
        if not schedules:
            return []
        times: list[float] = []
        try:
            self._ask("measure", schedules)
            for schedule in schedules:
                seconds = self._line()
                times.append(seconds if isinstance(seconds, float) else inf)
                if seconds == "wrong" and ir_settings.debug >= 1:
                    print(f"other results than by the schedule that is chosen: {schedule}")
        except (EOFError, OSError):
            self._kill()
            if len(times) == 0 and len(schedules) > 1:  # it is not known which of them was too much
                return [seconds for one in schedules for seconds in self.measure([one])]
            return [*times, inf, *self.measure(schedules[len(times) + 1 :])]
        return times

    def turns(self, one: Schedule, other: Schedule) -> list[tuple[float, float]]:
        """Seconds of both, in turns; none where one of them fails."""
        try:
            self._ask("turns", [one, other])
            return [(old, new) for old, new in self._line() or []]
        except (EOFError, OSError):
            self._kill()
            return []

    def end(self) -> None:
        """End the process, and remove what it has written."""
        self._kill()
        self.folder.cleanup()

    def _ask(self, what: str, schedules: Sequence[Schedule]) -> None:
        if self.process is not None and self.process.poll() is not None:  # while it had nothing to do
            self._kill()
        if self.process is None:
            self._start()
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({what: [str(s) for s in schedules]}).encode() + b"\n")
        self.process.stdin.flush()
        self._line()

    def _start(self) -> None:
        job = str(Path(self.folder.name) / "job.json")
        self.said = b""
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-c", PROGRAM, job],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        except OSError as error:
            reason = error.strerror or error
            raise BackendError(f"tune: {sys.executable!r} cannot be started: {reason}") from None

    def _line(self) -> Any:
        """The next answer. Raises EOFError where there will be none, or none in time."""
        assert self.process is not None
        assert self.process.stdout is not None
        ends = time.monotonic() + CANDIDATE_SECONDS
        while b"\n" not in self.said:
            if not select.select([self.process.stdout], [], [], max(ends - time.monotonic(), 0))[0]:
                raise EOFError
            some = os.read(self.process.stdout.fileno(), 1 << 16)
            if not some:
                raise EOFError
            self.said += some
        line, _, self.said = self.said.partition(b"\n")
        return json.loads(line)

    def _kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            for pipe in (self.process.stdin, self.process.stdout):
                with suppress(OSError):  # what was not written
                    if pipe is not None:
                        pipe.close()
            self.process.wait()
            self.process = None


def serve(job: dict[str, Any]) -> None:
    """What the process does until nobody asks any more."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # nothing else may stand between the answers

    def answer(value: object) -> None:
        print(json.dumps(value), file=answers, flush=True)
        signal.alarm(2 * CANDIDATE_SECONDS)

    signal.alarm(2 * CANDIDATE_SECONDS)
    try:
        with override(settings, **job["settings"]), override(ir_settings, check=job["check"], debug=0):
            bench = Bench(parse_uir(job["body"]).root, Freedoms(**job["freedoms"]))
            for line in sys.stdin:
                ((what, texts),) = json.loads(line).items()
                ANSWERS[what](bench, [Schedule.parse(text) for text in texts], answer)
    finally:  # nobody is left to do it
        shutil.rmtree(job["settings"]["uop_cache"], ignore_errors=True)


def _measure(bench: Bench, schedules: list[Schedule], answer: Callable[[object], None]) -> None:
    programs = bench.programs(schedules)
    answer("ready")
    for program in programs:
        if program is None:
            answer(None)
        else:
            answer(bench.seconds(program) if bench.right(program) else "wrong")


def _turns(bench: Bench, schedules: list[Schedule], answer: Callable[[object], None]) -> None:
    one, other = bench.programs(schedules)
    answer("ready")
    answer(None if one is None or other is None else bench.turns(one, other))


ANSWERS: dict[str, Callable[[Bench, list[Schedule], Callable[[object], None]], None]] = {
    "measure": _measure,
    "turns": _turns,
}
