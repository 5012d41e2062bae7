"""The CUDA text of a few kernels, whole: what a reader sees. Each is also run, and compiled to a cubin."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from uop_codegen_c import Freedoms
from uop_codegen_cuda import CudaSource, compile_cubin, generate
from uop_ir import Ops, Param, UOp, dtypes

EXACT = Freedoms(contract=False, reassociate=False)
needs_nvrtc = pytest.mark.skipif(
    importlib.util.find_spec("cuda") is None, reason='no NVRTC: pip install "uop-codegen-cuda[cuda]"'
)


def f32(slot: int, *shape: int) -> UOp:
    size = 1
    for extent in shape:
        size *= extent
    return UOp.param(slot, size, dtypes.f32).reshape(shape)


def multiply_add() -> UOp:
    """1,000 elements: three whole blocks and a short one."""
    return UOp.sink(f32(0, 1000).store(f32(1, 1000) * f32(2, 1000) + 1.0))


def matmul(rows: int = 32) -> UOp:
    """A product whose operands are staged, in two steps of 16 terms, the second of which has 8."""
    a, b = f32(1, rows, 24), f32(2, 24, 512)
    product = a.reshape((rows, 1, 24)) * b.permute((1, 0)).reshape((1, 512, 24))
    return UOp.sink(f32(0, rows, 512).store(product.reduce(Ops.ADD, 1)))


def row_times_matrix() -> UOp:
    """Nothing is read again: each thread computes one sum."""
    return matmul(1)


def center_rows() -> UOp:
    """Each row less its maximum, over the sum of its squares: reductions that a row's threads all make."""
    x = f32(1, 8, 40)
    centered = x - x.reduce(Ops.MAX, 1).reshape((8, 1)).expand((8, 40))
    total = (centered * centered).reduce(Ops.ADD, 1)
    return UOp.sink(f32(0, 8, 40).store(centered / total.reshape((8, 1)).expand((8, 40))))


def divide_rows() -> UOp:
    """Each row less its maximum, over its sum: reductions that four warps share."""
    x = f32(1, 3, 512)
    above = x - x.reduce(Ops.MAX, 1).reshape((3, 1)).expand((3, 512))
    return UOp.sink(f32(0, 3, 512).store(above / above.reduce(Ops.ADD, 1).reshape((3, 1)).expand((3, 512))))


def symbolic() -> UOp:
    """The first n elements, scaled: the grid depends on n."""
    n = UOp.variable("n", 1, 2000)
    scale = UOp(Ops.PARAM, (), Param(dtypes.f32, name="scale"))
    return UOp.sink(f32(0, 2000).shrink([(0, n)]).store(f32(1, 2000).shrink([(0, n)]) * scale))


def pad() -> UOp:
    return UOp.sink(f32(0, 6, 10).store(f32(1, 4, 7).pad([(1, 1), (2, 1)])))


KERNELS: dict[str, tuple[Callable[[], UOp], tuple[float, ...], str]] = {
    "multiply_add": (multiply_add, (), """\
extern "C" __global__ void __launch_bounds__(256) multiply_add(float *__restrict__ data0, \
const float *__restrict__ data1, const float *__restrict__ data2) {
    const int gidx0 = blockIdx.x;
    const int lidx0 = threadIdx.x;
    if (gidx0*256+lidx0 < 1000) {
        data0[gidx0*256+lidx0] = data1[gidx0*256+lidx0] * data2[gidx0*256+lidx0] + 1.0f;
    }
}
"""),
    "matmul": (matmul, (), """\
extern "C" __global__ void __launch_bounds__(256) matmul(float *__restrict__ data0, \
const float *__restrict__ data1, const float *__restrict__ data2) {
    const int gidx0 = blockIdx.x;
    const int lidx0 = threadIdx.x;
    const int lidx1 = threadIdx.y;
    __shared__ float buf0[544] __attribute__((aligned(64)));
    __shared__ float buf1[1280] __attribute__((aligned(64)));
    float acc2 = 0.0f;
    float acc3 = 0.0f;
    float acc4 = 0.0f;
    float acc5 = 0.0f;
    float acc6 = 0.0f;
    float acc7 = 0.0f;
    float acc8 = 0.0f;
    float acc9 = 0.0f;
    for (int ridx9 = 0; ridx9 < 2; ridx9++) {
        bool val0 = ridx9*16+lidx0 < 24;
        __syncthreads();
        buf0[lidx0*34+lidx1] = val0 ? data1[lidx1*24+ridx9*16+lidx0] : 0;
        buf0[lidx0*34+lidx1+16] = val0 ? data1[lidx1*24+ridx9*16+lidx0+384] : 0;
        bool val1 = ridx9*16+lidx1 < 24;
        buf1[lidx1*80+lidx0] = val1 ? data2[ridx9*8192+lidx1*512+gidx0*64+lidx0] : 0;
        buf1[lidx1*80+lidx0+16] = val1 ? data2[ridx9*8192+lidx1*512+gidx0*64+lidx0+16] : 0;
        buf1[lidx1*80+lidx0+32] = val1 ? data2[ridx9*8192+lidx1*512+gidx0*64+lidx0+32] : 0;
        buf1[lidx1*80+lidx0+48] = val1 ? data2[ridx9*8192+lidx1*512+gidx0*64+lidx0+48] : 0;
        __syncthreads();
        for (int ridx10 = 0; ridx10 < 16; ridx10++) {
            float val2 = buf0[ridx10*34+lidx1];
            float val3 = buf1[ridx10*80+lidx0];
            float val4 = buf1[ridx10*80+lidx0+16];
            float val5 = buf1[ridx10*80+lidx0+32];
            float val6 = buf1[ridx10*80+lidx0+48];
            float val7 = buf0[ridx10*34+lidx1+16];
            acc2 = acc2 + val2 * val3;
            acc3 = acc3 + val2 * val4;
            acc4 = acc4 + val2 * val5;
            acc5 = acc5 + val2 * val6;
            acc6 = acc6 + val7 * val3;
            acc7 = acc7 + val7 * val4;
            acc8 = acc8 + val7 * val5;
            acc9 = acc9 + val7 * val6;
        }
    }
    data0[lidx1*512+gidx0*64+lidx0] = acc2;
    data0[lidx1*512+gidx0*64+lidx0+16] = acc3;
    data0[lidx1*512+gidx0*64+lidx0+32] = acc4;
    data0[lidx1*512+gidx0*64+lidx0+48] = acc5;
    data0[lidx1*512+gidx0*64+lidx0+8192] = acc6;
    data0[lidx1*512+gidx0*64+lidx0+8208] = acc7;
    data0[lidx1*512+gidx0*64+lidx0+8224] = acc8;
    data0[lidx1*512+gidx0*64+lidx0+8240] = acc9;
}
"""),
    "row_times_matrix": (row_times_matrix, (), """\
extern "C" __global__ void __launch_bounds__(256) row_times_matrix(float *__restrict__ data0, \
const float *__restrict__ data1, const float *__restrict__ data2) {
    const int gidx0 = blockIdx.x;
    const int lidx0 = threadIdx.x;
    float acc0 = 0.0f;
    for (int ridx1 = 0; ridx1 < 24; ridx1++) {
        acc0 = acc0 + data1[ridx1] * data2[ridx1*512+gidx0*256+lidx0];
    }
    data0[gidx0*256+lidx0] = acc0;
}
"""),
    "center_rows": (center_rows, (), """\
#define INFINITY __int_as_float(0x7f800000)

static __device__ inline float max_f32(float x, float y) {
    return y != y || x < y ? y : x;
}

extern "C" __global__ void __launch_bounds__(40) center_rows(float *__restrict__ data0, \
const float *__restrict__ data1) {
    const int gidx0 = blockIdx.x;
    const int lidx0 = threadIdx.x;
    float acc0 = -INFINITY;
    for (int ridx3 = 0; ridx3 < 40; ridx3++) {
        acc0 = max_f32(acc0, data1[gidx0*40+ridx3]);
    }
    float acc1 = 0.0f;
    for (int ridx2 = 0; ridx2 < 40; ridx2++) {
        float val0 = data1[gidx0*40+ridx2] - acc0;
        acc1 = acc1 + val0 * val0;
    }
    data0[gidx0*40+lidx0] = (data1[gidx0*40+lidx0] - acc0) / acc1;
}
"""),
    "symbolic": (symbolic, (777, 0.1), """\
extern "C" __global__ void __launch_bounds__(256) symbolic(float *__restrict__ data0, \
const float *__restrict__ data1, int n, float scale) {
    const int gidx0 = blockIdx.x;
    const int lidx0 = threadIdx.x;
    if (gidx0*256+lidx0 < n) {
        data0[gidx0*256+lidx0] = data1[gidx0*256+lidx0] * scale;
    }
}
"""),
    "pad": (pad, (), """\
extern "C" __global__ void __launch_bounds__(10) pad(float *__restrict__ data0, \
const float *__restrict__ data1) {
    const int gidx0 = blockIdx.x;
    const int lidx0 = threadIdx.x;
    data0[gidx0*10+lidx0] = ((((0 < gidx0) & (gidx0 < 5)) & (1 < lidx0)) & (lidx0 < 9)) ? \
data1[gidx0*7+lidx0-9] : 0;
}
"""),
}  # fmt: skip

#: A kernel whose text needs the freedom to add floats in another order.
SHARED_ROWS = """\
#define INFINITY __int_as_float(0x7f800000)

static __device__ inline float max_f32(float x, float y) {
    return y != y || x < y ? y : x;
}

extern "C" __global__ void __launch_bounds__(128) divide_rows(float *__restrict__ data0, \
const float *__restrict__ data1) {
    const int gidx0 = blockIdx.x;
    const int lidx0 = threadIdx.x;
    const int lidx1 = threadIdx.y;
    __shared__ float buf5[4] __attribute__((aligned(64)));
    __shared__ float buf11[4] __attribute__((aligned(64)));
    float acc13 = -INFINITY;
    float acc12 = -INFINITY;
    for (int ridx6 = 0; ridx6 < 4; ridx6++) {
        acc12 = max_f32(acc12, data1[gidx0*512+ridx6*128+lidx1*32+lidx0]);
    }
    float lane0 = acc12;
    float lane1 = max_f32(lane0, __shfl_down_sync(0xffffffffu, lane0, 16));
    float lane2 = max_f32(lane1, __shfl_down_sync(0xffffffffu, lane1, 8));
    float lane3 = max_f32(lane2, __shfl_down_sync(0xffffffffu, lane2, 4));
    float lane4 = max_f32(lane3, __shfl_down_sync(0xffffffffu, lane3, 2));
    float val0 = __shfl_sync(0xffffffffu, lane4, 0);
    float val1 = __shfl_sync(0xffffffffu, lane4, 1);
    bool val2 = lidx0 == 0;
    if (val2) {
        buf5[lidx1] = max_f32(val0, val1);
    }
    __syncthreads();
    for (int ridx21 = 0; ridx21 < 4; ridx21++) {
        float val3 = buf5[ridx21];
        acc13 = max_f32(acc13, val3);
    }
    float acc15 = 0.0f;
    float acc14 = 0.0f;
    for (int ridx10 = 0; ridx10 < 4; ridx10++) {
        acc14 = acc14 + (data1[gidx0*512+ridx10*128+lidx1*32+lidx0] - acc13);
    }
    float lane6 = acc14;
    float lane7 = lane6 + __shfl_down_sync(0xffffffffu, lane6, 16);
    float lane8 = lane7 + __shfl_down_sync(0xffffffffu, lane7, 8);
    float lane9 = lane8 + __shfl_down_sync(0xffffffffu, lane8, 4);
    float lane10 = lane9 + __shfl_down_sync(0xffffffffu, lane9, 2);
    float val4 = __shfl_sync(0xffffffffu, lane10, 0);
    float val5 = __shfl_sync(0xffffffffu, lane10, 1);
    bool val6 = lidx0 == 0;
    if (val6) {
        buf11[lidx1] = val4 + val5;
    }
    __syncthreads();
    for (int ridx27 = 0; ridx27 < 4; ridx27++) {
        float val7 = buf11[ridx27];
        acc15 = acc15 + val7;
    }
    for (int ridx14 = 0; ridx14 < 4; ridx14++) {
        data0[gidx0*512+ridx14*128+lidx1*32+lidx0] = (data1[gidx0*512+ridx14*128+lidx1*32+lidx0] - acc13) / acc15;
    }
}
"""
#: Bytes of shared memory: 16 rows of 32 and 2 elements, and of 64 and 16;
#: a float for each of four warps twice, at multiples of 64.
SHARED = {"matmul": 16 * (34 + 80) * 4, "divide_rows": 64 + 4 * 4}


@pytest.mark.parametrize("name", KERNELS)
def test_text(name: str) -> None:
    body, _, text = KERNELS[name]
    assert generate(body(), EXACT, name).text == text


def test_text_of_shared_reductions(run_cuda: Callable[..., list[npt.NDArray[Any]]]) -> None:
    source = generate(divide_rows(), name="divide_rows")
    assert source.text == SHARED_ROWS
    x = np.random.default_rng(0).standard_normal((3, 512)).astype(np.float32)
    out, _ = run_cuda(source, [np.zeros(3 * 512, np.float32), x.reshape(-1)])
    above = (x - x.max(-1, keepdims=True)).astype(np.float64)
    np.testing.assert_allclose(out.reshape(3, 512), above / above.sum(-1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("name", KERNELS)
def test_run_on_the_cpu(name: str, check: Callable[..., CudaSource]) -> None:
    body, scalars, _ = KERNELS[name]
    check(body(), *scalars, freedoms=EXACT, name=name)


@needs_nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_90a"])
@pytest.mark.parametrize("name", [*KERNELS, "divide_rows"])
def test_cubin(name: str, arch: str) -> None:
    body = divide_rows if name == "divide_rows" else KERNELS[name][0]
    cubin = compile_cubin(generate(body()).text, arch)
    assert cubin.code.startswith(b"\x7fELF")
    assert 0 < cubin.registers <= 64
    assert (cubin.spills, cubin.shared) == (0, SHARED.get(name, 0))
    assert "warning" not in cubin.log


def test_a_kernel_is_named_by_its_content() -> None:
    first, again, other = generate(pad()), generate(pad()), generate(matmul())
    assert first == again
    assert first.name != other.name
    assert f" {first.name}(" in first.text
