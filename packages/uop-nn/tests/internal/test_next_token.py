"""Sampling: how a token is drawn, and what a prompt is when none is given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from uop_nn import CharTokenizer, SamplingError
from uop_nn.choice import Choice
from uop_nn.sample import default_prompt

SCORES = np.array([0.5, 2.0, -1.0, 1.0], np.float32)


def frequencies(**how: Any) -> list[float]:
    generator = np.random.default_rng(0)
    choice = Choice(**how)
    drawn = [choice.next_token(SCORES, generator) for _ in range(2000)]
    return [drawn.count(token) / 2000 for token in range(4)]


def softmax(x: Any) -> list[float]:
    powers = np.exp(np.asarray(x, np.float64))
    return [float(power / powers.sum()) for power in powers]


def test_tokens_are_drawn_with_the_probabilities_of_the_softmax() -> None:
    assert frequencies(temperature=1.0) == pytest.approx(softmax(SCORES), abs=0.045)
    assert frequencies(temperature=2.0) == pytest.approx(softmax(SCORES / 2), abs=0.045)
    best = softmax(SCORES[[1, 3]])
    assert frequencies(temperature=1.0, top_k=2) == pytest.approx([0, best[0], 0, best[1]], abs=0.045)
    assert frequencies(temperature=1.0, top_k=9) == pytest.approx(softmax(SCORES), abs=0.045)


def test_the_likeliest_that_together_have_a_probability() -> None:
    likely = softmax(SCORES)  # 0.14, 0.61, 0.03, 0.22
    best = softmax(SCORES[[1, 3]])
    for top_p in (likely[1] + 0.01, likely[1] + likely[3] - 0.01):
        assert frequencies(temperature=1.0, top_p=top_p) == pytest.approx([0, best[0], 0, best[1]], abs=0.045)
    assert frequencies(temperature=1.0, top_p=likely[1] - 0.01) == [0, 1, 0, 0]
    assert frequencies(temperature=1.0, top_p=1.0) == pytest.approx(likely, abs=0.045)
    # of what top_k leaves, whose probabilities are greater
    three = softmax(SCORES[[0, 1, 3]])
    found = frequencies(temperature=1.0, top_k=3, top_p=three[1] + three[2] - 0.01)
    assert found == pytest.approx([0, best[0], 0, best[1]], abs=0.045)


def test_the_best_token() -> None:
    generator = np.random.default_rng(0)
    assert Choice(0.0).next_token(SCORES, generator) == 1
    assert Choice(5.0, top_k=1).next_token(SCORES, generator) == 1
    assert Choice(5.0, top_p=1e-9).next_token(SCORES, generator) == 1
    assert Choice(1e-300).next_token(SCORES * 1e4, generator) == 1
    assert Choice(0.0).next_token(np.array([1.0, 3.0, 3.0]), generator) == 1  # the first of equals


def test_the_default_prompt() -> None:
    assert default_prompt(CharTokenizer("a\nb")) == "\n"
    assert default_prompt(CharTokenizer("ba")) == "a"


def test_scores_that_are_not_finite() -> None:
    with pytest.raises(SamplingError, match="not finite"):
        Choice(1.0).next_token(np.array([1.0, np.nan]), np.random.default_rng(0))
