"""Banks: what the accesses of a warp to shared memory cost,
and the padding of rows that makes it least. Week 8.

Shared memory has 32 banks of 4 bytes. A request of a warp takes as many wavefronts as the busiest bank has
distinct words of it: lanes that ask for one word share it,
lanes that ask for several words of one bank wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

#: Lanes of a warp, banks, bytes of a word of a bank.
WARP, BANKS, WORD = 32, 32, 4


@dataclass(frozen=True)
class Access:
    """What a thread does `times` a step with element
    `row * width + column + x * along_x + y * along_y` of a tile.

    The width of a row is to be found; `row` is the part of x and y that counts rows: 1 for the one that does.
    """

    times: int
    row_x: int = 0
    row_y: int = 0
    along_x: int = 0
    along_y: int = 0


def wavefronts(elements: Sequence[int], itemsize: int) -> int:
    """What one request for these elements takes, at most one for each lane of a warp.

    Elements of 8 bytes are two requests, of the lower lanes and the upper ones.
    """
    if itemsize > WORD:
        half = len(elements) * WORD // itemsize
        parts = [elements[at : at + half] for at in range(0, len(elements), half)]
        return sum(
            _busiest({e * itemsize // WORD + i for e in p for i in range(itemsize // WORD)}) for p in parts
        )
    return _busiest({e * itemsize // WORD for e in elements})


def _busiest(words: Iterable[int]) -> int:
    counts = [0] * BANKS
    for word in words:
        counts[word % BANKS] += 1
    return max(counts)


def step_cost(accesses: Sequence[Access], width: int, itemsize: int, threads: tuple[int, int]) -> int:
    """Wavefronts of a block of threads, x and y, in one step, where a row of the tile has this width."""
    lanes = [(t % threads[0], t // threads[0]) for t in range(threads[0] * threads[1])]
    total = 0
    for access in accesses:
        at = [
            (x * access.row_x + y * access.row_y) * width + x * access.along_x + y * access.along_y
            for x, y in lanes
        ]
        warps = [at[start : start + WARP] for start in range(0, len(at), WARP)]
        total += access.times * sum(wavefronts(warp, itemsize) for warp in warps)
    return total


def best_padding(accesses: Sequence[Access], width: int, itemsize: int, threads: tuple[int, int]) -> int:
    """The least number of elements behind a row of a tile with which a step takes the fewest wavefronts."""
    return min(range(BANKS), key=lambda pad: (step_cost(accesses, width + pad, itemsize, threads), pad))
