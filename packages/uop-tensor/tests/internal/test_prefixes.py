"""Which running folds are kernels of their own: those that a code generator can then carry along. Week 5."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from uop_ir import Limits, UOp
from uop_tensor import Tensor
from uop_tensor.plan import Want, make_plan
from uop_tensor.prefixes import folds_prefix
from uop_tensor.program import canonical


def new(*shape: int) -> Tensor:
    return Tensor(np.zeros(shape, np.float32))


def folds(value: Tensor) -> int:
    (root,), _ = canonical([value.uop])
    return sum(map(folds_prefix, root.toposort()))


def kernels(value: Tensor) -> int:
    roots, buffers = canonical([value.uop])
    return len(make_plan(UOp.sink(*roots), len(buffers), (Want(),), Limits()).plan.calls)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_running_fold_is_stored(axis: int) -> None:
    shape = (50, 60, 70)
    for value in (new(*shape).cumsum(axis), new(*shape).cumprod(axis), new(*shape).half().cumsum(axis)):
        assert folds(value) == 1
    assert kernels(new(*shape).cumsum(axis).exp().sum()) == 2
    x = new(*shape)
    assert folds(x.exp().cumsum(axis).exp().gradient(x, seed=new(*shape))[0]) == 2


NOT: dict[str, Callable[[], Tensor]] = {
    "short": lambda: new(20, 8).cumsum(1),
    "sum of a triangle": lambda: new(100, 100).tril().sum(1),
    "sum of a row and a mask": lambda: (new(100, 100).tril() + new(100)).sum(1),
    "one number for all": lambda: (Tensor.arange(100) < 50).where(new(100), 0).sum(),
    "product with a triangle": lambda: new(100, 100).tril() @ new(100, 100),
    "chosen by memory": lambda: (new(100) < Tensor.arange(100).reshape(100, 1)).where(new(100), 0).sum(1),
}


@pytest.mark.parametrize("name", NOT)
def test_other_folds_are_not(name: str) -> None:
    assert folds(NOT[name]()) == 0
