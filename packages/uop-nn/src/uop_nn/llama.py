"""A Llama: RMSNorm, rotary positions, grouped-query attention, SwiGLU; Hugging Face's names. Week 10."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from uop_tensor import Tensor

from .attention import STD, causal_attention
from .cache import CachePosition, KvCache, LayerCache
from .causal import CausalModel
from .layers import Embedding, Linear
from .module import ModelError, Module, positive
from .norms import RMSNorm

__all__ = ["Llama", "LlamaBlock", "LlamaConfig"]


@dataclass(frozen=True)
class LlamaConfig:
    """The sizes: tokens, context, blocks, width, heads; `groups` of heads share keys and values; width of the
    SwiGLU.
    """

    vocabulary: int
    context: int = 64
    layers: int = 2
    width: int = 64
    heads: int = 4
    groups: int = 2
    hidden: int = 176
    theta: float = 10000.0
    eps: float = 1e-5


def rotary_angles(context: int, size: int, theta: float) -> tuple[Tensor, Tensor]:
    """Cosine and sine (context, size) by which each pair of numbers of a head is turned at each position.

    Number i is a pair with number i + size / 2, and turns by `position * theta ** (-2 i / size)` (Su et al.,
    2021).
    """
    frequencies = theta ** (-np.arange(0, size, 2, dtype=np.float64) / size)
    angles = np.tile(np.arange(context)[:, None] * frequencies, 2)
    return Tensor(np.cos(angles).astype(np.float32)), Tensor(np.sin(angles).astype(np.float32))


def rotated(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """x (B, heads, T, size) with each pair of numbers turned; cosine and sine are (T, size)."""
    half = x.shape[-1] // 2
    turned = (-x[..., half:]).cat(x[..., :half], axis=-1)
    return (x * cosine + turned * sine).cast(x.dtype)


class Attention(Module):
    """Causal attention whose queries have more heads than keys and values: each of these serves several."""

    def __init__(self, config: LlamaConfig, generator: np.random.Generator | None) -> None:
        size = config.width // config.heads
        self.heads, self.groups = config.heads, config.groups
        self.q_proj = Linear(config.width, config.width, generator, bias=False, std=STD)
        self.k_proj = Linear(config.width, config.groups * size, generator, bias=False, std=STD)
        self.v_proj = Linear(config.width, config.groups * size, generator, bias=False, std=STD)
        self.o_proj = Linear(config.width, config.width, generator, bias=False, std=STD)

    def __call__(self, x: Tensor, angles: tuple[Tensor, Tensor], cache: LayerCache | None) -> Tensor:
        batch, time, width = x.shape

        def split(projected: Tensor, heads: int) -> Tensor:
            return projected.reshape(batch, time, heads, width // self.heads).permute(0, 2, 1, 3)

        q = rotated(split(self.q_proj(x), self.heads), *angles)
        k = rotated(split(self.k_proj(x), self.groups), *angles)
        mixed = causal_attention(q, k, split(self.v_proj(x), self.groups), cache)
        return self.o_proj(mixed.permute(0, 2, 1, 3).reshape(batch, time, width))


class SwiGlu(Module):
    """`down(silu(gate(x)) * up(x))`, each position by itself (Shazeer, 2020)."""

    def __init__(self, width: int, hidden: int, generator: np.random.Generator | None) -> None:
        self.gate_proj = Linear(width, hidden, generator, bias=False, std=STD)
        self.up_proj = Linear(width, hidden, generator, bias=False, std=STD)
        self.down_proj = Linear(hidden, width, generator, bias=False, std=STD)

    def __call__(self, x: Tensor) -> Tensor:
        return self.down_proj(self.gate_proj(x).silu() * self.up_proj(x))


class LlamaBlock(Module):
    """A pre-norm block: attention, then SwiGLU, each added to what it was given."""

    def __init__(self, config: LlamaConfig, generator: np.random.Generator | None = None) -> None:
        self.input_layernorm = RMSNorm(config.width, eps=config.eps)
        self.self_attn = Attention(config, generator)
        self.post_attention_layernorm = RMSNorm(config.width, eps=config.eps)
        self.mlp = SwiGlu(config.width, config.hidden, generator)

    def __call__(self, x: Tensor, angles: tuple[Tensor, Tensor], cache: LayerCache | None = None) -> Tensor:
        """(B, T, width) to the same, with the `rotary_angles` of the T positions."""
        x = x + self.self_attn(self.input_layernorm(x), angles, cache)
        return x + self.mlp(self.post_attention_layernorm(x))


class Body(Module):
    """All of a Llama but its output layer."""

    def __init__(self, config: LlamaConfig, generator: np.random.Generator | None) -> None:
        self.embed_tokens = Embedding(config.vocabulary, config.width, generator, std=STD)
        self.layers = [LlamaBlock(config, generator) for _ in range(config.layers)]
        self.norm = RMSNorm(config.width, eps=config.eps)


class Llama(CausalModel):
    """A Llama (Touvron et al., 2023), small where nothing else is said, with an output layer of its own."""

    def __init__(self, config: LlamaConfig, generator: np.random.Generator | None = None) -> None:
        """Raises ModelError for sizes that are not positive, and unless heads divide the width, and groups
        the heads.
        """
        sizes = ("vocabulary", "context", "layers", "width", "heads", "groups", "hidden")
        positive(**{name: getattr(config, name) for name in sizes})
        if config.width % (2 * config.heads):
            raise ModelError(f"a width of {config.width} does not divide into {config.heads} heads of pairs")
        if config.heads % config.groups:
            raise ModelError(f"{config.heads} heads do not divide into {config.groups} groups")
        self.config: LlamaConfig = config
        self.model = Body(config, generator)
        self.lm_head = Linear(config.width, config.vocabulary, generator, bias=False, std=STD)
        self.angles = rotary_angles(config.context, config.width // config.heads, config.theta)

    def __call__(self, tokens: Tensor, cache: CachePosition | None = None) -> Tensor:
        """Scores (B, T, vocabulary) of the token after each of tokens (B, T). Raises ModelError if T is too
        long.

        With a cache, the tokens continue what it has; see `KvCache`.
        """
        time = self.time(tokens, cache)
        cosine, sine = (t[:time] if cache is None else t.take(cache.positions, axis=0) for t in self.angles)
        x = self.model.embed_tokens(tokens)
        for number, block in enumerate(self.model.layers):
            x = block(x, (cosine, sine), None if cache is None else cache.layers[number])
        return self.lm_head(self.model.norm(x))

    def cache(self, batch: int = 1) -> KvCache:
        """An empty cache for texts of `batch` lines."""
        c = self.config
        return KvCache(c.layers, batch, c.groups, c.context, c.width // c.heads, self.lm_head.weight.dtype)
