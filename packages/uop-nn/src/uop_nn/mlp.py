"""A multilayer perceptron for MNIST: 784 pixels, one hidden layer, 10 scores. Week 9."""

from __future__ import annotations

import numpy as np

from uop_tensor import Tensor

from .layers import Linear, mean_cross_entropy
from .module import Module

__all__ = ["Mlp"]


class Mlp(Module):
    """`relu` between two Linear layers."""

    def __init__(
        self,
        generator: np.random.Generator | None = None,
        *,
        inputs: int = 784,
        hidden: int = 128,
        classes: int = 10,
    ) -> None:
        """Raises ModelError for a size that is not positive."""
        self.hidden = Linear(inputs, hidden, generator)
        self.output = Linear(hidden, classes, generator)

    def __call__(self, images: Tensor) -> Tensor:
        """Scores (N, classes) of images (N, inputs)."""
        x = images.cast(self.hidden.weight.dtype)
        return self.output(self.hidden(x).relu())

    def loss(self, images: Tensor, labels: Tensor) -> Tensor:
        """The mean cross-entropy in nats."""
        return mean_cross_entropy(self(images), labels)
