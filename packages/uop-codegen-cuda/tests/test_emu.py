"""The emulator on kernels written by hand: barriers,
shuffles, orders of threads; and the backend EMU on plans.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from uop_codegen_cuda import CudaSource, EmuBackend, emulate, settings
from uop_ir import (
    BackendError,
    BoundsError,
    Plan,
    UOp,
    dtypes,
    evaluate,
    index,
    override,
)

Array = npt.NDArray[Any]
ORDERS = ("ascending", "descending", "random")
X = np.random.default_rng(0).standard_normal(256).astype(np.float32)
Run = Callable[..., list[Array]]
Scaled = Callable[..., tuple[Plan, UOp]]


def cuda(body: str, block: int, blocks: int = 1, memory: int = 2, size: int = 256) -> CudaSource:
    """A kernel over f32 arrays y and x, or more, of 256 elements each."""
    names = ", ".join(f"float *{name}" for name in "yxz"[:memory])
    params = tuple(UOp.param(i, size, dtypes.f32) for i in range(memory))
    text = f'extern "C" __global__ void kernel({names}) {{\n    const int t = threadIdx.x;\n{body}\n}}\n'
    return CudaSource("kernel", text, params, (index(blocks), index(1), index(1)), (block, 1, 1))


BLOCK_SUM = """
    __shared__ float part[64];
    part[t] = x[blockIdx.x * 64 + t];
    __syncthreads();
    for (int half = 32; half > 0; half /= 2) {
        if (t < half) part[t] += part[t + half];
        __syncthreads();
    }
    if (t == 0) y[blockIdx.x] = part[0];"""


@pytest.mark.parametrize("order", ORDERS)
def test_a_sum_over_blocks_in_shared_memory(order: str, run_cuda: Run) -> None:
    y, _ = run_cuda(cuda(BLOCK_SUM, 64, 4), [np.zeros(256, np.float32), X], order=order)
    wanted = X.reshape(4, 64)
    while wanted.shape[1] > 1:
        wanted = wanted[:, : wanted.shape[1] // 2] + wanted[:, wanted.shape[1] // 2 :]
    np.testing.assert_array_equal(y[:4], wanted[:, 0])


def lanes(value: Callable[[Array], Array]) -> Array:
    """Of each of 64 threads, two warps, the element that a function of its lane names."""
    lane, warp = np.arange(64) % 32, np.arange(64) // 32
    return X[warp * 32 + value(lane)]


SHUFFLES: dict[str, Callable[[Array], Array]] = {
    "__shfl_sync(~0u, v, 5)": lambda lane: np.full(64, 5),
    "__shfl_sync(~0u, v, t + 3, 8)": lambda lane: lane // 8 * 8 + (lane + 3) % 8,
    "__shfl_up_sync(~0u, v, 4)": lambda lane: np.where(lane < 4, lane, lane - 4),
    "__shfl_up_sync(~0u, v, 1, 16)": lambda lane: np.where(lane % 16 == 0, lane, lane - 1),
    "__shfl_down_sync(~0u, v, 7)": lambda lane: np.where(lane + 7 > 31, lane, lane + 7),
    "__shfl_down_sync(~0u, v, 2, 8)": lambda lane: np.where(lane % 8 > 5, lane, lane + 2),
    "__shfl_xor_sync(~0u, v, 9)": lambda lane: lane ^ 9,
    "__shfl_xor_sync(~0u, v, 8, 8)": lambda lane: np.where(lane & 8, lane ^ 8, lane),
}


@pytest.mark.parametrize("order", ORDERS)
def test_shuffles_take_the_lane_that_their_definition_names(order: str, run_cuda: Run) -> None:
    rows = "\n".join(f"    y[{i} * 64 + t] = {text};" for i, text in enumerate(SHUFFLES))
    source = cuda(f"    const float v = x[t];\n{rows}", 64, size=512)
    y, _ = run_cuda(source, [np.zeros(512, np.float32), np.tile(X, 2)], order=order)
    for row, (text, value) in zip(y.reshape(8, 64), SHUFFLES.items(), strict=True):
        np.testing.assert_array_equal(row, lanes(value), err_msg=text)


def test_votes_of_a_warp(run_cuda: Run) -> None:
    source = cuda(
        """    const unsigned mask = __ballot_sync(~0u, t % 3 == 0);
    y[t] = (float)(mask >> 16) + 0.5f * __any_sync(~0u, t == 40) + 0.25f * __all_sync(~0u, t < 32);""",
        64,
    )
    y, _ = run_cuda(source, [np.zeros(256, np.float32), X])
    third = [sum(1 << lane for lane in range(32) if (warp * 32 + lane) % 3 == 0) >> 16 for warp in range(2)]
    np.testing.assert_array_equal(
        y[:64], np.repeat([np.float32(third[0] + 0.25), np.float32(third[1] + 0.5)], 32)
    )


def test_part_of_a_warp_meets_alone(run_cuda: Run) -> None:
    """Lanes that have ended, or that the mask does not name, are not waited for."""
    body = """    if (t >= 24) return;
    float v = x[t];
    if (t < 8) v += __shfl_xor_sync(0xffu, v, 1);
    __syncwarp();
    y[t] = v;"""
    y, _ = run_cuda(cuda(body, 32), [np.zeros(256, np.float32), X], order="random")
    paired = X[:8].reshape(4, 2).sum(1).repeat(2)
    np.testing.assert_array_equal(y[:32], np.concatenate([paired, X[8:24], np.zeros(8, np.float32)]))


def test_a_race_shows_in_some_orders_only(run_cuda: Run) -> None:
    """Each thread reads what the one before it wrote,
    without a barrier: only ascending order has it there.
    """
    body = """    __shared__ float part[64];
    part[t] = x[t];
    y[t] = t == 0 ? 0.0f : part[t - 1];"""
    want = np.concatenate([[np.float32(0)], X[:63]])
    right = {}
    for order in ORDERS:
        y, _ = run_cuda(cuda(body, 64), [np.zeros(256, np.float32), X], order=order)
        right[order] = int((y[:64] == want).sum())
    assert right["ascending"] == 64
    assert right["descending"] == 1
    assert 1 < right["random"] < 64


def test_a_seed_gives_the_same_random_order_again(run_cuda: Run) -> None:
    """Threads count themselves, by where the one before has left the count."""
    source = cuda("    y[t] = x[0]++;", 64)

    def turns(seed: int) -> list[float]:
        with override(settings, emu_seed=seed):
            y, _ = run_cuda(source, [np.zeros(256, np.float32)] * 2, order="random")
        return list(y[:64])

    assert sorted(turns(1)) == list(range(64))
    assert turns(1) == turns(1) != turns(2)


def test_blocks_have_an_order_too(run_cuda: Run) -> None:
    for order in ORDERS:
        y, _ = run_cuda(
            cuda("    y[blockIdx.x] = x[0]++;", 1, 64), [np.zeros(256, np.float32)] * 2, order=order
        )
        turns = list(y[:64])
        assert sorted(turns) == list(range(64))
        assert (turns == sorted(turns), turns == sorted(turns)[::-1]) == (
            order == "ascending",
            order == "descending",
        )


def test_shared_memory_begins_as_nan_in_each_block(run_cuda: Run) -> None:
    body = """    __shared__ float part[2];
    y[blockIdx.x] = part[0];
    part[0] = 1.0f;"""
    y, _ = run_cuda(cuda(body, 1, 3), [np.zeros(256, np.float32), X])
    assert np.isnan(y[:3]).all()
    assert not y[3:].any()


def test_the_indices_of_a_launch(run_cuda: Run) -> None:
    """Blocks and threads in three dimensions: each writes its number where all indices say."""
    text = """extern "C" __global__ void kernel(float *y) {
    const int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    const int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    y[block * 24 + thread] = 10000 * blockIdx.z + 1000 * blockIdx.y + 100 * threadIdx.z + 10 * threadIdx.y + threadIdx.x;
}
"""
    source = CudaSource(
        "kernel", text, (UOp.param(0, 192, dtypes.f32),), (index(1), index(4), index(2)), (2, 3, 4)
    )
    (y,) = run_cuda(source, [np.zeros(192, np.float32)], order="random")
    bz, by, tz, ty, tx = np.indices((2, 4, 4, 3, 2))
    np.testing.assert_array_equal(y, (10000 * bz + 1000 * by + 100 * tz + 10 * ty + tx).reshape(-1))


def test_threads_that_wait_for_ever(run_cuda: Run) -> None:
    source = cuda("    if (t != 7)\n        y[t] = __shfl_sync(~0u, x[t], 0);\n    __syncthreads();", 32)
    with pytest.raises(
        BackendError, match=r"waits for lanes 0xffffffff of its warp, and not all of them come"
    ):
        run_cuda(source, [np.zeros(256, np.float32), X])
    run_cuda(
        cuda(BLOCK_SUM, 64, 4), [np.zeros(256, np.float32), X]
    )  # the next kernel finds all as it should be


def test_a_block_of_too_many_threads(run_cuda: Run) -> None:
    with pytest.raises(BackendError, match=r"kernel: a block of 1025 x 1 x 1 threads \(at most 1024\)"):
        run_cuda(cuda("    y[0] = 1.0f;", 1025), [np.zeros(256, np.float32), X])


def test_a_block_of_more_threads_than_its_bound(run_cuda: Run) -> None:
    source = cuda("    y[t] = 1.0f;", 64)
    bound = replace(source, text=source.text.replace("void", "void __launch_bounds__(32)"))
    with pytest.raises(BackendError, match=r"kernel: a block of 64 x 1 x 1 threads \(at most 32\)"):
        run_cuda(bound, [np.zeros(256, np.float32), X])


def test_shared_memory_of_the_launch(run_cuda: Run) -> None:
    body = """    extern __shared__ float4 part[];
    float *own = (float *)part;
    own[t] = x[t];
    __syncthreads();

    y[t] = own[63 - t];"""
    y, _ = run_cuda(replace(cuda(body, 64), shared=256), [np.zeros(256, np.float32), X])
    np.testing.assert_array_equal(y[:64], X[63::-1])


def test_definitions_before_a_kernel_are_any_text(run_cuda: Run) -> None:
    before = "// not: extern __shared__ float part[];"
    source = cuda("    y[t] = x[t] + 1;", 256)
    source = replace(source, text=f"{before}\n\n{source.text}", definitions=(before,))
    y, _ = run_cuda(source, [np.zeros(256, np.float32), X])
    np.testing.assert_array_equal(y, X + 1)


def test_texts_with_blank_lines_and_the_same_parts(run_cuda: Run) -> None:
    """Two kernels in one file, each of parts that the other has too."""
    text = """extern "C" __global__ void NAME(float *y) {
    y[0] += 1;

    y[1] += 1;

    y[0] += 1;

    y[1] += 1;
}
"""
    one = (index(1),) * 3
    params = (UOp.param(0, 2, dtypes.f32),)
    first, second = (
        CudaSource(n, text.replace("NAME", n), params, one, (1, 1, 1)) for n in ("first", "second")
    )
    y = np.zeros(2, np.float32)
    for kernel in emulate([first, second]):
        kernel([y.ctypes.data], {})
    np.testing.assert_array_equal(y, [4, 4])


def test_an_order_that_is_none(run_cuda: Run) -> None:
    with pytest.raises(BackendError, match=r"EMU_ORDER='sideways' \(one of ascending, descending, random\)"):
        run_cuda(cuda("    y[0] = 1.0f;", 1), [np.zeros(256, np.float32), X], order="sideways")


def test_a_text_that_is_no_cpp(run_cuda: Run) -> None:
    with pytest.raises(BackendError, match="'nope' was not declared"):
        emulate([cuda("    y[0] = nope;", 1)])


# the backend


@pytest.fixture
def backend(run_cuda: Run) -> EmuBackend:
    return EmuBackend()


@pytest.mark.parametrize("size", [1, 256, 1000])
def test_a_plan_of_two_kernels_and_two_scalars(backend: EmuBackend, scaled: Scaled, size: int) -> None:
    plan, value = scaled()
    x = np.random.default_rng(size).standard_normal(1000).astype(np.float32)
    out, given = backend.allocate(4000), backend.allocate(4000)
    backend.copy_in(out, np.full(1000, 7, np.float32))
    backend.copy_in(given, x)
    backend.link(plan)([out, given], [size, -1.5])
    found = np.empty(1000, np.float32)
    backend.copy_out(out, found)
    n, rate = plan.scalars
    (wanted,) = evaluate([value], {plan.inputs[1]: x, n: size, rate: -1.5})
    np.testing.assert_array_equal(found[:size], wanted)
    assert (found[size:] == 7).all()


def test_a_run_that_does_not_fit_its_plan(backend: EmuBackend, scaled: Scaled) -> None:
    run = backend.link(scaled()[0])
    whole, short = backend.allocate(4000), backend.allocate(3996)
    with pytest.raises(
        BackendError, match=r"takes 2 memories and 2 scalars, 1 and 2 given \(a memory for each"
    ):
        run([whole], [1, 0.5])
    with pytest.raises(BackendError, match=r"has 3996 bytes, needs 4000 \(allocate\(4000\)\)"):
        run([whole, short], [1, 0.5])
    with pytest.raises(BoundsError, match=r"n is 1001, outside of 1 to 1000 \(1 to 1000, or wider"):
        run([whole, whole], [1001, 0.5])


def test_the_text_of_a_program_is_cuda(backend: EmuBackend) -> None:
    x = UOp.param(1, 15, dtypes.f32)
    (program,) = backend.compile([UOp.sink(UOp.param(0, 15, dtypes.f32).store(x + x))])
    assert program.name in program.source
    assert "threadIdx.x" in program.source
