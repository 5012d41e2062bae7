"""Functions, activations, losses, norms and products beside PyTorch: values and gradients in float64."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from uop_ir import override, settings
from uop_tensor import Tensor, TensorError

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
F = torch.nn.functional

pytestmark = pytest.mark.torch

Array = npt.NDArray[Any]
Call = Callable[..., Any]

RNG = np.random.default_rng(41)


@pytest.fixture(autouse=True)
def _interpreter() -> Iterator[None]:
    """What is compared is what a method means, so nothing is compiled."""
    with override(settings, dev=settings.dev or "INTERP"):
        yield


def normal(*shape: int) -> Array:
    return RNG.normal(0, 1, shape)


def chance(*shape: int) -> Array:
    return RNG.uniform(0.05, 0.95, shape)


def above(*shape: int) -> Array:
    return RNG.uniform(1.1, 4, shape)


def compare(ours: Call, theirs: Call, arrays: tuple[Array, ...], rtol: float = 1e-9) -> None:
    """Values, and the gradients of all floats for a random seed."""
    tensors = [Tensor(a) for a in arrays]
    others = [torch.tensor(a, requires_grad=a.dtype.kind == "f") for a in arrays]
    found, wanted = ours(*tensors), theirs(*others)
    assert tuple(found.shape) == tuple(wanted.shape)
    seed = normal(*found.shape)
    grads: list[Array] = []
    if found.dtype.is_float:
        floats = [t for t in tensors if t.dtype.is_float]
        grads = [g.numpy() for g in found.gradient(*floats, seed=Tensor(seed))]
        wanted.backward(torch.tensor(seed))
    np.testing.assert_allclose(found.numpy(), wanted.detach().numpy(), rtol=rtol, atol=1e-11)
    theirs_grads = [t.grad for t in others if t.requires_grad]
    for grad, other in zip(grads, theirs_grads, strict=found.dtype.is_float):
        np.testing.assert_allclose(grad, 0 if other is None else other.numpy(), rtol=10 * rtol, atol=1e-10)


def by_name(name: str, *arrays: Array, **options: Any) -> Any:
    """A method of both tensors."""
    return pytest.param(
        lambda x, *rest: getattr(x, name)(*rest, **options),
        lambda x, *rest: getattr(x, name)(
            *rest, **{"dim" if k == "axis" else k: v for k, v in options.items()}
        ),
        arrays,
        id=name,
    )


def functional(name: str, *arrays: Array, **options: Any) -> Any:
    """A method of ours, and a function of torch.nn.functional."""
    return pytest.param(
        lambda x, *rest: getattr(x, name)(*rest, **options),
        lambda x, *rest: getattr(F, name)(
            x, *rest, **{"dim" if k == "axis" else k: v for k, v in options.items()}
        ),
        arrays,
        id=name,
    )


X = (3, 4)
METHODS = [
    *(
        by_name(n, normal(*X))
        for n in ("tan", "atan", "sinh", "cosh", "asinh", "erf", "erfc", "expm1", "exp", "neg")
    ),
    *(
        by_name(n, chance(*X))
        for n in ("asin", "acos", "atanh", "log1p", "log10", "logit", "rad2deg", "deg2rad")
    ),
    by_name("acosh", above(*X)),
    *(
        by_name(n, normal(*X), normal(*X))
        for n in ("atan2", "hypot", "logaddexp", "fmod", "remainder", "copysign")
    ),
    *(by_name(n, normal(*X), normal(4)) for n in ("add", "sub", "mul", "div", "maximum", "minimum")),
    by_name("xlogy", normal(*X), chance(*X)),
    by_name("pow", above(*X), normal(*X)),
    by_name("div", normal(*X), normal(4), rounding_mode="trunc"),
    by_name("add", normal(*X), normal(4), alpha=2),
    by_name("lerp", normal(*X), normal(*X), chance(*X)),
    by_name("addcmul", normal(*X), normal(*X), normal(4), value=0.5),
    by_name("addcdiv", normal(*X), normal(*X), above(4), value=0.5),
    by_name("nan_to_num", normal(*X)),
    by_name("frac", normal(*X)),
    by_name("logit", normal(*X), eps=0.1),
    by_name("softmax", normal(*X), axis=0),
    by_name("amax", normal(*X), axis=1),
    by_name("nansum", normal(*X), axis=1),
    by_name("nanmean", normal(*X), axis=0),
    by_name("count_nonzero", normal(*X).round(), axis=0),
    *(by_name("norm", normal(*X), p=p, axis=1) for p in (0, 1, 2, 3, float("inf"))),
    by_name("outer", normal(3), normal(4)),
    by_name("inner", normal(2, 3), normal(5, 3)),
    by_name("kron", normal(2, 3), normal(3, 1)),
    by_name("mm", normal(2, 3), normal(3, 4)),
    by_name("mv", normal(2, 3), normal(3)),
    by_name("bmm", normal(2, 2, 3), normal(2, 3, 2)),
    by_name("addmm", normal(2, 4), normal(2, 3), normal(3, 4), beta=0.5, alpha=2),
    by_name("addmv", normal(2), normal(2, 3), normal(3)),
    by_name("addr", normal(2, 3), normal(2), normal(3)),
    by_name("baddbmm", normal(2, 4), normal(5, 2, 3), normal(5, 3, 4)),
    by_name("matrix_power", normal(2, 3, 3), n=3),
    by_name("trace", normal(3, 3)),
    by_name("cross", normal(2, 3), normal(2, 3), axis=1),
    by_name("cov", normal(3, 5)),
    by_name("cov", normal(5), correction=0),
    by_name("corrcoef", normal(3, 5)),
    by_name("sinc", normal(*X)),
    by_name("ldexp", normal(*X), normal(4)),
    *(by_name(n, RNG.integers(-40, 40, X), RNG.integers(-40, 40, 4)) for n in ("gcd", "lcm")),
    *(
        pytest.param(
            lambda x, y, n=n: getattr(x, n)(y, axis=0), lambda x, y, n=n: getattr(torch, n)(x, y, dim=0),
            (normal(*X), normal(3)), id=n,
        )
        for n in ("trapezoid", "cumulative_trapezoid")
    ),
]  # fmt: skip

ACTIVATIONS = [
    *(
        functional(n, normal(2, 4) * 3)
        for n in (
            "gelu", "silu", "relu6", "hardtanh", "hardswish", "leaky_relu", "elu", "selu", "celu",
            "softplus", "softsign", "mish", "logsigmoid", "tanhshrink", "softshrink", "hardshrink", "glu",
        )
    ),
    functional("gelu", normal(2, 4), approximate="tanh"),
    functional("softplus", normal(2, 4) * 9, beta=2.0, threshold=5.0),
    functional("elu", normal(2, 4), alpha=0.3),
    functional("celu", normal(2, 4), alpha=0.5),
    functional("threshold", normal(2, 4), threshold=0.2, value=5.0),
    functional("prelu", normal(2, 4, 3), chance(4)),
    functional("softmin", normal(2, 4), axis=1),
    functional("glu", normal(4, 3), axis=0),
]  # fmt: skip

SIGNS, CLASSES = np.where(normal(3) > 0, 1.0, -1.0), np.array([[1, 0], [-100, 2], [3, 3]])
LOSSES = [
    (name, arrays, options | {"reduction": reduction})
    for name, arrays, options in (
        ("mse_loss", (normal(*X), normal(*X)), {}),
        ("l1_loss", (normal(*X), normal(*X)), {}),
        ("smooth_l1_loss", (normal(*X), normal(*X)), {"beta": 0.7}),
        ("huber_loss", (normal(*X), normal(*X)), {"delta": 0.7}),
        ("binary_cross_entropy", (chance(*X), chance(*X)), {}),
        ("binary_cross_entropy_with_logits", (normal(*X), chance(*X)), {}),
        ("kl_div", (normal(*X), chance(*X)), {}),
        ("kl_div", (normal(*X), normal(*X)), {"log_target": True}),
        ("poisson_nll_loss", (normal(*X), chance(*X)), {}),
        ("poisson_nll_loss", (chance(*X), chance(*X)), {"log_input": False}),
        ("gaussian_nll_loss", (normal(*X), normal(*X), chance(*X)), {"full": True}),
        ("soft_margin_loss", (normal(3), SIGNS.astype(int)), {}),
        ("hinge_embedding_loss", (normal(3), SIGNS), {"margin": 0.8}),
        ("margin_ranking_loss", (normal(3), normal(3), SIGNS), {"margin": 0.2}),
        ("cosine_embedding_loss", (normal(*X), normal(*X), SIGNS), {"margin": -0.3}),
        ("triplet_margin_loss", (normal(*X), normal(*X), normal(*X)), {"swap": True}),
        ("triplet_margin_with_distance_loss", (normal(*X), normal(*X), normal(*X)), {"swap": True}),
        ("multi_margin_loss", (normal(3, 4), CLASSES[:, 1]), {"p": 2, "margin": 0.7}),
        (
            "multilabel_margin_loss",
            (normal(3, 4), np.array([[1, 3, -1, 0], [-1, 0, 0, 0], [3, 2, 1, 0]])),
            {},
        ),
        ("multilabel_soft_margin_loss", (normal(*X), chance(*X).round()), {}),
        ("nll_loss", (normal(3, 4, 2), CLASSES), {}),
        ("cross_entropy", (normal(3, 4, 2), CLASSES), {}),
        ("cross_entropy", (normal(3, 4, 2), CLASSES), {"label_smoothing": 0.2}),
        ("cross_entropy", (normal(3, 4), chance(3, 4)), {"label_smoothing": 0.2}),
        ("cross_entropy", (normal(3, 4, 2), CLASSES % 4), {"ignore_index": 3}),
    )
    for reduction in ("none", "mean", "sum")
]

NORMS = [
    functional("layer_norm", normal(3, 4, 5), normalized_shape=(4, 5)),
    functional("rms_norm", normal(3, 4, 5), normalized_shape=(5,)),
    functional("rms_norm", normal(3, 4, 5), normalized_shape=(5,), eps=0.1),
    functional("group_norm", normal(3, 4, 5), num_groups=2),
    functional("instance_norm", normal(3, 4, 5)),
    functional("normalize", normal(3, 4, 5)),
    functional("local_response_norm", normal(2, 4, 5), size=2, alpha=0.4, k=1.5),
    functional("normalize", normal(3, 4, 5), p=3.0, axis=2),
    functional("cosine_similarity", normal(3, 4, 5), normal(4, 5)),
    functional("pairwise_distance", normal(3, 4), normal(3, 4)),
    (lambda x, y: x.cdist(y), torch.cdist, (normal(2, 3, 4), normal(2, 5, 4))),
    (lambda x, y: x.cdist(y, 1.0), lambda x, y: torch.cdist(x, y, 1.0), (normal(3, 4), normal(5, 4))),
    (lambda x, y: x.tensordot(y), torch.tensordot, (normal(2, 3, 4), normal(3, 4, 5))),
    (lambda x, y: x.vecdot(y), torch.linalg.vecdot, (normal(2, 3), normal(3))),
]


@pytest.mark.parametrize(("ours", "theirs", "arrays"), [*METHODS, *ACTIVATIONS, *NORMS])
def test_values_and_gradients(ours: Call, theirs: Call, arrays: tuple[Array, ...]) -> None:
    compare(ours, theirs, arrays)


def test_without_gradients() -> None:
    x, y = normal(*X), normal(*X)
    x[0], y[1] = 0, np.nan
    for name in ("nextafter", "heaviside"):
        wanted = getattr(torch.tensor(x), name)(torch.tensor(y)).numpy()
        np.testing.assert_array_equal(getattr(Tensor(x), name)(Tensor(y)).numpy(), wanted)
    for options in ((5,), (4, -1, 2)):
        found = Tensor(x).histc(*options).numpy()
        np.testing.assert_array_equal(found, torch.tensor(x).histc(*options).numpy())


def test_in_place() -> None:
    """Every name is one of torch, and takes the same dtypes."""
    names = {n for n in dir(Tensor) if n.endswith("_") and not n.startswith("_")}
    assert len(names) > 100
    assert not names - set(dir(torch.Tensor))
    pairs: list[tuple[Any, Any]] = [(1, 0.5), (1, 2), (0.5, 1), (True, 1), (True, False), (1, True)]
    for own, other in pairs:
        for name in ("add_", "div_", "eq_", "pow_", "clamp_"):
            try:
                wanted = getattr(torch.tensor([own, own]), name)(torch.tensor([other, other])).numpy()
            except RuntimeError:
                with pytest.raises(TensorError):
                    getattr(Tensor([own, own]), name)(Tensor([other, other]))
            else:
                found = getattr(Tensor([own, own]), name)(Tensor([other, other])).numpy()
                np.testing.assert_array_equal(found, wanted, strict=True)


def test_hardsigmoid() -> None:
    """PyTorch's derivative is 1/6 in f32, whatever the dtype."""
    compare(lambda x: x.hardsigmoid(), F.hardsigmoid, (normal(2, 4) * 3,), rtol=1e-8)


@pytest.mark.filterwarnings("ignore:reduction:UserWarning")
@pytest.mark.parametrize(("name", "arrays", "options"), LOSSES)
def test_losses(name: str, arrays: tuple[Array, ...], options: dict[str, Any]) -> None:
    compare(
        lambda x, *rest: getattr(x, name)(*rest, **options),
        lambda x, *rest: getattr(F, name)(x, *rest, **options),
        arrays,
    )


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_weighted_losses(reduction: str) -> None:
    """torch has no gradient of weights, so none is asked for."""
    weight, factors = chance(4), chance(*X)
    for smoothing in (0.0, 0.3):
        compare(
            lambda x, y, s=smoothing: x.cross_entropy(y, reduction, s, weight=Tensor(weight)),
            lambda x, y, s=smoothing: F.cross_entropy(
                x, y, torch.tensor(weight), label_smoothing=s, reduction=reduction
            ),
            (normal(3, 4, 2), CLASSES),
        )
    compare(
        lambda x, y: x.binary_cross_entropy_with_logits(y, Tensor(factors), reduction, Tensor(weight)),
        lambda x, y: F.binary_cross_entropy_with_logits(
            x, y, torch.tensor(factors), pos_weight=torch.tensor(weight), reduction=reduction
        ),
        (normal(*X), chance(*X)),
    )


@pytest.mark.parametrize("training", [False, True])
def test_batch_norm(training: bool) -> None:
    mean, var = normal(4), chance(4)
    ours, theirs = [Tensor(a) for a in (mean, var)], [torch.tensor(a) for a in (mean, var)]
    compare(
        lambda x, w, b: x.batch_norm(*ours, w, b, training, 0.2),
        lambda x, w, b: F.batch_norm(x, *theirs, w, b, training, 0.2),
        (normal(3, 4, 5), normal(4), normal(4)),
    )
    for found, wanted in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-12)


@pytest.mark.parametrize(
    ("equation", "sizes"),
    [
        ("ij,jk", ((2, 3), (3, 4))),
        ("bij,bjk->bik", ((2, 3, 4), (2, 4, 5))),
        ("...ij,...jk->...ik", ((2, 1, 3, 4), (5, 4, 2))),
        ("ii->i", ((3, 3),)),
        ("...ii->...", ((2, 3, 3),)),
        ("...i->i", ((2, 3),)),
        ("Ab,bc,cA", ((2, 3), (3, 4), (4, 2))),
        ("i,j->ij", ((2,), (3,))),
        ("ij,ij->i", ((2, 1), (2, 4))),
    ],
)
def test_einsum(equation: str, sizes: tuple[tuple[int, ...], ...]) -> None:
    arrays = tuple(normal(*s) for s in sizes)
    compare(lambda *x: Tensor.einsum(equation, *x), lambda *x: torch.einsum(equation, *x), arrays)


@pytest.mark.parametrize(
    "name", ["tan", "sinh", "cosh", "asinh", "erf", "erfc", "expm1", "exp", "log1p", "gelu", "atan"]
)
def test_f32_to_a_few_ulp(name: str) -> None:
    x = np.concatenate([np.linspace(0.01, 12, 200), -np.linspace(0.01, 0.9, 50)]).astype(np.float32)
    other = torch.tensor(x.astype(np.float64))
    wanted = (F.gelu(other) if name == "gelu" else getattr(torch, name)(other)).numpy()
    np.testing.assert_allclose(
        getattr(Tensor(x), name)().numpy(), wanted, rtol=2e-6 if name == "gelu" else 5e-7, atol=1e-37
    )
