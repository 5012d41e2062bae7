"""Layers that normalize: LayerNorm, RMSNorm, GroupNorm, BatchNorm2d, with the names of PyTorch. Week 5."""

from __future__ import annotations

import numpy as np

from uop_tensor import Tensor

from . import init
from .module import ModelError, Module, positive, tensor

__all__ = ["BatchNorm2d", "GroupNorm", "LayerNorm", "RMSNorm"]


class LayerNorm(Module):
    """The last axis brought to mean 0 and variance 1, then times `weight` plus `bias`, both (width).

    With `elementwise_affine=False` there is neither.
    """

    def __init__(
        self, width: int, *, eps: float = 1e-5, bias: bool = True, elementwise_affine: bool = True
    ) -> None:
        positive(width=width)
        self.weight = init.constant((width,), 1.0) if elementwise_affine else None
        self.bias = init.constant((width,), 0.0) if elementwise_affine and bias else None
        self.width, self.eps = width, eps

    def __call__(self, x: Tensor) -> Tensor:
        """(..., width) to (..., width). Raises ModelError for another last axis."""
        if tensor(self, x).shape[-1:] != (self.width,):
            raise ModelError(
                f"LayerNorm({self.width}) of a tensor of shape {x.shape}", remedy="its last axis is the width"
            )
        return x.layernorm(self.weight, self.bias, self.eps)


class RMSNorm(Module):
    """The last axis divided by the root of its mean square, `sqrt(mean(x²) + eps)`, then times `weight`
    (width), unless there is none, by `elementwise_affine=False`.

    f16 and bf16 are normalized in f32 and rounded once (Zhang and Sennrich, 2019).
    """

    def __init__(self, width: int, *, eps: float = 1e-6, elementwise_affine: bool = True) -> None:
        positive(width=width)
        self.weight = init.constant((width,), 1.0) if elementwise_affine else None
        self.width, self.eps = width, eps

    def __call__(self, x: Tensor) -> Tensor:
        """(..., width) to (..., width). Raises TensorError for another last axis."""
        return tensor(self, x).rms_norm(self.width, self.weight, self.eps)


class GroupNorm(Module):
    """Each of `groups` groups of channels of each example brought to mean 0 and variance 1 (Wu and He, 2018).

    Then each channel is multiplied by its `weight` and shifted by its `bias`,
    both (channels), unless there are none, by `affine=False`.
    """

    def __init__(self, groups: int, channels: int, *, eps: float = 1e-5, affine: bool = True) -> None:
        """Raises ModelError unless the groups divide the channels."""
        positive(groups=groups, channels=channels)
        if channels % groups:
            raise ModelError(f"{channels} channels do not divide into {groups} groups")
        self.weight = init.constant((channels,), 1.0) if affine else None
        self.bias = init.constant((channels,), 0.0) if affine else None
        self.groups, self.eps = groups, eps

    def __call__(self, x: Tensor) -> Tensor:
        """(N, channels, ...) to the same. Raises TensorError for another second axis."""
        return tensor(self, x).group_norm(self.groups, self.weight, self.bias, self.eps)


class BatchNorm2d(Module):
    """Each channel brought to mean 0 and variance 1, then times `weight` plus `bias` (Ioffe and Szegedy,
    2015).

    In training by the mean and variance of the batch, whose moving averages are kept: `running_mean`,
    `running_var` (of the variance with correction) and `num_batches_tracked`, which are not trained. Else by
    those averages. With `affine=False` there are no weight and bias.
    """

    buffers = ("running_mean", "running_var", "num_batches_tracked")

    def __init__(
        self, channels: int, *, eps: float = 1e-5, momentum: float = 0.1, affine: bool = True
    ) -> None:
        positive(channels=channels)
        self.weight = init.constant((channels,), 1.0) if affine else None
        self.bias = init.constant((channels,), 0.0) if affine else None
        self.running_mean = Tensor(np.zeros(channels, np.float32))
        self.running_var = Tensor(np.ones(channels, np.float32))
        self.num_batches_tracked = Tensor(np.zeros((), np.int64))
        self.eps, self.momentum = eps, momentum

    def __call__(self, x: Tensor) -> Tensor:
        """(N, channels, H, W) to the same.

        Raises ModelError for another rank, TensorError for other channels, or one value a channel in
        training.
        """
        if tensor(self, x).ndim != 4:
            channels = self.running_mean.shape[0]
            raise ModelError(f"BatchNorm2d takes (N, {channels}, H, W), not the shape {x.shape}")
        averages = self.running_mean, self.running_var
        out = x.batch_norm(*averages, self.weight, self.bias, self.training, self.momentum, self.eps)
        if self.training:
            self.num_batches_tracked.assign(self.num_batches_tracked + 1)
        return out
