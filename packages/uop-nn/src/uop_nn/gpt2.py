"""GPT-2, with the names and the weights of Hugging Face's checkpoints. Week 10."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from uop_tensor import Tensor

from . import init
from .attention import STD, causal_attention, check_heads
from .cache import CachePosition, KvCache, LayerCache
from .causal import CausalModel
from .layers import Embedding
from .module import ModelError, Module, positive
from .norms import LayerNorm
from .tensor_file import load_safetensors

__all__ = ["Gpt2", "Gpt2Config"]


@dataclass(frozen=True)
class Gpt2Config:
    """The sizes of a GPT-2; the defaults are those of the smallest, of 124 million parameters."""

    vocabulary: int = 50257
    context: int = 1024
    layers: int = 12
    width: int = 768
    heads: int = 12


class Conv1D(Module):
    """`x @ weight + bias`, with the weight (inputs, outputs) the other way round than in Linear."""

    def __init__(self, inputs: int, outputs: int, generator: np.random.Generator | None) -> None:
        self.weight = init.normal(generator, (inputs, outputs), STD)
        self.bias = init.constant((outputs,), 0.0)

    def __call__(self, x: Tensor) -> Tensor:
        return x @ self.weight + self.bias


class Attention(Module):
    """Causal self-attention: `c_attn` makes queries, keys and values, `c_proj` joins the heads."""

    def __init__(self, width: int, heads: int, generator: np.random.Generator | None) -> None:
        self.heads = heads
        self.c_attn = Conv1D(width, 3 * width, generator)
        self.c_proj = Conv1D(width, width, generator)

    def __call__(self, x: Tensor, cache: LayerCache | None) -> Tensor:
        batch, time, width = x.shape
        split = self.c_attn(x).reshape(batch, time, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = causal_attention(split[0], split[1], split[2], cache)
        return self.c_proj(mixed.permute(0, 2, 1, 3).reshape(batch, time, width))


class Mlp(Module):
    """Each position by itself: to four times the width, GELU by tanh, and back."""

    def __init__(self, width: int, generator: np.random.Generator | None) -> None:
        self.c_fc = Conv1D(width, 4 * width, generator)
        self.c_proj = Conv1D(4 * width, width, generator)

    def __call__(self, x: Tensor) -> Tensor:
        return self.c_proj(self.c_fc(x).gelu("tanh"))


class Block(Module):
    """A pre-norm transformer block."""

    def __init__(self, width: int, heads: int, generator: np.random.Generator | None) -> None:
        self.ln_1 = LayerNorm(width)
        self.attn = Attention(width, heads, generator)
        self.ln_2 = LayerNorm(width)
        self.mlp = Mlp(width, generator)

    def __call__(self, x: Tensor, cache: LayerCache | None) -> Tensor:
        x = x + self.attn(self.ln_1(x), cache)
        return x + self.mlp(self.ln_2(x))


class Gpt2(CausalModel):
    """GPT-2 (Radford et al., 2019): the output layer is the table of the tokens, `wte`."""

    def __init__(
        self, config: Gpt2Config | None = None, generator: np.random.Generator | None = None
    ) -> None:
        """Raises ModelError for sizes that are not positive, and unless the heads divide the width."""
        config = config or Gpt2Config()
        positive(**vars(config))
        check_heads(config.width, config.heads)
        self.config: Gpt2Config = config
        self.wte = Embedding(config.vocabulary, config.width, generator, std=STD)
        self.wpe = Embedding(config.context, config.width, generator, std=STD)
        self.h = [Block(config.width, config.heads, generator) for _ in range(config.layers)]
        self.ln_f = LayerNorm(config.width)

    @classmethod
    def from_safetensors(cls, path: Path | str, heads: int | None = None) -> Self:
        """The model of a `model.safetensors` of Hugging Face.

        The sizes are those of its tensors; heads have 64 numbers each where their count is not given. Raises
        CheckpointError if that is no such file, ModelError if it has other tensors than a GPT-2.
        """
        return cls.from_state(load_safetensors(path), heads)

    @classmethod
    def from_state(cls, state: Mapping[str, NDArray[Any]], heads: int | None = None) -> Self:
        """The model of these weights, by Hugging Face's names; f16 and bf16 become f32.

        Raises ModelError if names or shapes are not those of a GPT-2.
        """
        own = {
            name.removeprefix("transformer."): array.astype(np.float32)
            for name, array in state.items()
            if not name.endswith((".attn.bias", ".attn.masked_bias")) and name != "lm_head.weight"
        }
        try:
            (vocabulary, width), context = own["wte.weight"].shape, len(own["wpe.weight"])
        except (KeyError, ValueError):
            raise ModelError("these are not the weights of a GPT-2: there is no matrix wte.weight") from None
        layers = len({name.split(".")[1] for name in own if name.startswith("h.")})
        if heads is None and width % 64:
            raise ModelError(f"a width of {width} is no GPT-2 of heads of 64 numbers", remedy="give heads")
        model = cls(Gpt2Config(vocabulary, context, layers, width, heads or width // 64))
        model.load_state_dict(own)
        return model

    def __call__(self, tokens: Tensor, cache: CachePosition | None = None) -> Tensor:
        """Scores (B, T, vocabulary) of the token after each of tokens (B, T). Raises ModelError if T is too
        long.
        """
        time = self.time(tokens, cache)
        places = self.wpe.weight[:time] if cache is None else self.wpe(cache.positions)
        x = self.wte(tokens) + places
        for number, block in enumerate(self.h):
            x = block(x, None if cache is None else cache.layers[number])
        return self.ln_f(x).linear(self.wte.weight)

    def cache(self, batch: int = 1) -> KvCache:
        """An empty cache for texts of `batch` lines."""
        c = self.config
        return KvCache(c.layers, batch, c.heads, c.context, c.width // c.heads, self.wte.weight.dtype)
