"""Running sums, products and extremes against NumPy, and their gradients against loops in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from uop_ir import DType, dtypes, override
from uop_ir import settings as machine
from uop_tensor import Tensor, TensorError

Array = npt.NDArray[Any]
Differences = Callable[..., Array]
RNG = np.random.default_rng(0)

#: A running fold and NumPy's.
FOLDS: dict[str, Callable[..., Array]] = {
    "cumsum": np.cumsum,
    "cumprod": np.cumprod,
    "cummax": np.maximum.accumulate,
    "cummin": np.minimum.accumulate,
    "logcumsumexp": np.logaddexp.accumulate,
}


def folded(name: str, x: Tensor, axis: int) -> Tensor:
    found: Tensor | tuple[Tensor, Tensor] = getattr(x, name)(axis)
    return found[0] if isinstance(found, tuple) else found


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=3), st.data())
def test_every_axis_of_every_shape(shape: list[int], data: st.DataObject) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    x = RNG.standard_normal(shape)
    for name, numpys in FOLDS.items():
        found = folded(name, Tensor(x), axis).numpy()
        assert found.shape == x.shape
        np.testing.assert_allclose(found, numpys(x, axis=axis), rtol=1e-12)
    if data.draw(st.booleans()):
        n = data.draw(st.integers(0, 3))
        np.testing.assert_array_equal(Tensor(x).diff(n, axis).numpy(), np.diff(x, n, axis))


@pytest.mark.parametrize("dtype", [d for d in dtypes.all if d.is_int or d is dtypes.bool], ids=str)
def test_integers_and_bool(dtype: DType) -> None:
    x = np.array([[3, 1, 2, 3, 0, 120, 120], [0, 0, 1, 1, 0, 1, 0]]).astype(dtype.numpy)
    wide = np.uint64 if dtype.numpy.kind == "u" else np.int64
    for found, wanted in (
        (Tensor(x).cumsum(1), np.cumsum(x, 1, wide)),
        (Tensor(x).cumprod(0), np.cumprod(x, 0, wide)),
        (Tensor(x).cummax(1)[0], np.maximum.accumulate(x, 1)),
        (Tensor(x).cummin(1)[0], np.minimum.accumulate(x, 1)),
    ):
        assert found.numpy().dtype == wanted.dtype
        np.testing.assert_array_equal(found.numpy(), wanted)
    short = dtypes.i8 if dtype is dtypes.bool else dtype
    np.testing.assert_array_equal(Tensor(x).cumsum(1, dtype=short).numpy(), np.cumsum(x, 1, short.numpy))
    np.testing.assert_array_equal(Tensor(x).diff().numpy(), np.diff(x))


@pytest.mark.parametrize("dtype", [dtypes.f16, dtypes.bf16], ids=str)
def test_short_floats_are_folded_in_f32(dtype: DType) -> None:
    x = np.array([1.0] + [1e-3] * 40).astype(dtype.numpy)
    wide = x.astype(np.float32)
    for found, wanted in (
        (Tensor(x).cumsum(0), wide.cumsum()),
        (Tensor(x + 1).cumprod(0), (x + 1).astype(np.float32).cumprod()),
    ):
        np.testing.assert_array_equal(found.numpy(), wanted.astype(dtype.numpy))


def test_positions_of_extremes() -> None:
    nan = np.nan
    found = Tensor([[1, 3, 2, 3, 0], [5, nan, 7, nan, 1], [-np.inf, -np.inf, 1, 1, 2]]).cummax(1)[1]
    assert found.dtype is dtypes.i64
    assert found.tolist() == [[0, 1, 1, 3, 3], [0, 1, 1, 3, 3], [0, 1, 2, 3, 4]]
    assert Tensor([[4, 5, 4, 6, 3]]).cummin(1)[1].tolist() == [[0, 0, 2, 2, 4]]
    assert Tensor([False, True, False]).cummax(0)[1].tolist() == [0, 1, 1]


def test_special_values() -> None:
    x = np.array([-0.0, -0.0, 1, np.inf, -np.inf, np.nan, 1])
    with np.errstate(invalid="ignore"):
        for name in ("cumsum", "cumprod", "cummax", "cummin"):
            np.testing.assert_array_equal(folded(name, Tensor(x), 0).numpy(), FOLDS[name](x))
    assert np.signbit(Tensor([-0.0, 1.0]).cumprod(0).numpy()).all()
    assert np.signbit(Tensor([-0.0, -1.0]).cummax(0)[0].numpy()).tolist() == [True, True]
    early = np.array([-1000.0, -1000.0, 0.0, 800.0, -np.inf])
    np.testing.assert_allclose(
        Tensor(early).logcumsumexp(0).numpy(), np.logaddexp.accumulate(early), rtol=1e-15
    )
    assert Tensor([-np.inf, 1.0]).logcumsumexp(0).tolist() == [-np.inf, 1]
    large = np.array([1e300, 1e300, 1e-300, 1e-300])
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(Tensor(large).cumprod(0).numpy(), large.cumprod())


@pytest.mark.parametrize("name", FOLDS)
@pytest.mark.parametrize("axis", [0, 1])
def test_gradients(name: str, axis: int, differences: Differences) -> None:
    x, seed = RNG.standard_normal((3, 4)), RNG.standard_normal((3, 4))
    if name == "cumprod":
        x[1, 1] = x[0, 2] = x[2, 2] = 0

    def first(t: Tensor) -> Tensor:
        return folded(name, t, axis).gradient(t, seed=Tensor(seed))[0]

    wanted = differences(lambda a: FOLDS[name](a, axis=axis), x, seed)
    np.testing.assert_allclose(first(Tensor(x)).numpy(), wanted, rtol=1e-7, atol=1e-9)
    if name in ("cumprod", "logcumsumexp"):
        t = Tensor(x)
        twice = first(t).square().sum().gradient(t)[0].numpy()
        wanted = differences(lambda a: first(Tensor(a)).square().sum().numpy(), x, np.ones(()))
        np.testing.assert_allclose(twice, wanted, rtol=1e-5, atol=1e-7)


def test_ties_have_the_gradient_of_their_position() -> None:
    t = Tensor([2.0, 2.0, 1.0])
    assert t.cummax(0)[0].gradient(t, seed=Tensor([1.0, 10.0, 100.0]))[0].tolist() == [1, 110, 0]


def test_diff_of_what_is_joined() -> None:
    x, y, z = RNG.standard_normal((2, 3)), RNG.standard_normal((2, 1)), RNG.standard_normal((2, 2))
    found = Tensor(x).diff(2, 1, Tensor(y), Tensor(z))
    np.testing.assert_allclose(found.numpy(), np.diff(x, 2, 1, y, z), rtol=1e-12)


def test_in_compiled_code() -> None:
    """Along each axis, short and long enough to be kernels of their own, within what uses them."""
    with override(machine, dev=None):
        for shape, axis in (((50, 3), 0), ((2, 40, 3), 1), ((5, 60), 1)):
            x = RNG.standard_normal(shape)
            found = (Tensor(x).cumsum(axis) * 2).cumsum(axis)
            np.testing.assert_allclose(found.numpy(), (x.cumsum(axis) * 2).cumsum(axis), rtol=1e-11)
            values, at = Tensor(x).cummax(axis)
            np.testing.assert_array_equal(values.numpy(), np.maximum.accumulate(x, axis))
            np.testing.assert_array_equal(np.take_along_axis(x, at.numpy(), axis), values.numpy())


ERRORS: list[tuple[Callable[[Any], object], str]] = [
    (lambda t: t.cumsum(2), "cumsum: axis 2"),
    (lambda t: t.cumsum(0, dtypes.bool), "cumsum: dtype bool"),
    (lambda t: t.cumprod(-3), "cumprod: axis -3"),
    (lambda t: t[0, 0].cummax(1), "cummax"),
    (lambda t: t.cummin((0, 1)), r"cummin: axis \(0, 1\)"),
    (lambda t: t.logcumsumexp(5), "logcumsumexp"),
    (lambda t: t.diff(-1), "diff: n=-1"),
    (lambda t: t.diff(1, 0, t[0]), "cat"),
]


@pytest.mark.parametrize(("wrong", "message"), ERRORS)
def test_errors_name_the_method(wrong: Callable[[Any], object], message: str) -> None:
    with pytest.raises(TensorError, match=message):
        wrong(Tensor(np.ones((2, 3), np.float32)))
