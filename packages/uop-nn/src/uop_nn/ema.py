"""A moving average of the weights, to evaluate with instead of the last ones. Week 5."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from numpy.typing import NDArray

from uop_tensor import Tensor

from .module import Module, load_tensors
from .optim import check

__all__ = ["Ema"]


class Ema:
    """`average = decay * average + (1 - decay) * parameter` for each parameter of a model, from its first
    values.
    """

    def __init__(self, model: Module, decay: float = 0.999) -> None:
        check("decay", decay, 0 <= decay < 1, "in [0, 1)")
        self.decay = decay
        self.parameters = dict(model.named_parameters())
        self.averages = {
            name: Tensor(parameter.numpy(), device=parameter.device)
            for name, parameter in self.parameters.items()
        }

    def update(self) -> None:
        """Take in the values of the parameters; within a jitted step, after that of the optimizer."""
        for name, average in self.averages.items():
            new = self.decay * average + (1 - self.decay) * self.parameters[name]
            average.assign(new.detach())

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Within a with block, the parameters have the averages as their values."""
        before = {name: parameter.numpy() for name, parameter in self.parameters.items()}
        load_tensors(self.parameters, self.averages)
        try:
            yield
        finally:
            load_tensors(self.parameters, before)

    def state_dict(self) -> dict[str, Tensor]:
        """The averages, under the names of the parameters: the tensors themselves, not copies."""
        return dict(self.averages)

    def load_state_dict(self, state: Mapping[str, Tensor | NDArray[Any]]) -> None:
        """Continue from a state. Raises ModelError, and changes nothing, unless it fits."""
        load_tensors(self.averages, state)
