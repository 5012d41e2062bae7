"""Reductions that threads share: values against NumPy,
and what the checker says of their shuffles and barriers.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from uop_codegen_c import Freedoms, Schedule, ScheduleError
from uop_codegen_cuda import (
    CudaSource,
    EmuKernel,
    check_kernel,
    chosen_schedule,
    emulate,
    generate,
    settings,
)
from uop_ir import DType, Ops, UOp, dtypes, override
from uop_ir import settings as ir_settings

Array = npt.NDArray[Any]
Check = Callable[..., CudaSource]
EXACT = Freedoms(contract=False, reassociate=False)
ORDERS = ("ascending", "descending", "random")
needs_gxx = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ (apt install g++)")
#: What one rounding to a narrow float may be off, relatively.
ROUNDING = {dtypes.f16: 2.0**-11, dtypes.bf16: 2.0**-8}
LENGTHS = (1, 31, 32, 33, 1000, 5000)
FOLDS: dict[str, tuple[Callable[[UOp], UOp], Callable[[Array], Array]]] = {
    "sum": (lambda x: x.reduce(Ops.ADD, 1), lambda x: x.sum(-1)),
    "prod": (lambda x: x.reduce(Ops.MUL, 1), lambda x: x.prod(-1)),
    "max": (lambda x: x.reduce(Ops.MAX, 1), lambda x: x.max(-1)),
    "min": (lambda x: -((-x).reduce(Ops.MAX, 1)), lambda x: x.min(-1)),
}


def memory(slot: int, *shape: int, dtype: DType = dtypes.f32) -> UOp:
    return UOp.param(slot, prod(shape), dtype).reshape(shape)


def places(x: UOp, rows: Sequence[int], length: int) -> UOp:
    """A value of each row, in each of its places."""
    return x.reshape((*rows, 1)).expand((*rows, length))


def compiled(bodies: Sequence[UOp]) -> list[EmuKernel]:
    """Kernels, compiled together."""
    with override(ir_settings, check=1):
        return emulate([generate(body) for body in bodies])


def stored(kernel: EmuKernel, inputs: Sequence[Array], order: str = "random") -> Array:
    """What a kernel stores to its first argument."""
    first = np.zeros(kernel.source.params[0].arg.size, kernel.source.params[0].dtype.numpy)
    with override(settings, emu_order=order):
        kernel([first.ctypes.data, *(a.ctypes.data for a in inputs)], {})
    return first


def filled(source: CudaSource) -> list[Array]:
    random = np.random.default_rng(1)
    return [random.integers(-9, 10, p.arg.size).astype(p.dtype.numpy) for p in source.params]


# values


@pytest.mark.net
@needs_gxx
@pytest.mark.parametrize("rows", [(3,), (2, 5)], ids=str)
def test_rows_of_any_length(rows: tuple[int, ...]) -> None:
    """Sums and products within a bound of those in f64,
    which each order of the terms keeps; the others exactly.
    """
    cases = [(n, name) for n in LENGTHS for name in FOLDS]
    random = np.random.default_rng(0)
    inputs = [(1 + 0.01 * random.standard_normal((*rows, n))).astype(np.float32) for n, _ in cases]
    bodies = [UOp.sink(memory(0, *rows).store(FOLDS[name][0](memory(1, *rows, n)))) for n, name in cases]
    for x, (n, name), kernel in zip(inputs, cases, compiled(bodies), strict=True):
        wanted = FOLDS[name][1](x.astype(np.float64)).reshape(-1)
        got = stored(kernel, [x])
        if name in ("max", "min"):
            np.testing.assert_array_equal(got, wanted)
            continue
        scale = abs(x.astype(np.float64)).sum(-1).reshape(-1) if name == "sum" else abs(wanted)
        assert (abs(got - wanted) <= n * np.finfo(np.float32).eps * scale).all(), (n, name)


@needs_gxx
@pytest.mark.parametrize("name", FOLDS)
def test_every_type(name: str) -> None:
    """Integers wrap as in NumPy; sums of narrow floats are sums in f32, rounded once."""
    random = np.random.default_rng(2)
    # of what is unsigned, the least is not the negative of a greatest
    types = [*dtypes.floats] if name == "min" else [*dtypes.floats, *dtypes.ints]
    rows, length = 3, 300
    floats = random.standard_normal((rows, length))
    floats = 1 + floats / 100 if name == "prod" else floats
    whole = random.integers(0, 10, (rows, length))
    inputs = [(floats if t.is_float else whole if t.min == 0 else whole - 5).astype(t.numpy) for t in types]
    bodies = [
        UOp.sink(memory(0, rows, dtype=t).store(FOLDS[name][0](memory(1, rows, length, dtype=t))))
        for t in types
    ]
    for dtype, x, kernel in zip(types, inputs, compiled(bodies), strict=True):
        got = stored(kernel, [x])
        if dtype.is_int or name in ("max", "min"):
            wanted = _wrapped(name, x) if name in WRAPPING else FOLDS[name][1](x)
            np.testing.assert_array_equal(got, wanted, err_msg=str(dtype))
            continue
        wide = x.astype(np.float64)
        wanted = FOLDS[name][1](wide)
        scale = abs(wide).sum(-1) if name == "sum" else abs(wanted)
        inner = np.float64 if dtype is dtypes.f64 else np.float32
        bound = length * np.finfo(inner).eps * scale + ROUNDING.get(dtype, 0.0) * abs(wanted)
        assert (abs(got.astype(np.float64) - wanted) <= bound).all(), str(dtype)


WRAPPING = {"sum": np.add, "prod": np.multiply}


def _wrapped(name: str, x: Array) -> Array:
    return np.asarray(WRAPPING[name].reduce(x, axis=-1, dtype=x.dtype))


def softmax(rows: int, length: int) -> UOp:
    x = memory(1, rows, length)
    e = (x - places(x.reduce(Ops.MAX, 1), (rows,), length)).alu(Ops.EXP2)
    return UOp.sink(memory(0, rows, length).store(e / places(e.reduce(Ops.ADD, 1), (rows,), length)))


def layer_norm(rows: int, length: int) -> UOp:
    """With a weight for each column."""
    x, weight = memory(1, rows, length), memory(2, 1, length).expand((rows, length))
    centered = x - places(x.reduce(Ops.ADD, 1) / float(length), (rows,), length)
    variance = (centered * centered).reduce(Ops.ADD, 1) / float(length)
    root = places((variance + 1e-5).alu(Ops.SQRT), (rows,), length)
    return UOp.sink(memory(0, rows, length).store(centered / root * weight))


def arg_max(rows: int, length: int) -> UOp:
    """The place of the first of the greatest: length less the greatest distance from the end."""
    x = memory(1, rows, length)
    left = UOp(Ops.STACK, [UOp.const(dtypes.i32, length - i) for i in range(length)])
    distance = left.reshape((1, length)).expand((rows, length))
    first = x.eq(places(x.reduce(Ops.MAX, 1), (rows,), length)).where(distance, 0).reduce(Ops.MAX, 1)
    return UOp.sink(memory(0, rows, dtype=dtypes.i32).store(-first + length))


def entropy(rows: int, length: int) -> UOp:
    """The sum over rows of the logarithm of the sum of powers of 2: a reduction within another."""
    x = memory(1, rows, length)
    largest = x.reduce(Ops.MAX, 1)
    powers = (x - places(largest, (rows,), length)).alu(Ops.EXP2).reduce(Ops.ADD, 1)
    return UOp.sink(memory(0, 1).reshape(()).store((powers.alu(Ops.LOG2) + largest).reduce(Ops.ADD, 1)))


def _softmax(x: Array) -> Array:
    e = np.exp2(x - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


def _layer_norm(x: Array, weight: Array) -> Array:
    return np.asarray((x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * weight)


def _entropy(x: Array) -> Array:
    largest = x.max(-1)
    return np.asarray((np.log2(np.exp2(x - largest[:, None]).sum(-1)) + largest).sum())


ROWS: dict[str, tuple[Callable[[int, int], UOp], Callable[..., Array]]] = {
    "softmax": (softmax, _softmax),
    "layer norm": (layer_norm, _layer_norm),
    "arg max": (arg_max, lambda x: np.asarray(x.argmax(-1))),
    "entropy": (entropy, _entropy),
}


@needs_gxx
@pytest.mark.parametrize("name", ROWS)
def test_several_reductions_in_one_kernel(name: str) -> None:
    make, reference = ROWS[name]
    sizes = [(1, 40), (9, 33), (13, 64), (4, 500), (2, 1000)]
    random = np.random.default_rng(3)
    inputs = [[random.standard_normal(s).astype(np.float32)] for s in sizes]
    for arrays, (_, n) in zip(inputs, sizes, strict=True):
        arrays += [random.standard_normal(n).astype(np.float32)] if name == "layer norm" else []
    for kernel, arrays in zip(compiled([make(*s) for s in sizes]), inputs, strict=True):
        assert "__shfl" in kernel.source.text
        wanted = reference(*(a.astype(np.float64) for a in arrays)).reshape(-1)
        for order in ORDERS:
            np.testing.assert_allclose(stored(kernel, arrays, order), wanted, rtol=3e-5, atol=2e-6)


@needs_gxx
@pytest.mark.parametrize("shape", [(70, 1000), (3, 5, 700), (2, 33), (40, 33), (300,)], ids=str)
def test_the_sum_of_everything(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(4).integers(-9, 10, shape).astype(np.float32)
    body = UOp.sink(memory(0, 1).reshape(()).store(memory(1, *shape).reduce(Ops.ADD, len(shape))))
    np.testing.assert_array_equal(stored(compiled([body])[0], [x]), [x.sum(dtype=np.float64)])


@needs_gxx
def test_all_threads_have_the_same_of_zeros_and_nans() -> None:
    """Of 0.0 and -0.0 the greatest is either, but the same in all places of a row;
    a NaN is found wherever it is.
    """
    rows, length = 4, 300
    x = np.random.default_rng(5).choice([0.0, -0.0], (rows, length)).astype(np.float32)
    x[2, 217] = np.nan
    out = memory(0, rows, length)
    body = UOp.sink(out.store(places(memory(1, rows, length).reduce(Ops.MAX, 1), (rows,), length)))
    got = stored(compiled([body])[0], [x]).reshape(rows, length)
    assert np.isnan(got[2]).all()
    for row in (0, 1, 3):
        assert len(set(got[row].view(np.uint32))) == 1
        assert got[row, 0] == 0


# bits


@pytest.mark.parametrize("op", [Ops.ADD, Ops.MUL, Ops.MAX])
@pytest.mark.parametrize("dtype", [dtypes.i32, dtypes.u8, dtypes.i64], ids=str)
def test_integers_are_the_interpreters_in_every_order(op: Ops, dtype: DType, check: Check) -> None:
    """Whose order makes no difference, so that threads share them under STRICT too."""
    x = memory(1, 3, 290, dtype=dtype)
    source = check(UOp.sink(memory(0, 3, dtype=dtype).store(x.reduce(op, 1))), freedoms=EXACT)
    assert "__shfl_down_sync" in source.text


@pytest.mark.parametrize("op", [Ops.ADD, Ops.MUL, Ops.MAX])
def test_floats_whose_order_is_fixed_are_not_shared(op: Ops, check: Check) -> None:
    body = UOp.sink(memory(0, 3).store(memory(1, 3, 290).reduce(op, 1)))
    assert "__shfl" not in check(body, freedoms=EXACT).text
    with pytest.raises(ScheduleError, match="in another order"):
        generate(body, EXACT, schedule=Schedule.parse("pad 1 32; split 1 32 warp"))


def random_rows(random: Random) -> UOp:
    """A few reductions of a matrix of integers in any order of its axes, one made of what another gives."""
    dtype = random.choice((dtypes.i32, dtypes.u8, dtypes.i64))
    shape = (*(random.choice((1, 2, 3, 5, 9, 17)) for _ in range(random.randint(0, 3))),)
    shape = (*shape, random.choice((1, 20, 31, 32, 33, 64, 100, 256, 300)))
    axes = len(shape)
    order = random.sample(range(axes), axes) if random.random() < 0.3 else range(axes)
    x = memory(1, *(shape[list(order).index(axis)] for axis in range(axes)), dtype=dtype).permute(
        tuple(order)
    )
    for _ in range(random.randint(1, 3)):
        last = random.randint(1, min(2, axes))
        folded = x.reduce(random.choice((Ops.ADD, Ops.MAX, Ops.MUL)), last)
        everywhere = folded.reshape((*shape[: axes - last], *[1] * last)).expand(shape)
        x = random.choice((x - everywhere, x * everywhere + x, (x < everywhere).where(x, everywhere)))
    last = random.randint(0, axes - 1)
    value = x.reduce(random.choice((Ops.ADD, Ops.MAX)), last) if last else x
    return UOp.sink(memory(0, *shape[: axes - last], dtype=dtype).store(value))


@pytest.mark.net
@hypothesis_settings(max_examples=max(3, hypothesis_settings().max_examples // 20))
@given(seed=st.integers(0, 2**32))
def test_random_reductions(check: Check, seed: int) -> None:
    """Shared or not, bit for bit in each order, and clean."""
    source = check(random_rows(Random(seed)), freedoms=EXACT, seed=seed)  # noqa: S311  a test's numbers
    assert not check_kernel(source, filled(source)).findings, source.text


# what the checker says

CHECKED = {
    "softmax": softmax(2, 500),
    "a warp a row": softmax(9, 40),
    "layer norm": layer_norm(3, 290),
    "entropy": entropy(9, 70),
    "within a short one": entropy(3, 300),
    "all": UOp.sink(memory(0, 1).reshape(()).store(memory(1, 20, 150).reduce(Ops.ADD, 2))),
}
BARRIER = re.compile(r"^ *__syncthreads\(\);\n", re.MULTILINE)


@needs_gxx
@pytest.mark.parametrize("name", CHECKED)
def test_nothing_is_found_and_no_barrier_is_redundant(name: str) -> None:
    """Without any one of its barriers there is a race."""
    source = generate(CHECKED[name])
    assert not check_kernel(source, filled(source)).findings
    barriers = list(BARRIER.finditer(source.text))
    assert len(barriers) == {"a warp a row": 0, "entropy": 1, "all": 1}.get(name, 2)
    for barrier in barriers:
        text = source.text[: barrier.start()] + source.text[barrier.end() :]
        found = check_kernel(replace(source, text=text), filled(source)).findings
        assert {f.kind for f in found} & {"race", "uninitialised"}, text


@needs_gxx
@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ("__shfl_down_sync(0xffffffffu", "__shfl_down_sync(0xffffu", "mask"),
        ("__shfl_sync(0xffffffffu", "__shfl_sync(0xfffffffeu", "mask"),
        ("float lane1 = lane0 +", "float lane1 = lidx0 > 15 ? lane0 : lane0 +", "barrier"),
        ("    float lane0", "    if (lidx0 == 9) return;\n    float lane0", "mask"),
        ("lane0, 16)", "lane0, 16, 20)", "mask"),
        ("if (lidx0 == 0)", "if (lidx0 < 2)", "race"),
        ("    __syncthreads();\n", "    if (lidx0 == 0) __syncthreads();\n", "barrier"),
    ],
    ids=["mask", "mask of all", "half a warp", "ended", "width", "two lanes store", "barrier for some"],
)
def test_a_planted_bug_is_reported(before: str, after: str, kind: str) -> None:
    source = generate(CHECKED["all"])
    text = re.sub(r"bool (val\d+) = lidx0 == 0;\n    if \(\1\)", "if (lidx0 == 0)", source.text)
    assert before in text, text
    broken = replace(source, text=text.replace(before, after, 1))
    assert kind in {f.kind for f in check_kernel(broken, filled(source)).findings}


@needs_gxx
def test_what_a_softmax_moves() -> None:
    """A row of 512 has 64 sectors: three walks through it, and it is stored. Where a thread computes an
    output alone, each of 16 warps walks through it twice, an element at a time.
    """

    def sectors(source: CudaSource) -> int:
        costs = check_kernel(source, filled(source)).costs
        return sum(c.moved for c in costs if c.space == "global")

    body = softmax(2, 512)
    assert sectors(generate(body)) == 2 * 64 * 4
    alone = "retype 0 global; split 1 256 local; retype 4 global; reorder (0, 4, 5)"
    assert sectors(generate(body, schedule=Schedule.parse(alone))) == 2 * (16 * 512 * 2 + 64 * 2)


# the mapping


@pytest.mark.parametrize(
    ("body", "grid", "block"),
    [
        (softmax(128, 1000), (128, 1, 1), (32, 4, 1)),
        (softmax(128, 5000), (128, 1, 1), (32, 8, 1)),
        (softmax(1, 5000), (1, 1, 1), (32, 32, 1)),
        (softmax(64, 50), (8, 1, 1), (32, 8, 1)),
        (softmax(5, 50), (1, 1, 1), (32, 5, 1)),
        (softmax(70000, 256), (70000, 1, 1), (32, 2, 1)),
        (UOp.sink(memory(0, 2, 70000).store(memory(1, 2, 70000, 256).reduce(Ops.ADD, 1))), (70000, 2, 1), (32, 2, 1)),
        (
            UOp.sink(memory(0, 2, 3, 2, 3).store(memory(1, 2, 3, 2, 3, 512).reduce(Ops.ADD, 1))),
            (3, 2, 3),
            (32, 4, 1),
        ),
        (UOp.sink(memory(0, 1).reshape(()).store(memory(1, 10**6).reduce(Ops.ADD, 1))), (1, 1, 1), (32, 32, 1)),
    ],
    ids=["rows", "long rows", "one row", "short rows", "few short rows", "many rows", "two axes", "four axes", "all"],
)  # fmt: skip
def test_the_launch(body: UOp, grid: tuple[int, ...], block: tuple[int, ...]) -> None:
    source = generate(body)
    assert "__shfl" in source.text
    assert (tuple(n.value for n in source.grid), source.block) == (grid, block)


@pytest.mark.parametrize("name", CHECKED)
def test_a_schedule_is_printed_read_and_replayed(name: str) -> None:
    body = CHECKED[name]
    printed = str(chosen_schedule(body))
    assert "warp" in printed
    assert generate(body, schedule=Schedule.parse(printed)) == generate(body)


def column_sums(rows: int, columns: int) -> UOp:
    return UOp.sink(memory(0, columns).store(memory(1, rows, columns).permute((1, 0)).reduce(Ops.ADD, 1)))


N = UOp.variable("n", 1, 1000)


@pytest.mark.parametrize(
    "body",
    [
        column_sums(200, 4000),
        UOp.sink(memory(0, 3000).store(memory(1, 3000, 31).reduce(Ops.ADD, 1))),
        UOp.sink(memory(0, 4).store(memory(1, 4, 1000).shrink([(0, 4), (0, N)]).reduce(Ops.ADD, 1))),
        UOp.sink(memory(0, 300).store(memory(0, 300) - places(memory(0, 300).reduce(Ops.ADD, 1), (), 300))),
    ],
    ids=["columns", "short rows", "a symbolic size", "in place"],
)
def test_what_is_not_worth_it_or_not_possible_stays_as_it_is(body: UOp) -> None:
    assert "__shfl" not in generate(body).text
    assert not chosen_schedule(body).actions


def test_two_outputs_of_one_shape(check: Check) -> None:
    """Which stand in one loop nest; outputs of several shapes are computed by threads alone."""
    x = memory(2, 5, 300, dtype=dtypes.i32)
    largest = places(x.reduce(Ops.MAX, 1), (5,), 300)
    first = memory(0, 5, 300, dtype=dtypes.i32).store(x - largest)
    source = check(UOp.sink(first, memory(1, 5, 300, dtype=dtypes.i32).store(x + largest)), freedoms=EXACT)
    assert source.block == (32, 2, 1)
    assert source.text.count("__shared__") == 1
    rows = memory(1, 5, dtype=dtypes.i32).store(x.reduce(Ops.ADD, 1))
    assert "__shfl" not in check(UOp.sink(first, rows), freedoms=EXACT).text


def test_few_long_columns_are_shared(check: Check) -> None:
    """Lanes are far apart in memory, but a thread would add 5000 terms."""
    body = UOp.sink(
        memory(0, 4, dtype=dtypes.i32).store(
            memory(1, 5000, 4, dtype=dtypes.i32).permute((1, 0)).reduce(Ops.ADD, 1)
        )
    )
    assert "__shfl" in check(body, freedoms=EXACT).text


def test_upcast_rows_are_summed_in_one_walk(check: Check) -> None:
    body = UOp.sink(
        memory(0, 8, dtype=dtypes.i32).store(memory(1, 8, 256, dtype=dtypes.i32).reduce(Ops.ADD, 1))
    )
    schedule = Schedule.parse("split 0 4 upcast; retype 2 global; split 1 32 warp; split 4 4 group")
    source = check(body, freedoms=EXACT, schedule=schedule)
    assert source.text.count("for (") == 2
    assert source.text.count("__shared__") == 4
    assert len(BARRIER.findall(source.text)) == 1


X = UOp.sink(memory(0, 64).store(memory(1, 64, 512).reduce(Ops.ADD, 1)))


@pytest.mark.parametrize(
    ("body", "schedule", "message"),
    [
        (X, "split 1 16 warp", "16 lanes share a reduction"),
        (X, "split 1 8 group", "no lanes share a reduction"),
        (X, "split 1 32 warp; split 2 8 group; retype 0 local", "range 0, local, where the warps"),
        (X, "split 1 32 warp; retype 2 warp", "one warp and one group axis"),
        (softmax(4, 2048), "split 3 32 warp; split 2 16 warp", "16, 32 lanes"),
        (X, "split 1 32 warp; split 2 8 group; retype 4 group", "a reduction over range"),
        (X, "retype 0 warp", "range 0 of a store is warp"),
        (X, "split 1 32 warp; retype 0 local", "2048 threads with a warp for each row"),
        (softmax(4, 2048), "split 3 32 warp; split 4 4 group; split 2 32 warp; split 8 8 group", r"\[4, 8\] warps in one kernel"),
        (softmax(4, 2048), "split 3 32 warp; split 1 64 local; reorder (0, 7, 6)", "local axes of 64, where 32 threads"),
        (softmax(4, 4096), "split 3 32 warp; split 4 64 group", "64 warps of 32 threads a block"),
        (entropy(64, 64), "split 0 32 warp; split 1 32 warp", "of a reduction within range"),
        (
            UOp.sink(memory(0, 4).store(memory(2, 4, 64).reduce(Ops.ADD, 1)), memory(1, 5).store(memory(3, 5))),
            "split 2 32 warp",
            "in a kernel of several loop nests",
        ),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)  # fmt: skip
def test_what_threads_cannot_share_is_refused(body: UOp, schedule: str, message: str) -> None:
    with pytest.raises(ScheduleError, match=message) as caught:
        generate(body, schedule=Schedule.parse(schedule))
    assert caught.value.remedy
