"""jit: parameters that are sizes: one trace serves them all,
against NumPy and the function without jit. Week 5.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from uop_tensor import JitError, Tensor, TensorError, jit

MAX = 9
RNG = np.random.default_rng(0)


def array(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


FUNCTIONS: dict[str, Callable[[Tensor, int], Tensor]] = {
    "sum": lambda x, n: x[:, :n].sum(1),
    "all": lambda x, n: (x[:, :n] * 2.0 + 1.0).sum(),
    "from": lambda x, n: x[:, n:].sum(1),
    "both": lambda x, n: x[:, n - 1 : n + 1].sum(1),
    "mean": lambda x, n: x[:, :n].mean(1),
    "std": lambda x, n: x[:, : n + 1].std(1),
    "max": lambda x, n: x[:, :n].max(1),
    "softmax": lambda x, n: x[:, :n].softmax(1)[:, 0],
    "layernorm": lambda x, n: (x[:, :n].layernorm() ** 3).sum(0)[:1],
    "product": lambda x, n: x[:, :n].transpose(1, 2) @ x[:, :n],
    "number": lambda x, n: x[:, :n].sum(1) * n + n // 2,
    "reshape": lambda x, n: x[:, :n].reshape(2, n, 2, 2).sum((1, 2)),
    "rest": lambda x, n: x[:, :n].reshape(2, 1, n, -1).expand(2, 3, n, 4).sum(2),
    "expand": lambda x, n: (x[:, :1].expand(2, n, 4) * x[:, :n]).sum(1),
    "full": lambda x, n: Tensor.full((n, 4), 2.0).sum(0) + x[0, 0],
    "add": lambda x, n: (x[:, :n] + x[:, :n].flip(1)).max((0, 1)),
    "where": lambda x, n: (Tensor.arange(MAX + 1).reshape(-1, 1) < n).where(x, 0.0).sum(1),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_trace_gives_what_the_function_gives(name: str) -> None:
    function = FUNCTIONS[name]
    jitted = jit(function, sizes={"n": (1, MAX)})
    x = Tensor(array(2, MAX + 1, 4))
    for n in (1, 5, MAX, 2):
        np.testing.assert_allclose(jitted(x, n).numpy(), function(x, n).numpy(), rtol=1e-4, atol=1e-5)
    assert jitted.traces == 1


def test_attention_over_a_cache() -> None:
    """A key and a value are written at each position; the query looks at those that are there."""
    keys, values = Tensor.zeros(2, MAX, 4).contiguous(), Tensor.zeros(2, MAX, 4).contiguous()

    @jit(sizes={"end": (1, MAX)})
    def step(q: Tensor, k: Tensor, v: Tensor, end: int) -> Tensor:
        here = (Tensor.arange(MAX) == end - 1).reshape(1, -1, 1)
        keys.assign(here.where(k, keys))
        values.assign(here.where(v, values))
        return q.scaled_dot_product_attention(keys[:, :end], values[:, :end])

    q, k, v = array(MAX, 2, 1, 4), array(MAX, 2, 1, 4), array(MAX, 2, 1, 4)
    for t in range(MAX):
        out = step(Tensor(q[t]), Tensor(k[t]), Tensor(v[t]), t + 1).numpy()
        seen_k, seen_v = (np.concatenate(list(a[: t + 1]), 1) for a in (k, v))
        scores = q[t] @ seen_k.transpose(0, 2, 1) / 2
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        np.testing.assert_allclose(
            out, weights / weights.sum(-1, keepdims=True) @ seen_v, rtol=1e-4, atol=1e-6
        )
    assert step.traces == 1


def test_positions_of_extremes_and_running_sums() -> None:
    x = array(3, MAX)
    x[1, 2] = np.nan

    @jit(sizes={"n": (1, MAX)})
    def look(x: Tensor, n: int) -> Any:
        seen = x[:, :n]
        return seen.argmax(1), seen.argmin(-1), seen.argmax(0)[:1], seen.cumsum(1).cumsum(1).sum(1)

    for n in (MAX, 1, 3):
        seen = x[:, :n]
        wanted = seen.argmax(1), seen.argmin(-1), seen.argmax(0)[:1], seen.cumsum(1).cumsum(1).sum(1)
        for found, value in zip(look(Tensor(x), n), wanted, strict=True):
            np.testing.assert_allclose(found.numpy(), value, rtol=1e-5)
    assert look.traces == 1


def test_what_is_no_size() -> None:
    f = jit(lambda x, n: x[:n].sum(), sizes={"n": (1, 3)})
    x = Tensor([1.0, 2.0, 3.0])
    for wrong in (0, 4, 1.0, x):
        with pytest.raises(TensorError, match="no int from 1 to 3"):
            f(x, wrong)
    assert f(x, 3).item() == 6
    with pytest.raises(TensorError, match="is no parameter"):
        jit(lambda n: n, sizes={"m": (1, 2)})
    for bounds in ((2, 1), (1,), 3, (-1, 3), (1.0, 2.0)):
        with pytest.raises(TensorError, match="the bounds of n"):
            jit(lambda n: n, sizes={"n": bounds})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("function", "error", "match"),
    [
        (lambda x, n: x[:n], JitError, "shape depends on a size"),
        (lambda x, n: x[: n + 1].sum(), TensorError, "may leave the axis"),
        (lambda x, n: x[:n][2], TensorError, "may leave the axis"),
        (lambda x, n: x[:n:2].sum(), TensorError, "in steps of 1"),
        (lambda x, n: x[:n][-1:].sum(), TensorError, "from 0 on"),
        (lambda x, n: (x[:n] + x).sum(), TensorError, "do not broadcast"),
        (lambda x, n: x[:n].reshape(-1, 1).reshape(-1).sum(), TensorError, "name each size"),
        (lambda x, n: x[:n].cummax(0)[0].sum(), TensorError, "where its value is needed"),
        (lambda x, n: x[:n].cumprod(0).sum(), TensorError, "a scan along a size"),
        (lambda x, n: x[:n].logcumsumexp(0).sum(), TensorError, "a scan along a size"),
        (lambda x, n: x[:n].sort()[0].sum(), JitError, "needs to know the size n"),
        (lambda x, n: x[:n].roll(1, 0).sum(), JitError, "needs to know the size n"),
        (lambda x, n: x[:n][Tensor([0])].sum(), JitError, "needs to know the size n"),
        (lambda x, n: x * len(x[:n]), JitError, "needs to know the size n"),
        (lambda x, n: [x for _ in range(n)], JitError, "asks for the value of a number"),
    ],
)
def test_what_a_size_cannot_do(function: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        jit(function, sizes={"n": (1, 3)})(Tensor([1.0, 2.0, 3.0]), 2)


@pytest.mark.parametrize("method", ["max", "min"])
def test_a_size_that_may_be_0_has_no_greatest_element(method: str) -> None:
    with pytest.raises(TensorError, match=f"{method}: no elements"):
        jit(lambda x, n: getattr(x[:n], method)(), sizes={"n": (0, 3)})(Tensor([1.0, 2.0, 3.0]), 2)
