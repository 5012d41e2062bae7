"""Tokens and batches."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from uop_nn import CharTokenizer, DataError, RandomBatches, train_validation_split


def test_tokens_are_the_ranks_of_the_characters() -> None:
    tokenizer = CharTokenizer("hello\n")
    assert tokenizer.characters == "\nehlo"
    assert len(tokenizer) == 5
    tokens = tokenizer.encode("hole\n")
    assert tokens.dtype == np.int32
    assert tokens.tolist() == [2, 4, 3, 1, 0]
    assert tokenizer.decode(tokens) == "hole\n"
    assert tokenizer.encode("").shape == (0,)
    assert tokenizer.decode(tokenizer.encode("")) == ""


@given(st.text(min_size=1))
def test_decode_undoes_encode(text: str) -> None:
    tokenizer = CharTokenizer(text)
    again = CharTokenizer.from_dict(json.loads(json.dumps(tokenizer.to_dict())))
    assert again.decode(tokenizer.encode(text)) == text
    assert again.encode(text).tolist() == [sorted(set(text)).index(character) for character in text]


def test_unknown_characters_and_tokens() -> None:
    tokenizer = CharTokenizer("abc")
    with pytest.raises(DataError) as error:
        tokenizer.encode("ab\u00e9")
    text = str(error.value)
    assert "'\u00e9' (U+00E9, LATIN SMALL LETTER E WITH ACUTE) at position 2" in text
    assert "3 characters" in text
    with pytest.raises(DataError, match=r"U\+000A, no name"):
        tokenizer.encode("\n")
    for wrong in ([3], [-1, 0]):
        with pytest.raises(DataError, match="within 0 to 2"):
            tokenizer.decode(np.array(wrong))


def test_bad_tokenizers() -> None:
    with pytest.raises(DataError, match="empty"):
        CharTokenizer("")
    for wrong in ({}, {"characters": ["a"]}, {"characters": "ba"}, {"characters": "aa"}, {"characters": ""}):
        with pytest.raises(DataError):
            CharTokenizer.from_dict(wrong)


def test_batches_are_windows_and_their_successors() -> None:
    tokens = np.arange(100, 110, dtype=np.int32)
    seen: Counter[int] = Counter()
    batches = RandomBatches(tokens, batch=5, context=3, seed=1)
    for _ in range(400):
        x, y = next(batches)
        assert x.dtype == y.dtype == np.int32
        assert x.shape == y.shape == (5, 3)
        assert (x == x[:, :1] + np.arange(3)).all()
        assert (y == x + 1).all()
        seen.update(x[:, 0].tolist())
    # Each of the 7 windows, the first and the last included, about equally often: 2,000 draws, 5 sigma.
    assert sorted(seen) == list(range(100, 107))
    assert max(abs(count - 2000 / 7) for count in seen.values()) < 5 * (2000 / 7 * 6 / 7) ** 0.5


def test_the_only_window() -> None:
    x, y = next(RandomBatches(np.array([4, 5, 6]), batch=2, context=2, seed=0))
    assert x.tolist() == [[4, 5], [4, 5]]
    assert y.tolist() == [[5, 6], [5, 6]]


@given(st.integers(0, 2**40), st.integers(0, 20), st.integers(1, 7))
def test_batches_resume_exactly(seed: int, steps: int, batch: int) -> None:
    tokens = np.random.default_rng(0).integers(0, 65, 500).astype(np.int32)
    batches = RandomBatches(tokens, batch, 8, seed)
    for _ in range(steps):
        next(batches)
    state = json.loads(json.dumps(batches.state))
    expected = [next(batches) for _ in range(5)]
    again = RandomBatches(tokens, batch, 8, seed=0)
    again.state = state
    for (x, y), (x2, y2) in zip(expected, again, strict=False):
        np.testing.assert_array_equal(x, x2)
        np.testing.assert_array_equal(y, y2)


def test_bad_batches() -> None:
    tokens = np.arange(8, dtype=np.int32)
    with pytest.raises(DataError, match="text of 8 characters is shorter than the context of 8 and one more"):
        RandomBatches(tokens, 1, 8, 0)
    for batch, context in ((0, 1), (1, 0), (-1, 4)):
        with pytest.raises(DataError, match="positive"):
            RandomBatches(tokens, batch, context, 0)
    batches = RandomBatches(tokens, 1, 2, 0)
    before = batches.state
    for wrong in (
        {},
        {"bit_generator": "MT19937"},
        {**before, "state": {"state": -1, "inc": 1}},
        {**before, "state": 3},
    ):
        with pytest.raises(DataError, match="PCG64"):
            batches.state = wrong
    assert batches.state == before


def test_split() -> None:
    train, validation = train_validation_split(np.arange(105, dtype=np.int32))
    assert train.tolist() == list(range(94))
    assert validation.tolist() == list(range(94, 105))
    for fraction in (0.0, 1.0, -3.0, float("nan")):
        with pytest.raises(DataError, match="fraction"):
            train_validation_split(train, fraction)
