"""Activations against their formulas in float64, over special values, and their gradients."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from uop_ir import DType, dtypes
from uop_tensor import Tensor, TensorError

Array = npt.NDArray[Any]

#: No corner of any function is among them.
X = np.array(
    [0.1, -0.1, 0.7, -0.7, 1.3, -1.3, 2.9, -2.9, 3.1, -3.1, 5.9, 6.1, -20.0, 25.0, -40.0, 90.0, 1e-4, -1e-4]
)


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def softplus(x: Array) -> Array:
    return np.asarray(np.logaddexp(x, 0))


def erfc(x: Array) -> Array:
    return np.asarray(np.vectorize(math.erfc, otypes=[np.float64])(x))


def elu(x: Array, alpha: float, scale: float = 1.0) -> Array:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0) / scale))


CASES: dict[str, tuple[Callable[[Any], Tensor], Callable[[Array], Array]]] = {
    "gelu": (lambda t: t.gelu(), lambda x: x * erfc(-x / math.sqrt(2)) / 2),
    "gelu tanh": (
        lambda t: t.gelu("tanh"),
        lambda x: x * sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)),
    ),
    "quick_gelu": (lambda t: t.quick_gelu(), lambda x: x * sigmoid(1.702 * x)),
    "swish": (lambda t: t.swish(), lambda x: x * sigmoid(x)),
    "relu6": (lambda t: t.relu6(), lambda x: np.clip(x, 0, 6)),
    "hardtanh": (lambda t: t.hardtanh(-2, 0.5), lambda x: np.clip(x, -2, 0.5)),
    "hardsigmoid": (lambda t: t.hardsigmoid(), lambda x: np.clip(x + 3, 0, 6) / 6),
    "hardswish": (lambda t: t.hardswish(), lambda x: x * np.clip(x + 3, 0, 6) / 6),
    "leaky_relu": (lambda t: t.leaky_relu(0.2), lambda x: np.where(x > 0, x, 0.2 * x)),
    "elu": (lambda t: t.elu(0.5), lambda x: elu(x, 0.5)),
    "celu": (lambda t: t.celu(2.0), lambda x: elu(x, 2.0, 2.0)),
    "selu": (lambda t: t.selu(), lambda x: 1.0507009873554805 * elu(x, 1.6732632423543772)),
    "softplus": (lambda t: t.softplus(threshold=100), softplus),
    "softplus of 2": (lambda t: t.softplus(2, 200), lambda x: softplus(2 * x) / 2),
    "logsigmoid": (lambda t: t.logsigmoid(), lambda x: -softplus(-x)),
    "mish": (lambda t: t.mish(), lambda x: x * np.tanh(softplus(x))),
    "softsign": (lambda t: t.softsign(), lambda x: x / (1 + np.abs(x))),
    "softshrink": (lambda t: t.softshrink(0.3), lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.3, 0)),
    "hardshrink": (lambda t: t.hardshrink(0.3), lambda x: np.where(np.abs(x) > 0.3, x, 0)),
    "threshold": (lambda t: t.threshold(0.5, 7), lambda x: np.where(x > 0.5, x, 7)),
}


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("dtype", dtypes.floats, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_values(name: str, dtype: DType) -> None:
    method, formula = CASES[name]
    x = X.astype(dtype.numpy)
    wanted = formula(x.astype(np.float64))
    found = method(Tensor(x))
    assert found.dtype is dtype
    rtol = {dtypes.f16: 1e-3, dtypes.bf16: 8e-3, dtypes.f32: 1e-5, dtypes.f64: 1e-13}[dtype]
    atol = {dtypes.f16: 1e-7, dtypes.bf16: 1e-38, dtypes.f32: 1e-38, dtypes.f64: 1e-300}[dtype]
    np.testing.assert_allclose(found.numpy().astype(np.float64), wanted, rtol=rtol, atol=atol)


@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str) -> None:
    method, _ = CASES[name]
    x, step = X[np.abs(X) < 50], 1e-6
    t = Tensor(x)
    (found,) = method(t).gradient(t, seed=t.ones_like())
    wanted = (method(Tensor(x + step)).numpy() - method(Tensor(x - step)).numpy()) / (2 * step)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-6, atol=1e-8)


def test_tanhshrink() -> None:
    np.testing.assert_allclose(Tensor(X).tanhshrink().numpy(), X - np.tanh(X), rtol=0, atol=1e-15)


def test_corners_and_special_values() -> None:
    x = Tensor(np.array([0.0, np.nan, np.inf]))
    for name, values in {"elu": [0, np.nan, np.inf], "softplus": [math.log(2), np.nan, np.inf],
                         "hardshrink": [0, np.nan, np.inf], "softshrink": [0, np.nan, np.inf],
                         "mish": [0, np.nan, np.inf], "relu6": [0, np.nan, 6], "gelu": [0, np.nan, np.inf],
                         "logsigmoid": [-math.log(2), np.nan, 0], "hardsigmoid": [0.5, np.nan, 1]}.items():  # fmt: skip
        np.testing.assert_allclose(getattr(x, name)().numpy(), values, rtol=1e-15)
    assert Tensor([-np.inf]).softplus().tolist() == [0.0]
    assert Tensor([-np.inf]).elu().tolist() == [-1.0]
    at = {"elu": (0, 1.0), "softplus": (0, 0.5), "logsigmoid": (0, 0.5), "relu6": (6, 0.0), "leaky_relu": (0, 0.01),
          "hardtanh": (1, 0.0), "hardsigmoid": (3, 0.0), "softsign": (0, 1.0), "mish": (0, 0.6), "gelu": (0, 0.5)}  # fmt: skip
    for name, (point, wanted) in at.items():
        t = Tensor(np.float64(point))
        np.testing.assert_allclose(getattr(t, name)().gradient(t)[0].item(), wanted, rtol=1e-15)
    assert Tensor([10.0, 30.0]).softplus(threshold=5.0).tolist() == [10.0, 30.0]


def test_prelu() -> None:
    x = np.arange(-6.0, 6.0).reshape(1, 3, 4)
    w = np.array([0.1, 0.2, 0.3])
    wanted = np.where(x > 0, x, x * w[:, None])
    np.testing.assert_array_equal(Tensor(x).prelu(Tensor(w)).numpy(), wanted)
    np.testing.assert_array_equal(Tensor(x).prelu(Tensor(w[:1])).numpy(), np.where(x > 0, x, x * 0.1))
    assert Tensor([-1.0, 2.0]).prelu(Tensor([0.5])).tolist() == [-0.5, 2.0]
    weight = Tensor(w, requires_grad=True)
    Tensor(x).prelu(weight).sum().backward()
    assert weight.grad is not None
    np.testing.assert_array_equal(weight.grad.numpy(), np.minimum(x, 0).sum((0, 2)))
    with pytest.raises(TensorError, match=r"a weight of shape \(2,\)"):
        Tensor(x).prelu(Tensor([0.1, 0.2]))


def test_glu() -> None:
    x = np.linspace(-2, 2, 24).reshape(2, 3, 4)
    np.testing.assert_allclose(Tensor(x).glu().numpy(), x[..., :2] * sigmoid(x[..., 2:]), rtol=1e-14)
    np.testing.assert_allclose(Tensor(x).glu(0).numpy(), x[:1] * sigmoid(x[1:]), rtol=1e-14)
    with pytest.raises(TensorError, match="3 elements along axis 1"):
        Tensor(x).glu(1)


def test_wrong_parameters() -> None:
    x = Tensor([1.0])
    calls: list[tuple[Callable[[], Tensor], str]] = [
        (lambda: x.gelu("sigmoid"), "approximate='sigmoid'"),
        (lambda: x.hardtanh(2, 1), "from 2 to 1"),
        (lambda: x.celu(0), "alpha=0"),
        (lambda: x.softplus(0), "beta=0"),
        (lambda: x.softshrink(-1), "lambd=-1"),
    ]
    for call, text in calls:
        with pytest.raises(TensorError, match=text):
            call()
    assert Tensor([1, -2]).elu().dtype is dtypes.f32
