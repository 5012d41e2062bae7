"""The search for a schedule: what it takes and leaves by the times that it is told, and one that is real."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from uop_codegen_c import Freedoms, Hold, Retype, Schedule, Split, Stage, settings, stages, tune
from uop_codegen_c.machine import Machine
from uop_codegen_c.optimize import choose
from uop_codegen_c.tune_space import changed, extended, legal_part, variants
from uop_ir import AxisType, Ops, UOp, UopError, dtypes, override

MACHINE = Machine(32, 16, 2)
NONE = Schedule()


def sums(rows: int, columns: int) -> UOp:
    """The sum of each row, in integers."""
    x = UOp.param(1, rows * columns, dtypes.i32).reshape((rows, columns))
    return UOp.sink(UOp.param(0, rows, dtypes.i32).store(x.reduce(Ops.ADD, 1)))


def loops(body: UOp) -> UOp:
    return next(root for name, root in stages(body) if name == "bounds")


class Fake:
    """Tells times that a function of a schedule's text gives,
    in turns those of another, and the time that it took.
    """

    def __init__(
        self, seconds: Callable[[str], float], in_turns: Callable[[str], float] | None = None
    ) -> None:
        self.seconds, self.in_turns = seconds, in_turns or seconds
        self.asked: list[str] = []
        self.held: list[str] = []

    def measure(self, schedules: Sequence[Schedule]) -> list[float]:
        self.asked += map(str, schedules)
        return [self.seconds(str(s)) for s in schedules]

    def turns(self, one: Schedule, other: Schedule) -> list[tuple[float, float]]:
        self.held.append(str(other))
        pair = self.in_turns(str(one)), self.in_turns(str(other))
        return [] if inf in pair else [pair] * 5

    def clock(self) -> float:
        """A second for each that was measured."""
        return float(len(self.asked))

    def search(self, width: int = 1, seconds: float = 60.0, known: Schedule = NONE) -> Any:
        root = loops(sums(64, 48))
        found = tune.Search(root, Freedoms(), MACHINE, self, width, seconds, lambda text: None, self.clock)
        return found.run(known)


CHOSEN = str(choose(loops(sums(64, 48)), Freedoms(), MACHINE)[0])


def test_it_goes_on_from_what_is_faster() -> None:
    """Each UNROLL of 4 helps, and no more than twice; nothing is timed twice."""
    fake = Fake(lambda text: 1.0 - 0.2 * min(text.count("4 unroll"), 2))
    found = fake.search(seconds=1000.0)
    assert found.schedule is not None
    assert found.schedule.count("4 unroll") == 2
    assert (found.chosen, found.chosen_seconds, found.seconds) == (CHOSEN, 1.0, pytest.approx(0.6))
    assert found.measured == len(fake.asked) == len(set(fake.asked))
    assert found.ratio == pytest.approx(1 / 0.6)


def test_what_fails_or_is_wrong_is_never_found() -> None:
    found = Fake(lambda text: inf if "unroll" in text else 1.0).search()
    assert found.schedule is None
    assert 0 < found.refused < found.measured
    assert found.seconds == found.chosen_seconds == 1.0


def test_what_is_slower_in_turns_is_never_found() -> None:
    def alone(text: str) -> float:
        return 0.5 if "unroll" in text else 1.0

    fake = Fake(alone, lambda text: 0.98 if "unroll" in text else 1.0)
    assert fake.search().schedule is None
    assert len(fake.held) == tune.FINALISTS
    fake = Fake(alone, lambda text: inf if "unroll" in text else 1.0)  # it fails in turns
    assert fake.search().schedule is None
    seen: list[str] = []

    def second(text: str) -> float:
        """Only the second that is held against the chosen one is faster."""
        if text != CHOSEN and text not in seen:
            seen.append(text)
        return 0.5 if text in seen[1:2] else 1.0

    found = Fake(alone, second).search()
    assert found.schedule == seen[1]


def test_one_that_wins_some_turns_only_is_not_found() -> None:
    class Noisy(Fake):
        def turns(self, one: Schedule, other: Schedule) -> list[tuple[float, float]]:
            return [(1.0, 0.1), (1.0, 0.1), (1.0, 1.1)]

    assert Noisy(lambda text: 0.5 if "unroll" in text else 1.0).search().schedule is None


def test_a_limit_of_time_ends_it_soon() -> None:
    fake = Fake(lambda text: 1.0 / (1 + len(text)))
    assert len(fake.search(seconds=20.0).chosen) > 0
    assert len(fake.asked) <= 20 + tune.BATCH


def test_a_kernel_that_takes_no_time_is_left_alone() -> None:
    found = Fake(lambda text: 1e-6).search()
    assert (found.measured, found.schedule) == (1, None)


def test_what_was_found_before_is_timed_again() -> None:
    fake = Fake(lambda text: 1.0)
    fake.search(known=Schedule.parse("retype 0 thread; split 1 3 unroll; retype 99 upcast"))
    assert fake.asked[1] == "retype 0 thread; split 1 3 unroll"


def test_one_that_cannot_be_timed_is_an_error() -> None:
    with pytest.raises(UopError, match="by the schedule that is chosen fails"):
        Fake(lambda text: inf).search()


# the schedules that are tried


def test_every_schedule_of_the_space_is_legal() -> None:
    root = loops(sums(24, 48))
    free = Freedoms(contract=False, reassociate=False)
    chosen = choose(root, free, MACHINE)[0]
    space = [*variants(root, free, MACHINE), *changed(root, chosen, free), *extended(root, chosen, free)]
    assert len({program for _, program in space}) > 20
    assert {type(action) for schedule, _ in space for action in schedule} == {Split, Retype, Stage, Hold}
    assert all(schedule.apply(root, free) is program for schedule, program in space)
    assert all(program is not root for _, program in extended(root, NONE, free))


def test_changes_are_those_of_one_action() -> None:
    root = loops(sums(24, 48))
    schedule = Schedule.parse("split 0 4 upcast; retype 2 thread")
    found = {str(s) for s, _ in changed(root, schedule, Freedoms())}
    assert {
        "split 0 4 upcast",
        "split 0 6 upcast; retype 2 thread",
        "split 0 4 unroll; retype 2 thread",
    } <= found
    part, _ = legal_part(root, [Split(9, 2, AxisType.LOOP), *schedule], Freedoms())
    assert part == schedule


# one search that is real


@pytest.mark.usefixtures("cpu")
def test_what_is_found_is_right(
    run_scheduled: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tune, "WORTH_SECONDS", 0.0)
    body = sums(96, 1000)
    told: list[str] = []
    with override(settings, uop_cache=str(tmp_path)):
        found = tune.tune(body, Freedoms(), 1, 0.2, told.append, NONE)
    assert found.measured >= 2
    assert found.seconds <= found.chosen_seconds
    assert told
    best = Schedule.parse(told[-1].split("ms")[1].replace("none", ""))
    x = np.arange(96_000, dtype=np.int32)
    got = run_scheduled(body, Freedoms(), best, [np.zeros(96, np.int32), x])[0]
    np.testing.assert_array_equal(got, x.reshape(96, 1000).sum(1))
