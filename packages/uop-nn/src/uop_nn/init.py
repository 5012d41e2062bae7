"""First values of parameters: from a NumPy generator of the caller's, or after `manual_seed`. Week 5.

Each function makes a parameter, an f32 tensor that requires a gradient. With a generator, its state decides
the values; without one (None), a new one whose seed is drawn from the random numbers of tensors, and so
`uop_tensor.manual_seed`. The fans of a shape (outputs, inputs, *kernel) are inputs and outputs, each times
the size of the kernel. A parameter that exists takes other values by
`layer.weight.assign(init.xavier_uniform(None, layer.weight.shape))`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from uop_tensor import Tensor

from .module import ModelError

__all__ = [
    "constant",
    "kaiming_normal",
    "kaiming_uniform",
    "normal",
    "orthogonal",
    "truncated_normal",
    "uniform",
    "xavier_normal",
    "xavier_uniform",
]


def uniform(generator: np.random.Generator | None, shape: Sequence[int], bound: float) -> Tensor:
    """Uniform on [-bound, bound)."""
    return _parameter(_or_new(generator).uniform(-bound, bound, tuple(shape)))


def normal(generator: np.random.Generator | None, shape: Sequence[int], std: float) -> Tensor:
    """Normal with mean 0."""
    return _parameter(_or_new(generator).normal(0.0, std, tuple(shape)))


def truncated_normal(
    generator: np.random.Generator | None, shape: Sequence[int], std: float, limit: float = 2.0
) -> Tensor:
    """Normal with mean 0, drawn again where it is more than `limit` times `std` away."""
    generator = _or_new(generator)
    values = np.asarray(generator.normal(size=tuple(shape)))
    while (far := np.abs(values) > limit).any():
        values[far] = generator.normal(size=int(far.sum()))
    return _parameter(values * std)


def constant(shape: Sequence[int], value: float) -> Tensor:
    """The same everywhere."""
    return _parameter(np.full(tuple(shape), value))


def xavier_uniform(generator: np.random.Generator | None, shape: Sequence[int], gain: float = 1.0) -> Tensor:
    """Uniform, of variance gain² · 2 / (fan in + fan out) (Glorot and Bengio, 2010)."""
    return uniform(generator, shape, gain * math.sqrt(6 / sum(fans(shape))))


def xavier_normal(generator: np.random.Generator | None, shape: Sequence[int], gain: float = 1.0) -> Tensor:
    """Normal, of variance gain² · 2 / (fan in + fan out)."""
    return normal(generator, shape, gain * math.sqrt(2 / sum(fans(shape))))


def kaiming_uniform(
    generator: np.random.Generator | None, shape: Sequence[int], slope: float = 0.0, *, fan_out: bool = False
) -> Tensor:
    """Uniform, of variance 2 / (1 + slope²) / fan, before a ReLU of that negative slope (He et al., 2015)."""
    return uniform(generator, shape, math.sqrt(6 / (1 + slope * slope) / fans(shape)[fan_out]))


def kaiming_normal(
    generator: np.random.Generator | None, shape: Sequence[int], slope: float = 0.0, *, fan_out: bool = False
) -> Tensor:
    """Normal, of variance 2 / (1 + slope²) / fan."""
    return normal(generator, shape, math.sqrt(2 / (1 + slope * slope) / fans(shape)[fan_out]))


def orthogonal(generator: np.random.Generator | None, shape: Sequence[int], gain: float = 1.0) -> Tensor:
    """A matrix (rows, everything else) whose shorter side is orthonormal,
    times `gain` (Saxe et al., 2014).
    """
    fans(shape)
    rows, columns = shape[0], math.prod(shape[1:])
    q, r = np.linalg.qr(_or_new(generator).normal(size=(max(rows, columns), min(rows, columns))))
    q = q * np.sign(np.diag(r))  # without it, not every orthogonal matrix would be as likely
    return _parameter(gain * (q if rows >= columns else q.T).reshape(tuple(shape)))


def fans(shape: Sequence[int]) -> tuple[int, int]:
    """The fan in and the fan out of a weight. Raises ModelError for less than two axes."""
    if len(shape) < 2:
        raise ModelError(f"a weight of shape {tuple(shape)} has no fans: it needs two axes or more")
    kernel = math.prod(shape[2:])
    return shape[1] * kernel, shape[0] * kernel


def _or_new(generator: object) -> np.random.Generator:
    """The generator, or for None one whose seed is drawn:
    one small kernel then serves parameters of all shapes.

    Raises ModelError for anything else: PyTorch has `bias` or a width in the place that layers have for it.
    """
    if generator is None:
        return np.random.default_rng(Tensor.randint(0, 1 << 62, 1).item())
    if not isinstance(generator, np.random.Generator):
        raise ModelError(
            f"the generator of first values must be a numpy.random.Generator or None, not {generator!r}",
            remedy="give other arguments by name",
        )
    return generator


def _parameter(values: NDArray[np.float64]) -> Tensor:
    return Tensor(np.asarray(values, np.float32), requires_grad=True)
