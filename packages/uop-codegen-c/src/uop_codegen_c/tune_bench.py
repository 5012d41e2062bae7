"""Tune bench: a kernel by several schedules on the same memory, checked and timed. Week 6."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from uop_ir import BackendError, Executable, Ops, Plan, UOp, UopError, call_params, dtypes
from uop_ir import generated as generated_values

from .cache import KernelSource
from .compiler import LONG_TEXT
from .freedoms import Freedoms
from .linearize import linearize
from .loader import load
from .lower import at_loop_level, source, stages
from .memory import allocate, bytes_of
from .runtime import REPLAY, CpuProgram, replay
from .schedule import Schedule

Arrays: TypeAlias = "list[npt.NDArray[Any]]"
#: The pass that schedules are for.
OPTIMIZE = "optimize"
#: By bytes of a float, what sums that are added in another order may differ by:
#: of themselves, and of the largest.
TOLERANCE = {2: 2e-2, 4: 1e-4, 8: 1e-10}
#: Seconds that one measurement takes, and turns take in all; runs of a measurement; measurements; turns.
SECONDS, TURNS_SECONDS = 0.01, 6.0
RUNS, ROUNDS, TURNS, LEAST_TURNS = 1000, 3, 15, 5


class Bench:
    """The memory of a kernel's arguments, its inputs, and its results by the schedule that is chosen.

    There are two sets of inputs: numbers of both signs with scalars at their greatest, and numbers that are
    not negative with smaller sizes, so that a logarithm too has a result to be compared.
    """

    def __init__(self, body: UOp, free: Freedoms) -> None:
        self.free = free
        self.root = at_loop_level(body, free)
        params = self.params = call_params(body)
        inputs = tuple(p for p in params if p.arg.size is not None)
        self.plan = Plan((UOp(Ops.CALL, (body, *params)),), inputs, params[len(inputs) :])
        signed = [generated_values(p, 0) for p in inputs]
        positive = [np.abs(generated_values(p, 1)) for p in inputs]
        self.cases: list[tuple[Arrays, list[float | int]]] = [
            (signed, [_scalar(p, 1) for p in self.plan.scalars]),
            (positive, [_scalar(p, 2) for p in self.plan.scalars]),
        ]
        self.memory = [allocate(a.nbytes) for a in signed]
        self.want: list[Arrays] = []
        (chosen,) = self.programs([None])
        if chosen is None:
            raise UopError("tune: the kernel has no program by the schedule that is chosen")
        self.want = [self.results(chosen, case) for case in range(len(self.cases))]

    def programs(self, schedules: Sequence[Schedule | None]) -> list[Executable | None]:
        """The kernel by each schedule, ready to run;
        None where it is not legal, too long, or does not compile.
        """
        texts = [self.text(schedule) for schedule in schedules]
        some = [text for text in texts if text is not None]
        try:
            *functions, replay_function = load([*some, REPLAY])
        except BackendError:
            if len(schedules) == 1:
                return [None]
            return [program for schedule in schedules for program in self.programs([schedule])]
        ready = iter(functions)
        return [
            None
            if text is None
            else replay(self.plan, [CpuProgram(text.name, text.text, next(ready))], replay_function)
            for text in texts
        ]

    def text(self, schedule: Schedule | None) -> KernelSource | None:
        """The C of the kernel by a schedule, or the one that is chosen;
        None where it is not legal, or too long.
        """
        try:
            *_, (_, lowered) = stages(self.root, self.free, OPTIMIZE, schedule=schedule)
            found = source(linearize(lowered), self.params)
        except UopError:
            return None
        return None if schedule is not None and len(found.text) > LONG_TEXT else found

    def fill(self, case: int) -> None:
        """Put the inputs of a case into the memory."""
        for memory, array in zip(self.memory, self.cases[case][0], strict=True):
            bytes_of(memory)[:] = array.view(np.uint8)

    def results(self, program: Executable, case: int) -> Arrays:
        """The arguments after one run with the inputs of a case."""
        self.fill(case)
        program(self.memory, self.cases[case][1])
        arrays = self.cases[case][0]
        return [bytes_of(m).copy().view(a.dtype) for m, a in zip(self.memory, arrays, strict=True)]

    def right(self, program: Executable) -> bool:
        """Whether the results are those of the chosen schedule: bit for bit, or as the freedoms allow."""
        exact = not (self.free.reassociate or self.free.contract)
        return all(
            all(map(partial(same, exact=exact), self.results(program, case), want))
            for case, want in enumerate(self.want)
        )

    def seconds(self, program: Executable) -> float:
        """Of one run: the least of some measurements."""
        once = self.measured(program, 1)
        runs = _runs(once)
        return min(self.measured(program, runs) for _ in range(ROUNDS if once < 10 * SECONDS else 1))

    def turns(self, one: Executable, other: Executable) -> list[tuple[float, float]]:
        """Of one run of each, in turns, which of them goes first changing."""
        runs = [_runs(self.measured(program, 1)) for program in (one, other)]
        began = time.perf_counter()
        found: list[tuple[float, float]] = []
        while len(found) < TURNS and (
            len(found) < LEAST_TURNS or time.perf_counter() - began < TURNS_SECONDS
        ):
            if len(found) % 2:
                second = self.measured(other, runs[1])
                found.append((self.measured(one, runs[0]), second))
            else:
                first = self.measured(one, runs[0])
                found.append((first, self.measured(other, runs[1])))
        return found

    def measured(self, program: Executable, runs: int) -> float:
        """Seconds of one run, on average of so many,
        from fresh inputs on and after one that is not counted.
        """
        self.fill(0)
        scalars = self.cases[0][1]
        program(self.memory, scalars)
        began = time.perf_counter()
        for _ in range(runs):
            program(self.memory, scalars)
        return (time.perf_counter() - began) / runs


def _runs(seconds: float) -> int:
    return max(1, min(RUNS, int(SECONDS / max(seconds, 1e-7))))


def _scalar(param: UOp, divisor: int) -> float | int:
    """A value for a scalar: a variable at its greatest, or at a part of it."""
    if param.dtype is dtypes.index:
        return int(max(param.arg.min, param.arg.max // divisor))
    return 1.0 / divisor if param.dtype.is_float else 1


def same(got: npt.NDArray[Any], want: npt.NDArray[Any], exact: bool = False) -> bool:
    """Whether results are those wanted: NaNs in the same places, floats within TOLERANCE unless `exact`."""
    if np.array_equal(got.view(np.uint8), want.view(np.uint8)):
        return True
    if want.dtype.kind in "biu":
        return False
    wide_got, wide_want = got.astype(np.float64), want.astype(np.float64)
    if exact:
        return np.array_equal(wide_got, wide_want, equal_nan=True)
    bound = TOLERANCE[want.dtype.itemsize]
    finite = wide_want[np.isfinite(wide_want)]
    largest = float(np.abs(finite).max()) if finite.size else 0.0
    return np.allclose(wide_got, wide_want, rtol=bound, atol=bound * largest, equal_nan=True)
