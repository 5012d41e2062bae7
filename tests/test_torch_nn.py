"""Optimizers, schedules, layers and models beside those of PyTorch: same weights, same results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from uop_nn import (
    SGD,
    Adam,
    AdamW,
    Cosine,
    Muon,
    OneCycle,
    Optimizer,
    StepDecay,
    clip_grad_norm,
    clip_grad_value,
)
from uop_tensor import Tensor

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytestmark = pytest.mark.torch

START = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
TARGET = np.random.default_rng(1).normal(size=(6, 3)).astype(np.float32)


@pytest.mark.parametrize(
    ("ours", "theirs", "options"),
    [
        (SGD, "SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
        (Adam, "Adam", {"betas": (0.8, 0.95), "weight_decay": 0.1}),
        (AdamW, "AdamW", {"weight_decay": 0.1}),
        (Muon, "Muon", {"momentum": 0.9, "weight_decay": 0.2}),
        (Muon, "Muon", {"nesterov": False}),
    ],
)
def test_optimizers(ours: type[Optimizer], theirs: str, options: dict[str, Any]) -> None:
    p, target = Tensor(START, requires_grad=True), Tensor(TARGET)
    optimizer = ours([p], 0.05, **options)
    q = torch.tensor(START, requires_grad=True)
    reference = getattr(torch.optim, theirs)([q], lr=0.05, **options)
    for _ in range(6):
        (p - target).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        optimizer.realize()
        reference.zero_grad()
        (q - torch.tensor(TARGET)).square().sum().backward()
        reference.step()
    # PyTorch computes the orthogonal matrix of Muon, whose elements are below 1, in bf16: 8 bits, times 6 rates
    atol = 6 * 0.05 * 2 * 2**-7 if ours is Muon else 1e-6
    np.testing.assert_allclose(p.numpy(), q.detach().numpy(), rtol=1e-5, atol=atol)


@pytest.mark.parametrize(
    ("ours", "make"),
    [
        (Cosine(0.5, 20, floor=0.1), lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 20, 0.1)),
        (StepDecay(0.5, 7, 0.3), lambda o: torch.optim.lr_scheduler.StepLR(o, 7, 0.3)),
        (OneCycle(0.5, 20), lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.5, 20)),
    ],
)
def test_schedules(ours: Callable[[int], float], make: Callable[[Any], Any]) -> None:
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.5)
    scheduler = make(optimizer)
    found = []
    for _ in range(20):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    assert [ours(step) for step in range(20)] == pytest.approx(found)


def test_clipping() -> None:
    for ours, theirs in (
        (clip_grad_norm, torch.nn.utils.clip_grad_norm_),
        (clip_grad_value, torch.nn.utils.clip_grad_value_),
    ):
        p, q = Tensor(START, requires_grad=True), torch.tensor(START, requires_grad=True)
        (p * p).sum().backward()
        (q * q).sum().backward()
        ours([p], 0.7)
        theirs([q], 0.7)
        assert p.grad is not None
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-6)
