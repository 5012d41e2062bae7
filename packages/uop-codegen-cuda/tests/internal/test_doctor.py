"""What `uopc doctor` says of NVRTC and of the emulator, where they are and where they are not."""

from __future__ import annotations

import importlib.util
import re
import sys

import pytest

from uop_codegen_cuda.doctor import doctor

needs_nvrtc = pytest.mark.skipif(
    importlib.util.find_spec("cuda") is None, reason='no NVRTC: pip install "uop-codegen-cuda[cuda]"'
)


def test_doctor_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cuda", "cuda.core", "cuda.bindings"):
        monkeypatch.setitem(sys.modules, name, None)
    (status, name, detail), _ = doctor()
    assert (status, name) == ("warn", "NVRTC")
    assert "pip install" in detail


@needs_nvrtc
def test_doctor() -> None:
    (status, name, detail), _ = doctor()
    assert (status, name) == ("ok", "NVRTC")
    assert re.match(r"\d+\.\d+, for sm_80", detail)


def test_doctor_without_a_compiler_for_the_emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    _, (status, name, detail) = doctor()
    assert (status, name) == ("warn", "EMU")
    assert "no g++" in detail
    assert "apt install g++" in detail
