"""Programs that are cut because they are long or wide, against NumPy and their own sums. Week 5."""

import numpy as np
import pytest

from uop_ir import Limits, Ops, UOp
from uop_tensor import Tensor, cut
from uop_tensor.cut import cut_wide
from uop_tensor.program import COUNTERS


@pytest.fixture(autouse=True)
def short_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every kernel of more than 20 operations is long."""
    for module in ("cut", "schedule"):
        monkeypatch.setattr(f"uop_tensor.{module}.LENGTH", 20)


def test_two_values_cross_each_cut() -> None:
    p, q = np.arange(7, dtype=np.int32), np.arange(7, dtype=np.int32) * 3
    x, y = Tensor(p), Tensor(q)
    for _ in range(100):
        p, q = q, p + q
        x, y = y, x + y
    before = COUNTERS.kernels
    np.testing.assert_array_equal(y.numpy(), q)
    assert COUNTERS.kernels - before > 4


def test_views_reductions_and_broadcasts_between_cuts() -> None:
    a = np.random.default_rng(0).integers(-9, 9, (5, 6), np.int64)
    x = Tensor(a)
    for i in range(30):
        a = (np.flip(a, 1) * 3 - a) % 101 + np.pad(a[1:], ((0, 1), (0, 0))) + a.sum(1, keepdims=True) % 7 + i
        x = (x.flip(1) * 3 - x) % 101 + x[1:].pad(((0, 1), (0, 0))) + x.sum(1, keepdim=True) % 7 + i
    np.testing.assert_array_equal(x.numpy(), a)


def test_a_cut_kernel_may_store_over_what_it_replaces() -> None:
    a = np.arange(6, dtype=np.int32)
    x = Tensor(a).realize()
    kept = x.flip(0)
    for _ in range(3):
        new, value = a, x
        for i in range(50):
            new, value = new * 3 + np.flip(a) + i, value * 3 + x.flip(0) + i
        a = new
        x.assign(value).realize()
        np.testing.assert_array_equal(x.numpy(), a)
    np.testing.assert_array_equal(kept.numpy(), np.arange(6)[::-1])


def test_many_operands_are_cut_in_one_pass() -> None:
    values = [UOp.param(i, 4, Tensor(0.0).dtype) for i in range(500)]
    total = values[0]
    for v in values[1:]:
        total = total + v
    cuts = cut_wide(total, set(), Limits().arguments)
    assert len(cuts) == 8  # 63 values, seven times 62 more, the last 3
    assert all(n.op is Ops.ADD for n in cuts)


def test_length_counts_definitions() -> None:
    x = UOp.param(0, 4, Tensor(0.0).dtype)
    assert cut.length(x) == cut.length(x.reshape((2, 2))) == 0
    assert cut.length(x + 1.0) == 1
    assert cut.length(x.alu(Ops.SIN)) > 100
