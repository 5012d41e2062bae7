"""NVRTC: what it makes of a text, what it is told, and what is said where it is missing."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from importlib.metadata import files
from pathlib import Path

import pytest

from uop_codegen_c import Freedoms
from uop_codegen_cuda import compile_cubin, generate
from uop_ir import BackendError, DType, Ops, UOp, dtypes

needs_nvrtc = pytest.mark.skipif(
    importlib.util.find_spec("cuda") is None, reason='no NVRTC: pip install "uop-codegen-cuda[cuda]"'
)
KERNEL = 'extern "C" __global__ void kernel(float *x, float a, float b) { %s }'


def instructions(code: bytes, folder: Path) -> set[str]:
    """The names of a cubin's instructions, as nvdisasm says them."""
    found = [f for f in files("nvidia-cuda-nvdisasm") or () if f.name == "nvdisasm"]
    path = folder / "kernel.cubin"
    path.write_bytes(code)
    text = subprocess.run([found[0].locate(), path], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"^\s+/\*[0-9a-f]+\*/\s+(?:@!?\w+ )?(\w+)", text, re.MULTILINE))


@needs_nvrtc
def test_a_product_and_a_sum_are_fused_only_where_the_text_says_so(tmp_path: Path) -> None:
    apart = instructions(compile_cubin(KERNEL % "x[0] = a * b + x[1];").code, tmp_path)
    fused = instructions(compile_cubin(KERNEL % "x[0] = fmaf(a, b, x[1]);").code, tmp_path)
    assert {"FMUL", "FADD"} <= apart
    assert "FFMA" not in apart
    assert "FFMA" in fused


@needs_nvrtc
def test_what_the_assembler_says(tmp_path: Path) -> None:
    cubin = compile_cubin(KERNEL % "__shared__ float y[32]; y[threadIdx.x] = a; x[0] = y[threadIdx.x ^ 1];")
    assert cubin.shared == 128
    assert cubin.registers > 0
    assert "STS" in instructions(cubin.code, tmp_path)


@needs_nvrtc
@pytest.mark.parametrize(
    "dtype", [t for t in dtypes.all if t.is_int or t in (dtypes.f32, dtypes.f64)], ids=str
)
def test_every_type_compiles(dtype: DType) -> None:
    x, y = UOp.param(1, 300, dtype), UOp.param(2, 300, dtype)
    value = x
    for op in (Ops.ADD, Ops.SUB, Ops.MUL, Ops.MAX, Ops.DIV, Ops.MOD):
        value = value.alu(op, y)
    if dtype.is_float:
        value = value.alu(Ops.SQRT).alu(Ops.TRUNC).alu(Ops.SIN).cast(dtypes.i64).cast(dtype) + float("-inf")
    else:
        value = (value ^ x).cast(dtypes.f64).cast(dtype) + dtype.min
    cubin = compile_cubin(
        generate(UOp.sink(UOp.param(0, 300, dtype).store((value < y).where(value, y)))).text
    )
    assert "warning" not in cubin.log


@needs_nvrtc
@pytest.mark.parametrize("dtype", [*dtypes.ints, *dtypes.floats], ids=str)
def test_a_reduction_that_warps_share(dtype: DType, tmp_path: Path) -> None:
    """Lanes exchange values of any type, and the block has a barrier."""
    x = UOp.param(1, 900, dtype).reshape((3, 300))
    cubin = compile_cubin(generate(UOp.sink(UOp.param(0, 3, dtype).store(x.reduce(Ops.MAX, 1)))).text)
    assert {"SHFL", "BAR"} <= instructions(cubin.code, tmp_path)
    assert cubin.spills == 0
    assert "warning" not in cubin.log


@needs_nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize(
    ("dtype", "total", "name"),
    [
        (dtypes.f16, dtypes.f32, "HMMA"),
        (dtypes.bf16, dtypes.f32, "HMMA"),
        (dtypes.i8, dtypes.i32, "IMMA"),
    ],
)
def test_a_product_on_tensor_cores(dtype: DType, total: DType, name: str, arch: str, tmp_path: Path) -> None:
    a, b = (
        UOp.param(slot, 64 * 64, dtype).reshape(shape) for slot, shape in ((1, (64, 1, 64)), (2, (64, 64)))
    )
    value = (a.cast(total) * b.permute((1, 0)).reshape((1, 64, 64)).cast(total)).reduce(Ops.ADD, 1)
    body = UOp.sink(UOp.param(0, 64 * 64, total).reshape((64, 64)).store(value))
    cubin = compile_cubin(generate(body).text, arch)
    found = instructions(cubin.code, tmp_path)
    assert {name, "LDS", "STS"} <= found
    assert not {"LDL", "STL", "FMUL", "FFMA"} & found
    assert (cubin.spills, "warning" in cubin.log) == (0, False)


@needs_nvrtc
def test_a_text_that_is_refused() -> None:
    with pytest.raises(
        BackendError, match=r'NVRTC refuses the kernel: .*\(1\): error: identifier "nope"'
    ) as info:
        compile_cubin(KERNEL % "x[0] = nope;")
    assert info.value.exit_code == 5
    assert "\n" not in str(info.value)


def test_an_unknown_architecture() -> None:
    with pytest.raises(BackendError, match="no architecture 'sm_10'"):
        compile_cubin("", "sm_10")


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cuda", "cuda.core", "cuda.bindings"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(BackendError, match=r'pip install "uop-codegen-cuda\[cuda\]"'):
        compile_cubin("")


def test_freedoms_reach_the_text() -> None:
    x = UOp.param(1, 128, dtypes.f32).reshape((2, 64))
    body = UOp.sink(UOp.param(0, 2, dtypes.f32).store((x * x).reduce(Ops.ADD, 1)))
    assert "fmaf(" in generate(body).text
    assert "fmaf(" not in generate(body, Freedoms(contract=False)).text
