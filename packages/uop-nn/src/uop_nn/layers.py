"""Layers: Linear, Embedding, LayerNorm, with the parameters, names and first values of PyTorch. Week 5."""

from __future__ import annotations

import math

import numpy as np

from uop_tensor import Tensor

from . import init
from .module import ModelError, Module

__all__ = ["Embedding", "LayerNorm", "Linear", "positive"]


def positive(**sizes: object) -> None:
    """Raise ModelError for a size that is not a positive int."""
    for name, size in sizes.items():
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise ModelError(f"{name} must be a positive integer, not {size!r}")


class Linear(Module):
    """`x @ weight.T + bias`: (..., inputs) to (..., outputs).

    `weight` (outputs, inputs) and `bias` (outputs) are uniform within 1 / sqrt(inputs); where `std` is given, the
    weight is normal instead.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        generator: np.random.Generator,
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
        return x.linear(self.weight, self.bias)


class Embedding(Module):
    """A learned vector for each of `count` tokens: int (...) to (..., width). `weight` (count, width) is normal."""

    def __init__(self, count: int, width: int, generator: np.random.Generator, *, std: float = 1.0) -> None:
        positive(count=count, width=width)
        self.weight = init.normal(generator, (count, width), std)

    def __call__(self, tokens: Tensor) -> Tensor:
        """A token that is out of range gives zeros."""
        return self.weight.take(tokens)


class LayerNorm(Module):
    """The last axis brought to mean 0 and variance 1, then times `weight` plus `bias`, both (width)."""

    def __init__(self, width: int, *, eps: float = 1e-5) -> None:
        positive(width=width)
        self.weight = init.constant((width,), 1.0)
        self.bias = init.constant((width,), 0.0)
        self.eps = eps

    def __call__(self, x: Tensor) -> Tensor:
        """(..., width) to (..., width)."""
        return x.layernorm(self.weight, self.bias, self.eps)
