"""The search for a schedule: what it finds is legal and right, and what is wrong, slow or dead does not count."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from uop_codegen_c import Freedoms, Schedule, stages, tune
from uop_codegen_c.tune_command import tune_command
from uop_ir import Ops, UOp, UopError, dtypes, format_uir


def sums(rows: int, columns: int) -> UOp:
    """The sum of each row, in integers."""
    x = UOp.param(1, rows * columns, dtypes.i32).reshape((rows, columns))
    return UOp.sink(UOp.param(0, rows, dtypes.i32).store(x.reduce(Ops.ADD, 1)))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UOP_CACHE", str(tmp_path))  # for processes that are started


@pytest.mark.usefixtures("cache")
def test_what_is_found_is_right(run_scheduled: Callable[..., Any]) -> None:
    body = sums(24, 20)
    told: list[str] = []
    found = tune.tune(body, Freedoms(), width=1, seconds=2.0, say=told.append)
    assert found.measured >= 2
    assert found.best_seconds <= found.chosen_seconds
    assert all(str(Schedule.parse(line.split("ms")[1])) for line in told)
    x = np.arange(480, dtype=np.int32)
    got = run_scheduled(body, Freedoms(), found.best, [np.zeros(24, np.int32), x])[0]
    np.testing.assert_array_equal(got, x.reshape(24, 20).sum(1))


@pytest.mark.usefixtures("cache")
def test_a_worker_that_fails_or_is_slow_has_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = tune._Worker(sums(4, 8), Freedoms())
    try:
        assert worker.ask(Schedule.parse("retype 7 thread")) is None
        alive = worker.process.pid
        assert len(worker.ask(Schedule(), Schedule.parse("retype 1 unroll")) or ()) == 2
        assert worker.process.pid == alive
        worker.process.kill()
        assert worker.ask(Schedule()) is None
        monkeypatch.setattr(tune, "CANDIDATE_SECONDS", 0.0)
        assert worker.ask(Schedule()) is None
        assert worker.process is None
    finally:
        worker.end()


def test_every_longer_schedule_is_legal_and_another_program() -> None:
    root = next(root for name, root in stages(sums(6, 8)) if name == "bounds")
    free = Freedoms(contract=False, reassociate=False)
    longer = list(tune.extended(root, Schedule.parse("retype 0 thread"), free))
    assert len(longer) > 10
    programs = [schedule.apply(root, free) for schedule in longer]
    assert Schedule.parse("retype 0 thread").apply(root) not in programs


@pytest.mark.parametrize(
    ("got", "want", "same"),
    [
        (np.array([1, 2]), np.array([1, 3]), False),
        (np.array([True]), np.array([True]), True),
        (np.array([1.0, np.nan], np.float32), np.array([1.00001, np.nan], np.float32), True),
        (np.array([1.0], np.float32), np.array([1.01], np.float32), False),
        (np.array([np.inf], np.float32), np.array([1.0], np.float32), False),
        (np.array([np.nan], np.float32), np.array([1.0], np.float32), False),
        (np.array([1e-9, 1.0]), np.array([0.0, 1.0]), False),
    ],
)
def test_results_that_differ_are_told(got: Any, want: Any, same: bool) -> None:
    assert tune._same([got], [want]) == same


def test_what_cannot_be_tuned_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "scaled.uir"
    path.write_text(
        "%0 = param 8 : dtype=f32 slot=0\n%1 = param 8 : dtype=f32 slot=1\n%2 = param : dtype=f32 name=s\n"
        "%3 = mul %1, %2\n%4 = store %0, %3\n%5 = sink %4\n"
    )
    with pytest.raises(UopError, match="tune: a kernel with scalars"):
        tune_command([str(path)])
    path.write_text(format_uir(sums(4, 8)))
    with pytest.raises(UopError, match="at least 1, more than 0"):
        tune_command([str(path), "--width", "0"])
