"""EMU_CHECK: kernels are checked while a plan runs."""

from __future__ import annotations

import shutil

import pytest

from uop_codegen_cuda import CudaSource, EmuBackend, generate, settings
from uop_ir import BackendError, Ops, Plan, UOp, dtypes, override

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ (apt install g++)")
X, Y = UOp.param(1, 64, dtypes.f32), UOp.param(0, 64, dtypes.f32)
BODY = UOp.sink(Y.store(X + X))


def run(backend: EmuBackend) -> None:
    memory = [backend.allocate(256), backend.allocate(256)]
    backend.link(Plan((UOp(Ops.CALL, (BODY, Y, X)),), (Y, X)))(memory, [])


def racing() -> CudaSource:
    """The kernel, but that two threads write to one element."""
    right = generate(BODY)
    text = right.text.replace("data0[lidx0]", "data0[lidx0 / 2]")
    assert text != right.text
    return CudaSource(right.name, text, right.params, right.grid, right.block)


def test_a_kernel_that_is_right_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    with override(settings, emu_check=1):
        run(backend := EmuBackend())
    (report,) = backend.reports.values()
    assert report.findings == ()
    assert [(c.direction, c.moved) for c in report.costs] == [("load", 8), ("store", 8)]


def test_a_finding_is_an_error_or_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("uop_codegen_cuda.emu.generate", lambda body, free: racing())
    with (
        override(settings, emu_check=1),
        pytest.raises(BackendError, match=r"EMU_CHECK=1 found\nk_.*\nline \d+: race: writes byte 0 of data0"),
    ):
        run(EmuBackend())
    with override(settings, emu_check=2):
        run(backend := EmuBackend())
    (report,) = backend.reports.values()
    assert [f.kind for f in report.findings] == ["race"]
    with override(settings, emu_check=0):
        run(backend := EmuBackend())
    assert backend.reports == {}
