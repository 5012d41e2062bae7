"""The tokenizer of GPT-2: byte pairs, merged by tiktoken, which the extra `uop-nn[gpt2]` brings. Week 10."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .download import DataError, DataFile, DataFolders, fetch

__all__ = ["Gpt2Tokenizer"]

MERGES = DataFile(
    "gpt2/vocab.bpe",
    456318,
    "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5",
    (
        "https://openaipublic.blob.core.windows.net/gpt-2/encodings/main/vocab.bpe",
        "https://huggingface.co/openai-community/gpt2/resolve/main/merges.txt",
    ),
)
END = "<|endoftext|>"
#: Where a text is cut before pairs are merged: contractions, words, numbers, signs, white space.
PATTERN = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""


class Gpt2Tokenizer:
    """Text as the tokens of GPT-2: 256 bytes, 50,000 merges, and one that ends a text."""

    def __init__(self, cache: Path | None = None) -> None:
        """Take the merges from UOP_DATA (gpt2/vocab.bpe), the cache or the network.

        `cache` stands for the value of UOP_CACHE. Raises DataError without tiktoken, or where the file is
        damaged, and MissingDataError where it is not found.
        """
        try:
            import tiktoken
        except ImportError:
            raise DataError(
                "the tokenizer of GPT-2 needs the package tiktoken", remedy='pip install "uop-nn[gpt2]"'
            ) from None
        ranks = merge_ranks(fetch(MERGES, DataFolders.from_settings(cache)).decode())
        self.end = len(ranks)
        self._encoding = tiktoken.Encoding(
            "gpt2", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={END: self.end}
        )

    def __len__(self) -> int:
        return self.end + 1

    def encode(self, text: str) -> NDArray[np.int32]:
        """Return the tokens of `text`, int32; one that ends a text is none of them."""
        return np.array(self._encoding.encode_ordinary(text), np.int32)

    def decode_bytes(self, tokens: NDArray[np.integer[Any]]) -> bytes:
        """Return the text of tokens in UTF-8. Raises DataError on a token that is none."""
        try:
            return self._encoding.decode_bytes(np.asarray(tokens).reshape(-1).tolist())
        except (KeyError, OverflowError) as error:
            raise DataError(f"token {error} is not within 0 to {self.end}") from None

    def decode(self, tokens: NDArray[np.integer[Any]]) -> str:
        """Return the text of tokens; bytes that are no character become U+FFFD. Raises as `decode_bytes`
        does.
        """
        return self.decode_bytes(tokens).decode(errors="replace")


def merge_ranks(text: str) -> dict[bytes, int]:
    """Each token of a file of merges with its number: the bytes first, then a merge a line, in order."""
    # GPT-2 writes a byte that cannot be printed, or is a space, as the next character from U+0100 on.
    printed = [byte for byte in range(256) if chr(byte).isprintable() and chr(byte) != " "]
    others = [byte for byte in range(256) if byte not in printed]
    byte_of = {chr(byte): byte for byte in printed} | {chr(256 + n): byte for n, byte in enumerate(others)}
    ranks = {bytes([byte]): rank for rank, byte in enumerate([*printed, *others])}
    for line in text.split("\n")[1:]:  # the first one is a version
        if line:
            ranks[bytes(byte_of[character] for character in line if character != " ")] = len(ranks)
    return ranks
