"""Attention between sequences, and with a cache, against NumPy in float64 and against no cache."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from uop_nn import CausalSelfAttention, Gpt, GptConfig, ModelError, Module, MultiheadAttention
from uop_tensor import Tensor, jit, no_grad

Array = NDArray[np.float64]
Spread = Callable[[Module], dict[str, Array]]


def data(*shape: int, seed: int = 1) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def attention(p: dict[str, Array], heads: int, *parts: Any, keep: Any = None) -> Array:
    width = parts[0].shape[-1]
    weights, biases = np.split(p["in_proj_weight"], 3), np.split(p["in_proj_bias"], 3)
    q, k, v = (x.astype(np.float64) @ w.T + b for x, w, b in zip(parts, weights, biases, strict=True))
    size = width // heads
    out = np.zeros(q.shape)
    for b, t, h in np.ndindex(*q.shape[:2], heads):
        part = slice(h * size, (h + 1) * size)
        scores = k[b, :, part] @ q[b, t, part] / math.sqrt(size)
        powers = np.exp(scores - scores.max()) * (1 if keep is None else keep[t])
        out[b, t, part] = powers / powers.sum() @ v[b, :, part]
    result: Array = out @ p["out_proj.weight"].T + p["out_proj.bias"]
    return result


def test_multihead_attention(spread: Spread) -> None:
    layer = MultiheadAttention(6, 2)
    assert list(layer.state_dict()) == ["in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"]
    bias = layer.out_proj.bias
    assert bias is not None
    assert bias.tolist() == [0] * 6
    p = spread(layer)
    x, y, z = data(2, 3, 6), data(2, 4, 6, seed=2), data(2, 4, 6, seed=3)
    tx, ty, tz = (Tensor(a) for a in (x, y, z))
    keep = np.array([[1, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1]], bool)
    for found, expected in (
        (layer(tx), attention(p, 2, x, x, x)),
        (layer(tx, is_causal=True), attention(p, 2, x, x, x, keep=np.tri(3))),
        (layer(tx, ty), attention(p, 2, x, y, y)),
        (layer(tx, ty, tz, Tensor(keep)), attention(p, 2, x, y, z, keep=keep)),
    ):
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-5)
    assert list(MultiheadAttention(4, 1, bias=False).state_dict()) == ["in_proj_weight", "out_proj.weight"]
    with pytest.raises(ModelError, match="width of 6 does not divide into 4 heads"):
        MultiheadAttention(6, 4)


def test_a_cache_gives_what_all_tokens_give(spread: Spread) -> None:
    model = Gpt(GptConfig(vocabulary=7, context=6, layers=2, width=8, heads=2), np.random.default_rng(0))
    spread(model)
    tokens = np.random.default_rng(1).integers(0, 7, (2, 6)).astype(np.int32)
    whole = model(Tensor(tokens)).numpy()
    cache = model.cache(batch=2)

    @jit
    def step(given: Tensor, position: int) -> Tensor:
        with no_grad():
            return model(given, cache.at(position, given.shape[1]))

    # three at once, then one by one; then the last again: what follows is replaced
    for begin, end in ((0, 3), (3, 4), (4, 5), (5, 6), (3, 4)):
        found = step(Tensor(tokens[:, begin:end]), begin).numpy()
        np.testing.assert_allclose(found, whole[:, begin:end], rtol=2e-5, atol=2e-5)
    assert step.traces == 2
    # two that reach beyond the context: the first of them is as it should be
    found = step(Tensor(tokens[:, [5, 0, 0]]), 5).numpy()
    np.testing.assert_allclose(found[:, :1], whole[:, 5:], rtol=2e-5, atol=2e-5)


def test_causal_attention_of_one_head_in_a_cache_of_its_own(spread: Spread) -> None:
    layer = CausalSelfAttention(4, 1, np.random.default_rng(0))
    spread(layer)
    x = data(1, 3, 4)
    model = Gpt(GptConfig(vocabulary=2, context=5, layers=1, width=4, heads=1))
    cache = model.cache()
    whole = layer(Tensor(x)).numpy()
    for t in range(3):
        part = layer(Tensor(x[:, t : t + 1]), cache.at(t, 1).layers[0]).numpy()
        np.testing.assert_allclose(part, whole[:, t : t + 1], rtol=1e-5, atol=1e-6)
