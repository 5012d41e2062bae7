"""grid_sample and affine_grid against loops over places."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from uop_ir import dtypes
from uop_tensor import Tensor, TensorError

Array = npt.NDArray[Any]

RNG = np.random.default_rng(8)


def mirrored(at: float, low: float, high: float) -> float:
    """A position that went back and forth between two ends."""
    while high > low and not low <= at <= high:
        at = 2 * low - at if at < low else 2 * high - at
    return at if high > low else low


def sampled(x: Array, grid: Array, mode: str, padding: str, corners: bool) -> Array:
    """An element at a time."""
    batch, channels, *space = x.shape
    out = np.zeros((batch, channels, *grid.shape[1:-1]))
    for n, *place in np.ndindex(*grid.shape[:-1]):
        at = []
        for g, size in zip(grid[(n, *place)][::-1], space, strict=True):
            p = (g + 1) / 2 * (size - 1) if corners else ((g + 1) * size - 1) / 2
            if padding == "reflection":
                p = mirrored(p, 0, size - 1) if corners else mirrored(p, -0.5, size - 0.5)
            at.append(p if padding == "zeros" else min(max(p, 0), size - 1))
        near = [[round(p)] if mode == "nearest" else [np.floor(p), np.floor(p) + 1] for p in at]
        for corner in itertools.product(*near):
            share = (
                1.0
                if mode == "nearest"
                else np.prod([1 - abs(p - c) for p, c in zip(at, corner, strict=True)])
            )
            if all(0 <= c < size for c, size in zip(corner, space, strict=True)):
                out[(n, slice(None), *place)] += share * x[(n, slice(None), *map(int, corner))]
    return out


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_grid_sample(mode: str, padding: str, corners: bool) -> None:
    for shape, places in (((2, 3, 4, 5), (3, 2)), ((1, 2, 2, 3, 1), (2, 1, 2))):
        x = RNG.normal(size=shape)
        grid = RNG.uniform(-2.2, 2.2, (shape[0], *places, len(places)))
        found = Tensor(x).grid_sample(Tensor(grid), mode, padding, corners)
        np.testing.assert_allclose(found.numpy(), sampled(x, grid, mode, padding, corners), atol=1e-12)


def kernel(away: float) -> float:
    """The cubic kernel of parameter -0.75, by its two pieces."""
    d = abs(away)
    return 1.25 * d**3 - 2.25 * d**2 + 1 if d <= 1 else -0.75 * (d**3 - 5 * d**2 + 8 * d - 4)


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_bicubic(padding: str, corners: bool) -> None:
    """The sum over all elements, of a space that goes on as far as the kernel reaches."""
    mode = {"zeros": "constant", "border": "edge", "reflection": "reflect" if corners else "symmetric"}
    x = RNG.normal(size=(2, 3, 4, 5))
    grid = RNG.uniform(-2.0, 2.0, (2, 3, 2, 2))
    around: Any = mode[padding]
    wide = np.pad(x, ((0, 0), (0, 0), (9, 9), (9, 9)), around)
    wanted = np.zeros((2, 3, 3, 2))
    for n, i, j in np.ndindex(2, 3, 2):
        column, row = (
            (g + 1) / 2 * (size - 1) if corners else ((g + 1) * size - 1) / 2
            for g, size in zip(grid[n, i, j], (5, 4), strict=True)
        )
        for a, b in itertools.product(range(22), range(23)):
            down, right = a - 9 - row, b - 9 - column
            if max(abs(down), abs(right)) < 2:
                wanted[n, :, i, j] += wide[n, :, a, b] * kernel(down) * kernel(right)
    found = Tensor(x).grid_sample(Tensor(grid), "bicubic", padding, corners)
    np.testing.assert_allclose(found.numpy(), wanted, atol=1e-12)


def test_gradients(slopes_agree: Callable[..., None]) -> None:
    grid = RNG.uniform(-1.3, 1.3, (1, 2, 3, 2))
    slopes_agree(lambda x, g: x.grid_sample(g, "bicubic"), RNG.normal(size=(1, 2, 3, 4)), grid)
    places = Tensor(grid)
    (found,) = Tensor.ones(1, 2, 3, 4).double().grid_sample(places, "nearest").sum().gradient(places)
    np.testing.assert_array_equal(found.numpy(), np.zeros_like(grid))


def test_the_grid_of_the_space_itself() -> None:
    x = RNG.normal(size=(2, 3, 4, 5)).astype(np.float32)
    same = Tensor(np.array([[[1.0, 0, 0], [0, 1, 0]]] * 2, np.float32))
    for corners in (False, True):
        found = Tensor(x).grid_sample(same.affine_grid(x.shape, corners), align_corners=corners)
        np.testing.assert_allclose(found.numpy(), x, rtol=1e-5, atol=1e-6)
    assert Tensor(x).half().grid_sample(same.affine_grid(x.shape).half()).dtype is dtypes.f16
    assert Tensor(x).grid_sample(Tensor(np.zeros((2, 0, 3, 2), np.float32))).shape == (2, 3, 0, 3)


@pytest.mark.parametrize("corners", [False, True])
def test_affine_grid(corners: bool) -> None:
    for size in ((2, 1, 3, 4), (1, 1, 2, 1, 3)):
        axes = len(size) - 2
        theta = RNG.normal(size=(size[0], axes, axes + 1))
        found = Tensor(theta).affine_grid(size, corners).numpy()
        assert found.shape == (size[0], *size[2:], axes)
        for n, *place in np.ndindex(size[0], *size[2:]):
            ends = [1.0 if corners else (m - 1) / m for m in size[2:]]
            at = [
                e * (2 * i / (m - 1) - 1) if m > 1 else 0.0
                for e, i, m in zip(ends, place, size[2:], strict=True)
            ]
            np.testing.assert_allclose(found[(n, *place)], theta[n] @ [*at[::-1], 1], atol=1e-12)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda x, g: x.grid_sample(g[:1]), r"grid_sample: a grid of shape \(1, 3, 3, 2\)"),
        (lambda x, g: x.grid_sample(g[..., :1]), "grid_sample: a grid of shape"),
        (lambda x, g: x.grid_sample(g, "cubic"), "grid_sample: mode='cubic'"),
        (
            lambda x, g: x[..., None].grid_sample(g.zeros(2, 3, 3, 3, 3), "bicubic"),
            "mode='bicubic', padding_mode='zeros' in 3 axes",
        ),
        (lambda x, g: x.grid_sample(g, padding_mode="wrap"), "padding_mode='wrap'"),
        (lambda x, g: x[:, :, :0].grid_sample(g), "its space is not empty"),
        (lambda x, g: x.affine_grid((2, 1, 3, 3)), "affine_grid: f32"),
        (
            lambda x, g: x.ones(2, 2, 3).affine_grid((2, 1, -3, 3)),
            r"affine_grid: .* of shape \(2, 1, -3, 3\)",
        ),
    ],
)
def test_what_does_not_fit(wrong: Any, message: str) -> None:
    with pytest.raises(TensorError, match=message):
        wrong(Tensor.zeros(2, 1, 4, 4), Tensor.zeros(2, 3, 3, 2))
