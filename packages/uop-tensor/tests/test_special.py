"""Transcendental functions against the C library in float64: ulps, special values, gradients."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from uop_ir import DType, dtypes
from uop_tensor import Tensor, TensorError

Array = npt.NDArray[Any]

RNG = np.random.default_rng(11)
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 2.0, -2.0, 1e-30, -1e-30, 1e30, -1e30])


def logit(x: float) -> float:
    return math.log(x / (1 - x)) if abs(x - 0.5) > 0.25 else 2 * math.atanh(2 * x - 1)


def spread(low: float, high: float) -> Array:
    """As many numbers in each power of ten as near the ends."""
    return np.concatenate([np.geomspace(low, high, 40), np.linspace(low, high, 40)])


def both(low: float, high: float) -> Array:
    x = spread(low, high)
    return np.concatenate([x, -x])


#: The function, the derivative, arguments, and the bound in ulp (docs/functions.md).
FUNCTIONS: dict[str, tuple[Callable[[float], float], Callable[[Array], Array], Array, float]] = {
    "exp": (math.exp, np.exp, both(1e-6, 80), 4),
    "expm1": (math.expm1, np.exp, both(1e-6, 80), 4),
    "log1p": (math.log1p, lambda x: 1 / (1 + x), np.append(both(1e-6, 0.99), spread(1, 1e6)), 4),
    "log10": (math.log10, lambda x: 1 / (x * math.log(10)), spread(1e-6, 1e6), 4),
    "tan": (math.tan, lambda x: 1 / np.cos(x) ** 2, both(1e-6, 100), 4),
    "asin": (math.asin, lambda x: 1 / np.sqrt((1 - x) * (1 + x)), both(1e-6, 0.999), 4),
    "acos": (math.acos, lambda x: -1 / np.sqrt((1 - x) * (1 + x)), both(1e-6, 0.999), 4),
    "atan": (math.atan, lambda x: 1 / (1 + x * x), both(1e-6, 1e6), 4),
    "sinh": (math.sinh, np.cosh, both(1e-6, 80), 4),
    "cosh": (math.cosh, np.sinh, both(1e-6, 80), 8),
    "asinh": (math.asinh, lambda x: 1 / np.sqrt(1 + x * x), both(1e-6, 1e10), 4),
    "acosh": (math.acosh, lambda x: 1 / np.sqrt((x - 1) * (x + 1)), 1 + spread(1e-3, 1e10), 4),
    "atanh": (math.atanh, lambda x: 1 / ((1 - x) * (1 + x)), both(1e-6, 0.99), 4),
    "erf": (math.erf, lambda x: 2 / math.sqrt(math.pi) * np.exp(-x * x), both(1e-6, 6), 4),
    "erfc": (math.erfc, lambda x: -2 / math.sqrt(math.pi) * np.exp(-x * x), both(1e-6, 9), 4),
    "logit": (logit, lambda x: 1 / (x * (1 - x)), spread(1e-6, 0.999), 4),
}


@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.f64], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_ulps(name: str, dtype: DType) -> None:
    function, _, x, bound = FUNCTIONS[name]
    x = x.astype(dtype.numpy)
    wanted = np.vectorize(function, otypes=[np.float64])(x.astype(np.float64))
    found = getattr(Tensor(x), name)().numpy()
    assert found.dtype == x.dtype
    # one ulp more for what the C library is allowed, and for the rounding to the dtype
    unit = np.spacing(np.abs(wanted).astype(dtype.numpy)).astype(np.float64)
    assert (np.abs(found.astype(np.float64) - wanted) <= (bound + 1) * unit).all()


@pytest.mark.parametrize("dtype", [dtypes.f16, dtypes.bf16], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_narrow_floats_are_rounded_once(name: str, dtype: DType) -> None:
    function, _, x, _ = FUNCTIONS[name]
    x = np.clip(x, -8, 8).astype(dtype.numpy)
    x = (
        np.where(np.abs(x) >= 1, dtype.numpy.type(0.5), x)
        if name in ("asin", "atanh", "logit", "log1p")
        else x
    )
    wanted = np.vectorize(function, otypes=[np.float64])(x.astype(np.float64)).astype(dtype.numpy)
    found = getattr(Tensor(x), name)().numpy().astype(np.float64)
    unit = {dtypes.f16: 2.0**-10, dtypes.bf16: 2.0**-7}[dtype]
    np.testing.assert_allclose(found, wanted.astype(np.float64), rtol=unit, atol=2.0**-24)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_in_float64(name: str) -> None:
    """By the formula, not by differences: relative to the last few bits, wherever the function is smooth."""
    _, derivative, x, _ = FUNCTIONS[name]
    x = x[np.abs(x) < 25] if name in ("erf", "erfc") else x
    t = Tensor(x)
    (found,) = getattr(t, name)().gradient(t, seed=t.ones_like())
    np.testing.assert_allclose(
        found.numpy(), derivative(x), rtol=2e-13 if name != "tan" else 2e-12, atol=1e-300
    )


OF_NUMPY: dict[str, Callable[..., Any]] = {
    "exp": np.exp,
    "expm1": np.expm1,
    "log1p": np.log1p,
    "log10": np.log10,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": np.vectorize(math.erf),
    "erfc": np.vectorize(math.erfc),
}


def assert_same(found: Array, wanted: Array, rtol: float) -> None:
    np.testing.assert_allclose(found, wanted, rtol=rtol)
    real = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found[real]), np.signbit(wanted[real]))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.f64], ids=str)
@pytest.mark.parametrize("name", OF_NUMPY)
def test_special_values(name: str, dtype: DType) -> None:
    x = SPECIAL.astype(dtype.numpy)
    with np.errstate(all="ignore"):
        wanted = OF_NUMPY[name](x.astype(np.float64)).astype(dtype.numpy)
    assert_same(getattr(Tensor(x), name)().numpy(), wanted, 1e-6 if dtype is dtypes.f32 else 2e-15)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", ["atan2", "hypot", "logaddexp"])
def test_special_pairs(name: str) -> None:
    values = [*SPECIAL, 3.0, -0.7, 1e-310, 1e300]
    x, y = np.array([(a, b) for a in values for b in values]).T
    wanted = {"atan2": np.arctan2, "hypot": np.hypot, "logaddexp": np.logaddexp}[name](x, y)
    found = getattr(Tensor(x), name)(Tensor(y)).numpy()
    if name == "logaddexp":
        np.testing.assert_allclose(found, wanted, rtol=1e-15)
    else:
        assert_same(found, wanted, 1e-15)


def test_the_ends_of_the_exponential() -> None:
    for dtype, ends in (
        (np.float32, [88.72, 88.8, -87.5, -103.0, -104.5]),
        (np.float64, [709.7, 710.0, -745.0, -750.0]),
    ):
        given: Array = np.array(ends, dtype)
        with np.errstate(over="ignore", under="ignore"):
            wanted: Array = np.exp(given.astype(np.longdouble)).astype(dtype)
        np.testing.assert_allclose(
            Tensor(given).exp().numpy(), wanted, rtol=1e-6 if dtype is np.float32 else 1e-14
        )
    x = np.array([710.2, -710.2, 709.0])  # exp overflows, sinh and cosh do not
    np.testing.assert_allclose(Tensor(x).sinh().numpy(), np.sinh(x), rtol=1e-14)
    np.testing.assert_allclose(Tensor(x).cosh().numpy(), np.cosh(x), rtol=1e-14)
    assert Tensor([np.float32(200)]).sinh().tolist() == [math.inf]


def test_functions_of_two() -> None:
    x, y = RNG.normal(0, 2, (2, 50))
    np.testing.assert_allclose(Tensor(x).atan2(Tensor(y)).numpy(), np.arctan2(x, y), rtol=1e-15)
    np.testing.assert_allclose(Tensor(x).hypot(Tensor(y)).numpy(), np.hypot(x, y), rtol=1e-15)
    np.testing.assert_allclose(Tensor(x).logaddexp(Tensor(y)).numpy(), np.logaddexp(x, y), rtol=1e-14)
    a, b = np.array([0.0, 0.0, 2.0, 0.0, 1.0]), np.array([0.0, np.inf, 3.0, np.nan, 0.0])
    np.testing.assert_allclose(
        Tensor(a).xlogy(Tensor(b)).numpy(), [0, 0, 2 * math.log(3), np.nan, -np.inf], rtol=1e-15
    )


GRADIENTS: dict[str, Callable[[float, float], tuple[float, float]]] = {
    "atan2": lambda y, x: (x / (x * x + y * y), -y / (x * x + y * y)),
    "hypot": lambda x, y: (x / math.hypot(x, y), y / math.hypot(x, y)) if x or y else (0.0, 0.0),
    "logaddexp": lambda x, y: (1 / (1 + math.exp(y - x)), 1 / (1 + math.exp(x - y))),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_of_functions_of_two(name: str) -> None:
    pairs = [
        (1.0, 0.0),
        (0.0, 1.0),
        (-0.0, -2.0),
        (3.0, 4.0),
        (-3.0, 3.0),
        (1.0, 1.0),
        (-0.5, -7.0),
        (0.0, -0.0),
    ]
    pairs = pairs[:-1] if name == "atan2" else pairs
    x, y = map(Tensor, np.array(pairs).T)
    found = getattr(x, name)(y).gradient(x, y, seed=x.ones_like())
    wanted = np.array([GRADIENTS[name](a, b) for a, b in pairs]).T
    for f, w in zip(found, wanted, strict=True):
        np.testing.assert_allclose(f.numpy(), w, rtol=1e-14, atol=1e-16)


def test_gradients_at_zero_and_far_out() -> None:
    zero = Tensor(np.zeros(2))
    for name, wanted in {"tan": 1, "asin": 1, "acos": -1, "atan": 1, "sinh": 1, "cosh": 0, "asinh": 1, "atanh": 1,
                         "expm1": 1, "log1p": 1, "erf": 2 / math.sqrt(math.pi)}.items():  # fmt: skip
        (found,) = getattr(zero, name)().gradient(zero, seed=zero.ones_like())
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-14)
    for name in ("atan", "erf", "erfc"):
        x = Tensor(np.array([1e5, -1e5, np.inf, -np.inf]))
        (found,) = getattr(x, name)().gradient(x, seed=x.ones_like())
        np.testing.assert_allclose(found.numpy(), [1e-10, 1e-10, 0, 0] if name == "atan" else 0, rtol=1e-9)


def test_gradients_are_infinite_at_infinite_slopes() -> None:
    x = Tensor(np.array([-1.0, 0.5, 1.0]))
    (found,) = x.atanh().gradient(x, seed=x.ones_like())
    np.testing.assert_allclose(found.numpy(), [np.inf, 4 / 3, np.inf])
    x = Tensor(np.array([0.0, 0.25, 0.5, 1.0]))
    (found,) = x.logit().gradient(x, seed=x.ones_like())
    np.testing.assert_allclose(found.numpy(), [np.inf, 16 / 3, 4, np.inf])


def test_second_derivatives() -> None:
    x = np.array([0.3, -0.7, 0.9])
    second = {
        "tan": 2 * np.tan(x) / np.cos(x) ** 2,
        "asin": x / (1 - x * x) ** 1.5,
        "atan": -2 * x / (1 + x * x) ** 2,
        "erf": -4 * x / math.sqrt(math.pi) * np.exp(-x * x),
        "expm1": np.exp(x),
        "log1p": -1 / (1 + x) ** 2,
        "asinh": -x / (1 + x * x) ** 1.5,
    }
    for name, wanted in second.items():
        t = Tensor(x)
        (first,) = getattr(t, name)().sum().gradient(t)
        np.testing.assert_allclose(first.sum().gradient(t)[0].numpy(), wanted, rtol=1e-11)


INTEGERS = [d for d in dtypes.all if d.is_int and d is not dtypes.index]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_common_divisors(dtype: DType) -> None:
    """Of random numbers, those that take most steps, and the greatest."""
    low, high = int(dtype.min), int(dtype.max)
    x, y = (np.array([RNG.integers(low, high, dtype=dtype.numpy) for _ in range(30)]) for _ in range(2))
    a, b = 1, 1
    while a + b <= high:
        a, b = b, a + b
    x[:6], y[:6] = [a, b, 0, 0, high, 12], [b, a, 5, 0, high, 18]
    found = Tensor(x).gcd(Tensor(y))
    np.testing.assert_array_equal(found.numpy(), np.gcd(x, y), strict=True)
    # what wraps is that of the absolute values
    np.testing.assert_array_equal(Tensor(x).lcm(Tensor(y)).numpy(), np.lcm(x, y), strict=True)
    x, y = x % 11, y % 11
    np.testing.assert_array_equal(Tensor(x).lcm(Tensor(y)).numpy(), np.lcm(x, y), strict=True)
    assert Tensor([8], dtype=dtype).gcd(12).tolist() == [4]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_next_number(dtype: Any) -> None:
    ends = [0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, np.finfo(dtype).max, np.finfo(dtype).tiny]
    x, y = np.meshgrid(np.array(ends, dtype), np.array(ends, dtype))
    with np.errstate(all="ignore"):
        wanted = np.nextafter(x, y)
    found = Tensor(x).nextafter(Tensor(y)).numpy()
    np.testing.assert_array_equal(found, wanted, strict=True)
    zeros = (found == 0) & (x != y)
    np.testing.assert_array_equal(np.signbit(found[zeros]), np.signbit(wanted[zeros]))


def test_steps_scales_and_sinc() -> None:
    x = np.array([-2.0, -0.0, 0.0, 3.0, np.nan, np.inf])
    np.testing.assert_array_equal(Tensor(x).heaviside(0.5).numpy(), np.heaviside(x, 0.5))
    assert Tensor([-1, 0, 2]).heaviside(Tensor([5, 6, 7])).tolist() == [0, 6, 1]
    y = RNG.normal(0, 3, 20)
    np.testing.assert_allclose(Tensor(y).sinc().numpy(), np.sinc(y), rtol=1e-13, atol=1e-16)
    assert Tensor([0.0]).sinc().tolist() == [1]
    powers = RNG.integers(-9, 9, 20)
    np.testing.assert_array_equal(Tensor(y).ldexp(Tensor(powers)).numpy(), np.ldexp(y, powers))


def test_dtypes_and_errors() -> None:
    assert Tensor([1, 2]).erf().dtype is dtypes.f32
    assert Tensor([True]).atan2(Tensor([1])).dtype is dtypes.f32
    assert Tensor(np.zeros((0, 3), np.float16)).tan().shape == (0, 3)
    assert Tensor(np.float64(0.5)).asin().shape == ()
    np.testing.assert_allclose(
        Tensor(np.array([0.0, 0.5, 1.0])).logit(0.1).numpy(), [math.log(1 / 9), 0, math.log(9)]
    )
    with pytest.raises(TensorError, match="do not broadcast"):
        Tensor([1.0, 2.0]).atan2(Tensor([1.0, 2.0, 3.0]))
    wrongs: list[tuple[Callable[[], Tensor], str]] = [
        (lambda: Tensor([1.0]).gcd(2), "gcd: operands of dtype f32"),
        (lambda: Tensor([True]).lcm(Tensor([False])), "lcm: operands of dtype bool"),
        (lambda: Tensor([True]).heaviside(Tensor([True])), "heaviside: operands of dtype bool"),
    ]
    for wrong, message in wrongs:
        with pytest.raises(TensorError, match=message):
            wrong()
