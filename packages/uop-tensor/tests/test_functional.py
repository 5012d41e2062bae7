"""Products, normalization, attention and losses against NumPy in float64."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from uop_ir import DType, Ops, dtypes
from uop_tensor import Tensor, TensorError

Array = npt.NDArray[Any]

RNG = np.random.default_rng(2)


def normal(*shape: int, dtype: npt.DTypeLike = np.float64) -> Array:
    return RNG.normal(0, 1, shape).astype(dtype)


SHAPES = [
    ((3, 4), (4, 5)),
    ((4,), (4,)),
    ((3, 4), (4,)),
    ((4,), (4, 5)),
    ((2, 3, 4), (4, 5)),
    ((3, 4), (2, 4, 5)),
    ((2, 1, 3, 4), (6, 4, 5)),
    ((2, 3, 4), (4,)),
    ((4,), (2, 4, 5)),
    ((1, 1), (1, 1)),
    ((3, 0), (0, 5)),
    ((0, 4), (4, 5)),
    ((2, 0, 3, 4), (1, 4, 5)),
]


@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_matmul(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    x, y = normal(*left), normal(*right)
    wanted = x @ y
    for found in (Tensor(x) @ Tensor(y), Tensor(x).dot(Tensor(y)), x @ Tensor(y), Tensor(x).matmul(y)):
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12, atol=1e-14)


def test_matmul_of_integers_keeps_the_dtype() -> None:
    x, y = RNG.integers(-100, 100, (3, 4), np.int8), RNG.integers(-100, 100, (4, 2), np.int8)
    np.testing.assert_array_equal((Tensor(x) @ Tensor(y)).numpy(), x @ y)
    assert (Tensor(x) @ Tensor(y.astype(np.int16))).dtype is dtypes.i16


@pytest.mark.parametrize("dtype", [dtypes.f16, dtypes.bf16], ids=str)
def test_matmul_of_narrow_floats_adds_up_in_f32(dtype: DType) -> None:
    x, y = normal(4, 500).astype(dtype.numpy), normal(500, 3).astype(dtype.numpy)
    found = Tensor(x) @ Tensor(y)
    wanted = x.astype(np.float64) @ y.astype(np.float64)
    assert found.dtype is dtype
    assert [n.op for n in found.uop.toposort()][-3:] == [Ops.MUL, Ops.REDUCE, Ops.CAST]
    unit = {dtypes.f16: 2**-10, dtypes.bf16: 2**-7}[dtype]
    np.testing.assert_allclose(found.numpy().astype(np.float64), wanted, rtol=0.51 * unit, atol=1e-4 * unit)


def test_linear() -> None:
    x, w, b = normal(2, 3, 4), normal(5, 4), normal(5)
    np.testing.assert_allclose(Tensor(x).linear(Tensor(w), Tensor(b)).numpy(), x @ w.T + b, rtol=1e-12)
    np.testing.assert_allclose(Tensor(x).linear(Tensor(w)).numpy(), x @ w.T, rtol=1e-12)


@pytest.mark.parametrize("axis", [-1, 1])
def test_layernorm(axis: int) -> None:
    x, w, b = normal(2, 3, 4) * 5 + 2, normal(4), normal(4)
    wanted = (x - x.mean(axis, keepdims=True)) / np.sqrt(x.var(axis, keepdims=True) + 1e-5)
    np.testing.assert_allclose(Tensor(x).layernorm(axis=axis).numpy(), wanted, rtol=1e-12)
    np.testing.assert_allclose(
        Tensor(x).layernorm(Tensor(w), Tensor(b), axis=axis).numpy(), wanted * w + b, rtol=1e-10
    )


def test_layernorm_of_f16_is_computed_in_f32() -> None:
    x = (normal(3, 64) * 10 + 300).astype(np.float16)
    wide = x.astype(np.float64)
    wanted = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(Tensor(x).layernorm().numpy().astype(np.float64), wanted, rtol=6e-4, atol=1e-5)


def attention(q: Array, k: Array, v: Array, keep: Array, scale: float) -> Array:
    scores = q @ np.swapaxes(k, -1, -2) * scale
    scores = np.where(keep, scores, -np.inf)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True) @ v)


def test_attention() -> None:
    q, k, v = normal(2, 3, 5, 4), normal(2, 3, 6, 4), normal(2, 3, 6, 7)
    x, y, z = (Tensor(t) for t in (q, k, v))
    every = np.ones((5, 6), bool)
    found = x.scaled_dot_product_attention(y, z)
    np.testing.assert_allclose(found.numpy(), attention(q, k, v, every, 0.5), rtol=1e-12)
    found = x.scaled_dot_product_attention(y, z, is_causal=True, scale=2.0)
    np.testing.assert_allclose(found.numpy(), attention(q, k, v, np.tril(every), 2.0), rtol=1e-12)
    mask = RNG.integers(0, 2, (2, 1, 5, 6)).astype(bool) | np.eye(5, 6, dtype=bool)
    found = x.scaled_dot_product_attention(y, z, attn_mask=Tensor(mask))
    np.testing.assert_allclose(found.numpy(), attention(q, k, v, mask, 0.5), rtol=1e-12)
    added = np.where(mask, 0, -np.inf)
    found = x.scaled_dot_product_attention(y, z, attn_mask=Tensor(added))
    np.testing.assert_allclose(found.numpy(), attention(q, k, v, mask, 0.5), rtol=1e-12)
    found = x.scaled_dot_product_attention(y, z, None, 0.0, True)  # the order of torch
    np.testing.assert_allclose(found.numpy(), attention(q, k, v, np.tril(every), 0.5), rtol=1e-12)
    found = x.scaled_dot_product_attention(y[:, :1], z[:, :1], enable_gqa=True)
    np.testing.assert_allclose(found.numpy(), attention(q, k[:, :1], v[:, :1], every, 0.5), rtol=1e-12)
    with pytest.raises(TensorError, match=r"attention: queries of shape \(2, 3, 5, 4\)"):
        x.scaled_dot_product_attention(y[:, :2], z[:, :2], enable_gqa=True)


@pytest.mark.parametrize("added", [False, True])
def test_attention_to_nothing_is_zero(added: bool) -> None:
    q, k, v = normal(3, 4), normal(5, 4), normal(5, 2)
    keep = np.ones((3, 5), bool)
    keep[1] = False
    mask = Tensor(np.where(keep, 0.0, -np.inf)) if added else Tensor(keep)
    x = Tensor(q)
    found = x.scaled_dot_product_attention(Tensor(k), Tensor(v), mask)
    (gradient,) = found.sum().gradient(x)
    wanted = attention(q, k, v, np.ones((3, 5), bool), 0.5)
    wanted[1] = 0
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12)
    assert np.isfinite(gradient.numpy()).all()
    assert not gradient.numpy()[1].any()


def test_attention_drops_weights() -> None:
    q, k = Tensor(normal(2, 4)), Tensor(normal(64, 4))
    kept = q.scaled_dot_product_attention(k, Tensor(np.eye(64)), dropout_p=0.5).numpy()
    whole = q.scaled_dot_product_attention(k, Tensor(np.eye(64))).numpy()
    dropped = kept == 0
    assert 0.2 < dropped.mean() < 0.8
    np.testing.assert_allclose(kept[~dropped], 2 * whole[~dropped], rtol=1e-12)


@pytest.mark.parametrize("scale", [1.0, 100.0])
@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.int32])
def test_cross_entropy(scale: float, dtype: npt.DTypeLike) -> None:
    x, target = normal(4, 3, 5) * scale, RNG.integers(0, 5, (4, 3)).astype(dtype)
    wide = x.astype(np.longdouble)
    logs = np.log(np.exp(wide - wide.max(-1, keepdims=True)).sum(-1, keepdims=True)) + wide.max(
        -1, keepdims=True
    )
    losses = (logs - np.take_along_axis(wide, target[..., None].astype(int), -1))[..., 0].astype(float)
    for reduction, wanted in (("none", losses), ("sum", losses.sum()), ("mean", losses.mean())):
        found = Tensor(x).cross_entropy(Tensor(target), reduction)
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(Tensor(x).cross_entropy(target).numpy(), losses.mean(), rtol=1e-12)


def test_loss_of_one_sample() -> None:
    assert math.isclose(Tensor([0.0, 0.0]).cross_entropy(Tensor(1)).item(), math.log(2), rel_tol=1e-6)


def test_folds_of_softmax_norm_and_loss_are_over_the_last_axis_without_moves() -> None:
    x = Tensor(normal(2, 3, 4))
    for y in (x.softmax(), x.log_softmax(), x.layernorm(), x.cross_entropy(Tensor([[1, 2, 3], [0, 1, 2]]))):
        assert Ops.PERMUTE not in {n.op for n in y.uop.toposort()}
        assert Ops.EXPAND not in {n.op for n in y.uop.toposort()}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda t: t @ t, r"@: shapes \(2, 3\) and \(2, 3\): 3 columns meet 2 rows"),
        (lambda t: t @ Tensor(1.0), "both need an axis"),
        (lambda t: t @ 2, "a number is no matrix"),
        (lambda t: Tensor.ones(2, 4, 3) @ Tensor.ones(3, 3, 4), "@: shapes .* do not broadcast"),
        (lambda t: t.bool() @ t.T.bool(), "bool"),
        (lambda t: t.linear(Tensor([1.0])), "linear: a weight of shape"),
        (
            lambda t: t.cross_entropy(Tensor([0, 1, 2])),
            r"targets of shape \(3,\) for scores of shape \(2, 3\)",
        ),
        (lambda t: t.cross_entropy(Tensor([0.0, 1.0])), "class numbers of an integer dtype"),
        (lambda t: t.cross_entropy(Tensor([0, 1]), "max"), "reduction='max'"),
        (lambda t: t.scaled_dot_product_attention(t, t, t > 0, is_causal=True), "both a mask and is_causal"),
        (lambda t: t.scaled_dot_product_attention(t[0], t), "two axes or more"),
    ],
)
def test_errors_name_the_method(wrong: Callable[[Tensor], object], message: str) -> None:
    with pytest.raises(TensorError, match=message):
        wrong(Tensor(np.ones((2, 3), np.float32)))
