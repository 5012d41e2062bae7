"""Scratch memory of training steps: near what lives at one time, which no layout can be below. Week 5."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from uop_ir import Limits, Ops, UOp
from uop_tensor import Tensor
from uop_tensor.memory import HELD
from uop_tensor.plan import Planned, Want, make_plan
from uop_tensor.program import canonical

Step = tuple[list[Tensor], list[Tensor]]


def new(*shape: int) -> Tensor:
    return Tensor(np.zeros(shape, np.float32))


def planned(loss: Tensor, parameters: list[Tensor]) -> Planned:
    values = [loss, *(p - 0.1 * g for p, g in zip(parameters, loss.gradient(*parameters), strict=True))]
    roots, buffers = canonical([v.uop for v in values])
    return make_plan(UOp.sink(*roots), len(buffers), (Want(),) * len(roots), Limits())


def mlp() -> Planned:
    """Five layers of several widths."""
    widths = [20, 300, 100, 200, 50, 10]
    weights = [new(a, b) for a, b in pairwise(widths)]
    x = new(64, 20)
    for w in weights:
        x = (x @ w).gelu()
    return planned((x * x).mean(), weights)


def transformer() -> Planned:
    """Three blocks of width 32: norms, attention, a feed-forward part."""
    parameters, x = [new(17, 32)], Tensor(np.zeros((4, 16), np.int32))
    stream = parameters[0][x]
    for _ in range(3):
        gain, bias, qkv, out, up, down = (
            new(32),
            new(32),
            new(32, 96),
            new(32, 32),
            new(32, 128),
            new(128, 32),
        )
        parameters += [gain, bias, qkv, out, up, down]
        q, k, v = (
            (stream.layernorm(gain, bias) @ qkv).reshape(4, 16, 3, 4, 8).permute(2, 0, 3, 1, 4)[i]
            for i in range(3)
        )
        mixed = q.scaled_dot_product_attention(k, v, is_causal=True)
        stream = stream + mixed.permute(0, 2, 1, 3).reshape(4, 16, 32) @ out
        stream = stream + (stream @ up).gelu() @ down
    return planned((stream @ parameters[0].T).cross_entropy(x), parameters)


def convolution(x: Tensor, w: Tensor) -> Tensor:
    """3 by 3, without padding: (N, H, W, C) and (3, 3, C, D), as a product with nine shifted inputs."""
    _, height, width, _ = x.shape
    shifted = [x[:, i : height - 2 + i, j : width - 2 + j] @ w[i, j] for i in range(3) for j in range(3)]
    return sum(shifted[1:], start=shifted[0])


def cnn() -> Planned:
    """Convolutions whose planes shrink while their channels grow, and pooling between them."""
    weights = [new(3, 3, 1, 8), new(3, 3, 8, 16), new(3, 3, 16, 32), new(2 * 2 * 32, 10)]
    x = new(2, 30, 30, 1)
    for w in weights[:2]:
        x = convolution(x, w).relu()
        n, height, width, channels = x.shape
        x = x.reshape(n, height // 2, 2, width // 2, 2, channels).max((2, 4))
    x = convolution(x, weights[2]).relu()[:, ::2, ::2][:, :2, :2]
    return planned((x.reshape(2, -1) @ weights[3]).log_softmax().mean(), weights)


@pytest.mark.parametrize("model", [mlp, transformer, cnn])
def test_scratch_memory_is_near_its_bound(model: Callable[[], Planned]) -> None:
    made = model()
    assert 0 < made.bound == live(made)
    assert made.bound <= made.plan.arena <= 1.3 * made.bound


def live(made: Planned) -> int:
    """The greatest number of bytes that live during one call, of blocks of 64."""
    sizes: dict[int, int] = {}
    for call in made.plan.calls:
        for argument in made.plan.arguments(call):
            if argument.op is Ops.ALLOC:
                sizes[argument.arg.slot] = -(-argument.arg.size * argument.dtype.itemsize // 64) * 64
    spans = made.plan.lifetimes
    return max(
        sum(sizes[slot] for slot, (first, last) in spans.items() if first <= time <= last)
        for time in range(len(made.plan.calls))
    )


def test_memory_of_values_is_counted() -> None:
    before = HELD.now
    x = Tensor(np.zeros(1000, np.float32))
    y = (x + 1.0).realize()
    assert HELD.now - before == 8000
    assert HELD.most >= HELD.now
    del x, y
    assert HELD.now == before
