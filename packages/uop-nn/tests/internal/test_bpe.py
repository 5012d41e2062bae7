"""The tokenizer of GPT-2 on a few merges, against merging by hand."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from uop_ir import override
from uop_nn import DataError, Gpt2Tokenizer, MissingDataError, bpe
from uop_nn.settings import settings

#: In the file, a space is U+0120 and the two bytes of \u00e9 are U+00C3 and U+00A9.
MERGES = "#version: 0.2\nt h\nth e\n\u0120 the\nl l\nl o\n\u00c3 \u00a9\na b\nab ab\n"


@pytest.fixture
def tokenizer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gpt2Tokenizer]:
    pytest.importorskip("tiktoken", reason="tiktoken is not installed")
    raw = MERGES.encode()
    (tmp_path / "gpt2").mkdir()
    (tmp_path / "gpt2" / "vocab.bpe").write_bytes(raw)
    file = replace(bpe.MERGES, size=len(raw), sha256=hashlib.sha256(raw).hexdigest(), urls=())
    monkeypatch.setattr(bpe, "MERGES", file)
    with override(settings, uop_data=str(tmp_path)):
        yield Gpt2Tokenizer()


def merged(word: bytes, merges: list[tuple[bytes, bytes]]) -> list[bytes]:
    """The pairs of a word merged, the first of the list first."""
    parts = [bytes([byte]) for byte in word]
    for pair in merges:
        at = 0
        while at + 1 < len(parts):
            if (parts[at], parts[at + 1]) == pair:
                parts[at : at + 2] = [parts[at] + parts[at + 1]]
            at += 1
    return parts


def test_pairs_are_merged_within_words(tokenizer: Gpt2Tokenizer) -> None:
    merges = [
        (b"t", b"h"), (b"th", b"e"), (b" ", b"the"), (b"l", b"l"), (b"l", b"o"), (b"\xc3", b"\xa9"),
        (b"a", b"b"), (b"ab", b"ab"),
    ]  # fmt: skip
    words = ["the", " the", " hello", "'ll", " caf\u00e9", " abababx", " 123", "!?", "\n\n", " ", "\u4e2d"]
    text = "".join(words)
    tokens = tokenizer.encode(text)
    assert tokens.dtype == np.int32
    expected = [part for word in words for part in merged(word.encode(), merges)]
    assert [tokenizer.decode_bytes(np.array([t])) for t in tokens] == expected
    assert tokenizer.decode(tokens) == text
    assert tokenizer.decode(tokens[-1:]) == "\ufffd"


def test_numbers_of_tokens_are_those_of_gpt2(tokenizer: Gpt2Tokenizer) -> None:
    assert len(tokenizer) == 256 + 8 + 1
    assert tokenizer.end == 264
    # "!" is the first character that can be printed; a space comes after the 188 of them and 32 controls
    assert tokenizer.encode("! A").tolist() == [0, 220, 32]
    assert tokenizer.encode("the").tolist() == [257]
    # what ends a text is text, where it stands in one
    assert tokenizer.end not in tokenizer.encode("<|endoftext|>")
    assert tokenizer.decode(np.array([257, 264])) == "the<|endoftext|>"
    with pytest.raises(DataError, match=r"token .* is not within 0 to 264"):
        tokenizer.decode(np.array([265]))


def test_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with override(settings, uop_data="", uop_cache=str(tmp_path)):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, "tiktoken", None)
            with pytest.raises(DataError, match=r'needs the package tiktoken .*pip install "uop-nn\[gpt2\]"'):
                Gpt2Tokenizer()
        pytest.importorskip("tiktoken", reason="tiktoken is not installed")
        monkeypatch.setattr(bpe, "MERGES", replace(bpe.MERGES, urls=()))
        with pytest.raises(MissingDataError, match=r"vocab\.bpe not found.*UOP_DATA"):
            Gpt2Tokenizer()
