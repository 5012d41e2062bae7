"""First values: their spread, their fans, and what decides them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from uop_nn import Linear, ModelError, init
from uop_tensor import Tensor, manual_seed

SHAPE = (64, 32, 3, 3)  # fan in 288, fan out 576
SPREADS: list[tuple[Callable[[np.random.Generator | None], Tensor], float]] = [
    (lambda g: init.uniform(g, SHAPE, 0.3), 0.3 / math.sqrt(3)),
    (lambda g: init.normal(g, SHAPE, 0.3), 0.3),
    (lambda g: init.xavier_uniform(g, SHAPE, gain=2.0), 2 * math.sqrt(2 / (288 + 576))),
    (lambda g: init.xavier_normal(g, SHAPE), math.sqrt(2 / (288 + 576))),
    (lambda g: init.kaiming_uniform(g, SHAPE), math.sqrt(2 / 288)),
    (lambda g: init.kaiming_normal(g, SHAPE, 0.5, fan_out=True), math.sqrt(2 / 1.25 / 576)),
]


@pytest.mark.parametrize(("make", "std"), SPREADS)
def test_the_spread(make: Callable[[np.random.Generator | None], Tensor], std: float) -> None:
    found, again, other = (make(np.random.default_rng(seed)).numpy() for seed in (1, 1, 2))
    assert found.shape == SHAPE
    assert found.dtype == np.float32
    assert found.std() == pytest.approx(std, rel=0.02)  # 18,432 values: 4 standard deviations
    assert abs(found.mean()) < 4 * std / math.sqrt(found.size)
    np.testing.assert_array_equal(found, again)
    assert (found != other).any()


def test_a_normal_without_tails() -> None:
    found = init.truncated_normal(np.random.default_rng(0), (100, 100), 0.5).numpy()
    assert np.abs(found).max() <= 1
    assert found.std() == pytest.approx(0.5 * 0.8796, rel=0.02)  # of a normal cut off at 2


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 2, 3)])
def test_orthogonal(shape: tuple[int, ...]) -> None:
    found = init.orthogonal(np.random.default_rng(0), shape, gain=2.0).numpy().astype(np.float64)
    matrix = found.reshape(shape[0], -1)
    square = matrix @ matrix.T if len(matrix) < len(matrix.T) else matrix.T @ matrix
    np.testing.assert_allclose(square, 4 * np.eye(len(square)), atol=1e-5)


def test_without_a_generator_the_seed_of_tensors_decides() -> None:
    found = []
    for seed in (1, 1, 2):
        manual_seed(seed)
        layer = Linear(16, 64)
        assert layer.bias is not None
        found.append(np.concatenate([layer.weight.numpy().ravel(), layer.bias.numpy()]))
    np.testing.assert_array_equal(found[0], found[1])
    assert (found[0] != found[2]).any()
    assert 0.24 < np.abs(found[0]).max() <= 0.25
    assert found[0].std() == pytest.approx(0.25 / math.sqrt(3), rel=0.1)


def test_what_is_refused() -> None:
    with pytest.raises(ModelError, match=r"shape \(3,\) has no fans"):
        init.xavier_normal(None, (3,))
    with pytest.raises(ModelError, match=r"numpy.random.Generator or None, not False .*by name"):
        Linear(2, 3, False)  # type: ignore[arg-type]  # PyTorch has the bias there
