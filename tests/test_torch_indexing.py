"""Indexing, gather, scatter, masks and sorting beside PyTorch:
values, dtypes, gradients and what is refused.
"""

from __future__ import annotations

import runpy
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from uop_ir import override, settings
from uop_tensor import Tensor, TensorError

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

pytestmark = pytest.mark.torch

RNG = np.random.default_rng(0)
X = RNG.standard_normal((4, 5, 3))
Y = RNG.standard_normal((2, 5, 3))
AT = RNG.integers(0, 4, (2, 5, 3))
UNIQUE = np.array([[0, 3], [2, 1]])[:, :, None].repeat(3, 2)
LINE = RNG.standard_normal(90)
WHERE = X > 0.3


compare = partial(
    runpy.run_path(str(Path(__file__).with_name("beside_torch.py")))["compare"],
    torch,
    value=(1e-12, 0),
    gradient=(1e-9, 1e-12),
)


INDICES: dict[str, Callable[[Any, Any], Any]] = {
    "positions": lambda x, at: x[at[0]],
    "two": lambda x, at: x[at[0], :, at[0, :, :1] % 3],
    "adjacent": lambda x, at: x[1:, at[0] % 5, at[1] % 3],
    "apart": lambda x, at: x[at[0], ..., at[1] % 3],
    "number and positions": lambda x, at: x[-1, at[0] % 3, 1:],
    "new axes": lambda x, at: x[None, :, at[0, 0], None],
    "mask": lambda x, at: x[x > 0.3],
    "mask of columns": lambda x, at: x[1:, x[0, :, 0] > 0],
    "steps": lambda x, at: x[::2, 1:4:2, at[0, 0] % 3],
}


@pytest.mark.parametrize("name", INDICES)
def test_reading(name: str) -> None:
    compare(INDICES[name], INDICES[name], X, AT)


def written(items: Callable[[Any], Any]) -> Callable[..., Any]:
    def function(x: Any, value: Any, at: Any) -> Any:
        y = x * 1
        y[items(at)] = value
        return y

    return function


@pytest.mark.parametrize(
    ("items", "shape"),
    [
        (lambda at: (slice(1, 3), 0), (2, 3)),
        (lambda at: (..., slice(None, None, 2)), (1, 2)),
        (lambda at: at[:, :, 0], (2, 2, 5, 3)),
        (lambda at: (slice(None), at[:, 0, 0]), (4, 2, 3)),
        (lambda at: (at[0, :, 0], slice(None), at[1, :, 0] % 3), (5,)),
    ],
)
def test_writing(items: Callable[[Any], Any], shape: tuple[int, ...]) -> None:
    function = written(items)
    compare(function, function, X, RNG.standard_normal(shape), UNIQUE)


@pytest.mark.parametrize("device", ["INTERP", "CPU"])
def test_gather_and_scatter(device: str) -> None:
    def beside(ours: Callable[..., Any], *arrays: Any) -> None:
        compare(ours, ours, *arrays, device=device)

    at, unique = AT, UNIQUE
    beside(lambda x, at: x.gather(0, at), X, at)
    beside(lambda x, at: x.gather(-1, at % 3), X, at)
    beside(lambda x, at: x.index_select(1, at[0, :, 0]), X, at)
    beside(lambda x, at: x.take(at), X, at)
    beside(lambda x, at: x.take_along_dim(at[:, :1], 0), X, at)
    beside(lambda x, y, at: x.scatter(0, at, y[:, :2]), X, Y, unique)
    beside(lambda x, at: x.scatter(0, at, 2.5), X, unique)
    beside(lambda x, y, at: x.scatter_add(0, at, y), X, Y, at)
    beside(lambda x, y, at: x.index_add(0, at[:, 0, 0], y, alpha=2), X, Y, at)
    for reduce in ("sum", "prod", "mean", "amax", "amin"):
        for include in (True, False):
            beside(
                lambda x, y, at, r=reduce, i=include: x.scatter_reduce(0, at, y, r, include_self=i), X, Y, at
            )


def test_written_by_name() -> None:
    """Positions in tensors, as torch takes them."""
    at, part = np.array([2, 0]), RNG.standard_normal((4, 2, 3))
    for f in (
        lambda x, y, at: x.index_fill(1, at, 2.5) + y.sum(),
        lambda x, y, at: x.index_copy(1, at, y),
        lambda x, y, at: x.index_put((at, at), y[0], accumulate=False),
        lambda x, y, at: x.index_put((at * 0, at), y[0], accumulate=True),
        lambda x, y, at: x.index_put((x[:, 0, 0] > 0,), y[0, 0], accumulate=True),
        lambda x, y, at: x.put(at, y[0, 0, :2], accumulate=True),
        lambda x, y, at: x.masked_scatter(x < -0.9, y),
        lambda x, y, at: x.select_scatter(y[:, 0], 1, -1),
        lambda x, y, at: x.slice_scatter(y, 1, -3, None, 2),
        lambda x, y, at: x[0].diagonal_scatter(y[0, 0], -1),
    ):
        compare(f, f, X, part, at)
    compare(lambda y: y.diag_embed(-1, 0, 2), lambda y: y.diag_embed(-1, 0, 2), part)


def test_masks_and_diagonals() -> None:
    for f in (
        lambda x, m: x.masked_fill(m, -1.5),
        lambda x, m: x.masked_fill(m[:1, :, :1], 2),
        lambda x, m: x.masked_select(m),
        lambda x, m: m.nonzero(),
        lambda x, m: m.nonzero(as_tuple=True),
        lambda x, m: x.argwhere(),
        lambda x, m: x.diagonal(1, 0, -1),
        lambda x, m: x[0].diag(-1),
        lambda x, m: x[0, 0].diag(2),
    ):
        compare(f, f, X, WHERE)
    compare(lambda at: at.one_hot(), torch.nn.functional.one_hot, AT)
    compare(lambda at: at.one_hot(6), lambda at: torch.nn.functional.one_hot(at, 6), AT)


@pytest.mark.parametrize("device", ["INTERP", "CPU"])
def test_sorting(device: str) -> None:
    for f in (
        lambda x: x.sort(0),
        lambda x: x.sort(dim=0, descending=True, stable=True),
        lambda x: x.topk(3, 0),
        lambda x: x.topk(3, dim=-1, largest=False, sorted=True),
        lambda x: x.kthvalue(4, 0),
        lambda x: x.kthvalue(4, 0, keepdim=True),
        lambda x: x.argsort(0, descending=True),
        lambda x: x.median(),
        lambda x: x.median(0),
        lambda x: x.median(-1, keepdim=True),
        lambda x: x.quantile(0.3),
        lambda x: x.quantile(0.3, dim=0, keepdim=True),
        lambda x: x.quantile(0.7, 0, interpolation="nearest"),
    ):
        compare(f, f, LINE, device=device)
    for f in (lambda x: x.mode(), lambda x: x.mode(0, keepdim=True)):
        compare(f, f, LINE[:16].round(), device=device)
    nan = np.where(np.arange(90) % 17 == 5, np.nan, LINE)
    for f in (
        lambda x: x.nanmedian(),
        lambda x: x.nanmedian(0),
        lambda x: x.nanquantile(0.3),
        lambda x: x.nanquantile(0.7, 0, True, interpolation="nearest"),
    ):
        compare(f, f, nan[:40], device=device)
    for f in (
        lambda x: x.sort(),
        lambda x: x.sort(descending=True),
        lambda x: x.median(),
        lambda x: x.quantile(0.5),
    ):
        compare(f, f, nan[:3], device=device)


def test_search_and_distinct_elements() -> None:
    rows, values = np.sort(RNG.integers(0, 9, (2, 7))), RNG.integers(-1, 11, (2, 4))
    for right in (False, True):
        compare(
            lambda x, v, r=right: x.searchsorted(v, right=r),
            lambda x, v, r=right: torch.searchsorted(x, v, right=r),
            rows,
            values,
        )
        compare(
            lambda x, v, r=right: v.bucketize(x[0], right=r),
            lambda x, v, r=right: torch.bucketize(v, x[0], right=r),
            rows,
            values,
        )
    for f, given in (
        (lambda x: x.unique_consecutive(return_inverse=True, return_counts=True), AT),
        (lambda x: x.unique_consecutive(return_counts=True, dim=1), AT[:, :, 0].repeat(2, 1)),
        (lambda x: x.unique(return_inverse=True, return_counts=True), AT),
        (lambda x: x.unique(return_counts=True, dim=0), AT[:, :, 0].repeat(2, 0)),
        (lambda x: x.bincount(), AT.reshape(-1)),
    ):
        compare(f, f, given)
    compare(
        lambda x, w: x.bincount(w, 9), lambda x, w: x.bincount(w.detach(), 9), AT.reshape(-1), Y.reshape(-1)
    )


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x, at: x[4],
        lambda x, at: x[0, 0, 0, 0],
        lambda x, at: x[at, at[:1, :1].reshape(-1)[:0]],
        lambda x, at: x[x[0] > 0],
        lambda x, at: x[1.0],
        lambda x, at: x.gather(0, at[0]),
        lambda x, at: x.gather(1, at.reshape(5, 2, 3)),
        lambda x, at: x.index_select(0, at),
        lambda x, at: x.scatter(0, at, x[:1]),
        lambda x, at: x.topk(6, 1),
        lambda x, at: x.kthvalue(0),
        lambda x, at: x.quantile(1.5),
        lambda x, at: x.masked_select(at),
        lambda x, at: x.index_copy(0, at[0, 0], x),
        lambda x, at: x.index_fill(0, at, 1.0),
        lambda x, at: x.select_scatter(x, 0, 0),
        lambda x, at: x.diagonal_scatter(x),
        lambda x, at: x.diag_embed(0, 1, 1),
        lambda x, at: x.diag(),
        lambda x, at: (at.reshape(-1) - 3).bincount(),
    ],
)
def test_what_torch_refuses(wrong: Callable[..., Any]) -> None:
    with pytest.raises((RuntimeError, IndexError, ValueError, TypeError)):
        wrong(torch.tensor(X), torch.tensor(AT))
    with override(settings, dev="INTERP"), pytest.raises(TensorError):
        wrong(Tensor(X), Tensor(AT))
