"""Kernels between pages that may not be touched: no byte outside of a buffer is read or written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SIDES = ["start", "end"]
#: A kernel by hand of 5 floats, which also touches the element that is given.
STRAY = """\
import sys
import numpy as np
from uop_codegen_c import CpuBackend, KernelSource
from uop_ir import Ops, Plan, UOp, dtypes

body = UOp.sink(UOp.param(0, 5, dtypes.f32).store(UOp.param(1, 5, dtypes.f32)))
signature = "void stray(void *const *buffers, const int64_t *scalars)"
text = f"{signature};\\n{signature} {{ float *out = buffers[0], *x = buffers[1]; (void)scalars, (void)out, (void)x; %s }}"
source = KernelSource("stray", "#include <stdint.h>", text % sys.argv[1])
cpu, plan = CpuBackend(lambda body: source), (UOp.param(0, 5, dtypes.f32), UOp.param(1, 5, dtypes.f32))
memory = [cpu.allocate(20), cpu.allocate(20)]
cpu.copy_in(memory[1], np.arange(5, dtype=np.float32))
cpu.link(Plan((UOp(Ops.CALL, (body, *plan)),), plan))(memory, [])
out = np.empty(5, np.float32)
cpu.copy_out(memory[0], out)
print(out.tolist())
"""


def guarded(tmp_path: Path, side: str, *arguments: str, **also: str) -> subprocess.CompletedProcess[str]:
    """Run a program of Python under guard pages, with a cache of its own."""
    env = {
        **os.environ,
        "GUARD": side,
        "PYTHONPATH": str(HERE),
        "UOP_CACHE": str(tmp_path),
        "DEV": "CPU",
    } | also
    return subprocess.run(
        [sys.executable, *arguments], env=env, capture_output=True, text=True, check=False, timeout=600
    )


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("stray", ["out[0] = x[5];", "x[5] = 1;", "out[0] = x[-1];", "out[-1] = 1;"])
def test_a_stray_access_ends_the_process(tmp_path: Path, side: str, stray: str) -> None:
    done = guarded(tmp_path, side, "-c", "import guard_pages\n" + STRAY, stray)
    if ("-1" in stray) == (side == "start"):
        assert done.returncode == -signal.SIGSEGV, done.stderr
    else:
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("side", SIDES)
def test_what_stays_inside_is_as_ever(tmp_path: Path, side: str) -> None:
    copy = "for (int i = 0; i < 5; i++) out[i] = x[i] + 1;"
    done = guarded(tmp_path, side, "-c", "import guard_pages\n" + STRAY, copy)
    assert done.stdout == "[1.0, 2.0, 3.0, 4.0, 5.0]\n", done.stderr


@pytest.mark.parametrize("side", SIDES)
def test_the_emulator_has_the_same_memory(tmp_path: Path, side: str) -> None:
    program = "import guard_pages\nfrom uop_tensor import Tensor\nprint(Tensor([0.0, 1.0]).mul(2).tolist())"
    done = guarded(tmp_path, side, "-c", program, DEV="EMU")
    assert done.stdout == "[0.0, 2.0]\n", done.stderr


@pytest.mark.slow
def test_training_steps_touch_nothing_else(tmp_path: Path) -> None:
    """With buffers that end at a page, and with those that begin at one; the losses are those without."""
    steps = f"import runpy; runpy.run_path({str(HERE / 'small_steps.py')!r}, run_name='__main__')"
    plain = guarded(tmp_path, "", "-c", steps)
    assert plain.stdout.count("0x") == 6, plain.stderr
    for side in SIDES:
        done = guarded(tmp_path, side, "-c", f"import guard_pages\n{steps}")
        assert done.returncode == 0, done.stderr
        assert done.stdout == plain.stdout
