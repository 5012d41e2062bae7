"""Optimizers that scale each step by what they remember of the gradients: Adam, AdamW, Lion. Week 5."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from uop_tensor import Tensor

from .optim import Optimizer, check, decayed, named, zeros_like

__all__ = ["Adam", "AdamW", "Lion"]


class Adam(Optimizer):
    """Adam (Kingma and Ba, 2015); `weight_decay` w adds `w * p` to the gradient.

    m and v are moving averages of g and g * g, from 0. That start is corrected for by the weight which the
    gradients have in them so far: the same moving average of 1, `c = beta * c + (1 - beta)`, which is 1 -
    beta^t (and in f32 more exact than that formula); t counts the steps of the optimizer, for a parameter
    without a gradient in some of them too. `p -= lr * (m / c1) / (sqrt(v / c2) + eps)`.
    """

    #: Whether the weights shrink by themselves, instead of through the gradient.
    decoupled = False

    def __init__(
        self,
        parameters: Iterable[Tensor],
        lr: float = 1e-3,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(parameters, lr)
        check_betas(betas)
        check("eps", eps, eps > 0, "above 0")
        check("weight_decay", weight_decay, weight_decay >= 0, "at least 0")
        self.betas, self.eps, self.weight_decay = betas, eps, weight_decay
        self.mean, self.square = zeros_like(self.parameters), zeros_like(self.parameters)
        self.corrections = tuple(Tensor(np.zeros((), np.float32)) for _ in betas)

    def begin_step(self) -> None:
        for correction, beta in zip(self.corrections, self.betas, strict=True):
            correction.assign(beta * correction + (1 - beta))

    def update(self, index: int, parameter: Tensor, gradient: Tensor, lr: Tensor) -> None:
        (beta1, beta2), (correction1, correction2) = self.betas, self.corrections
        kept = parameter
        if self.decoupled:
            kept = decayed(parameter, lr, self.weight_decay)
        elif self.weight_decay:
            gradient = gradient + self.weight_decay * parameter
        mean = self.mean[index].assign(beta1 * self.mean[index] + (1 - beta1) * gradient)
        square = self.square[index].assign(beta2 * self.square[index] + (1 - beta2) * gradient * gradient)
        spread = (square / correction2).sqrt() + self.eps
        new = kept - lr / correction1 * mean / spread
        parameter.assign(new.cast(parameter.dtype))

    def state_dict(self) -> dict[str, Tensor]:
        return {
            **named("exp_avg", self.mean),
            **named("exp_avg_sq", self.square),
            **named("bias_correction", self.corrections),
        }


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019): `p -= lr * weight_decay * p` before
    Adam's step.
    """

    decoupled = True

    def __init__(
        self,
        parameters: Iterable[Tensor],
        lr: float = 1e-3,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
    ) -> None:
        super().__init__(parameters, lr, betas=betas, eps=eps, weight_decay=weight_decay)


class Lion(Optimizer):
    """Sign descent with momentum (Chen et al., 2023).

    `p -= lr * weight_decay * p`, then `p -= lr * sign(beta1 * m + (1 - beta1) * g)`, and at last
    `m = beta2 * m + (1 - beta2) * g`. A good rate is a third to a tenth of AdamW's, with more weight decay.
    """

    def __init__(
        self,
        parameters: Iterable[Tensor],
        lr: float = 1e-4,
        *,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(parameters, lr)
        check_betas(betas)
        check("weight_decay", weight_decay, weight_decay >= 0, "at least 0")
        self.betas, self.weight_decay = betas, weight_decay
        self.mean = zeros_like(self.parameters)

    def update(self, index: int, parameter: Tensor, gradient: Tensor, lr: Tensor) -> None:
        beta1, beta2 = self.betas
        mean = self.mean[index]
        direction = (beta1 * mean + (1 - beta1) * gradient).sign()
        mean.assign(beta2 * mean + (1 - beta2) * gradient)
        kept = decayed(parameter, lr, self.weight_decay)
        parameter.assign((kept - lr * direction).cast(parameter.dtype))

    def state_dict(self) -> dict[str, Tensor]:
        return named("exp_avg", self.mean)


def check_betas(betas: Any) -> None:
    """Raise OptimizerError unless two weights of moving averages are given, both in [0, 1)."""
    check("betas", betas, isinstance(betas, tuple | list) and len(betas) == 2, "two numbers")
    for number, beta in enumerate(betas):
        check(f"betas[{number}]", beta, 0 <= beta < 1, "in [0, 1)")
