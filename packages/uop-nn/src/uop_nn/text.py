"""From characters to batches: the tokenizer, the embedded text, random windows of a text. Week 5."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .download import DataError

__all__ = ["CharTokenizer", "RandomBatches", "embedded_text", "train_validation_split"]

Tokens = NDArray[np.int32]


class CharTokenizer:
    """One token for each character: its index among the sorted characters of a text."""

    def __init__(self, text: str) -> None:
        """Take the characters of `text`. Raises DataError if it is empty."""
        if not text:
            raise DataError("an empty text has no characters to train on")
        self.characters = "".join(sorted(set(text)))
        self._index = {character: index for index, character in enumerate(self.characters)}

    def __len__(self) -> int:
        return len(self.characters)

    def encode(self, text: str) -> Tokens:
        """Return the tokens of `text`, int32 [len(text)].
        Raises DataError on a character that has no token.
        """
        try:
            return np.fromiter(map(self._index.__getitem__, text), np.int32, len(text))
        except KeyError as error:
            character = str(error.args[0])
            name = unicodedata.name(character, "no name")
            raise DataError(
                f"character {character!r} (U+{ord(character):04X}, {name}) at position {text.index(character)} "
                f"is not among the {len(self)} characters of the training text",
                remedy="leave it out, or train on a text that has it",
            ) from None

    def decode(self, tokens: NDArray[np.integer[Any]]) -> str:
        """Return the text of `tokens` [N]. Raises DataError on a token that has no character."""
        flat = np.asarray(tokens).reshape(-1)
        if flat.size and not 0 <= flat.min() <= flat.max() < len(self):
            raise DataError(f"tokens {flat.min()} to {flat.max()} are not all within 0 to {len(self) - 1}")
        return "".join(self.characters[token] for token in flat.tolist())

    def decode_bytes(self, tokens: NDArray[np.integer[Any]]) -> bytes:
        """Return the text of `tokens` in UTF-8, as every tokenizer that a Sampler takes does."""
        return self.decode(tokens).encode()

    def to_dict(self) -> dict[str, str]:
        """Return what `from_dict` needs to make the same tokenizer again; it can be written as JSON."""
        return {"characters": self.characters}

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> CharTokenizer:
        """Make a tokenizer from the result of `to_dict`. Raises DataError if it is none."""
        characters = data.get("characters")
        if not isinstance(characters, str) or characters != "".join(sorted(set(characters))):
            raise DataError("a tokenizer needs its characters as one sorted string without repetitions")
        return cls(characters)


class RandomBatches(Iterator[tuple[Tokens, Tokens]]):
    """An endless iterator over random windows of a text, which can be stopped and resumed exactly.

    Each item is (x, y), both int32 [batch, context]; y[b, t] is the token that follows x[b, t].
    """

    def __init__(self, tokens: NDArray[np.integer[Any]], batch: int, context: int, seed: int) -> None:
        """Raises DataError if batch or context is not positive, or tokens [N] has N <= context."""
        if batch < 1 or context < 1:
            raise DataError(f"batch and context must be positive, not {batch} and {context}")
        if len(tokens) <= context:
            raise DataError(
                f"a text of {len(tokens):,} characters is shorter than the context of {context:,} and one more",
                remedy="give a longer text or a smaller context",
            )
        self._tokens = np.asarray(tokens, np.int32)
        self._batch = batch
        self._window = np.arange(context)
        self._generator = np.random.Generator(np.random.PCG64(seed))

    def __next__(self) -> tuple[Tokens, Tokens]:
        starts = self._generator.integers(0, len(self._tokens) - len(self._window), self._batch)
        x = starts[:, None] + self._window
        return self._tokens[x], self._tokens[x + 1]

    @property
    def state(self) -> dict[str, Any]:
        """The state of the PCG64 generator: a dict of strings and integers that can be written as JSON."""
        return dict(self._generator.bit_generator.state)

    @state.setter
    def state(self, state: Mapping[str, Any]) -> None:
        """Continue with the batch that followed when `state` was read. Raises DataError if it is no such
        state.
        """
        try:
            self._generator.bit_generator.state = dict(state)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise DataError(f"not the state of a PCG64 random generator: {error}") from error


def train_validation_split(tokens: Tokens, fraction: float = 0.9) -> tuple[Tokens, Tokens]:
    """Cut tokens [N] into the first int(N * fraction) to train on and the rest to validate on; both are
    views.

    Raises DataError if `fraction` is not between 0 and 1.
    """
    if not 0 < fraction < 1:
        raise DataError(f"the fraction to train on must be between 0 and 1, not {fraction}")
    cut = int(len(tokens) * fraction)
    return tokens[:cut], tokens[cut:]


def embedded_text() -> str:
    """Return the text that this package carries:
    a play about a compiler, in the layout of Tiny Shakespeare.
    """
    return resources.files("uop_nn").joinpath("embedded.txt").read_text(encoding="utf-8")
