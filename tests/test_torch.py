"""The GPT beside the same model in PyTorch: same weights, same batches, same losses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from uop_nn import AdamW, CharTokenizer, Gpt, GptConfig, RandomBatches, load_text, warmup_cosine
from uop_tensor import Tensor, jit

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

STEPS, BATCH, BETAS = 50, 32, (0.9, 0.99)


def torch_gpt(config: GptConfig) -> Any:
    """The model by PyTorch's own layers, under the names of ours."""
    nn, functional = torch.nn, torch.nn.functional

    class Attention(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.qkv = nn.Linear(config.width, 3 * config.width, bias=False)
            self.out = nn.Linear(config.width, config.width, bias=False)

        def forward(self, x: Any) -> Any:
            batch, time, width = x.shape
            heads = (batch, time, config.heads, width // config.heads)
            q, k, v = (part.view(heads).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.out(mixed.transpose(1, 2).reshape(batch, time, width))

    class FeedForward(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.up = nn.Linear(config.width, 4 * config.width, bias=False)
            self.down = nn.Linear(4 * config.width, config.width, bias=False)

        def forward(self, x: Any) -> Any:
            return self.down(functional.gelu(self.up(x), approximate="tanh"))

    class Block(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(config.width), nn.LayerNorm(config.width)
            self.attention, self.feed_forward = Attention(), FeedForward()

        def forward(self, x: Any) -> Any:
            x = x + self.attention(self.norm1(x))
            return x + self.feed_forward(self.norm2(x))

    class Model(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.token = nn.Embedding(config.vocabulary, config.width)
            self.position = nn.Embedding(config.context, config.width)
            self.blocks = nn.ModuleList(Block() for _ in range(config.layers))
            self.norm = nn.LayerNorm(config.width)
            self.head = nn.Linear(config.width, config.vocabulary, bias=False)

        def forward(self, tokens: Any) -> Any:
            x = self.token(tokens) + self.position.weight[: tokens.shape[1]]
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    return Model()


@pytest.mark.torch
def test_the_gpt_has_the_losses_of_pytorch() -> None:
    text, _ = load_text(None, 1000)
    tokenizer = CharTokenizer(text)
    config = GptConfig(len(tokenizer))
    model, other = Gpt(config, np.random.default_rng(0)), torch_gpt(config)
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
