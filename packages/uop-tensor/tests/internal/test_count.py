"""The numbers from 0 up, as few nodes."""

import numpy as np
import pytest

from uop_ir import Ops, dtypes, evaluate
from uop_tensor.creation import count


@pytest.mark.parametrize("n", [0, 1, 2, 63, 64, 65, 100, 4095, 4096, 4097, 5000])
def test_count_is_a_sum_of_tables(n: int) -> None:
    node = count(n, dtypes.i32)
    np.testing.assert_array_equal(evaluate([node], {})[0], np.arange(n, dtype=np.int32))
    assert Ops.BUFFER not in {x.op for x in node.toposort()}
    assert len(node.toposort()) < 250


def test_count_of_millions_has_few_nodes() -> None:
    node = count(10**7, dtypes.i32)
    assert node.shape == (10**7,)
    assert len(node.toposort()) < 350
