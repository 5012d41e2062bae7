"""Optimizers, schedules, layers and models beside those of PyTorch: same weights, same results."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from uop_ir import dtypes
from uop_nn import (
    SGD,
    Adam,
    AdamW,
    AvgPool2d,
    BatchNorm2d,
    Cnn,
    Conv1d,
    Conv2d,
    ConvTranspose2d,
    Cosine,
    Dropout,
    Gpt2,
    Gpt2Config,
    GroupNorm,
    LayerNorm,
    Linear,
    Llama,
    LlamaConfig,
    MaxPool2d,
    Mlp,
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
    resnet18,
    save_safetensors,
)
from uop_tensor import Tensor, jit

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytestmark = pytest.mark.torch
torch_models = runpy.run_path(str(Path(__file__).with_name("torch_models.py")))

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
    # PyTorch computes the orthogonal matrix of Muon,
    # whose elements are below 1, in bf16: 8 bits, times 6 rates
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


def test_resnet18() -> None:
    torch.manual_seed(0)
    theirs = torch_models["resnet18"](torch)
    data = np.random.default_rng(0).normal(size=(2, 3, 64, 64)).astype(np.float32)
    with torch.no_grad():
        theirs(torch.tensor(data))  # in training: the averages take note
        expected = theirs.eval()(torch.tensor(data)).numpy()
    ours = resnet18(np.random.default_rng(0)).eval()
    same_state(ours, theirs)
    np.testing.assert_allclose(ours(Tensor(data)).numpy(), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kind", ["mlp", "cnn", "llama", "gpt2"])
def test_models_train_as_those_of_pytorch(kind: str) -> None:
    torch.manual_seed(0)
    config = LlamaConfig(11, context=8, layers=2, width=16, heads=4, groups=2, hidden=24)
    small = Gpt2Config(11, 8, 2, 16, 2)
    generator = np.random.default_rng(0)
    models: dict[str, Callable[[], tuple[Any, Any]]] = {
        "mlp": lambda: (Mlp(), torch_models["mlp"](torch)),
        "cnn": lambda: (Cnn(), torch_models["cnn"](torch)),
        "llama": lambda: (Llama(config), torch_models["llama"](torch, config)),
        "gpt2": lambda: (Gpt2(small), torch_models["gpt2"](torch, small)),
    }
    ours, theirs = models[kind]()
    same_state(ours, theirs)
    optimizer = AdamW(ours.parameters(), 1e-2)
    reference = torch.optim.AdamW(theirs.parameters(), 1e-2)

    @jit
    def step(x: Tensor, y: Tensor) -> Tensor:
        loss: Tensor = ours.loss(x, y)
        loss.backward()
        clip_grad_norm(ours.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss

    for _ in range(10):
        if kind in ("mlp", "cnn"):
            x: Any = generator.uniform(size=(8, 784)).astype(np.float32)
            y = generator.integers(0, 10, 8).astype(np.int32)
        else:
            tokens = generator.integers(0, 11, (4, 9)).astype(np.int32)
            x, y = tokens[:, :-1].copy(), tokens[:, 1:].copy()
        found = step(Tensor(x), Tensor(y)).item()
        scores = theirs(torch.tensor(x) if kind in ("mlp", "cnn") else torch.tensor(x).long())
        loss = torch.nn.functional.cross_entropy(scores.flatten(0, -2), torch.tensor(y).long().flatten())
        reference.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(theirs.parameters(), 1.0)
        reference.step()
        assert found == pytest.approx(loss.item(), abs=1e-4)


def test_mixed_precision_trains_as_in_pytorch() -> None:
    """bf16 over weights of f32, beside autocast,
    which rounds in other places: the losses are near each other.
    """
    torch.manual_seed(0)
    small = Gpt2Config(11, 8, 2, 16, 2)
    ours, theirs = Gpt2(small), torch_models["gpt2"](torch, small)
    same_state(ours, theirs)
    optimizer, reference = AdamW(ours.parameters(), 1e-2), torch.optim.AdamW(theirs.parameters(), 1e-2)
    tokens = np.random.default_rng(0).integers(0, 11, (4, 9)).astype(np.int32)
    x, y = tokens[:, :-1].copy(), tokens[:, 1:].copy()

    @jit
    def step(x: Tensor, y: Tensor) -> Tensor:
        with ours.computing_in(dtypes.bf16):
            loss = ours.loss(x, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    for number in range(20):
        found = step(Tensor(x), Tensor(y)).item()
        with torch.autocast("cpu", torch.bfloat16):
            scores = theirs(torch.tensor(x).long()).flatten(0, 1).float()
            loss = torch.nn.functional.cross_entropy(scores, torch.tensor(y).long().flatten())
        reference.zero_grad()
        loss.backward()
        reference.step()
        assert found == pytest.approx(loss.item(), abs=0.05 if number == 0 else 0.1)
    assert found < 1
    assert all(t.dtype is dtypes.f32 for t in (*ours.parameters(), *optimizer.state_dict().values()))


@pytest.mark.parametrize(
    ("ours", "theirs", "shape"),
    [
        (
            lambda: Conv2d(4, 6, (3, 2), stride=2, padding=1, dilation=2, groups=2),
            lambda nn: nn.Conv2d(4, 6, (3, 2), 2, 1, 2, 2),
            (2, 4, 7, 8),
        ),
        (lambda: Conv1d(2, 3, 3, padding=1), lambda nn: nn.Conv1d(2, 3, 3, padding=1), (2, 2, 6)),
        (
            lambda: ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2),
            lambda nn: nn.ConvTranspose2d(4, 6, 3, 2, 1, 1, 2),
            (2, 4, 3, 5),
        ),
        (lambda: MaxPool2d(3, stride=2, padding=1), lambda nn: nn.MaxPool2d(3, 2, 1), (2, 3, 7, 8)),
        (lambda: AvgPool2d(2), lambda nn: nn.AvgPool2d(2), (2, 3, 6, 7)),
        (lambda: Dropout(0.0), lambda nn: nn.Dropout(0.0), (2, 3)),
    ],
)
def test_layers_of_images(
    ours: Callable[[], Any], theirs: Callable[[Any], Any], shape: tuple[int, ...]
) -> None:
    layer, reference = ours(), theirs(torch.nn)
    same_state(layer, reference)
    data = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    x, y = Tensor(data, requires_grad=True), torch.tensor(data, requires_grad=True)
    found, expected = layer(x), reference(y)
    (found * found).sum().backward()
    (expected * expected).sum().backward()
    np.testing.assert_allclose(found.numpy(), expected.detach().numpy(), rtol=1e-4, atol=1e-5)
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-3, atol=1e-4)
    for (name, t), parameter in zip(layer.named_parameters(), reference.parameters(), strict=True):
        assert t.grad is not None
        np.testing.assert_allclose(t.grad.numpy(), parameter.grad.numpy(), rtol=1e-3, atol=1e-4, err_msg=name)
