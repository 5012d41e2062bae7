"""Tensors on the backend CUDA, by DEV=CUDA, in processes of their own: a training step is one launch.

On a GPU where there is one (`pytest -m gpu`), and on one that is not there. It takes uop-tensor, which this
package does not.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from uop_codegen_cuda import CudaBackend
from uop_ir import BackendError

pytest.importorskip("uop_tensor", reason="uop-tensor is not installed")
HERE = Path(__file__).parent
FAKE = """\
from fake_driver import install
fake = install()
"""
#: Least squares by gradient descent, beside float64; then some of all kinds, beside the CPU.
PROGRAM = """\
import numpy as np
from uop_ir import get_backend
from uop_tensor import Tensor, jit
fake = globals().get("fake")
random = np.random.default_rng(0)
x, y = (random.standard_normal(shape).astype(np.float32) for shape in ((64, 8), (64, 1)))
w = Tensor(np.zeros((8, 1), np.float32), requires_grad=True)

@jit
def step(x, y, rate):
    loss = (x @ w - y).square().mean()
    loss.backward()
    w.assign(w.detach() - w.grad * rate)
    w.grad = None
    return loss

assert w.device == "CUDA"
wide, launches = np.zeros((8, 1)), []
for turn in range(6):
    part = x + np.float32(turn) / 8
    rate = 0.1 / (1 + turn)
    given = Tensor(part), Tensor(y)
    for tensor in given:
        tensor.realize()
    if fake:
        fake.calls()
    loss = step(*given, rate)
    if fake:
        launches.append([c.split()[0] for c in fake.calls("cuLaunchKernel", "cuGraphLaunch", "cuStreamSynchronize")])
    error = part.astype(np.float64) @ wide - y
    np.testing.assert_allclose(loss.item(), (error**2).mean(), rtol=1e-5)
    wide -= rate * 2 * part.astype(np.float64).T @ error / 64
np.testing.assert_allclose(w.numpy(), wide, rtol=1e-4, atol=1e-6)
assert all(calls == ["cuGraphLaunch"] for calls in launches[1:]), launches

a = random.standard_normal((40, 300)).astype(np.float32)
results = [
    [t.numpy() for t in (v.softmax(-1), v.sort(1)[0], v.cumsum(1), (v.half() @ v.half().T).float(), v[3:9, ::2])]
    for v in (Tensor(a), Tensor(a, device="CPU"))
]
for mine, other in zip(*results, strict=True):
    np.testing.assert_allclose(mine, other, rtol=2e-3, atol=1e-4)
moved = Tensor(a).to("CPU").to("CUDA")
np.testing.assert_array_equal(moved.numpy(), a)
print("all as it should be")
if fake:
    assert fake.problems() == []
"""


def run(program: str, **environment: str) -> str:
    path = os.pathsep.join([str(HERE / "fake_gpu"), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": path, "DEV": "CUDA"} | environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.gpu)])
def before(request: pytest.FixtureRequest) -> str:
    """What a program begins with: the driver of a GPU that is not there, or nothing."""
    if request.param == "fake":
        if importlib.util.find_spec("cuda") is None:
            pytest.skip('no CUDA for Python: pip install "uop-codegen-cuda[cuda]"')
        if shutil.which("g++") is None:
            pytest.skip("no g++ to build a driver with (apt install g++)")
        return FAKE
    try:
        CudaBackend()
    except BackendError as error:
        pytest.skip(str(error))
    return ""


def test_a_training_step_is_one_launch(before: str) -> None:
    assert run(before + PROGRAM) == "all as it should be\n"


DOCTOR = """\
from importlib.metadata import entry_points
(uopc,) = entry_points(group="console_scripts", name="uopc")
uopc.load()(["doctor"])
"""


def test_the_doctor_finds_the_gpu(before: str) -> None:
    out = run(before + DOCTOR)
    assert any(line.split()[:2] == ["ok", "GPU"] for line in out.splitlines())
    assert any(line.split() == ["ok", "backend", "CUDA", "loads"] for line in out.splitlines())
