"""Muon: momentum whose matrices are made orthogonal before a step. Week 5."""

from __future__ import annotations

import math
from collections.abc import Iterable

from uop_tensor import Tensor

from .optim import Optimizer, OptimizerError, check, decayed, named, zeros_like

__all__ = ["Muon"]

#: Coefficients of the quintic whose slope at 0 is steep (Jordan et al., 2024).
QUINTIC = (3.4445, -4.7750, 2.0315)
EPS = 1e-7


class Muon(Optimizer):
    """Momentum made orthogonal by Newton-Schulz (Jordan et al., 2024), for matrices only.

    `b = momentum * b + (1 - momentum) * g`; u is b, or `momentum * b + (1 - momentum) * g` with `nesterov`;
    `p -= lr * weight_decay * p`, then `p -= lr * scale * orthogonal(u)`, where the scale is sqrt(max(1, rows
    / columns)), or 0.2 sqrt(max(rows, columns)) with `like_adamw`, so that a rate is as great as for AdamW
    (Liu et al., 2025). Parameters of another rank, embeddings and output layers are for another optimizer:
    see CombinedOptimizer.
    """

    def __init__(
        self,
        parameters: Iterable[Tensor],
        lr: float = 1e-3,
        *,
        momentum: float = 0.95,
        nesterov: bool = True,
        weight_decay: float = 0.1,
        iterations: int = 5,
        like_adamw: bool = False,
    ) -> None:
        super().__init__(parameters, lr)
        for parameter in self.parameters:
            if parameter.ndim != 2:
                raise OptimizerError(
                    f"Muon is for matrices, and a parameter has the shape {parameter.shape}",
                    remedy="give it to AdamW, and both to CombinedOptimizer",
                )
        check("momentum", momentum, 0 <= momentum < 1, "in [0, 1)")
        check("weight_decay", weight_decay, weight_decay >= 0, "at least 0")
        check("iterations", iterations, iterations >= 1, "at least 1")
        self.momentum, self.nesterov, self.weight_decay = momentum, nesterov, weight_decay
        self.iterations, self.like_adamw = iterations, like_adamw
        self.buffers = zeros_like(self.parameters)

    def update(self, index: int, parameter: Tensor, gradient: Tensor, lr: Tensor) -> None:
        m = self.momentum
        buffer = self.buffers[index].assign(m * self.buffers[index] + (1 - m) * gradient)
        direction = m * buffer + (1 - m) * gradient if self.nesterov else buffer
        rows, columns = parameter.shape
        scale = (
            0.2 * math.sqrt(max(rows, columns)) if self.like_adamw else math.sqrt(max(1.0, rows / columns))
        )
        new = decayed(parameter, lr, self.weight_decay) - lr * scale * orthogonal(direction, self.iterations)
        parameter.assign(new.cast(parameter.dtype))

    def state_dict(self) -> dict[str, Tensor]:
        return named("momentum_buffer", self.buffers)


def orthogonal(x: Tensor, iterations: int) -> Tensor:
    """A matrix with the singular vectors of `x` whose singular values are near 1 (0.7 to 1.2), in f32."""
    a, b, c = QUINTIC
    x = x.float()
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    x = x / x.square().sum().sqrt().maximum(EPS)
    for _ in range(iterations):
        gram = (x @ x.T).contiguous()
        x = (a * x + (b * gram + c * (gram @ gram)) @ x).contiguous()
    return x.T if tall else x
