"""How long a rewrite with the full symbolic set takes, beside tinygrad:
per node, on graphs of several kinds. Week 1.

Each kind is one function that builds a graph of either library, with the operators that both share. Each
round builds it afresh, on ranges with numbers of its own,
so that neither side finds what it knew of the nodes before.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable, Iterator
from itertools import count
from math import prod
from random import Random
from typing import Any

from tinygrad.dtype import dtypes as types
from tinygrad.uop.ops import UOp as Tiny
from tinygrad.uop.ops import graph_rewrite as tiny_rewrite
from tinygrad.uop.symbolic import sym as tiny_sym
from tinygrad.uop.symbolic import symbolic as tiny_symbolic

from uop_ir import UOp, dtypes
from uop_rewrite import graph_rewrite, symbolic

Node = Any
numbers = count()


class Ours:
    """What the kinds of graphs ask of a library, and its rewrite."""

    @staticmethod
    def range(end: int) -> Node:
        return UOp.range(end, next(numbers))

    @staticmethod
    def float(node: Node) -> Node:
        return node.cast(dtypes.f32)

    @staticmethod
    def both(*clauses: Node) -> Node:
        return _all(clauses)

    sink = staticmethod(UOp.sink)

    @staticmethod
    def rewrite(root: Node) -> Node:
        return graph_rewrite(root, symbolic)


class Theirs:
    """The same of tinygrad."""

    rules = tiny_symbolic

    @staticmethod
    def range(end: int) -> Node:
        return Tiny.range(end, next(numbers))

    @staticmethod
    def float(node: Node) -> Node:
        return node.cast(types.float)

    @staticmethod
    def both(*clauses: Node) -> Node:
        return _all(clauses)

    sink = staticmethod(Tiny.sink)

    @staticmethod
    def rewrite(root: Node) -> Node:
        return tiny_rewrite(root, Theirs.rules)


def _all(clauses: tuple[Node, ...]) -> Node:
    out = clauses[0]
    for clause in clauses[1:]:
        out = out & clause
    return out


def movement(lib: Any, nodes: int, draw: Random) -> Node:
    """Addresses of elements of tensors that were reshaped, permuted, padded, shrunk and flipped."""
    made: list[Node] = []
    for _ in range(max(nodes // 60, 1)):
        shape = [draw.choice([2, 3, 4, 5, 8, 16, 28, 64]) for _ in range(draw.randint(2, 4))]
        at, valid = [lib.range(s) for s in shape], []
        for _ in range(draw.randint(2, 4)):
            at, shape, clauses = draw.choice(MOVES)(at, shape, draw)
            valid += clauses
        address = flat(at, shape)
        made.append(lib.both(*valid).where(address, 0) if valid else address)
    return lib.sink(*made)


def flat(at: list[Node], shape: list[int]) -> Node:
    total = at[0]
    for i, size in zip(at[1:], shape[1:], strict=True):
        total = total * size + i
    return total


def reshape(at: list[Node], shape: list[int], draw: Random) -> Any:
    """To the shape's prime factors in another order, in up to four axes."""
    size, factors = prod(shape), []
    for p in (2, 3, 5, 7):
        while size % p == 0:
            factors.append(p)
            size //= p
    draw.shuffle(factors)
    cuts = sorted(draw.sample(range(1, len(factors)), min(draw.randint(1, 3), len(factors) - 1)))
    new = [prod(factors[p:q]) for p, q in zip([0, *cuts], [*cuts, len(factors)], strict=True)]
    total = flat(at, shape)
    return [total // prod(new[i + 1 :]) % s for i, s in enumerate(new)], new, []


def permute(at: list[Node], shape: list[int], draw: Random) -> Any:
    order = draw.sample(range(len(at)), len(at))
    return [at[i] for i in order], [shape[i] for i in order], []


def pad(at: list[Node], shape: list[int], draw: Random) -> Any:
    """Read as if the last axis had been padded by one on either side."""
    i, s = at[-1], shape[-1]
    return [*at[:-1], i - 1], [*shape[:-1], max(s - 2, 1)], [i > 0, i < s - 1]


def flip(at: list[Node], shape: list[int], draw: Random) -> Any:
    return [at[0] * -1 + (shape[0] - 1), *at[1:]], shape, []


MOVES: list[Callable[[list[Node], list[int], Random], Any]] = [reshape, reshape, permute, pad, flip]


def long_sum(lib: Any, nodes: int, draw: Random) -> Node:
    """One sum of many terms, each another one."""
    total = lib.range(8)
    for k in range(nodes // 4):
        total = total + lib.range(8) * (k % 7 + 1)
    return lib.sink(total)


def chains(lib: Any, nodes: int, draw: Random) -> Node:
    """Chains of sums, products, quotients and remainders,
    40 nodes each: a longer one takes tinygrad minutes.
    """
    made = []
    for _ in range(max(nodes // 40, 1)):
        x, ranges = lib.range(64), [lib.range(16) for _ in range(4)]
        for k in range(20):
            x = (x * 3, x + ranges[k % 4], x // 2, x % 60)[k % 4]
        made.append(x)
    return lib.sink(*made)


def shared(lib: Any, nodes: int, draw: Random) -> Node:
    """Layers of nodes, each over two of the layer before, of which many are read again."""
    layer: list[Node] = [lib.range(12) for _ in range(20)]
    for _ in range(max(nodes // 60, 1)):
        fresh = []
        for _ in range(20):
            p, q, k = draw.choice(layer), draw.choice(layer), draw.randint(2, 9)
            fresh.append(draw.choice(JOINS)(p, q, k))
        layer = fresh
    return lib.sink(*layer)


JOINS: list[Callable[[Node, Node, int], Node]] = [
    lambda p, q, k: (p + q) % k,
    lambda p, q, k: p * k // 3,
    lambda p, q, k: (p < k).where(p, q),
]


def masks(lib: Any, nodes: int, draw: Random) -> Node:
    """Conjunctions of comparisons."""
    made: list[Node] = []
    for _ in range(max(nodes // 40, 1)):
        p, q = lib.range(32), lib.range(32)
        clauses = [p + q < 50, q > 3, p < 30, p * 2 + q < 90, p + q > 2]
        made.append(lib.both(*draw.sample(clauses, 5)).where(p * 32 + q, 0))
    return lib.sink(*made)


def floats(lib: Any, nodes: int, draw: Random) -> Node:
    """Elementwise arithmetic on floats: nothing to do."""
    x, y = lib.float(lib.range(8)), lib.float(lib.range(8))
    for k in range(nodes):
        x = (x * y, x + 1.5, x * x, x + y)[k % 4]
    return lib.sink(x)


KINDS: dict[str, Callable[[Any, int, Random], Node]] = {
    "movement": movement,
    "long sum": long_sum,
    "chains": chains,
    "shared": shared,
    "masks": masks,
    "floats": floats,
}

#: More nodes than these take tinygrad minutes,
#: whose time grows faster than the graph: larger sizes become these.
MOST = {"long sum": 1000, "shared": 300}


def measure(lib: Any, kind: str, nodes: int, seed: int) -> tuple[float, float, int, int]:
    """Seconds of a rewrite, and of one of its result; the number of nodes before and after."""
    root = KINDS[kind](lib, nodes, Random(seed))  # noqa: S311  # a benchmark
    before = len(root.toposort())
    start = time.thread_time()
    after = lib.rewrite(root)
    middle = time.thread_time()
    lib.rewrite(after)
    end = time.thread_time()
    return middle - start, end - middle, before, len(after.toposort())


def rounds(kind: str, nodes: int, times: int) -> Iterator[tuple[Any, Any]]:
    for seed in range(times):
        pair = []
        for lib in (Ours, Theirs) if seed % 2 else (Theirs, Ours):
            gc.collect()
            pair.append((lib is Ours, measure(lib, kind, nodes, seed)))
        yield dict(pair)[True], dict(pair)[False]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", type=int, nargs="*", default=[1000, 5000])
    parser.add_argument("--alone", type=int, nargs="*", default=[100_000], help="sizes for our side alone")
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), choices=list(KINDS))
    parser.add_argument(
        "--sym", action="store_true", help="tinygrad's larger set, which simplifies masks as ours does"
    )
    parser.add_argument("--gc", action="store_true", help="leave the cyclic garbage collector on")
    args = parser.parse_args()
    Theirs.rules = tiny_sym if args.sym else tiny_symbolic
    for lib in (Ours, Theirs):
        measure(lib, "movement", 1000, 0)  # both compile their rules
    print("microseconds of CPU a node of ours: a rewrite, and one of its result (again); nodes left")
    print(f"tinygrad's rules: {'sym' if args.sym else 'symbolic'}")
    print(f"garbage collector {'on' if args.gc else 'off'}, medians of {args.rounds} rounds")
    print(
        f"{'graph':10}{'nodes':>8}"
        + f"{'ours':>9}{'theirs':>9}{'ratio':>7}"
        + f"{'again':>9}{'theirs':>9}{'left':>8}{'theirs':>8}"
    )
    if not args.gc:
        gc.disable()
    for kind in args.kinds:
        for nodes in sorted({min(n, MOST.get(kind, n)) for n in args.sizes}):
            print(row(kind, nodes, args.rounds), flush=True)
        for nodes in args.alone:
            seconds, again, before, after = measure(Ours, kind, nodes, 0)
            cells = f"{seconds / before * 1e6:9.1f}{'':16}{again / before * 1e6:9.1f}{'':9}{after:8}"
            print(f"{kind:10}{before:8}{cells}", flush=True)


def row(kind: str, nodes: int, times: int) -> str:
    """The medians of some rounds, as a line."""
    found = list(rounds(kind, nodes, times))
    size, theirs_left, left = (statistics.median(r[w][i] for r in found) for w, i in ((0, 2), (1, 3), (0, 3)))
    ours, theirs, again, theirs_again = (
        statistics.median(r[who][i] for r in found) / size * 1e6 for i in (0, 1) for who in (0, 1)
    )
    cells = f"{ours:9.1f}{theirs:9.1f}{ours / theirs:7.2f}{again:9.1f}{theirs_again:9.1f}"
    return f"{kind:10}{size:8.0f}{cells}{left:8.0f}{theirs_left:8.0f}"


if __name__ == "__main__":
    main()
