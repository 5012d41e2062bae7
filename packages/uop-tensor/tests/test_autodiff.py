"""Products with Jacobians, recomputation and gradients of one's own,
against float64 differences and plain gradients.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from uop_ir import dtypes
from uop_tensor import Tensor, TensorError, checkpoint, custom_gradient, jit, jvp, manual_seed, vjp

Array = npt.NDArray[Any]
RNG = np.random.default_rng(0)
STEP = 1e-6


def normal(*shape: int) -> Array:
    return RNG.normal(0, 1, shape)


FUNCTIONS: dict[str, tuple[Callable[..., Tensor], list[Array]]] = {
    "of one": (lambda x: x.exp() * x.sin(), [normal(5)]),
    "of two": (lambda x, y: (x @ y).tanh(), [normal(2, 3), normal(3, 2)]),
    "broadcast": (lambda x, y: x * y.sigmoid() + y, [normal(2, 3), normal(3)]),
    "reduced": (lambda x: x.softmax().max(1), [normal(2, 4)]),
    "movement": (lambda x: x.permute(1, 0)[::-1].pad([(1, 0), (0, 2)]).sum(0), [normal(2, 3)]),
    "to nothing": (lambda x: x[:0] * 2, [normal(3)]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_jvp_is_the_derivative_in_a_direction(name: str) -> None:
    function, arrays = FUNCTIONS[name]
    directions = [normal(*a.shape) for a in arrays]
    out, tangent = jvp(function, list(map(Tensor, arrays)), list(map(Tensor, directions)))
    ends = [
        function(*(Tensor(a + sign * STEP * d) for a, d in zip(arrays, directions, strict=True))).numpy()
        for sign in (1, -1)
    ]
    np.testing.assert_array_equal(out.numpy(), function(*map(Tensor, arrays)).numpy())
    np.testing.assert_allclose(tangent.numpy(), (ends[0] - ends[1]) / (2 * STEP), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_vjp_and_jvp_are_transposes(name: str) -> None:
    function, arrays = FUNCTIONS[name]
    directions = [normal(*a.shape) for a in arrays]
    out, pull = vjp(function, *map(Tensor, arrays))
    seed = normal(*out.shape)
    _, tangent = jvp(function, list(map(Tensor, arrays)), list(map(Tensor, directions)))
    pulled = pull(Tensor(seed))
    assert [g.shape for g in pulled] == [a.shape for a in arrays]
    along = sum((g.numpy() * d).sum() for g, d in zip(pulled, directions, strict=True))
    assert (tangent.numpy() * seed).sum() == pytest.approx(along, rel=1e-12, abs=1e-13)


def test_one_tensor_given_twice_is_two_arguments() -> None:
    x = Tensor(normal(3))
    _, tangent = jvp(lambda a, b: a * b.exp(), [x, x], [Tensor(np.ones(3)), Tensor(np.zeros(3))])
    np.testing.assert_allclose(tangent.numpy(), np.exp(x.numpy()), rtol=1e-14)
    _, pull = vjp(lambda a, b: a - 2 * b, x, x)
    assert [g.tolist() for g in pull(Tensor(np.ones(3)))] == [[1, 1, 1], [-2, -2, -2]]


def test_a_hessian_times_a_vector() -> None:
    x, v = normal(4), normal(4)

    def slope(t: Tensor) -> Tensor:
        return (t**3).sum().gradient(t)[0]

    _, product = jvp(slope, [Tensor(x)], [Tensor(v)])
    np.testing.assert_allclose(product.numpy(), 6 * x * v, rtol=1e-12)


def test_what_jvp_and_vjp_refuse() -> None:
    x = Tensor(normal(3))
    with pytest.raises(TensorError, match=r"jvp: 1 tangents for 2 inputs"):
        jvp(lambda a, b: a + b, [x, x], [x])
    with pytest.raises(TensorError, match=r"jvp: a tangent f64\(2,\) for an input f64\(3,\)"):
        jvp(lambda a: a, [x], [x[:2]])
    with pytest.raises(TensorError, match=r"vjp: input 0 is of dtype i64"):
        vjp(lambda a: a * 2, Tensor([1, 2]))
    with pytest.raises(TensorError, match=r"vjp: the function returns a tuple"):
        vjp(lambda a: (a, a), x)  # type: ignore[arg-type, return-value]
    with pytest.raises(TensorError, match="not what this tensor was computed from"):
        jvp(lambda a: Tensor([1.0]), [x], [x])


# recomputation


def layers(weights: list[Tensor]) -> Callable[[Tensor], Tensor]:
    def run(x: Tensor) -> Tensor:
        for w in weights:
            x = (x @ w).tanh()
        return x

    return run


def test_a_checkpoint_changes_neither_values_nor_gradients() -> None:
    weights = [Tensor(normal(3, 3), requires_grad=True) for _ in range(4)]
    x = Tensor(normal(2, 3))
    plain = layers(weights)(x)
    wanted = plain.sum().gradient(x, *weights)
    first, second = layers(weights[:2]), layers(weights[2:])
    again = checkpoint(second, checkpoint(first, x))
    np.testing.assert_array_equal(again.numpy(), plain.numpy())
    got = again.sum().gradient(x, *weights)
    for g, w in zip(got, wanted, strict=True):
        np.testing.assert_allclose(g.numpy(), w.numpy(), rtol=1e-13)
    again.sum().backward()
    for parameter, w in zip(weights, wanted[1:], strict=True):
        assert parameter.grad is not None
        np.testing.assert_allclose(parameter.grad.numpy(), w.numpy(), rtol=1e-13)


def test_a_checkpoint_within_a_checkpoint_and_one_of_several_results() -> None:
    x = Tensor(normal(3))

    def outer(t: Tensor) -> tuple[Tensor, Tensor]:
        return checkpoint(lambda u: u.sin().exp(), t * 2), t * 3

    first, second = checkpoint(outer, x)
    (g,) = (first * second).sum().gradient(x)
    v = x.numpy()
    e = np.exp(np.sin(2 * v))
    np.testing.assert_allclose(g.numpy(), e * (3 + 3 * v * 2 * np.cos(2 * v)), rtol=1e-12)
    with pytest.raises(TensorError, match="checkpoint: the function returns a float"):
        checkpoint(lambda t: 1.0, x)


@custom_gradient
def halved(x: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """x * x, whose gradient is taken for x * g."""
    return x * x, lambda g: x * g


RULED: dict[str, tuple[Callable[[Tensor], Tensor], tuple[int, ...]]] = {
    "erfinv": (lambda x: (x * 0.5).erfinv() * 3, (4,)),
    "custom_gradient": (lambda x: halved(x * 2).exp(), (4,)),
    "within another": (lambda x: halved(halved(x + 1)), (4,)),
    "conv1d": (lambda x: (x * x).conv1d(x[:, :, :3]).conv1d(x[:, :, :2]), (1, 1, 9)),
}


@pytest.mark.parametrize("name", RULED)
def test_a_checkpoint_keeps_gradients_that_have_a_rule_of_their_own(name: str) -> None:
    function, shape = RULED[name]
    x = Tensor(np.random.default_rng(3).uniform(-0.9, 0.9, shape))
    seconds = []
    for y in (function(x), checkpoint(function, x)):
        (slope,) = y.gradient(x, seed=y.ones_like())
        seconds.append([slope, *slope.gradient(x, seed=slope.ones_like())])
    for wanted, found in zip(*seconds, strict=True):
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-12)


def test_a_checkpoint_draws_the_same_numbers_again() -> None:
    manual_seed(3)
    x = Tensor(np.ones(50))
    out = checkpoint(lambda t: t.dropout(0.5) * t, x)
    (g,) = out.sum().gradient(x)
    np.testing.assert_array_equal(g.numpy(), 2 * out.numpy())
    assert set(out.tolist()) == {0, 2}


def test_a_checkpoint_in_a_jitted_step() -> None:
    w = Tensor(normal(3, 3), requires_grad=True)

    @jit
    def slope(x: Tensor) -> Tensor:
        return checkpoint(layers([w, w]), x).sum().gradient(w)[0]

    for _ in range(2):
        x = Tensor(normal(2, 3))
        (wanted,) = layers([w, w])(x).sum().gradient(w)
        np.testing.assert_allclose(slope(x).numpy(), wanted.numpy(), rtol=1e-13)


# gradients of one's own


def test_a_gradient_of_ones_own() -> None:
    @custom_gradient
    def rounded(x: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        return x.round(), lambda g: g * 10

    x = Tensor(np.array([0.4, 1.6]))
    assert rounded(x).tolist() == [0, 2]
    assert (rounded(x) * Tensor(np.array([1.0, 2.0]))).sum().gradient(x)[0].tolist() == [10, 20]
    assert x.round().sum().gradient(x)[0].tolist() == [0, 0]


def test_two_rules_for_one_value() -> None:
    def scaled(k: float) -> Callable[[Tensor], Tensor]:
        return custom_gradient(lambda x: (x.round(), lambda g: g * k))

    x = Tensor(np.array([0.4, 1.6]))
    assert (scaled(2)(x) + scaled(3)(x)).sum().gradient(x)[0].tolist() == [5, 5]


def test_a_rule_of_several_arguments_has_gradients_itself() -> None:
    @custom_gradient
    def product(x: Tensor, n: Tensor, y: Tensor) -> tuple[Tensor, Any]:
        return x * y * n, lambda g: (g * y * n, None, g * x * n)

    x, y, n = Tensor(np.array(3.0)), Tensor(np.array(5.0)), Tensor(2)
    gx, gy = product(x, n, y).gradient(x, y)
    assert gx.gradient(y)[0].item() == 2
    assert (gx.item(), gy.item()) == (10, 6)
    with pytest.raises(TensorError, match="1 gradients for 2 arguments"):
        custom_gradient(lambda a, b: (a * b, lambda g: g))(x, y).gradient(x)
    with pytest.raises(TensorError, match=r"a gradient f64\(1,\) for argument 0, which is f64\(\)"):
        custom_gradient(lambda a: (a * 1, lambda g: g.reshape(1)))(x).gradient(x)


def test_rules_hold_within_jit() -> None:
    @custom_gradient
    def straight(x: Tensor) -> tuple[Tensor, Any]:
        return x.sign(), lambda g: g

    w = Tensor(np.array([0.5, -2.0]))

    @jit
    def step(x: Tensor) -> Tensor:
        loss = (straight(w) * x).sum()
        w.assign(w - loss.gradient(w)[0])
        return loss

    assert step(Tensor(np.array([1.0, 3.0]))).item() == 1 - 3
    assert w.tolist() == [-0.5, -5]
    assert step(Tensor(np.array([2.0, 1.0]))).item() == -2 - 1


# dtypes


@pytest.mark.parametrize("dtype", [dtypes.f16, dtypes.bf16], ids=str)
def test_narrow_gradients_are_summed_in_f32(dtype: Any) -> None:
    x = Tensor(np.float64(1), dtype).reshape(1)
    n = 5000  # 1 added up in f16 stops at 2048, in bf16 at 256
    (g,) = (x.expand(n) * Tensor(np.ones(n), dtype)).sum(dtype=dtypes.f32).gradient(x)
    assert g.float().item() == Tensor(float(n)).cast(dtype).float().item()
    ties = Tensor(np.ones(n), dtype)
    (g,) = ties.max().gradient(ties)
    assert g[0].float().item() == (Tensor(1.0) / n).cast(dtype).float().item()


def test_integers_have_no_gradients() -> None:
    x, n = Tensor([1.0, 2.0]), Tensor([1, 2])
    with pytest.raises(TensorError, match="of dtype i64"):
        (n * 2).sum().gradient(n)
    with pytest.raises(TensorError, match="input 0 is of dtype i64"):
        (x * n).sum().gradient(n)
    with pytest.raises(TensorError, match="of dtype i64"):
        Tensor([1, 2], requires_grad=True)
