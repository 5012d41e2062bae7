"""Sort, topk, median, quantile, search and distinct elements against NumPy."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from uop_ir import DType, dtypes
from uop_tensor import JitError, Tensor, TensorError, jit

Array = npt.NDArray[Any]

RNG = np.random.default_rng(6)
#: Sizes on both sides of where the way of sorting changes,
#: and beside powers of 2; each dtype at one at least.
SIZES = [(d, 7) for d in dtypes.all if d is not dtypes.index]
SIZES += [(dtypes.f32, n) for n in (0, 1, 2, 64, 65, 128)] + [
    (d, 65) for d in (dtypes.f16, dtypes.f64, dtypes.u64)
]


def same(found: Tensor, wanted: Array) -> None:
    """The same shape, dtype and elements."""
    np.testing.assert_array_equal(found.numpy(), wanted, strict=True)


def drawn(dtype: DType, *shape: int) -> Array:
    """Elements with ties, of the least and greatest magnitudes that a dtype has;
    of floats, all that is special.
    """
    if dtype is dtypes.bool:
        return RNG.random(shape) < 0.5
    if dtype.is_float:
        return RNG.choice([-0.0, 0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-7, -5.5, 300.0], shape).astype(
            dtype.numpy
        )
    few = [dtype.min, dtype.max, dtype.max - 1, dtype.max // 2, 0, 1, 2]
    return np.array([few[i] for i in RNG.integers(0, 7, int(np.prod(shape)))], dtype.numpy).reshape(shape)


def ranked(x: Array, axis: int, descending: bool) -> Array:
    """The stable order; NaN is the greatest."""
    keys = x.astype(np.float64) if x.dtype.kind not in "biu" else x
    if not descending:
        return np.argsort(keys, axis, kind="stable")
    turned = np.argsort(np.flip(keys, axis), axis, kind="stable")
    return np.flip(x.shape[axis] - 1 - turned, axis)


@pytest.mark.parametrize(("dtype", "size"), SIZES, ids=str)
def test_sort(dtype: DType, size: int) -> None:
    x = drawn(dtype, 2, size)
    for descending in (False, True):
        values, indices = Tensor(x).sort(descending=descending)
        wanted = ranked(x, 1, descending)
        same(indices, wanted)
        found = values.numpy()
        assert found.dtype == x.dtype
        wide = [
            a.astype(np.float64) if dtype.is_float else a for a in (found, np.take_along_axis(x, wanted, 1))
        ]
        np.testing.assert_array_equal(wide[0], wide[1])
        if dtype.is_float:
            signs = [np.signbit(a[~np.isnan(a)]) for a in wide]
            np.testing.assert_array_equal(signs[0], signs[1])


def test_sort_along_any_axis() -> None:
    x = RNG.integers(0, 5, (3, 70, 2))
    for axis in (0, 1, -1):
        same(Tensor(x).argsort(axis), np.argsort(x, axis, kind="stable"))
        same(Tensor(x).sort(axis)[0], np.sort(x, axis))
    assert Tensor(np.ones((0, 3))).sort()[0].shape == (0, 3)


def test_topk() -> None:
    x = RNG.integers(0, 50, (3, 70))
    for largest in (True, False):
        values, indices = Tensor(x).topk(4, largest=largest)
        wanted = ranked(x, 1, largest)[:, :4]
        same(indices, wanted)
        same(values, np.take_along_axis(x, wanted, 1))
    assert Tensor([1.0, np.nan, 3.0]).topk(1)[1].tolist() == [1]
    assert Tensor(x).topk(0, 0)[0].shape == (0, 70)


def test_kthvalue() -> None:
    x = RNG.integers(0, 50, (3, 7))
    values, indices = Tensor(x).kthvalue(3)
    same(values, np.sort(x)[:, 2])
    same(indices, np.argsort(x, kind="stable")[:, 2])
    assert Tensor(x).kthvalue(1, 0, keepdim=True)[0].tolist() == [x.min(0).tolist()]


def test_median() -> None:
    x = np.array([[3.0, 1.0, 2.0, 4.0], [np.nan, 1.0, 2.0, np.inf], [5.0, 5.0, -1.0, 0.0]])
    found = Tensor(x).median(1)
    assert isinstance(found, tuple)
    same(found[0], np.array([2.0, np.nan, 0.0]))
    assert found[1].tolist() == [2, 0, 3]
    kept = Tensor(x).median(0, keepdim=True)
    assert isinstance(kept, tuple)
    same(kept[0], np.array([[np.nan, 1.0, 2.0, 4.0]]))
    whole = Tensor([5, 1, 4, 2]).median()
    assert isinstance(whole, Tensor)
    assert whole.item() == 2
    assert Tensor([[5, 1], [4, 2]]).median(keepdim=True).shape == (1, 1)  # type: ignore[union-attr]


@pytest.mark.parametrize("interpolation", ["linear", "lower", "higher", "midpoint", "nearest"])
def test_quantile(interpolation: Any) -> None:
    x = RNG.random((3, 6, 2))
    given: list[Any] = [0.0, 0.3, 0.5, 1.0, [0.25, 0.5], []]
    for q in given:
        for axis in (0, 1, None):
            found = Tensor(x).quantile(q, axis, interpolation=interpolation).numpy()
            wanted = np.quantile(x, q, axis, method=interpolation)
            assert found.shape == wanted.shape
            np.testing.assert_allclose(found, wanted, rtol=1e-14)
    assert Tensor(x).quantile(Tensor([0.5]), 1, keepdim=True).shape == (1, 3, 1, 2)
    assert Tensor(x).quantile(0.5, keepdim=True).shape == (1, 1, 1)


def test_quantile_of_what_is_not_finite_or_narrow() -> None:
    assert Tensor([np.inf, np.inf, 1.0]).quantile([0.0, 0.5, 1.0]).tolist() == [1, np.inf, np.inf]
    assert np.isnan(Tensor([1.0, np.nan]).quantile(0.0).item())
    half = Tensor(np.array([1.0, 2.0], np.float16)).quantile(0.75)
    assert half.dtype is dtypes.f16
    assert half.item() == 1.75
    assert Tensor([1, 2]).quantile(0.5).dtype is dtypes.f32


@pytest.mark.parametrize("side", ["left", "right"])
def test_searchsorted(side: Any) -> None:
    for x in (
        np.sort(RNG.integers(0, 9, 13)),
        np.array([-np.inf, 1.0, 1.0, np.inf, np.nan, np.nan]),
        np.array([], np.float32),
    ):
        values = np.array([[-1, 0, 1], [5, 9, 10]]).astype(x.dtype)
        if x.dtype.kind == "f":
            values[1] = [np.inf, np.nan, -np.inf]
        same(Tensor(x).searchsorted(Tensor(values), side=side), np.searchsorted(x, values, side))
        same(Tensor(values).bucketize(x, right=side == "right"), np.searchsorted(x, values, side))
    same(
        Tensor([1.0, 2.0]).searchsorted(2, right=side == "right"), np.array(np.searchsorted([1, 2], 2, side))
    )


def test_searchsorted_of_rows() -> None:
    x, values = np.sort(RNG.integers(0, 9, (3, 7))), RNG.integers(-1, 11, (3, 4))
    wanted = np.stack([np.searchsorted(row, v, "right") for row, v in zip(x, values, strict=True)])
    same(Tensor(x).searchsorted(Tensor(values), right=True), wanted)


def test_unique() -> None:
    x = RNG.integers(0, 4, (3, 4))
    found = Tensor(x).unique(return_inverse=True, return_counts=True)
    values, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
    for one, two in zip(found, (values, inverse.reshape(x.shape), counts), strict=True):
        same(one, two)
    rows = Tensor(np.array([[1, 2], [0, 5], [1, 2]])).unique(return_counts=True, axis=0)
    assert [t.tolist() for t in rows] == [[[0, 5], [1, 2]], [1, 2]]
    distinct = Tensor([np.nan, -0.0, 0.0, np.nan]).unique()
    assert isinstance(distinct, Tensor)
    assert distinct.shape == (3,)


def test_bincount() -> None:
    x = RNG.integers(0, 9, 40)
    same(Tensor(x).bincount(), np.bincount(x))
    same(Tensor(x).bincount(minlength=12), np.bincount(x, minlength=12))
    weights = RNG.integers(0, 9, 40).astype(np.float32)
    same(Tensor(x).bincount(Tensor(weights)), np.bincount(x, weights).astype(np.float32))
    same(Tensor(x.astype(np.uint8)).bincount(Tensor(x)), np.bincount(x, x))
    assert Tensor(x[:0]).bincount().shape == (0,)


def test_sorting_within_jit() -> None:
    @jit
    def order(x: Tensor) -> tuple[Tensor, ...]:
        values, indices = x.sort()
        return values, indices, *x.topk(2), x.quantile(0.5), values.searchsorted(x)

    for x in (np.array([1.0, 3.0, 2.0]), np.array([1.0, 2.0, 2.0])):
        found = [t.numpy() for t in order(Tensor(x))]
        values = np.sort(x)
        wanted = (
            values,
            np.argsort(x, kind="stable"),
            np.flip(values)[:2],
            ranked(x, 0, True)[:2],
            2.0,
            np.searchsorted(values, x),
        )
        for one, two in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(one, two)
    assert order.traces == 1
    for reading in (Tensor.unique, Tensor.bincount):
        with pytest.raises(JitError, match="asks for a value"):
            jit(lambda x, f=reading: f(x))(Tensor([1, 2]))


def test_gradients(slopes_agree: Callable[..., None]) -> None:
    x = (RNG.permutation(24) - 12.37).reshape(4, 6)
    slopes_agree(lambda x: x.sort(0)[0], x)
    slopes_agree(lambda x: x.sort(1, descending=True)[0], x)
    slopes_agree(lambda x: x.topk(2)[0], x)
    slopes_agree(lambda x: x.kthvalue(2)[0], x)
    slopes_agree(lambda x: x.median(1)[0], x)
    slopes_agree(lambda x: x.median(), x)
    slopes_agree(lambda x: x.quantile([0.3, 0.5, 1.0], 1), x)
    slopes_agree(lambda x: x.sort()[0], RNG.permutation(70) * 0.7)


ERRORS: list[tuple[Callable[[Tensor], object], str]] = [
    (lambda t: t.sort(2), "sort: axis 2"),
    (lambda t: t.sum().argsort(1), "argsort: axis 1"),
    (lambda t: t.topk(4), "topk: 4 elements along an axis of size 3"),
    (lambda t: t.topk(-1), "topk: -1 elements"),
    (lambda t: t.kthvalue(0), "kthvalue: number 0"),
    (lambda t: t[:, :0].median(1), "median: no elements"),
    (lambda t: t[:, :0].quantile(0.5), "quantile: no elements"),
    (lambda t: t.quantile(1.5), "quantile: q=1.5"),
    (lambda t: t.quantile(float("nan")), "quantile: q=nan"),
    (lambda t: t.quantile(np.array([[0.5]])), "quantile: q="),
    (lambda t: t.quantile(0.5, interpolation="cubic"), "quantile: interpolation='cubic'"),
    (lambda t: t.searchsorted(t[0]), "searchsorted: values of shape"),
    (lambda t: t[0].searchsorted(t, side="middle"), "searchsorted: side='middle'"),
    (lambda t: t.sum().searchsorted(1), "searchsorted: in a tensor of shape"),
    (lambda t: t.bucketize(t), "bucketize: boundaries"),
    (lambda t: t.bincount(), "bincount: f32"),
    (lambda t: (t[0] - 3).int().bincount(), "bincount: -2"),
    (lambda t: t[0].int().bincount(t), "bincount: weights of shape"),
]


@pytest.mark.parametrize(("wrong", "message"), ERRORS)
def test_errors_name_the_method(wrong: Callable[[Any], object], message: str) -> None:
    with pytest.raises(TensorError, match=message):
        wrong(Tensor(np.ones((2, 3), np.float32)))
