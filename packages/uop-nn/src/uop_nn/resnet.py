"""Residual networks of images, with the names of torchvision's weights. Week 9."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from uop_tensor import Tensor

from .convolution import Conv2d
from .layers import Linear
from .module import Module, Sequential, positive
from .norms import BatchNorm2d

__all__ = ["ResNet", "resnet18", "resnet34"]


class BasicBlock(Module):
    """Two convolutions of 3 x 3, added to what was given; where the shape changes, to a convolution of 1 x 1
    of it.
    """

    def __init__(self, inputs: int, outputs: int, stride: int, generator: np.random.Generator | None) -> None:
        self.conv1 = Conv2d(inputs, outputs, 3, generator, stride=stride, padding=1, bias=False)
        self.bn1 = BatchNorm2d(outputs)
        self.conv2 = Conv2d(outputs, outputs, 3, generator, padding=1, bias=False)
        self.bn2 = BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            shortcut = Conv2d(inputs, outputs, 1, generator, stride=stride, bias=False)
            self.downsample = Sequential(shortcut, BatchNorm2d(outputs))

    def __call__(self, x: Tensor) -> Tensor:
        straight = x if self.downsample is None else self.downsample(x)
        return (self.bn2(self.conv2(self.bn1(self.conv1(x)).relu())) + straight).relu()


class ResNet(Module):
    """A residual network (He et al., 2016) of four stages of `blocks`, the first of `width` channels, then
    twice as many.

    A weight file of torchvision loads: `resnet18().load_state_dict(load_safetensors(path))`; call `eval` to
    classify.
    """

    def __init__(
        self,
        blocks: Sequence[int],
        generator: np.random.Generator | None = None,
        *,
        classes: int = 1000,
        width: int = 64,
    ) -> None:
        positive(classes=classes, width=width, **{f"blocks[{i}]": count for i, count in enumerate(blocks)})
        self.conv1 = Conv2d(3, width, 7, generator, stride=2, padding=3, bias=False)
        self.bn1 = BatchNorm2d(width)
        inputs = width
        self.stages = len(blocks)
        for stage, count in enumerate(blocks):
            outputs = width << stage
            strides = [1 if stage == 0 else 2] + [1] * (count - 1)
            layers = []
            for stride in strides:
                layers.append(BasicBlock(inputs, outputs, stride, generator))
                inputs = outputs
            setattr(self, f"layer{stage + 1}", layers)
        self.fc = Linear(inputs, classes, generator)

    def __call__(self, images: Tensor) -> Tensor:
        """Scores (N, classes) of images (N, 3, height, width)."""
        x = self.bn1(self.conv1(images)).relu().max_pool2d((3, 3), 2, 1)
        for stage in range(self.stages):
            for block in getattr(self, f"layer{stage + 1}"):
                x = block(x)
        return self.fc(x.mean((2, 3)))


def resnet18(generator: np.random.Generator | None = None, *, classes: int = 1000) -> ResNet:
    """11,689,512 parameters for 1,000 classes."""
    return ResNet((2, 2, 2, 2), generator, classes=classes)


def resnet34(generator: np.random.Generator | None = None, *, classes: int = 1000) -> ResNet:
    """21,797,672 parameters for 1,000 classes."""
    return ResNet((3, 4, 6, 3), generator, classes=classes)
