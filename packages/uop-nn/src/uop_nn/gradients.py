"""Between backward and the step: clipping gradients, and adding them up over several batches. Week 5."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from numpy.typing import NDArray

from uop_tensor import Tensor

from .module import load_tensors
from .optim import check, listed, named, with_gradients, zeros_like

__all__ = ["GradientAccumulator", "clip_grad_norm", "clip_grad_value"]

EPS = 1e-6  # as in PyTorch, so that gradients of 0 stay


def clip_grad_norm(parameters: Iterable[Tensor], max_norm: float) -> Tensor:
    """Scale all gradients so that their common 2-norm is at most `max_norm`; the norm before, f32 of shape
    ().

    Raises OptimizerError if no parameter has a gradient, or for a norm that is not positive.
    """
    check("max_norm", max_norm, max_norm > 0, "above 0")
    found = with_gradients("clip_grad_norm", parameters)
    total = found[0][2].float().square().sum()
    for _, _, gradient in found[1:]:
        total = total + gradient.float().square().sum()
    # Stored: every gradient is scaled by it, and none should add up all of them again.
    norm = total.sqrt().contiguous()
    scale = (max_norm / (norm + EPS)).clip(max=1.0)
    for _, parameter, gradient in found:
        parameter.grad = (gradient * scale).cast(gradient.dtype)
    return norm


def clip_grad_value(parameters: Iterable[Tensor], limit: float) -> None:
    """Bring each element of each gradient between -limit and limit. Raises as `clip_grad_norm` does."""
    check("limit", limit, limit > 0, "above 0")
    for _, parameter, gradient in with_gradients("clip_grad_value", parameters):
        parameter.grad = gradient.clip(-limit, limit)


class GradientAccumulator:
    """Gradients of several batches as one: `add` after each backward, `apply` before the step.

    The sums are in tensors that both assign, so that a jitted function of each kind carries them on: memory
    is needed for one batch at a time.
    """

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        """Raises OptimizerError for a model, or a tensor, in place of parameters."""
        self.parameters = listed("GradientAccumulator", parameters)
        self.sums = zeros_like(self.parameters)

    def add(self, weight: float = 1.0) -> None:
        """Add `weight` times the gradients to the sums, and forget them. Raises OptimizerError if there is
        none.
        """
        with_gradients("add", self.parameters)
        for total, parameter in zip(self.sums, self.parameters, strict=True):
            if parameter.grad is not None:
                total.assign(total + weight * parameter.grad)
            parameter.grad = None

    def apply(self) -> None:
        """Make the sums the gradients, and begin again from 0."""
        for total, parameter in zip(self.sums, self.parameters, strict=True):
            parameter.grad = total.clone()
            total.assign(total.zeros_like())

    def state_dict(self) -> dict[str, Tensor]:
        """The sums, by number of the parameter: the tensors themselves, not copies."""
        return named("gradient", self.sums)

    def load_state_dict(self, state: Mapping[str, Tensor | NDArray[Any]]) -> None:
        """Continue from a state. Raises ModelError, and changes nothing, unless it fits."""
        load_tensors(self.state_dict(), state)
