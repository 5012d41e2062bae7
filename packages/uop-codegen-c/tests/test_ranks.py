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
