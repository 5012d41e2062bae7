"""A small convolutional network for digits: two convolutions with pooling, then scores. Week 9."""

from __future__ import annotations

import numpy as np

from uop_tensor import Tensor

from .convolution import Conv2d
from .layers import Linear, mean_cross_entropy
from .module import ModelError, Module, positive

__all__ = ["Cnn"]


class Cnn(Module):
    """Twice a convolution of 3 x 3, ReLU and the greatest of 2 x 2;
    then one Linear layer. 20,490 parameters.
    """

    def __init__(
        self,
        generator: np.random.Generator | None = None,
        *,
        side: int = 28,
        channels: int = 1,
        width: int = 16,
        classes: int = 10,
    ) -> None:
        """Raises ModelError for a size that is not positive, or a side that 4 does not divide."""
        positive(side=side, channels=channels, width=width, classes=classes)
        if side % 4:
            raise ModelError(f"a side of {side} pixels cannot be halved twice")
        self.image = (channels, side, side)
        self.conv1 = Conv2d(channels, width, 3, generator, padding=1)
        self.conv2 = Conv2d(width, 2 * width, 3, generator, padding=1)
        self.output = Linear(2 * width * (side // 4) ** 2, classes, generator)

    def __call__(self, images: Tensor) -> Tensor:
        """Scores (N, classes) of images (N, channels, side, side), or in rows (N, channels * side * side)."""
        x = images.reshape(images.shape[0], *self.image).cast(self.output.weight.dtype)
        x = self.conv1(x).relu().max_pool2d((2, 2))
        x = self.conv2(x).relu().max_pool2d((2, 2))
        return self.output(x.reshape(x.shape[0], -1))

    def loss(self, images: Tensor, labels: Tensor) -> Tensor:
        """The mean cross-entropy in nats."""
        return mean_cross_entropy(self(images), labels)
