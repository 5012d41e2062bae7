"""Optimizers against their textbook update rules in float64, under jit and without, at rates that change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from uop_nn import (
    SGD,
    Adam,
    AdamW,
    CombinedOptimizer,
    Linear,
    Lion,
    ModelError,
    Muon,
    Optimizer,
    OptimizerError,
)
from uop_tensor import Tensor, jit

Array = NDArray[np.float64]
RATES = [0.1, 0.05, 0.3, 0.01, 0.2]
START = np.array([[1.0, -2.0, 0.5], [0.25, 3.0, -1.5]], np.float32)
TARGET = np.array([[0.5, 1.0, 0.5], [-2.0, 0.1, 1.0]], np.float32)


def gradient(p: Array) -> Array:
    """Of `sum((p - target)^4) / 4`."""
    result: Array = (p - TARGET.astype(np.float64)) ** 3
    return result


def sgd(
    rates: list[float], momentum: float = 0.0, nesterov: bool = False, weight_decay: float = 0.0
) -> Array:
    p, b = START.astype(np.float64), np.zeros(START.shape)
    for rate in rates:
        g = gradient(p) + weight_decay * p
        b = momentum * b + g
        p = p - rate * (g + momentum * b if nesterov else b)
    return p


def adamw(
    rates: list[float],
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 1e-2,
) -> Array:
    p, m, v = START.astype(np.float64), np.zeros(START.shape), np.zeros(START.shape)
    for t, rate in enumerate(rates, 1):
        g = gradient(p)
        p = p - rate * weight_decay * p
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g * g
        p = p - rate * (m / (1 - betas[0] ** t)) / (np.sqrt(v / (1 - betas[1] ** t)) + eps)
    return p


def adam(rates: list[float], weight_decay: float = 0.0) -> Array:
    p, m, v = START.astype(np.float64), np.zeros(START.shape), np.zeros(START.shape)
    for t, rate in enumerate(rates, 1):
        g = gradient(p) + weight_decay * p
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        p = p - rate * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    return p


def lion(rates: list[float], betas: tuple[float, float] = (0.9, 0.99), weight_decay: float = 0.0) -> Array:
    p, m = START.astype(np.float64), np.zeros(START.shape)
    for rate in rates:
        g = gradient(p)
        p = p - rate * (np.sign(betas[0] * m + (1 - betas[0]) * g) + weight_decay * p)
        m = betas[1] * m + (1 - betas[1]) * g
    return p


def muon(
    rates: list[float], momentum: float = 0.95, nesterov: bool = True, weight_decay: float = 0.1
) -> Array:
    p, b = START.astype(np.float64), np.zeros(START.shape)
    for rate in rates:
        g = gradient(p)
        b = momentum * b + (1 - momentum) * g
        u = momentum * b + (1 - momentum) * g if nesterov else b
        left, values, right = np.linalg.svd(u / np.linalg.norm(u), full_matrices=False)
        for _ in range(5):  # the quintic acts on singular values
            values = 3.4445 * values - 4.7750 * values**3 + 2.0315 * values**5
        p = p - rate * weight_decay * p - rate * (left * values) @ right
    return p


CASES: list[tuple[type[Optimizer], Callable[..., Array], dict[str, Any]]] = [
    (SGD, sgd, {}),
    (SGD, sgd, {"weight_decay": 0.1}),
    (SGD, sgd, {"momentum": 0.9}),
    (SGD, sgd, {"momentum": 0.8, "nesterov": True, "weight_decay": 0.01}),
    (AdamW, adamw, {}),
    (AdamW, adamw, {"betas": (0.8, 0.95), "eps": 0.1, "weight_decay": 0.0}),
    (AdamW, adamw, {"betas": (0.0, 0.5), "weight_decay": 0.3}),
    (Adam, adam, {}),
    (Adam, adam, {"weight_decay": 0.2}),
    (Lion, lion, {}),
    (Lion, lion, {"betas": (0.8, 0.5), "weight_decay": 0.3}),
    (Muon, muon, {}),
    (Muon, muon, {"nesterov": False, "momentum": 0.5, "weight_decay": 0.0}),
]


def setup(
    kind: type[Optimizer], options: dict[str, Any]
) -> tuple[Tensor, Optimizer, Callable[[Tensor | float], Tensor]]:
    """A parameter, its optimizer, and a step."""
    p = Tensor(START, requires_grad=True)
    optimizer = kind([p], RATES[0], **options)
    target = Tensor(TARGET)

    def step(lr: Tensor | float) -> Tensor:
        distance = p - target
        loss = (distance * distance * distance * distance).sum() / 4
        loss.backward()
        optimizer.step(lr)
        optimizer.zero_grad()
        return loss

    return p, optimizer, step


@pytest.mark.parametrize("jitted", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize(("kind", "reference", "options"), CASES)
def test_several_steps(
    kind: type[Optimizer], reference: Callable[..., Array], options: dict[str, Any], jitted: bool
) -> None:
    p, optimizer, plain = setup(kind, options)
    step = jit(plain) if jitted else plain
    rates = [rate / 10 for rate in RATES] if kind is SGD else RATES
    for count, rate in enumerate(rates, 1):
        step(rate).item()
        optimizer.realize()
        np.testing.assert_allclose(p.numpy(), reference(rates[:count], **options), rtol=1e-5, atol=1e-6)
    if jitted:
        assert vars(step)["traces"] == 1  # one program, whatever the rate: a step is one call of it


@pytest.mark.parametrize(("kind", "options"), [(SGD, {"momentum": 0.9}), (AdamW, {}), (Lion, {}), (Muon, {})])
def test_a_state_goes_on_bit_for_bit(kind: type[Optimizer], options: dict[str, Any]) -> None:
    p, optimizer, step = setup(kind, options)
    q, resumed, other = setup(kind, options)
    go, go_on = jit(step), jit(other)
    for rate in RATES[:2]:
        go(rate / 10)
    q.assign(p.numpy())
    resumed.load_state_dict({name: t.numpy() for name, t in optimizer.state_dict().items()})
    for rate in RATES[2:]:
        assert go(rate / 10).item() == go_on(rate / 10).item()
    np.testing.assert_array_equal(p.numpy(), q.numpy())


def test_the_rate_of_the_optimizer_holds_where_none_is_given() -> None:
    p = Tensor(START, requires_grad=True)
    q = Tensor(START, requires_grad=True)
    optimizer = SGD([p, q], lr=0.25)
    (p * 2).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    np.testing.assert_array_equal(p.numpy(), START - 0.5)
    np.testing.assert_array_equal(q.numpy(), START)  # it has no gradient
    (p * 2).sum().backward()
    optimizer.step(Tensor(np.float32(1.0)))
    np.testing.assert_array_equal(p.numpy(), START - 2.5)


def test_the_names_of_a_state() -> None:
    p = Tensor(START, requires_grad=True)
    assert list(SGD([p]).state_dict()) == []
    assert list(SGD([p], momentum=0.5).state_dict()) == ["momentum_buffer.0"]
    adam = AdamW([p])
    names = ["exp_avg.0", "exp_avg_sq.0", "bias_correction.0", "bias_correction.1"]
    assert list(adam.state_dict()) == names
    with pytest.raises(ModelError, match="4 missing"):
        adam.load_state_dict({})


def test_a_tall_matrix_takes_greater_steps_of_muon() -> None:
    tall = np.random.default_rng(0).normal(size=(8, 2)).astype(np.float32)
    p = Tensor(np.zeros_like(tall), requires_grad=True)
    optimizer = Muon([p], 1.0, momentum=0.0, weight_decay=0.0)
    (p * Tensor(tall)).sum().backward()
    optimizer.step()
    left, values, right = np.linalg.svd(tall.astype(np.float64), full_matrices=False)
    values = values / np.linalg.norm(values)
    for _ in range(5):
        values = 3.4445 * values - 4.7750 * values**3 + 2.0315 * values**5
    np.testing.assert_allclose(p.numpy(), -2 * (left * values) @ right, rtol=1e-4, atol=1e-5)


def test_several_optimizers_are_one() -> None:
    matrix, vector = (Tensor(np.ones(shape, np.float32), requires_grad=True) for shape in ((2, 2), (2,)))
    both = CombinedOptimizer(Muon([matrix], 0.1, weight_decay=0.0), SGD([vector], 0.5, momentum=0.5))
    assert both.parameters == [matrix, vector]
    assert list(both.state_dict()) == ["0.momentum_buffer.0", "1.momentum_buffer.0"]
    alone = Tensor(np.ones((2, 2), np.float32), requires_grad=True)
    other = Muon([alone], 0.1, weight_decay=0.0)

    @jit
    def step(lr: float) -> None:
        (matrix.sum() * 2 + vector.sum() * 4 + alone.sum() * 2).backward()
        both.step(lr)
        other.step(lr)
        both.zero_grad()
        other.zero_grad()

    step(0.1)
    np.testing.assert_allclose(vector.numpy(), -1)  # 1 - 0.5 * 4
    step(0.05)
    np.testing.assert_allclose(vector.numpy(), -2.5)  # at half of its rate: -1 - 0.25 * (4 + 0.5 * 4)
    np.testing.assert_array_equal(matrix.numpy(), alone.numpy())


@pytest.mark.parametrize("make", [SGD, AdamW, Lion, Muon])
def test_a_jitted_step_is_the_same_bit_for_bit(make: Callable[..., Optimizer]) -> None:
    """Rates and decays whose products are no numbers of f32."""
    random = np.random.default_rng(0)
    start = random.normal(size=(7, 5)).astype(np.float32)
    ps = [Tensor(start, requires_grad=True) for _ in range(2)]
    optimizers = [make([p], weight_decay=0.3) for p in ps]

    def step(which: int, gradient: Tensor, lr: float) -> None:
        ps[which].grad = gradient
        optimizers[which].step(lr)
        optimizers[which].zero_grad()

    jitted = jit(step, static=["which"])
    for rate in (*RATES, 0.037, 0.0023, 0.00071):
        gradient = random.normal(size=(7, 5)).astype(np.float32)
        step(0, Tensor(gradient), rate * 1.7)
        optimizers[0].realize()
        jitted(1, Tensor(gradient), rate * 1.7)
        np.testing.assert_array_equal(ps[0].numpy(), ps[1].numpy())


def test_a_rate_that_is_set_between_jitted_steps() -> None:
    p = Tensor(np.zeros(2, np.float32), requires_grad=True)
    vector, matrix = (Tensor(np.zeros(shape, np.float32), requires_grad=True) for shape in (2, (1, 1)))
    one, both = SGD([p], lr=1.0), CombinedOptimizer(SGD([vector], lr=1.0), SGD([matrix], lr=0.5))

    @jit
    def step() -> None:
        (p.sum() + vector.sum() + matrix.sum()).backward()
        for optimizer in (one, both):
            optimizer.step()
            optimizer.zero_grad()

    step()
    one.lr = both.lr = 0.25
    step()
    assert [one.lr, both.lr, both.optimizers[1].lr] == [0.25, 0.25, 0.125]
    assert [p.tolist(), vector.tolist(), matrix.tolist()] == [[-1.25, -1.25], [-1.25, -1.25], [[-0.625]]]

    @jit
    def alone() -> None:
        p.sum().backward()
        one.step()
        one.zero_grad()

    for rate in (0.5, 0.125, 0.0625):
        one.lr = rate
        alone()
    assert alone.traces == 1
    assert p.tolist() == [-1.9375, -1.9375]


def test_rates_of_several_optimizers_that_are_set_between_jitted_steps() -> None:
    p, q = (Tensor([0.0], requires_grad=True) for _ in range(2))
    both = CombinedOptimizer(SGD([p], lr=1.0), SGD([q], lr=0.5))

    @jit
    def own() -> None:
        (p + q).sum().backward()
        both.step()
        both.zero_grad()

    @jit
    def given(lr: float) -> None:
        (p + q).sum().backward()
        both.step(lr)
        both.zero_grad()

    wanted = np.zeros(2)
    for rate, ratio in ((1.0, 0.5), (0.25, 0.5), (0.125, 0.25)):
        both.lr = rate
        both.optimizers[1].lr = rate * ratio
        own()
        given(2.0)
        wanted -= np.array([1, ratio]) * (rate + 2)
        assert [p.item(), q.item()] == wanted.tolist()
    assert own.traces == given.traces == 1


def test_what_an_optimizer_refuses() -> None:
    p = Tensor(START, requires_grad=True)
    wrong: list[tuple[Callable[[], object], str]] = [
        (lambda: SGD([]), "at least one parameter"),
        (lambda: SGD([Tensor(START)]), "does not require a gradient"),
        (lambda: SGD([p], lr=-1.0), "lr must be at least 0 and finite, not -1.0"),
        (lambda: SGD([p], momentum=1.0), r"momentum must be in \[0, 1\), not 1.0"),
        (lambda: SGD([p], nesterov=True), "nesterov needs a momentum"),
        (lambda: AdamW([p], betas=(0.9, 1.5)), r"betas\[1\] must be in \[0, 1\), not 1.5"),
        (lambda: AdamW([p], eps=0.0), "eps must be above 0"),
        (lambda: AdamW([p], lr=float("nan")), "lr must be at least 0 and finite, not nan"),
        (lambda: AdamW([p], lr=float("inf")), "lr must be at least 0 and finite, not inf"),
        (lambda: SGD(p), r"not Tensor \(give \[tensor\]\)"),
        (lambda: SGD(cast(Any, Linear(2, 2))), r"not Linear \(give model.parameters\(\)\)"),
        (lambda: SGD(cast(Any, {"p": p})), r"not dict \(give the values of the dict\)"),
        (lambda: SGD(cast(Any, [START])), "must be a Tensor, not ndarray"),
        (lambda: SGD([p, p]), "one parameter twice"),
        (lambda: Adam([p], weight_decay=-1.0), "weight_decay must be at least 0, not -1.0"),
        (lambda: Lion([p], betas=(1.0, 0.5)), r"betas\[0\] must be in \[0, 1\), not 1.0"),
        (lambda: Muon([p], iterations=0), "iterations must be at least 1, not 0"),
        (lambda: Muon([Tensor(START[0], requires_grad=True)]), r"Muon is for matrices.*\(3,\).*AdamW"),
        (lambda: CombinedOptimizer(SGD([p]), SGD([p])), "one parameter twice"),
        (lambda: CombinedOptimizer(SGD([p], lr=0.0)), "rate above 0"),
        (lambda: CombinedOptimizer(), "at least one optimizer"),
        (lambda: SGD([p], lr=cast(Any, "fast")), "lr must be at least 0 and finite, not 'fast'"),
        (lambda: setattr(SGD([p]), "lr", -1.0), "lr must be at least 0 and finite, not -1.0"),
        (lambda: Adam([p], betas=cast(Any, 0.9)), "betas must be two numbers, not 0.9"),
        (lambda: AdamW([p]).step(), "no parameter has a gradient"),
    ]
    for make, message in wrong:
        with pytest.raises(OptimizerError, match=message):
            make()
