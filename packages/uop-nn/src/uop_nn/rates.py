"""Learning rates that change over a training run. Week 9."""

from __future__ import annotations

import math

__all__ = ["warmup_cosine"]


def warmup_cosine(step: int, steps: int, peak: float, *, warmup: int, floor: float = 0.1) -> float:
    """The rate of step 0 to steps - 1: it rises in a line to `peak` over `warmup` steps, then falls along half a cosine.

    The last step has the rate `floor * peak`.
    """
    if step < warmup:
        return peak * (step + 1) / warmup
    progress = (step + 1 - warmup) / max(steps - warmup, 1)
    return peak * (floor + (1 - floor) * (1 + math.cos(math.pi * progress)) / 2)
