"""Layers of images: convolutions and pooling, with the parameters and first values of PyTorch. Week 9."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, TypeAlias

import numpy as np

from uop_tensor import Tensor

from . import init
from .module import ModelError, Module, positive, tensor

__all__ = ["AvgPool2d", "Conv1d", "Conv2d", "ConvTranspose2d", "MaxPool2d"]

#: One number for all axes of space, or one for each.
Each: TypeAlias = "int | Sequence[int]"


class Conv1d(Module):
    """Sums of products with each window: (N, inputs, length) to (N, outputs, places).

    `weight` (outputs, inputs / groups, kernel) and `bias` (outputs) are uniform within 1 / sqrt(fan in).
    `stride`, `padding` (also "same" and "valid"), `dilation` and `groups` are those of `Tensor.conv1d`.
    """

    axes: ClassVar[int] = 1

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel_size: Each,
        generator: np.random.Generator | None = None,
        *,
        stride: Each = 1,
        padding: Each | str = 0,
        dilation: Each = 1,
        groups: int = 1,
        bias: bool = True,
    ) -> None:
        """Raises ModelError for sizes that are not positive,
        and unless the groups divide inputs and outputs.
        """
        kernel = _kernel(inputs, outputs, kernel_size, self.axes, groups)
        shape = (outputs, inputs // groups, *kernel)
        self.weight, self.bias = _weights(generator, shape, outputs, bias)
        self.stride, self.padding, self.dilation, self.groups = stride, padding, dilation, groups

    def __call__(self, x: Tensor) -> Tensor:
        """Raises TensorError where the channels or sizes of `x` do not fit."""
        return tensor(self, x).conv1d(
            self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups
        )


class Conv2d(Conv1d):
    """The same over two axes of space: (N, inputs, height, width) to (N, outputs, rows, columns)."""

    axes = 2

    def __call__(self, x: Tensor) -> Tensor:
        """Raises TensorError where the channels or sizes of `x` do not fit."""
        return tensor(self, x).conv2d(
            self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups
        )


class ConvTranspose2d(Module):
    """What the gradient of Conv2d does: (N, inputs, height, width) to (N, outputs, rows, columns), larger by
    the stride.

    `weight` (inputs, outputs / groups, *kernel) and `bias` (outputs) are uniform within 1 / sqrt(outputs /
    groups * size of the kernel).
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel_size: Each,
        generator: np.random.Generator | None = None,
        *,
        stride: Each = 1,
        padding: Each = 0,
        output_padding: Each = 0,
        dilation: Each = 1,
        groups: int = 1,
        bias: bool = True,
    ) -> None:
        """Raises ModelError for sizes that are not positive,
        and unless the groups divide inputs and outputs.
        """
        kernel = _kernel(inputs, outputs, kernel_size, 2, groups)
        shape = (inputs, outputs // groups, *kernel)
        self.weight, self.bias = _weights(generator, shape, outputs, bias)
        self.stride, self.padding, self.output_padding = stride, padding, output_padding
        self.dilation, self.groups = dilation, groups

    def __call__(self, x: Tensor) -> Tensor:
        """Raises TensorError where the channels or sizes of `x` do not fit."""
        return tensor(self, x).conv_transpose2d(
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            self.output_padding,
            self.groups,
            self.dilation,
        )


class MaxPool2d(Module):
    """The greatest element of each window of `kernel_size`, which are `stride` apart (by default, side by
    side).
    """

    def __init__(
        self,
        kernel_size: Each = 2,
        *,
        stride: Each | None = None,
        padding: Each = 0,
        dilation: Each = 1,
        ceil_mode: bool = False,
    ) -> None:
        """With `ceil_mode` also windows that reach beyond the end, as in PyTorch."""
        self.kernel_size, self.stride = _two(kernel_size), stride
        self.padding, self.dilation, self.ceil_mode = padding, dilation, ceil_mode

    def __call__(self, x: Tensor) -> Tensor:
        """(N, channels, height, width) to (N, channels, rows, columns)."""
        pooled: Tensor = tensor(self, x).max_pool2d(
            self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode
        )
        return pooled


class AvgPool2d(Module):
    """The mean of each window of `kernel_size`, which are `stride` apart (by default, side by side)."""

    def __init__(
        self,
        kernel_size: Each = 2,
        *,
        stride: Each | None = None,
        padding: Each = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        """With `ceil_mode` also windows that reach beyond the end;
        the padding counts as elements, unless told not to.
        """
        self.kernel_size, self.stride, self.padding = _two(kernel_size), stride, padding
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def __call__(self, x: Tensor) -> Tensor:
        """(N, channels, height, width) to (N, channels, rows, columns)."""
        return tensor(self, x).avg_pool2d(
            self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad
        )


def _two(size: Each) -> Each:
    return (size, size) if isinstance(size, int) else size


def _weights(
    generator: np.random.Generator | None, shape: tuple[int, ...], outputs: int, bias: bool
) -> tuple[Tensor, Tensor | None]:
    """A weight and, if wanted, a bias, uniform within 1 / sqrt(fan in)."""
    bound = 1 / math.sqrt(init.fans(shape)[0])
    return init.uniform(generator, shape, bound), init.uniform(generator, (outputs,), bound) if bias else None


def _kernel(inputs: int, outputs: int, size: Each, axes: int, groups: int) -> tuple[int, ...]:
    """The size of a kernel, one number for each axis of space."""
    positive(inputs=inputs, outputs=outputs, groups=groups)
    kernel = (size,) * axes if isinstance(size, int) else tuple(size)
    if len(kernel) != axes:
        raise ModelError(
            f"a kernel of size {size} for {axes} axes of space", remedy="one number, or one for each"
        )
    positive(**{f"kernel_size[{axis}]": length for axis, length in enumerate(kernel)})
    if inputs % groups or outputs % groups:
        raise ModelError(f"{groups} groups do not divide {inputs} inputs and {outputs} outputs")
    return kernel
