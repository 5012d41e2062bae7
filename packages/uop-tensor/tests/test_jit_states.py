"""Random programs of jitted functions, assignments,
views and results that are kept, beside the same in NumPy.
"""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from uop_tensor import Tensor, jit

Array = npt.NDArray[Any]
NAMES = "abc"


class World:
    """Tensors under three names, jitted functions that read and assign them, and what NumPy says they are."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311  # no secret
        self.shape = self.random.choice([(4,), (2, 3), (1,), (2, 1, 2)])
        self.wanted: dict[str, Array] = {name: self.numbers() for name in NAMES}
        self.box = {name: Tensor(array) for name, array in self.wanted.items()}
        self.kept: list[tuple[Tensor, Array]] = []
        self.exported: list[tuple[Array, Array]] = []
        box = self.box

        @jit
        def add(x: Tensor) -> None:
            box["a"].assign(box["a"] * 0.5 + x)

        @jit
        def swap() -> Tensor:
            box["a"].assign(box["b"] + 0)
            box["b"].assign(box["a"] * 0.5 - box["c"])
            return box["b"]

        @jit
        def results(x: Tensor, n: float) -> tuple[Tensor, Tensor]:
            return x * n, box["c"] + x

        @jit
        def change(x: Tensor, y: Tensor) -> Tensor:
            x.assign(x + y)
            return x * 2

        self.add, self.swap, self.results, self.change = add, swap, results, change
        self.steps: list[Callable[[], None]] = [
            self.call_add,
            self.call_swap,
            self.call_results,
            self.call_change,
            self.assign,
            self.rebind,
            self.keep_lazy,
            self.keep_view,
            self.export,
            self.drop,
            self.realize,
        ]

    def numbers(self) -> Array:
        return np.array(self.random.choices(range(-4, 5), k=int(np.prod(self.shape))), np.float32).reshape(
            self.shape
        )

    def some(self) -> tuple[Tensor, Array]:
        """A tensor, and what it is: a state, a view of one, what was kept, something lazy, or a new one."""
        name, new = self.random.choice(NAMES), self.numbers()
        state, wanted = self.box[name], self.wanted[name]
        found = [(state, wanted), (state.reshape(-1).reshape(*self.shape), wanted), (Tensor(new), new)]
        found += [(x, y) for t, w in self.kept for x, y in ((t, w), (t + 1, w + 1))]
        return self.random.choice(found)

    def call_add(self) -> None:
        x, wanted = self.some()
        self.add(x)
        self.wanted["a"] = self.wanted["a"] * np.float32(0.5) + wanted

    def call_swap(self) -> None:
        assert self.swap() is self.box["b"]
        self.wanted["a"] = self.wanted["b"]
        self.wanted["b"] = self.wanted["a"] * np.float32(0.5) - self.wanted["c"]

    def call_results(self) -> None:
        (x, wanted), n = self.some(), float(self.random.randrange(-3, 4))
        product, total = self.results(x, n)
        self.kept += self.random.choice(
            [[], [(product, wanted * np.float32(n)), (total, self.wanted["c"] + wanted)]]
        )

    def call_change(self) -> None:
        (y, wanted), old = self.some(), self.numbers()
        x = Tensor(old)
        double = self.change(x, y)
        self.kept += [(x, old + wanted), (double, (old + wanted) * 2)]

    def assign(self) -> None:
        name, (x, wanted) = self.random.choice(NAMES), self.some()
        self.box[name].assign(x)
        self.wanted[name] = wanted

    def rebind(self) -> None:
        name, (x, wanted) = self.random.choice(NAMES), self.some()
        self.box[name] = x + 0
        self.wanted[name] = wanted

    def keep_lazy(self) -> None:
        name = self.random.choice(NAMES)
        self.kept.append((self.box[name] * 2 - 1, self.wanted[name] * 2 - 1))

    def keep_view(self) -> None:
        name = self.random.choice(NAMES)
        self.kept.append((self.box[name].reshape(-1).reshape(*self.shape), self.wanted[name]))

    def export(self) -> None:
        name = self.random.choice(NAMES)
        self.exported.append((np.asarray(self.box[name]), self.wanted[name]))

    def drop(self) -> None:
        del self.kept[:-4], self.exported[:-2]

    def realize(self) -> None:
        self.box[self.random.choice(NAMES)].realize()

    def check(self) -> None:
        found = [*((self.box[name], self.wanted[name]) for name in NAMES), *self.kept]
        for array, wanted in [*((t.numpy(), w) for t, w in found), *self.exported]:
            np.testing.assert_array_equal(array, wanted)


@pytest.mark.net
@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed: int) -> None:
    world = World(seed)
    for _ in range(40):
        world.random.choice(world.steps)()
        if world.random.random() < 0.3:
            world.check()
    world.check()


def test_an_argument_that_is_a_state_under_another_name() -> None:
    first, second = Tensor([1.0]), Tensor([10.0])
    states = [first, second]

    def f(x: Tensor) -> Any:
        before = x * 1
        first.assign(first + 1)
        return before, x * 1, x

    jitted = jit(f)
    for given in (Tensor([5.0]), first, Tensor([6.0]), first, second, first):
        before = given.item()
        old, new, same = jitted(given)
        assert [old.item(), new.item()] == [before, before + (given is first)]
        assert same is given
    assert [jitted.traces, *(s.item() for s in states)] == [2, 7, 10]

    @jit
    def through(x: Tensor) -> Tensor:
        x.assign(x * 2)
        return second + 0

    assert [through(Tensor([1.0])).item(), through(second).item(), through(second).item()] == [10, 20, 40]
