"""explain: what is said of plans, held against what is known of them otherwise. Week 5."""

import re

import numpy as np
import pytest

from uop_tensor import Tensor, TensorError, explain, jit


def new(*shape: int) -> Tensor:
    return Tensor(np.zeros(shape, np.float32))


def test_a_value_that_is_dear_and_asked_for_often() -> None:
    """A product of two products: the first is stored, since each of its elements is used 32 times."""
    a, b, c = new(16, 64), new(64, 8), new(8, 32)
    text = explain(a @ b @ c)
    assert "2 kernels, 2 different" in text
    found = re.search(
        r"reduce add f32\[16, 8\]: ([\d,]+) elements of cost (\d+), asked for ([\d,]+) times: "
        r"to store and load them costs ([\d,]+), to compute them again ([\d,]+)",
        text,
    )
    assert found is not None
    elements, cost, times, store, again = (int(g.replace(",", "")) for g in found.groups())
    assert (elements, times) == (16 * 8, 16 * 8 * 32)
    assert cost >= 64 * 2  # a product and a sum for each of 64 terms
    assert store == elements * (cost + 32) + times
    assert again == times * cost
    assert store < again
    assert f"loads input 0, input 1: {4 * (16 * 64 + 64 * 8):,} bytes; stores {4 * 16 * 8:,} bytes" in text


def test_reasons() -> None:
    x = new(64, 64)
    text = explain((x + 1.0).contiguous() @ x)
    assert "contiguous() says so" in text
    assert "asked for" in text
    total = new(4)
    for _ in range(2500):
        total = total + 1.0
    assert "cut here, since a kernel has at most" in explain(total)
    soft = x.softmax()
    both = explain(soft, *soft.gradient(x, seed=x))
    assert "computes exp2 f32[64, 64] as kernel 1, 2 does" in both
    assert "one kernel stores them" in both


def test_a_jitted_function() -> None:
    @jit
    def step(x: Tensor) -> Tensor:
        return x.softmax()

    assert explain(step) == ""
    step(new(4, 8))
    step(new(4, 16))
    text = explain(step)
    assert text.count("step on ") == 2
    assert "stores div f32[4, 16]" in text
    with pytest.raises(TensorError, match="give tensors or jitted functions"):
        explain(3)  # type: ignore[arg-type]


def test_nothing_is_computed_and_nothing_is_there_to_compute() -> None:
    x = new(4)
    assert "1 kernel" in explain(x + 1.0, x + 1.0)
    assert "2 kernels" in explain(x + 1.0, x.sum())
    assert "1 kernel" in explain(x)  # a copy
