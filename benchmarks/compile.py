"""How long it takes from a graph to C, and to machine code:
beside tinygrad, and PyTorch where it is. Weeks 4 and 5.

Each measurement is a process of its own, with empty caches, that has imported its library and opened its
device. The sides take turns. A program is computed twice: at another size, the first that the process
compiles, then at the size that counts, where all kernels
are new but what the library keeps of its own rules is there.

Of the time in Python, `to C` is from the graph to the texts of its kernels: scheduling, lowering, rendering.
The rest writes files, starts the C compiler, loads what that has made,
and runs the kernels. Others are not taken apart so.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
#: Runs a program at a size, whose inputs are there already.
Run = Callable[[], object]
VOCABULARY, CONTEXT, LAYERS, WIDTH, HEADS, BATCH = 65, 64, 2, 64, 4, 32
#: The sizes of each program: the other one, and the one that counts. A training step has one.
SIZES = {"matmul": (48, 64), "layernorm": (48, 64), "gpt": (BATCH,)}
COLUMNS = ("to C", "python", "compiler", "wall")
#: Seconds after which a measurement is given up.
TIMEOUT = 600
RNG = np.random.default_rng(0)


def floats(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def tokens(batch: int) -> tuple[Array, Array]:
    text = RNG.integers(0, VOCABULARY, (batch, CONTEXT + 1)).astype(np.int32)
    return text[:, :-1].copy(), text[:, 1:].copy()


# the sides: each gives the programs of SIZES


def ours() -> dict[str, Callable[[int], Run]]:
    from uop_nn import AdamW, Gpt, GptConfig
    from uop_tensor import Tensor, jit

    (Tensor(floats(3)) + 1.0).realize()  # the device, its compiler, OpenMP

    def matmul(n: int) -> Run:
        a, b = Tensor(floats(n, n)), Tensor(floats(n, n))
        return lambda: (a @ b).realize()

    def layernorm(n: int) -> Run:
        x, weight, bias, seed = (Tensor(floats(*shape)) for shape in ((n, n), (n,), (n,), (n, n)))

        def run() -> None:
            y = x.layernorm() * weight + bias
            first, *others = y.gradient(x, weight, bias, seed=seed)
            first.realize(*others)

        return run

    def gpt(batch: int) -> Run:
        model = Gpt(GptConfig(VOCABULARY, CONTEXT, LAYERS, WIDTH, HEADS), np.random.default_rng(0))
        optimizer = AdamW(model.parameters(), 1e-3)

        def step(x: Tensor, y: Tensor) -> Tensor:
            loss = model.loss(x, y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss

        replay, (x, y) = jit(step), tokens(batch)
        inputs = Tensor(x), Tensor(y)
        return lambda: replay(*inputs)

    return {"matmul": matmul, "layernorm": layernorm, "gpt": gpt}


def tinygrads() -> dict[str, Callable[[int], Run]]:
    from tinygrad import Context, Tensor, TinyJit, nn

    (Tensor(floats(3)) + 1.0).realize()

    def matmul(n: int) -> Run:
        a, b = Tensor(floats(n, n)).realize(), Tensor(floats(n, n)).realize()
        return lambda: (a @ b).realize()

    def layernorm(n: int) -> Run:
        x, weight, bias, seed = (Tensor(floats(*shape)).realize() for shape in ((n, n), (n,), (n,), (n, n)))

        def run() -> None:
            y = x.layernorm() * weight + bias
            first, *others = y.gradient(x, weight, bias, gradient=seed)
            first.realize(*others)

        return run

    class Block:
        def __init__(self) -> None:
            self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
            self.out = nn.Linear(WIDTH, WIDTH, bias=False)
            self.up = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
            self.down = nn.Linear(4 * WIDTH, WIDTH, bias=False)

        def __call__(self, x: Any) -> Any:
            batch = x.shape[0]
            split = self.qkv(self.norm1(x)).reshape(batch, CONTEXT, 3, HEADS, WIDTH // HEADS)
            q, k, v = (split[:, :, i].transpose(1, 2) for i in range(3))
            mixed = q.scaled_dot_product_attention(k, v, is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).reshape(batch, CONTEXT, WIDTH))
            return x + self.down(self.up(self.norm2(x)).gelu())

    class Model:
        def __init__(self) -> None:
            self.token, self.position = nn.Embedding(VOCABULARY, WIDTH), Tensor(floats(CONTEXT, WIDTH))
            self.blocks = [Block() for _ in range(LAYERS)]
            self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)

        def __call__(self, x: Any) -> Any:
            return self.head(self.norm((self.token(x) + self.position).sequential(self.blocks)))

    def gpt(batch: int) -> Run:
        model = Model()
        optimizer = nn.optim.AdamW(nn.state.get_parameters(model), 1e-3)
        Tensor.realize(*nn.state.get_parameters(optimizer), *nn.state.get_parameters(model))

        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            loss = model(x).sparse_categorical_crossentropy(y).backward()
            return loss.realize(*optimizer.schedule_step())

        replay = TinyJit(step)

        x, y = tokens(batch)
        inputs = Tensor(x).realize(), Tensor(y).realize()

        def run() -> None:
            with Context(TRAINING=1):
                replay(*inputs)

        return run

    return {"matmul": matmul, "layernorm": layernorm, "gpt": gpt}


def torchs() -> dict[str, Callable[[int], Run]]:
    import torch
    from torch.nn import functional

    torch.compile(lambda x: x + 1.0)(torch.ones(3))

    def matmul(n: int) -> Run:
        a, b = torch.from_numpy(floats(n, n)), torch.from_numpy(floats(n, n))
        product = torch.compile(lambda a, b: a @ b, dynamic=False)
        return lambda: product(a, b)

    def layernorm(n: int) -> Run:
        x, weight, bias, seed = (torch.from_numpy(floats(*shape)) for shape in ((n, n), (n,), (n,), (n, n)))
        for tensor in (x, weight, bias):
            tensor.requires_grad_()
        norm = torch.compile(lambda x, w, b: functional.layer_norm(x, (n,), w, b), dynamic=False)
        return lambda: norm(x, weight, bias).backward(seed)

    def norm(x: Any, weight: Any) -> Any:
        return functional.layer_norm(x, (WIDTH,), weight)

    def scores(tokens: Any, parameters: list[Any]) -> Any:
        token, position, last, head, *blocks = parameters
        x = token[tokens] + position
        for first in range(0, len(blocks), 6):
            norm1, norm2, qkv, out, up, down = blocks[first : first + 6]
            split = functional.linear(norm(x, norm1), qkv).unflatten(-1, (3, HEADS, WIDTH // HEADS))
            q, k, v = (part.transpose(1, 2) for part in split.unbind(2))
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + functional.linear(mixed.transpose(1, 2).flatten(2), out)
            raised = functional.gelu(functional.linear(norm(x, norm2), up), approximate="tanh")
            x = x + functional.linear(raised, down)
        return functional.linear(norm(x, last), head)

    def gpt(batch: int) -> Run:
        square, long = (WIDTH, WIDTH), 4 * WIDTH
        block = [(WIDTH,), (WIDTH,), (3 * WIDTH, WIDTH), square, (long, WIDTH), (WIDTH, long)]
        shapes = [(VOCABULARY, WIDTH), (CONTEXT, WIDTH), (WIDTH,), (VOCABULARY, WIDTH), *LAYERS * block]
        parameters = [torch.from_numpy(floats(*shape)).requires_grad_() for shape in shapes]
        optimizer = torch.optim.AdamW(parameters, 1e-3)
        forward, update = torch.compile(scores, dynamic=False), torch.compile(optimizer.step)
        x, y = (torch.from_numpy(a).long() for a in tokens(batch))

        def run() -> None:
            functional.cross_entropy(forward(x, parameters).flatten(0, 1), y.flatten()).backward()
            update()

        return run

    return {"matmul": matmul, "layernorm": layernorm, "gpt": gpt}


SIDES = {"ours": ours, "tinygrad": tinygrads, "torch": torchs}
ONE_CPU = "ours, 1 CPU"


# one measurement, in a process of its own


def measure(side: str, program: str) -> list[dict[str, float]]:
    """Seconds at each size: of CPU of this thread (Python),
    of CPU of child processes (the compiler), and of the clock.
    """
    if side == ONE_CPU:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
    own = side in ("ours", ONE_CPU)
    make = SIDES["ours" if own else side]()[program]
    loads = timed_loads() if own else []
    found = []
    for size in SIZES[program]:
        run = make(size)
        loads.clear()
        python, compiler, wall = time.thread_time(), children(), time.perf_counter()
        run()
        times = {
            "python": time.thread_time() - python,
            "compiler": children() - compiler,
            "wall": time.perf_counter() - wall,
        }
        if own:
            times["to C"] = loads[-1][1] - python - sum(end - begin for begin, end in loads)
        found.append(times)
    return found


def timed_loads() -> list[tuple[float, float]]:
    """The CPU times of this thread at which kernels that have
    their C are given to the compiler, and are loaded.
    """
    cpu: Any = importlib.import_module("uop_codegen_c.cpu")
    load = cpu.load
    found: list[tuple[float, float]] = []

    def timed(kernels: Any) -> Any:
        begin = time.thread_time()
        functions = load(kernels)
        found.append((begin, time.thread_time()))
        return functions

    cpu.load = timed
    return found


def children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def in_a_process(side: str, program: str) -> list[dict[str, float]] | str:
    """A measurement, or why there is none."""
    with tempfile.TemporaryDirectory() as folder:
        env = {
            **os.environ,
            "DEV": "CPU",
            "UOP_CACHE": folder,
            "CACHELEVEL": "0",  # of tinygrad: no cache on disk
            "PARALLEL": "0",  # of tinygrad: no worker processes, whose time would not be counted
            "TORCHINDUCTOR_CACHE_DIR": str(Path(folder) / "torch"),
        }
        command = [sys.executable, __file__, "--one", side, program]
        try:
            done = subprocess.run(
                command, env=env, capture_output=True, text=True, check=False, timeout=TIMEOUT
            )
        except subprocess.TimeoutExpired:
            return f"longer than {TIMEOUT} s"
    if done.returncode != 0:
        return done.stderr.strip().splitlines()[-1]
    found: list[dict[str, float]] = json.loads(done.stdout.splitlines()[-1])
    return found


# the table


def rows(program: str, sides: list[str], rounds: int) -> None:
    found: dict[str, list[list[dict[str, float]]]] = {side: [] for side in sides}
    reasons: dict[str, str] = {}
    for _ in range(rounds):
        for side in sides:
            one = reasons.get(side) or in_a_process(side, program)
            if isinstance(one, str):
                reasons[side] = one
            else:
                found[side].append(one)
    for side in sides:
        if side in reasons:
            print(f"{program:10} {side:12} not measured: {reasons[side]}")
            continue
        cells = ""
        for which in range(len(SIZES[program])):
            for what in COLUMNS:
                times = [one[which][what] for one in found[side] if what in one[which]]
                cells += f"{statistics.median(times):8.3f} /{min(times):7.3f}" if times else f"{'-':>17}"
        print(f"{program:10} {side:12}{cells}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--programs", nargs="*", default=list(SIZES), choices=list(SIZES))
    sides = [*SIDES, *([ONE_CPU] if hasattr(os, "sched_setaffinity") else [])]
    parser.add_argument("--sides", nargs="*", default=sides, choices=sides)
    parser.add_argument("--one", nargs=2, metavar=("SIDE", "PROGRAM"), help="one measurement, as JSON")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(*options.one)))
        return
    print(
        f"seconds, median / least of {options.rounds} processes: CPU in Python until there is C and in all, CPU of the"
        " compiler, and the clock"
    )
    heads = "".join(f"{what:>17}" for what in COLUMNS)
    print(f"{'':23}{'first:':<{17 * len(COLUMNS)}}then:")
    print(f"{'':23}{heads}{heads}")
    for program in options.programs:
        rows(program, options.sides, options.rounds)


if __name__ == "__main__":
    main()
