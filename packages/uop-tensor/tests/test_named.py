"""Operators by name, logic and closeness against NumPy, over special values and dtypes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from uop_ir import DType, dtypes
from uop_tensor import Tensor, TensorError

Array = npt.NDArray[Any]

SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 2.5, -3.75, 1e-3, 1e5]
PAIRS = np.array([(a, b) for a in SPECIAL for b in SPECIAL]).T

BINARY: dict[str, Callable[[Array, Array], Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "floor_divide": np.floor_divide,
    "mod": np.remainder,
    "remainder": np.remainder,
    "fmod": np.fmod,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
    "copysign": np.copysign,
    "isclose": np.isclose,
}


def same(found: Tensor, wanted: Array) -> None:
    """Equal to the last bit, the sign of 0 included; all NaNs are one."""
    array = found.numpy()
    assert array.dtype == wanted.dtype
    np.testing.assert_array_equal(array, wanted)
    if array.dtype.kind == "f":
        real = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(array[real]), np.signbit(wanted[real]))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("name", BINARY)
def test_binary_floats(name: str, dtype: npt.DTypeLike) -> None:
    x, y = PAIRS.astype(dtype)
    if name in ("mod", "remainder", "isclose"):
        found, wanted = getattr(Tensor(x), name)(Tensor(y)), np.asarray(BINARY[name](x, y))
        np.testing.assert_array_equal(found.numpy(), wanted)
    elif name == "floor_divide" and dtype is np.float16:
        np.testing.assert_array_equal((Tensor(x) // Tensor(y)).numpy(), x // y)
    else:
        same(getattr(Tensor(x), name)(Tensor(y)), np.asarray(BINARY[name](x, y)))


@pytest.mark.parametrize("dtype", [dtypes.i8, dtypes.u8, dtypes.i64], ids=str)
def test_integers_that_are_cut_off(dtype: DType) -> None:
    values = [dtype.min, dtype.max, 1, 2, 5, 7, dtype.max - 2, dtype.min + 1]
    x, y = np.array([(a, b) for a in values for b in values if b], object).T
    wanted = [(abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1) for a, b in zip(x, y, strict=True)]
    rest = [a - q * b for q, a, b in zip(wanted, x, y, strict=True)]
    x, y = x.astype(dtype.numpy), y.astype(dtype.numpy)
    cut = np.array(wanted, object) + 2**70  # wraps as the dtype does
    np.testing.assert_array_equal(
        Tensor(x).div(Tensor(y), rounding_mode="trunc").numpy(),
        np.array([int(v) % 2**dtype.bits for v in cut], np.uint64).astype(dtype.numpy),
    )
    np.testing.assert_array_equal(Tensor(x).fmod(Tensor(y)).numpy(), np.array(rest, dtype.numpy))
    np.testing.assert_array_equal(Tensor(x).div(Tensor(y), rounding_mode="floor").numpy(), x // y)


def test_division_by_zero_of_integers() -> None:
    assert Tensor([5, -3]).div(0, rounding_mode="trunc").tolist() == [0, 0]
    assert Tensor([5, -3]).fmod(0).tolist() == [5, -3]


def test_div_of_floats_with_a_rounding_mode() -> None:
    x = np.array([7.5, -7.5, 3.0])
    assert Tensor(x).div(2.0, rounding_mode="trunc").tolist() == [3.0, -3.0, 1.0]
    assert Tensor(x).div(2.0, rounding_mode="floor").tolist() == [3.0, -4.0, 1.0]
    with pytest.raises(TensorError, match="rounding_mode='up'"):
        Tensor(x).div(2, rounding_mode="up")
    with pytest.raises(TensorError, match="div: operands of dtype bool"):
        Tensor([True]).div(True, "trunc")
    with pytest.raises(TensorError, match="fmod: operands of dtype bool"):
        Tensor([True]).fmod(True)


def test_alpha_and_value() -> None:
    x, y, z = Tensor([1, 2]), Tensor([3, 4]), Tensor([0.5, 0.25])
    assert x.add(y, alpha=2).tolist() == [7, 10]
    assert x.sub(3, alpha=2).tolist() == [-5, -4]
    assert x.add(np.array([1.0, 2.0]), alpha=0.5).tolist() == [1.5, 3.0]
    assert z.addcmul(x, y, value=2).tolist() == [6.5, 16.25]
    assert z.addcdiv(x, y).tolist() == [np.float32(0.5) + np.float32(1 / 3), 0.75]


def test_bits_by_name() -> None:
    x, y = np.array([5, -7, 12], np.int16), np.array([3, 6, 1], np.int16)
    same(Tensor(x).bitwise_and(Tensor(y)), x & y)
    same(Tensor(x).bitwise_or(Tensor(y)), x | y)
    same(Tensor(x).bitwise_xor(Tensor(y)), x ^ y)
    same(Tensor(x).bitwise_not(), ~x)
    same(Tensor(x).bitwise_left_shift(Tensor(y)), x << y)
    same(Tensor(x).bitwise_right_shift(Tensor(y)), x >> y)
    same(Tensor(x).pow(2), x**2)
    assert Tensor([1, 0]).logical_not().tolist() == [False, True]
    assert Tensor([0.0, np.nan]).logical_or(False).tolist() == [False, True]
    assert Tensor([True]).logical_and(np.array([2], np.uint64)).tolist() == [True]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", dtypes.floats, ids=str)
def test_signs_and_replacements(dtype: DType) -> None:
    x = np.array([v for v in SPECIAL if not np.isnan(v)]).astype(dtype.numpy)
    np.testing.assert_array_equal(Tensor(x).signbit().numpy(), np.signbit(x.astype(np.float64)))
    np.testing.assert_array_equal(Tensor(x).isfinite().numpy(), np.isfinite(x.astype(np.float64)))
    limit = {dtypes.bf16: 3.3895313892515355e38}.get(dtype)
    limit = float(np.finfo(dtype.numpy).max) if limit is None else limit
    found = Tensor(np.array([np.nan, np.inf, -np.inf, 1.5]).astype(dtype.numpy)).nan_to_num()
    assert found.tolist() == [0.0, limit, -limit, 1.5]
    assert found.dtype is dtype
    found = Tensor(np.array([np.nan, np.inf, -np.inf]).astype(dtype.numpy)).nan_to_num(1, 2, -3)
    assert found.tolist() == [1, 2, -3]


def test_of_whole_numbers() -> None:
    assert Tensor([1, -2]).nan_to_num().tolist() == [1, -2]
    assert Tensor([1, -2, 0]).signbit().tolist() == [False, True, False]
    assert Tensor(np.array([1, 200], np.uint8)).signbit().tolist() == [False, False]
    assert Tensor([1, -2]).isfinite().tolist() == [True, True]
    assert Tensor([1, -2]).frac().tolist() == [0, 0]
    assert Tensor([True, False]).sgn().tolist() == [True, False]
    assert Tensor([3, -2]).copysign(-1).tolist() == [-3.0, -2.0]
    assert Tensor([2**53, 5]).isclose(Tensor([2**53 + 2, 6]), rtol=0, atol=1.5).tolist() == [False, True]


def test_isclose() -> None:
    x = Tensor([1.0, 1.0, np.inf, np.nan, np.inf, 0.0])
    y = Tensor([1.1, 1.001, np.inf, np.nan, 1.0, 1e-9])
    assert x.isclose(y, rtol=0.01).tolist() == [False, True, True, False, False, True]
    assert x.isclose(y, equal_nan=True).tolist() == [False, False, True, True, False, True]
    assert y.isclose(x).tolist() == [False, False, True, False, False, True]


def test_lerp() -> None:
    x, y, w = np.array([0.1, 0.2, 1e8]), np.array([0.7, -3.0, 1.0]), np.array([0.0, 1.0, 1.0])
    np.testing.assert_array_equal(Tensor(x).lerp(Tensor(y), Tensor(w)).numpy(), [0.1, -3.0, 1.0])
    np.testing.assert_allclose(Tensor(x).lerp(Tensor(y), 0.25).numpy(), x + 0.25 * (y - x), rtol=1e-15)


def test_fractions_and_angles() -> None:
    x = np.array([1.25, -1.75, 3.0])
    assert Tensor(x).frac().tolist() == [0.25, -0.75, 0.0]
    np.testing.assert_allclose(Tensor(x).rad2deg().numpy(), np.rad2deg(x), rtol=3e-16)
    np.testing.assert_allclose(Tensor(x).deg2rad().numpy(), np.deg2rad(x), rtol=3e-16)
    assert Tensor(x).clamp(-1, 2).tolist() == [1.25, -1.0, 2.0]
    assert Tensor(x).positive().tolist() == x.tolist()


def test_gradients() -> None:
    x = Tensor(np.array([5.5, -5.5, 7.0]), requires_grad=True)
    y = Tensor(np.array([2.0, 2.0, -3.0]), requires_grad=True)
    x.fmod(y).sum().backward()
    assert x.grad is not None
    assert y.grad is not None
    assert x.grad.tolist() == [1.0, 1.0, 1.0]
    assert y.grad.tolist() == [-2.0, 2.0, 2.0]
    (grad,) = x.copysign(-1).sum().gradient(x)
    assert grad.tolist() == [-1.0, 1.0, -1.0]


def test_the_derivative_of_copysign_at_zero_is_zero() -> None:
    x = Tensor([-2.0, 0.0, -0.0, 3.0])
    (found,) = x.copysign(Tensor([1.0, -1.0, 1.0, -1.0])).sum().gradient(x)
    assert found.tolist() == [-1.0, 0.0, 0.0, -1.0]


@pytest.mark.parametrize("decimals", [-2, -1, 1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_round_to_decimals(decimals: int, dtype: npt.DTypeLike) -> None:
    x = np.array([1.25, -1.35, 1234.5678, 0.05, 15.0, 25.0, -350.0, np.inf, np.nan], dtype)
    found = Tensor(x).round(decimals=decimals).numpy()
    np.testing.assert_array_max_ulp(found[:-2], np.round(x, decimals)[:-2], 2)
    np.testing.assert_array_equal(found[-2:], x[-2:])


@pytest.mark.parametrize("number", [-1, 256, 2**64, -(2**70)])
@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.uint64])
@pytest.mark.parametrize("name", ["__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"])
def test_comparisons_with_what_a_dtype_does_not_hold(number: int, dtype: npt.DTypeLike, name: str) -> None:
    limits = np.iinfo(dtype)
    x = np.array([limits.min, 0, 7, limits.max], dtype)
    wanted = [getattr(n, name)(number) for n in x.tolist()]
    assert getattr(Tensor(x), name)(number).tolist() == wanted
