"""Layers and networks of images, against NumPy in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from uop_nn import (
    SGD,
    AvgPool2d,
    Cnn,
    Conv1d,
    Conv2d,
    ConvTranspose2d,
    MaxPool2d,
    ModelError,
    Module,
    ResNet,
    resnet18,
)
from uop_tensor import Tensor, jit

Array = NDArray[np.float64]
Spread = Callable[[Module], dict[str, Array]]


def data(*shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(1).normal(size=shape).astype(np.float32)


def windows(x: Array, size: tuple[int, int], stride: int, padding: int, fill: float = 0.0) -> Array:
    """(N, C, rows, columns, *size)."""
    x = np.pad(x, [(0, 0), (0, 0), (padding, padding), (padding, padding)], constant_values=fill)
    found: Array = np.lib.stride_tricks.sliding_window_view(x, size, (2, 3))[:, :, ::stride, ::stride]
    return found


def conv(x: Array, weight: Array, stride: int = 1, padding: int = 0) -> Array:
    found: Array = np.einsum("nchwij,ocij->nohw", windows(x, weight.shape[2:], stride, padding), weight)
    return found


def pool(x: Array, size: int, stride: int, padding: int = 0) -> Array:
    found: Array = windows(x, (size, size), stride, padding, -np.inf).max((-1, -2))
    return found


def test_conv2d(spread: Spread) -> None:
    layer, x = Conv2d(3, 4, (3, 2), stride=2, padding=1), data(2, 3, 5, 6)
    p = spread(layer)
    expected = conv(x.astype(np.float64), p["weight"], 2, 1) + p["bias"].reshape(4, 1, 1)
    np.testing.assert_allclose(layer(Tensor(x)).numpy(), expected, rtol=1e-4, atol=1e-5)
    bare = Conv2d(4, 4, 3, groups=2, bias=False, padding="same", dilation=2)
    assert {name: t.shape for name, t in bare.state_dict().items()} == {"weight": (4, 2, 3, 3)}
    wide = spread(bare)["weight"]
    holes = np.zeros((4, 2, 5, 5))
    holes[:, :, ::2, ::2] = wide
    y = data(1, 4, 4, 4)
    halves = [conv(y[:, g : g + 2].astype(np.float64), holes[g : g + 2], padding=2) for g in (0, 2)]
    np.testing.assert_allclose(bare(Tensor(y)).numpy(), np.concatenate(halves, 1), rtol=1e-4, atol=1e-5)


def test_conv1d(spread: Spread) -> None:
    layer, x = Conv1d(2, 3, 3, stride=2), data(2, 2, 9)
    p = spread(layer)
    flat = conv(x[:, :, None].astype(np.float64), p["weight"][:, :, None], 1)[:, :, 0, ::2]
    np.testing.assert_allclose(layer(Tensor(x)).numpy(), flat + p["bias"][:, None], rtol=1e-4, atol=1e-5)


def test_conv_transpose2d(spread: Spread) -> None:
    layer = ConvTranspose2d(3, 2, 3, stride=2, padding=1, output_padding=1)
    x = data(1, 3, 2, 3)
    p = spread(layer)
    assert p["weight"].shape == (3, 2, 3, 3)
    full = np.zeros((1, 2, 2 * 2 + 2, 2 * 3 + 2))  # (n - 1) * 2 + 3, and one more
    for c, i, j in np.ndindex(3, 2, 3):
        full[0, :, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3] += float(x[0, c, i, j]) * p["weight"][c]
    expected = full[:, :, 1:-1, 1:-1] + p["bias"].reshape(2, 1, 1)
    np.testing.assert_allclose(layer(Tensor(x)).numpy(), expected, rtol=1e-4, atol=1e-5)


def test_pooling() -> None:
    x = data(2, 3, 6, 7)
    wide = x.astype(np.float64)
    np.testing.assert_array_equal(MaxPool2d(2)(Tensor(x)).numpy(), pool(wide, 2, 2).astype(np.float32))
    found = MaxPool2d(3, stride=2, padding=1)(Tensor(x)).numpy()
    np.testing.assert_array_equal(found, pool(wide, 3, 2, 1).astype(np.float32))
    mean = windows(wide, (2, 3), 2, 1).mean((-1, -2))
    found = AvgPool2d((2, 3), stride=2, padding=1)(Tensor(x)).numpy()
    np.testing.assert_allclose(found, mean, rtol=1e-5, atol=1e-6)


def test_windows_at_the_end_and_over_the_padding() -> None:
    x = np.arange(25, dtype=np.float32).reshape(1, 1, 5, 5)
    largest = MaxPool2d(2, ceil_mode=True)(Tensor(x)).numpy()
    np.testing.assert_array_equal(largest[0, 0], [[6, 8, 9], [16, 18, 19], [21, 23, 24]])
    mean = AvgPool2d(3, stride=3, padding=1, ceil_mode=True, count_include_pad=False)(Tensor(x)).numpy()
    parts = [slice(0, 2), slice(2, 5)]
    np.testing.assert_allclose(mean[0, 0], [[x[0, 0, a, b].mean() for b in parts] for a in parts])
    padded = AvgPool2d(3, stride=3, padding=1)(Tensor(x)).numpy()
    np.testing.assert_allclose(padded[0, 0, 0, 0], x[0, 0, :2, :2].sum() / 9)


def test_first_values_are_those_of_pytorch() -> None:
    for layer, fan in (
        (Conv2d(8, 64, 3), 72),
        (Conv1d(16, 64, 5, groups=2), 40),
        (ConvTranspose2d(64, 8, 3), 72),
    ):
        weight, bias = (layer.state_dict()[name].numpy() for name in ("weight", "bias"))
        bound = 1 / math.sqrt(fan)
        assert 0.98 * bound < np.abs(weight).max() <= bound
        assert weight.std() == pytest.approx(bound / math.sqrt(3), rel=0.05)
        assert np.abs(bias).max() <= bound


def cnn_scores(p: dict[str, Array], x: Array) -> Array:
    for name in ("conv1", "conv2"):
        convolved = conv(x, p[f"{name}.weight"], 1, 1) + p[f"{name}.bias"].reshape(-1, 1, 1)
        x = pool(np.maximum(convolved, 0), 2, 2)
    result: Array = x.reshape(len(x), -1) @ p["output.weight"].T + p["output.bias"]
    return result


def test_a_cnn(spread: Spread) -> None:
    assert Cnn().parameter_count() == 20_490
    model = Cnn(side=8, channels=2, width=3, classes=4)
    x = data(3, 2, 8, 8)
    expected = cnn_scores(spread(model), x.astype(np.float64))
    for given in (x, x.reshape(3, -1)):
        np.testing.assert_allclose(model(Tensor(given)).numpy(), expected, rtol=1e-4, atol=1e-4)


def test_a_cnn_learns_where_a_bright_spot_is() -> None:
    random = np.random.default_rng(0)
    y = random.integers(0, 4, 32).astype(np.int32)
    x = random.uniform(0, 0.3, (32, 1, 8, 8)).astype(np.float32)
    for image, label in zip(x[:, 0], y, strict=True):
        image[4 * (label // 2) + 1, 4 * (label % 2) + 2] = 1
    model = Cnn(np.random.default_rng(0), side=8, width=4, classes=4)
    optimizer = SGD(model.parameters(), 0.3, momentum=0.9)

    @jit
    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = model.loss(x, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    losses = [step(Tensor(x), Tensor(y)).item() for _ in range(40)]
    assert losses[0] == pytest.approx(math.log(4), abs=0.1)
    assert losses[-1] < 0.1


def resnet_scores(p: dict[str, Array], x: Array, stages: int) -> Array:
    def norm(x: Array, name: str) -> Array:
        mean, var, weight, bias = (
            p[f"{name}.{part}"].reshape(-1, 1, 1)
            for part in ("running_mean", "running_var", "weight", "bias")
        )
        result: Array = (x - mean) / np.sqrt(var + 1e-5) * weight + bias
        return result

    x = np.maximum(norm(conv(x, p["conv1.weight"], 2, 3), "bn1"), 0)
    x = pool(x, 3, 2, 1)
    for stage in range(1, stages + 1):
        at, stride = f"layer{stage}.0", 1 if stage == 1 else 2
        y = np.maximum(norm(conv(x, p[f"{at}.conv1.weight"], stride, 1), f"{at}.bn1"), 0)
        y = norm(conv(y, p[f"{at}.conv2.weight"], 1, 1), f"{at}.bn2")
        if stage > 1:
            x = norm(conv(x, p[f"{at}.downsample.0.weight"], stride), f"{at}.downsample.1")
        x = np.maximum(x + y, 0)
    result: Array = x.mean((2, 3)) @ p["fc.weight"].T + p["fc.bias"]
    return result


def test_a_small_resnet(spread: Spread) -> None:
    model = ResNet((1, 1), classes=3, width=2).eval()
    x = data(2, 3, 16, 16)
    expected = resnet_scores(spread(model), x.astype(np.float64), 2)
    np.testing.assert_allclose(model(Tensor(x)).numpy(), expected, rtol=1e-3, atol=1e-4)


def test_resnet18_has_the_names_of_torchvision() -> None:
    model = resnet18(np.random.default_rng(0))
    assert model.parameter_count() == 11_689_512
    names = set(model.state_dict())
    assert len(names) == 122
    norms = [f"{part}" for part in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")]
    expected = {"conv1.weight", "fc.weight", "fc.bias", *(f"bn1.{part}" for part in norms)}
    for stage in range(1, 5):
        for block in range(2):
            at = f"layer{stage}.{block}"
            expected |= {f"{at}.conv{n}.weight" for n in (1, 2)}
            expected |= {f"{at}.bn{n}.{part}" for n in (1, 2) for part in norms}
        if stage > 1:
            expected |= {f"layer{stage}.0.downsample.0.weight"}
            expected |= {f"layer{stage}.0.downsample.1.{part}" for part in norms}
    assert names == expected
    assert model.state_dict()["layer4.1.conv2.weight"].shape == (512, 512, 3, 3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Conv2d(3, 4, 0), r"kernel_size\[0\] must be a positive integer, not 0"),
        (lambda: Conv2d(3, 4, (3, 3, 3)), r"kernel of size \(3, 3, 3\) for 2 axes"),
        (lambda: Conv1d(3, 4, 3, groups=2), "2 groups do not divide 3 inputs and 4 outputs"),
        (lambda: Conv2d(3, 4, 3, cast(Any, 2)), "Generator or None, not 2 .*by name"),
        (lambda: ConvTranspose2d(0, 4, 3), "inputs must be a positive integer, not 0"),
        (lambda: Cnn(side=10), "a side of 10 pixels cannot be halved twice"),
        (lambda: ResNet((2, 0)), r"blocks\[1\] must be a positive integer, not 0"),
    ],
)
def test_what_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        make()
