"""What it costs to launch a kernel: a bare call of its function through cffi, beside ours. Weeks 3 and 5.

The kernel is an empty C function, so that nothing else is timed. The bare call is the peer: the function and
the two tables that it is given exist, and no memory or scalar is looked at.
Each row takes turns with it, round by round.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import cycle

import cffi

from uop_codegen_c import CpuBackend, KernelSource
from uop_codegen_c import settings as c_settings
from uop_ir import Ops, Param, Plan, UOp, dtypes, override
from uop_tensor import Tensor, jit

N = 8
KERNELS = 40
CALLS = 200
OUT, X = UOp.param(0, N, dtypes.f32), UOp.param(1, N, dtypes.f32)
SCALE, SIZE = UOp(Ops.PARAM, (), Param(dtypes.f32, name="scale")), UOp.variable("n", 1, N)
Run = Callable[[], object]


def empty(body: UOp) -> KernelSource:
    """A kernel that does nothing, in place of any."""
    signature = "void empty(void *const *buffers, const int64_t *scalars)"
    text = f"{signature};\n\n{signature}\n{{\n    (void)buffers;\n    (void)scalars;\n}}\n"
    return KernelSource("empty", "#include <stdint.h>\n", text)


def bare(backend: CpuBackend) -> Run:
    """A call of the function, with tables of two buffers and one scalar."""
    (program,) = backend.compile([UOp.sink(OUT.store(X * X))])
    ffi, function = cffi.FFI(), program.function
    buffers, scalars = ffi.new("void *[2]"), ffi.new("int64_t[1]")
    return lambda: function(buffers, scalars)


def linked(
    backend: CpuBackend,
    body: UOp,
    scalars: Sequence[UOp] = (),
    values: Sequence[Sequence[float | int]] = ((),),
    calls: int = 1,
    sets: int = 1,
) -> Run:
    """A linked plan of so many calls, run with `sets` sets of memory in turn,
    and with these values in turn.
    """
    call = UOp(Ops.CALL, (body, OUT, X, *scalars))
    run = backend.link(Plan((call,) * calls, (OUT, X), tuple(scalars)))
    memory = [[backend.allocate(4 * N) for _ in range(2)] for _ in range(sets)]
    given = cycle([(m, v) for m in memory for v in values])
    return lambda: run(*next(given))


def jitted(kernels: int) -> Run:
    """A jitted function of one tensor that runs so many kernels, each of 8 elements: its replay."""

    @jit
    def step(x: Tensor) -> Tensor:
        for _ in range(kernels):
            x = (x + 1).contiguous()
        return x

    x = Tensor([0.0] * N).realize()
    for _ in range(3):
        step(x)
    return lambda: step(x)


def rows(backend: CpuBackend) -> dict[str, tuple[Run, int]]:
    """What is timed, and how many kernels it runs."""
    square = UOp.sink(OUT.store(X * X))
    scaled = UOp.sink(OUT.store(X * SCALE))
    head = UOp.sink(OUT.shrink(((0, SIZE),)).store(X.shrink(((0, SIZE),)) * 2.0))
    return {
        "a plan, the same memory": (linked(backend, square), 1),
        "a plan, other memory": (linked(backend, square, sets=2), 1),
        "a plan, a size": (linked(backend, head, (SIZE,), values=[[1], [2], [3]]), 1),
        "a plan, an f32": (linked(backend, scaled, (SCALE,), values=[[1.0], [2.5], [0.1]]), 1),
        f"a plan of {KERNELS}": (linked(backend, square, calls=KERNELS), KERNELS),
        "jit, 1 kernel": (jitted(1), 1),
        f"jit, {KERNELS} kernels": (jitted(KERNELS), KERNELS),
    }


def seconds(run: Run) -> float:
    """CPU time of one call, the mean of CALLS."""
    start = time.thread_time()
    for _ in range(CALLS):
        run()
    return (time.thread_time() - start) / CALLS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=60)
    rounds = parser.parse_args().rounds
    gc.disable()
    print(
        f"us of CPU time for each kernel, over {rounds} rounds of {CALLS} calls; beyond: less the bare call beside it"
    )
    print(f"{'':24}{'median':>8}{'least':>8}{'beyond:':>12}{'median':>8}{'least':>8}")
    with tempfile.TemporaryDirectory() as folder, override(c_settings, uop_cache=folder):
        backend = CpuBackend(empty)
        peer = bare(backend)
        for name, (run, kernels) in {"the bare call": (peer, 1), **rows(backend)}.items():
            times = [(1e6 * seconds(run) / kernels, 1e6 * seconds(peer)) for _ in range(rounds)]
            ours, theirs = zip(*times, strict=True)
            beyond = statistics.median(a - b for a, b in times)
            print(
                f"{name:24}{statistics.median(ours):8.2f}{min(ours):8.2f}"
                f"{beyond:20.2f}{min(ours) - min(theirs):8.2f}"
            )


if __name__ == "__main__":
    main()
