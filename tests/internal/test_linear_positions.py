"""What is made of masks over positions is linear in generated code:
gather, scatter, assignments, their gradients, sorting.

The loops of each kernel are counted: one over all pairs of positions and places would show at once.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import pytest

from uop_codegen_c import Freedoms, generate, linearize, stages
from uop_ir import Limits, Ops, UOp
from uop_tensor import Tensor
from uop_tensor.plan import Want, make_plan
from uop_tensor.program import canonical

N = 3000
STRICT = Freedoms(optimize=False, contract=False, reassociate=False)


def bodies(*values: Tensor) -> list[UOp]:
    """The kernels that compute values, in order."""
    roots, buffers = canonical([v.uop for v in values], ())
    return [
        c.src[0]
        for c in make_plan(UOp.sink(*roots), len(buffers), (Want(),) * len(values), Limits()).plan.calls
    ]


def iterations(body: UOp) -> int:
    """How often the innermost loops of a kernel run, all together."""
    *_, (_, root) = stages(body, STRICT)
    opened: list[int] = []
    total = 0
    for node in linearize(root):
        if node.op is Ops.RANGE:
            opened.append(int(node.src[0].value))
        elif node.op is Ops.END:
            total += prod(opened)
            del opened[len(opened) - len(node.src) + 1 :]
    return total


def new(*shape: int, dtype: Any = np.float32) -> Tensor:
    return Tensor(np.zeros(shape, dtype))


def x() -> Tensor:
    return new(N)


def at() -> Tensor:
    return new(N, dtype=np.int64)


def written(y: Tensor, items: Any, value: Any) -> Tensor:
    y[items] = value
    return y


def slope(function: Callable[..., Tensor], *given: Tensor) -> tuple[Tensor, ...]:
    return function(*given).gradient(*given, seed=new(*function(*given).shape))


#: Kernels (positions from the end are counted from the front in one of their own),
#: and iterations for each of N elements.
CASES: dict[str, tuple[Callable[[], Tensor | tuple[Tensor, ...]], int, int]] = {
    "positions": (lambda: x()[at()], 1, 1),
    "two tensors": (lambda: new(N, 3)[at(), at()], 1, 1),
    "gather": (lambda: new(3, N).gather(1, new(3, N, dtype=np.int64)), 1, 3),
    "assignment to a part": (lambda: written(x(), slice(1, None, 2), 1.0), 1, 1),
    "assignment to a mask": (lambda: written(x(), new(N, dtype=bool), 1.0), 1, 1),
    "assignment to positions": (lambda: written(x(), at(), x()), 3, 4),
    "scatter": (lambda: x().scatter(0, at(), x()), 3, 4),
    "scatter of a mean": (lambda: x().scatter_reduce(0, at(), x(), "mean"), 5, 7),
    "scatter of a maximum": (lambda: x().scatter_reduce(0, at(), x(), "amax", include_self=False), 4, 6),
    "gradient of positions": (lambda: slope(lambda x: x[at()], x()), 2, 3),
    "gradient of scatter": (lambda: slope(lambda x, y: x.scatter(0, at(), y), x(), x()), 4, 6),
    "gradient of a maximum": (
        lambda: slope(lambda x, y: x.scatter_reduce(0, at(), y, "amax"), x(), x()),
        7,
        9,
    ),
    "searchsorted": (lambda: x().searchsorted(x()), 1, 1),
    "one_hot": (lambda: at().one_hot(3), 1, 3),
    "diagonal": (lambda: new(N, N).diagonal(), 1, 1),
    "few to sort": (lambda: new(N, 10).argsort(), 3, 230),
}


@pytest.mark.parametrize("name", CASES)
def test_kernels_and_loops(name: str) -> None:
    make, kernels, rounds = CASES[name]
    made = make()
    found = bodies(*(made if isinstance(made, tuple) else (made,)))
    assert len(found) == kernels
    assert sum(map(iterations, found)) / N == pytest.approx(rounds, rel=0.01)


def test_sorting_runs_few_kernels_again_and_again() -> None:
    found = bodies(new(1000).argsort())
    assert len(found) == 10 * 11 // 2 + 1
    assert len(set(found)) == 2 * 10
    assert sum(map(iterations, set(found))) <= len(set(found)) * 1024


def test_positions_of_64_bits_beside_running_sums_fit_64_bits() -> None:
    """They are brought next to the axis before anything is reckoned with them."""
    for body in bodies(new(6, 4).cumsum(0)[new(3, dtype=np.int64)]):
        generate(body)
    positions = np.array([0, 5, -1, -6, 6, -7, 2**62, -(2**62)])
    found = Tensor(np.arange(1.0, 7.0)).cumsum(0)[Tensor(positions)]
    assert found.tolist() == [1.0, 21.0, 21.0, 1.0, 0.0, 0.0, 0.0, 0.0]
