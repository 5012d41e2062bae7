"""The backend CUDA on kernels and plans, against the interpreter and NumPy: on a GPU where there is one
(`pytest -m gpu`), and through all of the host's side on a driver whose kernels the emulator runs.
"""

from __future__ import annotations

import gc
import re
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from fake_driver import ALIVE, FakeDriver

from uop_codegen_c import settings as c_settings
from uop_codegen_cuda import CudaBackend, CudaSource
from uop_ir import (
    AddrSpace,
    BackendError,
    BoundsError,
    DType,
    Ops,
    Param,
    Plan,
    UOp,
    call_params,
    dtypes,
    evaluate,
    generated,
    index,
    override,
)
from uop_ir import settings as ir_settings

Array = npt.NDArray[Any]
#: The plan of the fixture `scaled`, for sizes from the least on, and what it computes.
Scaled = Callable[..., tuple[Plan, UOp]]


def memory_of(gpu: CudaBackend, array: Array) -> Any:
    memory = gpu.allocate(array.nbytes)
    gpu.copy_in(memory, array)
    return memory


def array_of(gpu: CudaBackend, memory: Any, size: int, dtype: DType) -> Array:
    array = np.empty(size, dtype.numpy)
    gpu.copy_out(memory, array)
    return array


def launched(gpu: CudaBackend, body: UOp, arrays: list[Array], *scalars: float) -> list[Array]:
    """The arrays after a run of a kernel, on memory with a fence behind it."""
    params = call_params(body)
    inputs, values = params[: len(arrays)], params[len(arrays) :]
    memory = [memory_of(gpu, np.concatenate([a, np.full(64, 77, a.dtype)])) for a in arrays]
    gpu.link(Plan((UOp(Ops.CALL, (body, *params)),), inputs, values))(memory, scalars)
    out = [array_of(gpu, m, a.size + 64, p.dtype) for m, a, p in zip(memory, arrays, inputs, strict=True)]
    assert all((o[-64:] == o.dtype.type(77)).all() for o in out)
    for m in memory:
        gpu.free(m)
    return [o[:-64] for o in out]


def param(slot: int, shape: tuple[int, ...], dtype: DType = dtypes.f32) -> UOp:
    return UOp.param(slot, int(np.prod(shape)), dtype).reshape(shape)


def kernel(value: UOp) -> UOp:
    """A body that stores a value into memory 0."""
    shape = tuple(int(n) for n in value.shape if isinstance(n, int))
    return UOp.sink(param(0, shape, value.dtype).store(value))


def product(dtype: DType, total: DType, n: int = 64) -> UOp:
    a = param(1, (n, 1, n), dtype).cast(total)
    b = param(2, (n, n), dtype).permute((1, 0)).reshape((1, n, n)).cast(total)
    return (a * b).reduce(Ops.ADD, 1)


def row_sums(rows: int, length: int, dtype: DType) -> UOp:
    return param(1, (rows, length), dtype).reduce(Ops.ADD, 1)


X = param(1, (6, 50))
#: Kernels of all kinds that have the interpreter's bits: one element a thread, guarded blocks, sums of a
#: block with shuffles and barriers, operands in shared memory, loads under a condition, two outputs.
EXACT = {
    "elements": kernel((X * X - X).alu(Ops.SQRT)),
    "blocks": kernel(param(1, (3, 300)).alu(Ops.EXP2)),
    "pad": kernel(X.pad(((1, 2), (0, 3))).flip((True, False))),
    "sums": kernel(row_sums(3, 1000, dtypes.i32)),
    "maximum": kernel(param(1, (5, 700), dtypes.i64).reduce(Ops.MAX, 1)),
    "product": kernel(product(dtypes.f32, dtypes.f32, 48)),
    "two": UOp.sink(param(0, (300,)).store(param(1, (300,)) + 1), param(2, (4,)).store(param(3, (4,)) * 2)),
}


@pytest.mark.parametrize("body", EXACT.values(), ids=EXACT)
def test_kernels_have_the_bits_of_the_interpreter(
    gpu: CudaBackend, run_interp: Callable[..., list[Array]], body: UOp
) -> None:
    arrays = [generated(p, 0) for p in call_params(body)]
    with override(c_settings, strict=1):
        found = launched(gpu, body, arrays)
    for mine, wanted in zip(found, run_interp(body, arrays), strict=True):
        np.testing.assert_array_equal(mine, wanted)


def test_sums_of_a_block_in_another_order(gpu: CudaBackend) -> None:
    x = np.random.default_rng(0).standard_normal(64_000).astype(np.float32)
    out, _ = launched(gpu, kernel(row_sums(64, 1000, dtypes.f32)), [np.zeros(64, np.float32), x])
    bound = 1000 * np.finfo(np.float32).eps * np.abs(x.reshape(64, 1000)).sum(1)
    assert (np.abs(out - x.reshape(64, 1000).sum(1, np.float64)) <= bound).all()


@pytest.mark.parametrize("dtype", [dtypes.f16, dtypes.bf16], ids=str)
def test_a_product_on_tensor_cores(gpu: CudaBackend, dtype: DType) -> None:
    random = np.random.default_rng(1)
    a, b = (random.standard_normal((64, 64)).astype(dtype.numpy) for _ in range(2))
    body = kernel(product(dtype, dtypes.f32))
    (program,) = gpu.compile([body])
    assert "mma_" in program.source
    out, *_ = launched(gpu, body, [np.zeros(4096, np.float32), a.reshape(-1), b.reshape(-1)])
    wide = [m.astype(np.float64) for m in (a, b)]
    bound = 64 * np.finfo(np.float32).eps * (np.abs(wide[0]) @ np.abs(wide[1]))
    assert (np.abs(out.reshape(64, 64) - wide[0] @ wide[1]) <= bound).all()


@pytest.mark.parametrize("dtype", [dtypes.bool, *dtypes.ints, *dtypes.floats], ids=str)
def test_scalars_of_each_type_go_by_value(
    gpu: CudaBackend, run_interp: Callable[..., list[Array]], dtype: DType
) -> None:
    """Two of them, the first of another size: each is where the kernel looks for it."""
    small = UOp(Ops.PARAM, (), Param(dtypes.i8, name="a"))
    scalar = UOp(Ops.PARAM, (), Param(dtype, name="b"))
    x = param(1, (40,), dtype)
    body = kernel(x ^ scalar ^ small.cast(dtype) if dtype is dtypes.bool else x + scalar + small.cast(dtype))
    values: dict[DType, float] = {dtypes.bool: True, dtypes.i64: -(2**40) - 3, dtypes.u64: 2**40 + 3}
    value = values.get(dtype, -2.5 if dtype.is_float else 101)
    arrays = [np.zeros(40, dtype.numpy), generated(UOp.param(0, 40, dtype), 3)]
    found = launched(gpu, body, arrays, 1, value)
    for mine, wanted in zip(found, run_interp(body, arrays, 1, value), strict=True):
        np.testing.assert_array_equal(mine, wanted)


def test_a_number_that_a_kernel_takes_as_64_bits(gpu: CudaBackend) -> None:
    n = UOp.variable("n", 1, 2**40)
    out, x = param(0, (8,), dtypes.i64), param(1, (8,), dtypes.i64)
    body = UOp.sink(out.store(x + n.cast(dtypes.i64)))
    found, _ = launched(gpu, body, [np.zeros(8, np.int64), np.arange(8)], 2**39 + 5)
    np.testing.assert_array_equal(found, np.arange(8) + 2**39 + 5)


# plans


def check_scaled(
    gpu: CudaBackend, made: tuple[Plan, UOp], run: Any, memory: list[Any], x: Array, size: int, rate: float
) -> None:
    plan, value = made
    gpu.copy_in(memory[0], np.full(1000, 7, np.float32))
    gpu.copy_in(memory[1], x)
    run(memory, [size, rate])
    found = array_of(gpu, memory[0], 1000, dtypes.f32)
    n, by = plan.scalars
    wanted = evaluate([value], {plan.inputs[1]: x, n: size, by: rate})[0] if size else found[:0]
    np.testing.assert_array_equal(found[:size], wanted)
    assert (found[size:] == 7).all()


def test_runs_of_a_plan_with_other_memory_scalars_and_grids(gpu: CudaBackend, scaled: Scaled) -> None:
    """The first run launches kernels, later ones a graph, whose nodes get what has changed."""
    made = scaled(0)
    run = gpu.link(made[0])
    random = np.random.default_rng(2)
    pairs = [[gpu.allocate(4000), gpu.allocate(4000)] for _ in range(2)]
    for turn, (size, rate) in enumerate(
        [(1000, 2.0), (1000, 2.0), (1, 2.0), (256, -0.0), (257, 0.0), (0, 1.0), (1000, 1.5), (1000, 1.5)]
    ):
        x = random.standard_normal(1000).astype(np.float32)
        check_scaled(gpu, made, run, pairs[turn // 3 % 2], x, size, rate)


def test_a_later_run_is_one_launch(gpu: CudaBackend, scaled: Scaled, request: pytest.FixtureRequest) -> None:
    plan, _ = scaled()
    run = gpu.link(plan)
    memory = [gpu.allocate(4000), memory_of(gpu, np.ones(1000, np.float32))]
    other = gpu.allocate(4000)
    for _ in range(2):
        run(memory, [1000, 1.5])
    gpu.synchronize()
    if "fake" not in request.fixturenames:
        return
    fake: FakeDriver = request.getfixturevalue("fake")
    names = ("cuLaunchKernel", "cuGraphLaunch", "cuGraphExecKernelNodeSetParams", "cuStreamSynchronize")

    def asked(memory: list[Any], size: int, rate: float) -> list[str]:
        fake.calls()
        run(memory, [size, rate])
        return [call.split()[0] for call in fake.calls(*names)]

    assert asked(memory, 1000, 1.5) == ["cuGraphLaunch"]
    assert asked(memory, 1000, 0.5) == ["cuGraphExecKernelNodeSetParams", "cuGraphLaunch"]
    assert asked([other, memory[1]], 1000, 0.5) == ["cuGraphExecKernelNodeSetParams", "cuGraphLaunch"]
    assert asked([other, memory[1]], 10, 0.5) == ["cuGraphExecKernelNodeSetParams"] * 2 + ["cuGraphLaunch"]
    assert asked([other, memory[1]], 10, 0.5) == ["cuGraphLaunch"]


def test_scratch_memories_lie_where_the_plan_says(gpu: CudaBackend) -> None:
    out, x, y = (UOp.param(i, 300, dtypes.f32) for i in range(3))
    scratch = [UOp.alloc(slot, 300, dtypes.f32, AddrSpace.GLOBAL) for slot in range(2)]
    calls = [
        UOp(Ops.CALL, (UOp.sink(out.store(x * factor)), memory, x))
        for factor, memory in zip((2, 3), scratch, strict=True)
    ]
    behind = [memory.after(call) for memory, call in zip(scratch, calls, strict=True)]
    plan = Plan(
        (*calls, UOp(Ops.CALL, (UOp.sink(out.store(x * y)), out, *behind))),
        (out, x),
        (),
        {0: 1280, 1: 0},
        2560,
    )
    run, memory = gpu.link(plan), [gpu.allocate(1200), memory_of(gpu, np.ones(300, np.float32))]
    for _ in range(3):
        run(memory, [])
        np.testing.assert_array_equal(array_of(gpu, memory[0], 300, dtypes.f32), np.full(300, 6, np.float32))


def test_plans_share_scratch_memory_and_threads_the_stream(gpu: CudaBackend, scaled: Scaled) -> None:
    made = [scaled(least) for least in (0, 1)]
    runs = [gpu.link(plan) for plan, _ in made]
    memory = [[gpu.allocate(4000), gpu.allocate(4000)] for _ in runs]
    failed: list[BaseException] = []

    def work(number: int) -> None:
        random = np.random.default_rng(number)
        try:
            for size in random.integers(1, 1001, 12):
                x = random.standard_normal(1000).astype(np.float32)
                check_scaled(
                    gpu, made[number], runs[number], memory[number], x, int(size), float(random.random())
                )
        except BaseException as error:  # noqa: BLE001  it is told below
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


def test_memory_is_freed_behind_a_kernel_that_still_uses_it(gpu: CudaBackend, scaled: Scaled) -> None:
    plan, _ = scaled()
    run = gpu.link(plan)
    x, out = memory_of(gpu, np.ones(1000, np.float32)), gpu.allocate(4000)
    run([out, x], [1000, 2.0])
    gpu.free(x)
    gpu.free(x)
    np.testing.assert_array_equal(array_of(gpu, out, 1000, dtypes.f32), np.full(1000, 3, np.float32))
    with pytest.raises(BackendError, match="memory 1 of the plan has been freed"):
        run([out, x], [1000, 2.0])
    with pytest.raises(BackendError, match="copy of memory that has been freed"):
        gpu.copy_in(x, np.ones(1000, np.float32))


def test_a_run_that_does_not_fit_its_plan(gpu: CudaBackend, scaled: Scaled) -> None:
    run = gpu.link(scaled()[0])
    whole, short = gpu.allocate(4000), gpu.allocate(3996)
    with pytest.raises(BackendError, match=r"takes 2 memories and 2 scalars, 1 and 2 given \(a memory for"):
        run([whole], [1, 0.5])
    with pytest.raises(BackendError, match=r"has 3996 bytes, needs 4000 \(allocate\(4000\)\)"):
        run([whole, short], [1, 0.5])
    with pytest.raises(BoundsError, match=r"n is 1001, outside of 1 to 1000 \(1 to 1000, or wider"):
        run([whole, whole], [1001, 0.5])


def test_copies_and_memory(gpu: CudaBackend) -> None:
    with pytest.raises(BackendError, match="cannot allocate -1 bytes"):
        gpu.allocate(-1)
    for size in (0, 1, 255, 4097):
        memory = gpu.allocate(size)
        assert memory.address % 256 == 0
        data = np.arange(size, dtype=np.uint8)
        gpu.copy_in(memory, data)
        np.testing.assert_array_equal(array_of(gpu, memory, size, dtypes.u8), data)
    with pytest.raises(BackendError, match="array of 3 bytes and memory of 4097"):
        gpu.copy_in(memory, np.zeros(3, np.uint8))
    with pytest.raises(BackendError, match=r"not contiguous \(numpy.ascontiguousarray\)"):
        gpu.copy_out(memory, np.zeros(2 * 4097, np.uint8)[::2])


# kernels by hand


def reversed_in_shared(nbytes: int) -> CudaSource:
    """A block of 64 turns 64 floats around, through the end of shared memory of the launch."""
    text = """extern "C" __global__ void __launch_bounds__(64) turn(float *y, const float *x, int last) {
    extern __shared__ float part[];
    part[last - threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = part[last - 63 + threadIdx.x];
}
"""
    params = (UOp.param(0, 64, dtypes.f32), UOp.param(1, 64, dtypes.f32), UOp.variable("last", 63, 1 << 20))
    return CudaSource("turn", text, params, (index(1),) * 3, (64, 1, 1), shared=nbytes)


@pytest.mark.parametrize("nbytes", [256, 48 * 1024, 48 * 1024 + 4, 160 * 1024])
def test_shared_memory_of_a_launch(gpu: CudaBackend, nbytes: int) -> None:
    source = reversed_in_shared(nbytes)
    (turn,) = gpu.load([source])
    x = np.arange(64, dtype=np.float32)
    memory = [gpu.allocate(256), memory_of(gpu, x)]
    turn(memory, {source.params[2]: nbytes // 4 - 1})
    np.testing.assert_array_equal(array_of(gpu, memory[0], 64, dtypes.f32), x[::-1])


def test_more_shared_memory_than_a_block_has(gpu: CudaBackend) -> None:
    with pytest.raises(BackendError, match=r"turn: 1000000 bytes of shared memory a block \(at most \d+ on "):
        gpu.load([reversed_in_shared(1_000_000)])


def test_blocks_in_three_dimensions(gpu: CudaBackend) -> None:
    text = """extern "C" __global__ void place(int *y) {
    const int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    const int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    y[block * 24 + thread] = 10000 * blockIdx.z + 1000 * blockIdx.y + 100 * threadIdx.z + 10 * threadIdx.y + threadIdx.x;
}
"""
    memory = (UOp.param(0, 192, dtypes.i32),)
    source = CudaSource("place", text, memory, (index(1), index(4), index(2)), (2, 3, 4))
    (place,) = gpu.load([source])
    out = gpu.allocate(768)
    place([out], {})
    bz, by, tz, ty, tx = np.indices((2, 4, 4, 3, 2))
    wanted = (10000 * bz + 1000 * by + 100 * tz + 10 * ty + tx).reshape(-1)
    np.testing.assert_array_equal(array_of(gpu, out, 192, dtypes.i32), wanted)


# what is printed, and what is left


def test_a_line_for_each_kernel(gpu: CudaBackend, scaled: Scaled, capsys: pytest.CaptureFixture[str]) -> None:
    run = gpu.link(scaled()[0])
    memory = [gpu.allocate(4000), memory_of(gpu, np.ones(1000, np.float32))]
    with override(ir_settings, debug=2):
        run(memory, [1000, 2.0])
        run(memory, [1000, 2.0])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert all(re.match(r"CUDA k_[0-9a-f]{16} +\d+\.\d{3} ms +\d+\.\d ms in all$", line) for line in lines)
    np.testing.assert_array_equal(array_of(gpu, memory[0], 1000, dtypes.f32), np.full(1000, 3, np.float32))


def test_the_text_of_a_program_is_printed_once(gpu: CudaBackend, capsys: pytest.CaptureFixture[str]) -> None:
    body = kernel(param(1, (15,)) * 3)
    with override(ir_settings, debug=4):
        (program,), _ = gpu.compile([body]), gpu.compile([body])
    assert capsys.readouterr().out.count(f" {program.name}(") == 1
    assert program.name in program.source


def test_nothing_is_left_of_plans_that_nobody_has(fake: FakeDriver, scaled: Scaled) -> None:
    gpu = CudaBackend()
    memory = [gpu.allocate(4000), gpu.allocate(4000)]
    runs = [gpu.link(scaled(least)[0]) for least in range(1, 4)]
    for run in runs * 3:
        run(memory, [4, 2.0])
    assert fake.alive() == ALIVE | {"graph": 3, "executable": 3, "module": 6, "memory": 3}
    gpu.synchronize()
    for m in memory:
        gpu.free(m)
    del run, runs
    gc.collect()
    assert fake.alive() == ALIVE | {"memory": 1}  # of scratch
