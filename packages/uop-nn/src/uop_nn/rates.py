"""Learning rates that change over a training run, by the number of the step, from 0. Week 9."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from .optim import OptimizerError

__all__ = ["Constant", "Cosine", "LinearWarmup", "OneCycle", "StepDecay", "warmup_cosine"]


@dataclass(frozen=True)
class Constant:
    """Always `rate`."""

    rate: float

    def __post_init__(self) -> None:
        _finite(rate=self.rate)

    def __call__(self, step: int) -> float:
        return self.rate


@dataclass(frozen=True)
class Cosine:
    """Half a cosine from `peak` at step 0 to `floor` at step `steps`,
    where it stays (SGDR without restarts).
    """

    peak: float
    steps: int
    floor: float = 0.0

    def __post_init__(self) -> None:
        _finite(peak=self.peak, floor=self.floor)
        _at_least_one(steps=self.steps)

    def __call__(self, step: int) -> float:
        return _half_cosine(self.peak, self.floor, min(step / self.steps, 1.0))


@dataclass(frozen=True)
class StepDecay:
    """`rate`, times `factor` after every `every` steps."""

    rate: float
    every: int
    factor: float = 0.1

    def __post_init__(self) -> None:
        _finite(rate=self.rate, factor=self.factor)
        _at_least_one(every=self.every)

    def __call__(self, step: int) -> float:
        return self.rate * self.factor ** (step // self.every)


@dataclass(frozen=True)
class LinearWarmup:
    """A line from `then(0) / steps` at step 0 up to `then(0)` at step `steps`, where `then` begins."""

    steps: int
    then: Callable[[int], float]

    def __post_init__(self) -> None:
        _at_least_one(steps=self.steps)
        if not callable(self.then):
            raise OptimizerError(
                f"a warm-up goes on with rates by step, not {self.then!r}", remedy="give Constant(rate)"
            )

    def __call__(self, step: int) -> float:
        if step < self.steps:
            return self.then(0) * (step + 1) / self.steps
        return self.then(step - self.steps)


@dataclass(frozen=True)
class OneCycle:
    """Up along half a cosine from `peak / start` to `peak`, then down to `peak / start / end` (Smith and
    Topin, 2017).

    The peak is at step `rise * steps - 1`, the least rate at the last step, `steps - 1`, and from there on.
    """

    peak: float
    steps: int
    rise: float = 0.3
    start: float = 25.0
    end: float = 1e4

    def __post_init__(self) -> None:
        _finite(peak=self.peak, start=self.start, end=self.end)
        if self.start <= 0 or self.end <= 0:
            raise OptimizerError(f"start and end must be above 0, not {self.start} and {self.end}")
        _at_least_one(steps=self.steps)
        if not 0 < self.rise < 1:
            raise OptimizerError(f"rise must be between 0 and 1, not {self.rise}")

    def __call__(self, step: int) -> float:
        first, top = self.peak / self.start, self.rise * self.steps - 1
        if step <= top:
            return _half_cosine(first, self.peak, step / top if top > 0 else 1.0)
        rest = self.steps - 1 - top
        return _half_cosine(self.peak, first / self.end, min((step - top) / rest, 1.0))


def warmup_cosine(step: int, steps: int, peak: float, *, warmup: int, floor: float = 0.1) -> float:
    """The rate of step 0 to steps - 1: it rises in a line to `peak` over `warmup` steps, then falls along
    half a cosine.

    The last step has the rate `floor * peak`.
    """
    if step < warmup:
        return peak * (step + 1) / warmup
    progress = (step + 1 - warmup) / max(steps - warmup, 1)
    return peak * (floor + (1 - floor) * (1 + math.cos(math.pi * progress)) / 2)


def _half_cosine(first: float, last: float, progress: float) -> float:
    return last + (first - last) * (1 + math.cos(math.pi * progress)) / 2


def _finite(**numbers: object) -> None:
    for name, number in numbers.items():
        if not isinstance(number, int | float) or not math.isfinite(number):
            raise OptimizerError(f"{name} must be a finite number, not {number!r}")


def _at_least_one(**counts: int) -> None:
    for name, count in counts.items():
        if count < 1:
            raise OptimizerError(f"{name} must be at least 1, not {count}")
