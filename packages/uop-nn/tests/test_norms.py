"""Layers that normalize, against NumPy in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from uop_ir import UopError, dtypes
from uop_nn import BatchNorm2d, GroupNorm, LayerNorm, ModelError, Module, RMSNorm
from uop_tensor import Tensor, TensorError, jit

Array = NDArray[np.float64]
Spread = Callable[[Module], dict[str, Array]]


def data(*shape: int) -> NDArray[np.float32]:
    return (np.random.default_rng(1).normal(size=shape) * 3 + 1).astype(np.float32)


def normal(x: Array, axis: Any, eps: float = 1e-5) -> Array:
    centred = x - x.mean(axis, keepdims=True)
    result: Array = centred / np.sqrt((centred**2).mean(axis, keepdims=True) + eps)
    return result


def test_rms_norm(spread: Spread) -> None:
    layer, x = RMSNorm(6, eps=1e-3), data(2, 3, 6)
    weight = spread(layer)["weight"]
    wide = x.astype(np.float64)
    expected = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-3) * weight
    np.testing.assert_allclose(layer(Tensor(x)).numpy(), expected, rtol=1e-5)
    half = layer(Tensor(x).bfloat16())
    assert half.dtype is dtypes.f32  # that of the weights
    np.testing.assert_allclose(half.numpy(), expected, rtol=2**-7)


def test_group_norm(spread: Spread) -> None:
    layer, x = GroupNorm(2, 6), data(3, 6, 2, 5)
    p = spread(layer)
    grouped = normal(x.astype(np.float64).reshape(3, 2, -1), -1).reshape(x.shape)
    expected = grouped * p["weight"].reshape(6, 1, 1) + p["bias"].reshape(6, 1, 1)
    np.testing.assert_allclose(layer(Tensor(x)).numpy(), expected, rtol=1e-4, atol=1e-5)
    flat = GroupNorm(3, 6)(Tensor(x[:, :, 0, 0])).numpy()
    expected = normal(x[:, :, 0, 0].astype(np.float64).reshape(3, 3, 2), -1).reshape(3, 6)
    np.testing.assert_allclose(flat, expected, rtol=1e-4, atol=1e-5)


def test_batch_norm_learns_its_averages(spread: Spread) -> None:
    layer = BatchNorm2d(3, momentum=0.25)
    assert (layer.running_mean.tolist(), layer.running_var.tolist()) == ([0] * 3, [1] * 3)
    p = spread(layer)
    weight, bias = p["weight"].reshape(3, 1, 1), p["bias"].reshape(3, 1, 1)
    mean, var = p["running_mean"], p["running_var"]
    train = jit(lambda x: layer(x))
    for number in range(3):
        x = data(4, 3, 2, 5) * (number + 1)
        wide = x.astype(np.float64)
        expected = normal(wide, (0, 2, 3)) * weight + bias
        np.testing.assert_allclose(train(Tensor(x)).numpy(), expected, rtol=1e-4, atol=1e-4)
        mean = 0.75 * mean + 0.25 * wide.mean((0, 2, 3))
        var = 0.75 * var + 0.25 * wide.var((0, 2, 3), ddof=1)
    np.testing.assert_allclose(layer.running_mean.numpy(), mean, rtol=1e-5)
    np.testing.assert_allclose(layer.running_var.numpy(), var, rtol=1e-5)
    assert layer.num_batches_tracked.item() == 3
    layer.eval()
    found = layer(Tensor(x[:1])).numpy()
    scale = np.sqrt(var + 1e-5).reshape(3, 1, 1)
    expected = (wide[:1] - mean.reshape(3, 1, 1)) / scale * weight + bias
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    assert layer.num_batches_tracked.item() == 3


def test_the_gradient_of_batch_norm_goes_through_its_mean_and_variance() -> None:
    layer, x = BatchNorm2d(2), Tensor(data(3, 2, 1, 2), requires_grad=True)
    seed = np.random.default_rng(2).normal(size=(3, 2, 1, 2))
    (layer(x) * Tensor(seed.astype(np.float32))).sum().backward()
    assert x.grad is not None
    wide, step = x.numpy().astype(np.float64), 1e-4
    expected = np.empty(wide.shape)
    for at in np.ndindex(*wide.shape):
        change = np.zeros(wide.shape)
        change[at] = step
        up, down = ((normal(wide + s * change, (0, 2, 3)) * seed).sum() for s in (1, -1))
        expected[at] = (up - down) / (2 * step)
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-3, atol=1e-4)


def test_a_layer_norm_without_bias(spread: Spread) -> None:
    layer = LayerNorm(4, bias=False)
    assert list(layer.state_dict()) == ["weight"]
    x = data(2, 4)
    expected = normal(x.astype(np.float64), -1) * spread(layer)["weight"]
    np.testing.assert_allclose(layer(Tensor(x)).numpy(), expected, rtol=1e-4, atol=1e-5)


def test_norms_without_weights() -> None:
    x = data(3, 6, 2, 5)
    wide = x.astype(np.float64)
    layers: list[tuple[Module, Array]] = [
        (LayerNorm(5, elementwise_affine=False), normal(wide, -1)),
        (RMSNorm(5, eps=0.0, elementwise_affine=False), wide / np.sqrt((wide**2).mean(-1, keepdims=True))),
        (GroupNorm(2, 6, affine=False), normal(wide.reshape(3, 2, -1), -1).reshape(x.shape)),
        (BatchNorm2d(6, affine=False), normal(wide, (0, 2, 3))),
    ]
    for layer, expected in layers:
        assert layer.parameters() == []
        found = cast(Any, layer)(Tensor(x)).numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(ModelError, match=r"LayerNorm\(5\) of a tensor"):
        LayerNorm(5, elementwise_affine=False)(Tensor(x[..., :4]))


def test_what_is_refused() -> None:
    x = Tensor(data(2, 3, 1, 1))
    one = Tensor(data(1, 3, 1, 1))
    wrong: list[tuple[Callable[[], object], type[UopError], str]] = [
        (lambda: RMSNorm(0), ModelError, "width must be a positive integer, not 0"),
        (lambda: RMSNorm(2)(x), TensorError, r"rms_norm: .*\(2,\).*\(2, 3, 1, 1\)"),
        (lambda: GroupNorm(2, 3), ModelError, "3 channels do not divide into 2 groups"),
        (lambda: GroupNorm(2, 4)(x), TensorError, r"group_norm: .*\(4,\).*\(2, 3, 1, 1\)"),
        (lambda: BatchNorm2d(4)(x), TensorError, r"batch_norm: .*\(4,\).*\(2, 3, 1, 1\)"),
        (lambda: BatchNorm2d(3)(x[0]), ModelError, r"takes \(N, 3, H, W\), not the shape \(3, 1, 1\)"),
        (lambda: BatchNorm2d(3)(one), TensorError, r"batch_norm: 1 elements a channel"),
    ]
    for make, kind, message in wrong:
        with pytest.raises(kind, match=message):
            make()
