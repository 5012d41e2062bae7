"""How exact the functions of real numbers are as the backend CPU runs them,
in vectors: no more off than the docs say.

The arguments are bit patterns over the whole range: subnormals, both zeros, infinities and NaN are among
them. What is exact is computed by NumPy in a wider type, f64 for f32 and the long double of x86 for f64.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from uop_ir import DType, dtypes, override, settings
from uop_tensor import Tensor

Array = npt.NDArray[Any]
DOCS = Path(__file__).parents[1] / "docs" / "functions.md"
#: The table says what was found at some arguments; others may be off by so much more.
MARGIN = 0.5
WIDER = {dtypes.f32: np.float64, dtypes.f64: np.longdouble}
TYPES = (
    dtypes.f32,
    pytest.param(
        dtypes.f64,
        marks=[
            pytest.mark.net,
            pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="long double is no wider than f64"),
        ],
    ),
)
erf = np.vectorize(math.erf, otypes=[np.float64])
erfc = np.vectorize(math.erfc, otypes=[np.float64])


def softplus(x: Array) -> Array:
    """As in torch, x itself from 20 on."""
    return np.where(x > 20, x, np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))))


def logsigmoid(x: Array) -> Array:
    return np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x)))


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def logit(x: Array) -> Array:
    near = np.abs(x - 0.5) < 0.25
    return np.where(near, np.log1p((2 * x - 1) / (1 - x)), np.log(x) - np.log1p(-x))


#: Each function, exact.
EXACT: dict[str, Callable[[Array], Array]] = {
    "exp2": np.exp2,
    "log2": np.log2,
    "sin": np.sin,
    "tanh": np.tanh,
    "erf": erf,
    "exp": np.exp,
    "log": np.log,
    "cos": np.cos,
    "log1p": np.log1p,
    "expm1": np.expm1,
    "softplus": softplus,
    "logsigmoid": logsigmoid,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": lambda x: 1 / x,
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
    "erfc": erfc,
    "logit": logit,
}
#: In every run those of one op, or almost; the others in the net.
OFTEN = ("exp2", "log2", "sin", "tanh", "erf", "exp", "log")
NAMES = [name if name in OFTEN else pytest.param(name, marks=pytest.mark.net) for name in EXACT]
#: Functions with the shorter exponential, or with an argument that is rounded: ulps at x.
GROWING: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array]]] = {
    "sigmoid": (sigmoid, lambda x: 4 + np.abs(x)),
    "silu": (lambda x: np.where(x == -np.inf, np.nan, x * sigmoid(x)), lambda x: 4 + np.abs(x)),
    "mish": (lambda x: x * np.tanh(np.logaddexp(0, x)), lambda x: 4 + np.abs(x)),
    "gelu": (lambda x: 0.5 * x * erfc(-x / math.sqrt(2)), lambda x: 4 + 1.7 * np.minimum(x, 0) ** 2),
}


def documented() -> dict[tuple[str, DType], float]:
    """The greatest error that docs/functions.md says, by function and type."""
    cells = re.findall(r"\| `(\w+)` \| ([0-9.]+) \| ([0-9.]+) (?=\|)", DOCS.read_text())
    found = {(name, dtypes.f32): float(single) for name, single, _ in cells}
    return found | {(name, dtypes.f64): float(double) for name, _, double in cells}


def arguments(dtype: DType) -> Array:
    """All of the range by bit patterns, evenly, then more about 0, and the ends of everything."""
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 1 << 8 * dtype.itemsize, 30_000, dtype=f"u{dtype.itemsize}")
    near = rng.normal(0, 1, 30_000) * 10.0 ** rng.integers(-6, 3, 30_000)
    tiny, least = np.finfo(dtype.numpy).tiny, np.finfo(dtype.numpy).smallest_subnormal
    ends = np.array([0, 1, np.inf, tiny, least, 7 * least, tiny - least, np.finfo(dtype.numpy).max / 4])
    return np.concatenate([bits.view(dtype.numpy), near, ends, -ends, [np.nan]]).astype(dtype.numpy)


def errors(name: str, exact: Callable[[Array], Array], x: Array, dtype: DType) -> Array:
    """In ulp; infinite where one of both is no number, or has the other sign, and the other is not so."""
    with np.errstate(all="ignore"):
        precise = exact(x.astype(WIDER[dtype]))
        wanted = precise.astype(dtype.numpy)
        with override(settings, dev="CPU"):
            found = getattr(Tensor(x), name)().numpy()
        unit = np.spacing(np.abs(wanted)) if name != "cos" else np.finfo(dtype.numpy).eps
        off: Array = np.abs(found.astype(precise.dtype) - precise) / unit
    numbers = np.isfinite(found) & np.isfinite(wanted) & (np.signbit(found) == np.signbit(wanted))
    same = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
    return np.where(numbers, off, np.where(same, 0, np.inf)).astype(np.float64)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_no_more_off_than_documented(name: str, dtype: DType) -> None:
    x = arguments(dtype)
    if name == "tan":  # NaN where twice the argument is infinite
        x = x[~(np.abs(x) > np.finfo(dtype.numpy).max / 2)]
    off = errors(name, EXACT[name], x, dtype)
    bound = documented()[name, dtype] + MARGIN + (name in ("erf", "erfc") and dtype is dtypes.f64)  # of libm
    worst = off.argmax()
    assert off[worst] <= bound, f"{name}({x[worst]!r}) is {off[worst]:.2f} ulp off"


@pytest.mark.net
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", GROWING)
def test_what_loses_more_far_out(name: str, dtype: DType) -> None:
    exact, bound = GROWING[name]
    x = arguments(dtype)
    if name == "gelu" and dtype is dtypes.f64:  # math.erfc takes no more than f64
        x = x[~(np.abs(x) > 1)]
    off = errors(name, exact, x, dtype)
    with np.errstate(over="ignore"):
        most = np.where(np.isnan(x), 0, bound(x.astype(np.float64)))
    worst = np.argmax(off > most)
    assert off[worst] <= most[worst], f"{name}({x[worst]!r}) is {off[worst]:.2f} ulp off"


def test_every_function_has_its_row() -> None:
    assert {(name, dtype) for name in EXACT for dtype in WIDER} == set(documented())
