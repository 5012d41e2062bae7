"""Layers and models against NumPy in float64; first values; sizes that are refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from uop_nn import (
    Block,
    CausalSelfAttention,
    Conv2d,
    Dropout,
    Embedding,
    FeedForward,
    Gpt,
    GptConfig,
    LayerNorm,
    Linear,
    Mlp,
    ModelError,
    Module,
    MultiheadAttention,
    Sequential,
)
from uop_tensor import Tensor, jit, manual_seed

Array = NDArray[np.float64]
Spread = Callable[[Module], dict[str, Array]]


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def close(found: Tensor, expected: Array) -> None:
    """f32 against f64: a few roundings of sums of up to some dozens of terms."""
    np.testing.assert_allclose(found.numpy(), expected, rtol=2e-5, atol=2e-5)


def layernorm(x: Array, weight: Array, bias: Array) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    result: Array = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * weight + bias
    return result


def gelu(x: Array) -> Array:
    result: Array = 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return result


def attention(x: Array, qkv: Array, out: Array, heads: int) -> Array:
    """Position by position, head by head, straight from the definition."""
    result = np.zeros_like(x)
    size = x.shape[-1] // heads
    for b, t, h in np.ndindex(*x.shape[:2], heads):
        part = slice(h * size, (h + 1) * size)
        q, k, v = (x[b] @ w[part].T for w in np.split(qkv, 3))
        scores = np.array([q[t] @ k[s] / math.sqrt(size) for s in range(t + 1)])
        weights = np.exp(scores - scores.max())
        result[b, t, part] = weights / weights.sum() @ v[: t + 1]
    return result @ out.T


def block(x: Array, p: dict[str, Array], prefix: str, heads: int) -> Array:
    n1, n2 = (layernorm_of(p, f"{prefix}norm{i}.") for i in (1, 2))
    x = x + attention(n1(x), p[f"{prefix}attention.qkv.weight"], p[f"{prefix}attention.out.weight"], heads)
    up, down = p[f"{prefix}feed_forward.up.weight"], p[f"{prefix}feed_forward.down.weight"]
    return x + gelu(n2(x) @ up.T) @ down.T


def layernorm_of(p: dict[str, Array], prefix: str) -> Any:
    return lambda x: layernorm(x, p[f"{prefix}weight"], p[f"{prefix}bias"])


def test_linear(spread: Spread) -> None:
    x = generator(1).normal(size=(2, 3, 5)).astype(np.float32)
    for bias in (True, False):
        layer = Linear(5, 4, generator(), bias=bias)
        p = spread(layer)
        assert {name: array.shape for name, array in p.items()} == (
            {"weight": (4, 5), "bias": (4,)} if bias else {"weight": (4, 5)}
        )
        close(layer(Tensor(x)), x.astype(np.float64) @ p["weight"].T + p.get("bias", np.zeros(4)))


def test_embedding(spread: Spread) -> None:
    layer = Embedding(5, 3, generator())
    weight = spread(layer)["weight"]
    tokens = np.array([[0, 4, 4], [2, 0, 1]], np.int32)
    np.testing.assert_array_equal(layer(Tensor(tokens)).numpy(), weight[tokens].astype(np.float32))


def test_dropout() -> None:
    layer, ones = Dropout(0.25), Tensor(np.ones((50, 40), np.float32))
    drop = jit(lambda x: layer(x))
    manual_seed(3)
    first, second = drop(ones).numpy(), drop(ones).numpy()
    np.testing.assert_allclose(np.unique(first), [0, 4 / 3], rtol=1e-6)
    assert (first == 0).mean() == pytest.approx(0.25, abs=0.04)  # 4 standard deviations
    assert (first != second).any()
    manual_seed(3)
    np.testing.assert_array_equal(drop(ones).numpy(), first)
    layer.eval()
    np.testing.assert_array_equal(layer(ones).numpy(), np.ones((50, 40)))
    with pytest.raises(ModelError, match=r"p of Dropout must be in \[0, 1\], not 1.5"):
        Dropout(1.5)


def test_a_gpt_drops_in_training_only() -> None:
    model = Gpt(GptConfig(5, context=6, layers=1, width=8, heads=1, dropout=0.5), generator())
    tokens = Tensor(generator(1).integers(0, 5, (1, 6)).astype(np.int32))
    assert (model(tokens).numpy() != model(tokens).numpy()).any()
    with model.evaluating():
        np.testing.assert_array_equal(model(tokens).numpy(), model(tokens).numpy())
    assert model.training


def test_layernorm(spread: Spread) -> None:
    x = (generator(1).normal(size=(3, 6)) * 4 + 2).astype(np.float32)
    layer = LayerNorm(6)
    close(layer(Tensor(x)), layernorm(x.astype(np.float64), np.ones(6), np.zeros(6)))
    p = spread(layer)
    close(layer(Tensor(x)), layernorm(x.astype(np.float64), p["weight"], p["bias"]))


@pytest.mark.parametrize("heads", [1, 2, 4])
def test_attention(spread: Spread, heads: int) -> None:
    x = generator(1).normal(size=(2, 5, 8)).astype(np.float32)
    layer = CausalSelfAttention(8, heads, generator())
    p = spread(layer)
    close(layer(Tensor(x)), attention(x.astype(np.float64), p["qkv.weight"], p["out.weight"], heads))


def test_feed_forward_and_block(spread: Spread) -> None:
    x = generator(1).normal(size=(2, 3, 4)).astype(np.float32)
    feed_forward = FeedForward(4, generator())
    p = spread(feed_forward)
    close(feed_forward(Tensor(x)), gelu(x.astype(np.float64) @ p["up.weight"].T) @ p["down.weight"].T)
    layer = Block(4, 2, generator())
    p = spread(layer)
    close(layer(Tensor(x)), block(x.astype(np.float64), p, "", 2))


def test_gpt(spread: Spread) -> None:
    model = Gpt(GptConfig(vocabulary=7, context=6, layers=2, width=8, heads=2), generator())
    p = spread(model)
    tokens = generator(1).integers(0, 7, (2, 5)).astype(np.int32)
    x = p["token.weight"][tokens] + p["position.weight"][:5]
    for i in range(2):
        x = block(x, p, f"blocks.{i}.", 2)
    scores = layernorm_of(p, "norm.")(x) @ p["head.weight"].T
    found = model(Tensor(tokens))
    assert found.shape == (2, 5, 7)
    np.testing.assert_allclose(found.numpy(), scores, rtol=1e-4, atol=1e-4)
    targets = generator(2).integers(0, 7, (2, 5)).astype(np.int32)
    logs = scores - np.log(np.exp(scores).sum(-1, keepdims=True))
    expected = -np.take_along_axis(logs, targets[..., None], -1).mean()
    assert model.loss(Tensor(tokens), Tensor(targets)).item() == pytest.approx(expected, rel=1e-5)


def test_gpt_sees_nothing_that_comes_later(spread: Spread) -> None:
    model = Gpt(GptConfig(vocabulary=5, context=6, layers=1, width=4, heads=1), generator())
    spread(model)
    tokens = generator(1).integers(0, 5, (1, 6)).astype(np.int32)
    changed = tokens.copy()
    changed[0, 3] = (tokens[0, 3] + 1) % 5
    before, after = model(Tensor(tokens)).numpy(), model(Tensor(changed)).numpy()
    np.testing.assert_array_equal(before[0, :3], after[0, :3])
    assert all((before[0, t] != after[0, t]).any() for t in range(3, 6))


def test_the_gpt_of_the_main_job_has_111360_parameters() -> None:
    model = Gpt(GptConfig(vocabulary=65), generator())
    assert model.parameter_count() == 111_360
    assert sum(t.numel() for name, t in model.named_parameters() if name.startswith("blocks.0.")) == 49_408


def test_mlp(spread: Spread) -> None:
    model = Mlp(generator())
    assert model.parameter_count() == 784 * 128 + 128 + 128 * 10 + 10
    small = Mlp(generator(), inputs=4, hidden=3, classes=2)
    p = spread(small)
    x = generator(1).normal(size=(5, 4)).astype(np.float32)
    hidden = np.maximum(x.astype(np.float64) @ p["hidden.weight"].T + p["hidden.bias"], 0)
    close(small(Tensor(x)), hidden @ p["output.weight"].T + p["output.bias"])


def test_first_values_follow_from_the_seed_and_have_the_spread_of_pytorch() -> None:
    first, again, other = (Linear(64, 256, generator(seed)) for seed in (3, 3, 4))
    weight = first.weight.numpy()
    np.testing.assert_array_equal(weight, again.weight.numpy())
    assert (weight != other.weight.numpy()).any()
    # uniform on [-1/8, 1/8): 16,384 samples
    assert 0.124 < np.abs(weight).max() <= 0.125
    assert weight.std() == pytest.approx(0.125 / math.sqrt(3), rel=0.03)
    assert Embedding(256, 64, generator()).weight.numpy().std() == pytest.approx(1, rel=0.03)
    model = Gpt(GptConfig(vocabulary=65), generator())
    state = model.state_dict()
    assert state["head.weight"].numpy().std() == pytest.approx(0.02, rel=0.05)
    assert state["blocks.1.feed_forward.down.weight"].numpy().std() == pytest.approx(0.01, rel=0.05)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Linear(0, 3, generator()), "inputs must be a positive integer, not 0"),
        (lambda: Linear(3, -1, generator()), "outputs must be a positive integer, not -1"),
        (lambda: Embedding(cast(int, 2.5), 3, generator()), "count must be a positive integer, not 2.5"),
        (lambda: LayerNorm(True), "width must be a positive integer, not True"),
        (lambda: CausalSelfAttention(6, 4, generator()), "width of 6 does not divide into 4 heads"),
        (lambda: Gpt(GptConfig(5, layers=0), generator()), "layers must be a positive integer, not 0"),
        (lambda: Gpt(GptConfig(5, context=0), generator()), "count must be a positive integer, not 0"),
    ],
)
def test_sizes_that_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        make()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: Linear(3, 2)(x), "Linear takes a Tensor, not ndarray"),
        (lambda x: Sequential(Linear(3, 2), Tensor.relu)(x), "Linear takes a Tensor, not ndarray"),
        (lambda x: Dropout(0.5)(x), "Dropout takes a Tensor, not ndarray"),
        (lambda x: LayerNorm(3)(x), "LayerNorm takes a Tensor, not ndarray"),
        (lambda x: Conv2d(3, 2, 1)(x), "Conv2d takes a Tensor, not ndarray"),
        (lambda x: MultiheadAttention(3, 1)(x), "MultiheadAttention takes a Tensor, not ndarray"),
        (lambda x: LayerNorm(3)(Tensor(x[:, :1])), r"LayerNorm\(3\) of a tensor of shape \(2, 1\)"),
        (lambda x: LayerNorm(3)(Tensor(x[0, 0])), r"LayerNorm\(3\) of a tensor of shape \(\)"),
    ],
)
def test_what_layers_refuse(call: Any, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        call(np.ones((2, 3), np.float32))


def test_tokens_and_caches_that_do_not_fit() -> None:
    model = Gpt(GptConfig(vocabulary=5, context=4, layers=1, width=4, heads=1), generator())
    tokens, cache = Tensor(np.zeros((1, 2), np.int32)), model.cache()
    with pytest.raises(ModelError, match=r"tokens of shape \(2,\).*reshape\(1, -1\)"):
        model(tokens[0])
    for position in (-1, 4):
        with pytest.raises(ModelError, match=f"position {position} is not in the context, from 0 to 3"):
            cache.at(position, 1)
    with pytest.raises(ModelError, match="time must be a positive integer"):
        cache.at(0, 0)
    for where in (cache.at(0, 1), model.cache(batch=2).at(0, 2)):
        with pytest.raises(ModelError, match=r"tokens of shape \(1, 2\) for a cache of"):
            model(tokens, where)


def test_too_many_tokens_are_refused() -> None:
    model = Gpt(GptConfig(vocabulary=5, context=4, layers=1, width=4, heads=1), generator())
    with pytest.raises(ModelError, match="5 tokens at once, but the context of the model is 4"):
        model(Tensor(np.zeros((1, 5), np.int32)))


def test_the_loss_where_there_are_as_many_tokens_as_places() -> None:
    model = Gpt(GptConfig(vocabulary=4, context=4, layers=1, width=4, heads=2), np.random.default_rng(0))
    tokens, targets = np.array([[0, 1, 2, 3], [3, 3, 1, 0]]), np.array([[1, 2, 3, 0], [3, 1, 0, 2]])
    scores = model(Tensor(tokens)).numpy().astype(np.float64)
    logs = scores - np.log(np.exp(scores).sum(-1, keepdims=True))
    wanted = -np.take_along_axis(logs, targets[..., None], -1).mean()
    np.testing.assert_allclose(model.loss(Tensor(tokens), Tensor(targets)).item(), wanted, rtol=1e-5)
