"""Folds against NumPy."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from uop_ir import DType, Ops, dtypes
from uop_tensor import Tensor, TensorError

Array = npt.NDArray[Any]
Axis = int | tuple[int, ...] | None

RNG = np.random.default_rng(1)
AXES = [None, 0, 1, 2, -1, (0, 1), (0, 2), (2, 1), (-1, 0), (0, 1, 2), ()]
DTYPES = [d for d in dtypes.all if d is not dtypes.index]


def data(dtype: DType, shape: tuple[int, ...] = (2, 3, 4)) -> Array:
    return RNG.integers(0, 2 if dtype is dtypes.bool else 5, shape).astype(dtype.numpy)


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "mean", "any", "all"])
def test_folds(name: str, axis: Axis, keepdim: bool) -> None:
    x = RNG.integers(-3, 4, (2, 3, 4)).astype(np.float64)
    found = getattr(Tensor(x), name)(axis, keepdim).numpy()
    wanted = getattr(np, name)(x, axis=axis, keepdims=keepdim)
    assert found.shape == wanted.shape
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, rtol=1e-15)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "mean", "any", "all", "argmax", "argmin"])
def test_folds_of_every_dtype(name: str, dtype: DType) -> None:
    x = data(dtype)
    found = getattr(Tensor(x), name)(axis=1)
    wide = x.astype(np.float64) if dtype.is_float else x
    wanted = getattr(np, name)(wide, axis=1)
    if dtype.is_float and name in ("sum", "prod", "max", "min", "mean"):
        wanted = wanted.astype(dtype.numpy)
    if name == "mean" and not dtype.is_float:
        wanted = wanted.astype(np.float32)
    assert found.numpy().dtype == wanted.dtype
    np.testing.assert_array_equal(found.numpy(), wanted)


def test_sums_do_not_wrap_in_the_dtype_of_the_elements() -> None:
    assert Tensor(np.full(300, 127, np.int8)).sum().item() == 300 * 127
    assert Tensor(np.full(300, 255, np.uint8)).sum().item() == 300 * 255
    assert Tensor([2**31 - 1] * 4).int().sum().item() == 4 * (2**31 - 1)
    assert Tensor(np.ones(300, bool)).sum().item() == 300
    assert Tensor(np.full(300, 127, np.int8)).sum(dtype=dtypes.i8).item() == np.int64(300 * 127).astype(
        np.int8
    )


@pytest.mark.parametrize("dtype", [dtypes.f16, dtypes.bf16], ids=str)
def test_narrow_floats_accumulate_in_f32(dtype: DType) -> None:
    x = np.full(5000, 1, dtype.numpy)
    assert Tensor(x).sum().item() == np.float32(5000).astype(dtype.numpy)
    assert Tensor(x).mean().item() == 1
    assert Tensor(x * np.array(2, dtype.numpy)).var().item() == 0


@pytest.mark.parametrize("dtype", [dtypes.i8, dtypes.i64, dtypes.u8, dtypes.u64], ids=str)
def test_extremes_of_extreme_integers(dtype: DType) -> None:
    x = np.array([dtype.max, 3, dtype.min, dtype.min, dtype.max], dtype.numpy)
    t = Tensor(x)
    assert (t.max().item(), t.min().item()) == (dtype.max, dtype.min)
    assert (t.argmax().item(), t.argmin().item()) == (0, 2)


def test_nan_and_infinity() -> None:
    x = np.array([[1, np.nan, 3], [np.inf, -np.inf, 0], [-np.inf, -np.inf, -np.inf]])
    t = Tensor(x)
    np.testing.assert_array_equal(t.max(1).numpy(), x.max(1))
    np.testing.assert_array_equal(t.min(1).numpy(), x.min(1))
    np.testing.assert_array_equal(t.argmax(1).numpy(), x.argmax(1))
    np.testing.assert_array_equal(t.argmin(1).numpy(), x.argmin(1))
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(t.sum(1).numpy(), x.sum(1))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple), st.data())
def test_positions_of_extremes(shape: tuple[int, ...], data: st.DataObject) -> None:
    x = np.array(
        data.draw(st.lists(st.integers(-2, 2), min_size=int(np.prod(shape)), max_size=int(np.prod(shape))))
    )
    x = x.reshape(shape).astype(np.float32)
    axis = data.draw(st.none() | st.integers(-len(shape), len(shape) - 1))
    keepdim = data.draw(st.booleans())
    for name in ("argmax", "argmin"):
        found = getattr(Tensor(x), name)(axis, keepdim).numpy()
        wanted = getattr(np, name)(x, axis=axis, keepdims=keepdim)
        assert found.shape == wanted.shape
        assert found.dtype == np.int64
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("axis", AXES[:-1])
@pytest.mark.parametrize("correction", [0, 1])
def test_variance(axis: Axis, correction: int) -> None:
    x = RNG.normal(3, 2, (2, 3, 4))
    for keepdim in (False, True):
        np.testing.assert_allclose(
            Tensor(x).var(axis, keepdim, correction).numpy(),
            x.var(axis, ddof=correction, keepdims=keepdim),
            rtol=1e-13,
        )
    np.testing.assert_allclose(Tensor(x).std(axis).numpy(), x.std(axis, ddof=1), rtol=1e-13)


def test_empty() -> None:
    x = np.ones((0, 3), np.float32)
    t = Tensor(x)
    assert t.sum(0).tolist() == [0, 0, 0]
    assert t.prod(0).tolist() == [1, 1, 1]
    assert t.any(0).tolist() == [False] * 3
    assert t.all(0).tolist() == [True] * 3
    assert np.isnan(t.mean().item())
    assert t.sum(1).shape == (0,)
    assert t.max(1).numpy().shape == (0,)
    for name in ("max", "min", "argmax", "argmin"):
        with pytest.raises(TensorError, match=f"{name}: no elements along axis 0"):
            getattr(t, name)(axis=0)


def test_of_no_axis() -> None:
    t = Tensor(5.0)
    assert [t.sum().item(), t.max().item(), t.mean().item(), t.argmax().item()] == [5, 5, 5, 0]


def wide(x: Array) -> Array:
    return x.astype(np.longdouble)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("scale", [1, 50, 1e4])
def test_softmax(axis: int, scale: float) -> None:
    x = RNG.normal(0, scale, (3, 4))
    shifted = wide(x) - x.max(axis, keepdims=True)
    total = np.exp(shifted).sum(axis, keepdims=True)
    np.testing.assert_allclose(
        Tensor(x).softmax(axis).numpy(), (np.exp(shifted) / total).astype(float), rtol=2e-12
    )
    logs = (shifted - np.log(total)).astype(float)
    np.testing.assert_allclose(Tensor(x).log_softmax(axis).numpy(), logs, rtol=1e-13, atol=1e-13)
    sums = (np.log(total) + x.max(axis, keepdims=True)).astype(float)
    np.testing.assert_allclose(Tensor(x).logsumexp(axis, keepdim=True).numpy(), sums, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(Tensor(x).logsumexp(axis).numpy(), sums.squeeze(axis), rtol=1e-13, atol=1e-13)


def test_softmax_with_infinities() -> None:
    assert Tensor([0.0, -np.inf, 0.0]).softmax().tolist() == [0.5, 0, 0.5]
    assert Tensor([-np.inf, -np.inf]).logsumexp().item() == -np.inf
    assert Tensor(np.zeros((2, 0))).logsumexp(1).tolist() == [
        -np.inf,
        -np.inf,
    ]  # numpy.logaddexp.reduce of none
    assert Tensor([np.inf, 1.0]).logsumexp().item() == np.inf


def test_softmax_of_f16_is_computed_in_f32() -> None:
    x = RNG.normal(0, 3, (4, 100)).astype(np.float16)
    wanted = np.exp(wide(x)) / np.exp(wide(x)).sum(1, keepdims=True)
    got = Tensor(x).softmax().numpy()
    half_a_step = np.spacing(np.maximum(got, np.float16(0))).astype(np.float64) / 2
    assert (np.abs(wide(got) - wanted) <= half_a_step + 1e-5 * wanted).all()  # rounded once, from f32


def test_a_fold_is_one_reduce_over_last_axes() -> None:
    x = Tensor.zeros(2, 3, 4).contiguous()
    nodes = [n.op for n in x.sum(-1).uop.toposort()]
    assert nodes[-1] is Ops.REDUCE
    assert Ops.PERMUTE not in nodes
    assert [n.op for n in x.sum(0).uop.toposort()][-2:] == [Ops.PERMUTE, Ops.REDUCE]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda t: t.sum(2), r"sum: axis 2 of a tensor of 2 axes \(-2 to 1\)"),
        (lambda t: t.sum(0, dtype=dtypes.bool), "sum: dtype bool"),
        (lambda t: t.prod(dtype=dtypes.bool), "prod: dtype bool"),
        (lambda t: t.mean((0, 0)), "mean: an axis twice"),
        (lambda t: t.softmax(5), "softmax: axis 5"),
        (lambda t: t.argmax(-3), "argmax: axis -3"),
        (lambda t: t.sum("x"), "sum: sizes and axes are ints"),
    ],
)
def test_errors_name_the_method(wrong: Callable[[Tensor], object], message: str) -> None:
    with pytest.raises(TensorError, match=message):
        wrong(Tensor(np.ones((2, 3), np.float32)))


def test_a_dtype_of_softmax_and_mean() -> None:
    x = np.array([[1, 2, 4], [0, -1, 5]])
    powers = np.exp(x - x.max(1, keepdims=True))
    wanted = powers / powers.sum(1, keepdims=True)
    t = Tensor(x)
    for found, expected in (
        (t.softmax(1, dtypes.f64), wanted),
        (t.log_softmax(-1, dtype=dtypes.f64), np.log(wanted)),
        (t.mean(0, dtype=dtypes.f64), x.mean(0)),
    ):
        assert found.dtype is dtypes.f64
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-14)
    with pytest.raises(TensorError, match="softmax: dtype i32"):
        t.softmax(0, dtypes.i32)
    with pytest.raises(TensorError, match="mean: dtype i64"):
        t.mean(dtype=dtypes.i64)


def test_unbiased_is_a_correction() -> None:
    x = np.array([[1.0, 2.0, 4.0], [0.0, -1.0, 5.0]])
    for unbiased in (False, True):
        found = Tensor(x).var(1, unbiased=unbiased)
        np.testing.assert_allclose(found.numpy(), x.var(1, ddof=int(unbiased)), rtol=1e-14)
        found = Tensor(x).std(unbiased=unbiased)
        np.testing.assert_allclose(found.numpy(), x.std(ddof=int(unbiased)), rtol=1e-14)


def test_both_derivatives_of_the_deviation_of_equal_elements_are_zero() -> None:
    x = Tensor([3.0, 3.0, 3.0])
    (first,) = x.std().gradient(x)
    (second,) = (first * Tensor([1.0, 2.0, 5.0])).sum().gradient(x)
    assert first.tolist() == second.tolist() == [0.0, 0.0, 0.0]
