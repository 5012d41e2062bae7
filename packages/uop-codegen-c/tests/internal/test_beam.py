"""What timing has found: kept, looked up and applied;
never believed when damaged, never an error, never a wrong kernel.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from uop_codegen_c import Freedoms, KernelSource, Schedule, beam, generate, settings, tuned
from uop_codegen_c.beam import search, tuned_text
from uop_codegen_c.cache import active_compiler, digest
from uop_codegen_c.freedoms import current_freedoms
from uop_codegen_c.machine import Machine
from uop_codegen_c.tuned import Find, find_path, keep, look_up
from uop_codegen_c.upkeep import damaged, inventory, prune
from uop_ir import UOp, UopError, dtypes, override
from uop_ir import settings as ir_settings

SCHEDULE = "split 0 4 unroll"
FOUND = Find(SCHEDULE, "", 2.0, 1.0, 9, 1, 2, 30.0)


def body(factor: float = 2.0) -> UOp:
    return UOp.sink(UOp.param(0, 64, dtypes.f32).store(UOp.param(1, 64, dtypes.f32) * factor))


def by_hand() -> KernelSource:
    return generate(body(), schedule=Schedule.parse(SCHEDULE))


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with override(settings, uop_cache=str(tmp_path)):
        yield tmp_path / "c" / "tuned"


@pytest.fixture
def kept(folder: Path) -> Path:
    """The file of a find for the kernel."""
    with tuned.alone():
        keep(find_path(body(), current_freedoms()), FOUND)
    return find_path(body(), current_freedoms())


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, float, str]]:
    """The width, the limit and the schedule that was known of each search; all find SCHEDULE."""
    asked: list[tuple[int, float, str]] = []

    def tune(b: UOp, free: Freedoms, width: int, seconds: float, say: Any, known: Schedule) -> Find:
        asked.append((width, seconds, str(known)))
        return replace(FOUND, width=width, limit=seconds)

    monkeypatch.setattr(beam, "tune", tune)
    return asked


def test_without_finds_nothing_is_looked_up(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuned, "find_path", lambda *args: pytest.fail("it was looked up"))
    assert tuned_text(body()) == generate(body())
    assert not folder.exists()


def test_what_was_found_is_applied(kept: Path) -> None:
    assert look_up(body(), current_freedoms()) == FOUND
    assert tuned_text(body()) == by_hand() != generate(body())
    assert tuned_text(body()) == by_hand()  # from its text on disk
    assert tuned_text(body(3.0)) == generate(body(3.0))
    keep(kept, replace(FOUND, schedule=None))
    assert tuned_text(body()) == generate(body())


def test_a_schedule_that_was_found_is_printed(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with override(ir_settings, debug=3):
        assert tuned_text(body()) == by_hand()
    assert capsys.readouterr().out == f"schedule, found by timing: {SCHEDULE}\n"


def test_it_is_for_this_cpu_these_freedoms_and_this_code(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with override(settings, strict=1):
        assert tuned_text(body()) == generate(body())
    with override(settings, opt=0):
        assert tuned_text(body()) == generate(body())
    for name, other in (
        ("this_machine", Machine(16, 16, 1)),
        ("cpu_model", "another"),
        ("lowering_identity", "other code"),
        ("active_compiler", replace(active_compiler(), identity="another compiler")),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(tuned, name, lambda other=other: other)
            assert look_up(body(), current_freedoms()) is None
    assert kept.exists()


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[:-9],
        lambda text: text.replace("1.0", "1.5"),
        lambda text: _written('{"schedule": null}'),
        lambda text: _written("[]"),
        lambda text: _written("null"),
        lambda text: text.replace("\n", "\xff\n").encode("latin-1"),
    ],
)
def test_what_is_damaged_or_of_another_version_goes(kept: Path, damage: Any) -> None:
    new = damage(kept.read_text())
    kept.write_bytes(new if isinstance(new, bytes) else new.encode())
    assert tuned_text(body()) == generate(body())
    assert not list(kept.parent.iterdir())
    keep(kept, FOUND)
    assert tuned_text(body()) == by_hand()


def _written(text: str) -> str:
    return f"{digest(tuned.VERSION, text)}\n{text}"


@pytest.mark.parametrize("schedule", ["retype 9 thread", "split 0 4 sideways", "split 0 99 upcast", 7])
def test_a_schedule_that_is_not_legal_goes(kept: Path, schedule: Any) -> None:
    keep(kept, replace(FOUND, schedule=schedule))
    assert tuned_text(body()) == generate(body())
    assert not list(kept.parent.iterdir())


@pytest.mark.usefixtures("folder")
def test_a_search_is_made_once_and_again_if_wider_or_longer(searches: list[tuple[int, float, str]]) -> None:
    assert tuned_text(body()) == generate(body())
    assert searches == []
    for width, seconds in ((2, 30), (2, 30), (1, 20), (3, 30), (3, 40)):
        with override(settings, beam=width, beam_seconds=seconds):
            assert tuned_text(body()) == by_hand()
    assert searches == [(2, 30, ""), (3, 30, SCHEDULE), (3, 40, SCHEDULE)]
    assert tuned_text(body()) == by_hand()
    search(body(), current_freedoms(), 1, 1, anew=True)
    assert searches[3:] == [(1, 1, SCHEDULE)]


@pytest.mark.usefixtures("folder")
def test_a_search_that_fails_costs_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*args: Any) -> Find:
        raise UopError("no process")

    monkeypatch.setattr(beam, "tune", fail)
    with override(settings, beam=1), override(ir_settings, debug=1):
        assert tuned_text(body()) == generate(body())
    assert "is not tuned: no process" in capsys.readouterr().out


def test_a_cache_that_cannot_be_written_keeps_nothing(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**kwargs: Any) -> Any:
        raise PermissionError

    monkeypatch.setattr("tempfile.mkstemp", refuse)
    keep(kept, replace(FOUND, width=9))
    assert look_up(body(), current_freedoms()) == FOUND


def test_writers_and_readers_at_once(kept: Path) -> None:
    """Every read gives a whole find of one of the writers."""
    seen: list[Find | None] = []

    def write(width: int) -> None:
        for _ in range(50):
            keep(kept, replace(FOUND, width=width))

    writers = [threading.Thread(target=write, args=(width,)) for width in (3, 4)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        seen.append(tuned.read_find(kept))
    assert None not in seen
    assert {path.name for path in kept.parent.parent.iterdir()} == {kept.parent.name, "lock"}
    assert list(kept.parent.iterdir()) == [kept]


def test_upkeep(kept: Path, folder: Path) -> None:
    cache = folder.parent
    assert inventory(cache)["tuned"].count == 1
    assert damaged(cache) == []
    kept.write_text("?")
    assert damaged(cache) == [(kept, "is not what its digest says")]
    keep(kept, FOUND)
    assert prune(cache, size=0).count == 1
    assert not kept.exists()


@pytest.mark.parametrize(
    ("schedule", "name"), [(None, "as chosen"), ("", "none"), ("split 0 4 unroll", "split 0 4 unroll")]
)
def test_a_find_is_printed(schedule: str | None, name: str) -> None:
    printed = str(replace(FOUND, schedule=schedule))
    assert printed == f"2000.000 ms, 1000.000 ms, 2.00 times as fast: {name}"


PROGRAM = """\
import numpy as np
from uop_codegen_c import CpuBackend
from uop_ir import Ops, Plan, UOp, call_params, dtypes

x = UOp.param(1, 4000, dtypes.i32).reshape((40, 100))
body = UOp.sink(UOp.param(0, 40, dtypes.i32).store(x.reduce(Ops.ADD, 1)))
backend, params = CpuBackend(), call_params(body)
memory = [backend.allocate(160), backend.allocate(16_000)]
backend.copy_in(memory[1], np.arange(4000, dtype=np.int32))
backend.link(Plan((UOp(Ops.CALL, (body, *params)),), params, ()))(memory, ())
out = np.empty(40, np.int32)
backend.copy_out(memory[0], out)
assert (out == np.arange(4000).reshape(40, 100).sum(1)).all()
"""


@pytest.mark.slow
@pytest.mark.parametrize("kill", [False, True])
def test_several_processes_tune_one_kernel(tmp_path: Path, kill: bool) -> None:
    """One searches while the others wait, and may be killed; the result is right, and what is kept is whole.

    What the worker of one that was killed has written goes with the worker.
    """
    work = tmp_path / "work"
    work.mkdir()
    env = {**os.environ, "UOP_CACHE": str(tmp_path), "TMPDIR": str(work)}
    env |= {"BEAM": "1", "BEAM_SECONDS": "2", "DEBUG": "1"}
    processes = [
        subprocess.Popen([sys.executable, "-c", PROGRAM], env=env, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    if kill:
        try:
            processes[0].wait(1.5)
        except subprocess.TimeoutExpired:
            processes[0].kill()
    told = [process.communicate(timeout=100)[0] for process in processes]
    assert [process.returncode for process in processes][kill:] == [0] * (3 - kill)
    assert sum("is tuned" in text for text in told) == 1
    ((path,),) = [
        list(place.glob("*.json")) for place in (tmp_path / "c" / "tuned").iterdir() if place.is_dir()
    ]
    assert tuned.read_find(path) is not None
    deadline = time.monotonic() + 60
    while any(work.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not list(work.iterdir())
