"""What a call of a jitted function costs beside its kernels: ours and tinygrad's TinyJit, in turns. Week 5.

Kernels of 8 elements, so that nearly nothing else is timed. tinygrad needs clang to run kernels on a CPU;
without it, its device NULL stands in, which launches nothing: what is then compared is the way to the launch.
"""

from __future__ import annotations

import argparse
import gc
import os
import shutil
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from uop_ir import override, settings
from uop_tensor import Tensor, jit

os.environ["DEV"] = "CPU" if shutil.which("clang") else "NULL"  # ours has read it

from tinygrad import Tensor as Theirs  # it reads DEV
from tinygrad import TinyJit

CALLS = 100
Run = Callable[[], object]


def data(count: int) -> list[Any]:
    return [np.full(8, float(i), np.float32) for i in range(count)]


def add_one(tensors: Sequence[Any]) -> list[Any]:
    return [x + 1 for x in tensors]


def ours(count: int) -> Run:
    """So many tensors in and out."""
    step = jit(lambda *tensors: add_one(tensors))
    given = [Tensor(x).realize() for x in data(count)]
    return lambda: step(*given)


def theirs(count: int) -> Run:
    step = TinyJit(lambda *tensors: [y.realize() for y in add_one(tensors)])
    given = [Theirs(x).realize() for x in data(count)]
    return lambda: step(*given)


def our_state(count: int) -> Run:
    """So many tensors around the function, updated in place."""
    states = [Tensor(x).realize() for x in data(count)]

    @jit
    def step() -> None:
        for s in states:
            s.assign(s + 1)

    return step


def their_state(count: int) -> Run:
    states = [Theirs(x).realize() for x in data(count)]

    def step() -> None:
        for s in states:
            s.assign(s + 1)
        Theirs.realize(*states)

    jitted: Run = TinyJit(step)
    return jitted


def our_number() -> Run:
    """A tensor and a number, another one at each call."""
    step = jit(lambda x, n: x * n)
    x, n = Tensor(data(1)[0]).realize(), iter(range(1 << 40))
    return lambda: step(x, float(next(n)))


def our_kept() -> Run:
    """Results that are all kept: each takes memory of its own."""
    step = jit(lambda x: x + 1)
    x, kept = Tensor(data(1)[0]).realize(), []

    def run() -> None:
        kept.append(step(x))
        if len(kept) == 1000:
            kept.clear()

    return run


def our_least() -> Run:
    """A function that finds nothing around it, on one tensor."""
    step, x = jit(lambda x: x + 1), Tensor(data(1)[0]).realize()
    return lambda: step(x)


def our_floor() -> Run:
    """What of a replay is the backend's: the call of C, with the memory that it is to use."""
    step = jit(lambda x: x + 1)
    x = Tensor(data(1)[0]).realize()
    tensors = x, step(x)
    memory = [tensor.uop.memo["memory"].handle for tensor in tensors]
    (replay,) = step.captures.values()
    assert replay.program is not None
    executable = replay.program.executable

    def run(tensors: object = tensors) -> None:  # which keep the memory
        executable(memory, ())

    return run


def rows() -> dict[str, tuple[Run, Run | None]]:
    return {
        "the call of C alone": (our_floor(), None),
        "x + 1": (our_least(), None),
        "1 tensor in, 1 out": (ours(1), theirs(1)),
        "10 tensors in, 10 out": (ours(10), theirs(10)),
        "1 state": (our_state(1), their_state(1)),
        "10 states": (our_state(10), their_state(10)),
        "a tensor and a number": (our_number(), None),
        "1 out, all kept": (our_kept(), None),
    }


def microseconds(run: Run) -> float:
    """CPU time of one call, the mean of CALLS."""
    start = time.thread_time()
    for _ in range(CALLS):
        run()
    return (time.thread_time() - start) / CALLS * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    gc.disable()
    print(
        f"us of CPU time a call; medians of {rounds} rounds of {CALLS} calls; theirs on {os.environ['DEV']}"
    )
    print(f"{'':24}{'ours':>8}{'least':>8}{'theirs':>10}{'ratio':>8}")
    with override(settings, dev="CPU"):
        for name, (mine, other) in rows().items():
            for _ in range(5):  # traces and captures
                mine()
                if other is not None:
                    other()
            times = [(microseconds(mine), microseconds(other) if other else 0.0) for _ in range(rounds)]
            us, them = (statistics.median(column) for column in zip(*times, strict=True))
            peer = f"{them:10.1f}{us / them:8.2f}" if other else ""
            print(f"{name:24}{us:8.1f}{min(t for t, _ in times):8.1f}{peer}")


if __name__ == "__main__":
    main()
