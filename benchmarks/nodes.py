"""How long a node takes, beside tinygrad: made, found again, given its content key, freed. Week 1.

Each kind of graph is a cycle of steps that makes NODES nodes, each on the one before or on leaves made off
the clock. One loop drives both libraries: it makes a node, asks for its dtype and shape, and keeps it. Ours
are found and checked when the node is made; tinygrad finds a shape when asked, so it is timed without asking
too ("bare"). What the loop itself takes is timed with steps that make nothing, and printed.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
import tracemalloc
from collections.abc import Callable
from itertools import cycle
from typing import Any

from tinygrad.dtype import dtypes as types
from tinygrad.uop.ops import Ops as T
from tinygrad.uop.ops import UOp as Tiny

from uop_ir import Ops, UOp, dtypes

NODES = 10_000
Step = Callable[[Any, int], Any]
Times = dict[str, float]
Statistic = Callable[[list[float]], float]
#: The first node and the steps of a kind of graph; a step is given the node before and its number.
Kind = tuple[Any, list[Step]]
#: The ops of either side by names of their own: an attribute of an Enum takes a tenth of the time of a node.
ADD, MUL, MAX, EXP2, CMPLT, WHERE, CAST = Ops.ADD, Ops.MUL, Ops.MAX, Ops.EXP2, Ops.CMPLT, Ops.WHERE, Ops.CAST
RESHAPE, PERMUTE, FLIP, INDEX, LOAD, STORE = (
    Ops.RESHAPE, Ops.PERMUTE, Ops.FLIP, Ops.INDEX, Ops.LOAD, Ops.STORE
)  # fmt: skip
T_ADD, T_MUL, T_MAX, T_EXP2, T_CMPLT, T_WHERE, T_CAST = T.ADD, T.MUL, T.MAX, T.EXP2, T.CMPLT, T.WHERE, T.CAST
T_RESHAPE, T_PERMUTE, T_FLIP, T_INDEX, T_LOAD, T_STORE = (
    T.RESHAPE, T.PERMUTE, T.FLIP, T.INDEX, T.LOAD, T.STORE
)  # fmt: skip


def ours() -> dict[str, Kind]:
    """The kinds of graphs, of our nodes."""
    f32, index, i32 = dtypes.f32, dtypes.index, dtypes.i32
    ranges, n = [UOp.range(8, k) for k in range(8)], UOp.variable("n", 1, 64)
    square, row = UOp.param(0, 4096, f32).reshape((64, 64)), UOp.param(1, 64, f32)
    two, some, wide = UOp.const(f32, 2), square.shrink(((0, n), (0, 64))), UOp.param(2, 1 << 20, f32)
    numbers, out = [UOp.const(index, k) for k in range(NODES)], wide.index(ranges[0])
    return {
        "constants": (two, [lambda x, k: UOp.const(i32, k), lambda x, k: UOp.const(f32, k + 0.5)]),
        "index math": (ranges[0], [lambda x, k: UOp(ADD, (x, ranges[k & 7]))]),
        "elementwise": (
            square,
            [
                lambda x, k: UOp(ADD, (x, square)),
                lambda x, k: UOp(MUL, (x, row)),
                lambda x, k: UOp(MAX, (x, two)),
                lambda x, k: UOp(EXP2, (x,)),
            ],
        ),
        "casts, where": (
            square,
            [
                lambda x, k: UOp(CMPLT, (x, row)),
                lambda x, k: UOp(WHERE, (x, square, two)),
                lambda x, k: UOp(ADD, (x, square)),
                lambda x, k: UOp(CAST, (x,), dtypes.f64),
                lambda x, k: UOp(CAST, (x,), f32),
            ],
        ),
        "movement": (
            square,
            [
                lambda x, k: UOp(RESHAPE, (x,), (64, 64, 1)),
                lambda x, k: UOp(PERMUTE, (x,), (2, 1, 0)),
                lambda x, k: UOp(FLIP, (x,), (False, True, False)),
                lambda x, k: UOp(RESHAPE, (x,), (64, 64)),
            ],
        ),
        "symbolic": (
            some,
            [
                lambda x, k: UOp(ADD, (x, some)),
                lambda x, k: UOp(RESHAPE, (x, n), (64, None)),
                lambda x, k: UOp(RESHAPE, (x, n), (None, 64)),
                lambda x, k: UOp(MUL, (x, row)),
            ],
        ),
        "memory": (
            two,
            [
                lambda x, k: UOp(ADD, (ranges[0], numbers[k])),
                lambda x, k: UOp(INDEX, (wide, x)),
                lambda x, k: UOp(LOAD, (x,)),
                lambda x, k: UOp(STORE, (out, x)),
            ],
        ),
    }


def tinygrads() -> dict[str, Kind]:
    """The same graphs, of tinygrad's nodes; where it gives a size as a node, that is made off the clock."""
    f32 = types.float
    ranges, n = [Tiny.range(8, k) for k in range(8)], Tiny.variable("n", 1, 64)
    square, row = Tiny.placeholder((64, 64), f32, 0), Tiny.placeholder((64,), f32, 1)
    two, some, wide = (
        Tiny.const(2.0, f32),
        square.shrink(((0, n), (0, 64))),
        Tiny.placeholder((1 << 20,), f32, 2),
    )
    numbers, out = [Tiny.const(k) for k in range(NODES)], Tiny(T_INDEX, None, (wide, ranges[0]))

    def sizes(*dims: Any) -> Any:
        return Tiny(T.STACK, None, tuple(d if d is n else Tiny.const(d) for d in dims))

    three, plain, turned, back = sizes(64, 64, 1), sizes(64, 64), sizes(64, n), sizes(n, 64)
    return {
        "constants": (two, [lambda x, k: Tiny.const(k, types.int), lambda x, k: Tiny.const(k + 0.5, f32)]),
        "index math": (ranges[0], [lambda x, k: Tiny(T_ADD, None, (x, ranges[k & 7]))]),
        "elementwise": (
            square,
            [
                lambda x, k: Tiny(T_ADD, None, (x, square)),
                lambda x, k: Tiny(T_MUL, None, (x, row)),
                lambda x, k: Tiny(T_MAX, None, (x, two)),
                lambda x, k: Tiny(T_EXP2, None, (x,)),
            ],
        ),
        "casts, where": (
            square,
            [
                lambda x, k: Tiny(T_CMPLT, None, (x, row)),
                lambda x, k: Tiny(T_WHERE, None, (x, square, two)),
                lambda x, k: Tiny(T_ADD, None, (x, square)),
                lambda x, k: Tiny(T_CAST, None, (x,), types.double),
                lambda x, k: Tiny(T_CAST, None, (x,), f32),
            ],
        ),
        "movement": (
            square,
            [
                lambda x, k: Tiny(T_RESHAPE, None, (x, three)),
                lambda x, k: Tiny(T_PERMUTE, None, (x,), (2, 1, 0)),
                lambda x, k: Tiny(T_FLIP, None, (x,), (False, True, False)),
                lambda x, k: Tiny(T_RESHAPE, None, (x, plain)),
            ],
        ),
        "symbolic": (
            some,
            [
                lambda x, k: Tiny(T_ADD, None, (x, some)),
                lambda x, k: Tiny(T_RESHAPE, None, (x, turned)),
                lambda x, k: Tiny(T_RESHAPE, None, (x, back)),
                lambda x, k: Tiny(T_MUL, None, (x, row)),
            ],
        ),
        "memory": (
            two,
            [
                lambda x, k: Tiny(T_ADD, None, (ranges[0], numbers[k])),
                lambda x, k: Tiny(T_INDEX, None, (wide, x)),
                lambda x, k: Tiny(T_LOAD, None, (x,)),
                lambda x, k: Tiny(T_STORE, None, (out, x)),
            ],
        ),
    }


def build(kind: Kind) -> list[Any]:
    """NODES nodes, each asked for its dtype and shape."""
    x, steps = kind
    nodes = []
    for k, step in zip(range(NODES), cycle(steps), strict=False):
        x = step(x, k)
        _ = x.dtype, x.shape
        nodes.append(x)
    return nodes


def build_bare(kind: Kind) -> list[Any]:
    """NODES nodes."""
    x, steps = kind
    nodes = []
    for k, step in zip(range(NODES), cycle(steps), strict=False):
        x = step(x, k)
        nodes.append(x)
    return nodes


def clock(work: Callable[[], Any]) -> tuple[float, Any]:
    """Microseconds of CPU a node of `work`, and what it returns."""
    start = time.thread_time()
    made = work()
    return (time.thread_time() - start) / NODES * 1e6, made


def nothing(x: Any, k: int) -> Any:
    """A step that makes no node."""
    return x


def measure(kind: Kind, node: Any) -> Times:
    """One round: microseconds a node for each of MEASURES, and of the loop that is in the first three."""
    times = {}
    empty: Kind = kind[0], [nothing] * len(kind[1])
    times["asking loop"], nodes = clock(lambda: build(empty))
    times["loop"], nodes = clock(lambda: build_bare(empty))
    nodes.clear()
    gc.collect()
    times["bare"], nodes = clock(lambda: build_bare(kind))
    nodes.clear()
    gc.collect()
    times["fresh"], nodes = clock(lambda: build(kind))
    times["found"], again = clock(lambda: build_bare(kind))
    assert all(a is b for a, b in zip(nodes, again, strict=True))
    again.clear()
    root = [node.sink(*nodes)]
    times["key"], _ = clock(lambda: root[0].key)
    nodes.clear()
    times["freed"], _ = clock(root.clear)
    return times


MEASURES = ("fresh", "bare", "found", "key", "freed")
#: The loop that is in a measure.
LOOPS = {"fresh": "asking loop", "bare": "loop", "found": "loop"}


def memory(kind: Kind) -> float:
    """Bytes a node takes, its entry in the table of nodes included."""
    build_bare(kind)
    gc.collect()
    tracemalloc.start()
    nodes = build(kind)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return taken / len(nodes)


def additions() -> float:
    """Seconds of CPU for ten million additions in a loop: how fast this machine runs Python."""
    start = time.thread_time()
    total = 0
    for k in range(10_000_000):
        total += k
    return time.thread_time() - start


def row(label: str, statistic: Statistic, ours: list[Times], theirs: list[Times], *, net: bool) -> str:
    """A line of the table; `net`: less the loop of the same round."""
    cells = []
    for name in MEASURES:
        loop = LOOPS.get(name) if net else None
        a, b = (statistic([t[name] - (t[loop] if loop else 0.0) for t in times]) for times in (ours, theirs))
        cells.append("" if net and loop is None else f"{a:.2f} / {b:.2f} = {a / b:.2f}")
    return f"  {label:12}" + "".join(f"{cell:>22}" for cell in cells)


def main() -> None:
    """Print, for each kind and measure, the medians and the least of both sides, and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9, help="rounds of which the median is taken")
    parser.add_argument("--kind", help="only kinds whose name contains this")
    parser.add_argument("--gc", action="store_true", help="leave the cyclic garbage collector on")
    options = parser.parse_args()
    here, there = ours(), tinygrads()
    kinds = [k for k in here if options.kind is None or options.kind in k]
    if not options.gc:
        gc.disable()
    state = "on" if options.gc else "off"
    print(f"us of CPU a node, {options.rounds} rounds of {NODES} nodes; GC {state}; ours / tinygrad")
    print(f"this machine: ten million additions in a loop take {additions():.2f} s of CPU")
    print(f"{'':14}" + "".join(f"{m:>22}" for m in MEASURES))
    for kind in kinds:
        rounds = [(measure(here[kind], UOp), measure(there[kind], Tiny)) for _ in range(options.rounds)]
        ours_, theirs = [a for a, _ in rounds], [b for _, b in rounds]
        asking, loop = (min(a[name] for a in ours_) for name in ("asking loop", "loop"))
        a, b = memory(here[kind]), memory(there[kind])
        print(
            f"{kind}: {a:.0f} / {b:.0f} = {a / b:.2f} bytes; the loop {loop:.2f}, with asking {asking:.2f}, at least"
        )
        print(row("median", statistics.median, ours_, theirs, net=False))
        print(row("least", min, ours_, theirs, net=False))
        print(row("median, net", statistics.median, ours_, theirs, net=True))
        print(row("least, net", min, ours_, theirs, net=True))


if __name__ == "__main__":
    main()
