"""Sampling: text from a language model, a token at a time. Week 10."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from uop_ir import UopError
from uop_tensor import Tensor, jit, no_grad

from .cache import CachePosition, KvCache
from .checkpoint import load_run
from .choice import TEMPERATURE, Choice, SamplingError
from .gpt import Gpt, GptConfig
from .module import Module
from .tensor_file import CheckpointError
from .text import CharTokenizer
from .training import part

__all__ = ["LanguageModel", "Sampler", "SamplingError", "Tokenizer", "default_prompt", "load_gpt"]

#: As many tokens of a prompt are read at once.
CHUNK = 64


class Tokenizer(Protocol):
    """Text as tokens, and back."""

    def encode(self, text: str) -> NDArray[np.int32]: ...

    def decode_bytes(self, tokens: NDArray[np.integer[Any]]) -> bytes:
        """The text in UTF-8: a token may be a part of a character."""
        ...


class LanguageModel(Protocol):
    """Scores (B, T, vocabulary) of what follows each of tokens (B, T), of which it sees `context` at once."""

    @property
    def context(self) -> int: ...

    def __call__(self, tokens: Tensor, cache: CachePosition | None = None) -> Tensor: ...

    def cache(self, batch: int = 1) -> KvCache: ...


class Sampler:
    """Draws text from a model, with a cache of its keys and values: two programs serve prompts and texts of
    all lengths.

    Once a text is longer than the context, the model sees its last tokens, which are then read anew for each
    token: their positions have changed.
    """

    def __init__(self, model: LanguageModel, tokenizer: Tokenizer) -> None:
        """Raises SamplingError for a model that is no Module."""
        if not isinstance(model, Module):
            raise SamplingError(f"a model to sample from must be a Module, not {type(model).__name__}")
        self._cache = model.cache()

        def scores(tokens: Tensor, position: int, row: int) -> Tensor:
            with no_grad(), model.evaluating():
                return model(tokens, self._cache.at(position, tokens.shape[1]))[0].take(row, axis=0)

        self._scores = jit(scores)
        self._tokenizer = tokenizer
        self._context = model.context

    def characters(
        self,
        prompt: str,
        length: int,
        *,
        temperature: float = TEMPERATURE,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int = 0,
    ) -> Iterator[str]:
        """The text of `length` tokens that follow the prompt, piece by piece; the same arguments give the
        same text.

        At each one the model sees the last tokens of prompt and text, as many as its context holds.
        Temperature 0 takes the likeliest token, 1 draws as the model says; with `top_k` only so many are
        candidates, with `top_p` those that together are so likely. Raises SamplingError for arguments out of
        range or an empty prompt, DataError for a character in it that the tokenizer does not know.
        """
        if length < 0:
            raise SamplingError(f"a sample cannot have {length} characters")
        if seed < 0:
            raise SamplingError(f"the seed must be at least 0, not {seed}")
        if not prompt:
            raise SamplingError("the prompt is empty", remedy="give at least one character")
        choice = Choice(temperature, top_k, top_p)
        return self._text(self._tokenizer.encode(prompt).tolist(), length, choice, seed)

    def _text(self, prompt: list[int], length: int, choice: Choice, seed: int) -> Iterator[str]:
        """A token may be part of a character: then it waits for the next ones."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        for token in self._tokens(prompt, length, choice, seed):
            text = decoder.decode(self._tokenizer.decode_bytes(np.array([token])))
            if text:
                yield text
        rest = decoder.decode(b"", final=True)
        if rest:
            yield rest

    def _tokens(self, prompt: list[int], length: int, choice: Choice, seed: int) -> Iterator[int]:
        generator = np.random.default_rng(seed)
        tokens, cached = list(prompt), 0
        for _ in range(length):
            if len(tokens) > self._context:
                cached = 0
            scores = self._read(tokens[-self._context :], cached)
            cached = min(len(tokens), self._context)
            token = choice.next_token(scores, generator)
            tokens.append(token)
            yield token

    def _read(self, tokens: list[int], cached: int) -> NDArray[np.floating]:
        """The scores of what follows tokens; the cache has `cached` of them, and is given the others."""
        size = min(CHUNK, self._context)
        while True:
            given = tokens[cached : cached + size]
            # What fills up a chunk comes later than all that is read, and is replaced before it is looked at.
            window = np.zeros((1, 1 if len(given) == 1 else size), np.int32)
            window[0, : len(given)] = given
            scores = self._scores(Tensor(window), cached, len(given) - 1)
            cached += len(given)
            if cached == len(tokens):
                return scores.float().numpy()


def default_prompt(tokenizer: CharTokenizer) -> str:
    """A line break, as at the beginning of a paragraph, where the text has any; else its first character."""
    return "\n" if "\n" in tokenizer.characters else tokenizer.characters[0]


def load_gpt(path: Path | str) -> tuple[Gpt, CharTokenizer]:
    """The model and the tokenizer of a checkpoint, or of the one in a folder. Raises CheckpointError if it
    has none.
    """
    path, tensors, meta = load_run(Path(path), "gpt", "of a GPT")
    try:
        tokenizer = CharTokenizer.from_dict(meta["tokenizer"])
        model = Gpt(GptConfig(**meta["config"]), np.random.default_rng(0))
        model.load_state_dict(part(tensors, "model."))
    except (KeyError, TypeError, AttributeError, UopError) as error:
        raise CheckpointError(f"{path} is damaged: {error}") from error
    if model.config.vocabulary != len(tokenizer):
        raise CheckpointError(f"{path} has {len(tokenizer)} characters for {model.config.vocabulary} tokens")
    return model, tokenizer
