"""uopc explain: a program is run, and its plans are explained. Week 5."""

from pathlib import Path
from typing import Any

import pytest

from uop_ir import UOp, UopError
from uop_tensor import Tensor, clear_plans
from uop_tensor.explain_command import explain_command
from uop_tensor.program import WATCHERS

PROGRAM = """\
import sys
from uop_tensor import Tensor, clear_plans
clear_plans()
print(((Tensor([1.0, 2.0]) * 2).sum() + len(sys.argv)).item())
"""


def test_plans_of_a_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    assert explain_command([str(file), "--steps"]) == 0  # a flag of the program
    out, err = capsys.readouterr()
    assert err == "8.0\n"
    assert "plan 0 on " in out
    assert "kernel 0 stores add f32[]" in out


def test_what_a_backend_reports_stands_under_each_kernel(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Backend:
        def report(self, body: UOp) -> list[str]:
            return [f"stores {len(body.src)}"]

    monkeypatch.setattr("uop_tensor.explain_command.get_backend", lambda name: Backend())
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    explain_command([str(file)])
    assert "stores 1" not in capsys.readouterr().out
    explain_command(["--schedules", str(file)])
    out = capsys.readouterr().out
    assert out.count("\n  stores 1\n") == out.count("kernel 0 stores") == out.count("plan ")


def test_a_program_that_fails_or_is_not_there(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text("raise ValueError(3)")
    with pytest.raises(ValueError, match="3"):
        explain_command([str(file)])
    assert not WATCHERS
    with pytest.raises(UopError, match="there is no file"):
        explain_command([str(tmp_path / "none.py")])
    with pytest.raises(UopError, match="are required: file "):
        explain_command([])


def test_a_model_by_name(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    ran = []

    def run(*arguments: Any) -> None:
        ran.append(arguments)
        clear_plans()
        (Tensor([1.0, 2.0]) * 2).sum().realize()

    monkeypatch.setattr("uop_tensor.explain_command.run_python_or_model", run)
    assert explain_command(["small", "--batch", "3"]) == 0
    assert ran == [("small", ["--batch", "3"], "uopc explain")]
    assert "kernel 0 stores reduce add f32[]" in capsys.readouterr().out


def test_the_help_names_the_models(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    models = {"small": None, "large": None}
    monkeypatch.setattr("uop_tensor.explain_command.installed_models", lambda: models)
    with pytest.raises(SystemExit):
        explain_command(["--help"])
    assert "or a model: small, large" in " ".join(capsys.readouterr().out.split())
