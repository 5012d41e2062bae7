"""Gradients against finite differences in float64, and what the rules say where a function has a corner."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from uop_ir import DType, Ops, UOp, dtypes
from uop_tensor import Tensor, TensorError, gradient, no_grad

Array = npt.NDArray[Any]
Function = Callable[..., Tensor]

RNG = np.random.default_rng(3)


def normal(*shape: int) -> Array:
    return RNG.normal(0, 1, shape)


def positive(*shape: int) -> Array:
    return RNG.uniform(0.5, 2, shape)


def apart(*shape: int) -> Array:
    """Distinct values, none near another or near 0 or a whole number."""
    n = int(np.prod(shape))
    return RNG.permutation(np.arange(n) - n // 2 + 0.37).reshape(shape) * 0.7


def check(function: Function, *arrays: Array, rtol: float = 2e-6, step: float = 1e-5) -> None:
    """Hold the gradient for a random seed against central differences, for every element of every array."""
    out = function(*map(Tensor, arrays))
    seed = normal(*out.shape)
    tensors = [Tensor(a) for a in arrays]
    found = function(*tensors).gradient(*tensors, seed=Tensor(seed))
    for number, array in enumerate(arrays):
        wanted = np.zeros_like(array)
        for at in np.ndindex(array.shape):
            values = []
            for sign in (1, -1):
                moved = array.copy()
                moved[at] += sign * step
                with_moved = [moved if i == number else a for i, a in enumerate(arrays)]
                values.append(function(*map(Tensor, with_moved)).numpy())
            wanted[at] = ((values[0] - values[1]) * seed).sum() / (2 * step)
        assert found[number].dtype is dtypes.f64
        np.testing.assert_allclose(found[number].numpy(), wanted, rtol=rtol, atol=1e-8)


UNARY: dict[str, Callable[..., Array]] = {
    "exp": normal,
    "exp2": normal,
    "log": positive,
    "log2": positive,
    "sqrt": positive,
    "rsqrt": positive,
    "reciprocal": positive,
    "sin": normal,
    "cos": normal,
    "tanh": normal,
    "sigmoid": normal,
    "silu": normal,
    "gelu": normal,
    "relu": apart,
    "abs": apart,
    "square": normal,
    "neg": normal,
    "sign": apart,
    "floor": apart,
    "ceil": apart,
    "round": apart,
    "trunc": apart,
}


@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str) -> None:
    check(lambda t: getattr(t, name)() + t * 0, UNARY[name](7))


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, -1, -2, 7, 0.5, -0.5, 1.5, -2.5])
def test_power_of_a_number(exponent: float) -> None:
    check(lambda t: t**exponent + t * 0, positive(4))
    if exponent == int(exponent):
        check(lambda t: t**exponent + t * 0, -positive(4))


BINARY: dict[str, Function] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "pow": lambda x, y: x**y,
    "maximum": lambda x, y: x.maximum(y),
    "minimum": lambda x, y: x.minimum(y),
    "where": lambda x, y: (x > 1).where(x, y),
    "mod": lambda x, y: x % y,
}


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize(
    "shapes", [((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((), (2, 2)), ((2, 1, 1), (1, 2))]
)
def test_binary_with_broadcasting(name: str, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    check(BINARY[name], positive(*shapes[0]), positive(*shapes[1]))


@pytest.mark.parametrize("other", [2.5, -3])
def test_binary_with_numbers(other: float) -> None:
    for f in (
        lambda t: t + other,
        lambda t: other - t,
        lambda t: t * other,
        lambda t: other / t,
        lambda t: t / other,
    ):
        check(f, positive(3))
    check(lambda t: 2.5**t, normal(3))


MOVES: dict[str, Function] = {
    "reshape": lambda t: t.reshape(3, 4, 2),
    "expand": lambda t: t.unsqueeze(1).expand(2, 5, 3, 4),
    "permute": lambda t: t.permute(2, 0, 1),
    "flip": lambda t: t.flip((0, 2)),
    "pad": lambda t: t.pad([(1, 0), (0, 2), (1, 1)]),
    "pad value": lambda t: t.pad([(1, 0), (0, 2), (1, 1)], value=5.0),
    "shrink": lambda t: t.shrink([(0, 1), (1, 3), None]),
    "slices": lambda t: t[:, ::-2, 1:],
    "element": lambda t: t[1, 2],
    "take": lambda t: t.take([2, 0, 0, 1], axis=1),
    "index": lambda t: t[:, Tensor([[0, 1], [1, -1]])],
    "repeat": lambda t: t.repeat(2, 1, 3),
    "cat": lambda t: t.cat(t * 2, t[:, :1], axis=1),
    "cat equal": lambda t: t.cat(t * 2, axis=-1),
    "stack": lambda t: t.stack(t * t, axis=1),
    "split": lambda t: t.split(2, axis=2)[1],
    "tril": lambda t: t.tril(),
    "triu": lambda t: t.triu(1),
    "T": lambda t: t.T,
    "contiguous": lambda t: (t * 2).contiguous() * 3,
    "clone": lambda t: t.clone() * 3,
}


@pytest.mark.parametrize("name", MOVES)
def test_movement(name: str) -> None:
    check(MOVES[name], normal(2, 3, 4))


FOLDS: dict[str, Function] = {
    "sum": lambda t: t.sum(1),
    "sum all": lambda t: t.sum(),
    "sum keepdim": lambda t: t.sum((0, 2), keepdim=True),
    "mean": lambda t: t.mean((0, 1)),
    "max": lambda t: t.max(1),
    "max two": lambda t: t.max((0, 2), keepdim=True),
    "min": lambda t: t.min(0),
    "prod": lambda t: t.prod(1),
    "prod two": lambda t: t.prod((0, 1)),
    "var": lambda t: t.var(1),
    "std": lambda t: t.std((0, 2), correction=0),
    "logsumexp": lambda t: t.logsumexp((0, 2)),
    "softmax": lambda t: t.softmax(1),
    "log_softmax": lambda t: t.log_softmax(-1),
    "layernorm": lambda t: t.layernorm(),
    "layernorm middle": lambda t: t.layernorm(axis=1),
}


@pytest.mark.parametrize("name", FOLDS)
def test_folds(name: str) -> None:
    check(FOLDS[name], apart(2, 3, 4) * 0.3, rtol=1e-5)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((2, 3), (3, 4)),
        ((3,), (3,)),
        ((2, 3), (3,)),
        ((3,), (3, 4)),
        ((2, 2, 3), (3, 2)),
        ((2, 1, 2, 3), (2, 3, 2)),
    ],
)
def test_matmul(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    check(lambda x, y: x @ y, normal(*left), normal(*right))


def test_layers() -> None:
    check(lambda x, w, b: x.linear(w, b), normal(2, 3), normal(4, 3), normal(4))
    check(lambda x, w, b: x.layernorm(w, b), normal(2, 3), normal(3), normal(3), rtol=1e-5)
    check(lambda x: x.cross_entropy(Tensor([2, 0, 3])), normal(3, 4))
    check(lambda x: x.cross_entropy(Tensor([2, 0, 3]), "none"), normal(3, 4))
    check(
        lambda q, k, v: q.scaled_dot_product_attention(k, v, is_causal=True),
        normal(2, 3, 2),
        normal(2, 3, 2),
        normal(2, 3, 2),
        rtol=1e-5,
    )


def test_mulacc_and_recip_as_ops() -> None:
    check(
        lambda x, y, z: Tensor(UOp(Ops.MULACC, (x.uop, y.uop, z.uop))), normal(2, 3), normal(3), normal(2, 1)
    )
    check(lambda x: Tensor(x.uop.alu(Ops.RECIP)), positive(3))


def test_second_derivatives() -> None:
    def slope(f: Function) -> Function:
        return lambda t: f(t).sum().gradient(t)[0]

    for f in (
        lambda t: t**3,
        lambda t: t.exp() * t.sin(),
        lambda t: t.softmax(),
        lambda t: t.layernorm() ** 2,
    ):
        check(slope(f), normal(4), rtol=1e-5)
    check(slope(lambda t: t.max() * t.prod()), apart(4))


# corners


def slope(f: Function, *values: object) -> list[Any]:
    tensors = [Tensor(np.array(v, np.float64)) for v in values]
    return [g.tolist() for g in f(*tensors).sum().gradient(*tensors)]


def test_relu_and_abs_at_zero() -> None:
    assert slope(lambda t: t.relu(), [-1, 0, 2, -0.0]) == [[0, 0, 1, 0]]
    assert slope(lambda t: t.abs(), [-1, 0, 2, -0.0]) == [[-1, 0, 1, 0]]


def test_clip_at_its_bounds() -> None:
    assert slope(lambda t: t.clip(0, 1), [-1, 0, 0.5, 1, 2]) == [[0, 1, 1, 1, 0]]
    assert slope(lambda t, low: t.clip(low), [-1, 0, 2], [0, 0, 0]) == [[0, 1, 1], [1, 0, 0]]
    assert slope(lambda t, low: t.clip(low, 3), [-1, 5], [0, 5]) == [[0, 0], [1, 0]]


def test_ties_are_shared() -> None:
    assert slope(lambda x, y: x.maximum(y), [1, 2, 3], [1, 1, 5]) == [[0.5, 1, 0], [0.5, 0, 1]]
    assert slope(lambda x, y: x.minimum(y), [1, 2, 3], [1, 1, 5]) == [[0.5, 0, 1], [0.5, 1, 0]]
    assert slope(lambda t: t.max(), [3, 1, 3, 3, 0]) == [pytest.approx([1 / 3, 0, 1 / 3, 1 / 3, 0])]
    assert slope(lambda t: t.min(1), [[1, 1], [0, 2]]) == [[[0.5, 0.5], [1, 0]]]
    assert slope(lambda t: t.maximum(t), [4.0]) == [[1]]


def test_products_with_zeros() -> None:
    assert slope(lambda t: t.prod(), [2, 3, 4]) == [[12, 8, 6]]
    assert slope(lambda t: t.prod(), [2, 0, 4]) == [[0, 8, 0]]
    assert slope(lambda t: t.prod(), [0, 0, 4]) == [[0, 0, 0]]
    assert slope(lambda t: t.prod(1), [[0, 5], [2, -0.0]]) == [[[5, 0], [0, 2]]]


def test_products_of_what_is_empty_single_or_infinite() -> None:
    assert slope(lambda t: t.prod(), 3.0) == [1]
    assert slope(lambda t: t.prod(1), [[2.0], [3.0]]) == [[[1], [1]]]
    assert slope(lambda t: t.prod(1), np.zeros((2, 0))) == [[[], []]]
    assert slope(lambda t: t.prod(), [math.inf, 3, 2]) == [[6, math.inf, math.inf]]


def test_second_derivatives_of_products_with_zeros() -> None:
    weights = Tensor([1.0, 2.0, 3.0, 4.0]).double()

    def directional(t: Tensor) -> Tensor:
        return (t.prod().gradient(t)[0] * weights).sum()

    # of the sum over i of w[i] * (product of all but i), by each element
    assert slope(directional, [2, 0, 0, 3]) == [[0, 18, 12, 0]]
    assert slope(directional, [0, 0, 0, 3]) == [[0, 0, 0, 0]]
    assert slope(directional, [1, 2, 3, 0]) == [[24, 12, 8, 6 + 6 + 6]]


def test_power_at_zero() -> None:
    assert slope(lambda t: t**1.5, [0.0]) == [[0]]
    assert slope(lambda t: t**7, [0.0]) == [[0]]
    assert slope(lambda t: t ** Tensor([1.0, 2.0, 3.0]).double(), [0.0, 0.0, -0.0]) == [[1, 0, 0]]


def test_power_without_a_real_result() -> None:
    x, y = Tensor(np.array([-2.0, -2.0, 2.0])), Tensor(np.array([0.5, 2.0, 0.5]))
    of_base, of_exponent = (x**y).gradient(x, y, seed=x.ones_like())
    np.testing.assert_allclose(of_base.numpy(), [np.nan, -4, 0.5 / 2**0.5])
    assert math.isnan(of_exponent.numpy()[0])


def test_far_out() -> None:
    """Where exponentials overflow, slopes are finite."""
    far = [-1e4, -750, -30, 0, 30, 750, 1e4]
    for f in (
        lambda t: t.sigmoid(),
        lambda t: t.tanh(),
        lambda t: t.silu(),
        lambda t: t.gelu(),
        lambda t: t.softmax(),
    ):
        (found,) = slope(f, far)
        assert np.isfinite(found).all()
    assert slope(lambda t: t.sigmoid(), [0.0]) == [[0.25]]
    assert slope(lambda t: t.tanh(), [0.0, 1e4]) == [[1, 0]]


def test_masked_attention_scores() -> None:
    (found,) = slope(
        lambda t: Tensor([True, False]).where(t, -math.inf).softmax() * Tensor([1.0, 1.0]).double(), [1, 2]
    )
    assert found == [0, 0]


# dtypes


@pytest.mark.parametrize("dtype", dtypes.floats, ids=str)
def test_a_gradient_has_the_dtype_and_shape_of_its_value(dtype: DType) -> None:
    x, y = Tensor(normal(2, 3), dtype), Tensor(normal(3), dtype)
    out = ((x * y).sum(1).exp() + (x @ y).float().cast(dtype)).softmax().mean()
    for t, g in zip((x, y), out.gradient(x, y), strict=True):
        assert (g.dtype, g.shape) == (t.dtype, t.shape)


def test_through_casts() -> None:
    x = Tensor([1.5, 2.5])
    (g,) = (x.double() * 3).half().sum().gradient(x)
    assert g.dtype is dtypes.f32
    assert g.tolist() == [3, 3]
    (g,) = (x.int().float() * 3).sum().gradient(x)
    assert g.tolist() == [0, 0]


def test_of_take_is_the_one_hot_form() -> None:
    w = Tensor(normal(5, 2))
    (g,) = w.take([[1, 1], [4, 1]], 0).sum().gradient(w)
    ops = {n.op for n in g.uop.toposort()}
    assert {Ops.WHERE, Ops.CMPEQ} <= ops
    assert g.tolist() == [[0, 0], [3, 3], [0, 0], [0, 0], [1, 1]]


# backward


def grad(t: Tensor) -> Tensor:
    assert t.grad is not None
    return t.grad


def test_backward_fills_and_accumulates() -> None:
    w, b = Tensor([[1.0, 2.0]], requires_grad=True), Tensor([3.0], requires_grad=True)
    other = Tensor([1.0], requires_grad=True)
    for rounds in (1, 2):
        ((w * w).sum() + b * 2).backward()
        assert grad(w).tolist() == [[2 * rounds, 4 * rounds]]
        assert grad(b).tolist() == [2 * rounds]
    assert other.grad is None


def test_backward_through_views_of_a_parameter() -> None:
    w = Tensor(np.arange(6.0), requires_grad=True)
    (w.reshape(2, 3).T[1] * 2 + w.reshape(3, 2)[2]).sum().backward()
    assert grad(w).tolist() == [0, 2, 0, 0, 3, 1]


def test_parameters_of_equal_value_are_told_apart() -> None:
    a, b = Tensor.zeros(2, requires_grad=True), Tensor.zeros(2, requires_grad=True)
    (a * 3 + b * 5).sum().backward()
    assert (grad(a).tolist(), grad(b).tolist()) == ([3, 3], [5, 5])
    c = Tensor.zeros(2)
    d = c.clone()
    c.requires_grad = d.requires_grad = True
    (c * 3 + d * 5).sum().backward()
    assert (grad(c).tolist(), grad(d).tolist()) == ([3, 3], [5, 5])
    a.assign(Tensor.zeros(2))
    b.assign(Tensor.zeros(2))
    a.realize(b)
    a.grad = b.grad = None
    (a * 3 + b * 5).sum().backward()
    assert (grad(a).tolist(), grad(b).tolist()) == ([3, 3], [5, 5])


def test_seed() -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)
    (w * w).backward(Tensor([10.0, 1.0]))
    assert grad(w).tolist() == [20, 4]


def test_detach_and_no_grad() -> None:
    w = Tensor([2.0], requires_grad=True)
    (w * w.detach()).backward()
    assert grad(w).tolist() == [2]
    w.grad = None
    with no_grad():
        constant = w * 3
    (w * constant).backward()
    assert grad(w).tolist() == [6]
    assert (w * constant).detach().numpy() == 12


def test_grads_are_constants() -> None:
    w = Tensor([2.0], requires_grad=True)
    (w * w).backward()
    with pytest.raises(TensorError, match="no tensor with requires_grad"):
        grad(w).backward()


def test_looking_at_values_before_backward() -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)
    h = w * 3
    loss = (h * h).sum()
    assert loss.item() == 45
    assert "3" in repr(h)
    loss.backward()
    assert grad(w).tolist() == [18, 36]


def test_a_training_step_keeps_no_graph() -> None:
    w = Tensor([1.0], requires_grad=True)
    velocity = Tensor([0.0])
    sizes = []
    for _ in range(4):
        w.grad = None
        loss = (w * w).sum()
        loss.backward()
        velocity.assign(velocity * 0.5 + grad(w))
        w.assign(w - velocity * 0.25)
        w.realize(velocity, loss)
        sizes.append(sum(len(t.uop.toposort()) for t in (w, velocity, loss)))
    assert sizes == [4] * 4
    x, v = 1.0, 0.0
    for _ in range(4):
        v = v * 0.5 + 2 * x
        x -= v * 0.25
    assert w.item() == x


def test_a_realized_result_becomes_a_parameter() -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)
    v = (w * 2).realize()
    v.requires_grad = True
    (v * v).sum().backward()
    assert grad(v).tolist() == [4, 8]
    assert w.grad is None


def test_memory_that_is_used_again_is_not_cut_off() -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)
    v = (w * 2).realize()
    v.assign(Tensor([5.0, 6.0]) * 3).realize()
    (w * v).sum().backward()
    assert grad(w).tolist() == [15, 18]


def test_a_frozen_input_gets_none() -> None:
    w, x = Tensor([1.0], requires_grad=True), Tensor([2.0])
    (w * x).backward()
    assert x.grad is None


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda w: (w * 2).backward(), r"backward: of a tensor of shape \(2,\)"),
        (lambda w: Tensor([1.0]).sum().backward(), "no tensor with requires_grad=True"),
        (lambda w: (w > 0).any().backward(), "backward: of a tensor of dtype bool"),
        (lambda w: (w * 2).backward(Tensor([1.0])), "backward: a seed"),
        (lambda w: (w * 2).realize().sum().backward(), "realized before"),
        (lambda w: Tensor([1], requires_grad=True), "requires_grad: a tensor of dtype i64"),
        (
            lambda w: Tensor.zeros(2, dtype=dtypes.i32, requires_grad=True),
            "requires_grad: a tensor of dtype i32",
        ),
        (lambda w: w.sum().gradient(Tensor([1.0])), "gradient: input 0"),
        (lambda w: w.sum().detach().gradient(w), "gradient: input 0"),
        (lambda w: gradient([w.uop], [w.sum().uop], [w.uop]), "gradient: seed"),
    ],
)
def test_errors(wrong: Callable[[Tensor], object], message: str) -> None:
    with pytest.raises(TensorError, match=message):
        wrong(Tensor([1.0, 2.0], requires_grad=True))


def test_a_long_chain_is_no_recursion() -> None:
    w = Tensor([1.0], requires_grad=True)
    y = w
    for _ in itertools.repeat(None, 5000):
        y = y * 1.0
    y.backward()
    assert grad(w).uop.dtype is dtypes.f32


def test_gradients_where_a_formula_has_none() -> None:
    x = Tensor([2.0, 0.0, -1.0])
    assert (x**0).sum().gradient(x)[0].tolist() == [0, 0, 0]
    same = Tensor([[3.0, 3.0, 3.0], [1.0, 2.0, 3.0]])
    found = same.std(axis=1).sum().gradient(same)[0].numpy()
    np.testing.assert_allclose(found, np.array([[0, 0, 0], [-0.5, 0, 0.5]]), atol=1e-6)
    zero, y = Tensor([0.0, 0.0, 2.0]), Tensor([3.0, 0.0, 5.0])
    by_x, by_y = zero.xlogy(y).sum().gradient(zero, y)
    np.testing.assert_allclose(by_x.numpy(), np.array([np.log(3), 0, np.log(5)]), rtol=1e-6)
    np.testing.assert_allclose(by_y.numpy(), np.array([0, 0, 0.4]), rtol=1e-6)
    assert not np.signbit(zero.xlogy(0.5).numpy()[:2]).any()


@pytest.mark.parametrize("upper", [False, True])
def test_the_gradient_of_cholesky_is_symmetric(upper: bool) -> None:
    """That along a symmetric change is the derivative; it is the same for both triangles, as in PyTorch."""
    rng = np.random.default_rng(1)
    a, change, weight = rng.normal(size=(3, 3, 3))
    a, change = a @ a.T + np.eye(3), change + change.T
    x = Tensor(a)
    (found,) = (x.cholesky(upper=upper) * Tensor(weight)).sum().gradient(x)
    gradient = found.numpy()
    np.testing.assert_allclose(gradient, gradient.T, atol=1e-12)

    def value(t: float) -> float:
        factor = np.linalg.cholesky(a + t * change)
        return float(((factor.T if upper else factor) * weight).sum())

    np.testing.assert_allclose((gradient * change).sum(), (value(1e-5) - value(-1e-5)) / 2e-5, rtol=1e-7)
