"""Convolutions, pooling, resizing, padding and running folds beside PyTorch,
values and gradients, in float64.
"""

from __future__ import annotations

import itertools
import runpy
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from uop_ir import override, settings
from uop_tensor import Tensor

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
F = torch.nn.functional

Case = tuple[Callable[..., Any], Callable[..., Any], tuple[tuple[int, ...], ...]]

pytestmark = pytest.mark.torch


def normal(shape: tuple[int, ...], seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape)


compare = partial(
    runpy.run_path(str(Path(__file__).with_name("beside_torch.py")))["compare"],
    torch,
    value=(1e-6, 1e-9),
    gradient=(1e-5, 1e-9),
)


CONV = [
    {"stride": s, "padding": p, "dilation": d, "groups": g}
    for s, p, d, g in [
        (1, 0, 1, 1),
        (2, 1, 1, 1),
        (1, "same", 2, 1),
        (3, 2, 1, 2),
        (1, "valid", 2, 4),
        (2, 0, 3, 1),
    ]
]


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("options", CONV, ids=str)
def test_convolution(rank: int, options: dict[str, Any]) -> None:
    space, size = ((9, 8, 7)[:rank], (2, 3, 1)[:rank]) if rank > 1 else ((9,), (3,))
    shapes = (2, 4, *space), (8, 4 // options["groups"], *size), (8,)
    name = f"conv{rank}d"
    compare(
        lambda x, w, b: getattr(x, name)(w, b, **options),
        lambda x, w, b: getattr(F, name)(x, w, b, **options),
        *(normal(s, i) for i, s in enumerate(shapes)),
    )


def test_convolution_without_a_batch_and_with_tuples() -> None:
    x, w = normal((3, 7, 6)), normal((2, 3, 3, 2))
    for options in ({}, {"stride": (2, 1), "padding": (1, 0)}, {"dilation": (1, 3), "padding": (0, 2)}):
        compare(lambda x, w, o=options: x.conv2d(w, **o), lambda x, w, o=options: F.conv2d(x, w, **o), x, w)


TRANSPOSED = [
    {"stride": s, "padding": p, "output_padding": o, "groups": g, "dilation": d}
    for s, p, o, g, d in [
        (1, 0, 0, 1, 1),
        (2, 1, 1, 1, 1),
        (3, 0, 2, 2, 1),
        (2, 2, 0, 1, 2),
        (1, 1, 1, 4, 2),
        (1, 3, 0, 1, 3),
    ]
]


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("options", TRANSPOSED, ids=str)
def test_transposed_convolution(rank: int, options: dict[str, Any]) -> None:
    space, size = (6, 5, 4)[:rank], (3, 2, 3)[:rank]
    shapes = (2, 4, *space), (4, 6 // (2 if options["groups"] > 1 else 1), *size)
    outputs = shapes[1][1] * options["groups"]
    name = f"conv_transpose{rank}d"
    compare(
        lambda x, w, b: getattr(x, name)(w, b, **options),
        lambda x, w, b: getattr(F, name)(x, w, b, **options),
        *(normal(s, i) for i, s in enumerate((*shapes, (outputs,)))),
    )


def test_second_derivative_of_a_convolution() -> None:
    x, w = normal((1, 2, 5, 4)), normal((3, 2, 2, 3))
    cases: list[dict[str, Any]] = [{}, {"stride": 2, "padding": 1}, {"dilation": 2, "padding": 2}]
    for options in cases:
        tx, tw = (torch.tensor(a, requires_grad=True) for a in (x, w))
        first = torch.autograd.grad((F.conv2d(tx, tw, **options) ** 3).sum(), (tx, tw), create_graph=True)
        wanted = torch.autograd.grad(sum((g**2).sum() for g in first), (tx, tw))
        with override(settings, dev="INTERP"):
            ox, ow = Tensor(x), Tensor(w)
            a, b = (ox.conv2d(ow, **options) ** 3).sum().gradient(ox, ow)
            found = ((a**2).sum() + (b**2).sum()).gradient(ox, ow)
            for mine, its in zip(found, wanted, strict=True):
                np.testing.assert_allclose(mine.numpy(), its.numpy(), rtol=1e-6)


POOLS = [
    {"kernel_size": k, "stride": s, "padding": p, "ceil_mode": c}
    for k, s, p, c in [
        (2, None, 0, False),
        (3, 2, 1, True),
        (3, 1, 1, False),
        (2, 3, 1, True),
        (4, 3, 2, True),
    ]
]


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("options", POOLS, ids=str)
def test_pools(rank: int, options: dict[str, Any]) -> None:
    x = normal((2, 2, *(8, 7, 6)[:rank]))
    name = f"max_pool{rank}d"
    for dilation in (1, 2):
        both = {**options, "dilation": dilation, "return_indices": True}
        compare(lambda x, o=both: getattr(x, name)(**o), lambda x, o=both: getattr(F, name)(x, **o), x)
    name = f"avg_pool{rank}d"
    for counted, divisor in [(True, None), (False, None), (True, 5)][: 2 if rank == 1 else 3]:
        more = {} if rank == 1 else {"divisor_override": divisor}
        both = {**options, "count_include_pad": counted, **more}
        compare(lambda x, o=both: getattr(x, name)(**o), lambda x, o=both: getattr(F, name)(x, **o), x)


@pytest.mark.parametrize("output", [(4, 3), (3, None), (8, 7), (1, 1), (5, 9), 2], ids=str)
def test_adaptive_pools(output: Any) -> None:
    x = normal((2, 2, 8, 7))
    compare(lambda x: x.adaptive_avg_pool2d(output), lambda x: F.adaptive_avg_pool2d(x, output), x)
    compare(
        lambda x: x.adaptive_max_pool2d(output, return_indices=True),
        lambda x: F.adaptive_max_pool2d(x, output, return_indices=True),
        x,
    )


def test_adaptive_pools_of_other_ranks() -> None:
    x = normal((2, 7))
    compare(lambda x: x.adaptive_avg_pool1d(3), lambda x: F.adaptive_avg_pool1d(x, 3), x)
    compare(lambda x: x.adaptive_max_pool1d(5), lambda x: F.adaptive_max_pool1d(x, 5), x)
    x = normal((1, 2, 4, 5, 6))
    compare(lambda x: x.adaptive_avg_pool3d((2, 3, 6)), lambda x: F.adaptive_avg_pool3d(x, (2, 3, 6)), x)
    compare(lambda x: x.adaptive_max_pool3d((2, 3, 6)), lambda x: F.adaptive_max_pool3d(x, (2, 3, 6)), x)


def test_nan_and_infinity_in_pools() -> None:
    x = np.array([[[np.nan, 1, np.nan, 2, -np.inf, -np.inf, np.inf, np.inf, 3.0]]])
    for options in ({"kernel_size": 3}, {"kernel_size": 2, "padding": 1}, {"kernel_size": 4, "stride": 1}):
        compare(
            lambda x, o=options: x.detach().max_pool1d(**o, return_indices=True),
            lambda x, o=options: F.max_pool1d(x.detach(), **o, return_indices=True),
            x,
        )


RUNNING: dict[str, Callable[[Any, int], Any]] = {
    "cumsum": lambda x, a: x.cumsum(a),
    "cumprod": lambda x, a: x.cumprod(a),
    "cummax": lambda x, a: x.cummax(a),
    "cummin": lambda x, a: x.cummin(a),
    "logcumsumexp": lambda x, a: x.logcumsumexp(a),
}


@pytest.mark.parametrize("name", RUNNING)
def test_running_folds(name: str) -> None:
    special = np.array([[0.0, 2, 0, -1], [-3, 0, 5, np.inf], [1, -np.inf, 2, 2], [3, 3, -0.0, 0]])
    for x, axis in itertools.product((normal((3, 4, 5)), np.round(normal((6, 7)))), (0, 1, -1)):
        compare(lambda x, a=axis: RUNNING[name](x, a), lambda x, a=axis: RUNNING[name](x, a), x)
    compare(lambda x: RUNNING[name](x.detach(), 1), lambda x: RUNNING[name](x.detach(), 1), special)
    finite = np.where(np.isinf(special), 4, special)
    compare(lambda x: RUNNING[name](x, 1), lambda x: RUNNING[name](x, 1), finite)
    if name != "logcumsumexp":
        integers = np.array([[3, 1, 3, 5], [2, 2, 0, 1]], np.int32)
        compare(lambda x: RUNNING[name](x, 1), lambda x: RUNNING[name](x, 1), integers)


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_padding(mode: str) -> None:
    x = normal((2, 3, 4, 5))
    for given, widths in ((x[0], (1, 2)), (x, (3, 0, 2, 1))):
        compare(lambda x, w=widths: x.pad(w, mode), lambda x, w=widths: F.pad(x, w, mode), given)
    compare(lambda x: x.pad((1, -2, 0, 3), value=2.5), lambda x: F.pad(x, (1, -2, 0, 3), value=2.5), x)


def test_windows_of_an_axis() -> None:
    for given in ((1, 3, 2), (0, 1, 1), (-1, 5, 4), (2, 2, 3)):
        compare(lambda x, g=given: x.unfold(*g), lambda x, g=given: x.unfold(*g), normal((4, 5, 6)))


def test_on_the_cpu() -> None:
    """Convolution, pooling and running sums in compiled code."""
    x, w = normal((2, 3, 9, 9)), normal((4, 3, 3, 3))

    def network(x: Any, w: Any, conv: Callable[..., Any], pool: Callable[..., Any]) -> Any:
        return pool(conv(x, w, None, 2, 1)).cumsum(1)

    compare(
        lambda x, w: network(x, w, Tensor.conv2d, lambda y: y.max_pool2d(2)),
        lambda x, w: network(x, w, F.conv2d, lambda y: F.max_pool2d(y, 2)),
        x,
        w,
        device="CPU",
    )


RESIZED: list[tuple[int, dict[str, Any]]] = [
    (rank, options)
    for rank, mode in [(1, "nearest"), (2, "nearest"), (3, "nearest"), (2, "nearest-exact"), (2, "area")]
    for options in (
        {"mode": mode, "size": (7, 9, 3)[:rank]},
        {"mode": mode, "scale_factor": 2},
        {"mode": mode, "scale_factor": (1.7, 0.6, 2.3)[:rank]},
    )
] + [
    (rank, {"mode": mode, "align_corners": corners, **size})
    for rank, mode in [(1, "linear"), (2, "bilinear"), (3, "trilinear"), (2, "bicubic")]
    for corners in (False, True)
    for size in (
        {"size": (7, 9, 3)[:rank]},
        {"scale_factor": (1.7, 0.6, 2.3)[:rank]},
        {"scale_factor": 1.7, "recompute_scale_factor": True},
        {"size": (1, 2, 1)[:rank]},
    )
]


@pytest.mark.parametrize(("rank", "options"), RESIZED, ids=str)
def test_interpolation(rank: int, options: dict[str, Any]) -> None:
    x = normal((2, 2, *(5, 4, 6)[:rank]))
    compare(lambda x: x.interpolate(**options), lambda x: F.interpolate(x, **options), x)


def test_nearest_elements_are_torchs_for_many_sizes() -> None:
    """Where a place falls on an edge between elements it is rounding that decides."""
    for old, new in itertools.product((3, 7, 10, 25), (1, 5, 9, 14, 30, 49, 75)):
        x = np.arange(old, dtype=float).reshape(1, 1, old)
        for mode in ("nearest", "nearest-exact"):
            with override(settings, dev="INTERP"):
                found = Tensor(x).interpolate(new, mode=mode).numpy()
            np.testing.assert_array_equal(found, F.interpolate(torch.tensor(x), new, mode=mode).numpy())


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_grid_sample(padding: str, corners: bool) -> None:
    """The sum of the grid is added, on which the nearest elements do not depend."""
    for shape in ((2, 3, 4, 5), (2, 1, 2, 3, 2)):
        grid = 1.4 * normal((2, *[2] * (len(shape) - 2), len(shape) - 2), 1)
        for mode in ("bilinear", "nearest"):
            compare(
                lambda x, g, m=mode: x.grid_sample(g, m, padding, corners) + g.sum(),
                lambda x, g, m=mode: F.grid_sample(x, g, m, padding, corners) + g.sum(),
                normal(shape),
                grid,
            )
        size = (2, 1, *shape[2:])
        compare(
            lambda t, s=size: t.affine_grid(s, corners),
            lambda t, s=size: F.affine_grid(t, s, corners),
            normal((2, len(shape) - 2, len(shape) - 1)),
        )


def test_pixels_and_channels() -> None:
    x = normal((2, 8, 2, 3))
    compare(lambda x: x.pixel_shuffle(2), lambda x: F.pixel_shuffle(x, 2), x)
    compare(lambda x: x.pixel_unshuffle(2), lambda x: F.pixel_unshuffle(x, 2), normal((3, 4, 6)))
