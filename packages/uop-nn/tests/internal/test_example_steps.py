"""The steps that `uopc explain` and `uopc tune` know by name are those of training."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from uop_ir import UopError
from uop_nn import example_steps


@pytest.mark.parametrize(
    ("name", "arguments", "shapes"),
    [
        ("mlp", ["--batch", "2", "--hidden", "3"], {(3, 784), (3,), (10, 3), (10,)}),
        ("cnn", ["--batch", "1"], {(16, 1, 3, 3), (32, 16, 3, 3)}),
        (
            "gpt",
            ["--batch", "1", "--context", "4", "--layers", "1", "--width", "8"],
            {(65, 8), (4, 8)},
        ),
    ],
)
def test_the_step_trains_the_model(
    name: str, arguments: Sequence[str], shapes: set[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    maker = "gpt_step" if name == "gpt" else "image_step"
    make: Callable[..., Any] = getattr(example_steps, maker)
    made: list[tuple[Any, list[Any]]] = []

    def kept(model: Any, options: Any) -> Any:
        made.append((model, [p.numpy() for p in model.parameters()]))
        return make(model, options)

    monkeypatch.setattr(example_steps, maker, kept)
    getattr(example_steps, name)(arguments, "uopc tune")
    ((model, before),) = made
    assert shapes <= {p.shape for p in model.parameters()}
    after = [p.numpy() for p in model.parameters()]
    assert all(np.isfinite(a).all() for a in after)
    assert any((a != b).any() for a, b in zip(after, before, strict=True))


def test_options_of_another_model_are_refused() -> None:
    with pytest.raises(UopError, match="uopc tune mlp: unrecognized arguments: --layers 2"):
        example_steps.mlp(["--layers", "2"], "uopc tune mlp")
    with pytest.raises(UopError, match="unrecognized arguments: --model cnn"):
        example_steps.mlp(["--model", "cnn"], "uopc tune mlp")
