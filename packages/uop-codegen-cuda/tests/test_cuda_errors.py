"""What the backend CUDA says where there is no GPU to run on, and where one fails: which kernel, what to do.

By a driver that fails when it is told to.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from fake_driver import FakeDriver

from uop_codegen_cuda import CudaBackend, CudaSource
from uop_ir import BackendError, Ops, Plan, UOp, call_params, dtypes, index, override
from uop_ir import settings as ir_settings

#: The numbers of errors (CUresult in the reference of the driver).
INVALID_VALUE, OUT_OF_MEMORY, NOT_INITIALIZED, NO_DEVICE = 1, 2, 3, 100
INVALID_IMAGE, ECC, ILLEGAL_ADDRESS, OUT_OF_RESOURCES = 200, 214, 700, 701
TIMEOUT, MISALIGNED, LAUNCH_FAILED, DRIVER_MISMATCH, UNKNOWN = 702, 716, 719, 803, 999


def body(factor: int) -> UOp:
    return UOp.sink(UOp.param(0, 600, dtypes.f32).store(UOp.param(1, 600, dtypes.f32) * factor))


def chain(gpu: CudaBackend, count: int) -> tuple[Any, list[Any]]:
    """A plan of so many kernels, linked, and memory for it."""
    bodies = [body(factor) for factor in range(2, 2 + count)]
    params = call_params(bodies[0])
    run = gpu.link(Plan(tuple(UOp(Ops.CALL, (b, *params)) for b in bodies), params))
    memory = [gpu.allocate(2400), gpu.allocate(2400)]
    gpu.copy_in(memory[1], np.ones(600, np.float32))
    return run, memory


def names(gpu: CudaBackend, count: int) -> list[str]:
    return [program.name for program in gpu.compile([body(factor) for factor in range(2, 2 + count)])]


# where nothing can run


@pytest.mark.parametrize(
    ("machine", "said"),
    [
        (
            {"devices": 0},
            r"the driver finds no GPU, CUDA_ERROR_NO_DEVICE \(nvidia-smi lists them; CUDA_VISIBLE",
        ),
        (
            {"driver": 12040},
            r"the driver is for CUDA 12\.4, and NVRTC \d+\.\d+ compiles for a later one \(update",
        ),
        ({"major": 7, "minor": 5}, r"kernels are not compiled for Fake GPU, sm_75 \(one of sm_80, "),
        ({"pools": 0}, r"Fake GPU has no memory pools \(a virtual GPU needs unified memory"),
    ],
)
def test_a_machine_that_runs_no_kernels(fake: FakeDriver, machine: dict[str, int], said: str) -> None:
    fake.set(**machine)
    with pytest.raises(BackendError, match=said) as info:
        CudaBackend()
    assert info.value.exit_code == 5


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        (
            "cuInit",
            DRIVER_MISMATCH,
            r"kernel are of two versions, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH \(restart",
        ),
        ("cuDevicePrimaryCtxRetain", OUT_OF_MEMORY, r"not so much memory left, CUDA_ERROR_OUT_OF_MEMORY"),
        (
            "cuStreamCreate",
            NOT_INITIALIZED,
            "cuStreamCreate: what the driver says, CUDA_ERROR_NOT_INITIALIZED",
        ),
    ],
)
def test_a_driver_that_does_not_start(fake: FakeDriver, name: str, code: int, said: str) -> None:
    fake.fail(name, code)
    with pytest.raises(BackendError, match=said):
        CudaBackend()
    CudaBackend()  # what has gone wrong once may go right later


def test_a_gpu_of_another_architecture(fake: FakeDriver) -> None:
    """Kernels are compiled for the one that is there."""
    fake.set(major=8, minor=6)
    gpu = CudaBackend()
    run, memory = chain(gpu, 1)
    run(memory, [])
    out = np.empty(600, np.float32)
    gpu.copy_out(memory[0], out)
    assert (out == 2).all()


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cuda", "cuda.core", "cuda.bindings"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(BackendError, match=r'no NVRTC: .*pip install "uop-codegen-cuda\[cuda\]"'):
        CudaBackend()


WITHOUT = """\
import ctypes
from uop_ir import BackendError, get_backend
try:
    ctypes.CDLL("libcuda.so.1")
    print("there is a driver")
except OSError:
    for _ in range(2):
        try:
            get_backend("CUDA")
        except BackendError as error:
            print(error)
"""


def test_without_a_driver() -> None:
    pytest.importorskip("cuda.core", reason='no CUDA for Python: pip install "uop-codegen-cuda[cuda]"')
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT], capture_output=True, text=True, timeout=60, check=True
    )
    if "there is a driver" in done.stdout:
        pytest.skip("there is a driver")
    lines = done.stdout.splitlines()
    assert len(lines) == 2
    assert all(
        line.startswith("no NVIDIA driver: libcuda.so.1 is not there (install the driver,") for line in lines
    )


# where one fails


def test_memory_that_is_not_there(fake: FakeDriver) -> None:
    fake.set(memory=10_000)
    gpu = CudaBackend()
    first = gpu.allocate(9_000)
    with pytest.raises(
        BackendError,
        match=r"CUDA: 2000 bytes on Fake GPU: the GPU has not so much memory left, CUDA_ERROR_OUT_OF_MEMORY \(smaller",
    ):
        gpu.allocate(2_000)
    gpu.free(first)
    gpu.allocate(2_000)


def test_scratch_memory_that_is_not_there(fake: FakeDriver) -> None:
    """The next run asks for it anew."""
    gpu = CudaBackend()
    params = call_params(body(2))
    scratch = UOp.alloc(0, 600, dtypes.f32, addrspace=params[0].addrspace)
    call = UOp(Ops.CALL, (body(2), scratch, params[1]))
    plan = Plan((call, UOp(Ops.CALL, (body(3), params[0], scratch.after(call)))), params, (), {0: 0}, 2400)
    run, (_, memory) = gpu.link(plan), chain(gpu, 1)
    fake.fail("cuMemAllocAsync", OUT_OF_MEMORY)
    with pytest.raises(BackendError, match="2400 bytes on Fake GPU"):
        run(memory, [])
    for _ in range(3):
        run(memory, [])
    out = np.empty(600, np.float32)
    gpu.copy_out(memory[0], out)
    assert (out == 6).all()


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (
            ILLEGAL_ADDRESS,
            r"an access outside of memory, CUDA_ERROR_ILLEGAL_ADDRESS \(DEBUG=2 names the kernel, and",
        ),
        (MISALIGNED, "an access at no multiple of its size, CUDA_ERROR_MISALIGNED_ADDRESS"),
        (LAUNCH_FAILED, "the kernel failed, CUDA_ERROR_LAUNCH_FAILED"),
        (TIMEOUT, "the kernel took longer than a GPU with a display may, CUDA_ERROR_LAUNCH_TIMEOUT"),
        (ECC, "a fault of memory that the GPU cannot correct, CUDA_ERROR_ECC_UNCORRECTABLE"),
        (UNKNOWN, r"the GPU does not answer, CUDA_ERROR_UNKNOWN \(dmesg has lines with NVRM"),
    ],
)
def test_a_kernel_that_fails_is_named_when_somebody_waits(fake: FakeDriver, code: int, said: str) -> None:
    gpu = CudaBackend()
    run, memory = chain(gpu, 1)
    (name,) = names(gpu, 1)
    run(memory, [])
    gpu.synchronize()
    fake.fail("run", code)
    run(memory, [])
    with pytest.raises(
        BackendError, match=rf"CUDA: {name} on 3 x 1 x 1 blocks of 256 x 1 x 1 threads: {said}"
    ):
        gpu.synchronize()
    # the process cannot use the GPU any more, and the reason stays the same; memory is gone without a word
    with pytest.raises(BackendError, match=f"CUDA: {name} on"):
        gpu.copy_out(memory[0], np.empty(600, np.float32))
    with pytest.raises(BackendError, match=f"CUDA: {name} on"):
        gpu.compile([body(9)])
    with pytest.raises(BackendError, match=said):
        gpu.allocate(4)
    with pytest.raises(BackendError, match="; this process has lost the GPU"):
        gpu.synchronize()
    gpu.free(memory[0])


@pytest.mark.parametrize("runs", [1, 3], ids=["kernels", "graph"])
def test_the_kernels_since_somebody_waited(fake: FakeDriver, runs: int) -> None:
    """Which of them failed the GPU does not say."""
    gpu = CudaBackend()
    run, memory = chain(gpu, 6)
    for _ in range(runs - 1):
        run(memory, [])
        gpu.synchronize()
    fake.fail("run", ILLEGAL_ADDRESS, 5)
    run(memory, [])
    with pytest.raises(BackendError) as info:
        gpu.synchronize()
    first = [f"{name} on 3 x 1 x 1 blocks of 256 x 1 x 1 threads" for name in names(gpu, 4)]
    assert str(info.value).startswith(
        f"CUDA: one of {', '.join(first)} and 2 more: an access outside of memory"
    )


def test_which_of_several_failed(fake: FakeDriver, capsys: pytest.CaptureFixture[str]) -> None:
    """As the remedy says: DEBUG=2 waits after each."""
    gpu = CudaBackend()
    run, memory = chain(gpu, 6)
    fake.fail("run", ILLEGAL_ADDRESS, 5)
    with (
        override(ir_settings, debug=2),
        pytest.raises(BackendError, match=f"CUDA: {names(gpu, 5)[-1]} on 3 x 1 x 1 blocks"),
    ):
        run(memory, [])
    assert len(capsys.readouterr().out.splitlines()) == 4


@pytest.mark.parametrize(
    "call", ["cuGraphCreate", "cuGraphAddKernelNode", "cuGraphInstantiate", "cuGraphLaunch"]
)
def test_a_graph_that_is_refused_is_made_anew(fake: FakeDriver, call: str) -> None:
    gpu = CudaBackend()
    run, memory = chain(gpu, 2)
    run(memory, [])
    fake.fail(call, OUT_OF_MEMORY)
    with pytest.raises(BackendError, match="CUDA_ERROR_OUT_OF_MEMORY"):
        run(memory, [])
    check_last(gpu, run, memory)


def test_a_graph_whose_nodes_are_refused_is_made_anew(fake: FakeDriver) -> None:
    """Some may have their new arguments, and some not."""
    gpu = CudaBackend()
    twice, thrice, x = (UOp.param(slot, 600, dtypes.f32) for slot in (0, 1, 2))
    calls = UOp(Ops.CALL, (body(2), twice, x)), UOp(Ops.CALL, (body(3), thrice, x))
    run = gpu.link(Plan(calls, (twice, thrice, x)))
    memory, other = ([gpu.allocate(2400) for _ in range(3)] for _ in range(2))
    for _ in range(2):
        run(memory, [])
    fake.fail("cuGraphExecKernelNodeSetParams", OUT_OF_MEMORY, 2)
    with pytest.raises(BackendError, match=f"CUDA: {names(gpu, 2)[1]} on 3 x 1 x 1 blocks of"):
        run(other, [])
    for inputs in (memory, other):
        gpu.copy_in(inputs[2], np.ones(600, np.float32))
        run(inputs, [])
        for number in range(2):
            out = np.empty(600, np.float32)
            gpu.copy_out(inputs[number], out)
            assert (out == 2 + number).all()


def check_last(gpu: CudaBackend, run: Any, memory: list[Any]) -> None:
    gpu.copy_in(memory[0], np.zeros(600, np.float32))
    run(memory, [])
    out = np.empty(600, np.float32)
    gpu.copy_out(memory[0], out)
    assert (out == 3).all()


def test_a_launch_that_is_refused(fake: FakeDriver) -> None:
    """It names the kernel and its grid, and whatever it was, the next may go well."""
    gpu = CudaBackend()
    run, memory = chain(gpu, 1)
    (name,) = names(gpu, 1)
    fake.fail("cuLaunchKernel", OUT_OF_RESOURCES)
    with pytest.raises(
        BackendError,
        match=rf"CUDA: {name} on 3 x 1 x 1 blocks of 256 x 1 x 1 threads: more registers or threads than the GPU "
        r"has for a block, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES \(a schedule with fewer threads a block\)",
    ):
        run(memory, [])
    run(memory, [])
    gpu.synchronize()


@pytest.mark.parametrize(
    ("grid", "block"), [((1, 65536, 1), (1, 1, 1)), ((1, 1, 1), (65, 1, 1)), ((1, 1, 1), (1, 1, 65))]
)
def test_a_launch_that_no_gpu_has(
    fake: FakeDriver, grid: tuple[int, int, int], block: tuple[int, int, int]
) -> None:
    """More blocks than there may be, or more threads than the kernel was compiled for."""
    text = 'extern "C" __global__ void __launch_bounds__(64) none(float *y) { y[0] = 1; }\n'
    memory = (UOp.param(0, 1, dtypes.f32),)
    gpu = CudaBackend()
    (none,) = gpu.load([CudaSource("none", text, memory, tuple(map(index, grid)), block)])
    shown = [" x ".join(map(str, sizes)) for sizes in (grid, block)]
    with pytest.raises(
        BackendError,
        match=f"CUDA: none on {shown[0]} blocks of {shown[1]} threads: .*CUDA_ERROR_INVALID_VALUE",
    ):
        none([gpu.allocate(4)], {})


def test_machine_code_that_the_driver_does_not_load(fake: FakeDriver) -> None:
    gpu = CudaBackend()
    fake.fail("cuModuleLoadData", INVALID_IMAGE)
    with pytest.raises(
        BackendError,
        match=r"CUDA: k_\w+: machine code that the driver does not know, CUDA_ERROR_INVALID_IMAGE \(upd",
    ):
        gpu.compile([body(2)])
    gpu.compile([body(2)])


def test_a_text_that_does_not_compile(gpu: CudaBackend) -> None:
    text = 'extern "C" __global__ void none(float *y) { y[0] = nope; }\n'
    source = CudaSource("none", text, (UOp.param(0, 1, dtypes.f32),), (index(1),) * 3, (1, 1, 1))
    with pytest.raises(BackendError, match=r"NVRTC refuses the kernel: .*nope"):
        gpu.load([source])
