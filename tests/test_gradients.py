"""What the two models learn by: gradients against central differences,
and optimizer steps against NumPy, in float64.

Everything here runs as compiled kernels, with the optimizer and its freedoms on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest

from uop_ir import dtypes
from uop_nn import SGD, AdamW, Gpt, GptConfig, Mlp, Module
from uop_tensor import Tensor, jit

Array: TypeAlias = "npt.NDArray[Any]"
STEP = 1e-5
#: Central differences of a function near 1 are this good: half a unit of float64 over STEP, and STEP squared.
TOLERANCE = 1e-8
TOKENS = np.array([[0, 3, 3], [1, 4, 0]], np.int32)
CLASSES = np.array([2, 0, 1], np.int32)


def normal(*shape: int) -> Array:
    return np.random.default_rng(shape).standard_normal(shape)


def positive(*shape: int) -> Array:
    return np.abs(normal(*shape)) + 0.5


def apart(*shape: int) -> Array:
    """Distinct values, none within 0.2 of 0 or of another: away from the corners of relu and max."""
    size = math.prod(shape)
    return (np.random.default_rng(0).permutation(size).reshape(shape) - size // 2 + 0.37) * 0.7


#: What the models, their losses and their optimizers are made of: the function, and its float operands.
STEPS: dict[str, tuple[Callable[..., Tensor], Sequence[Array]]] = {
    "add, broadcast": (lambda x, y: x + y, (normal(3, 4), normal(4))),
    "sub, broadcast": (lambda x, y: x - y, (normal(3, 1), normal(3, 4))),
    "mul, broadcast": (lambda x, y: x * y, (normal(2, 3, 4), normal(3, 1))),
    "div": (lambda x, y: x / y, (normal(3, 4), positive(3, 4))),
    "neg": (lambda x: -x, (normal(5),)),
    "sqrt": (lambda x: x.sqrt(), (positive(6),)),
    "reciprocal": (lambda x: x.reciprocal(), (positive(6),)),
    "exp": (lambda x: x.exp(), (normal(6),)),
    "log": (lambda x: x.log(), (positive(6),)),
    "tanh": (lambda x: x.tanh(), (normal(6),)),
    "gelu": (lambda x: x.gelu(), (normal(8) * 2,)),
    "relu": (lambda x: x.relu(), (apart(8),)),
    "where": (lambda x, y: (x < 0).where(x * y, y), (apart(6), normal(6))),
    "maximum": (lambda x, y: x.maximum(y), (apart(6), apart(6)[::-1] + 0.1)),
    "sum": (lambda x: x.sum(1), (normal(3, 4),)),
    "mean": (lambda x: x.mean((0, 2)), (normal(2, 3, 4),)),
    "max": (lambda x: x.max(1), (apart(3, 4),)),
    "reshape, permute, flip": (lambda x: x.reshape(4, 3).permute(1, 0).flip(1), (normal(2, 6),)),
    "pad, shrink, repeat": (lambda x: x.pad([(1, 0), (0, 2)])[1:, ::-2].repeat(2, 2), (normal(2, 4),)),
    "expand": (lambda x: x.unsqueeze(1).expand(3, 2, 4), (normal(3, 4),)),
    "cat, stack": (lambda x, y: x.cat(y).stack(y.cat(x), axis=1), (normal(2, 3), normal(1, 3))),
    "row of positions": (lambda x: x[:3], (normal(5, 2),)),
    "embedding": (lambda w: w.take(Tensor(TOKENS)), (normal(5, 3),)),
    "matmul": (lambda x, y: x @ y, (normal(2, 3, 4), normal(2, 4, 5))),
    "linear": (lambda x, w, b: x.linear(w, b), (normal(2, 3, 4), normal(5, 4), normal(5))),
    "softmax": (lambda x: x.softmax(), (normal(3, 5),)),
    "log_softmax": (lambda x: x.log_softmax(), (normal(3, 5),)),
    "layernorm": (lambda x, w, b: x.layernorm(w, b), (normal(3, 6), positive(6), normal(6))),
    "attention": (
        lambda q, k, v: q.scaled_dot_product_attention(k, v),
        (normal(2, 3, 4), normal(2, 5, 4), normal(2, 5, 3)),
    ),
    "causal attention": (
        lambda q, k, v: q.scaled_dot_product_attention(k, v, is_causal=True),
        (normal(2, 2, 4, 3), normal(2, 2, 4, 3), normal(2, 2, 4, 3)),
    ),
    "cross entropy": (lambda x: x.cross_entropy(Tensor(CLASSES)), (normal(3, 4),)),
    "cross entropy, summed": (lambda x: x.cross_entropy(Tensor(CLASSES), "sum"), (normal(3, 4),)),
}


def differences(function: Callable[..., Tensor], arrays: Sequence[Array], seed: Array) -> list[Array]:
    """The gradient of sum(seed * function) by central differences, an element at a time."""
    jitted = jit(function)
    found = []
    for number, array in enumerate(arrays):
        gradient = np.zeros_like(array)
        tensors = [Tensor(a) for a in arrays]
        for at in np.ndindex(array.shape):
            ends = []
            for sign in (1, -1):
                changed = array.copy()
                changed[at] += sign * STEP
                tensors[number] = Tensor(changed)
                ends.append((jitted(*tensors).numpy() * seed).sum())
            gradient[at] = (ends[0] - ends[1]) / (2 * STEP)
        found.append(gradient)
    return found


@pytest.mark.parametrize("name", STEPS)
def test_gradient_of_a_step(name: str) -> None:
    function, arrays = STEPS[name]
    tensors = [Tensor(a) for a in arrays]
    out = function(*tensors)
    assert out.device == "CPU"
    assert out.dtype is dtypes.f64
    seed = np.random.default_rng(1).standard_normal(out.shape)
    got = out.gradient(*tensors, seed=Tensor(seed))
    got[0].realize(*got[1:])
    for gradient, wanted in zip(got, differences(function, arrays, seed), strict=True):
        scale = 1 + np.abs(wanted).max()
        np.testing.assert_allclose(gradient.numpy(), wanted, rtol=0, atol=TOLERANCE * scale)


def in_double(model: Module) -> dict[str, Tensor]:
    """Make every parameter of a model float64 with values that are not small, and return them by name."""
    rng = np.random.default_rng(5)
    parameters = dict(model.named_parameters())
    for name, tensor in parameters.items():
        *path, last = name.split(".")
        owner: Any = model
        for part in path:
            owner = owner[int(part)] if part.isdigit() else getattr(owner, part)
        double = Tensor(rng.standard_normal(tensor.shape) * 0.5, requires_grad=True)
        setattr(owner, last, double)
        parameters[name] = double
    return parameters


def check_model(model: Module, loss: Callable[[], Tensor]) -> None:
    """The gradient of every parameter, along two random directions each."""
    parameters = in_double(model)
    loss().backward()
    rng = np.random.default_rng(7)
    jitted = jit(loss)
    for name, tensor in parameters.items():
        assert tensor.grad is not None, name
        gradient, before = tensor.grad.numpy(), tensor.numpy()
        for _ in range(2):
            direction = rng.standard_normal(tensor.shape)
            ends = []
            for sign in (1, -1):
                tensor.assign(before + sign * STEP * direction)
                ends.append(jitted().item())
            tensor.assign(before)
            wanted = (ends[0] - ends[1]) / (2 * STEP)
            assert (gradient * direction).sum() == pytest.approx(wanted, rel=1e-6, abs=TOLERANCE), name


def test_gradient_of_the_mlp() -> None:
    model = Mlp(np.random.default_rng(0), inputs=6, hidden=5, classes=3)
    images = normal(4, 6)
    check_model(model, lambda: model.loss(Tensor(images), Tensor(np.array([0, 2, 1, 2], np.int32))))


def test_gradient_of_the_gpt() -> None:
    config = GptConfig(vocabulary=5, context=4, layers=1, width=8, heads=2)
    model = Gpt(config, np.random.default_rng(0))
    targets = np.array([[3, 3, 2], [4, 0, 1]], np.int32)
    check_model(model, lambda: model.loss(Tensor(TOKENS), Tensor(targets)))


# optimizers


def sgd(
    p: Array, gradients: Sequence[Array], lr: float, momentum: float, decay: float, nesterov: bool
) -> Array:
    buffer = np.zeros_like(p)
    for g in gradients:
        g = g + decay * p
        buffer = momentum * buffer + g
        p = p - lr * (g + momentum * buffer if nesterov else buffer)
    return p


def adamw(
    p: Array, gradients: Sequence[Array], lr: float, betas: tuple[float, float], eps: float, decay: float
) -> Array:
    mean, square = np.zeros_like(p), np.zeros_like(p)
    for t, g in enumerate(gradients, 1):
        mean = betas[0] * mean + (1 - betas[0]) * g
        square = betas[1] * square + (1 - betas[1]) * g * g
        p = p * (1 - lr * decay)
        p = p - lr * (mean / (1 - betas[0] ** t)) / (np.sqrt(square / (1 - betas[1] ** t)) + eps)
    return p


def run(optimizer: SGD | AdamW, parameter: Tensor, gradients: Sequence[Array]) -> Array:
    """The parameter after a step for each gradient."""
    for g in gradients:
        optimizer.zero_grad()
        (parameter * Tensor(g)).sum().backward()
        optimizer.step()
        optimizer.realize()
    assert parameter.dtype is dtypes.f64
    return parameter.numpy()


#: Rates, and 1 - rate * decay, are f32: with few bits, they are what float64 makes of them.
LR = 2.0**-7
STEPS_OF_TRAINING = [normal(3, 4) * k for k in (1, -2, 0.5, 3)]


@pytest.mark.parametrize(
    ("momentum", "decay", "nesterov"),
    [(0.0, 0.0, False), (0.0, 0.1, False), (0.9, 0.0, False), (0.9, 0.1, True)],
)
def test_sgd(momentum: float, decay: float, nesterov: bool) -> None:
    start = normal(4, 3).T.copy()
    parameter = Tensor(start, requires_grad=True)
    optimizer = SGD([parameter], LR, momentum=momentum, nesterov=nesterov, weight_decay=decay)
    got = run(optimizer, parameter, STEPS_OF_TRAINING)
    wanted = sgd(start, STEPS_OF_TRAINING, LR, momentum, decay, nesterov)
    np.testing.assert_allclose(got, wanted, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("decay", [0.0, 0.125])
def test_adamw(decay: float) -> None:
    start = normal(4, 3).T.copy()
    parameter = Tensor(start, requires_grad=True)
    optimizer = AdamW([parameter], LR, betas=(0.9, 0.99), weight_decay=decay)
    got = run(optimizer, parameter, STEPS_OF_TRAINING)
    wanted = adamw(start, STEPS_OF_TRAINING, LR, (0.9, 0.99), 1e-8, decay)
    # the corrections 1 - beta^t are kept in f32
    np.testing.assert_allclose(got, wanted, rtol=0, atol=LR * len(STEPS_OF_TRAINING) * 4 * 2.0**-24)
