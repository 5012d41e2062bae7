"""EMU_CHECK: kernels are checked while a plan runs."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from uop_codegen_cuda import CudaSource, EmuBackend, generate, settings
from uop_ir import BackendError, Ops, Plan, Reporting, UOp, dtypes, override

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ (apt install g++)")
X, Y = UOp.param(1, 64, dtypes.f32), UOp.param(0, 64, dtypes.f32)
BODY = UOp.sink(Y.store(X + X))


def run(backend: EmuBackend, x: float = 0) -> None:
    memory = [backend.allocate(256), backend.allocate(256)]
    backend.copy_in(memory[1], np.full(64, x, np.float32))
    backend.link(Plan((UOp(Ops.CALL, (BODY, Y, X)),), (Y, X)))(memory, [])


def racing(place: str = "lidx0 / 2") -> CudaSource:
    """The kernel, but that each thread writes to this element: two to one."""
    right = generate(BODY)
    text = right.text.replace("data0[lidx0]", f"data0[{place}]")
    assert text != right.text
    return CudaSource(right.name, text, right.params, right.grid, right.block)


def test_a_kernel_that_is_right_runs() -> None:
    with override(settings, emu_check=1):
        run(backend := EmuBackend())
    (report,) = backend.reports.values()
    assert report.findings == ()
    assert [(c.direction, c.moved) for c in report.costs] == [("load", 8), ("store", 8)]


def test_a_finding_is_an_error_or_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("uop_codegen_cuda.kernels.generate", lambda body, free: racing())
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


def test_what_an_earlier_launch_did_wrong_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel is wrong where x is 0, and stores half as many sectors there."""
    place = "data1[0] == 0 ? lidx0 / 2 : lidx0"
    monkeypatch.setattr("uop_codegen_cuda.kernels.generate", lambda body, free: racing(place))
    with override(settings, emu_check=2):
        run(backend := EmuBackend(), 0)
        run(backend, 1)
    (report,) = backend.reports.values()
    assert [f.kind for f in report.findings] == ["race"]
    assert sum(c.moved for c in report.costs if c.direction == "store") == 8
    with override(settings, emu_check=1):
        run(backend, 1)  # right, whatever was found before


def test_it_has_no_report_of_schedules() -> None:
    """That of the CPU would be about kernels in C."""
    assert not isinstance(EmuBackend(), Reporting)
