"""The GPT beside the same model in PyTorch: same weights, same batches, same losses."""

from __future__ import annotations

import math
import runpy
from pathlib import Path

import numpy as np
import pytest

from uop_nn import AdamW, CharTokenizer, Gpt, GptConfig, RandomBatches, load_text, warmup_cosine
from uop_tensor import Tensor, jit

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

torch_models = runpy.run_path(str(Path(__file__).with_name("torch_models.py")))
STEPS, BATCH, BETAS = 50, 32, (0.9, 0.99)


@pytest.mark.torch
def test_the_gpt_has_the_losses_of_pytorch() -> None:
    text, _ = load_text(None, 1000)
    tokenizer = CharTokenizer(text)
    config = GptConfig(len(tokenizer))
    model, other = Gpt(config, np.random.default_rng(0)), torch_models["gpt"](torch, config)
    state = {name: torch.from_numpy(t.numpy()) for name, t in model.state_dict().items()}
    other.load_state_dict(state)
    optimizer = AdamW(model.parameters(), betas=BETAS)
    reference = torch.optim.AdamW(other.parameters(), betas=BETAS)

    def step(x: Tensor, y: Tensor, lr: Tensor | float) -> Tensor:
        loss = model.loss(x, y)
        loss.backward()
        optimizer.step(lr)
        optimizer.zero_grad()
        return loss

    jitted = jit(step)
    batches = RandomBatches(tokenizer.encode(text), BATCH, config.context, seed=0)
    differences = []
    for number in range(STEPS):
        x, y = next(batches)
        lr = warmup_cosine(number, 600, 6e-3, warmup=50)
        loss = jitted(Tensor(x), Tensor(y), lr).item()
        for group in reference.param_groups:
            group["lr"] = lr
        scores = other(torch.from_numpy(x).long())
        expected = torch.nn.functional.cross_entropy(
            scores.flatten(0, 1), torch.from_numpy(y).long().flatten()
        )
        reference.zero_grad()
        expected.backward()
        reference.step()
        differences.append(abs(loss - expected.item()))
        assert math.isfinite(loss)
    assert loss < 3
    assert max(differences) <= 1e-3, differences
