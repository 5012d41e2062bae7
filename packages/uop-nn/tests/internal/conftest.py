"""A text, and the options of a GPT, small enough for the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from uop_nn.train_gpt import GptOptions

TINY: dict[str, Any] = {
    "steps": 6,
    "batch": 2,
    "lr": 1e-2,
    "warmup": 2,
    "validate_every": 100,
    "checkpoint_every": 100,
    "context": 8,
    "layers": 1,
    "width": 8,
    "heads": 2,
}


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A file of 300 characters, 6 different ones."""
    path = tmp_path / "text.txt"
    path.write_text("abcab\nddc " * 30)
    return path


@pytest.fixture
def tiny(text: Path) -> Callable[..., GptOptions]:
    """Makes options of a tiny GPT on that text; keyword arguments replace some."""

    def make(**changed: Any) -> GptOptions:
        return GptOptions(**{**TINY, "text": str(text), **changed})

    return make


@pytest.fixture(autouse=True)
def _few_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Validate on two batches, sample a few characters."""
    monkeypatch.setattr("uop_nn.train_gpt.VALIDATION_BATCHES", 2)
    monkeypatch.setattr("uop_nn.train_gpt.SAMPLE", 5)
