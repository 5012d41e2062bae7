"""Modules know their parameters by the names that PyTorch gives them."""

from __future__ import annotations

import numpy as np
import pytest

from uop_nn import Linear, Mlp, ModelError, Module
from uop_tensor import Tensor


class Odd(Module):
    """Lists, nesting, a shared parameter, and attributes that are none."""

    def __init__(self) -> None:
        generator = np.random.default_rng(0)
        self.layers = [Linear(2, 3, generator), Linear(3, 2, generator, bias=False)]
        self.tied = self.layers[0].weight
        self.pair = (self.layers[1], [Tensor(np.ones(2, np.float32), requires_grad=True)])
        self.constant = Tensor(np.ones(2, np.float32))
        self.name, self.nothing = "odd", None


def values(model: Module) -> dict[str, list[float]]:
    return {name: tensor.numpy().tolist() for name, tensor in model.state_dict().items()}


def test_names_are_paths_and_a_shared_parameter_counts_once() -> None:
    model = Odd()
    names = ["layers.0.weight", "layers.0.bias", "layers.1.weight", "pair.1.0"]
    assert [name for name, _ in model.named_parameters()] == names
    assert list(model.state_dict()) == names
    assert [t.shape for t in model.parameters()] == [(3, 2), (3,), (2, 3), (2,)]
    assert model.parameter_count() == 6 + 3 + 6 + 2


def test_state_dict_round_trip() -> None:
    source, target = (Mlp(np.random.default_rng(seed), inputs=4, hidden=3, classes=2) for seed in (0, 1))
    assert list(source.state_dict()) == ["hidden.weight", "hidden.bias", "output.weight", "output.bias"]
    assert values(source) != values(target)
    parameters = target.parameters()
    target.load_state_dict(source.state_dict())
    assert values(source) == values(target)
    assert all(a is b for a, b in zip(parameters, target.parameters(), strict=True))
    arrays = {name: tensor.numpy() + 1 for name, tensor in source.state_dict().items()}
    target.load_state_dict(arrays)
    assert values(target) == {name: array.tolist() for name, array in arrays.items()}
    assert values(source) != values(target)


def test_a_state_that_does_not_fit_changes_nothing() -> None:
    model = Mlp(np.random.default_rng(0), inputs=4, hidden=3, classes=2)
    good = {name: tensor.numpy() + 1 for name, tensor in model.state_dict().items()}
    before = values(model)
    short = {name: array for name, array in good.items() if name != "hidden.bias"}
    wrong = [
        (short, r"1 missing \(hidden\.bias\)"),
        ({**good, "extra": np.zeros(1)}, r"1 unknown \(extra\)"),
        ({**good, "output.bias": np.zeros(3, np.float32)}, r"output\.bias .*\(2,\).*\(3,\)"),
        ({**good, "output.bias": np.zeros(2, np.float64)}, r"output\.bias .*f32.*float64"),
    ]
    for state, message in wrong:
        with pytest.raises(ModelError, match=message):
            model.load_state_dict(state)
        assert values(model) == before
