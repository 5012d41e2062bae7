"""Sampling: what a sampler yields, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from uop_nn import (
    CharTokenizer,
    CheckpointError,
    DataError,
    Gpt,
    GptConfig,
    Sampler,
    SamplingError,
    load_gpt,
    save_checkpoint,
)
from uop_tensor import Tensor


@pytest.fixture(scope="module")
def sampler() -> Sampler:
    """Over a model of 4 characters whose context is 6."""
    return Sampler(*model_and_tokenizer())


def model_and_tokenizer() -> tuple[Gpt, CharTokenizer]:
    model = Gpt(GptConfig(4, context=6, layers=1, width=4, heads=1), np.random.default_rng(0))
    random = np.random.default_rng(1)
    model.load_state_dict(
        {name: random.normal(size=t.shape).astype(np.float32) for name, t in model.state_dict().items()}
    )
    return model, CharTokenizer("abc\n")


def test_a_sample_has_its_length_and_follows_from_the_seed(sampler: Sampler) -> None:
    first = "".join(sampler.characters("ab", 20, seed=3))
    assert len(first) == 20
    assert set(first) <= set("abc\n")
    assert "".join(sampler.characters("ab", 20, seed=3)) == first
    assert "".join(sampler.characters("ab", 20, seed=4)) != first
    assert list(sampler.characters("ab", 0)) == []


def test_numbers_of_numpy_choose_as_those_of_python(sampler: Sampler) -> None:
    counts: list[Any] = [np.int64(2), 2]  # the annotation says int
    one, other = ("".join(sampler.characters("ab", 5, top_k=k)) for k in counts)
    assert one == other


def test_the_model_sees_the_last_characters_only(sampler: Sampler) -> None:
    long, short = "cab\ncabcab", "cabcab"
    assert long[-6:] == short
    assert list(sampler.characters(long, 3)) == list(sampler.characters(short, 3))


@pytest.mark.parametrize("prompt", ["c", "cab", "cabcab", "abcabcabc"])
def test_a_cache_changes_nothing(sampler: Sampler, prompt: str) -> None:
    """The likeliest next tokens, by the model itself on the last six of all;
    the text outgrows the context.
    """
    model, tokenizer = model_and_tokenizer()
    text = prompt
    for _ in range(8):
        tokens = tokenizer.encode(text[-6:])
        scores = model(Tensor(tokens[None])).numpy()[0, -1]
        text += tokenizer.characters[scores.argmax()]
    assert prompt + "".join(sampler.characters(prompt, 8, temperature=0)) == text


class Bytes:
    """A tokenizer whose four tokens are bytes: parts of characters, a character, and what is none."""

    def encode(self, text: str) -> Any:
        return np.zeros(len(text), np.int32)

    def decode_bytes(self, tokens: Any) -> bytes:
        return bytes((0xC3, 0xA1, 0xA2, 0x41)[token] for token in tokens)


def test_what_is_part_of_a_character_waits() -> None:
    model, tokenizer = model_and_tokenizer()
    pieces = list(Sampler(model, Bytes()).characters("x", 60, temperature=3.0))
    joined = "".join(pieces)
    assert "\u00e1" in joined
    assert "\ufffd" in joined
    assert all(pieces)
    drawn = "".join(Sampler(model, tokenizer).characters("\n", 60, temperature=3.0))  # its token is 0 too
    assert joined == Bytes().decode_bytes(tokenizer.encode(drawn)).decode(errors="replace")


def test_what_a_sampler_refuses(sampler: Sampler) -> None:
    wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"length": -1}, SamplingError, "-1 characters"),
        ({"seed": -1}, SamplingError, "seed must be at least 0, not -1"),
        ({"prompt": ""}, SamplingError, "prompt is empty"),
        ({"temperature": -0.5}, SamplingError, "temperature must be at least 0 and finite, not -0.5"),
        ({"temperature": float("nan")}, SamplingError, "not nan"),
        ({"top_p": 0.0}, SamplingError, "top_p must be above 0 and at most 1, not 0.0"),
        ({"top_p": 1.5}, SamplingError, "not 1.5"),
        ({"top_k": 1.5}, SamplingError, "top_k must be an int, not 1.5"),
        ({"top_k": True}, SamplingError, "top_k must be an int, not True"),
        ({"top_k": 0}, SamplingError, "top_k must be at least 1, not 0"),
        ({"prompt": "abX"}, DataError, "'X'"),
    ]
    for changed, error, message in wrong:
        with pytest.raises(error, match=message):
            sampler.characters(**{"prompt": "a", "length": 1, **changed})


def test_what_is_no_model() -> None:
    with pytest.raises(SamplingError, match="must be a Module, not str"):
        Sampler(cast(Any, "gpt"), CharTokenizer("ab"))


def test_a_checkpoint_gives_the_model_back(tmp_path: Path) -> None:
    model, tokenizer = model_and_tokenizer()
    tensors = {f"model.{name}": t.numpy() for name, t in model.state_dict().items()}
    meta: dict[str, Any] = {
        "kind": "gpt",
        "config": {"vocabulary": 4, "context": 6, "layers": 1, "width": 4, "heads": 1},
        "tokenizer": tokenizer.to_dict(),
    }
    path = tmp_path / "checkpoint.safetensors"
    save_checkpoint(path, tensors, meta)
    for where in (path, tmp_path):
        loaded, characters = load_gpt(where)
        assert characters.characters == tokenizer.characters
        for name, t in loaded.state_dict().items():
            np.testing.assert_array_equal(t.numpy(), tensors[f"model.{name}"])
    wrong: list[tuple[dict[str, Any], str]] = [
        ({**meta, "kind": "mnist"}, "of kind mnist, not of a GPT"),
        ({"kind": "gpt"}, "damaged"),
        ({**meta, "config": {**meta["config"], "width": 8}}, "damaged"),
        ({**meta, "config": {**meta["config"], "depth": 8}}, "damaged"),
        ({**meta, "config": 3}, "damaged"),
        ({**meta, "tokenizer": {"characters": "ab"}}, "2 characters for 4 tokens"),
    ]
    for bad, message in wrong:
        save_checkpoint(path, tensors, bad)
        with pytest.raises(CheckpointError, match=message):
            load_gpt(path)
    with pytest.raises(CheckpointError, match="no checkpoint at"):
        load_gpt(tmp_path / "none")
