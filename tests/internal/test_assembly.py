"""The machine code of the kernels that programs live on has no loop of scalar operations. Week 6.

The default path makes the kernels: tensors, the scheduler, the chosen schedule, the C compiler. What it made
is read back with objdump. In each innermost loop of a kernel, floating-point arithmetic must be that of
vectors: no loop may have scalar operations or calls of the C library and no vector ones. The functions that a
loop calls within the file are part of it.
"""

from __future__ import annotations

import platform
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from uop_codegen_c import Freedoms, build, generate
from uop_codegen_c import settings as c_settings
from uop_ir import UOp, dtypes, installed_models, override
from uop_tensor import Tensor

HERE = Path(__file__).parent
machine_code = runpy.run_path(str(HERE / "machine_code.py"))
plan_bodies: Callable[[Callable[[], Any]], list[UOp]]
plan_bodies = runpy.run_path(str(HERE / "plan_bodies.py"))["plan_bodies"]
pytestmark = [
    pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="reads x86-64 machine code"),
    pytest.mark.skipif(machine_code["OBJDUMP"] is None, reason="no objdump (apt install binutils)"),
]


def all_kernels(works: dict[str, Callable[[], Any]]) -> dict[str, list[UOp]]:
    """The kernels of each work, of which each has some."""
    found = {name: plan_bodies(make) for name, make in works.items()}
    assert [name for name, bodies in found.items() if not bodies] == []
    return found


def found_in(
    works: dict[str, list[UOp]], folder: Path, freedoms: Freedoms | None = None
) -> dict[str, list[list[str]]]:
    """The scalar loops of the kernels of each work that has some."""
    sources = {name: [generate(b, freedoms) for b in bodies] for name, bodies in works.items()}
    flat = {kernel.name: kernel for each in sources.values() for kernel in each}
    with override(c_settings, uop_cache=str(folder)):
        paths = dict(zip(flat, build(list(flat.values())), strict=True))
    codes = {path: machine_code["disassembled"](path) for path in set(paths.values())}
    assert all(name in codes[path] for name, path in paths.items())
    found = {
        name: [loop for k in each for loop in machine_code["scalar_loops"](codes[paths[k.name]], k.name)]
        for name, each in sources.items()
    }
    return {name: loops for name, loops in found.items() if loops}


def some(*shape: int, dtype: Any = np.float32) -> Tensor:
    return Tensor(np.zeros(shape, dtype))


def bf16(*shape: int) -> Tensor:
    return some(*shape).cast(dtypes.bf16).contiguous()


def elementwise(name: str, size: int = 4096) -> Callable[[], Any]:
    return lambda: getattr(some(size), name)().realize()


def product(m: int, k: int, n: int) -> Callable[[], Any]:
    return lambda: (some(m, k) @ some(k, n)).realize()


HOT: dict[str, Callable[[], Any]] = {
    "matmul 64": product(64, 64, 64),
    "matmul 512": product(512, 512, 512),
    "conv 3x3": lambda: some(2, 16, 32, 32).conv2d(some(16, 16, 3, 3), padding=1).realize(),
    "softmax": lambda: some(64, 256).softmax(-1).realize(),
    "softmax of 37": lambda: some(64, 37).softmax(-1).realize(),
    "layer norm": lambda: some(64, 256).layer_norm((256,), some(256), some(256)).realize(),
    "cross entropy": lambda: some(64, 128).cross_entropy(some(64, dtype=np.int32)).realize(),
    "sum of the last axis": lambda: some(64, 259).sum(-1).realize(),
    "sum of the first axis": lambda: some(64, 256).sum(0).realize(),
    "sum of all": lambda: some(64, 256).sum().realize(),
    "bf16": lambda: (bf16(4096) * bf16(4096) + 1.0).realize(),
    "f16": lambda: (some(4096, dtype=np.float16) * some(4096, dtype=np.float16) + 1.0).realize(),
    **{name: elementwise(name) for name in ("exp", "log", "sin", "tanh", "erf", "gelu")},
}
FUNCTIONS = (
    *("exp2", "log2", "cos", "tan", "sigmoid", "relu", "silu", "softplus", "mish", "elu"),
    *("log1p", "expm1", "sinh", "cosh", "asinh", "acosh", "atanh", "asin", "acos", "atan"),
    *("sqrt", "rsqrt", "reciprocal", "abs", "square", "log10", "erfc", "erfinv"),
)
MORE: dict[str, Callable[[], Any]] = {
    **{f"matmul {n}": product(n, n, n) for n in (96, 128, 256, 320)},
    **{f"matmul {m}x{k}x{n}": product(m, k, n) for m, k, n in ((65, 67, 70), (512, 10, 512), (16, 512, 16))},
    "product with the transposed": lambda: (some(128, 784) @ some(128, 784).T).realize(),
    "product of the transposed": lambda: (some(128, 64).T @ some(128, 96)).realize(),
    "products": lambda: (some(8, 64, 64) @ some(8, 64, 64)).realize(),
    "matrix and vector": lambda: (some(512, 512) @ some(512)).realize(),
    "vector and matrix": lambda: (some(512) @ some(512, 512)).realize(),
    "conv of one channel": lambda: some(32, 1, 28, 28).conv2d(some(32, 1, 3, 3)).realize(),
    "conv of stride 2": lambda: some(2, 16, 32, 32).conv2d(some(16, 16, 3, 3), stride=2).realize(),
    "conv by channel": lambda: some(2, 16, 32, 32).conv2d(some(16, 1, 3, 3), groups=16).realize(),
    "attention": lambda: (
        some(1, 2, 64, 16).scaled_dot_product_attention(some(1, 2, 64, 16), some(1, 2, 64, 16)).realize()
    ),
    "RMS norm": lambda: some(64, 256).rms_norm((256,), some(256)).realize(),
    "log softmax": lambda: some(64, 256).log_softmax(-1).realize(),
    "softmax of the first axis": lambda: some(100, 64).softmax(0).realize(),
    "maximum": lambda: some(64, 259).max(-1).realize(),
    "variance": lambda: some(64, 70).var(-1).realize(),
    "mean of products": lambda: (some(64, 256) * some(64, 256)).mean().realize(),
    "bf16 product": lambda: (bf16(64, 64) @ bf16(64, 64)).realize(),
    "f16 exp": lambda: some(1001, dtype=np.float16).exp().realize(),
    "f64 exp": lambda: some(1001, dtype=np.float64).exp().realize(),
    **{name: elementwise(name, 1001) for name in FUNCTIONS},
}
#: Those of them whose text would be too long in vectors, of 1001 elements (docs/limits.md).
LONG = {"tan", "erfinv"}
#: A step of training: options that make it small, and what those of its kernels store that have a scalar loop
#: (docs/limits.md): the loss, of what the labels pick, and the gradients of the three inputs of an attention,
#: put side by side, of which that of the keys is transposed.
MODELS: dict[str, tuple[list[str], set[str]]] = {
    "mlp": ([], {"f32[]"}),
    "gpt": (["--batch", "8"], {"f32[]", "f32[3, 8, 4, 64, 16]"}),
}


def test_hot_kernels_have_no_scalar_loop(tmp_path: Path) -> None:
    assert found_in(all_kernels(HOT), tmp_path) == {}


@pytest.mark.slow
def test_nor_have_others_but_for_long_functions(tmp_path: Path) -> None:
    assert found_in(all_kernels(MORE), tmp_path).keys() == LONG


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_a_step_of_training_has_few(model: str, tmp_path: Path) -> None:
    options, left = MODELS[model]
    step = installed_models()[model].load()
    bodies = {str(number): body for number, body in enumerate(plan_bodies(lambda: step(options, model)))}
    found = found_in({number: [body] for number, body in bodies.items()}, tmp_path)
    values = [store.src[1] for number in found for store in bodies[number].src]
    assert {f"{value.dtype}{list(value.shape)}" for value in values} == left


def test_without_the_optimizer_there_are_some(tmp_path: Path) -> None:
    plain = Freedoms(optimize=False, contract=False, reassociate=False)
    names = ("softmax", "sum of all", "matmul 64")
    found = found_in(all_kernels({name: HOT[name] for name in names}), tmp_path, plain)
    assert set(found) == set(names)
    assert any("addss" in op for loop in found["sum of all"] for op in loop)


LISTING = """
0000000000001000 <k>:
    1000:\tpush   rbp
    1001:\tvaddss xmm0,xmm0,xmm1
    1005:\tvaddps ymm0,ymm0,YMMWORD PTR [rax]
    1009:\tjne    1005 <k+0x5>
    100b:\tja     1020 <k+0x20>
    100d:\tadd    rax,0x4
    1011:\tjne    1001 <k+0x1>
    1013:\tmulsd  xmm0,xmm0
    1017:\tcall   1040 <helper>
    101a:\tjne    1013 <k+0x13>
    101c:\tjmp    1030 <k+0x30>
    101e:\tret
    1020:\tvmulss xmm0,xmm0,xmm0
    1024:\tjmp    100d <k+0xd>
    1028:\tdivss  xmm0,xmm1
    102c:\tje     101e <k+0x1e>
    1030:\tjp     1028 <k+0x28>
    1034:\tjmp    1028 <k+0x28>

0000000000001040 <helper>:
    1040:\tcall   900 <expf@plt>
    1044:\tret
"""


def test_loops_are_found_in_a_listing() -> None:
    """One in another, with a part behind the function, one that calls, one that is entered in the middle."""
    code = machine_code["code_of"](LISTING)
    loops = sorted([i.at for i in loop] for loop in machine_code["innermost_loops"](code["k"]))
    assert loops == [[0x1005, 0x1009], [0x1013, 0x1017, 0x101A], [0x1028, 0x102C, 0x1030, 0x1034]]
    found = sorted(sorted(op.split()[0] for op in loop) for loop in machine_code["scalar_loops"](code, "k"))
    assert found == [["call", "mulsd"], ["divss"]]
