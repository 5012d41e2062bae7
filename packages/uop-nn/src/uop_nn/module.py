"""Module: a part of a model that knows its parameters by name. Week 5."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uop_ir import UopError
from uop_tensor import Tensor

__all__ = ["ModelError", "Module", "load_tensors"]


class ModelError(UopError):
    """A size that a layer cannot have, or values that do not fit the parameters of a model."""


class Module:
    """A part of a model: its attributes are parameters (tensors that require a gradient), modules, or lists of modules.

    Names are as in PyTorch: the attributes on the way to a parameter, and the index in a list, joined by dots.
    """

    def named_parameters(self, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
        """Each parameter with its name, in the order in which attributes were set; a shared one once."""
        seen: set[int] = set()
        for name, tensor in _parameters(self, prefix):
            if id(tensor) not in seen:
                seen.add(id(tensor))
                yield name, tensor

    def parameters(self) -> list[Tensor]:
        """The parameters, in the order of `named_parameters`."""
        return [tensor for _, tensor in self.named_parameters()]

    def parameter_count(self) -> int:
        """How many numbers the parameters hold."""
        return sum(tensor.numel() for tensor in self.parameters())

    def state_dict(self) -> dict[str, Tensor]:
        """The parameters by name: the tensors themselves, not copies."""
        return dict(self.named_parameters())

    def load_state_dict(self, state: Mapping[str, Tensor | NDArray[Any]]) -> None:
        """Give every parameter the value that `state` has for its name.

        Raises ModelError, and changes nothing, if a name is missing or unknown, or a shape or dtype differs.
        """
        load_tensors(self.state_dict(), state)


def load_tensors(targets: Mapping[str, Tensor], state: Mapping[str, Tensor | NDArray[Any]]) -> None:
    """Assign to each target the value of its name. Raises ModelError, and changes nothing, unless all of them fit."""
    missing, unknown = sorted(targets.keys() - state.keys()), sorted(state.keys() - targets.keys())
    if missing or unknown:
        wrong = [
            f"{len(names)} {what} ({_some(names)})"
            for what, names in (("missing", missing), ("unknown", unknown))
            if names
        ]
        raise ModelError(f"the names of the values are not those of the parameters: {', '.join(wrong)}")
    arrays = {name: _array(state[name]) for name in targets}
    for name, target in targets.items():
        array = arrays[name]
        if array.shape != target.shape or array.dtype != target.dtype.numpy:
            raise ModelError(
                f"{name} is {target.dtype} of shape {target.shape}, but the value is {array.dtype} of shape {array.shape}"
            )
    for name, target in targets.items():
        target.assign(arrays[name])


def _parameters(module: Module, prefix: str) -> Iterator[tuple[str, Tensor]]:
    for name, value in vars(module).items():
        yield from _of_value(value, prefix + name)


def _of_value(value: object, name: str) -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, Tensor):
        if value.requires_grad:
            yield name, value
    elif isinstance(value, Module):
        yield from _parameters(value, f"{name}.")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _of_value(item, f"{name}.{index}")


def _array(value: Tensor | NDArray[Any]) -> NDArray[Any]:
    return value.numpy() if isinstance(value, Tensor) else np.asarray(value)


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
