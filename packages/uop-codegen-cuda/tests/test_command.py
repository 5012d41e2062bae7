"""`uopc compile --emit`: what this package adds to it, through its entry points."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from uop_ir import UOp, UopError, dtypes, format_uir, parse_uir


@pytest.fixture
def compile_command() -> Any:
    if not entry_points(group="uop.emit"):
        pytest.skip("the package is not installed, so it has no entry points (pip install it)")
    return entry_points(group="uop.commands")["compile"].load()


@pytest.fixture
def double(tmp_path: Path) -> str:
    path = tmp_path / "double.uir"
    x = UOp.buffer(300, dtypes.f32)
    path.write_text(format_uir(x + x))
    return str(path)


def test_emit_cuda(compile_command: Any, double: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert compile_command([double, "--emit", "cuda"]) == 0
    out = capsys.readouterr().out
    assert "__global__" in out
    assert "if (gidx0*256+lidx0 < 300) {" in out


@pytest.mark.parametrize(("stage", "word"), [("cuda-map", "axis=local"), ("cuda-linear", "name=lidx0")])
def test_stages_read_back(
    compile_command: Any, double: str, capsys: pytest.CaptureFixture[str], stage: str, word: str
) -> None:
    assert compile_command([double, "--emit", stage]) == 0
    out = capsys.readouterr().out
    assert word in out
    assert format_uir(parse_uir(out).nodes) == out


def test_only_tensors_become_cuda(compile_command: Any, double: str) -> None:
    with pytest.raises(UopError, match=r"--emit cuda starts from tensors \(leave out --from\)"):
        compile_command([double, "--emit", "cuda", "--from", "expand"])
