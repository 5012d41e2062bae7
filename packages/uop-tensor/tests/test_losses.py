"""Losses against their formulas in float64, gradients against finite differences."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from uop_ir import DType, dtypes
from uop_tensor import Tensor, TensorError

Array = npt.NDArray[Any]

RNG = np.random.default_rng(17)


def normal(*shape: int) -> Array:
    return RNG.normal(0, 1, shape)


def chance(*shape: int) -> Array:
    return RNG.uniform(0.05, 0.95, shape)


def signs(*shape: int) -> Array:
    return np.where(normal(*shape) > 0, 1.0, -1.0)


def softplus(x: Array) -> Array:
    return np.asarray(np.logaddexp(x, 0))


def cosine(x: Array, y: Array) -> Array:
    return np.asarray((x * y).sum(-1) / np.sqrt((x * x).sum(-1) * (y * y).sum(-1)))


def distance(x: Array, y: Array) -> Array:
    return np.asarray(np.sqrt(((x - y + 1e-6) ** 2).sum(-1)))


def stirling(y: Array) -> Array:
    many = np.maximum(y, 1)
    return np.where(y > 1, many * np.log(many) - many + 0.5 * np.log(2 * np.pi * many), 0)


#: The call, the formula, and what makes the arguments.
CASES: dict[str, tuple[Callable[..., Tensor], Callable[..., Array], tuple[Callable[..., Array], ...]]] = {
    "mse": (lambda x, y, **k: x.mse_loss(y, **k), lambda x, y: (x - y) ** 2, (normal, normal)),
    "l1": (lambda x, y, **k: x.l1_loss(y, **k), lambda x, y: np.abs(x - y), (normal, normal)),
    "smooth l1": (
        lambda x, y, **k: x.smooth_l1_loss(y, beta=0.7, **k),
        lambda x, y: np.where(np.abs(x - y) < 0.7, (x - y) ** 2 / 1.4, np.abs(x - y) - 0.35),
        (normal, normal),
    ),
    "huber": (
        lambda x, y, **k: x.huber_loss(y, delta=0.7, **k),
        lambda x, y: np.where(np.abs(x - y) < 0.7, (x - y) ** 2 / 2, 0.7 * (np.abs(x - y) - 0.35)),
        (normal, normal),
    ),
    "bce": (
        lambda x, y, **k: x.binary_cross_entropy(y, **k),
        lambda x, y: -(y * np.log(x) + (1 - y) * np.log(1 - x)),
        (chance, chance),
    ),
    "bce, weighted": (
        lambda x, y, w, **k: x.binary_cross_entropy(y, w, **k),
        lambda x, y, w: -w * (y * np.log(x) + (1 - y) * np.log(1 - x)),
        (chance, chance, chance),
    ),
    "bce with logits": (
        lambda x, y, w, p, **k: x.binary_cross_entropy_with_logits(y, w, pos_weight=p, **k),
        lambda x, y, w, p: w * (p * y * softplus(-x) + (1 - y) * softplus(x)),
        (normal, chance, chance, chance),
    ),
    "kl": (lambda x, y, **k: x.kl_div(y, **k), lambda x, y: y * (np.log(y) - x), (normal, chance)),
    "kl of logarithms": (
        lambda x, y, **k: x.kl_div(y, log_target=True, **k),
        lambda x, y: np.exp(y) * (y - x),
        (normal, normal),
    ),
    "poisson": (
        lambda x, y, **k: x.poisson_nll_loss(y, **k),
        lambda x, y: np.exp(x) - y * x,
        (normal, chance),
    ),
    "poisson, full": (
        lambda x, y, **k: x.poisson_nll_loss(y * 4, full=True, **k),
        lambda x, y: np.exp(x) - 4 * y * x + stirling(4 * y),
        (normal, chance),
    ),
    "poisson of rates": (
        lambda x, y, **k: x.poisson_nll_loss(y, log_input=False, **k),
        lambda x, y: x - y * np.log(x + 1e-8),
        (chance, chance),
    ),
    "gaussian": (
        lambda x, y, v, **k: x.gaussian_nll_loss(y, v, full=True, **k),
        lambda x, y, v: 0.5 * (np.log(v) + (x - y) ** 2 / v) + 0.5 * math.log(2 * math.pi),
        (normal, normal, chance),
    ),
    "soft margin": (
        lambda x, y, **k: x.soft_margin_loss(y, **k),
        lambda x, y: softplus(-x * y),
        (normal, signs),
    ),
    "hinge": (
        lambda x, y, **k: x.hinge_embedding_loss(y, **k),
        lambda x, y: np.where(y == 1, x, np.maximum(1 - x, 0)),
        (normal, signs),
    ),
    "margin ranking": (
        lambda x, z, y, **k: x.margin_ranking_loss(z, y, margin=0.3, **k),
        lambda x, z, y: np.maximum(0.3 - y * (x - z), 0),
        (normal, normal, signs),
    ),
    "cosine": (
        lambda x, z, **k: x.cosine_embedding_loss(z, Tensor(np.array([1, -1, 1.0])), margin=-0.5, **k),
        lambda x, z: np.where([1, 0, 1], 1 - cosine(x, z), np.maximum(cosine(x, z) + 0.5, 0)),
        (normal, normal),
    ),
    "triplet": (
        lambda x, y, z, **k: x.triplet_margin_loss(y, z, swap=True, **k),
        lambda x, y, z: np.maximum(distance(x, y) - np.minimum(distance(x, z), distance(y, z)) + 1, 0),
        (normal, normal, normal),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_values_and_reductions(name: str) -> None:
    call, formula, makers = CASES[name]
    arrays = [make(3, 4) for make in makers]
    wanted = formula(*arrays)
    for reduction, value in (("none", wanted), ("sum", wanted.sum()), ("mean", wanted.mean())):
        found = call(*map(Tensor, arrays), reduction=reduction)
        assert found.shape == np.shape(value)
        np.testing.assert_allclose(found.numpy(), value, rtol=1e-12)
    with pytest.raises(TensorError, match="reduction='max'"):
        call(*map(Tensor, arrays), reduction="max")


@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str) -> None:
    call, _, makers = CASES[name]
    arrays = [make(3, 4) for make in makers]
    differentiable = [i for i, make in enumerate(makers) if make is not signs]
    tensors = [Tensor(a) for a in arrays]
    found = call(*tensors).gradient(*(tensors[i] for i in differentiable))
    for i, f in zip(differentiable, found, strict=True):
        for at in ((0, 1), (1, 2), (2, 3)):
            moved = [[a.copy() for a in arrays] for _ in range(2)]
            moved[0][i][at] += 1e-6
            moved[1][i][at] -= 1e-6
            up, down = (call(*map(Tensor, m)).item() for m in moved)
            np.testing.assert_allclose(f.numpy()[at], (up - down) / 2e-6, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("dtype", [dtypes.f16, dtypes.bf16], ids=str)
def test_narrow_floats_are_computed_in_f32(dtype: DType) -> None:
    x, y = normal(50).astype(dtype.numpy), normal(50).astype(dtype.numpy)
    found = Tensor(x).mse_loss(Tensor(y))
    assert found.dtype is dtype
    wanted = ((x.astype(np.float64) - y.astype(np.float64)) ** 2).mean()
    np.testing.assert_allclose(
        float(found.item()), wanted, rtol=2.0**-7 if dtype is dtypes.bf16 else 2.0**-10
    )


def test_probabilities_at_their_ends() -> None:
    x, y = Tensor(np.array([0.0, 1.0, 0.0, 1.0])), Tensor(np.array([0.0, 1.0, 1.0, 0.0]))
    assert x.binary_cross_entropy(y, reduction="none").tolist() == [0.0, 0.0, 100.0, 100.0]
    (grad,) = x.binary_cross_entropy(y).gradient(x)
    assert np.isfinite(grad.numpy()).all()
    big = Tensor(np.array([1000.0, -1000.0, 0.0]))
    found = big.binary_cross_entropy_with_logits(Tensor(np.array([0.0, 0.0, 1.0])), reduction="none")
    (grad,) = found.sum().gradient(big)
    np.testing.assert_allclose(found.numpy(), [1000, 0, math.log(2)])
    np.testing.assert_allclose(grad.numpy(), [1, 0, -0.5])
    assert Tensor([-1.0]).kl_div(Tensor([0.0])).item() == 0.0
    none = Tensor(np.zeros((0, 2)))
    assert math.isnan(none.kl_div(none, "batchmean").item())


def test_gradients_pass_a_variance_below_its_least_and_are_finite_beside_a_vector_of_zeros() -> None:
    x, y, var = (Tensor(np.array([v])) for v in (1.0, 3.0, 1e-9))
    (grad,) = x.gaussian_nll_loss(y, var, eps=0.5).gradient(var)
    np.testing.assert_allclose(grad.numpy(), [(1 / 0.5 - 4.0 / 0.25) / 2])  # of (log(v) + 4 / v) / 2 at 0.5
    a, b = Tensor(np.array([[3.0, 4.0]])), Tensor(np.zeros((1, 2)))
    (grad,) = a.cosine_embedding_loss(b, Tensor([1])).gradient(b)
    np.testing.assert_allclose(grad.numpy(), [[-0.6e6, -0.8e6]])  # -a / |a| / sqrt(1e-12)


def test_names_of_tinygrad_and_batchmean() -> None:
    x, y = chance(2, 3), chance(2, 3)
    a, b = Tensor(x), Tensor(y)
    assert a.binary_crossentropy(b).item() == a.binary_cross_entropy(b).item()
    assert a.binary_crossentropy_logits(b).item() == a.binary_cross_entropy_with_logits(b).item()
    np.testing.assert_allclose(a.kl_div(b, "batchmean").item(), (y * (np.log(y) - x)).sum() / 2, rtol=1e-12)
    assert a.smooth_l1_loss(b, beta=0).item() == a.l1_loss(b).item()
    assert Tensor([1, 2]).mse_loss(Tensor([3, 3])).dtype is dtypes.f32
    assert math.isnan(Tensor(np.zeros((0, 2))).mse_loss(Tensor(np.zeros((0, 2)))).item())


def test_wrong_parameters() -> None:
    x = Tensor([1.0, 2.0])
    calls: list[tuple[Callable[[], Tensor], str]] = [
        (lambda: x.smooth_l1_loss(x, beta=-1), "beta=-1"),
        (lambda: x.huber_loss(x, delta=0), "delta=0"),
        (lambda: x.mse_loss(Tensor([1.0, 2.0, 3.0])), "mse_loss: shapes .* do not broadcast"),
        (lambda: x[0].kl_div(x[0], "batchmean"), "batchmean"),
        (lambda: x.nll_loss(Tensor([0.0, 1.0])), "nll_loss: targets of dtype f32"),
        (lambda: x.cross_entropy(Tensor(0), label_smoothing=2), "label_smoothing=2"),
        (lambda: x.cross_entropy(Tensor(0), weight=Tensor([1.0])), "no vector of 2 elements"),
        (lambda: Tensor(1.0).cross_entropy(Tensor(1)), r"targets of shape \(\)"),
        (lambda: Tensor.ones(2, 3, 3).cross_entropy(Tensor.zeros(2, 3, dtype=dtypes.i64)), "give axis=-1 or"),
        (lambda: Tensor.ones(2, 3, 4).cross_entropy(Tensor.ones(2, 3, 4)), "give axis=-1 or"),
    ]
    for call, text in calls:
        with pytest.raises(TensorError, match=text):
            call()


def log_softmax(x: Array, axis: int) -> Array:
    shifted = x - x.max(axis, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis, keepdims=True)))


def expected(
    x: Array, target: Array, axis: int, reduction: str, smoothing: float, weight: Array, ignored: int
) -> Any:
    """By loops, as PyTorch documents it."""
    logs = np.moveaxis(log_softmax(x, axis), axis, -1)
    losses, smooth, counts = (np.zeros(target.shape) for _ in range(3))
    for at in np.ndindex(target.shape):
        t = target[at]
        if t != ignored:
            losses[at] = -weight[t] * logs[at][t]
            smooth[at] = -(weight * logs[at]).sum() / len(weight)
            counts[at] = weight[t]
    total = (1 - smoothing) * losses + smoothing * smooth
    return {"none": total, "sum": total.sum(), "mean": total.sum() / counts.sum()}[reduction]


@pytest.mark.parametrize(
    ("shape", "axis"), [((6, 4), 1), ((2, 4, 5), 1), ((2, 5, 4), -1), ((4,), 0), ((2, 4, 3, 2), 1)]
)
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("weighted", [False, True])
def test_cross_entropy(shape: tuple[int, ...], axis: int, smoothing: float, weighted: bool) -> None:
    x = normal(*shape)
    rest = tuple(np.delete(shape, axis))
    target = RNG.integers(0, 4, rest)
    target = np.where(RNG.uniform(0, 1, rest) < 0.3, -100, target) if target.ndim else target
    weight = chance(4) if weighted else np.ones(4)
    given = Tensor(weight) if weighted else None
    for reduction in ("none", "sum", "mean"):
        wanted = expected(x, target, axis, reduction, smoothing, weight, -100)
        found = Tensor(x).cross_entropy(Tensor(target), reduction, smoothing, weight=given)
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12, atol=1e-14)
        if not smoothing:
            logs = Tensor(x).log_softmax(axis)
            other = logs.nll_loss(Tensor(target), given, reduction=reduction, axis=axis)
            np.testing.assert_allclose(other.numpy(), wanted, rtol=1e-12, atol=1e-14)


def test_what_is_ignored() -> None:
    x, target = normal(4, 3), np.array([0, 2, 1, 2])
    wanted = expected(x, target, 1, "mean", 0.0, np.ones(3), 2)
    np.testing.assert_allclose(Tensor(x).cross_entropy(target, ignore_index=2).item(), wanted, rtol=1e-12)
    found = Tensor(x).sparse_categorical_crossentropy(Tensor(target), ignore_index=2)
    np.testing.assert_allclose(found.item(), wanted, rtol=1e-12)
    t = Tensor(x)
    (grad,) = t.cross_entropy(target, ignore_index=2).gradient(t)
    assert (grad.numpy()[[1, 3]] == 0).all()
    assert math.isnan(Tensor(x).cross_entropy(np.full(4, -100)).item())
    assert Tensor(x).cross_entropy(np.full(4, -100), "sum").item() == 0.0
    none = Tensor(x).cross_entropy(target, ignore_index=None)
    np.testing.assert_allclose(none.item(), expected(x, target, 1, "mean", 0.0, np.ones(3), -1), rtol=1e-12)


@pytest.mark.parametrize("axis", [1, -1])
def test_probabilities_as_targets(axis: int) -> None:
    x, y, weight = normal(2, 3, 4), chance(2, 3, 4), chance(3 if axis == 1 else 4)
    smooth = y * 0.8 + 0.2 / x.shape[axis]
    along = weight[:, None] if axis == 1 else weight
    losses = -(log_softmax(x, axis) * smooth * along).sum(axis)
    for reduction, wanted in (("none", losses), ("mean", losses.mean())):
        found = Tensor(x).cross_entropy(Tensor(y), reduction, 0.2, weight=Tensor(weight), axis=axis)
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12)


def test_the_gradient_of_cross_entropy() -> None:
    x, target, weight = normal(3, 4, 2), np.array([[0, 3], [-100, 1], [2, 2]]), chance(4)
    t = Tensor(x)

    def call(v: Tensor) -> Tensor:
        return v.cross_entropy(target, "mean", 0.1, weight=Tensor(weight))

    (found,) = call(t).gradient(t)
    for at in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[at] += 1e-6
        down[at] -= 1e-6
        difference = (call(Tensor(up)).item() - call(Tensor(down)).item()) / 2e-6
        np.testing.assert_allclose(found.numpy()[at], difference, rtol=1e-6, atol=1e-9)


def test_one_variance_a_row() -> None:
    x, y, v = np.array([[1.0, 2.0], [3.0, 5.0]]), np.zeros((2, 2)), np.array([0.5, 2.0])
    wanted = (np.log(v)[:, None] + (x - y) ** 2 / v[:, None]) / 2
    found = Tensor(x).gaussian_nll_loss(Tensor(y), Tensor(v[:, None]), reduction="none")
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12)
    three = Tensor(np.concatenate([x, x[:, :1]], 1))
    found = three.gaussian_nll_loss(0.0, Tensor(v), reduction="none")
    np.testing.assert_allclose(found.numpy()[:, :2], wanted, rtol=1e-12)


@pytest.mark.parametrize("p", [1, 2])
def test_margins_between_classes(p: int) -> None:
    x, at, weight = normal(3, 4), np.array([2, 0, 3]), chance(4)
    far = np.maximum(0.8 - np.take_along_axis(x, at[:, None], 1) + x, 0) ** p
    far[np.arange(3), at] = 0
    wanted = weight[at] * far.sum(1) / 4
    for reduction, value in (("none", wanted), ("sum", wanted.sum()), ("mean", wanted.mean())):
        found = Tensor(x).multi_margin_loss(Tensor(at), p, 0.8, Tensor(weight), reduction)
        np.testing.assert_allclose(found.numpy(), value, rtol=1e-12)
    one = Tensor(x[1]).multi_margin_loss(Tensor(at[1]), p, 0.8)
    np.testing.assert_allclose(one.item(), far[1].sum() / 4, rtol=1e-12)


def test_margins_between_labels() -> None:
    x, labels = normal(3, 4), [[2, 0], [], [1, 3, 0]]
    at = np.array([[2, 0, -1, 1], [-1, 3, 3, 3], [1, 3, 0, -1]])
    wanted = np.array(
        [
            sum(max(0, 1 - row[y] + row[i]) for y in own for i in range(4) if i not in own) / 4
            for row, own in zip(x, labels, strict=True)
        ]
    )
    for reduction, value in (("none", wanted), ("sum", wanted.sum()), ("mean", wanted.mean())):
        found = Tensor(x).multilabel_margin_loss(Tensor(at), reduction)
        np.testing.assert_allclose(found.numpy(), value, rtol=1e-12)
    truth, weight = chance(3, 4).round(), chance(4)
    wanted = (weight * (truth * softplus(-x) + (1 - truth) * softplus(x))).mean(1)
    found = Tensor(x).multilabel_soft_margin_loss(Tensor(truth), Tensor(weight), "none")
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12)


def test_margins_of_a_distance_of_ones_own() -> None:
    x, y, z = normal(3, 4), normal(3, 4), normal(3, 4)

    def apart(a: Array, b: Array) -> Array:
        total: Array = abs(a - b).sum(1)
        return total

    wanted = np.maximum(apart(x, y) - np.minimum(apart(x, z), apart(y, z)) + 1, 0)
    found = Tensor(x).triplet_margin_with_distance_loss(
        Tensor(y), Tensor(z), distance_function=lambda a, b: (a - b).abs().sum(1), swap=True, reduction="none"
    )
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12)
    same = Tensor(x).triplet_margin_with_distance_loss(Tensor(y), Tensor(z))
    np.testing.assert_array_equal(same.numpy(), Tensor(x).triplet_margin_loss(Tensor(y), Tensor(z)).numpy())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda x, at: x.multi_margin_loss(at, p=3), "multi_margin_loss: p=3"),
        (lambda x, at: x.multi_margin_loss(at[:1]), r"multi_margin_loss: targets of shape \(1,\)"),
        (
            lambda x, at: x.multi_margin_loss(at.float()),
            "multi_margin_loss: scores of shape .* targets of f32",
        ),
        (lambda x, at: x.multi_margin_loss(at, weight=x), "no vector of 3 elements"),
        (lambda x, at: x.unsqueeze(0).multilabel_margin_loss(at), "multilabel_margin_loss: scores of shape"),
        (lambda x, at: x.multilabel_margin_loss(at), r"multilabel_margin_loss: targets of shape \(2,\)"),
        (lambda x, at: x.sum().multilabel_soft_margin_loss(1.0), r"scores of shape \(\)"),
        (lambda x, at: x.multi_margin_loss(at, reduction="most"), "multi_margin_loss: reduction='most'"),
    ],
)
def test_margins_that_do_not_fit(wrong: Callable[[Tensor, Tensor], object], message: str) -> None:
    with pytest.raises(TensorError, match=message):
        wrong(Tensor.zeros(2, 3), Tensor([0, 1]))
