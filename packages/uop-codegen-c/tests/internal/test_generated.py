"""Texts of kernels on disk: found again, never believed when damaged, and not found by other code."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

from uop_codegen_c import Freedoms, generate, generated, settings
from uop_codegen_c.generated import lowering_identity, remembered
from uop_codegen_c.machine import Machine
from uop_ir import UOp, dtypes, override
from uop_ir import settings as ir_settings
from uop_rewrite import settings as rewrite_settings


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with override(settings, uop_cache=str(tmp_path)):
        yield tmp_path / "c"


def body(factor: float) -> UOp:
    return UOp.sink(UOp.param(0, 4, dtypes.f32).store(UOp.param(1, 4, dtypes.f32) * factor))


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> list[UOp]:
    """The kernels that were lowered, in order."""
    seen: list[UOp] = []

    def spy(kernel: UOp, free: Freedoms) -> object:
        seen.append(kernel)
        return generate(kernel, free)

    monkeypatch.setattr(generated, "generate", spy)
    return seen


def test_a_text_is_lowered_once(folder: Path, lowered: list[UOp]) -> None:
    first = remembered(body(2.0))
    assert remembered(body(2.0)) == first == generate(body(2.0))
    remembered(body(3.0))
    assert lowered == [body(2.0), body(3.0)]


def test_settings_tell_texts_apart(folder: Path, lowered: list[UOp]) -> None:
    remembered(body(2.0))
    with override(settings, strict=1):
        remembered(body(2.0))
    with override(settings, opt=0):
        remembered(body(2.0))
    assert len(lowered) == 3


def test_machines_tell_texts_apart(folder: Path, lowered: list[UOp], monkeypatch: pytest.MonkeyPatch) -> None:
    remembered(body(2.0))
    monkeypatch.setattr(generated, "this_machine", lambda: Machine(16, 16, 1))
    remembered(body(2.0))
    assert len(lowered) == 2


@pytest.mark.parametrize("damage", [b"", b"short", b"0" * 64 + b"\n{}"])
def test_a_damaged_text_is_lowered_again(folder: Path, lowered: list[UOp], damage: bytes) -> None:
    want = remembered(body(2.0))
    (path,) = folder.glob("*.json")
    path.write_bytes(damage)
    assert remembered(body(2.0)) == want
    assert len(lowered) == 2
    assert remembered(body(2.0)) == want
    assert len(lowered) == 2


def test_a_folder_in_place_of_a_text_goes(folder: Path, lowered: list[UOp]) -> None:
    first = remembered(body(2.0))
    (path,) = folder.glob("*.json")
    path.unlink()
    (path / "inside").mkdir(parents=True)
    assert remembered(body(2.0)) == remembered(body(2.0)) == first
    assert path.is_file()
    assert len(lowered) == 2


def test_a_text_of_another_kernel_is_not_believed(folder: Path, lowered: list[UOp]) -> None:
    want = remembered(body(2.0))
    (path,) = folder.glob("*.json")
    path.write_bytes(path.read_bytes().replace(b"2.0f", b"3.0f"))
    assert remembered(body(2.0)) == want
    assert len(lowered) == 2


def test_other_code_finds_nothing(folder: Path, lowered: list[UOp], monkeypatch: pytest.MonkeyPatch) -> None:
    remembered(body(2.0))
    monkeypatch.setattr(generated, "lowering_identity", lambda: "other")
    remembered(body(2.0))
    assert len(lowered) == 2


def test_nothing_half_written_is_left(folder: Path) -> None:
    remembered(body(2.0))
    assert not list(folder.glob("work-*"))


def test_debug_3_lowers_and_prints_the_schedule(
    folder: Path, lowered: list[UOp], capsys: pytest.CaptureFixture[str]
) -> None:
    vectors = UOp.sink(UOp.param(0, 64, dtypes.f32).store(UOp.param(1, 64, dtypes.f32) * 2.0))
    remembered(vectors)
    assert capsys.readouterr().out == ""
    with override(ir_settings, debug=3):
        remembered(vectors)
    assert lowered == [vectors, vectors]
    assert capsys.readouterr().out.startswith("schedule: ")


def test_print_after_has_kernels_lowered_so_that_they_are_printed(
    folder: Path, lowered: list[UOp], capsys: pytest.CaptureFixture[str]
) -> None:
    remembered(body(2.0))
    with override(rewrite_settings, print_after="accumulate"):
        remembered(body(2.0))
    assert lowered == [body(2.0), body(2.0)]
    assert capsys.readouterr().err.startswith("# after accumulate\n%0 = param 4 : dtype=f32 slot=0\n")


@pytest.mark.parametrize("package", ["uop_ir", "uop_rewrite", "uop_codegen_c"])
def test_a_change_of_any_package_below_is_other_code(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = lowering_identity.__wrapped__()
    (tmp_path / "one.py").write_text("# another")
    monkeypatch.setattr(generated, "files", lambda name: tmp_path if name == package else files(name))
    assert lowering_identity.__wrapped__() != before
