"""Layers: Linear, Embedding, Dropout, with the parameters, names and first values of PyTorch. Week 5."""

from __future__ import annotations

import math

import numpy as np

from uop_tensor import Tensor

from . import init
from .module import ModelError, Module, positive, tensor

__all__ = ["Dropout", "Embedding", "Linear", "mean_cross_entropy"]


def mean_cross_entropy(scores: Tensor, targets: Tensor) -> Tensor:
    """The mean cross-entropy in nats of scores (..., classes) and class numbers (...), all of which count.

    It is f32 for scores of f16 and bf16, so that small steps of the loss are seen; f64 stays.
    """
    scores = scores.float() if scores.dtype.bits < 32 else scores
    return scores.cross_entropy(targets, ignore_index=None, axis=-1)


class Linear(Module):
    """`x @ weight.T + bias`: (..., inputs) to (..., outputs).

    `weight` (outputs, inputs) and `bias` (outputs) are uniform within 1 / sqrt(inputs); where `std` is given,
    the weight is normal instead.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        generator: np.random.Generator | None = None,
        *,
        bias: bool = True,
        std: float | None = None,
    ) -> None:
        positive(inputs=inputs, outputs=outputs)
        bound, shape = 1 / math.sqrt(inputs), (outputs, inputs)
        self.weight = (
            init.uniform(generator, shape, bound) if std is None else init.normal(generator, shape, std)
        )
        self.bias = init.uniform(generator, (outputs,), bound) if bias else None

    def __call__(self, x: Tensor) -> Tensor:
        """Raises TensorError unless the last axis of `x` has `inputs` elements."""
        return tensor(self, x).linear(self.weight, self.bias)


class Embedding(Module):
    """A learned vector for each of `count` tokens: int (...) to (..., width). `weight` (count, width) is
    normal.
    """

    def __init__(
        self, count: int, width: int, generator: np.random.Generator | None = None, *, std: float = 1.0
    ) -> None:
        positive(count=count, width=width)
        self.weight = init.normal(generator, (count, width), std)

    def __call__(self, tokens: Tensor) -> Tensor:
        """A token that is out of range gives zeros."""
        return self.weight.take(tokens, axis=0)


class Dropout(Module):
    """In training, each element is 0 with probability `p`, and the others are divided by 1 - p; else nothing
    changes.

    Which ones follows from `uop_tensor.manual_seed`; in a jitted function every call draws anew.
    """

    def __init__(self, p: float = 0.5) -> None:
        """Raises ModelError unless p is in [0, 1]."""
        if not 0 <= p <= 1:
            raise ModelError(f"the p of Dropout must be in [0, 1], not {p}")
        self.p = p

    def __call__(self, x: Tensor) -> Tensor:
        return tensor(self, x).dropout(self.p, self.training)
