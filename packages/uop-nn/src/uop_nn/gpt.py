"""A character GPT: embeddings of token and position, transformer blocks, scores of the next token. Week 10."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from uop_tensor import Tensor

from .attention import STD, Block
from .layers import Embedding, LayerNorm, Linear, positive
from .module import ModelError, Module

__all__ = ["Gpt", "GptConfig"]


@dataclass(frozen=True)
class GptConfig:
    """The sizes of a GPT: how many tokens there are, how many it sees at once, blocks, vector width, heads."""

    vocabulary: int
    context: int = 64
    layers: int = 2
    width: int = 64
    heads: int = 4


class Gpt(Module):
    """Pre-norm, learned positions, an output layer of its own weights, no biases in Linear layers.

    111,360 parameters for 65 tokens and the sizes that GptConfig has by default.
    """

    def __init__(self, config: GptConfig, generator: np.random.Generator) -> None:
        """Raises ModelError for sizes that are not positive, and unless the heads divide the width."""
        positive(layers=config.layers)
        self.config = config
        # Each block adds to the stream twice: weaker last layers keep its variance from growing (GPT-2).
        out_std = STD / math.sqrt(2 * config.layers)
        width = config.width
        self.token = Embedding(config.vocabulary, width, generator, std=STD)
        self.position = Embedding(config.context, width, generator, std=STD)
        self.blocks = [Block(width, config.heads, generator, out_std=out_std) for _ in range(config.layers)]
        self.norm = LayerNorm(width)
        self.head = Linear(width, config.vocabulary, generator, bias=False, std=STD)

    def __call__(self, tokens: Tensor) -> Tensor:
        """Scores (B, T, vocabulary) of the token after each of tokens (B, T). Raises ModelError if T is too long."""
        time = tokens.shape[-1]
        if time > self.config.context:
            raise ModelError(f"{time} tokens at once, but the context of the model is {self.config.context}")
        x = self.token(tokens) + self.position.weight[:time]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))

    def loss(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """The mean cross-entropy in nats of targets (B, T), the tokens that follow."""
        return self(tokens).cross_entropy(targets)
