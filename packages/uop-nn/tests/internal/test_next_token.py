"""Sampling: how a token is drawn, and what a prompt is when none is given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from uop_nn import CharTokenizer, SamplingError
from uop_nn.sample import default_prompt, next_token

SCORES = np.array([0.5, 2.0, -1.0, 1.0], np.float32)


def frequencies(**how: Any) -> list[float]:
    generator = np.random.default_rng(0)
    drawn = [next_token(SCORES, generator, **how) for _ in range(4000)]
    return [drawn.count(token) / 4000 for token in range(4)]


def softmax(x: Any) -> list[float]:
    powers = np.exp(np.asarray(x, np.float64))
    return [float(power / powers.sum()) for power in powers]


def test_tokens_are_drawn_with_the_probabilities_of_the_softmax() -> None:
    assert frequencies(temperature=1.0) == pytest.approx(softmax(SCORES), abs=0.03)
    assert frequencies(temperature=2.0) == pytest.approx(softmax(SCORES / 2), abs=0.03)
    best = softmax(SCORES[[1, 3]])
    assert frequencies(temperature=1.0, top_k=2) == pytest.approx([0, best[0], 0, best[1]], abs=0.03)
    assert frequencies(temperature=1.0, top_k=9) == pytest.approx(softmax(SCORES), abs=0.03)


def test_the_best_token() -> None:
    generator = np.random.default_rng(0)
    assert next_token(SCORES, generator, 0.0) == 1
    assert next_token(SCORES, generator, 5.0, top_k=1) == 1
    assert next_token(SCORES * 1e4, generator, 1e-300) == 1
    assert next_token(np.array([1.0, 3.0, 3.0]), generator, 0.0) == 1  # the first of equals


def test_the_default_prompt() -> None:
    assert default_prompt(CharTokenizer("a\nb")) == "\n"
    assert default_prompt(CharTokenizer("ba")) == "a"


def test_scores_that_are_not_finite() -> None:
    with pytest.raises(SamplingError, match="not finite"):
        next_token(np.array([1.0, np.nan]), np.random.default_rng(0), 1.0)
