"""Parameters that are not small; a text and the options
of a GPT that are small enough for the interpreter.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from uop_nn import Module
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
def spread() -> Callable[[Module], dict[str, NDArray[np.float64]]]:
    """Gives all floats of a model's state values that are
    not small (variances from 0.5 on), and returns them.
    """

    def set_state(model: Module) -> dict[str, NDArray[np.float64]]:
        random = np.random.default_rng(7)
        state = {}
        for name, t in model.state_dict().items():
            if t.dtype.is_float:
                values = random.normal(0, 0.5, t.shape)
                state[name] = (np.abs(values) + 0.5 if name.endswith("var") else values).astype(t.dtype.numpy)
        model.load_state_dict(state, strict=False)
        return {name: array.astype(np.float64) for name, array in state.items()}

    return set_state


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


@pytest.fixture
def few_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Validate on two batches, sample a few characters."""
    monkeypatch.setattr("uop_nn.train_gpt.VALIDATION_BATCHES", 2)
    monkeypatch.setattr("uop_nn.train_gpt.SAMPLE", 5)
