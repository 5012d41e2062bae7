"""Kernels as CUDA text, compiled as C++ and run on the CPU: one thread after the other, the last one first.

Threads of a GPU come in any order. Kernels without barriers and shared memory mean the same in every one.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from uop_codegen_cuda import CudaSource, generate
from uop_ir import DType, UOp, call_params, dtypes, evaluate, run_program

Array = npt.NDArray[Any]
#: Run a kernel's body on arrays and scalars, in the order of its arguments; gives the arrays after it.
Runner = Callable[..., list[Array]]

SHIM = """
#define __global__
#define __device__
#define __launch_bounds__(threads)
#define __int_as_float(bits) __builtin_bit_cast(float, bits)
extern "C" {
float sqrtf(float), truncf(float), fmaf(float, float, float), fmodf(float, float), copysignf(float, float);
double sqrt(double), trunc(double), fma(double, double, double), fmod(double, double), copysign(double, double);
void *memcpy(void *, const void *, decltype(sizeof 0));
}
struct Place { unsigned x, y, z; };
static Place blockIdx, threadIdx;
"""
LAUNCH = """
extern "C" void launch(const unsigned *grid, const unsigned *block, void *const *args) {
    for (blockIdx.z = grid[2]; blockIdx.z-- > 0;)
    for (blockIdx.y = grid[1]; blockIdx.y-- > 0;)
    for (blockIdx.x = grid[0]; blockIdx.x-- > 0;)
    for (threadIdx.z = block[2]; threadIdx.z-- > 0;)
    for (threadIdx.y = block[1]; threadIdx.y-- > 0;)
    for (threadIdx.x = block[0]; threadIdx.x-- > 0;)
        KERNEL(ARGUMENTS);
}
"""
FLAGS = (
    *("-std=c++17", "-O1", "-ffp-contract=off", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror"),
    *("-Wno-unused-parameter", "-Wno-unused-variable"),  # a kernel takes all arguments of its CALL
)
C_TYPES = {
    dtypes.bool: "bool", dtypes.i8: "signed char", dtypes.i16: "short", dtypes.i32: "int", dtypes.i64: "long",
    dtypes.u8: "unsigned char", dtypes.u16: "unsigned short", dtypes.u32: "unsigned", dtypes.u64: "unsigned long",
    dtypes.f16: "unsigned short", dtypes.bf16: "unsigned short", dtypes.f32: "float", dtypes.f64: "double",
    dtypes.index: "long",
}  # fmt: skip
#: Elements behind each array, which nobody may write to.
FENCE = 64


def argument(place: int, param: UOp) -> str:
    pointer = f"({C_TYPES[param.dtype]} *)args[{place}]"
    return pointer if param.arg.size is not None else f"*{pointer}"


def load(source: CudaSource, folder: Path) -> Any:
    """The launcher of a kernel, compiled with g++."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++ to compile CUDA text with (apt install g++)")
    arguments = ", ".join(argument(i, p) for i, p in enumerate(source.params))
    launch = LAUNCH.replace("KERNEL", source.name).replace("ARGUMENTS", arguments)
    path, library = folder / f"{source.name}.cpp", folder / f"{source.name}.so"
    path.write_text(f"{SHIM}\n{source.text}\n{launch}")
    done = subprocess.run(
        [compiler, *FLAGS, "-o", library, path], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, f"{done.stderr}\n{source.text}"
    return ctypes.CDLL(str(library)).launch


def size_of(node: UOp, scalars: dict[UOp, Any]) -> int:
    return int(evaluate([node], scalars)[0])


@pytest.fixture(scope="session")
def run_cuda(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    """Run the body of a kernel as CUDA text."""

    def run(source: CudaSource, arrays: list[Array], *scalars: float) -> list[Array]:
        function = load(source, tmp_path_factory.mktemp("cuda"))
        given = dict(zip(source.params[len(arrays) :], scalars, strict=True))
        memory = [np.concatenate([a, np.full(FENCE, 77, a.dtype)]) for a in arrays]
        numbers = [np.array(value, param.dtype.numpy) for param, value in given.items()]
        addresses = [a.ctypes.data for a in (*memory, *numbers)]
        grid = [size_of(n, given) for n in source.grid]
        function(
            (ctypes.c_uint * 3)(*grid),
            (ctypes.c_uint * 3)(*source.block),
            (ctypes.c_void_p * len(addresses))(*addresses),
        )
        assert all((m[len(m) - FENCE :] == m.dtype.type(77)).all() for m in memory), source.text
        return [m[: len(m) - FENCE] for m in memory]

    return run


@pytest.fixture(scope="session")
def run_interp() -> Runner:
    """The same on the interpreter."""

    def run(body: UOp, arrays: list[Array], *scalars: float) -> list[Array]:
        params = call_params(body)
        out = [a.copy() for a in arrays]
        memory = dict(zip(params, out, strict=False))
        run_program(body, memory, dict(zip(params[len(out) :], scalars, strict=True)))
        return out

    return run


def assert_same_bits(got: Array, want: Array) -> None:
    """Equal bit for bit; all NaNs are one."""
    if got.dtype.kind == "f":
        nan = np.isnan(got) & np.isnan(want)
        unsigned = f"u{got.itemsize}"
        got, want = np.where(nan, 0, got).view(unsigned), np.where(nan, 0, want).view(unsigned)
    np.testing.assert_array_equal(got, want)


@pytest.fixture(scope="session")
def check(run_cuda: Runner, run_interp: Runner) -> Callable[..., CudaSource]:
    """Assert that a kernel with exact freedoms is the interpreter's, on arrays made for it; gives its text."""

    def run(body: UOp, *scalars: float, seed: int = 0, **options: Any) -> CudaSource:
        source = generate(body, **options)
        random = np.random.default_rng(seed)
        arrays = [filled(p.dtype, p.arg.size, random) for p in source.params if p.arg.size is not None]
        got = run_cuda(source, arrays, *scalars)
        for mine, reference in zip(got, run_interp(body, arrays, *scalars), strict=True):
            assert_same_bits(mine, reference)
        return source

    return run


def filled(dtype: DType, size: int, random: np.random.Generator) -> Array:
    """Elements of a type, of all magnitudes that a kernel should bear."""
    if dtype is dtypes.bool:
        return random.integers(0, 2, size).astype(np.bool_)
    if dtype.is_float:
        return (random.standard_normal(size) * 3).astype(dtype.numpy)
    least = 0 if dtype.min == 0 else -9
    return random.integers(least, 10, size).astype(dtype.numpy)
