"""Normalization: over the last axes, over batches, over groups of channels, and to unit length. Week 5."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Self

import numpy as np

from uop_ir import DType, Ops, UOp

from . import shapes
from .errors import TensorError
from .graph import detach, fold, shape_of
from .margins import Margins
from .promotion import accumulator, as_float


class Norms(Margins):
    """f16 and bf16 are normalized in f32 and rounded once; `weight` and `bias` then scale and shift."""

    def layernorm(
        self, weight: Self | None = None, bias: Self | None = None, eps: float = 1e-5, axis: int = -1
    ) -> Self:
        """Each row along the axis brought to mean 0 and variance 1, then scaled and shifted."""
        at = (shapes.one_axis("layernorm", self.ndim, axis),)
        return self._affine(self._standard(self.uop, at, eps), weight, bias)

    def layer_norm(
        self,
        normalized_shape: int | Sequence[int],
        weight: Self | None = None,
        bias: Self | None = None,
        eps: float = 1e-5,
    ) -> Self:
        """The last axes, whose sizes are given, brought to mean 0 and variance 1 together."""
        return self._affine(
            self._standard(self.uop, self._last_axes("layer_norm", normalized_shape), eps), weight, bias
        )

    def rms_norm(
        self, normalized_shape: int | Sequence[int], weight: Self | None = None, eps: float | None = None
    ) -> Self:
        """x / sqrt(mean(x*x) + eps) over the last axes, whose sizes are given; `eps` is by default that of
        the dtype in which it is computed, as in torch.
        """
        axes = self._last_axes("rms_norm", normalized_shape)
        dtype = as_float(self.dtype)
        x = self.uop.cast(accumulator(dtype))
        eps = float(np.spacing(x.dtype.numpy.type(1))) if eps is None else eps
        mean = fold(x * x, Ops.ADD, axes, keepdim=True) / math.prod(self.shape[a] for a in axes)
        return self._affine(self._of((x * _inverse_root(mean, eps)).cast(dtype)), weight, None)

    def group_norm(
        self, num_groups: int, weight: Self | None = None, bias: Self | None = None, eps: float = 1e-5
    ) -> Self:
        """The channels (axis 1) in groups, each brought to mean 0 and variance 1;
        `weight` and `bias` a channel.
        """
        channels = self._channels("group_norm", weight, bias)
        if num_groups < 1 or channels % num_groups:
            raise TensorError(
                f"group_norm: {num_groups} groups of {channels} channels", remedy="groups of equal size"
            )
        x = self.uop.reshape((self.shape[0], num_groups, channels // num_groups, *self.shape[2:]))
        found = self._standard(x, tuple(range(2, x.ndim)), eps).reshape(self.shape)
        return self._by_channel(found, weight, bias)

    def instance_norm(
        self, *, weight: Self | None = None, bias: Self | None = None, eps: float = 1e-5
    ) -> Self:
        """Each channel (axis 1) of each sample brought to mean 0 and variance 1;
        there are no running statistics.
        """
        self._channels("instance_norm", weight, bias)
        return self._by_channel(self._standard(self.uop, tuple(range(2, self.ndim)), eps), weight, bias)

    def batch_norm(
        self,
        running_mean: Self | None,
        running_var: Self | None,
        weight: Self | None = None,
        bias: Self | None = None,
        training: bool = False,
        momentum: float = 0.1,
        eps: float = 1e-5,
    ) -> Self:
        """Each channel (axis 1) less its mean, by its standard deviation:
        those given, or in training of the batch.

        Training gives the running tensors, where given, the value (1 - momentum) * old + momentum * new; the
        new variance is that with correction 1.
        """
        self._channels("batch_norm", running_mean, running_var, weight, bias)
        if not training:
            if running_mean is None or running_var is None:
                raise TensorError(
                    "batch_norm: no running_mean or running_var", remedy="give both, or training=True"
                )
            invstd = self._of(_inverse_root(running_var.uop.cast(accumulator(running_var.dtype)), eps))
            return self.batchnorm(weight, bias, running_mean, invstd)
        axes = (0, *range(2, self.ndim))
        count = math.prod(self.shape[a] for a in axes)
        if count < 2:
            raise TensorError(
                f"batch_norm: {count} elements a channel in {self.shape}", remedy="training needs two or more"
            )
        x = self._of(self.uop.cast(accumulator(as_float(self.dtype))))
        for running, new in ((running_mean, x.mean(axes)), (running_var, x.var(axes))):
            if running is not None:
                kept = running * (1 - momentum) + self._of(detach(new.uop)) * momentum
                running._rebind(kept.cast(running.dtype).uop)
        return self._by_channel(self._standard(self.uop, axes, eps), weight, bias)

    def batchnorm(
        self, weight: Self | None, bias: Self | None, mean: Self, invstd: Self, axis: int | Sequence[int] = 1
    ) -> Self:
        """(x - mean) * invstd * weight + bias, each of these
        with the sizes of the axes named, or of one element.
        """
        axes = shapes.axes("batchnorm", self.ndim, axis)
        dtype = as_float(self.dtype)
        x = self.uop.cast(accumulator(dtype))
        scale = self._along(invstd, axes, x.dtype)
        scale = scale if weight is None else scale * self._along(weight, axes, x.dtype)
        out = (x - self._along(mean, axes, x.dtype)) * scale
        return self._of((out if bias is None else out + self._along(bias, axes, x.dtype)).cast(dtype))

    def _along(self, part: Self, axes: tuple[int, ...], dtype: DType) -> UOp:
        """A parameter beside the axes of this tensor to which it belongs."""
        sizes = tuple(s if a in axes else 1 for a, s in enumerate(self.shape))
        if part.numel() not in (1, math.prod(sizes)):
            raise TensorError(
                f"batchnorm: a tensor of shape {part.shape} for axes {axes} of {self.shape}",
                remedy="one element for each of theirs",
            )
        return part.uop.cast(dtype).reshape(sizes if part.numel() > 1 else (1,) * self.ndim)

    def normalize(self, p: float = 2.0, axis: int = 1, eps: float = 1e-12) -> Self:
        """The vectors along an axis by their norm, which counts as `eps` at least."""
        dtype = as_float(self.dtype)
        x = self._of(self.uop.cast(accumulator(dtype)))
        return (x / x.norm(p, axis, keepdim=True).maximum(eps)).cast(dtype)

    def local_response_norm(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Self:
        """x / (k + alpha * m)**beta, m the mean of the squares of `size` neighbours along the channels (axis
        1), zeros beyond them (Krizhevsky et al., 2012).
        """
        if self.ndim < 3 or size < 1:
            raise TensorError(
                f"local_response_norm: {size} neighbours in a tensor of shape {self.shape}",
                remedy="at least 1, and (batch, channels, *space)",
            )
        dtype = as_float(self.dtype)
        x = self._of(self.uop.cast(accumulator(dtype)))
        around = [(0, 0), (size // 2, (size - 1) // 2), *[(0, 0)] * (self.ndim - 2)]
        mean = x.square().pad(around).unfold(1, size, 1).mean(-1) if self.shape[1] else x
        return (x / (mean * alpha + k) ** beta).cast(dtype)

    def _last_axes(self, method: str, sizes: int | Sequence[int]) -> tuple[int, ...]:
        wanted = shapes.integers(method, sizes if isinstance(sizes, Sequence) else (sizes,))
        if not wanted or self.shape[-len(wanted) :] != wanted:
            raise TensorError(
                f"{method}: normalized_shape {wanted} of a tensor of shape {self.shape}",
                remedy="it is the sizes of the last axes",
            )
        return tuple(range(self.ndim - len(wanted), self.ndim))

    def _channels(self, method: str, *parts: Self | None) -> int:
        if self.ndim < 2:
            raise TensorError(f"{method}: a tensor of shape {self.shape}", remedy="axis 1 has the channels")
        for part in parts:
            if part is not None and part.shape != self.shape[1:2]:
                raise TensorError(
                    f"{method}: a parameter of shape {part.shape} for {self.shape[1]} channels of {self.shape}",
                    remedy="one element a channel",
                )
        return self.shape[1]

    def _standard(self, x: UOp, axes: tuple[int, ...], eps: float) -> Self:
        """Brought to mean 0 and variance 1 over axes, in this tensor's dtype."""
        dtype = as_float(self.dtype)
        x = x.cast(accumulator(dtype))
        n = math.prod(shape_of(x)[a] for a in axes)
        distance = x - fold(x, Ops.ADD, axes, keepdim=True) / n
        variance = fold(distance * distance, Ops.ADD, axes, keepdim=True) / n
        return self._of((distance * _inverse_root(variance, eps)).cast(dtype))

    def _by_channel(self, x: Self, weight: Self | None, bias: Self | None) -> Self:
        sizes = (-1, *(1,) * (self.ndim - 2))
        return self._affine(x, *(None if p is None else p.reshape(sizes) for p in (weight, bias)))

    def _affine(self, x: Self, weight: Self | None, bias: Self | None) -> Self:
        x = x if weight is None else x * weight
        return x if bias is None else x + bias


def _inverse_root(x: UOp, eps: float) -> UOp:
    return (x + eps).alu(Ops.SQRT).alu(Ops.RECIP)
