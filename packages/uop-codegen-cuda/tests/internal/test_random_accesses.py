"""Random accesses between random barriers: the checker finds a race exactly where a pair of them has one.

The oracle looks at all pairs of accesses: two threads, one element, a write, no barrier of the block between,
and for lanes of one warp none of the warp; nothing orders blocks. Where nothing races in shared memory, a
read finds what was written before it in the order of the program.
"""

from __future__ import annotations

import itertools
import shutil
from dataclasses import dataclass
from random import Random

import numpy as np
import pytest

from uop_codegen_cuda import CudaSource, settings
from uop_codegen_cuda.check import compile_checked
from uop_codegen_cuda.emulate import ORDERS
from uop_ir import UOp, dtypes, index, override

#: Threads of a block, and blocks that share what memory of a space they access; as many elements as threads.
THREADS, BLOCKS = 64, {"shared": 1, "global": 2}
KERNELS = 60
BARRIERS = {"block": "__syncthreads();", "warp": "__syncwarp();"}


@dataclass(frozen=True)
class Step:
    """A barrier, or an access of every `each`-th thread of some to an element that its number names."""

    kind: str
    factor: int = 1
    offset: int = 0
    each: int = 1
    first: int = 0
    last: int = 1 << 30

    def text(self, elements: int) -> str:
        if self.kind in BARRIERS:
            return BARRIERS[self.kind]
        place = f"part[(t * {self.factor} + {self.offset}) % {elements}]"
        does = f"{place} = t;" if self.kind == "write" else f"sum += {place};"
        return f"if (t >= {self.first} && t <= {self.last} && t % {self.each} == 0) {does}"


@dataclass(frozen=True)
class Access:
    thread: int
    element: int
    write: bool
    block_phase: int
    warp_phase: int


def random_steps(random: Random) -> list[Step]:
    """Often a kernel without a race: all elements are written first,
    and most steps have a barrier between.
    """
    steps = [Step("write", 1, 0)] if random.random() < 0.6 else []
    for _ in range(random.randint(2, 6)):
        if random.random() < 0.8:
            steps.append(Step(random.choice(("block", "block", "warp"))))
        kind = random.choice(("read", "read", "write"))
        factor = random.choice((1, 1, 1, 1, 0, 3) if kind == "write" else (1, 1, 1, 0, 0, 3))
        near = random.choice((0, 0, 0, 1, 32, random.randrange(THREADS)))
        some = random.choice(((), (), (), (0, 31), (32, 63), (64,), (63, 64)))
        steps.append(Step(kind, factor, near, random.choice((1, 1, 2, 16, 64)), *some))
    return steps


def last_reader(self: int, first: int, last: int) -> list[Step]:
    """Some threads read an element, then one reads it twice and writes it: what chance seldom makes.

    Between its reads is a write of nobody, so that the compiler does not take them for one.
    """
    mine = Step("read", 0, 5, 1, self, self)
    nobody = Step("write", first=1 << 20)
    return [Step("read", 0, 5, 1, first, last), mine, nobody, mine, Step("write", 0, 5, 1, self, self)]


#: The others are of its warp, its block, or another block, and come before it in one order or the other.
OTHERS = ((31, 0, 30), (0, 1, 31), (63, 0, 31), (0, 32, 63), (127, 0, 63), (0, 64, 127))


def accesses(steps: list[Step], threads: int) -> list[Access]:
    """All accesses, in the order of the program."""
    found, block, warp = [], 0, 0
    for step in steps:
        block += step.kind == "block"
        warp += step.kind == "warp"
        if step.kind not in BARRIERS:
            found += [
                Access(t, (t * step.factor + step.offset) % threads, step.kind == "write", block, warp)
                for t in range(0, threads, step.each)
                if step.first <= t <= step.last
            ]
    return found


def races(all_: list[Access]) -> bool:
    return any(
        a.element == b.element
        and (a.write or b.write)
        and a.thread != b.thread
        and (
            a.thread // THREADS != b.thread // THREADS
            or (
                a.block_phase == b.block_phase
                and (a.thread // 32 != b.thread // 32 or a.warp_phase == b.warp_phase)
            )
        )
        for a, b in itertools.combinations(all_, 2)
    )


def reads_nothing(all_: list[Access]) -> bool:
    """Whether an element is read before it is written."""
    written: set[int] = set()
    for a in all_:
        if a.write:
            written.add(a.element)
        elif a.element not in written:
            return True
    return False


def kernel(name: str, steps: list[Step], space: str) -> CudaSource:
    size = BLOCKS[space] * THREADS
    lines = "\n".join(f"    {step.text(size)}" for step in steps)
    declared = f"    __shared__ float part[{size}];\n" if space == "shared" else ""
    text = f"""extern "C" __global__ void {name}(float *y{"" if declared else ", float *part"}) {{
{declared}    const int t = blockIdx.x * {THREADS} + threadIdx.x;
    float sum = 0;
{lines}
    y[t] = sum;
}}
"""
    params = tuple(UOp.param(slot, size, dtypes.f32) for slot in range(1 if declared else 2))
    return CudaSource(name, text, params, (index(BLOCKS[space]), index(1), index(1)), (THREADS, 1, 1))


#: Of a program: its steps, its text, and the kinds of what is found in it in one order of its threads.
Checked = tuple[list[Step], str, set[str]]


@pytest.fixture(scope="module")
def checked() -> dict[str, list[Checked]]:
    """In each space of memory, programs in each order of their threads: all are compiled together."""
    if shutil.which("g++") is None:
        pytest.skip("no g++ to compile CUDA text with (apt install g++)")
    programs = [last_reader(*o) for o in OTHERS]
    programs += [random_steps(Random(seed)) for seed in range(KERNELS)]  # noqa: S311  a test's numbers
    named = {(space, n): f"{space}_{n}" for space in BLOCKS for n in range(len(programs))}
    compiled = compile_checked([kernel(name, programs[n], space) for (space, n), name in named.items()])
    found: dict[str, list[Checked]] = {space: [] for space in BLOCKS}
    for ((space, n), one), order in itertools.product(zip(named, compiled, strict=True), ORDERS):
        memory = [np.zeros(p.arg.size, np.float32) for p in one.source.params]
        with override(settings, emu_order=order):
            rows, _ = one.run([m.ctypes.data for m in memory], [m.nbytes for m in memory], {})
        found[space].append((programs[n], f"{order}\n{one.source.text}", {kind for kind, *_ in rows}))
    return found


@pytest.mark.parametrize("space", BLOCKS)
def test_there_is_a_race_exactly_where_a_pair_of_accesses_has_one(
    space: str, checked: dict[str, list[Checked]]
) -> None:
    count = {True: 0, False: 0}
    for steps, text, kinds in checked[space]:
        wanted = races(accesses(steps, BLOCKS[space] * THREADS))
        assert kinds <= {"race", "race between blocks", "uninitialised"}
        assert wanted == bool(kinds - {"uninitialised"}), text
        count[wanted] += 1
    assert min(count.values()) >= KERNELS // 5


def test_what_is_read_before_it_is_written_is_found(checked: dict[str, list[Checked]]) -> None:
    count = {True: 0, False: 0}
    for steps, text, kinds in checked["shared"]:
        if not races(all_ := accesses(steps, THREADS)):
            wanted = reads_nothing(all_)
            assert kinds == ({"uninitialised"} if wanted else set()), text
            count[wanted] += 1
    assert min(count.values()) >= KERNELS // 5
