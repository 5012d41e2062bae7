"""The step of a training run: one call of a jitted function, or one for each of several batches. Week 9."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from uop_ir import DType, dtypes
from uop_tensor import Tensor, jit

from .ema import Ema
from .gradients import GradientAccumulator, clip_grad_norm
from .module import Module
from .optim import Optimizer

__all__ = ["TrainStep"]

Batch = tuple[NDArray[Any], NDArray[Any]]


@dataclass
class TrainStep:
    """Loss, gradient and update.

    `loss` is computed in `dtype`; the gradients of `accumulate` batches are averaged, then clipped to a norm
    of `clip` (0: not); `ema` takes note of the new weights.
    """

    model: Module
    optimizer: Optimizer
    loss: Callable[[Tensor, Tensor], Tensor]
    accumulate: int = 1
    clip: float = 0.0
    ema: Ema | None = None
    dtype: DType = dtypes.f32
    _sums: GradientAccumulator | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if self.accumulate > 1:
            self._sums = GradientAccumulator(self.model.parameters())
        self._whole, self._part, self._last = jit(self._of_one), jit(self._of_several), jit(self._at_last)

    def __call__(self, batches: Sequence[Batch], rate: float) -> float:
        """Train on `accumulate` batches (x, y) at a learning rate; the mean loss."""
        if len(batches) == 1:
            (x, y), *_ = batches
            return float(self._whole(Tensor(x), Tensor(y), rate).item())
        losses = [self._part(Tensor(x), Tensor(y)) for x, y in batches]
        self._last(rate)
        return sum(float(loss.item()) for loss in losses) / len(losses)

    def _backward(self, x: Tensor, y: Tensor) -> Tensor:
        if self.dtype is dtypes.f32:
            loss = self.loss(x, y)
        else:
            with self.model.computing_in(self.dtype):
                loss = self.loss(x, y)
        loss.backward()
        return loss

    def _update(self, rate: Tensor | float) -> None:
        if self.clip:
            clip_grad_norm(self.optimizer.parameters, self.clip)
        self.optimizer.step(rate)
        self.optimizer.zero_grad()
        if self.ema is not None:
            self.ema.update()

    def _of_one(self, x: Tensor, y: Tensor, rate: Tensor | float) -> Tensor:
        loss = self._backward(x, y)
        self._update(rate)
        return loss

    def _of_several(self, x: Tensor, y: Tensor) -> Tensor:
        loss = self._backward(x, y)
        assert self._sums is not None
        self._sums.add(1 / self.accumulate)
        return loss

    def _at_last(self, rate: Tensor | float) -> None:
        assert self._sums is not None
        self._sums.apply()
        self._update(rate)
