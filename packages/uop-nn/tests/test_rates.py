"""The learning rate over a run."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any, cast

import pytest

from uop_nn import (
    Constant,
    Cosine,
    LinearWarmup,
    OneCycle,
    OptimizerError,
    StepDecay,
    warmup_cosine,
)


def test_a_warm_up_and_half_a_cosine() -> None:
    rates = [warmup_cosine(step, 12, 8.0, warmup=4, floor=0.25) for step in range(12)]
    assert rates[:4] == [2, 4, 6, 8]
    assert rates[7] == pytest.approx(5)  # half of the way down, from 8 to 2
    assert rates[11] == pytest.approx(2)
    assert all(a > b for a, b in pairwise(rates[3:]))


def test_without_a_warm_up_and_shorter_than_it() -> None:
    assert warmup_cosine(0, 1, 3.0, warmup=0, floor=0.5) == pytest.approx(1.5)
    assert [warmup_cosine(step, 2, 4.0, warmup=4) for step in range(2)] == [1, 2]


def rates(schedule: Callable[[int], float], steps: int) -> list[float]:
    return [schedule(step) for step in range(steps)]


def test_schedules() -> None:
    assert rates(Constant(0.5), 3) == [0.5, 0.5, 0.5]
    assert rates(StepDecay(8.0, 2, 0.5), 6) == [8, 8, 4, 4, 2, 2]
    half = 1 + 3 * (1 + math.cos(math.pi / 4)) / 2
    assert rates(Cosine(4.0, 4, floor=1.0), 6) == pytest.approx([4, half, 2.5, 5 - half, 1, 1])
    assert rates(LinearWarmup(4, StepDecay(8.0, 1, 0.5)), 7) == [2, 4, 6, 8, 8, 4, 2]


def test_one_cycle() -> None:
    cycle = OneCycle(10.0, 11, rise=4 / 11, start=5.0, end=4.0)  # the peak is at step 3, the end at step 10
    found = rates(cycle, 13)
    assert found[0] == pytest.approx(2)
    assert found[3] == pytest.approx(10)
    assert found[10:] == pytest.approx([0.5, 0.5, 0.5])
    assert found[1] == pytest.approx(2 + 8 * (1 - math.cos(math.pi / 3)) / 2)
    assert found[8] == pytest.approx(10 - 9.5 * (1 - math.cos(math.pi * 5 / 7)) / 2)


def test_schedules_that_are_refused() -> None:
    wrong: list[tuple[Callable[[], object], str]] = [
        (lambda: Cosine(1.0, 0), "steps must be at least 1, not 0"),
        (lambda: StepDecay(1.0, 0), "every must be at least 1, not 0"),
        (lambda: LinearWarmup(0, Constant(1.0)), "steps must be at least 1, not 0"),
        (lambda: OneCycle(1.0, 10, rise=1.0), "rise must be between 0 and 1, not 1.0"),
        (lambda: OneCycle(1.0, 10, start=0.0), "start and end must be above 0, not 0.0 and 10000.0"),
        (lambda: Cosine(math.nan, 10), "peak must be a finite number, not nan"),
        (lambda: StepDecay(1.0, 10, math.inf), "factor must be a finite number, not inf"),
        (lambda: Constant(cast(Any, "1")), "rate must be a finite number, not '1'"),
        (lambda: LinearWarmup(2, cast(Any, 0.1)), r"not 0.1 \(give Constant\(rate\)\)"),
    ]
    for make, message in wrong:
        with pytest.raises(OptimizerError, match=message):
            make()
