"""Causal self-attention, the feed-forward part, and the transformer block that both make up. Week 10."""

from __future__ import annotations

import numpy as np

from uop_tensor import Tensor

from .layers import LayerNorm, Linear, positive
from .module import ModelError, Module

__all__ = ["Block", "CausalSelfAttention", "FeedForward"]

STD = 0.02  # of the first weights, as in GPT-2


class CausalSelfAttention(Module):
    """Every position looks at itself and at those before it, with several heads: (B, T, width) to (B, T, width)."""

    def __init__(
        self, width: int, heads: int, generator: np.random.Generator, *, out_std: float = STD
    ) -> None:
        """`out_std` is the standard deviation of the last weight. Raises ModelError unless `heads` divides `width`."""
        positive(width=width, heads=heads)
        if width % heads:
            raise ModelError(f"a width of {width} does not divide into {heads} heads")
        self.heads = heads
        self.qkv = Linear(width, 3 * width, generator, bias=False, std=STD)
        self.out = Linear(width, width, generator, bias=False, std=out_std)

    def __call__(self, x: Tensor) -> Tensor:
        batch, time, width = x.shape
        split = self.qkv(x).reshape(batch, time, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = split[0].scaled_dot_product_attention(split[1], split[2], is_causal=True)
        return self.out(mixed.permute(0, 2, 1, 3).reshape(batch, time, width))


class FeedForward(Module):
    """Each position by itself: a Linear layer to four times the width, GELU, and one back."""

    def __init__(self, width: int, generator: np.random.Generator, *, out_std: float = STD) -> None:
        positive(width=width)
        self.up = Linear(width, 4 * width, generator, bias=False, std=STD)
        self.down = Linear(4 * width, width, generator, bias=False, std=out_std)

    def __call__(self, x: Tensor) -> Tensor:
        return self.down(self.up(x).gelu())


class Block(Module):
    """A pre-norm transformer block: attention, then the feed-forward part, each added to what it was given."""

    def __init__(
        self, width: int, heads: int, generator: np.random.Generator, *, out_std: float = STD
    ) -> None:
        self.norm1 = LayerNorm(width)
        self.attention = CausalSelfAttention(width, heads, generator, out_std=out_std)
        self.norm2 = LayerNorm(width)
        self.feed_forward = FeedForward(width, generator, out_std=out_std)

    def __call__(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.feed_forward(self.norm2(x))
