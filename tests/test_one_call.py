"""A jitted training step is one call of the backend, whatever the optimizer and what is done beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from uop_ir import get_backend
from uop_nn import SGD, Adam, CombinedOptimizer, Ema, Lion, Mlp, Muon, Optimizer, clip_grad_norm
from uop_tensor import Tensor, clear_plans, jit


class Watched:
    """A linked plan that counts its calls."""

    def __init__(self, run: Callable[..., None], calls: list[int]) -> None:
        self.run, self.calls = run, calls

    def __call__(self, memory: Sequence[Any], scalars: Sequence[float | int]) -> None:
        self.calls.append(len(memory))
        self.run(memory, scalars)


@pytest.mark.parametrize(
    "make",
    [
        lambda m: SGD(m.parameters(), momentum=0.9, nesterov=True, weight_decay=0.1),
        lambda m: Adam(m.parameters()),
        lambda m: CombinedOptimizer(
            Muon([m.hidden.weight]), Lion([m.hidden.bias, m.output.weight, m.output.bias])
        ),
    ],
    ids=["SGD", "Adam", "Muon and Lion"],
)
def test_a_step_is_one_call(make: Callable[[Any], Optimizer], monkeypatch: pytest.MonkeyPatch) -> None:
    backend, calls = get_backend("CPU"), list[int]()
    link = backend.link
    clear_plans()
    monkeypatch.setattr(backend, "link", lambda plan: Watched(link(plan), calls))
    model = Mlp(np.random.default_rng(0), inputs=6, hidden=5, classes=3)
    optimizer, average = make(model), Ema(model)

    @jit
    def step(x: Tensor, y: Tensor, lr: float) -> tuple[Tensor, Tensor]:
        loss = model.loss(x, y)
        loss.backward()
        norm = clip_grad_norm(model.parameters(), 1.0)
        optimizer.step(lr)
        optimizer.zero_grad()
        average.update()
        return loss, norm

    x = Tensor(np.random.default_rng(1).normal(size=(4, 6)).astype(np.float32))
    y = Tensor(np.array([0, 1, 2, 0], np.int32))
    losses = []
    for number in range(4):
        calls.clear()
        loss, _ = step(x, y, 0.1 / (number + 1))
        assert number == 0 or len(calls) == 1  # the first finds the state where it was made
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    clear_plans()
