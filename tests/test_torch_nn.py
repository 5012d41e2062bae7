"""Optimizers, schedules, layers and models beside those of PyTorch: same weights, same results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from uop_nn import (
    SGD,
    Adam,
    AdamW,
    BatchNorm2d,
    Cosine,
    GroupNorm,
    LayerNorm,
    Linear,
    Module,
    MultiheadAttention,
    Muon,
    OneCycle,
    Optimizer,
    RMSNorm,
    Sequential,
    StepDecay,
    clip_grad_norm,
    clip_grad_value,
    load_safetensors,
    save_safetensors,
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


def same_state(ours: Module, theirs: Any) -> None:
    """Give our model the weights of PyTorch's, by name."""
    ours.load_state_dict({name: t.numpy() for name, t in theirs.state_dict().items()})


@pytest.mark.parametrize(
    ("ours", "theirs", "shape"),
    [
        (LayerNorm(6), lambda nn: nn.LayerNorm(6), (2, 3, 6)),
        (RMSNorm(6, eps=1e-3), lambda nn: nn.RMSNorm(6, eps=1e-3), (2, 3, 6)),
        (GroupNorm(2, 4), lambda nn: nn.GroupNorm(2, 4), (2, 4, 3, 5)),
        (BatchNorm2d(4), lambda nn: nn.BatchNorm2d(4), (2, 4, 3, 5)),
        (Linear(5, 3), lambda nn: nn.Linear(5, 3), (2, 5)),
    ],
)
def test_layers(ours: Any, theirs: Callable[[Any], Any], shape: tuple[int, ...]) -> None:
    reference = theirs(torch.nn)
    torch.manual_seed(0)
    for parameter in reference.parameters():
        torch.nn.init.normal_(parameter)
    same_state(ours, reference)
    data = np.random.default_rng(0).normal(1, 2, shape).astype(np.float32)
    for training in (True, True, False):
        ours.train(training)
        reference.train(training)
        x, y = Tensor(data, requires_grad=True), torch.tensor(data, requires_grad=True)
        found, expected = ours(x), reference(y)
        (found * found).sum().backward()
        (expected * expected).sum().backward()
        np.testing.assert_allclose(found.numpy(), expected.detach().numpy(), rtol=1e-4, atol=1e-5)
        assert x.grad is not None
        np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-3, atol=1e-4)
        for name, t in ours.state_dict().items():
            theirs_now = reference.state_dict()[name].numpy()
            np.testing.assert_allclose(t.numpy(), theirs_now, rtol=1e-5, err_msg=name)


def test_multihead_attention() -> None:
    ours, theirs = MultiheadAttention(8, 2), torch.nn.MultiheadAttention(8, 2, batch_first=True)
    torch.nn.init.normal_(theirs.in_proj_bias)
    same_state(ours, theirs)
    x, y = (np.random.default_rng(n).normal(size=(2, 3 + n, 8)).astype(np.float32) for n in range(2))
    expected = theirs(torch.tensor(x), torch.tensor(y), torch.tensor(y), need_weights=False)[0]
    found = ours(Tensor(x), Tensor(y)).numpy()
    np.testing.assert_allclose(found, expected.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_pytorch_reads_what_we_save_and_we_what_it_saves(tmp_path: Path) -> None:
    ours = Sequential(Linear(3, 4), BatchNorm2d(4), Linear(4, 2))
    theirs = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm2d(4), torch.nn.Linear(4, 2))
    save_safetensors(tmp_path / "ours", ours.state_dict())
    safetensors_torch = pytest.importorskip("safetensors.torch")
    theirs.load_state_dict(safetensors_torch.load_file(tmp_path / "ours"))
    for name, t in ours.state_dict().items():
        np.testing.assert_array_equal(t.numpy(), theirs.state_dict()[name].numpy())
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.mul_(2)
    halves = {"half": torch.tensor([1 / 3, -2.0]).bfloat16()}
    safetensors_torch.save_file({**theirs.state_dict(), **halves}, tmp_path / "theirs")
    found = load_safetensors(tmp_path / "theirs")
    half = Tensor(found.pop("half"))
    assert half.float().tolist() == halves["half"].float().tolist()
    ours.load_state_dict(found)
    np.testing.assert_array_equal(ours.state_dict()["0.weight"].numpy(), theirs[0].weight.detach().numpy())
