"""What the language models have in common: a context, and the loss of what follows. Week 10."""

from __future__ import annotations

from typing import Protocol

from uop_tensor import Tensor

from .cache import CachePosition
from .layers import mean_cross_entropy
from .module import ModelError, Module

__all__ = ["CausalModel"]


class Sizes(Protocol):
    """The sizes of a model."""

    @property
    def context(self) -> int: ...


class CausalModel(Module):
    """Scores (B, T, vocabulary) of the token after each of tokens (B, T)."""

    config: Sizes

    def __call__(self, tokens: Tensor, cache: CachePosition | None = None) -> Tensor:
        """The scores; with a cache, the tokens continue what it has."""
        raise NotImplementedError

    @property
    def context(self) -> int:
        """How many tokens it sees at once."""
        return self.config.context

    def loss(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """The mean cross-entropy in nats of targets (B, T), the tokens that follow."""
        return mean_cross_entropy(self(tokens), targets)

    def time(self, tokens: Tensor, cache: CachePosition | None = None) -> int:
        """How many tokens are given. Raises ModelError if they are more than the context,
        not as many as the cache is asked for, or not (B, T).
        """
        if tokens.ndim != 2:
            raise ModelError(
                f"tokens of shape {tokens.shape}", remedy="give (B, T): one text is tokens.reshape(1, -1)"
            )
        time = tokens.shape[1]
        if cache is not None and (cache.batch, cache.time) != tokens.shape:
            raise ModelError(
                f"tokens of shape {tokens.shape} for a cache of {cache.batch} texts at {cache.time} positions",
                remedy="make the cache for the batch, and the position for as many tokens as are given",
            )
        if time > self.context:
            raise ModelError(f"{time} tokens at once, but the context of the model is {self.context}")
        return time
