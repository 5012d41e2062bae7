"""A character GPT: embeddings of token and position, transformer blocks, scores of what follows. Week 10."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from uop_tensor import Tensor

from .attention import STD, Block
from .cache import CachePosition, KvCache
from .causal import CausalModel
from .layers import Dropout, Embedding, Linear
from .module import positive
from .norms import LayerNorm

__all__ = ["Gpt", "GptConfig"]


@dataclass(frozen=True)
class GptConfig:
    """The sizes of a GPT: how many tokens there are, how many it sees at once, blocks, vector width, heads.

    `dropout` is the probability with which training drops an element of what enters the stream.
    """

    vocabulary: int
    context: int = 64
    layers: int = 2
    width: int = 64
    heads: int = 4
    dropout: float = 0.0


class Gpt(CausalModel):
    """Pre-norm, learned positions, an output layer of its own weights, no biases in Linear layers.

    111,360 parameters for 65 tokens and the sizes that GptConfig has by default.
    """

    def __init__(self, config: GptConfig, generator: np.random.Generator | None = None) -> None:
        """Raises ModelError for sizes that are not positive, and unless the heads divide the width."""
        positive(layers=config.layers)
        self.config: GptConfig = config
        # Each block adds to the stream twice: weaker last layers keep its variance from growing (GPT-2).
        out_std = STD / math.sqrt(2 * config.layers)
        width = config.width
        self.token = Embedding(config.vocabulary, width, generator, std=STD)
        self.position = Embedding(config.context, width, generator, std=STD)
        self.dropout = Dropout(config.dropout)
        self.blocks = [
            Block(width, config.heads, generator, out_std=out_std, dropout=config.dropout)
            for _ in range(config.layers)
        ]
        self.norm = LayerNorm(width)
        self.head = Linear(width, config.vocabulary, generator, bias=False, std=STD)

    def __call__(self, tokens: Tensor, cache: CachePosition | None = None) -> Tensor:
        """Scores (B, T, vocabulary) of the token after each of tokens (B, T). Raises ModelError if T is too
        long.

        With a cache, the tokens continue what it has; see `KvCache`.
        """
        time = self.time(tokens, cache)
        places = self.position.weight[:time] if cache is None else self.position(cache.positions)
        x = self.dropout(self.token(tokens) + places)
        for number, block in enumerate(self.blocks):
            x = block(x, None if cache is None else cache.layers[number])
        return self.head(self.norm(x))

    def cache(self, batch: int = 1) -> KvCache:
        """An empty cache for texts of `batch` lines."""
        c = self.config
        dtype = self.head.weight.dtype
        return KvCache(c.layers, batch, c.heads, c.context, c.width // c.heads, dtype)
