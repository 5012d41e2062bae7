"""How long a node takes, beside tinygrad: made, found again, given its content key, freed. Week 1.

Each kind of graph is a cycle of steps that makes NODES nodes, each on the one before or on leaves made off
the clock. One loop drives both libraries: it makes a node, asks for its dtype and shape, and keeps it. Ours are
found and checked when the node is made; tinygrad finds a shape when asked, so it is timed without asking too
("bare").
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
#: The first node and the steps of a kind of graph; a step is given the node before and its number.
Kind = tuple[Any, list[Step]]


def ours() -> dict[str, Kind]:
    """The kinds of graphs, of our nodes."""
    f32, index, i32 = dtypes.f32, dtypes.index, dtypes.i32
    ranges, n = [UOp.range(8, k) for k in range(8)], UOp.variable("n", 1, 64)
    square, row = UOp.param(0, 4096, f32).reshape((64, 64)), UOp.param(1, 64, f32)
    two, some, wide = UOp.const(f32, 2), square.shrink(((0, n), (0, 64))), UOp.param(2, 1 << 20, f32)
    numbers, out = [UOp.const(index, k) for k in range(NODES)], wide.index(ranges[0])
    return {
        "constants": (two, [lambda x, k: UOp.const(i32, k), lambda x, k: UOp.const(f32, k + 0.5)]),
        "index math": (ranges[0], [lambda x, k: UOp(Ops.ADD, (x, ranges[k & 7]))]),
        "elementwise": (
            square,
            [
                lambda x, k: UOp(Ops.ADD, (x, square)),
                lambda x, k: UOp(Ops.MUL, (x, row)),
                lambda x, k: UOp(Ops.MAX, (x, two)),
                lambda x, k: UOp(Ops.EXP2, (x,)),
            ],
        ),
        "casts, where": (
            square,
            [
                lambda x, k: UOp(Ops.CMPLT, (x, row)),
                lambda x, k: UOp(Ops.WHERE, (x, square, two)),
                lambda x, k: UOp(Ops.ADD, (x, square)),
                lambda x, k: UOp(Ops.CAST, (x,), dtypes.f64),
                lambda x, k: UOp(Ops.CAST, (x,), f32),
            ],
        ),
        "movement": (
            square,
            [
                lambda x, k: UOp(Ops.RESHAPE, (x,), (64, 64, 1)),
                lambda x, k: UOp(Ops.PERMUTE, (x,), (2, 1, 0)),
                lambda x, k: UOp(Ops.FLIP, (x,), (False, True, False)),
                lambda x, k: UOp(Ops.RESHAPE, (x,), (64, 64)),
            ],
        ),
        "symbolic": (
            some,
            [
                lambda x, k: UOp(Ops.ADD, (x, some)),
                lambda x, k: UOp(Ops.RESHAPE, (x, n), (64, None)),
                lambda x, k: UOp(Ops.RESHAPE, (x, n), (None, 64)),
                lambda x, k: UOp(Ops.MUL, (x, row)),
            ],
        ),
        "memory": (
            two,
            [
                lambda x, k: UOp(Ops.ADD, (ranges[0], numbers[k])),
                lambda x, k: UOp(Ops.INDEX, (wide, x)),
                lambda x, k: UOp(Ops.LOAD, (x,)),
                lambda x, k: UOp(Ops.STORE, (out, x)),
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
    numbers, out = [Tiny.const(k) for k in range(NODES)], Tiny(T.INDEX, None, (wide, ranges[0]))

    def sizes(*dims: Any) -> Any:
        return Tiny(T.STACK, None, tuple(d if d is n else Tiny.const(d) for d in dims))

    three, plain, turned, back = sizes(64, 64, 1), sizes(64, 64), sizes(64, n), sizes(n, 64)
    return {
        "constants": (two, [lambda x, k: Tiny.const(k, types.int), lambda x, k: Tiny.const(k + 0.5, f32)]),
        "index math": (ranges[0], [lambda x, k: Tiny(T.ADD, None, (x, ranges[k & 7]))]),
        "elementwise": (
            square,
            [
                lambda x, k: Tiny(T.ADD, None, (x, square)),
                lambda x, k: Tiny(T.MUL, None, (x, row)),
                lambda x, k: Tiny(T.MAX, None, (x, two)),
                lambda x, k: Tiny(T.EXP2, None, (x,)),
            ],
        ),
        "casts, where": (
            square,
            [
                lambda x, k: Tiny(T.CMPLT, None, (x, row)),
                lambda x, k: Tiny(T.WHERE, None, (x, square, two)),
                lambda x, k: Tiny(T.ADD, None, (x, square)),
                lambda x, k: Tiny(T.CAST, None, (x,), types.double),
                lambda x, k: Tiny(T.CAST, None, (x,), f32),
            ],
        ),
        "movement": (
            square,
            [
                lambda x, k: Tiny(T.RESHAPE, None, (x, three)),
                lambda x, k: Tiny(T.PERMUTE, None, (x,), (2, 1, 0)),
                lambda x, k: Tiny(T.FLIP, None, (x,), (False, True, False)),
                lambda x, k: Tiny(T.RESHAPE, None, (x, plain)),
            ],
        ),
        "symbolic": (
            some,
            [
                lambda x, k: Tiny(T.ADD, None, (x, some)),
                lambda x, k: Tiny(T.RESHAPE, None, (x, turned)),
                lambda x, k: Tiny(T.RESHAPE, None, (x, back)),
                lambda x, k: Tiny(T.MUL, None, (x, row)),
            ],
        ),
        "memory": (
            two,
            [
                lambda x, k: Tiny(T.ADD, None, (ranges[0], numbers[k])),
                lambda x, k: Tiny(T.INDEX, None, (wide, x)),
                lambda x, k: Tiny(T.LOAD, None, (x,)),
                lambda x, k: Tiny(T.STORE, None, (out, x)),
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


def measure(kind: Kind, node: Any) -> dict[str, float]:
    """One round: microseconds a node for each of MEASURES."""
    times = {}
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


def memory(kind: Kind) -> float:
    """Bytes a node takes, its entry in the table of nodes included."""
    build_bare(kind)
    gc.collect()
    tracemalloc.start()
    nodes = build(kind)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return taken / len(nodes)


def main() -> None:
    """Print, for each kind and measure, the medians of both and their ratio."""
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
    print(
        f"us of CPU a node, medians of {options.rounds} rounds of {NODES} nodes; GC {state}; ours / tinygrad"
    )
    print(f"{'':14}" + "".join(f"{m:>22}" for m in MEASURES) + f"{'bytes':>22}")
    for kind in kinds:
        rounds = [(measure(here[kind], UOp), measure(there[kind], Tiny)) for _ in range(options.rounds)]
        line = f"{kind:14}"
        for name in MEASURES:
            a, b = (statistics.median(r[side][name] for r in rounds) for side in (0, 1))
            line += f"{f'{a:.2f} / {b:.2f} = {a / b:.2f}':>22}"
        a, b = memory(here[kind]), memory(there[kind])
        print(line + f"{f'{a:.0f} / {b:.0f} = {a / b:.2f}':>22}")


if __name__ == "__main__":
    main()
