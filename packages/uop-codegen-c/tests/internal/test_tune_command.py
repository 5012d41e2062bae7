"""uopc tune: what it prints of a kernel, of a program and of a model, what it keeps, and what it refuses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from uop_codegen_c import CpuBackend, Freedoms, beam, settings
from uop_codegen_c.freedoms import current_freedoms
from uop_codegen_c.tune_command import tune_command
from uop_codegen_c.tuned import Find, look_up
from uop_ir import Ops, UOp, UopError, dtypes, format_uir, override

FOUND = Find("split 0 4 unroll", "", 0.002, 0.001, 9, 1, 2, 30.0)
PROGRAM = """\
import sys
from uop_codegen_c import CpuBackend
from uop_ir import Ops, Plan, UOp, call_params, dtypes

x = UOp.param(1, 400, dtypes.i32).reshape((40, 10))
bodies = [UOp.sink(UOp.param(0, 40, dtypes.i32).store(x.reduce(op, 1))) for op in (Ops.ADD, Ops.MAX, Ops.ADD)]
for body in bodies:
    CpuBackend().compile([body])
print(sys.argv[1:])
"""


def total() -> UOp:
    """The sum of each row."""
    x = UOp.param(1, 64, dtypes.f32).reshape((8, 8))
    return UOp.sink(UOp.param(0, 8, dtypes.f32).store(x.reduce(Ops.ADD, 1)))


@pytest.fixture(autouse=True)
def searches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[int, float]]]:
    """The width and the limit of each search; a sum gets a schedule, the others get none."""
    asked: list[tuple[int, float]] = []

    def tune(body: UOp, free: Freedoms, width: int, seconds: float, say: Any, known: object) -> Find:
        asked.append((width, seconds))
        say("better")
        if any(n.op is Ops.REDUCE and n.arg[0] is Ops.MUL for n in body.toposort()):
            raise UopError("it is too large")
        found = replace(FOUND, width=width, limit=seconds)
        sums = any(n.op is Ops.REDUCE and n.arg[0] is Ops.ADD for n in body.toposort())
        return found if sums else replace(found, schedule=None, seconds=0.002)

    monkeypatch.setattr(beam, "tune", tune)
    with override(settings, uop_cache=str(tmp_path / "cache")):
        yield asked


def test_a_kernel(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], searches: list[tuple[int, float]]
) -> None:
    path = tmp_path / "total.uir"
    path.write_text(format_uir(total()))
    assert tune_command(["--width", "3", "--seconds", "7", str(path)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "better",
        "9 schedules measured, 1 of them failed or were wrong",
        "chosen     2.000 ms  none",
        "best       1.000 ms  split 0 4 unroll  (2.00 times as fast)",
    ]
    kept = look_up(total(), current_freedoms())
    assert kept == replace(FOUND, width=3, limit=7)
    tune_command([str(path)])  # anew
    assert searches == [(3, 7), (4, 60)]


def test_a_program(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], searches: list[tuple[int, float]]
) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    for _ in range(2):  # the second time nothing is searched
        assert tune_command(["--seconds", "7", str(path), "--steps", "4"]) == 0
        out, err = capsys.readouterr()
        assert err == "['--steps', '4']\n"
        head, one, other, last = out.splitlines()
        assert head.split() == ["kernel", "stores", "before", "after", "ratio", "schedule"]
        assert one[14:] == f"{'reduce add i32[40]':<34}   2.000 ms   1.000 ms   2.00  split 0 4 unroll"
        assert other[14:] == f"{'reduce max i32[40]':<34}   2.000 ms   2.000 ms   1.00  as chosen"
        assert last == "2 kernels, 1 of them faster; each once: 4.000 ms before, 3.000 ms now"
    assert searches == [(4, 7)] * 2
    path.write_text(PROGRAM.replace("Ops.MAX", "Ops.MUL"))
    tune_command([str(path)])
    assert (
        capsys.readouterr().out.splitlines()[2][14:]
        == f"{'reduce mul i32[40]':<34}not tuned: it is too large"
    )
    assert not beam.WATCHERS


def test_a_model(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    searches: list[tuple[int, float]],
) -> None:
    ran = []

    def run(*arguments: Any) -> None:
        ran.append(arguments)
        CpuBackend().compile([total()])

    monkeypatch.setattr("uop_codegen_c.tune_command.run_python_or_model", run)
    assert tune_command(["--seconds", "7", "small", "--batch", "3"]) == 0
    assert ran == [("small", ["--batch", "3"], "uopc tune")]
    out = capsys.readouterr().out
    assert out.splitlines()[1].startswith(total().key[:12])
    assert out.splitlines()[2] == "1 kernels, 1 of them faster; each once: 2.000 ms before, 1.000 ms now"
    assert searches == [(4, 7)]
    assert look_up(total(), current_freedoms()) == replace(FOUND, width=4, limit=7)


def test_the_help_names_the_models(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("uop_codegen_c.tune_command.installed_models", lambda: {"small": None, "large": None})
    with pytest.raises(SystemExit):
        tune_command(["--help"])
    assert "training runs: small, large" in " ".join(capsys.readouterr().out.split())


def test_what_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "total.uir"
    path.write_text(format_uir(total()))
    for argv, said in (
        (["--width", "0", str(path)], r"--width 0 --seconds 60 \(at least 1\)"),
        (["--seconds", "0", str(path)], r"--width 4 --seconds 0 \(at least 1\)"),
        ([str(path), "--width", "2"], "options stand before the file"),
        ([str(tmp_path / "none.py")], "there is no file"),
        ([], "the following arguments are required: file"),
    ):
        with pytest.raises(UopError, match=said):
            tune_command(argv)
    with override(settings, opt=0), pytest.raises(UopError, match=r"OPT=0 forbids to optimize \(unset OPT\)"):
        tune_command([str(path)])
