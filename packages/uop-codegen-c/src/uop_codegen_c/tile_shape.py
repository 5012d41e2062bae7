"""Tile shape: how many rows and vectors of accumulators make a product fastest,
by what a core does in a cycle. Week 6.
"""

from __future__ import annotations

from collections.abc import Callable

#: Rows and vectors of a tile of accumulators that are tried.
ROWS, VECTORS = (8, 6, 5, 4, 3, 2, 1), (4, 3, 2, 1)
#: What a core does in a cycle, about: so many fused multiply-adds and loads of vectors; and the cycles after
#: which an accumulator can be added to again.
ADDS, LOADS, LATENCY = 2, 2, 5
#: Cycles that a load takes although others hide it:
#: of two tiles with the same rate the one with fewer loads is better.
LOAD_COST = 0.05


def cycles(rows: int, vectors: int) -> float:
    """Cycles of one step of the reduction in a tile:
    what is scarcest of the adders, the loads, and the latency.
    """
    loads = rows + vectors
    return max(rows * vectors / ADDS, loads / LOADS, LATENCY) + LOAD_COST * loads


def total_cycles(rows: int, vectors: int, height: int, width: int, lanes: int) -> float:
    """Cycles of one step for all tiles of a height in elements and a width,
    with what is left at the two ends.
    """
    across = [(width // (lanes * vectors), vectors), (1, width % (lanes * vectors) // lanes)]
    across.append((1 if width % lanes else 0, 1))
    down = [(height // rows, rows), (1, height % rows)]
    return sum(m * n * cycles(r, v) for m, r in down if m and r for n, v in across if n and v)


def best_tile(
    height: int, width: int, lanes: int, registers: int, allowed: Callable[[int, int], bool]
) -> tuple[int, int]:
    """Rows and vectors that take the fewest cycles, where accumulators,
    a row of vectors and two more fit the registers.

    `allowed` says whether a shape other than (1, 1) may be taken.
    """
    best, found = total_cycles(1, 1, height, width, lanes), (1, 1)
    for rows in (r for r in ROWS if r <= height):
        for vectors in (v for v in VECTORS if lanes * v <= width):
            fits = rows * vectors + vectors + 2 <= registers
            cost = total_cycles(rows, vectors, height, width, lanes)
            if fits and cost < best and allowed(rows, vectors):
                best, found = cost, (rows, vectors)
    return found
