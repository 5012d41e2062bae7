"""Roofline: what memory and arithmetic of this machine can do,
measured once, and how near a kernel comes. Week 6.

A kernel takes at least as long as its bytes at the bandwidth of memory, and as its operations at the greatest
rate (Williams, Waterman and Patterson, 2009). Bandwidth is measured for a size that caches hold, and for a
larger one. All is measured with kernels of ours: the sum of two arrays,
sums of one, and products and sums that stay in registers.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from uop_ir import Kind, Ops, UOp, dtypes

from .cache import (
    KernelSource,
    active_compiler,
    digest,
    kept,
    kernel_folder,
    read_checked,
)
from .freedoms import Freedoms
from .machine import cpu_model, this_machine
from .schedule import Schedule
from .tune_bench import Bench

#: Elements of the arrays by which bandwidth is measured, and of a part that is summed up.
SIZES, PART = (20_000, 4_000_000), 1_000
#: Steps of a product and a sum for each element, and elements, by which the rate is measured.
STEPS, ELEMENTS = 64, 32_768
#: Short measurements, of which the best counts: other processes are not in all of them.
ROUNDS = 25
#: Part of the name of the file: to be changed with what is measured.
VERSION = "1"


@dataclass(frozen=True)
class Roofline:
    """Bytes a second, by the bytes of the arguments;
    floating-point operations of f32 a second; with all threads.
    """

    bandwidths: tuple[tuple[int, float], ...]
    flops: float

    def memory_seconds(self, nbytes: int) -> float:
        """For so many bytes at the bandwidth of what holds them."""
        rate = next((rate for size, rate in self.bandwidths if nbytes <= size), self.bandwidths[-1][1])
        return nbytes / rate

    def arithmetic_seconds(self, flops: int, itemsize: int) -> float:
        """For so many operations on floats of so many bytes,
        of which a vector holds fewer if they are wide.
        """
        return flops / self.flops * max(itemsize, 4) / 4


def roofline() -> Roofline:
    """That of this CPU and compiler: from the cache folder,
    or measured now, in some seconds, and kept there.
    """
    parts = [cpu_model(), repr(this_machine()), active_compiler().identity]
    with kernel_folder() as folder:
        return kept(folder / f"roofline-{digest(VERSION, *parts)[:16]}", read_roofline, measured, VERSION)


def read_roofline(path: Path) -> Roofline | None:
    """The roofline in a file of the cache; None where it is not there or not whole."""
    try:
        found = read_checked(path, VERSION)
        return Roofline(tuple((size, rate) for size, rate in found["bandwidths"]), found["flops"])
    except (OSError, ValueError, TypeError, KeyError):
        return None


def measured() -> Roofline:
    """The roofline as it is measured now."""
    bandwidths = [
        (12 * size, 12 * size / min(best_seconds(added(size)), best_seconds(summed(3 * size))))
        for size in SIZES
    ]
    return Roofline(tuple(bandwidths), 2 * STEPS * ELEMENTS / best_seconds(computed()))


def added(size: int) -> UOp:
    """A kernel that adds two arrays."""
    x, y = (UOp.param(slot, size, dtypes.f32) for slot in (1, 2))
    return UOp.sink(UOp.param(0, size, dtypes.f32).store(x + y))


def summed(size: int) -> UOp:
    """A kernel that sums up parts of an array."""
    x = UOp.param(1, size, dtypes.f32).reshape((size // PART, PART))
    return UOp.sink(UOp.param(0, size // PART, dtypes.f32).store(x.reduce(Ops.ADD, 1)))


def computed() -> UOp:
    """A kernel that does many products and sums for each element that it loads."""
    x = value = UOp.param(1, ELEMENTS, dtypes.f32)
    half = x.const_like(0.5)
    for _ in range(STEPS):
        value = value.alu(Ops.MULACC, x, half)
    return UOp.sink(UOp.param(0, ELEMENTS, dtypes.f32).store(value))


def best_seconds(body: UOp) -> float:
    """Of one run by the chosen schedule, or by tiles of vectors,
    with and without threads, where those are legal.
    """
    bench = Bench(body, Freedoms())
    lanes = this_machine().vector_bytes // 4
    vectors = f"split 0 {8 * lanes} upcast; split 2 {lanes} vector"
    programs = bench.programs([None, *map(Schedule.parse, (vectors, f"{vectors}; retype 1 thread"))])
    return min(
        bench.measured(program, 1) for program in programs if program is not None for _ in range(ROUNDS)
    )


def distance(source: KernelSource, body: UOp, seconds: float) -> str:
    """A kernel that takes so long, beside the least that its bytes and operations take."""
    roof = roofline()
    itemsize = max((n.dtype.itemsize for n in body.toposort() if n.dtype.kind is Kind.FLOAT), default=4)
    memory, arithmetic = roof.memory_seconds(source.bytes), roof.arithmetic_seconds(source.flops, itemsize)
    least = max(memory, arithmetic)
    return (
        f"roofline: {source.bytes:,} bytes take {memory * 1e3:.3f} ms, {source.flops:,} operations "
        f"{arithmetic * 1e3:.3f} ms; the kernel takes {seconds * 1e3:.3f} ms, {least / seconds:.2f} of the least"
    )
