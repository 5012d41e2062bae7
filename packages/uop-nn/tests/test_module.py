"""Modules know their parameters by the names that PyTorch gives them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from uop_ir import dtypes
from uop_nn import (
    BatchNorm2d,
    Linear,
    Mlp,
    ModelError,
    Module,
    Sequential,
    load_safetensors,
    save_safetensors,
)
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
    assert list(model.state_dict()) == [*names[:3], "tied", "pair.1.0"]
    assert [t.shape for t in model.parameters()] == [(3, 2), (3,), (2, 3), (2,)]
    assert model.parameter_count() == 6 + 3 + 6 + 2


def test_a_shared_parameter_is_loaded_by_any_of_its_names() -> None:
    model = Odd()
    state = {name: t.numpy() for name, t in model.state_dict().items()}
    state["tied"] = state["tied"] + 1
    for left_out in ("layers.0.weight", "tied"):
        part = {name: array for name, array in state.items() if name != left_out}
        assert model.load_state_dict(part) == ([], [])
        kept = part.get("tied", state["layers.0.weight"])
        np.testing.assert_array_equal(model.layers[0].weight.numpy(), kept)
    with pytest.raises(ModelError, match=r"2 missing \(layers.0.weight, tied\)"):
        model.load_state_dict(
            {name: a for name, a in state.items() if name not in ("layers.0.weight", "tied")}
        )


class Named(Module):
    """Parts in a dict, as PyTorch has them in a ModuleDict."""

    def __init__(self) -> None:
        self.heads: dict[str, Any] = {
            "score": Linear(2, 3),
            "free": {"scale": Tensor([1.0, 1.0], requires_grad=True)},
        }

    def __call__(self, x: Tensor) -> Tensor:
        scaled: Tensor = self.heads["score"](x * self.heads["free"]["scale"])
        return scaled


def test_parts_in_a_dict() -> None:
    model = Named()
    assert list(model.state_dict()) == ["heads.score.weight", "heads.score.bias", "heads.free.scale"]
    model.eval()
    assert not model.heads["score"].training
    with model.computing_in(dtypes.bf16):
        assert model(Tensor([[1.0, 2.0]]).bfloat16()).dtype is dtypes.bf16
    assert {t.dtype for t in model.parameters()} == {dtypes.f32}


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
    wrong: list[tuple[Any, str]] = [
        (short, r"1 missing \(hidden\.bias\)"),
        ({**good, "extra": np.zeros(1)}, r"1 unknown \(extra\)"),
        ({**good, 3: np.zeros(1)}, r"1 unknown \(3\)"),
        (list(good.items()), "a state is values by name, not list"),
        ({**good, "output.bias": np.zeros(3, np.float32)}, r"output\.bias .*\(2,\).*\(3,\)"),
        (
            {**good, "output.bias": np.zeros(2, np.float64)},
            r"output\.bias is float32 .*float64.*cast it first",
        ),
    ]
    for state, message in wrong:
        with pytest.raises(ModelError, match=message):
            model.load_state_dict(state)
        assert values(model) == before


def test_a_state_that_is_not_strict() -> None:
    model = Mlp(np.random.default_rng(0), inputs=4, hidden=3, classes=2)
    before = values(model)
    found = model.load_state_dict(
        {"output.bias": np.ones(2, np.float32), "b": np.ones(1), "a": np.ones(1)}, strict=False
    )
    assert found == (["hidden.bias", "hidden.weight", "output.weight"], ["a", "b"])
    assert values(model) == {**before, "output.bias": [1.0, 1.0]}
    with pytest.raises(ModelError, match=r"output\.bias .*\(2,\).*\(3,\)"):
        model.load_state_dict({"output.bias": np.ones(3, np.float32)}, strict=False)


def test_buffers_are_kept_and_not_trained() -> None:
    model = Sequential(Linear(2, 3), Sequential(BatchNorm2d(3)), Tensor.relu)
    parameters = ["0.weight", "0.bias", "1.0.weight", "1.0.bias"]
    buffers = ["1.0.running_mean", "1.0.running_var", "1.0.num_batches_tracked"]
    assert [name for name, _ in model.named_parameters()] == parameters
    assert list(model.state_dict()) == parameters + buffers
    assert model.state_dict()["1.0.num_batches_tracked"].dtype is dtypes.i64
    assert [type(module) for module in model.modules()] == [Sequential, Linear, Sequential, BatchNorm2d]
    assert model.eval() is model
    assert [module.training for module in model.modules()] == [False] * 4
    model.train()
    assert [module.training for module in model.modules()] == [True] * 4


def test_layers_one_after_the_other() -> None:
    model = Sequential(Linear(2, 3), Tensor.relu, Linear(3, 1))
    x = Tensor(np.array([[1.0, -2.0]], np.float32))
    by_hand = model.layers[2](model.layers[0](x).relu())
    assert model(x).tolist() == by_hand.tolist()


def test_a_state_in_a_safetensors_file(tmp_path: Path) -> None:
    model = Sequential(Linear(2, 3), BatchNorm2d(3))
    path = tmp_path / "model.safetensors"
    save_safetensors(path, model.state_dict(), {"format": "pt"})
    other = safetensors.numpy.load_file(path)
    assert {name: array.tolist() for name, array in other.items()} == values(model)
    again = Sequential(Linear(2, 3), BatchNorm2d(3))
    assert values(again) != values(model)
    again.load_state_dict(load_safetensors(path))
    assert values(again) == values(model)


def test_bf16_in_a_safetensors_file(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    x = Tensor(np.array([1.0, -0.0, 3.0e38, 1 / 3], np.float32)).bfloat16()
    save_safetensors(path, {"x": x})
    found = load_safetensors(path)["x"]
    assert found.dtype == dtypes.bf16.numpy
    assert found.tobytes() == x.numpy().tobytes()


class Pair(Module):
    """A parameter that is an item of a list, and one that stands twice."""

    def __init__(self) -> None:
        self.items: list[Any] = [Tensor(np.array([1 / 3], np.float32), requires_grad=True)]
        self.first = Tensor(np.array([0.7], np.float32), requires_grad=True)
        self.again = self.first

    def __call__(self) -> Tensor:
        total: Tensor = (self.items[0] + self.first * self.again).sum()
        return total


def test_computing_in_bf16_trains_weights_of_f32() -> None:
    model = Pair()
    items, first = model.parameters()
    with model.computing_in(dtypes.bf16):
        assert [model.items[0].dtype, model.first.dtype] == [dtypes.bf16, dtypes.bf16]
        assert model.again is model.first
        loss = model()
        assert loss.dtype is dtypes.bf16
    assert model.items[0] is items
    assert model.first is first
    assert model.again is first
    loss.backward()
    assert items.grad is not None
    assert first.grad is not None
    assert (items.grad.dtype, first.grad.dtype) == (dtypes.f32, dtypes.f32)
    assert items.grad.item() == 1
    assert first.grad.item() == 2 * float(np.float32(0.69921875))  # 0.7 rounded to 8 bits
    assert first.item() == np.float32(0.7)
    model.items = [[first], (Tensor(np.ones(1, np.float32)),)]
    with model.computing_in(dtypes.bf16):
        assert model.items[0][0].dtype is dtypes.bf16
    assert model.items[0][0] is first
    model.items = [(first,)]
    with pytest.raises(ModelError, match=r"a parameter in a tuple.*list"), model.computing_in(dtypes.bf16):
        pass
    assert model.first is first
    model.items = []
    with pytest.raises(ValueError, match="within"), model.computing_in(dtypes.bf16):
        raise ValueError("within")
    assert model.first is first


def test_a_part_that_knows_the_whole_is_found_once() -> None:
    class Part(Module):
        def __init__(self, whole: Module) -> None:
            self.whole, self.weight = whole, Tensor([1.0], requires_grad=True)

    class Whole(Module):
        def __init__(self) -> None:
            self.part = Part(self)
            self.again = [self.part]

    whole = Whole()
    assert list(whole.modules()) == [whole, whole.part]
    assert [name for name, _ in whole.named_parameters()] == ["part.weight"]
    assert list(whole.state_dict()) == ["part.weight"]
