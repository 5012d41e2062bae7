"""What it adds to a rewrite to record a trace, or to time the rules; and what writing a trace takes. Week 1.

Rewrites of like graphs take turns: by the engine alone, as `graph_rewrite` calls it with no observer, traced,
and profiled. Each is of a graph of its own, since what is derived from a node is kept with it.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
from collections.abc import Callable
from itertools import count

from uop_ir import UOp, dtypes
from uop_rewrite import Observer, Profile, Trace, graph_rewrite, observing, symbolic, trace_html, trace_json
from uop_rewrite.engine import ORDERS

numbers = count()


def addresses(nodes: int) -> UOp:
    """Rows and columns taken from an index, and put together again."""
    out = []
    for k in range(nodes // 12):
        i, j = UOp.range(8, next(numbers)), UOp.range(k + 2, next(numbers))
        x = i * (k + 2) + j
        out.append(x // (k + 2) * 8 + x % (k + 2) + (i + 0))
    return UOp.sink(*out)


def chain(nodes: int) -> UOp:
    """Floats, of which every other node goes."""
    x = UOp.param(next(numbers), 64, dtypes.f32)
    for k in range(nodes // 2):
        x = (x + float(k + 1)) * 1.0
    return x


def untouched(nodes: int) -> UOp:
    """Floats, with nothing to do."""
    x = y = UOp.param(next(numbers), 64, dtypes.f32)
    for k in range(nodes):
        x = (x * y, x + 1.5, x * x, x + y)[k % 4]
    return x


def alone(root: UOp) -> None:
    ORDERS["bottom-up"](root, symbolic, symbolic.rewrite, None, None)


def off(root: UOp) -> None:
    graph_rewrite(root, symbolic)


def observed(by: Observer, root: UOp) -> None:
    with observing(by):
        graph_rewrite(root, symbolic)


HOW: dict[str, Callable[[UOp], None]] = {
    "alone": alone,
    "off": off,
    "traced": lambda root: observed(Trace(), root),
    "profiled": lambda root: observed(Profile(), root),
}


def seconds(run: Callable[[UOp], object], root: UOp) -> float:
    start = time.thread_time()
    run(root)
    return time.thread_time() - start


def measure(kind: Callable[[int], UOp], nodes: int, rounds: int) -> str:
    """One line of the table."""
    times: dict[str, list[float]] = {how: [] for how in HOW}
    for turn in range(rounds):
        order = list(HOW)
        for how in order[turn % len(order) :] + order[: turn % len(order)]:
            times[how].append(seconds(HOW[how], kind(nodes)))
    trace, root = Trace(), kind(nodes)
    observed(trace, root)
    texts: list[str] = []
    written = [
        seconds(lambda _: texts.append(json.dumps(trace_json(trace))), root),
        seconds(lambda _: texts.append(trace_html(trace, "benchmark")), root),
    ]
    ratios = {
        how: statistics.median(t / a for t, a in zip(times[how], times["alone"], strict=True)) for how in HOW
    }
    steps = sum(len(rewrite.steps) for step in trace.passes for rewrite in step.rewrites)
    return (
        f"{len(root.toposort()):7}{steps:7}{1e6 * statistics.median(times['alone']) / len(root.toposort()):9.2f}"
        f"{ratios['off']:7.2f}{ratios['traced']:8.2f}{ratios['profiled']:10.2f}"
        + "".join(f"{t:9.2f} s{len(text) / 1e6:6.1f} MB" for t, text in zip(written, texts, strict=True))
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="*", default=[1000, 10_000])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    print("us a node by the engine alone; ratios to that; what writing the trace takes, and its size")
    print(f"{'kind':<12}{'nodes':>7}{'steps':>7}{'us/node':>9}{'off':>7}{'traced':>8}{'profiled':>10}"
          f"{'JSON':>11}{'':>9}{'HTML':>11}")  # fmt: skip
    gc.disable()
    for name, kind in KINDS.items():
        for nodes in options.nodes:
            print(f"{name:<12}{measure(kind, nodes, options.rounds)}", flush=True)
            gc.collect()


KINDS: dict[str, Callable[[int], UOp]] = {"addresses": addresses, "chain": chain, "untouched": untouched}

if __name__ == "__main__":
    main()
