"""Places of the order without NaN, covariance, histograms and integrals against NumPy."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from uop_ir import dtypes
from uop_tensor import JitError, Tensor, TensorError, jit

Array = npt.NDArray[Any]

RNG = np.random.default_rng(4)


def same(found: Tensor, wanted: Array) -> None:
    np.testing.assert_array_equal(found.numpy(), wanted, strict=True)


def near(found: Tensor, wanted: Any, rtol: float = 1e-12) -> None:
    assert found.shape == np.shape(wanted)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=rtol, atol=1e-14)


def with_nan(*shape: int) -> Array:
    """Odd numbers of elements that are not NaN along the last axis, of which a middle one is the median."""
    x = RNG.permutation(np.arange(float(np.prod(shape)))).reshape(shape)
    x[..., 0, :2] = np.nan
    x[..., 1, 3:] = np.nan
    return x


def test_nanmedian() -> None:
    x = with_nan(2, 3, 5)
    values, positions = Tensor(x).nanmedian(-1)
    same(values, np.nanmedian(x, -1))
    same(Tensor(x).take_along_axis(positions.unsqueeze(-1), -1).squeeze(-1), np.nanmedian(x, -1))
    values, _ = Tensor(x).nanmedian(1, keepdim=True)
    same(values, np.nanquantile(x, 0.5, 1, keepdims=True, method="lower"))
    total = Tensor(x).nanmedian(keepdim=True)
    assert isinstance(total, Tensor)
    same(total, np.nanquantile(x, 0.5, keepdims=True, method="lower"))
    values, positions = Tensor([[np.nan, np.nan]]).nanmedian(1)
    assert np.isnan(values.item())
    assert positions.tolist() == [0]
    values, positions = Tensor(5).nanmedian(0)
    assert (values.tolist(), positions.tolist()) == (5, 0)


@pytest.mark.parametrize("interpolation", ["linear", "lower", "higher", "midpoint", "nearest"])
def test_nanquantile(interpolation: str) -> None:
    x = with_nan(2, 3, 5)
    k: dict[str, Any] = {"method": interpolation}
    for q in (0.0, 0.3, 1.0):
        near(Tensor(x).nanquantile(q, 1, interpolation=interpolation), np.nanquantile(x, q, 1, **k))
    parts = [0.1, 0.55]
    near(Tensor(x).nanquantile(parts, interpolation=interpolation), np.nanquantile(x, parts, **k))
    found = Tensor(x).nanquantile(Tensor(parts), -1, True, interpolation)
    near(found, np.nanquantile(x, np.array(parts, np.float32), -1, keepdims=True, **k))
    assert np.isnan(Tensor([[np.nan] * 2]).nanquantile(0.5, 1).tolist()[0])
    assert Tensor([1, 2, 4]).nanquantile(0.5).dtype is dtypes.f32


def counted(row: Array) -> tuple[Any, int]:
    """The least of the elements that stand most often, and its last position."""
    values, counts = np.unique(row, return_counts=True)
    best = values[counts.argmax()]
    return best, int(np.flatnonzero(row == best)[-1])


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.float32, np.bool_])
def test_mode(dtype: Any) -> None:
    x = RNG.integers(0, 3, (2, 5, 9)).astype(dtype)
    for axis in (1, -1):
        values, positions = Tensor(x).mode(axis)
        same(values, np.apply_along_axis(lambda row: counted(row)[0], axis, x).astype(dtype))
        same(positions, np.apply_along_axis(lambda row: counted(row)[1], axis, x))
    values, positions = Tensor(x).mode(1, keepdim=True)
    assert values.shape == positions.shape == (2, 1, 9)
    assert [t.tolist() for t in Tensor(3).mode()] == [3, 0]
    assert [t.tolist() for t in Tensor([np.nan, np.nan, 2.0, 1.0, 1.0]).mode()] == [1, 4]


def test_mode_of_many() -> None:
    many = RNG.integers(0, 9, 70)
    assert tuple(t.tolist() for t in Tensor(many).mode()) == counted(many)


def test_unique_consecutive() -> None:
    x = np.array([[1, 1, 2], [2, 1, 1]])
    for found, wanted in zip(
        Tensor(x).unique_consecutive(True, True),
        ([1, 2, 1], [[0, 0, 1], [1, 2, 2]], [2, 2, 2]),
        strict=True,
    ):
        same(found, np.array(wanted))
    rows = np.array([[0, 1], [0, 1], [1, 1], [0, 1]])
    found, inverse, counts = Tensor(rows.T).unique_consecutive(True, True, -1)
    same(found, rows[[0, 2, 3]].T)
    assert (inverse.tolist(), counts.tolist()) == ([0, 0, 1, 2], [2, 1, 1])
    alone = Tensor(np.zeros((0, 2))).unique_consecutive()
    assert isinstance(alone, Tensor)
    assert alone.shape == (0,)
    (nan,) = (Tensor([np.nan, np.nan]).unique_consecutive(),)
    assert isinstance(nan, Tensor)
    assert nan.shape == (2,)
    with pytest.raises(JitError, match="unique_consecutive"):
        jit(lambda x: x.unique_consecutive())(Tensor([1]))


def test_covariance() -> None:
    x, counts, weights = RNG.normal(size=(3, 6)), RNG.integers(1, 4, 6), RNG.random(6)
    for correction in (0, 1):
        near(Tensor(x).cov(correction), np.cov(x, ddof=correction))
        for f, a in ((counts, None), (None, weights), (counts, weights)):
            given = [None if w is None else Tensor(w) for w in (f, a)]
            near(Tensor(x).cov(correction, *given), np.cov(x, ddof=correction, fweights=f, aweights=a))
    near(Tensor(x[0]).cov(), np.cov(x[0]))
    near(Tensor(x).corrcoef(), np.corrcoef(x))
    near(Tensor(x[0]).corrcoef(), 1.0)
    near(Tensor(x[:, :0]).cov(), np.full((3, 3), np.nan))
    near(Tensor(x[:0]).cov(), np.zeros((0, 0)))
    whole = RNG.integers(0, 9, (2, 5))
    assert Tensor(whole).cov().dtype is dtypes.f32
    near(Tensor(whole).cov(), np.cov(whole), 1e-6)
    half = x.astype(np.float16)
    np.testing.assert_array_equal(
        Tensor(half).cov().numpy(), np.cov(half.astype(np.float32)).astype(np.float16)
    )


def test_histogram() -> None:
    x = RNG.normal(size=(4, 25)).astype(np.float32)
    near(Tensor(x).histc(7), np.histogram(x, 7)[0])
    x[0, :3] = 1.5, -2, np.nan
    wanted = np.histogram(x[np.isfinite(x)], 5, (-2, 1.5))[0]
    near(Tensor(x).histc(5, -2, 1.5), wanted)
    assert Tensor(x).histc(5, -2, 1.5).dtype is dtypes.f32
    assert Tensor([3.0, 3.0]).histc(4).tolist() == [0, 0, 2, 0]
    assert Tensor(np.zeros(0)).histc(2).tolist() == [0, 0]


def test_integrals() -> None:
    y = RNG.normal(size=(2, 4, 3))
    places = np.array([0.0, 1.0, 4.0, 4.5])
    parts = (y[:, 1:] + y[:, :-1]) / 2
    near(Tensor(y).trapezoid(axis=1), parts.sum(1))
    near(Tensor(y).trapezoid(dx=0.5, axis=-2), parts.sum(1) / 2)
    near(Tensor(y).trapezoid(Tensor(places), axis=1), (parts * np.diff(places)[:, None]).sum(1))
    near(Tensor(y).trapezoid(Tensor(y * y), axis=1), (parts * np.diff(y * y, axis=1)).sum(1))
    near(Tensor(y).trapz(np.arange(3.0) * 2), (y[..., 1:] + y[..., :-1]).sum(-1))
    near(Tensor(y).cumulative_trapezoid(Tensor(places), axis=1), (parts * np.diff(places)[:, None]).cumsum(1))
    assert Tensor(np.zeros((2, 0))).trapezoid().tolist() == [0, 0]
    assert Tensor([1, 2, 5]).trapezoid().tolist() == 5


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda x: x[:0].nanmedian(), "nanmedian: no elements"),
        (lambda x: x.nanquantile(2), "nanquantile: q=2.0"),
        (lambda x: x.nanquantile(0.5, interpolation="none"), "nanquantile: interpolation='none'"),
        (lambda x: x[:0].mode(0), "mode: no elements along axis 0"),
        (lambda x: x.unsqueeze(0).cov(), r"cov: a tensor of shape \(1, 3, 2\)"),
        (lambda x: x.cov(fweights=Tensor([1.0, 2.0])), r"cov: fweights f32\(2,\) for 2 observations"),
        (lambda x: x.cov(aweights=Tensor([1.0])), r"cov: aweights f32\(1,\) for 2 observations"),
        (lambda x: x.long().histc(), "histc: a tensor of dtype i64"),
        (lambda x: x.histc(0), "histc: 0 bins"),
        (lambda x: x.histc(4, 2, 1), "histc: 4 bins from 2 to 1"),
        (lambda x: x.trapezoid(axis=2), "trapezoid: axis 2"),
        (lambda x: x.trapezoid(Tensor([1.0, 2.0, 3.0])), "trapezoid: shapes"),
    ],
)
def test_what_does_not_fit(wrong: Any, message: str) -> None:
    with pytest.raises(TensorError, match=message):
        wrong(Tensor.zeros(3, 2))
