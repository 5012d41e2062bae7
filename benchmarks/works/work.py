"""A work that several libraries do, and how each is called."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from uop_tensor import Tensor, jit

try:
    import torch
except ImportError:
    torch = None

__all__ = ["Run", "Work", "arrays", "on_arrays", "torch"]

Run = Callable[[], object]


@dataclass(frozen=True)
class Work:
    """What is timed: for each side, what makes its run;
    and what the definition multiplies, adds, reads and writes.
    """

    name: str
    sides: Mapping[str, Callable[[], Run]]
    operations: float = 0.0
    bytes: float = 0.0


def arrays(*shapes: tuple[int, ...]) -> list[Any]:
    """Normal numbers in f32, the same for each side."""
    random = np.random.default_rng(0)
    return [random.standard_normal(shape, dtype=np.float32) for shape in shapes]


def on_arrays(
    given: Callable[[], list[Any]],
    ours: Callable[..., Any],
    torch_: Callable[..., Any] | None = None,
    numpy: Callable[..., Any] | None = None,
    out: Callable[..., Any] | None = None,
) -> dict[str, Callable[[], Run]]:
    """The sides of a function of arrays: ours is jitted, PyTorch's is run eagerly, once with fresh results
    and, where it is given, once by `out`, which takes the memory of the result as its last argument.
    """

    def our_run() -> Run:
        step, tensors = jit(ours), [Tensor(a).realize() for a in given()]
        return lambda: step(*tensors)

    def torch_run(function: Callable[..., Any], result: bool) -> Run:
        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
        tensors = [torch.from_numpy(a) for a in given()]
        if result:
            assert torch_ is not None
            tensors.append(torch_(*tensors))
        return lambda: function(*tensors)

    def numpy_run() -> Run:
        assert numpy is not None
        values = given()
        return lambda: numpy(*values)

    sides: dict[str, Callable[[], Run]] = {"ours": our_run}
    if torch_ is not None and torch is not None:
        sides["torch"] = lambda: torch_run(torch_, False)
        if out is not None:
            sides["torch, out="] = lambda: torch_run(out, True)
    if numpy is not None:
        sides["numpy"] = numpy_run
    return sides
