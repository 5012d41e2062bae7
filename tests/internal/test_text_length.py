"""The C of a function of elements is at most 20 KB,
and that of its gradient: in each float type, of few axes or many.

Where it is more, docs/limits.md says so.
"""

from __future__ import annotations

import inspect
import runpy
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from uop_codegen_c import Freedoms, Machine, generate
from uop_ir import DType, UOp, dtypes
from uop_tensor import Tensor, TensorError

plan_bodies: Callable[[Callable[[], Any]], list[UOp]]
plan_bodies = runpy.run_path(str(Path(__file__).with_name("plan_bodies.py")))["plan_bodies"]
MOST = 20_000
#: What has more, of which the most.
LONGER = {("tan", dtypes.f64): 23_000}
#: 32 bytes a vector, 16 registers, 2 threads.
MACHINE = Machine(32, 16, 2)
FLOATS = (dtypes.f32, dtypes.f64, dtypes.f16, dtypes.bf16)
#: More axes make longer lines, a long one vectors.
SHAPES = ((1,), (1000,), (3, 5, 7))
#: Functions with long definitions, and the longest of the others.
LONG = ("tan", "erfinv", "lgamma", "digamma", "cos", "sin", "softmax", "logaddexp")


def operands(name: str) -> int | None:
    """How many more tensors of floats a method takes to give a tensor of their shape;
    None where it gives none.
    """
    if name.startswith("_") or not inspect.isfunction(inspect.getattr_static(Tensor, name)):
        return None
    x = Tensor.full((2, 3), 0.5)
    for count in range(3):
        try:
            y = getattr(x, name)(*[x] * count)
        except Exception:  # noqa: BLE001, S112  of whatever kind: it takes others
            continue
        if isinstance(y, Tensor) and y.shape == x.shape:
            return count
    return None


def lengths(name: str, count: int, dtype: DType, shape: tuple[int, ...]) -> Iterator[int]:
    """The characters of each kernel of a function and of its gradient."""
    inputs = [Tensor(np.full(shape, 0.5, dtype.numpy)) for _ in range(count + 1)]
    y = getattr(inputs[0], name)(*inputs[1:])
    values = [y]
    with suppress(TensorError):  # it has no gradient
        values += y.gradient(*inputs, seed=y.ones_like())
    first, *rest = values
    for body in [*plan_bodies(y.realize), *plan_bodies(lambda: first.realize(*rest))]:
        source = generate(body, Freedoms(), MACHINE)
        yield len(source.preamble) + len(source.text)


def too_long(name: str, dtype: DType, shape: tuple[int, ...]) -> bool:
    count = operands(name)
    assert count is not None
    return max(lengths(name, count, dtype, shape), default=0) > LONGER.get((name, dtype), MOST)


@pytest.mark.parametrize("name", LONG)
def test_long_functions_are_short(name: str) -> None:
    assert not too_long(name, dtypes.f64, SHAPES[-1])


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_functions_are_short(dtype: DType, shape: tuple[int, ...]) -> None:
    names = [name for name in dir(Tensor) if operands(name) is not None]
    assert len(names) > 100
    assert [name for name in names if fits(name, shape) and too_long(name, dtype, shape)] == []


def fits(name: str, shape: tuple[int, ...]) -> bool:
    """Whether a function takes a tensor of few axes, too."""
    try:
        getattr(Tensor.full(shape, 0.5), name)(*[Tensor.full(shape, 0.5)] * (operands(name) or 0))
    except TensorError:
        return False
    return True
