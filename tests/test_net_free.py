"""Random programs with the freedoms of arithmetic on,
against float64 NumPy, within a bound that is reckoned beside it.

Contraction and reassociation change how a sum is rounded. Beside each float64 value stands a bound of the
distance that any order of f32 operations can have from it, by running error analysis (Higham, Accuracy and
Stability of Numerical Algorithms, chapter 3): each step adds what it makes of the errors of its operands, and
half a unit in the last place for each rounding of its own.
No step compares or truncates, so that a small error stays small.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from hypothesis import given, note
from hypothesis import strategies as st

from uop_tensor import Tensor

Array: TypeAlias = "npt.NDArray[np.float64]"
#: Half a unit in the last place of 1, and the least positive number, of f32.
UNIT, TINY = 2.0**-24, 2.0**-149
SIZES = (1, 2, 3, 5, 8, 17, 33, 64)
LARGEST = 4096


@dataclass
class Near:
    """Exact values, and how far from each an f32 result may be."""

    value: Array
    error: Array

    @property
    def most(self) -> Array:
        """How large the f32 result may be."""
        return np.abs(self.value) + self.error


def rounded(value: Array, error: Array, roundings: float = 1.0) -> Near:
    """A value whose last operations round so often, relative to its own size."""
    slack = roundings * UNIT / (1 - roundings * UNIT)
    return Near(value, error + slack * (np.abs(value) + error) + roundings * TINY)


def added(x: Near, y: Near) -> Near:
    return rounded(x.value + y.value, x.error + y.error)


def product(x: Near, y: Near, roundings: float = 1.0) -> Near:
    error = np.abs(x.value) * y.error + x.error * y.most
    return rounded(x.value * y.value, error, roundings)


def negated(x: Near) -> Near:
    return Near(-x.value, x.error)


def smooth(function: Callable[[Array], Array], slope: float, roundings: float) -> Callable[[Near], Near]:
    """A function with values below 2 and a slope that is nowhere steeper,
    computed with some roundings of 2.
    """

    def step(x: Near) -> Near:
        value = function(x.value)
        return Near(value, slope * x.error + roundings * UNIT * 2)

    return step


def total(x: Near, axis: int, extra: float = 0.0) -> Near:
    """A sum in any order: each addend goes through at most as many roundings as there are addends."""
    roundings = x.value.shape[axis] + extra
    slack = roundings * UNIT / (1 - roundings * UNIT)
    return Near(
        x.value.sum(axis),
        x.error.sum(axis) + slack * x.most.sum(axis) + roundings * TINY * x.value.shape[axis],
    )


def mean(x: Near, axis: int) -> Near:
    n = x.value.shape[axis]
    summed = total(x, axis)
    return rounded(summed.value / n, summed.error / n, 2)


def matmul(x: Near, y: Near) -> Near:
    """x (..., k) and y (k, m): each product is rounded at most once, and then summed."""
    one = Near(x.value[..., :, None], x.error[..., :, None])
    return total(product(one, y), -2)


def softmax(x: Near) -> Near:
    """A relative error of exp(2 d) - 1, where no score is further than d from its own."""
    lowered = x.value - x.value.max(-1, keepdims=True)
    powers = np.exp(lowered)
    value = powers / powers.sum(-1, keepdims=True)
    n = x.value.shape[-1]
    distance = x.error.max(-1, keepdims=True) + UNIT * (
        2 * (np.abs(lowered) + x.error).max(-1, keepdims=True) + 8
    )
    return Near(value, value * np.expm1(2 * distance + 2 * (n + 4) * UNIT) + TINY)


def layernorm(x: Near) -> Near:
    """d / sqrt(mean(d * d) + eps): what moves d by at most s moves the root by at most s too."""
    n = x.value.shape[-1]
    d = x.value - x.value.mean(-1, keepdims=True)
    root = np.sqrt((d * d).mean(-1, keepdims=True) + 1e-5)
    moved = 2 * x.error.max(-1, keepdims=True) + (n + 4) * UNIT * x.most.max(-1, keepdims=True)
    share = moved / root
    value = d / root
    error = (share * (1 + np.abs(value)) + (n + 12) * UNIT * np.abs(value)) / np.maximum(1 - share, 1e-3)
    return Near(value, np.where(share < 0.5, error, np.inf))


def moved(move: Callable[[Any], Any]) -> Callable[[Near], Near]:
    """The same elements elsewhere."""
    return lambda x: Near(move(x.value), move(x.error))


Row: TypeAlias = "tuple[Callable[..., Tensor], Callable[..., Near]]"
BINARY: dict[str, Row] = {
    "+": (lambda x, y: x + y, added),
    "-": (lambda x, y: x - y, lambda x, y: added(x, negated(y))),
    "*": (lambda x, y: x * y, product),
    "x*y+x": (lambda x, y: x * y + x, lambda x, y: added(product(x, y), x)),
    "maximum": (
        lambda x, y: x.maximum(y),
        lambda x, y: Near(np.maximum(x.value, y.value), np.maximum(x.error, y.error)),
    ),
}
UNARY: dict[str, Row] = {
    "neg": (lambda x: -x, negated),
    "abs": (lambda x: x.abs(), lambda x: Near(np.abs(x.value), x.error)),
    "relu": (lambda x: x.relu(), lambda x: Near(np.maximum(x.value, 0), x.error)),
    "square": (lambda x: x.square(), lambda x: product(x, x)),
    "tanh": (lambda x: x.tanh(), smooth(np.tanh, 1.0, 8)),
    "sigmoid": (lambda x: x.sigmoid(), smooth(lambda v: 0.5 + 0.5 * np.tanh(v / 2), 0.25, 8)),
    "softmax": (lambda x: x.softmax(), softmax),
    "layernorm": (lambda x: x.layernorm(), layernorm),
    "flip": (lambda x: x.flip(), moved(np.flip)),
    "T": (lambda x: x.T, moved(np.transpose)),
    "[::-2]": (lambda x: x[::-2], moved(lambda a: a[::-2])),
    "sum": (lambda x: x.sum(0), lambda x: total(x, 0)),
    "sum of last": (lambda x: x.sum(-1, keepdim=True), lambda x: kept(total(x, -1))),
    "mean": (lambda x: x.mean(-1), lambda x: mean(x, -1)),
}


def kept(x: Near) -> Near:
    return Near(x.value[..., None], x.error[..., None])


class Pair:
    """One program as tensors on the CPU and as float64 with bounds; it grows from its earlier values."""

    def __init__(self, random: Random, seed: int) -> None:
        self.random, self.rng = random, np.random.default_rng(seed)
        self.text: list[str] = []
        self.values: list[tuple[Tensor, Near]] = []

    def enter(self, *shape: int) -> int:
        array = self.rng.standard_normal(shape).astype(np.float32)
        wide = array.astype(np.float64)
        return self.keep(f"input {shape}", Tensor(array), Near(wide, np.zeros_like(wide)))

    def keep(self, text: str, tensor: Tensor, near: Near) -> int:
        self.text.append(f"%{len(self.values)} = {text}")
        self.values.append((tensor, near))
        return len(self.values) - 1

    def step(self) -> None:
        n = self.random.randrange(len(self.values))
        tensor, near = self.values[n]
        kind = self.random.randint(0, 4)
        if kind == 0 and tensor.ndim:
            weight = self.enter(tensor.shape[-1], self.random.choice(SIZES))
            w, exact = self.values[weight]
            if near.value.size * w.shape[1] <= LARGEST * 16:
                self.keep(f"%{n} @ %{weight}", tensor @ w, matmul(near, exact))
        elif kind in (1, 2):
            fit = [m for m, (t, _) in enumerate(self.values) if broadcasts(t.shape, tensor.shape)]
            m = self.random.choice(fit)
            name = self.random.choice(list(BINARY))
            apply, reckon = BINARY[name]
            if np.broadcast(near.value, self.values[m][1].value).size <= LARGEST:
                other, exact = self.values[m]
                self.keep(f"%{n} {name} %{m}", apply(tensor, other), reckon(near, exact))
        elif tensor.ndim:
            name = self.random.choice(list(UNARY))
            apply, reckon = UNARY[name]
            self.keep(f"{name} %{n}", apply(tensor), reckon(near))


def broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return all(x == y or 1 in (x, y) for x, y in zip(reversed(a), reversed(b), strict=False))


@given(random=st.randoms(use_true_random=False), seed=st.integers(0, 1 << 16))
def test_random_programs_are_within_their_bound(random: Random, seed: int) -> None:
    pair = Pair(random, seed)
    pair.enter(*(random.choice(SIZES) for _ in range(random.randint(1, 3))))
    for _ in range(random.randint(1, 8)):
        pair.step()
    note("\n".join(pair.text))
    wanted = [pair.values[-1], random.choice(pair.values)]
    wanted[0][0].realize(wanted[1][0])
    for tensor, near in wanted:
        got = tensor.numpy()
        assert got.shape == near.value.shape
        assert np.isfinite(got).all() or not np.isfinite(near.most).all()
        with np.errstate(invalid="ignore"):
            over = np.abs(got - near.value) > near.error
        assert not over.any(), (got[over][0], near.value[over][0], near.error[over][0])


def test_the_bound_is_not_so_wide_that_anything_passes() -> None:
    """A wrong term in a sum of 64, and the scale of a softmax, are seen."""
    rng = np.random.default_rng(0)
    array = rng.standard_normal((8, 64))
    exact = Near(array, np.zeros_like(array))
    assert (total(exact, -1).error < np.abs(array).min()).all()
    assert (matmul(exact, Near(array.T, exact.error.T)).error < 1e-3).all()
    assert (softmax(exact).error < 1e-4 * softmax(exact).value).all()
    assert (layernorm(exact).error < 1e-4).all()
