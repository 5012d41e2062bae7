"""Convolutions and their gradients, beside PyTorch where it is installed. Week 5.

All run on one thread and take turns, round by round; times are CPU time.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"

import argparse
import gc
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from uop_tensor import Tensor, jit

try:
    import torch
except ImportError:
    torch = None

Run = Callable[[], object]


class Case(NamedTuple):
    """Images (batch, channels, side, side), and so many square filters."""

    batch: int
    channels: int
    outputs: int
    side: int
    size: int
    padding: int = 0
    stride: int = 1
    groups: int = 1


CASES = (
    Case(8, 16, 16, 28, 3, 1),
    Case(8, 16, 32, 28, 3, 1, 2),
    Case(8, 1, 8, 28, 5),
    Case(4, 64, 64, 14, 3, 1),
    Case(8, 16, 16, 28, 1),
    Case(4, 32, 32, 28, 3, 1, 1, 32),
)


def ours(case: Case, x: Any, w: Any, g: Any) -> dict[str, Run]:
    """What is timed: the convolution, each of its gradients, and all three."""

    def conv(x: Tensor, w: Tensor) -> Tensor:
        return x.conv2d(w, None, case.stride, case.padding, 1, case.groups)

    def both(x: Tensor, w: Tensor, g: Tensor) -> tuple[Tensor, ...]:
        value = conv(x, w)
        return (value, *value.gradient(x, w, seed=g))

    given = [Tensor(a).realize() for a in (x, w, g)]
    steps: dict[str, Callable[..., Any]] = {
        "forward": jit(lambda x, w, g: conv(x, w)),
        "to x": jit(lambda x, w, g: conv(x, w).gradient(x, seed=g)[0]),
        "to w": jit(lambda x, w, g: conv(x, w).gradient(w, seed=g)[0]),
        "all": jit(both),
    }
    return {name: partial(step, *given) for name, step in steps.items()}


def theirs(case: Case, x: Any, w: Any, g: Any) -> dict[str, Run]:
    """The same of PyTorch."""
    torch.set_num_threads(1)
    options = {"stride": case.stride, "padding": case.padding, "groups": case.groups}
    a, b, seed = (torch.tensor(array) for array in (x, w, g))
    c, d = (torch.tensor(array, requires_grad=True) for array in (x, w))
    conv, grad = torch.nn.functional.conv2d, torch.nn.grad
    return {
        "forward": lambda: conv(a, b, **options),
        "to x": lambda: grad.conv2d_input(a.shape, b, seed, **options),
        "to w": lambda: grad.conv2d_weight(a, b.shape, seed, **options),
        "all": lambda: torch.autograd.grad(conv(c, d, **options), (c, d), seed),
    }


def measure(sides: list[Run], rounds: int) -> list[float]:
    """The median time of each side in milliseconds."""
    for run in sides * 2:
        run()
    times: list[list[float]] = [[] for _ in sides]
    gc.disable()
    for _ in range(rounds):
        for run, found in zip(sides, times, strict=True):
            begin = time.process_time()
            run()
            found.append((time.process_time() - begin) * 1e3)
    gc.enable()
    return [statistics.median(found) for found in times]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    print(f"{'case':<48}{'what':<9}{'ours, ms':>9}{'theirs':>9}{'ratio':>7}{'GFLOP/s':>9}")
    random = np.random.default_rng(0)
    for case in CASES:
        places = (case.side + 2 * case.padding - case.size) // case.stride + 1
        depth = case.channels // case.groups
        shapes = (
            (case.batch, case.channels, case.side, case.side),
            (case.outputs, depth, case.size, case.size),
            (case.batch, case.outputs, places, places),
        )
        arrays = [random.standard_normal(s, dtype=np.float32) for s in shapes]
        work = 2e-6 * arrays[2].size * depth * case.size**2
        sides = ours(case, *arrays), theirs(case, *arrays) if torch else {}
        image = f"{case.batch}x{case.channels}x{case.side}x{case.side}"
        name = f"{image}, {case.outputs} of {case.size}x{case.size}"
        more = {"padding": case.padding, "stride": case.stride, "groups": case.groups}
        name += "".join(f", {k} {v}" for k, v in more.items() if v != Case._field_defaults[k])
        for what in sides[0]:
            found = measure([side[what] for side in sides if side], rounds)
            peer = f"{found[1]:9.2f}{found[0] / found[1]:7.2f}" if torch else f"{'-':>9}{'-':>7}"
            speed = work * (3 if what == "all" else 1) / found[0]
            print(f"{name:<48}{what:<9}{found[0]:9.2f}{peer}{speed:9.1f}", flush=True)


if __name__ == "__main__":
    main()
