"""Kernels for machines with other vectors than this one's:
any C compiler makes them of the instructions it has.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import pytest

from uop_codegen_c import Freedoms, Schedule, generate, optimize, stages
from uop_codegen_c.compiler import WARNINGS
from uop_codegen_c.machine import Machine
from uop_codegen_c.tile_shape import best_tile
from uop_ir import DType, Ops, UOp, call_params, dtypes

MACHINES = [Machine(16, 16, 1), Machine(16, 32, 2), Machine(32, 16, 2), Machine(64, 32, 2)]
F32, F64, F16 = dtypes.f32, dtypes.f64, dtypes.f16


def param(slot: int, shape: tuple[int, ...], dtype: DType = F32) -> UOp:
    return UOp.param(slot, prod(shape), dtype).reshape(shape)


def kernel(value: UOp) -> UOp:
    return UOp.sink(param(0, value.shape, value.dtype).store(value))  # type: ignore[arg-type]  # sizes are ints


def spread(rows: UOp, n: int) -> UOp:
    return rows.reshape((*rows.shape, 1)).expand((*rows.shape, n))


def matmul(a: UOp, b: UOp) -> UOp:
    (n, k), (_, m) = a.shape, b.shape
    shape = (n, m, k)
    left = a.reshape((n, 1, k)).expand(shape)
    return (left * b.permute((1, 0)).reshape((1, m, k)).expand(shape)).reduce(Ops.ADD, 1)


def convolution(image: UOp, filters: UOp) -> UOp:
    """A 3x3 convolution with a border of zeros: shifted images side by side, then a product."""
    channels, height, width = image.shape
    assert isinstance(height, int) and isinstance(width, int)  # noqa: PT018  # for mypy
    padded = image.pad(((0, 0), (1, 1), (1, 1)))
    moved = [
        padded.shrink(((0, channels), (dy, dy + height), (dx, dx + width)))
        for dy in range(3)
        for dx in range(3)
    ]
    columns = UOp(Ops.STACK, moved).permute((1, 0, 2, 3)).reshape((9 * int(channels), height * width))  # type: ignore[arg-type]
    return matmul(filters, columns)


def softmax(x: UOp) -> UOp:
    n = int(x.shape[1])  # type: ignore[arg-type]  # sizes are ints
    e = (x - spread(x.reduce(Ops.MAX, 1), n)).alu(Ops.EXP2)
    return e / spread(e.reduce(Ops.ADD, 1), n)


def long_expression(x: UOp) -> UOp:
    """Integers again; so long that not many copies of it have room."""
    for _ in range(6):
        x = (x < 0.0).where(x * 3.0 - 1.0, (x > 1.0).where(2.0 - x, x + 1.0)).alu(Ops.TRUNC)
    return x


KERNELS: dict[str, UOp] = {
    "matmul": kernel(matmul(param(1, (24, 33)), param(2, (33, 70)))),
    "matmul of a transpose": kernel(matmul(param(1, (24, 33)), param(2, (70, 33)).permute((1, 0)))),
    "matmul in f64": kernel(matmul(param(1, (12, 7), F64), param(2, (7, 40), F64))),
    "matmul in f16": kernel(matmul(param(1, (12, 7), F16).cast(F32), param(2, (7, 40), F16).cast(F32)).cast(F16)),
    "padded on both sides": kernel(param(1, (3, 61)).pad(((1, 1), (2, 3))) * 2.0),
    "windows of a padded image": kernel(
        param(1, (5, 64)).pad(((1, 1), (1, 1))).shrink(((0, 5), (0, 64)))
        + param(1, (5, 64)).pad(((1, 1), (1, 1))).shrink(((2, 7), (2, 66)))
    ),
    "packed": kernel(matmul(param(1, (67, 65)), param(2, (65, 77)))),
    "packed whole, a long expression behind": kernel(long_expression(matmul(param(1, (66, 64)), param(2, (64, 96))))),
    "packed, a long expression behind": kernel(long_expression(matmul(param(1, (49, 65)), param(2, (65, 77))))),
    "packed from a transpose": kernel(matmul(param(1, (50, 100)), param(2, (45, 100)).permute((1, 0)))),
    "convolution": kernel(convolution(param(1, (2, 6, 32)), param(2, (12, 18)))),
    "softmax": kernel(softmax(param(1, (3, 100)))),
    "sum": kernel(param(1, (3, 1001)).reduce(Ops.ADD, 1)),
    "two types": kernel((param(1, (3, 64)).cast(F64) * param(2, (3, 64), F64)).pad(((0, 0), (1, 3)))),
    "choice": kernel((param(1, (64,), dtypes.i8) < param(2, (64,), dtypes.i8)).where(param(3, (64,)), 0.0)),
}  # fmt: skip


@pytest.mark.net
@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: f"{m.vector_bytes}x{m.registers}")
@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_for_another_machine(
    run_cpu: Callable[..., Any],
    run_interp: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    machine: Machine,
) -> None:
    """Against the interpreter, in a type in which what is added is exact, or nearly."""
    monkeypatch.setattr(optimize, "this_machine", lambda: machine)
    rng = np.random.default_rng(0)
    body = KERNELS[name]
    given = [rng.integers(-4, 4, p.arg.size).astype(p.dtype.numpy) for p in call_params(body)]
    assert generate(body).text
    got, want = run_cpu(body, given)[0], run_interp(body, given)[0]
    if name == "softmax":
        np.testing.assert_allclose(got, want, rtol=1e-6)
    else:
        np.testing.assert_array_equal(got, want)


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="names CPUs of x86")
@pytest.mark.parametrize("compiler", [name for name in ("gcc", "clang", "clang-14") if shutil.which(name)])
@pytest.mark.parametrize(
    ("cpu", "width", "registers"), [("x86-64", 16, 16), ("haswell", 32, 16), ("skylake-avx512", 64, 32)]
)
def test_no_compiler_warns_where_the_instructions_are_there(
    compiler: str, cpu: str, width: int, registers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text asks the preprocessor for them: what this CPU lacks is not even read when kernels run here."""
    monkeypatch.setattr(optimize, "this_machine", lambda: Machine(width, registers, 1))
    command = [
        compiler,
        "-std=c17",
        "-Wno-psabi",
        *WARNINGS,
        f"-march={cpu}",
        "-fsyntax-only",
        "-x",
        "c",
        "-",
    ]
    for name, body in KERNELS.items():
        made = generate(body)
        said = subprocess.run(
            command, input=made.preamble + made.text, text=True, capture_output=True, check=False
        )
        assert not said.stderr, (name, said.stderr)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: f"{m.vector_bytes}x{m.registers}")
@pytest.mark.parametrize("name", KERNELS)
def test_the_schedule_that_is_chosen_is_legal(name: str, machine: Machine) -> None:
    """The optimizer applies its actions unchecked; checked one by one they give the same program."""
    root = next(root for name, root in stages(KERNELS[name]) if name == "bounds")
    schedule, chosen = optimize.choose(root, Freedoms(), machine)
    assert Schedule.parse(str(schedule)).apply(root, Freedoms()) is chosen


@pytest.mark.parametrize(
    ("shape", "tile"),
    [((1024, 1024, 16), (6, 2)), ((512, 512, 16), (6, 2)), ((2, 512, 16), (2, 4)), ((1, 512, 16), (1, 4))],
)
def test_a_tile_fits_the_registers_and_hides_the_latency(
    shape: tuple[int, int, int], tile: tuple[int, int]
) -> None:
    height, width, registers = shape
    assert best_tile(height, width, 8, registers, lambda rows, vectors: True) == tile


def test_a_large_product_packs_what_all_rows_read(run_cpu: Callable[..., Any]) -> None:
    """Pieces of 16 columns, tiles of 6 rows; 4 rows and 9 columns are left, tiles of their own."""
    rows, columns, inner = 100, 41, 130
    body = kernel(matmul(param(1, (rows, inner)), param(2, (inner, columns))))
    root = next(root for name, root in stages(body) if name == "bounds")
    schedule, _ = optimize.choose(root, Freedoms(), Machine(32, 16, 2))
    text = str(schedule)
    assert text.startswith("reorder (1, 0); split 1 16 loop; reorder (3, 0, 4); stage 2 (2, 4)")
    assert text.count("stage") == 1
    assert "retype 3 thread" in text
    rng = np.random.default_rng(0)
    x, w = rng.integers(-4, 4, (rows, inner)), rng.integers(-4, 4, (inner, columns))
    given = [np.zeros(rows * columns), x.reshape(-1), w.reshape(-1)]
    got = run_cpu(body, [a.astype(np.float32) for a in given])[0]
    np.testing.assert_array_equal(got.reshape(rows, columns), x @ w)


def test_a_product_with_much_behind_it_holds_its_sums() -> None:
    """A tile of 6 rows and 2 vectors all the same,
    and the expression stands once; pieces lie within the rows.
    """
    root = next(
        root for name, root in stages(KERNELS["packed whole, a long expression behind"]) if name == "bounds"
    )
    schedule, _ = optimize.choose(root, Freedoms(), Machine(32, 16, 2))
    text = str(schedule)
    assert text.startswith("split 1 16 loop; stage 2 (3, 2, 4)")
    assert "split 0 6 loop; reorder (10, 3, 11, 4)" in text
    assert "hold 2 (11, 4); retype 12 upcast; retype 13 upcast; split 13 8 vector; split 4 8 vector" in text
    assert text.endswith("retype 10 thread")


def test_rows_of_a_tile_share_the_vectors_that_are_loaded() -> None:
    """Of a convolution of 1 x 1: the image moves along y and x,
    so a tile is of outputs and x, not of y and x.
    """
    outputs, channels, height, width = 12, 6, 8, 16
    shape = (outputs, height, width, channels)
    image = param(1, (channels, height, width)).permute((1, 2, 0)).reshape((1, height, width, channels))
    filters = param(2, (outputs, channels)).reshape((outputs, 1, 1, channels))
    body = kernel((image.expand(shape) * filters.expand(shape)).reduce(Ops.ADD, 1))
    root = next(root for name, root in stages(body) if name == "bounds")
    schedule, _ = optimize.choose(root, Freedoms(), Machine(32, 16, 1))
    assert "split 0 6 upcast" in str(schedule)


@pytest.mark.parametrize(("machine", "lanes"), [(Machine(16, 16, 1), 4), (Machine(64, 32, 1), 16)])
def test_the_machine_that_is_given_counts(machine: Machine, lanes: int) -> None:
    text = generate(kernel(param(1, (64,)) * 2.0), machine=machine).text
    assert f"broadcast_f32x{lanes}(" in text
