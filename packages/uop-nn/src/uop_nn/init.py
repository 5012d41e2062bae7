"""First values of parameters, from a NumPy generator of the caller's, so that a seed fixes them. Week 5."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from uop_tensor import Tensor

__all__ = ["constant", "normal", "uniform"]


def uniform(generator: np.random.Generator, shape: Sequence[int], bound: float) -> Tensor:
    """A parameter, f32, uniform on [-bound, bound)."""
    return _parameter(generator.uniform(-bound, bound, tuple(shape)))


def normal(generator: np.random.Generator, shape: Sequence[int], std: float) -> Tensor:
    """A parameter, f32, normal with mean 0."""
    return _parameter(generator.normal(0.0, std, tuple(shape)))


def constant(shape: Sequence[int], value: float) -> Tensor:
    """A parameter, f32, the same everywhere."""
    return _parameter(np.full(tuple(shape), value))


def _parameter(values: NDArray[np.float64]) -> Tensor:
    return Tensor(values.astype(np.float32), requires_grad=True)
