"""lgamma, digamma and erfinv against the C library, series and quantiles in float64."""

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from uop_ir import DType, dtypes
from uop_tensor import Tensor, TensorError

Array = npt.NDArray[Any]

RNG = np.random.default_rng(5)
REAL = np.concatenate(
    [
        RNG.uniform(-6, 12, 300),
        RNG.uniform(0, 1e-3, 10),
        -np.geomspace(1e-30, 0.1, 20),
        np.geomspace(10, 1e30, 40),
        1 + RNG.normal(0, 1e-5, 20),
        2 + RNG.normal(0, 1e-5, 20),
    ]
)
UNIT = np.concatenate(
    [RNG.uniform(-1, 1, 300), 1 - np.geomspace(1e-6, 0.1, 40), np.geomspace(1e-30, 1e-3, 20)]
)


def digamma(x: float) -> float:
    """By digamma(x + 1) = digamma(x) + 1 / x from 100 on, where three terms of the series are enough."""
    steps = max(math.ceil(100 - x), 0)
    m = x + steps
    series = math.log(m) - 1 / (2 * m) - 1 / (12 * m**2) + 1 / (120 * m**4)
    return math.fsum([series, *(-1 / (x + i) for i in range(steps))])


def erfinv(x: float) -> float:
    """The quantile of the normal distribution;
    of small numbers the series, from what the nearest to 1/2 loses.
    """
    if abs(x) < 0.01:
        return math.sqrt(math.pi) / 2 * (x + math.pi * x**3 / 12 + 7 * math.pi**2 * x**5 / 480)
    return math.copysign(-NormalDist().inv_cdf((1 - abs(x)) / 2), x) / math.sqrt(2)


#: The function, its derivative, and arguments.
FUNCTIONS: dict[str, tuple[Callable[[float], float], Callable[[float], float] | None, Array]] = {
    "lgamma": (math.lgamma, digamma, REAL),
    "digamma": (digamma, None, REAL),
    "erfinv": (erfinv, lambda x: math.sqrt(math.pi) / 2 * math.exp(erfinv(x) ** 2), UNIT),
}


@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.f64, dtypes.f16], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values(name: str, dtype: DType) -> None:
    """f32 and f16 are right to the last bit but one;
    f64 to 7e-15 of the value, or of 1, if that is greater.
    """
    function, _, x = FUNCTIONS[name]
    with np.errstate(over="ignore"):  # what is too large for f16
        x = x.astype(dtype.numpy)
        x = x[np.isfinite(x) & (x != np.trunc(x))]
        wanted = np.array([function(v) for v in x.astype(np.float64)])
        kept = np.isfinite(wanted.astype(dtype.numpy))
    found = getattr(Tensor(x[kept]), name)()
    assert found.dtype is dtype
    unit = np.spacing(np.abs(wanted[kept]).astype(dtype.numpy)).astype(np.float64)
    if dtype is dtypes.f64:
        unit = 64 * 2.0**-53 * np.maximum(1, np.abs(wanted[kept]))
    assert (np.abs(found.numpy().astype(np.float64) - wanted[kept]) <= unit).all()


def test_special_values() -> None:
    x = [0.0, -0.0, 1.0, 2.0, -1.0, -20.0, math.inf, -math.inf, math.nan, 0.5]
    inf, nan, gamma = math.inf, math.nan, 0.5772156649015329
    for dtype in (dtypes.f32, dtypes.f64):
        t = Tensor(x, dtype=dtype)
        for name, wanted in {
            "lgamma": [inf, inf, 0, 0, inf, inf, inf, inf, nan, math.log(math.pi) / 2],
            "digamma": [-inf, inf, -gamma, 1 - gamma, nan, nan, inf, nan, nan, -gamma - 2 * math.log(2)],
            "erfinv": [0, 0, inf, nan, -inf, nan, nan, nan, nan, 0.4769362762044699],
        }.items():
            found = getattr(t, name)().numpy()
            np.testing.assert_allclose(found, wanted, rtol=1e-6 if dtype is dtypes.f32 else 1e-14)
    assert math.copysign(1, Tensor([-0.0]).erfinv().item()) == -1
    assert Tensor([1, 3]).lgamma().dtype is dtypes.f32


def test_the_last_numbers_below_1_have_an_inverse_as_exact_as_the_others() -> None:
    """Computed with 40 digits."""
    found = Tensor(np.array([1 - 2.0**-53, 1 - 2.0**-40])).erfinv().numpy()
    np.testing.assert_allclose(found, [5.863584748755168, 5.05125408524939], rtol=6e-16)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients(name: str) -> None:
    _, derivative, x = FUNCTIONS[name]
    x = x[(np.abs(x) > 1e-3) & (np.abs(x) < 11) & (x != np.trunc(x))]
    t = Tensor(x)
    (found,) = getattr(t, name)().gradient(t, seed=t.ones_like())
    (second,) = found.gradient(t, seed=t.ones_like())
    if derivative is not None:
        np.testing.assert_allclose(found.numpy(), [derivative(v) for v in x], rtol=1e-11, atol=1e-12)
    step = 1e-5 * np.minimum(1, np.abs(x - np.round(x)) if name != "erfinv" else 1 - np.abs(x))
    shifted = [Tensor(x + s) for s in (step, -step)]
    ahead, behind = (getattr(s, name)().gradient(s, seed=s.ones_like())[0].numpy() for s in shifted)
    np.testing.assert_allclose(second.numpy(), (ahead - behind) / (2 * step), rtol=1e-4, atol=1e-2)


def polygamma(n: int, x: float) -> float:
    """The sum of (x + k)**-(n + 1), from k = 3000 on by three terms of the series of Euler and Maclaurin."""
    s, m = n + 1, x + 3000
    rest = m**-n / n + m**-s / 2 + s * m ** (-s - 1) / 12
    total = math.fsum([*((x + k) ** -s for k in range(3000)), rest])
    return float((-1.0) ** s * math.factorial(n) * total)


@pytest.mark.parametrize("n", [1, 2, 3, 8, 20])
def test_polygamma(n: int, slopes_agree: Callable[..., None]) -> None:
    x = np.concatenate([RNG.uniform(-6, 12, 60), np.geomspace(1e-3, 1e4, 20)])
    wanted = np.array([polygamma(n, v) for v in x])
    np.testing.assert_allclose(Tensor(x).polygamma(n).numpy(), wanted, rtol=6e-15)
    sign = (-1.0) ** (n + 1)
    assert Tensor([0.0, -0.0, -1.0, math.inf]).polygamma(n).tolist() == [sign * math.inf] * 3 + [0]
    slopes_agree(lambda v: v.polygamma(n), RNG.uniform(-2.8, -2.2, 4))
    slopes_agree(lambda v: v.polygamma(n), RNG.uniform(0.5, 3, 4))


def test_which_derivatives_of_digamma_there_are() -> None:
    assert Tensor([1.5]).polygamma(0).tolist() == Tensor([1.5]).digamma().tolist()
    assert Tensor([1]).polygamma(1).item() == pytest.approx(math.pi**2 / 6, rel=1e-7)
    for n in (-1, 21):
        with pytest.raises(TensorError, match=f"polygamma: n={n}"):
            Tensor([1.5]).polygamma(n)
