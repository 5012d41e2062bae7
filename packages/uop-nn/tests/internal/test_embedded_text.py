"""The embedded text."""

from __future__ import annotations

import re
from collections import Counter

from uop_nn.text import embedded_text


def test_embedded_text_is_worth_training_on() -> None:
    text = embedded_text()
    assert len(text) >= 20_000
    assert text.isascii()
    assert 50 <= len(set(text)) <= 70
    speeches = text.rstrip("\n").split("\n\n")
    assert len(speeches) > 250
    for speech in speeches:
        assert re.fullmatch(r"[A-Z ]+:(\n[^\n ][^\n]*[^\n ])+", speech), speech
    assert max(Counter(speeches).values()) == 1
    lines = [line for line in text.splitlines() if len(line) > 30]
    assert max(Counter(lines).values()) == 1
