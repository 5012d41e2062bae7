"""Movement ops of every rank up to 8, with axes of size 0 and 1, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from uop_codegen_c import settings
from uop_ir import Ops, UOp, dtypes, override

Array = npt.NDArray[Any]
SIZES = (3, 1, 2, 4, 1, 3, 2, 2)
Both = tuple[Callable[[UOp], UOp], Callable[[Array], Array]]


def pads(shape: tuple[int, ...]) -> list[tuple[int, int]]:
    return [(a % 2, (a + 1) % 3) for a in range(len(shape))]


def cut(shape: tuple[int, ...]) -> list[tuple[int, int]]:
    return [(min(1, d // 2), d) for d in shape]


def wide(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(2 if d == 1 else d for d in shape)


def moves(shape: tuple[int, ...]) -> dict[str, Both]:
    axes = (*range(1, len(shape)), 0)
    half = len(shape) // 2
    folded: Any = tuple(range(len(shape) - half, len(shape)))
    pairs = (prod(shape[:half]), prod(shape[half:]))
    return {
        "permute": (lambda x: x.permute(axes), lambda a: a.transpose(axes)),
        "flip": (lambda x: x.flip((True,) * len(shape)), np.flip),
        "pad": (lambda x: x.pad(pads(shape)), lambda a: np.pad(a, pads(shape))),
        "shrink": (lambda x: x.shrink(cut(shape)), lambda a: a[tuple(slice(*c) for c in cut(shape))]),
        "expand": (lambda x: x.expand(wide(shape)), lambda a: np.broadcast_to(a, wide(shape))),
        "reshape": (lambda x: x.reshape(pairs), lambda a: a.reshape(pairs)),
        "reduce": (lambda x: x.reduce(Ops.ADD, half), lambda a: a.sum(folded) if half else a),
        "all of them": (
            lambda x: x.pad(pads(shape)).permute(axes).flip((True,) * len(shape)).reduce(Ops.MAX, half),
            lambda a: np.flip(np.pad(a, pads(shape)).transpose(axes)).max(folded, initial=-np.inf) if half
            else np.flip(np.pad(a, pads(shape)).transpose(axes)),
        ),
    }  # fmt: skip


@pytest.mark.net
@pytest.mark.parametrize("opt", [0, 1])
@pytest.mark.parametrize("empty", [False, True], ids=["full", "empty"])
@pytest.mark.parametrize("rank", range(1, 9))
def test_moves_of_a_rank(run_cpu: Callable[..., Any], rank: int, empty: bool, opt: int) -> None:
    """All in one kernel: one store for each move."""
    shape = (*SIZES[: rank - 1], 0) if empty else SIZES[:rank]
    given = np.random.default_rng(0).integers(-9, 9, shape).astype(np.float32)
    both = moves(shape)
    wanted = [of_arrays(given) for _, of_arrays in both.values()]
    source = UOp.param(len(both), given.size, dtypes.f32).reshape(shape)
    stores = []
    for slot, (of_graphs, _) in enumerate(both.values()):
        value = of_graphs(source) * 1.0
        stores.append(UOp.param(slot, wanted[slot].size, dtypes.f32).reshape(value.shape).store(value))
    with override(settings, opt=opt):
        found = run_cpu(
            UOp.sink(*stores), [*(np.zeros(w.size, np.float32) for w in wanted), given.reshape(-1)]
        )
    for name, out, want in zip(both, found, wanted, strict=False):
        np.testing.assert_array_equal(out.reshape(want.shape), want, err_msg=name)


def test_operands_align_on_the_right(run_cpu: Callable[..., Any]) -> None:
    """An operand of fewer axes, or with axes of size 1, is repeated along those in front of it."""
    shapes: list[tuple[int, ...]] = [(3, 3, 3), (3, 3), (3,), (1, 3), (3, 1), ()]
    given = [np.arange(prod(s), dtype=np.float32).reshape(s) ** (i + 1) for i, s in enumerate(shapes)]
    views = [UOp.param(1 + i, prod(s), dtypes.f32).reshape(s) for i, s in enumerate(shapes)]
    total, want = views[0], given[0]
    for view, array in zip(views[1:], given[1:], strict=True):
        total, want = view - total, array - want
    body = UOp.sink(UOp.param(0, 27, dtypes.f32).reshape(shapes[0]).store(total))
    out = run_cpu(body, [np.zeros(27, np.float32), *(a.reshape(-1) for a in given)])[0]
    np.testing.assert_array_equal(out.reshape(shapes[0]), want)


def test_what_a_cut_leaves_out_of_a_padded_axis_stays_out_when_it_is_padded_again(
    run_cpu: Callable[..., Any],
) -> None:
    x = UOp.param(1, 8, dtypes.f32)
    value = x.pad(((2, 0),)).shrink(((4, 9),)).pad(((3, 2),))
    body = UOp.sink(UOp.param(0, 10, dtypes.f32).store(value))
    given = np.arange(1, 9, dtype=np.float32)
    out = run_cpu(body, [np.ones(10, np.float32), given])[0]
    np.testing.assert_array_equal(out, np.pad(np.pad(given, (2, 0))[4:9], (3, 2)))


def test_what_is_computed_is_padded_with_zeros(run_cpu: Callable[..., Any]) -> None:
    body = UOp.sink(UOp.param(0, 5, dtypes.f32).store((UOp.param(1, 2, dtypes.f32) + 1.0).pad(((1, 2),))))
    out = run_cpu(body, [np.ones(5, np.float32), np.array([3, 4], np.float32)])[0]
    assert out.tolist() == [0, 4, 5, 0, 0]


@pytest.mark.parametrize("numbers", [[0, 1, 5, 3], [4, 1, -2, -5], [7], [1, 1, 2], [0, 0, 0]], ids=str)
def test_a_list_of_constants(run_cpu: Callable[..., Any], numbers: list[int]) -> None:
    value = UOp(Ops.STACK, [UOp.const(dtypes.i32, n) for n in numbers])
    body = UOp.sink(UOp.param(0, len(numbers), dtypes.i32).store(value))
    assert run_cpu(body, [np.full(len(numbers), 99, np.int32)])[0].tolist() == numbers
