"""Each instruction of a tensor core: its layout by the PTX manual, and what the emulator makes of it."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from uop_codegen_cuda import CudaSource, compile_cubin, emulate
from uop_codegen_cuda.dialect import CUDA, prelude
from uop_codegen_cuda.instructions import ELEMENT, INSTRUCTIONS, Instruction, Layout, helper, typedef
from uop_ir import DType, UOp, dtypes, index

Array = npt.NDArray[Any]
Place = Callable[[int, int, int], tuple[int, int]]
#: The row and the column of element i of the lane q of its group g, by the manual's formulas (PTX ISA, Matrix
#: Fragments for mma.m16n8k16, .m16n8k8 and .m16n8k32).
SUMS: Place = lambda g, q, i: (g if i < 2 else g + 8, q * 2 + (i & 1))
MANUAL: dict[str, tuple[Place, Place]] = {
    "m16n8k16": (
        lambda g, q, i: (g if i // 2 % 2 == 0 else g + 8, q * 2 + (i & 1) + (8 if i >= 4 else 0)),
        lambda g, q, i: (q * 2 + (i & 1) + (8 if i >= 2 else 0), g),
    ),
    "m16n8k8": (
        lambda g, q, i: (g if i in (0, 2) else g + 8, q if i in (0, 1) else q + 4),
        lambda g, q, i: (q if i == 0 else q + 4, g),
    ),
    "m16n8k32": (
        lambda g, q, i: (g if i < 4 or 8 <= i < 12 else g + 8, q * 4 + (i & 3) + (16 if i >= 8 else 0)),
        lambda g, q, i: (q * 4 + (i & 3) + (16 if i >= 4 else 0), g),
    ),
}


def elements(layout: Layout) -> list[tuple[int, int]]:
    """Lane after lane, the row and the column of each of its elements."""
    return [layout.place(lane, element) for lane in range(32) for element in range(layout.elements)]


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_each_lane_has_the_elements_of_the_manual(name: str) -> None:
    row = INSTRUCTIONS[name]
    m, n, k = row.shape
    for layout, place, shape in zip(
        (row.a, row.b, row.c), (*MANUAL[row.size], SUMS), ((m, k), (k, n), (m, n)), strict=True
    ):
        wanted = [place(lane // 4, lane % 4, i) for lane in range(32) for i in range(layout.elements)]
        assert elements(layout) == wanted
        assert sorted(wanted) == list(np.ndindex(shape))


TILES = 256
TEXT = """extern "C" __global__ void {name}_tiles({c_type} *c, const {type} *a, const {type} *b, const int *at) {{
    const int lane = threadIdx.x, tile = blockIdx.x;
    {c_vector} sum = {c_vector}({sums});
    sum = {name}({a_vector}({a}), {b_vector}({b}), sum);
{stores}
}}
"""


def kernel(row: Instruction) -> CudaSource:
    """c += a @ b, a tile a warp: each lane has the elements that the table says, whose places are in `at`."""
    m, n, k = row.shape
    texts, first = {}, 0
    for name, layout, size in (("a", row.a, m * k), ("b", row.b, k * n), ("c", row.c, m * n)):
        count = layout.elements
        texts[name] = [f"{name}[tile * {size} + at[{first} + lane * {count} + {e}]]" for e in range(count)]
        first += 32 * count
    vectors = {
        x: (t, len(texts[x])) for x, t in zip("abc", (row.operand, row.operand, row.accumulator), strict=True)
    }
    helpers = [*(typedef(*v) for v in dict.fromkeys(vectors.values())), helper(row.name)[1]]
    definitions = (prelude("\n".join(helpers)), *map(CUDA.spell, helpers))
    text = TEXT.format(
        name=row.name,
        type=ELEMENT[row.operand],
        c_type=ELEMENT[row.accumulator],
        **{f"{x}_vector": f"{t.name}x{lanes}" for x, (t, lanes) in vectors.items()},
        a=", ".join(texts["a"]),
        b=", ".join(texts["b"]),
        sums=", ".join(texts["c"]),
        stores="\n".join(f"    {place} = sum[{e}];" for e, place in enumerate(texts["c"])),
    )
    params = (
        UOp.param(0, TILES * m * n, row.accumulator),
        UOp.param(1, TILES * m * k, row.operand),
        UOp.param(2, TILES * k * n, row.operand),
        UOp.param(3, first, dtypes.i32),
    )
    whole = "\n\n".join([*definitions, text])
    grid = (index(TILES), index(1), index(1))
    return CudaSource(f"{row.name}_tiles", whole, params, grid, (32, 1, 1), definitions)


def places(row: Instruction) -> Array:
    """Where each element of each lane lies in the tiles of a, b and c, row-major."""
    _, n, k = row.shape
    layouts = ((row.a, k), (row.b, n), (row.c, n))
    return np.array([r * width + c for layout, width in layouts for r, c in elements(layout)], np.int32)


@pytest.fixture(scope="module")
def multiply() -> Callable[[Instruction, Array, Array, Array], Array]:
    """c + a @ b of tiles on the emulator, of shapes (TILES, m, k) and (TILES, k, n)."""
    if shutil.which("g++") is None:
        pytest.skip("no g++ to compile CUDA text with (apt install g++)")
    compiled = dict(zip(INSTRUCTIONS, emulate([kernel(row) for row in INSTRUCTIONS.values()]), strict=True))

    def run(row: Instruction, a: Array, b: Array, c: Array) -> Array:
        out = np.array(c, row.accumulator.numpy)
        given = [out, np.array(a, row.operand.numpy), np.array(b, row.operand.numpy), places(row)]
        compiled[row.name]([x.ctypes.data for x in given], {})
        return out

    return run


Multiply = Callable[[Instruction, Array, Array, Array], Array]


@pytest.mark.skipif(
    importlib.util.find_spec("cuda") is None, reason='no NVRTC: pip install "uop-codegen-cuda[cuda]"'
)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_each_row_is_an_instruction_of_the_device(name: str, arch: str) -> None:
    cubin = compile_cubin(kernel(INSTRUCTIONS[name]).text, arch)
    assert (cubin.spills, "warning" in cubin.log) == (0, False)


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_each_element_is_numpys(name: str, multiply: Multiply) -> None:
    row = INSTRUCTIONS[name]
    m, n, k = row.shape
    random = np.random.default_rng(0)
    low, high = (-128, 128) if row.operand is dtypes.i8 else (-99, 100)
    a, b, c = (random.integers(low, high, (TILES, *shape)) for shape in ((m, k), (k, n), (m, n)))
    np.testing.assert_array_equal(multiply(row, a, b, c), a @ b + c)


def test_sums_of_integers_wrap(multiply: Multiply) -> None:
    row = INSTRUCTIONS["mma_m16n8k32_s8"]
    ones, most = np.ones((TILES, 32, 8)), np.full((TILES, 16, 8), 2**31 - 1)
    got = multiply(row, np.ones((TILES, 16, 32)), ones, most)
    assert (got == np.int32(-(2**31) + 31)).all()


@pytest.mark.parametrize("dtype", [dtypes.f16, dtypes.bf16], ids=str)
def test_every_value_of_a_narrow_float_is_itself(dtype: DType, multiply: Multiply) -> None:
    """What stands in the first column of a, times a row of ones."""
    row = next(r for r in INSTRUCTIONS.values() if r.operand is dtype)
    values = np.arange(2**16, dtype=np.uint16).view(dtype.numpy).reshape(-1, TILES, 16)
    a, b, c = np.zeros((TILES, 16, 16), dtype.numpy), np.zeros((TILES, 16, 8)), np.zeros((TILES, 16, 8))
    b[:, 0] = 1
    for part in values:
        a[:, :, 0] = part
        with np.errstate(invalid="ignore"):  # of signalling NaNs
            wanted = part.astype(np.float32)
        np.testing.assert_array_equal(multiply(row, a, b, c), np.repeat(wanted[:, :, None], 8, 2))


def test_tf32_has_ten_bits_of_the_fraction(multiply: Multiply) -> None:
    row = INSTRUCTIONS["mma_m16n8k8_tf32"]
    a, b = np.zeros((TILES, 16, 8), np.float32), np.zeros((TILES, 8, 8), np.float32)
    a[..., 0], b[:, 0] = 1 + 2**-10 + 2**-11, 1
    assert (multiply(row, a, b, np.zeros((TILES, 16, 8))) == 1 + 2**-10).all()
