"""What `uopc doctor` says of NVRTC, a GPU and the emulator, where they are and where they are not."""

from __future__ import annotations

import importlib.util
import re
import sys

import pytest
from fake_driver import FakeDriver

from uop_codegen_cuda.doctor import doctor

needs_nvrtc = pytest.mark.skipif(
    importlib.util.find_spec("cuda") is None, reason='no NVRTC: pip install "uop-codegen-cuda[cuda]"'
)


def test_doctor_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cuda", "cuda.core", "cuda.bindings"):
        monkeypatch.setitem(sys.modules, name, None)
    (status, name, detail), *_ = doctor()
    assert (status, name) == ("warn", "NVRTC")
    assert "pip install" in detail


@needs_nvrtc
def test_doctor() -> None:
    (status, name, detail), *_ = doctor()
    assert (status, name) == ("ok", "NVRTC")
    assert re.match(r"\d+\.\d+, for sm_80", detail)


def test_doctor_of_a_gpu(fake: FakeDriver) -> None:
    assert doctor()[1] == ("ok", "GPU", "Fake GPU, 0.1 GB, compute capability 9.0, driver for CUDA 13.0")
    fake.set(devices=0)
    (status, name, detail) = doctor()[1]
    assert (status, name) == ("warn", "GPU")
    assert detail.startswith(
        "DEV=CUDA runs nothing: CUDA: cuInit: the driver finds no GPU, CUDA_ERROR_NO_DEVICE"
    )


def test_doctor_without_a_compiler_for_the_emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    *_, (status, name, detail) = doctor()
    assert (status, name) == ("warn", "EMU")
    assert "no g++" in detail
    assert "apt install g++" in detail
