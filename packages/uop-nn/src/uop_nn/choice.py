"""The next token by its scores: temperature, top-k and top-p. Week 10."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from uop_ir import UopError

__all__ = ["TEMPERATURE", "Choice", "SamplingError"]

TEMPERATURE = 0.8


class SamplingError(UopError):
    """A temperature, a number of candidates, a length or a prompt that cannot be sampled with."""


@dataclass(frozen=True)
class Choice:
    """How a token is drawn: with the probabilities `softmax(scores / temperature)`; temperature 0 takes the
    best one.

    With `top_k`, only that many of the best are candidates; with `top_p`, of these only the best that
    together have that probability (nucleus sampling, Holtzman et al., 2020). Raises SamplingError for values
    out of range.
    """

    temperature: float = TEMPERATURE
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        if not math.isfinite(self.temperature) or self.temperature < 0:
            raise SamplingError(f"the temperature must be at least 0 and finite, not {self.temperature}")
        if self.top_k is not None and (
            isinstance(self.top_k, bool) or not isinstance(self.top_k, int | np.integer)
        ):
            raise SamplingError(f"top_k must be an int, not {self.top_k!r}")
        if self.top_k is not None and self.top_k < 1:
            raise SamplingError(f"top_k must be at least 1, not {self.top_k}")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise SamplingError(f"top_p must be above 0 and at most 1, not {self.top_p}")

    def next_token(self, scores: NDArray[np.floating], generator: np.random.Generator) -> int:
        """A token by its scores (vocabulary). Raises SamplingError for scores that are not finite."""
        if not np.isfinite(scores).all():
            raise SamplingError("the model gives scores that are not finite")
        best_first = np.argsort(-scores, kind="stable")[: self.top_k]
        if self.temperature == 0:
            return int(best_first[0])
        # The best has weight 1; in f64, so that a small temperature does not overflow.
        distance = scores[best_first].astype(np.float64) - float(scores[best_first[0]])
        weights = np.exp(distance / self.temperature)
        weights = weights / weights.sum()
        if self.top_p is not None:
            # the first of them always: what comes before it is 0
            before = np.cumsum(weights) - weights
            weights = weights[before < self.top_p]
            weights = weights / weights.sum()
        return int(generator.choice(best_first[: len(weights)], p=weights))
