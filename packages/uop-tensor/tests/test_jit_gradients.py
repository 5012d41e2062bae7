"""jit: gradients that a function leaves in `grad` are what they are without jit. Week 5."""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

from uop_tensor import Tensor, TensorError, jit, no_grad


def plain(f: Any) -> Any:
    return f


def grads(wrap: Callable[[Any], Any], inside: bool, outside: bool) -> list[Any]:
    """The gradient after each of several calls; where it is set to None, by whom."""
    w = Tensor([1.0, 2.0], requires_grad=True)

    def f(x: Tensor) -> Tensor:
        if inside:
            w.grad = None
        loss = (x * w * w).sum()
        loss.backward()
        return loss

    f = wrap(f)
    seen: list[Any] = []
    for i in range(5):
        if outside:
            w.grad = None
        f(Tensor([float(i), 1.0]))
        assert w.grad is not None
        seen.append(w.grad.tolist())
    return seen


@pytest.mark.parametrize("outside", [False, True])
@pytest.mark.parametrize("inside", [False, True])
def test_gradients_are_left_and_added_up(inside: bool, outside: bool) -> None:
    assert grads(jit, inside, outside) == grads(plain, inside, outside)


def test_gradients_and_the_step_in_two_functions() -> None:
    def train(wrap: Callable[[Any], Any]) -> list[float]:
        w = Tensor(np.ones((3, 2), np.float32), requires_grad=True)

        def compute(x: Tensor) -> Tensor:
            w.grad = None
            loss = ((x @ w) ** 2).mean()
            loss.backward()
            return loss

        def step(rate: float) -> None:
            assert w.grad is not None
            w.assign(w - w.grad * rate)

        compute, step = wrap(compute), wrap(step)
        losses = []
        for i in range(4):
            losses.append(compute(Tensor(np.full((4, 3), i + 1.0, np.float32))).item())
            step(0.01)
        return losses

    np.testing.assert_allclose(train(jit), train(plain), rtol=1e-6)


def test_a_gradient_that_is_taken_away() -> None:
    w = Tensor([1.0], requires_grad=True)

    @jit
    def clear() -> None:
        w.grad = None

    for _ in range(3):
        (w * 2.0).sum().backward()
        clear()
        assert w.grad is None


def test_gradient_of_an_argument() -> None:
    @jit
    def f(x: Tensor) -> None:
        (x * x).sum().backward()

    x = Tensor([3.0], requires_grad=True)
    for wanted in (6.0, 12.0, 18.0):
        f(x)
        assert x.grad is not None
        assert x.grad.tolist() == [wanted]
    assert f.traces == 1


def test_a_step_that_uses_its_gradients_up_leaves_none() -> None:
    w = Tensor([1.0], requires_grad=True)

    @jit
    def step(x: Tensor) -> Tensor:
        loss = (x * w).sum()
        loss.backward()
        assert w.grad is not None
        w.assign(w - w.grad * 0.5)
        return loss

    for _ in range(3):
        step(Tensor([1.0]))
        assert w.grad is None
    assert step.traces == 1


def test_backward_from_outside_through_a_result_is_refused() -> None:
    w = Tensor([2.0], requires_grad=True)
    inside = jit(lambda x: (x * w, x + 1))

    def gradient_of(loss: Tensor) -> Any:
        w.grad = None
        loss.backward()
        return cast(Any, w).grad.item()

    for _ in range(3):  # also where the memory of a dropped result is used again
        scaled, constant = inside(Tensor([3.0]))
        with pytest.raises(TensorError, match=r"comes from a jitted function .*within that function"):
            (scaled * scaled + w).backward()
        assert w.grad is None
        assert [gradient_of(constant * w), gradient_of(scaled.detach() * w)] == [4, 6]
        w.grad = None
    with no_grad():
        scaled, _ = inside(Tensor([3.0]))
    assert gradient_of(scaled * w) == 6

    @jit
    def step(x: Tensor) -> Tensor:
        loss = (x * w).sum()
        return loss.backward()

    assert gradient_of(w * step(Tensor([3.0]))) == 6  # that of the loss was taken within
