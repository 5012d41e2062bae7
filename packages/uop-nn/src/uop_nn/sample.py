"""Sampling: text from a trained GPT, a character at a time. Week 10."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from uop_ir import UopError
from uop_tensor import Tensor, jit, no_grad

from .checkpoint import CheckpointError, load_checkpoint
from .gpt import Gpt, GptConfig
from .text import CharTokenizer
from .training import CHECKPOINT, part

__all__ = ["Sampler", "SamplingError", "default_prompt", "load_gpt", "next_token"]

TEMPERATURE = 0.8


class SamplingError(UopError):
    """A temperature, a number of candidates, a length or a prompt that cannot be sampled with."""


class Sampler:
    """Draws text from a model. Every window is padded to the context, so that one program serves all lengths."""

    def __init__(self, model: Gpt, tokenizer: CharTokenizer) -> None:
        def scores(tokens: Tensor) -> Tensor:
            with no_grad(), model.evaluating():
                return model(tokens)[0]

        self._scores = jit(scores)
        self._tokenizer = tokenizer
        self._context = model.config.context

    def characters(
        self,
        prompt: str,
        length: int,
        *,
        temperature: float = TEMPERATURE,
        top_k: int | None = None,
        seed: int = 0,
    ) -> Iterator[str]:
        """`length` characters that follow the prompt, one by one; the same arguments give the same text.

        At each one the model sees the last characters of prompt and text, as many as its context holds; see
        `next_token` for `temperature` and `top_k`. Raises SamplingError for arguments out of range or an empty prompt,
        DataError for a character in it that the model does not know.
        """
        if length < 0:
            raise SamplingError(f"a sample cannot have {length} characters")
        if seed < 0:
            raise SamplingError(f"the seed must be at least 0, not {seed}")
        if not prompt:
            raise SamplingError("the prompt is empty", remedy="give at least one character")
        check_choice(temperature, top_k)
        return self._draw(self._tokenizer.encode(prompt).tolist(), length, temperature, top_k, seed)

    def _draw(
        self, tokens: list[int], length: int, temperature: float, top_k: int | None, seed: int
    ) -> Iterator[str]:
        generator = np.random.default_rng(seed)
        for _ in range(length):
            seen = tokens[-self._context :]
            window = np.zeros((1, self._context), np.int32)
            window[0, : len(seen)] = seen
            # Attention is causal: what pads the window comes later, and changes nothing.
            scores = self._scores(Tensor(window)).numpy()[len(seen) - 1]
            token = next_token(scores, generator, temperature, top_k)
            tokens.append(token)
            yield self._tokenizer.decode(np.array([token]))


def next_token(
    scores: NDArray[np.floating], generator: np.random.Generator, temperature: float, top_k: int | None = None
) -> int:
    """A token drawn with the probabilities `softmax(scores / temperature)`, scores (vocabulary).

    Temperature 0 takes the best one. With `top_k`, only that many of the best are candidates. Raises SamplingError for
    values out of range, and for scores that are not finite.
    """
    check_choice(temperature, top_k)
    if not np.isfinite(scores).all():
        raise SamplingError("the model gives scores that are not finite")
    best_first = np.argsort(-scores, kind="stable")[:top_k]
    if temperature == 0:
        return int(best_first[0])
    # The best has weight 1; in f64, so that a small temperature does not overflow.
    distance = scores[best_first].astype(np.float64) - float(scores[best_first[0]])
    weights = np.exp(distance / temperature)
    return int(generator.choice(best_first, p=weights / weights.sum()))


def check_choice(temperature: float, top_k: int | None) -> None:
    """Raise SamplingError for a temperature that is negative or not finite, or less than one candidate."""
    if not math.isfinite(temperature) or temperature < 0:
        raise SamplingError(f"the temperature must be at least 0 and finite, not {temperature}")
    if top_k is not None and top_k < 1:
        raise SamplingError(f"top_k must be at least 1, not {top_k}")


def default_prompt(tokenizer: CharTokenizer) -> str:
    """A line break, as at the beginning of a paragraph, where the text has any; else its first character."""
    return "\n" if "\n" in tokenizer.characters else tokenizer.characters[0]


def load_gpt(path: Path) -> tuple[Gpt, CharTokenizer]:
    """The model and the tokenizer of a checkpoint, or of the one in a folder. Raises CheckpointError if it has none."""
    path = path / CHECKPOINT if path.is_dir() else path
    tensors, meta = load_checkpoint(path)
    if meta.get("kind") != "gpt":
        raise CheckpointError(f"{path} is a checkpoint of kind {meta.get('kind')}, not of a GPT")
    try:
        tokenizer = CharTokenizer.from_dict(meta["tokenizer"])
        model = Gpt(GptConfig(**meta["config"]), np.random.default_rng(0))
        model.load_state_dict(part(tensors, "model."))
    except (KeyError, TypeError, AttributeError, UopError) as error:
        raise CheckpointError(f"{path} is damaged: {error}") from error
    if model.config.vocabulary != len(tokenizer):
        raise CheckpointError(f"{path} has {len(tokenizer)} characters for {model.config.vocabulary} tokens")
    return model, tokenizer
