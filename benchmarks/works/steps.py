"""Training steps of small models: loss, gradients and update."""

from __future__ import annotations

import os
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from uop_nn import SGD, AdamW, Gpt, GptConfig, Mlp, Module, Optimizer
from uop_tensor import Tensor, jit

from .work import Run, Work, torch

torch_models = runpy.run_path(str(Path(__file__).parents[2] / "tests" / "torch_models.py"))
BATCH, VOCABULARY, RATE, BETAS = 32, 65, 1e-3, (0.9, 0.99)


def digits() -> tuple[Any, Any]:
    """As many images of digits and labels as a batch of MNIST has."""
    random = np.random.default_rng(0)
    return random.random((128, 784), np.float32), random.integers(0, 10, 128)


def windows() -> tuple[Any, Any]:
    """Windows of text, and the characters after each."""
    text = np.random.default_rng(0).integers(0, VOCABULARY, (BATCH, GptConfig(VOCABULARY).context + 1))
    return text[:, :-1].astype(np.int32), text[:, 1:].astype(np.int32)


def ours(
    model: Callable[[], Any], optimizer: Callable[[Module], Optimizer], batch: Callable[[], tuple[Any, Any]]
) -> Run:
    net = model()
    update = optimizer(net)

    @jit
    def step(x: Tensor, y: Tensor) -> Tensor:
        loss: Tensor = net.loss(x, y)
        loss.backward()
        update.step()
        update.zero_grad()
        return loss

    x, y = (Tensor(a).realize() for a in batch())
    return lambda: step(x, y)


def theirs(
    model: Callable[[], Any],
    optimizer: Callable[[Any], Any],
    batch: Callable[[], tuple[Any, Any]],
    compiled: bool = False,
) -> Run:
    """PyTorch, eager or compiled."""
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    torch.manual_seed(0)
    net = model()
    update = optimizer(net.parameters())
    x, y = (torch.from_numpy(a) for a in batch())
    x, y = (x if x.is_floating_point() else x.long()), y.long().flatten()

    def loss_of(x: Any, y: Any) -> Any:
        return torch.nn.functional.cross_entropy(net(x).flatten(0, -2), y)

    loss_of = torch.compile(loss_of) if compiled else loss_of

    def step() -> None:
        loss = loss_of(x, y)
        update.zero_grad()
        loss.backward()
        update.step()

    return step


def work(
    name: str,
    models: tuple[Callable[[], Any], Callable[[], Any]],
    optimizers: tuple[Callable[[Any], Any], Callable[[Any], Any]],
    batch: Callable[[], tuple[Any, Any]],
) -> Work:
    """Models and optimizers: ours, then PyTorch's."""
    sides: dict[str, Callable[[], Run]] = {"ours": lambda: ours(models[0], optimizers[0], batch)}
    if torch is not None:
        sides["torch"] = lambda: theirs(models[1], optimizers[1], batch)
        sides["torch.compile"] = lambda: theirs(models[1], optimizers[1], batch, compiled=True)
    return Work(name, sides)


WORKS = (
    work(
        "MLP step 784-128-10, batch 128, SGD",
        (lambda: Mlp(np.random.default_rng(0)), lambda: torch_models["mlp"](torch)),
        (lambda net: SGD(net.parameters(), RATE), lambda p: torch.optim.SGD(p, RATE)),
        digits,
    ),
    work(
        "GPT step, 111,360 parameters, batch 32, AdamW",
        (
            lambda: Gpt(GptConfig(VOCABULARY), np.random.default_rng(0)),
            lambda: torch_models["gpt"](torch, GptConfig(VOCABULARY)),
        ),
        (
            lambda net: AdamW(net.parameters(), RATE, betas=BETAS),
            lambda p: torch.optim.AdamW(p, RATE, betas=BETAS),
        ),
        windows,
    ),
)
