"""Gradients between backward and the step: clipped, added up; and moving averages of weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

from uop_ir import dtypes
from uop_nn import (
    SGD,
    Ema,
    GradientAccumulator,
    Mlp,
    ModelError,
    OptimizerError,
    clip_grad_norm,
    clip_grad_value,
)
from uop_tensor import Tensor, jit

GRADIENTS = (np.array([3.0, -4.0], np.float32), np.array([[12.0]], np.float32))


def parameters() -> list[Tensor]:
    """Two whose gradients are GRADIENTS, of common norm 13, and one that has none."""
    found = [Tensor(np.ones(g.shape, np.float32), requires_grad=True) for g in GRADIENTS]
    loss = (found[0] * Tensor(GRADIENTS[0])).sum() + (found[1] * Tensor(GRADIENTS[1])).sum()
    loss.backward()
    return [*found, Tensor(np.ones(1, np.float32), requires_grad=True)]


def gradient(parameter: Tensor) -> Any:
    assert parameter.grad is not None
    return parameter.grad.numpy()


@pytest.mark.parametrize("limit", [6.5, 13.0, 100.0])
def test_a_norm_is_clipped(limit: float) -> None:
    found = parameters()
    assert clip_grad_norm(found, limit).item() == 13
    for parameter, expected in zip(found, GRADIENTS, strict=False):
        np.testing.assert_allclose(gradient(parameter), expected * min(1, limit / 13), rtol=1e-6)
    assert found[2].grad is None


def test_gradients_of_bf16_are_clipped_in_f32() -> None:
    p = Tensor(np.ones(300, np.float32)).bfloat16()
    p.requires_grad = True
    p.sum().backward()
    assert clip_grad_norm([p], 1.0).item() == pytest.approx(300**0.5)
    assert p.grad is not None
    assert p.grad.dtype is dtypes.bf16


def test_values_are_clipped() -> None:
    found = parameters()
    clip_grad_value(found, 3.5)
    np.testing.assert_array_equal(gradient(found[0]), [3.0, -3.5])
    np.testing.assert_array_equal(gradient(found[1]), [[3.5]])


def test_gradients_of_two_batches_are_those_of_one_of_both() -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(8, 4)).astype(np.float32)
    y = random.integers(0, 2, 8).astype(np.int32)
    model, other = (Mlp(np.random.default_rng(1), inputs=4, hidden=3, classes=2) for _ in range(2))
    optimizer = SGD(model.parameters(), 0.5)
    sums = GradientAccumulator(model.parameters())

    @jit
    def add(x: Tensor, y: Tensor) -> Tensor:
        loss = model.loss(x, y)
        loss.backward()
        sums.add(0.5)
        return loss

    @jit
    def step() -> None:
        sums.apply()
        clip_grad_norm(model.parameters(), 100.0)
        optimizer.step()
        optimizer.zero_grad()

    whole = SGD(other.parameters(), 0.5)
    for _ in range(2):
        add(Tensor(x[:4]), Tensor(y[:4]))
        add(Tensor(x[4:]), Tensor(y[4:]))
        step()
        other.loss(Tensor(x), Tensor(y)).backward()
        whole.step()
        whole.zero_grad()
    for name, t in model.state_dict().items():
        np.testing.assert_allclose(t.numpy(), other.state_dict()[name].numpy(), rtol=1e-5, atol=1e-6)
    assert list(sums.state_dict()) == [f"gradient.{n}" for n in range(4)]
    sums.load_state_dict({name: np.ones(t.shape, np.float32) for name, t in sums.state_dict().items()})
    sums.apply()
    np.testing.assert_array_equal(gradient(model.parameters()[0]), np.ones((3, 4)))


def test_an_average_of_weights() -> None:
    model = Mlp(np.random.default_rng(1), inputs=2, hidden=2, classes=2)
    p = model.output.bias
    assert p is not None
    first = p.numpy()
    average = Ema(model, 0.75)

    @jit
    def step() -> None:
        p.assign((p + 1).detach())
        average.update()

    expected = first.astype(np.float64)
    for number in range(1, 4):
        step()
        expected = 0.75 * expected + 0.25 * (first + number)
        np.testing.assert_allclose(average.state_dict()["output.bias"].numpy(), expected, rtol=1e-5)
    with average.in_place():
        np.testing.assert_allclose(p.numpy(), expected, rtol=1e-5)
    np.testing.assert_array_equal(p.numpy(), first + 3)
    assert average.state_dict().keys() == model.state_dict().keys()
    average.load_state_dict(model.state_dict())
    np.testing.assert_array_equal(average.state_dict()["output.bias"].numpy(), first + 3)
    with pytest.raises(ModelError, match="missing"):
        average.load_state_dict({})


def test_what_is_refused() -> None:
    p = Tensor(np.ones(2, np.float32), requires_grad=True)
    model = Mlp(np.random.default_rng(1), inputs=2, hidden=2, classes=2)
    wrong: list[tuple[Callable[[], object], str]] = [
        (lambda: clip_grad_norm([p], 0.0), "max_norm must be above 0, not 0.0"),
        (lambda: clip_grad_norm([p], 1.0), "clip_grad_norm: no parameter has a gradient.*backward"),
        (lambda: clip_grad_value([p], -1.0), "limit must be above 0, not -1.0"),
        (lambda: clip_grad_value([p], 1.0), "clip_grad_value: no parameter has a gradient"),
        (lambda: GradientAccumulator([p]).add(), "add: no parameter has a gradient"),
        (
            lambda: clip_grad_norm(p, 1.0),
            r"clip_grad_norm needs a list of parameters, not Tensor \(give \[tensor\]\)",
        ),
        (lambda: clip_grad_norm(cast(Any, model), 1.0), r"not Mlp \(give model.parameters\(\)\)"),
        (
            lambda: GradientAccumulator(cast(Any, model)),
            "GradientAccumulator needs a list of parameters, not Mlp",
        ),
        (lambda: Ema(model, 1.0), r"decay must be in \[0, 1\), not 1.0"),
    ]
    for make, message in wrong:
        with pytest.raises(OptimizerError, match=message):
            make()
