"""The learning rate over a run."""

from __future__ import annotations

from itertools import pairwise

import pytest

from uop_nn import warmup_cosine


def test_a_warm_up_and_half_a_cosine() -> None:
    rates = [warmup_cosine(step, 12, 8.0, warmup=4, floor=0.25) for step in range(12)]
    assert rates[:4] == [2, 4, 6, 8]
    assert rates[7] == pytest.approx(5)  # half of the way down, from 8 to 2
    assert rates[11] == pytest.approx(2)
    assert all(a > b for a, b in pairwise(rates[3:]))


def test_without_a_warm_up_and_shorter_than_it() -> None:
    assert warmup_cosine(0, 1, 3.0, warmup=0, floor=0.5) == pytest.approx(1.5)
    assert [warmup_cosine(step, 2, 4.0, warmup=4) for step in range(2)] == [1, 2]
