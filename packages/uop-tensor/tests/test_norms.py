"""Normalization against NumPy in float64, running statistics, gradients."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from uop_ir import DType, dtypes
from uop_tensor import Tensor, TensorError, jit

Array = npt.NDArray[Any]

RNG = np.random.default_rng(23)


def normal(*shape: int) -> Array:
    return RNG.normal(0, 1, shape) * 3 + 1


def standard(x: Array, axes: tuple[int, ...], eps: float = 1e-5) -> Array:
    return np.asarray((x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps))


def per_channel(x: Array, w: Array) -> Array:
    return w.reshape(-1, *(1,) * (x.ndim - 2))


X, W, B = normal(3, 4, 2, 5), normal(4), normal(4)
CASES: dict[str, tuple[Callable[[Any], Tensor], Array]] = {
    "layer_norm of one": (lambda t: t.layer_norm(5), standard(X, (3,))),
    "layer_norm": (lambda t: t.layer_norm((2, 5), Tensor(X[0, 0]), Tensor(X[1, 1]), 1e-3),
                   standard(X, (2, 3), 1e-3) * X[0, 0] + X[1, 1]),
    "rms_norm": (lambda t: t.rms_norm((2, 5), Tensor(X[0, 0])),
                 X / np.sqrt((X * X).mean((2, 3), keepdims=True) + 2.0**-52) * X[0, 0]),
    "group_norm": (lambda t: t.group_norm(2, Tensor(W), Tensor(B)),
                   standard(X.reshape(3, 2, 2, 2, 5), (2, 3, 4)).reshape(X.shape) * per_channel(X, W) + per_channel(X, B)),
    "instance_norm": (lambda t: t.instance_norm(weight=Tensor(W)), standard(X, (2, 3)) * per_channel(X, W)),
    "batch_norm": (lambda t: t.batch_norm(None, None, Tensor(W), Tensor(B), training=True),
                   standard(X, (0, 2, 3)) * per_channel(X, W) + per_channel(X, B)),
    "batch_norm, given": (lambda t: t.batch_norm(Tensor(B), Tensor(W * W), eps=0.1),
                          (X - per_channel(X, B)) / np.sqrt(per_channel(X, W * W) + 0.1)),
    "batchnorm": (lambda t: t.batchnorm(Tensor(W), None, Tensor(B), Tensor(np.float64(2))),
                  (X - per_channel(X, B)) * 2 * per_channel(X, W)),
    "batchnorm of two axes": (lambda t: t.batchnorm(None, None, Tensor(X[0, :, 0]), Tensor([3]), axis=(1, 3)),
                              (X - X[0, :, :1]) * 3),
    "normalize": (lambda t: t.normalize(), X / np.linalg.norm(X, axis=1, keepdims=True)),
    "normalize by 1": (lambda t: t.normalize(1, -1), X / np.abs(X).sum(-1, keepdims=True)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    call, wanted = CASES[name]
    np.testing.assert_allclose(call(Tensor(X)).numpy(), wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str) -> None:
    call, _ = CASES[name]
    seed = Tensor(normal(*X.shape))
    t = Tensor(X)
    (found,) = (call(t) * seed).sum().gradient(t)
    for at in ((0, 1, 0, 2), (2, 3, 1, 4)):
        up, down = X.copy(), X.copy()
        up[at] += 1e-5
        down[at] -= 1e-5
        difference = ((call(Tensor(up)) - call(Tensor(down))) * seed).sum().item() / 2e-5
        np.testing.assert_allclose(found.numpy()[at], difference, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("dtype", [dtypes.f16, dtypes.bf16], ids=str)
def test_narrow_floats_are_normalized_in_f32(dtype: DType) -> None:
    x = normal(3, 64).astype(dtype.numpy)
    for found in (Tensor(x).layer_norm(64), Tensor(x).rms_norm(64), Tensor(x).normalize()):
        assert found.dtype is dtype
    wanted = standard(x.astype(np.float64), (1,))
    unit = {dtypes.f16: 2.0**-10, dtypes.bf16: 2.0**-7}[dtype]
    np.testing.assert_allclose(
        Tensor(x).layer_norm(64).numpy().astype(np.float64), wanted, rtol=unit, atol=1e-5
    )


def test_running_statistics() -> None:
    mean, var = Tensor(np.zeros(4)), Tensor(np.ones(4))
    want_mean, want_var = np.zeros(4), np.ones(4)
    for x in (X, X * 2 - 1):
        Tensor(x).batch_norm(mean, var, training=True, momentum=0.3)
        want_mean = want_mean * 0.7 + 0.3 * x.mean((0, 2, 3))
        want_var = want_var * 0.7 + 0.3 * x.var((0, 2, 3), ddof=1)
    np.testing.assert_allclose(mean.numpy(), want_mean, rtol=1e-12)
    np.testing.assert_allclose(var.numpy(), want_var, rtol=1e-12)
    found = Tensor(X).batch_norm(mean, var).numpy()
    wanted = (X - per_channel(X, want_mean)) / np.sqrt(per_channel(X, want_var) + 1e-5)
    np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-12)


def test_running_statistics_within_jit() -> None:
    mean, var = Tensor(np.zeros(4)).realize(), Tensor(np.ones(4)).realize()
    step = jit(lambda x: x.batch_norm(mean, var, training=True, momentum=0.5).sum())
    want = np.zeros(4)
    for k in range(3):
        step(Tensor(X + k))
        want = want * 0.5 + 0.5 * (X + k).mean((0, 2, 3))
    np.testing.assert_allclose(mean.numpy(), want, rtol=1e-12)


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_local_response(size: int) -> None:
    wanted = np.empty_like(X)
    for c in range(X.shape[1]):
        near = X[:, max(c - size // 2, 0) : c + (size - 1) // 2 + 1]
        wanted[:, c] = X[:, c] / (1.5 + 0.4 * (near * near).sum(1) / size) ** 0.6
    found = Tensor(X).local_response_norm(size, alpha=0.4, beta=0.6, k=1.5)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12)


def test_zeros_stay() -> None:
    assert Tensor([[0.0, 0.0]]).normalize().tolist() == [[0.0, 0.0]]
    assert Tensor([[2.0, 2.0]]).layer_norm(2).tolist() == [[0.0, 0.0]]
    assert Tensor([[3, 4]]).normalize().dtype is dtypes.f32


def test_errors() -> None:
    t = Tensor(X)
    calls: list[tuple[Callable[[], Tensor], str]] = [
        (
            lambda: t.layer_norm((5, 2)),
            r"layer_norm: normalized_shape \(5, 2\) of a tensor of shape \(3, 4, 2, 5\)",
        ),
        (lambda: t.rms_norm(()), "rms_norm: normalized_shape"),
        (lambda: t.group_norm(3), "3 groups of 4 channels"),
        (lambda: t.group_norm(2, Tensor([1.0])), "group_norm: a parameter of shape"),
        (lambda: t[0, 0, 0].instance_norm(), "axis 1 has the channels"),
        (lambda: t.local_response_norm(0), "local_response_norm: 0 neighbours"),
        (lambda: t[0, 0].local_response_norm(2), r"in a tensor of shape \(2, 5\)"),
        (lambda: t.batch_norm(None, None), "give both, or training=True"),
        (lambda: t[:1, :, :1, :1].batch_norm(None, None, training=True), "1 elements a channel"),
        (lambda: t.batchnorm(None, None, Tensor([1.0, 2.0]), Tensor(1.0)), "batchnorm: a tensor of shape"),
    ]
    for call, text in calls:
        with pytest.raises(TensorError, match=text):
            call()


@pytest.mark.parametrize("dtype", [dtypes.f16, dtypes.bf16])
def test_rms_norm_of_small_short_floats_has_the_epsilon_of_f32(dtype: DType) -> None:
    x = Tensor([0.01, 0.02, 0.03]).cast(dtype)
    given = x.double().numpy()
    wanted = given / np.sqrt((given * given).mean() + np.finfo(np.float32).eps)
    np.testing.assert_allclose(x.rms_norm(3).double().numpy(), wanted, rtol=2.0**-8)
