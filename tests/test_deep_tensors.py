"""An expression of 100,000 nodes: the scheduler cuts it into
kernels that a C compiler takes in reasonable time.
"""

from __future__ import annotations

import numpy as np
import pytest

from uop_tensor import Tensor


@pytest.mark.slow
def test_an_expression_of_100_000_nodes() -> None:
    given = np.linspace(-2, 2, 19, dtype=np.float32)
    x = value = Tensor(given, device="CPU")
    want = given
    for i in range(40_000):
        value = value * 1.5 - x if i % 2 else (value * 0.5).maximum(x)
        want = want * np.float32(1.5) - given if i % 2 else np.maximum(want * np.float32(0.5), given)
    np.testing.assert_array_equal(value.numpy(), want)
