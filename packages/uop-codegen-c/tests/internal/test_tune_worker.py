"""The process that times schedules: what is wrong,
slow or deadly does not count, and nothing of it stays behind.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from uop_codegen_c import Freedoms, KernelSource, Schedule, settings, tune_bench, tune_worker
from uop_codegen_c.tune_bench import Bench, same
from uop_codegen_c.tune_worker import Worker
from uop_ir import Ops, Param, UOp, UopError, dtypes, override
from uop_ir import settings as ir_settings

NONE = Schedule()


def sums(rows: int, columns: int, dtype: Any = dtypes.i32) -> UOp:
    """The sum of each row."""
    x = UOp.param(1, rows * columns, dtype).reshape((rows, columns))
    return UOp.sink(UOp.param(0, rows, dtype).store(x.reduce(Ops.ADD, 1)))


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Worker]:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    worker = Worker(sums(4, 8), Freedoms())
    yield worker
    worker.end()
    assert not list(tmp_path.iterdir())


def test_a_worker_goes_on_behind_what_is_illegal_and_starts_anew_behind_what_kills_it(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, other = Schedule.parse("retype 1 unroll"), Schedule.parse("split 0 2 upcast")
    times = worker.measure([good, Schedule.parse("retype 7 thread"), other])
    assert times[1] == inf
    assert 0 < times[0] < inf > times[2] > 0
    turns = worker.turns(NONE, good)
    assert tune_bench.LEAST_TURNS <= len(turns) <= tune_bench.TURNS
    assert all(old > 0 < new for old, new in turns)
    assert worker.turns(NONE, Schedule.parse("retype 7 thread")) == []
    assert worker.process is not None
    worker.process.kill()
    worker.process.wait()
    assert worker.measure([good]) < [inf]  # no fault of this one
    monkeypatch.setattr("select.select", lambda *args: ([], [], []))  # no answer in time
    assert worker.measure([good, other]) == [inf, inf]
    assert worker.turns(good, other) == []
    monkeypatch.undo()
    assert worker.measure([NONE]) < [inf]
    assert worker.process is not None
    assert worker.process.stdin is not None
    worker.process.stdin.close()  # nobody asks any more
    assert worker.process.wait(20) == 0
    assert not Path(worker.folder.name).exists()


@pytest.mark.slow
def test_a_process_that_hangs_ends_itself(worker: Worker) -> None:
    """Nobody asks it, and its pipes stay open; another takes its place when it is needed."""
    worker.measure([NONE])
    assert worker.process is not None
    deadline = time.monotonic() + 3 * tune_worker.CANDIDATE_SECONDS
    while worker.process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.5)
    assert worker.process.poll() == -signal.SIGALRM
    assert worker.measure([NONE]) < [inf]


def test_what_one_schedule_does_to_the_process_is_no_fault_of_the_others(
    worker: Worker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second of three ends it, once they are compiled; the third has wrong results."""
    asked: list[int] = []
    told: list[Any] = []

    def ask(what: str, schedules: list[Schedule]) -> None:
        asked.append(len(schedules))
        told[:] = [0.1, EOFError, "wrong"] if len(schedules) == 3 else ["wrong"]

    def line() -> Any:
        answer = told.pop(0)
        if answer is EOFError:
            raise EOFError
        return answer

    monkeypatch.setattr(worker, "_ask", ask)
    monkeypatch.setattr(worker, "_line", line)
    with override(ir_settings, debug=1):
        assert worker.measure([NONE, NONE, Schedule.parse("retype 1 unroll")]) == [0.1, inf, inf]
    assert asked == [3, 1]
    assert capsys.readouterr().out == "other results than by the schedule that is chosen: retype 1 unroll\n"


def test_only_what_is_right_has_a_time() -> None:
    class Three:
        """A bench with a program that is right, one that is wrong, and one that is none."""

        def programs(self, schedules: list[Schedule]) -> list[str | None]:
            return ["right", "wrong", None]

        def right(self, program: str) -> bool:
            return program == "right"

        def seconds(self, program: str) -> float:
            return 0.5

    told: list[object] = []
    tune_worker.ANSWERS["measure"](Three(), [NONE] * 3, told.append)  # type: ignore[arg-type]
    assert told == ["ready", 0.5, "wrong", None]


def test_large_arguments_are_refused() -> None:
    with pytest.raises(UopError, match="tune: a kernel with 4294967304 bytes of arguments"):
        Worker(sums(2, 1 << 29), Freedoms())


# the bench


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[None]:
    with override(settings, uop_cache=str(tmp_path)):
        yield


@pytest.mark.usefixtures("cache")
def test_results_are_held_against_those_of_the_chosen_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(sums(6, 40, dtypes.f32), Freedoms())
    programs = bench.programs([Schedule.parse("split 1 8 vector"), Schedule.parse("retype 9 loop"), NONE])
    assert programs[1] is None
    assert programs[0] is not None
    assert bench.right(programs[0])
    for case in range(2):
        x = bench.cases[case][0][1].reshape(6, 40)
        np.testing.assert_allclose(bench.want[case][0], x.sum(1, dtype=np.float64), rtol=1e-5, atol=1e-5)
    assert all((bench.cases[1][0][1] >= 0).tolist())
    bench.want[1][0][3] *= 1.01
    assert not bench.right(programs[0])


@pytest.mark.usefixtures("cache")
def test_a_kernel_that_changes_what_it_reads_begins_with_fresh_inputs() -> None:
    x = UOp.param(0, 16, dtypes.f32)
    bench = Bench(UOp.sink(x.store(x * 0.5)), Freedoms())
    (program,) = bench.programs([NONE])
    assert program is not None
    bench.measured(program, 30)
    assert bench.right(program)
    np.testing.assert_array_equal(bench.want[0][0], bench.cases[0][0][0] * np.float32(0.5))


@pytest.mark.usefixtures("cache")
def test_scalars_and_symbolic_sizes_have_values() -> None:
    n, factor = UOp.variable("n", 1, 12), UOp(Ops.PARAM, (), Param(dtypes.f32, name="factor"))
    value = UOp.param(1, 12, dtypes.f32).shrink(((0, n),)) * factor
    bench = Bench(UOp.sink(UOp.param(0, 12, dtypes.f32).shrink(((0, n),)).store(value)), Freedoms())
    (program,) = bench.programs([Schedule()])
    assert program is not None
    assert bench.right(program)
    for case, (size, factor_) in enumerate([(12, 1.0), (6, 0.5)]):
        before, x = bench.cases[case][0]
        np.testing.assert_array_equal(bench.want[case][0][:size], (x * np.float32(factor_))[:size])
        np.testing.assert_array_equal(bench.want[case][0][size:], before[size:])


@pytest.mark.usefixtures("cache")
def test_what_does_not_compile_or_is_long_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(sums(4, 8), Freedoms())
    with monkeypatch.context() as patch:
        patch.setattr(tune_bench, "LONG_TEXT", 10)
        assert bench.programs([NONE]) == [None]

    def broken(schedule: Schedule | None) -> KernelSource | None:
        whole = text(schedule)
        if whole is None or schedule != Schedule.parse("retype 1 unroll"):
            return whole
        return KernelSource(whole.name, whole.preamble, whole.text + "?")

    text = bench.text
    monkeypatch.setattr(bench, "text", broken)
    bad, good = bench.programs([Schedule.parse("retype 1 unroll"), NONE])
    assert bad is None
    assert good is not None
    assert bench.right(good)


@pytest.mark.parametrize(
    ("got", "want", "alike"),
    [
        (np.array([1, 2]), np.array([1, 3]), False),
        (np.array([True]), np.array([True]), True),
        (np.array([1.0, np.nan], np.float32), np.array([1.00001, np.nan], np.float32), True),
        (np.array([1.0], np.float32), np.array([1.01], np.float32), False),
        (np.array([np.inf], np.float32), np.array([1.0], np.float32), False),
        (np.array([np.nan], np.float32), np.array([1.0], np.float32), False),
        (np.array([1e-9, 1.0]), np.array([0.0, 1.0]), False),
        (np.array([0.0]), np.array([-0.0]), True),
    ],
)
def test_results_that_differ_are_told(got: Any, want: Any, alike: bool) -> None:
    assert same(got, want) == alike


def test_without_freedoms_every_bit_counts() -> None:
    one, other = np.array([1.0], np.float32), np.array([1.0000001], np.float32)
    assert same(one, other)
    assert not same(one, other, exact=True)
    assert same(np.array([np.nan]), -np.array([np.nan]), exact=True)
