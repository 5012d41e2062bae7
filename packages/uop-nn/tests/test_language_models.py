"""GPT-2 and Llama against NumPy in float64,
on random weights under Hugging Face's names; with a cache and without.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from numpy.typing import NDArray

from uop_ir import dtypes
from uop_nn import (
    SGD,
    CheckpointError,
    Gpt2,
    Gpt2Config,
    Llama,
    LlamaConfig,
    ModelError,
    Module,
    Sampler,
)
from uop_tensor import Tensor, jit, no_grad

Array = NDArray[np.float64]
Spread = Callable[[Module], dict[str, Array]]
TOKENS = np.array([[3, 1, 4, 1, 5], [0, 2, 6, 5, 3]], np.int32)


def softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    result: Array = powers / powers.sum(-1, keepdims=True)
    return result


def attend(q: Array, k: Array, v: Array) -> Array:
    """Causal attention of (B, heads, T, d)."""
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    mask = np.tri(q.shape[2], dtype=bool)
    return softmax(np.where(mask, scores, -np.inf)) @ v


def heads(x: Array, count: int) -> Array:
    return x.reshape(*x.shape[:2], count, -1).swapaxes(1, 2)


def joined(x: Array) -> Array:
    return x.swapaxes(1, 2).reshape(x.shape[0], x.shape[2], -1)


def gpt2_state(width: int = 6, layers: int = 2, vocabulary: int = 7, context: int = 8) -> dict[str, Any]:
    random = np.random.default_rng(0)
    shapes: dict[str, tuple[int, ...]] = {
        "wte.weight": (vocabulary, width),
        "wpe.weight": (context, width),
        "ln_f.weight": (width,),
        "ln_f.bias": (width,),
    }
    for n in range(layers):
        for name, (inputs, outputs) in {
            "attn.c_attn": (width, 3 * width),
            "attn.c_proj": (width, width),
            "mlp.c_fc": (width, 4 * width),
            "mlp.c_proj": (4 * width, width),
        }.items():
            shapes[f"h.{n}.{name}.weight"], shapes[f"h.{n}.{name}.bias"] = (inputs, outputs), (outputs,)
        for name in ("ln_1", "ln_2"):
            shapes[f"h.{n}.{name}.weight"] = shapes[f"h.{n}.{name}.bias"] = (width,)
    return {name: random.normal(0, 0.5, shape).astype(np.float32) for name, shape in shapes.items()}


def gpt2_scores(state: dict[str, Any], tokens: Any, head_count: int, layers: int = 2) -> Array:
    p = {name: array.astype(np.float64) for name, array in state.items()}

    def norm(x: Array, name: str) -> Array:
        centred = x - x.mean(-1, keepdims=True)
        scale = np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
        result: Array = centred / scale * p[f"{name}.weight"] + p[f"{name}.bias"]
        return result

    def conv(x: Array, name: str) -> Array:
        result: Array = x @ p[f"{name}.weight"] + p[f"{name}.bias"]
        return result

    x = p["wte.weight"][tokens] + p["wpe.weight"][: tokens.shape[1]]
    for n in range(layers):
        parts = np.split(conv(norm(x, f"h.{n}.ln_1"), f"h.{n}.attn.c_attn"), 3, -1)
        mixed = joined(attend(*(heads(part, head_count) for part in parts)))
        x = x + conv(mixed, f"h.{n}.attn.c_proj")
        up = conv(norm(x, f"h.{n}.ln_2"), f"h.{n}.mlp.c_fc")
        gelu = 0.5 * up * (1 + np.tanh(math.sqrt(2 / math.pi) * (up + 0.044715 * up**3)))
        x = x + conv(gelu, f"h.{n}.mlp.c_proj")
    result: Array = norm(x, "ln_f") @ p["wte.weight"].T
    return result


def test_gpt2_of_a_checkpoint(tmp_path: Path) -> None:
    state = gpt2_state()
    expected = gpt2_scores(state, TOKENS, head_count=2)
    path = tmp_path / "model.safetensors"
    safetensors.numpy.save_file(state, path, {"format": "pt"})
    model = Gpt2.from_safetensors(path, heads=2)
    assert model.config == Gpt2Config(7, 8, 2, 6, 2)
    np.testing.assert_allclose(model(Tensor(TOKENS)).numpy(), expected, rtol=1e-4, atol=1e-4)
    # as GPT2LMHeadModel is saved: a prefix, masks, the output layer that is the table of tokens
    masks = {f"h.{n}.attn.bias": np.ones((1, 1, 8, 8), np.float32) for n in range(2)}
    named = {f"transformer.{name}": array for name, array in {**state, **masks}.items()}
    model = Gpt2.from_state({**named, "lm_head.weight": state["wte.weight"]}, heads=2)
    np.testing.assert_allclose(model(Tensor(TOKENS)).numpy(), expected, rtol=1e-4, atol=1e-4)
    assert model.state_dict().keys() == state.keys()
    half = Gpt2.from_state({name: array.astype(np.float16) for name, array in state.items()}, heads=2)
    np.testing.assert_allclose(half(Tensor(TOKENS)).numpy(), expected, rtol=0.05, atol=0.05)


def test_the_smallest_gpt2_has_124_million_parameters() -> None:
    c = Gpt2Config()
    block = 12 * c.width * c.width + 13 * c.width
    assert (c.vocabulary + c.context + 2) * c.width + c.layers * block == 124_439_808


def test_what_is_no_gpt2(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no checkpoint at"):
        Gpt2.from_safetensors(tmp_path / "none")
    with pytest.raises(ModelError, match=r"no matrix wte\.weight"):
        Gpt2.from_state({"weight": np.ones(1)})
    with pytest.raises(ModelError, match=r"width of 6 .*give heads"):
        Gpt2.from_state(gpt2_state())
    state = gpt2_state()
    del state["h.1.ln_1.bias"]
    with pytest.raises(ModelError, match=r"1 missing \(h\.1\.ln_1\.bias\)"):
        Gpt2.from_state(state, heads=2)
    with pytest.raises(ModelError, match="width of 6 does not divide into 4 heads"):
        Gpt2.from_state(gpt2_state(), heads=4)
    with pytest.raises(ModelError, match="9 tokens at once, but the context of the model is 8"):
        Gpt2.from_state(gpt2_state(), heads=2)(Tensor(np.zeros((1, 9), np.int32)))


LLAMA = LlamaConfig(7, context=6, layers=2, width=16, heads=4, groups=2, hidden=10, theta=100.0)


def turned(x: Array, theta: float) -> Array:
    """Each pair of numbers as one complex number, times e to the i position * frequency."""
    half = x.shape[-1] // 2
    pairs = x[..., :half] + 1j * x[..., half:]
    frequency = theta ** (-np.arange(half) / half)
    pairs = pairs * np.exp(1j * np.arange(x.shape[2])[:, None] * frequency)
    return np.concatenate([pairs.real, pairs.imag], -1)


def llama_scores(p: dict[str, Array], tokens: Any, c: LlamaConfig) -> Array:
    def norm(x: Array, name: str) -> Array:
        result: Array = x / np.sqrt((x**2).mean(-1, keepdims=True) + c.eps) * p[f"{name}.weight"]
        return result

    x = p["model.embed_tokens.weight"][tokens]
    for n in range(c.layers):
        at = f"model.layers.{n}"
        y = norm(x, f"{at}.input_layernorm")
        q, k, v = (y @ p[f"{at}.self_attn.{name}_proj.weight"].T for name in "qkv")
        q, k = turned(heads(q, c.heads), c.theta), turned(heads(k, c.groups), c.theta)
        k, v = (np.repeat(a, c.heads // c.groups, axis=1) for a in (k, heads(v, c.groups)))
        x = x + joined(attend(q, k, v)) @ p[f"{at}.self_attn.o_proj.weight"].T
        y = norm(x, f"{at}.post_attention_layernorm")
        gate, up = (y @ p[f"{at}.mlp.{name}_proj.weight"].T for name in ("gate", "up"))
        x = x + (gate / (1 + np.exp(-gate)) * up) @ p[f"{at}.mlp.down_proj.weight"].T
    return norm(x, "model.norm") @ p["lm_head.weight"].T


def test_llama(spread: Spread) -> None:
    model = Llama(LLAMA, np.random.default_rng(0))
    expected = llama_scores(spread(model), TOKENS, LLAMA)
    whole = model(Tensor(TOKENS)).numpy()
    np.testing.assert_allclose(whole, expected, rtol=1e-3, atol=1e-4)
    cache = model.cache(2)

    @jit
    def step(given: Tensor, position: int) -> Tensor:
        with no_grad():
            return model(given, cache.at(position, given.shape[1]))

    for begin, end in ((0, 3), (3, 4), (4, 5)):
        found = step(Tensor(TOKENS[:, begin:end]), begin).numpy()
        np.testing.assert_allclose(found, whole[:, begin:end], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("model", [Gpt2(Gpt2Config(7, 8, 2, 6, 2)), Llama(LLAMA)], ids=["gpt2", "llama"])
def test_a_cache_has_the_dtype_that_a_model_computes_in(model: Gpt2 | Llama, spread: Spread) -> None:
    spread(model)
    exact = model(Tensor(TOKENS)).numpy()
    with no_grad(), model.computing_in(dtypes.bf16):
        cache = model.cache(2)
        assert {part.dtype for layer in cache.layers for part in layer} == {dtypes.bf16}
        found = [model(Tensor(TOKENS[:, i : i + 1]), cache.at(i, 1)) for i in range(5)]
        assert found[0].dtype is dtypes.bf16
    scores = np.concatenate([f.float().numpy() for f in found], axis=1)
    np.testing.assert_allclose(scores, exact, rtol=0.02, atol=0.02 * np.abs(exact).max())


def test_llama_learns_what_follows() -> None:
    model = Llama(LlamaConfig(5, context=8, layers=1, width=16, heads=2, groups=1, hidden=16))
    optimizer = SGD(model.parameters(), 0.5, momentum=0.9)
    tokens = np.tile(np.arange(5, dtype=np.int32), 4)

    @jit
    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = model.loss(x, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    x, y = (Tensor(np.stack([tokens[i + n : i + n + 8] for i in range(4)])) for n in range(2))
    losses = [step(x, y).item() for _ in range(30)]
    assert losses[0] == pytest.approx(math.log(5), abs=0.1)
    assert losses[-1] < 0.1

    class Digits:
        def encode(self, text: str) -> Any:
            return np.array([int(c) for c in text], np.int32)

        def decode_bytes(self, found: Any) -> bytes:
            return "".join(map(str, found)).encode()

    assert "".join(Sampler(model, Digits()).characters("3401", 6, temperature=0)) == "234012"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"width": 12}, "width of 12 does not divide into 4 heads of pairs"),
        ({"groups": 3}, "4 heads do not divide into 3 groups"),
        ({"hidden": 0}, "hidden must be a positive integer, not 0"),
    ],
)
def test_what_is_no_llama(changed: dict[str, int], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        Llama(LlamaConfig(**{**vars(LLAMA), **changed}))
    with pytest.raises(ModelError, match="7 tokens at once, but the context of the model is 6"):
        Llama(LLAMA)(Tensor(np.zeros((1, 7), np.int32)))
