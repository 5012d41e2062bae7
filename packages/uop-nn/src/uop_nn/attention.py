"""Attention: causal and between any two sequences; and the transformer block around it. Week 10."""

from __future__ import annotations

import numpy as np

from uop_tensor import Tensor

from . import init
from .cache import LayerCache
from .layers import Dropout, Linear
from .module import ModelError, Module, positive, tensor
from .norms import LayerNorm

__all__ = ["Block", "CausalSelfAttention", "FeedForward", "MultiheadAttention"]

STD = 0.02  # of the first weights, as in GPT-2


class CausalSelfAttention(Module):
    """Every position looks at itself and at those before it, with several heads: (B, T, width) to (B, T,
    width).
    """

    def __init__(
        self,
        width: int,
        heads: int,
        generator: np.random.Generator | None = None,
        *,
        out_std: float = STD,
    ) -> None:
        """`out_std` is the standard deviation of the last weight. Raises ModelError unless `heads` divides
        `width`.
        """
        positive(width=width, heads=heads)
        check_heads(width, heads)
        self.heads = heads
        self.qkv = Linear(width, 3 * width, generator, bias=False, std=STD)
        self.out = Linear(width, width, generator, bias=False, std=out_std)

    def __call__(self, x: Tensor, cache: LayerCache | None = None) -> Tensor:
        """With a cache, `x` continues the positions that the cache has."""
        batch, time, width = x.shape
        split = self.qkv(x).reshape(batch, time, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = causal_attention(split[0], split[1], split[2], cache)
        return self.out(mixed.permute(0, 2, 1, 3).reshape(batch, time, width))


class FeedForward(Module):
    """Each position by itself: a Linear layer to four times the width, GELU, and one back."""

    def __init__(
        self, width: int, generator: np.random.Generator | None = None, *, out_std: float = STD
    ) -> None:
        positive(width=width)
        self.up = Linear(width, 4 * width, generator, bias=False, std=STD)
        self.down = Linear(4 * width, width, generator, bias=False, std=out_std)

    def __call__(self, x: Tensor) -> Tensor:
        return self.down(self.up(x).gelu("tanh"))


class Block(Module):
    """A pre-norm transformer block: attention,
    then the feed-forward part, each added to what it was given.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        generator: np.random.Generator | None = None,
        *,
        out_std: float = STD,
        dropout: float = 0.0,
    ) -> None:
        """In training, `dropout` is the probability with which an element of what is added is dropped."""
        self.norm1 = LayerNorm(width)
        self.attention = CausalSelfAttention(width, heads, generator, out_std=out_std)
        self.norm2 = LayerNorm(width)
        self.feed_forward = FeedForward(width, generator, out_std=out_std)
        self.dropout = Dropout(dropout)

    def __call__(self, x: Tensor, cache: LayerCache | None = None) -> Tensor:
        x = x + self.dropout(self.attention(self.norm1(x), cache))
        return x + self.dropout(self.feed_forward(self.norm2(x)))


class MultiheadAttention(Module):
    """Attention of queries to keys and values, with several heads; parameters as in PyTorch.

    `in_proj_weight` (3 width, width) and `in_proj_bias` (3 width) make queries, keys and values, `out_proj`
    joins the heads. The batch comes first.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        generator: np.random.Generator | None = None,
        *,
        bias: bool = True,
    ) -> None:
        """Raises ModelError unless `heads` divides `width`."""
        positive(width=width, heads=heads)
        check_heads(width, heads)
        self.heads = heads
        self.in_proj_weight = init.xavier_uniform(generator, (3 * width, width))
        self.in_proj_bias = init.constant((3 * width,), 0.0) if bias else None
        self.out_proj = Linear(width, width, generator, bias=bias)
        if self.out_proj.bias is not None:
            self.out_proj.bias.assign(np.zeros(width, np.float32))

    def __call__(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        mask: Tensor | None = None,
        *,
        is_causal: bool = False,
    ) -> Tensor:
        """query (B, T, width), key and value (B, S, width) to (B, T, width); the key is the query where none
        is given.

        The mask broadcasts to (B, heads, T, S): a bool mask keeps the positions that are true, any other is
        added.
        """
        key = query if key is None else key
        value = key if value is None else value
        width = self.in_proj_weight.shape[1]
        parts = []
        for number, x in enumerate((query, key, value)):
            rows = slice(number * width, (number + 1) * width)
            bias = None if self.in_proj_bias is None else self.in_proj_bias[rows]
            projected = tensor(self, x).linear(self.in_proj_weight[rows], bias)
            split = projected.reshape(*x.shape[:2], self.heads, width // self.heads)
            parts.append(split.permute(0, 2, 1, 3))
        mixed = parts[0].scaled_dot_product_attention(parts[1], parts[2], mask, is_causal=is_causal)
        return self.out_proj(mixed.permute(0, 2, 1, 3).reshape(query.shape))


def check_heads(width: int, heads: int) -> None:
    """Raise ModelError unless a width divides into heads."""
    if width % heads:
        raise ModelError(f"a width of {width} does not divide into {heads} heads")


def causal_attention(q: Tensor, k: Tensor, v: Tensor, cache: LayerCache | None) -> Tensor:
    """What each of queries (B, heads, T, d) finds among keys and values (B, groups, T, d) up to its own
    position.

    With a cache, also among those that it has. Query head h looks at group h * groups // heads.
    """
    mask = None
    if cache is not None:
        k, v, mask = cache.extended(k, v)
    heads, groups = q.shape[1], k.shape[1]
    if heads == groups:
        return q.scaled_dot_product_attention(k, v, mask, is_causal=mask is None)
    shape = q.shape
    q = q.reshape(shape[0], groups, heads // groups, *shape[2:])
    mixed = q.scaled_dot_product_attention(k.unsqueeze(2), v.unsqueeze(2), mask, is_causal=mask is None)
    return mixed.reshape(shape)
