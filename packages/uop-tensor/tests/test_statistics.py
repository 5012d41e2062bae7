"""Norms, distances, and folds with NaN against NumPy in float64."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from uop_ir import dtypes
from uop_tensor import Tensor, TensorError

Array = npt.NDArray[Any]

RNG = np.random.default_rng(5)


def normal(*shape: int) -> Array:
    return RNG.normal(0, 1, shape)


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), ()])
@pytest.mark.parametrize("keepdim", [False, True])
def test_folds(axis: Any, keepdim: bool) -> None:
    x = normal(2, 3, 4)
    x[0, 1, 2], x[1, 2, 3] = 0, 0
    k: dict[str, Any] = {"axis": axis, "keepdims": keepdim}
    t = Tensor(x)
    np.testing.assert_array_equal(t.amax(axis, keepdim).numpy(), x.max(**k))
    np.testing.assert_array_equal(t.amin(axis, keepdim).numpy(), x.min(**k))
    for found, wanted in zip(t.aminmax(axis, keepdim), (x.min(**k), x.max(**k)), strict=True):
        np.testing.assert_array_equal(found.numpy(), wanted)
    np.testing.assert_array_equal(t.count_nonzero(axis, keepdim).numpy(), (x != 0).sum(**k))
    assert t.count_nonzero(axis).dtype is dtypes.i64
    pairs = (t.var_mean(axis, keepdim, correction=0), t.std_mean(axis, keepdim, correction=0))
    for (spread, mean), wanted in zip(pairs, (x.var(**k), x.std(**k)), strict=True):
        np.testing.assert_allclose(spread.numpy(), wanted, rtol=1e-12)
        np.testing.assert_allclose(mean.numpy(), x.mean(**k), rtol=1e-12)
    x[0, 0] = np.nan
    with np.errstate(invalid="ignore"), pytest.warns(RuntimeWarning) if axis in (-1, ()) else np.errstate():
        mean_of_rest = np.nanmean(x, **k)
    np.testing.assert_allclose(Tensor(x).nansum(axis, keepdim).numpy(), np.nansum(x, **k), rtol=1e-12)
    np.testing.assert_allclose(Tensor(x).nanmean(axis, keepdim).numpy(), mean_of_rest, rtol=1e-12)


@pytest.mark.parametrize("p", [0, 1, 2, 3, 0.5, -1, -2, np.inf, -np.inf])
def test_norm(p: float) -> None:
    x = normal(3, 4)
    x[1, 2] = 0
    with np.errstate(divide="ignore"):
        wanted = np.array([np.linalg.norm(row, p) for row in x])
        whole = np.linalg.norm(x.ravel(), p)
    np.testing.assert_allclose(Tensor(x).norm(p, 1).numpy(), wanted, rtol=1e-12)
    np.testing.assert_allclose(Tensor(x).norm(p, 1, keepdim=True).numpy(), wanted[:, None], rtol=1e-12)
    np.testing.assert_allclose(Tensor(x).norm(p).numpy(), whole, rtol=1e-12)


def test_norm_by_name_and_of_other_dtypes() -> None:
    assert Tensor([3, 4]).norm().tolist() == 5.0
    assert Tensor([3, -4]).norm("inf").tolist() == 4.0
    assert Tensor([3.0, -4.0]).norm("fro").tolist() == 5.0
    assert Tensor(np.array([300, 400], np.float16)).norm().item() == 500.0
    assert Tensor(np.zeros((0,))).norm().item() == 0.0
    assert Tensor(np.float64(-2)).norm(3).item() == pytest.approx(2)
    with pytest.raises(TensorError, match="p='nuc'"):
        Tensor([1.0]).norm("nuc")


@pytest.mark.parametrize("p", [1, 2, 3, 0.5, np.inf])
def test_the_gradient_of_a_norm(p: float) -> None:
    x = np.array([[0.3, -1.2, 0.7], [2.0, 0.4, -0.1]])
    t = Tensor(x)
    (found,) = t.norm(p, 1).sum().gradient(t)
    for at in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[at] += 1e-6
        down[at] -= 1e-6
        difference = (Tensor(up).norm(p, 1).sum().item() - Tensor(down).norm(p, 1).sum().item()) / 2e-6
        np.testing.assert_allclose(found.numpy()[at], difference, rtol=1e-7, atol=1e-8)
    zero = Tensor(np.zeros(3))
    assert zero.norm(p).gradient(zero)[0].tolist() == [0, 0, 0]


def test_softmin() -> None:
    x = normal(3, 4)
    e = np.exp(-x)
    np.testing.assert_allclose(Tensor(x).softmin(0).numpy(), e / e.sum(0), rtol=1e-12)


def test_similarity() -> None:
    x, y = normal(2, 3, 4), normal(3, 1)
    y = np.broadcast_to(y, (3, 4))
    for axis in (1, -1):
        dot = (x * y).sum(axis)
        wanted = dot / np.sqrt((x * x).sum(axis) * np.broadcast_to(y * y, x.shape).sum(axis))
        np.testing.assert_allclose(Tensor(x).cosine_similarity(Tensor(y), axis).numpy(), wanted, rtol=1e-12)
    assert Tensor([[0.0, 0.0]]).cosine_similarity(Tensor([[1.0, 1.0]])).tolist() == [0.0]
    assert Tensor([[1, 0]]).cosine_similarity(Tensor([[2, 0]])).dtype is dtypes.f32
    with pytest.raises(TensorError, match="cosine_similarity: shapes"):
        Tensor([[1.0, 2.0]]).cosine_similarity(Tensor([[1.0, 2.0, 3.0]]))


@pytest.mark.parametrize("p", [1, 2, np.inf])
def test_distances(p: float) -> None:
    x, y = normal(2, 3, 4), normal(5, 4)
    wanted = np.linalg.norm(x[:, :, None] - y[None, None], p, -1)
    np.testing.assert_allclose(Tensor(x).cdist(Tensor(y), p).numpy(), wanted, rtol=1e-12)
    z = normal(3, 4)
    wanted = np.linalg.norm(x - z + 1e-6, p, -1)
    np.testing.assert_allclose(Tensor(x).pairwise_distance(Tensor(z), p).numpy(), wanted, rtol=1e-12)
    same = Tensor(y)
    (grad,) = same.cdist(same, p).sum().gradient(same)
    assert np.isfinite(grad.numpy()).all()


def test_wrong_shapes() -> None:
    x = Tensor(normal(2, 3))
    calls: list[tuple[Callable[[], Tensor], str]] = [
        (lambda: x.cdist(Tensor(normal(2, 4))), r"cdist: shapes \(2, 3\) and \(2, 4\)"),
        (lambda: x.cdist(x[0]), r"cdist: shapes \(2, 3\) and \(3,\)"),
        (lambda: x.pairwise_distance(2.0), "a number is no vector"),
        (lambda: x[:0].amax(0), "no elements"),
    ]
    for call, text in calls:
        with pytest.raises(TensorError, match=text):
            call()


def test_equal_and_allclose() -> None:
    x = normal(2, 3)
    assert Tensor(x).equal(Tensor(x))
    assert not Tensor(x).equal(Tensor(x[:1]))
    assert not Tensor(x).equal(Tensor(x + 1e-9))
    assert Tensor(x).allclose(Tensor(x + 1e-9))
    assert not Tensor(x).allclose(Tensor(x + 1e-3))
    assert Tensor([np.nan]).allclose(Tensor([np.nan]), equal_nan=True)
    assert Tensor(np.zeros((0, 2))).allclose(1.0)
