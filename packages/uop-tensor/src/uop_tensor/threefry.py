"""Random bits: blocks of the cipher Threefry by their number,
and the stream from which they are drawn. Week 5.

Block n of a seed is a function of both, so that numbers are the same on every backend and in any order. What
is drawn within jit reads the stream as two scalars that each replay sets:
it draws what the calls of the function would draw.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import index

import numpy as np

from uop_ir import Ops, Param, UOp, dtypes

from .creation import count
from .data import from_array
from .errors import TensorError
from .live import Capture, capture

Words = tuple[UOp, UOp]

#: By how many bits each round turns a word: four rounds, then the next four, and so on.
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA
WRAP = 1 << 64
#: The stream within jit.
SEED, DRAWN = (UOp(Ops.PARAM, (), Param(dtypes.u64, name=name)) for name in ("random_seed", "random_drawn"))


@dataclass
class Stream:
    """A seed, and how many of its blocks have been drawn."""

    seed: int = 0
    drawn: int = 0

    def scalars(self) -> dict[str, float | int]:
        """The values of SEED and DRAWN for a replay."""
        return {SEED.arg.name: self.seed, DRAWN.arg.name: self.drawn}

    def advance(self, seed: int | None, drawn: int) -> None:
        """Go on by what a function has drawn; `seed`: the one that it has started, if any."""
        if seed is not None:
            self.seed, self.drawn = seed, 0
        self.drawn = (self.drawn + drawn) % WRAP


STREAM = Stream()


def manual_seed(seed: int) -> None:
    """Start the random numbers of this process anew: the same seed gives the same bits on every backend.

    Within jit, each replay starts anew. Raises TensorError for what is no integer from -2**63 to 2**64 - 1.
    """
    try:
        number = index(seed)
    except TypeError:
        number = WRAP
    if not -(WRAP >> 1) <= number < WRAP:
        raise TensorError(f"manual_seed: {seed!r}", remedy="an integer from -2**63 to 2**64 - 1")
    trace = capture()
    if trace is None:
        STREAM.advance(number % WRAP, 0)
    else:
        trace.seed, trace.drawn = number % WRAP, 0


def get_rng_state() -> tuple[int, int]:
    """The seed, and how many blocks of it are drawn:
    what `set_rng_state` takes. Raises JitError within jit.
    """
    _refuse_trace("get_rng_state")
    return STREAM.seed, STREAM.drawn


def set_rng_state(state: tuple[int, int]) -> None:
    """Go on with random numbers where `get_rng_state` was called.
    Raises JitError within jit, TensorError for what is no state.
    """
    _refuse_trace("set_rng_state")
    try:
        seed, drawn = map(index, state)
    except (TypeError, ValueError):
        seed = drawn = -1
    if not (0 <= seed < WRAP and 0 <= drawn < WRAP):
        raise TensorError(f"set_rng_state: {state!r}", remedy="what get_rng_state has returned")
    STREAM.seed, STREAM.drawn = seed, drawn


def _refuse_trace(method: str) -> None:
    trace = capture()
    if trace is not None:
        trace.forbid(method, "call it outside of the jitted function")


def threefry(key: Words, counter: Words) -> Words:
    """Threefry-2x32 with 20 rounds (Salmon, Moraes, Dror, Shaw:
    Parallel random numbers: as easy as 1, 2, 3; 2011).

    Each u32. The shapes of key and counter broadcast.
    """
    keys = (*key, key[0] ^ key[1] ^ PARITY)
    x, y = counter[0] + keys[0], counter[1] + keys[1]
    for group in range(5):
        for bits in ROTATIONS[group % 2]:
            x = x + y
            y = ((y << y.const_like(bits)) | (y >> y.const_like(32 - bits))) ^ x
        x, y = x + keys[(group + 1) % 3], y + (keys[(group + 2) % 3] + (group + 1))
    return x, y


def draw(n: int, each: int = 1, device: str | None = None) -> list[Words]:
    """`each` blocks for each of n numbers, and the stream goes on:
    block j of all numbers is two u32 of shape (n,).

    Raises TensorError for more than 2**32 blocks.
    """
    if n * each > 1 << 32:
        raise TensorError(f"{n * each} random blocks at once", remedy="draw at most 2**32")
    seed, first = _taken(n * each, device)
    low, high = _halves(first)
    numbers = count(n, dtypes.u32)
    blocks = []
    for j in range(each):
        block = numbers * each + j + low
        blocks.append(threefry(_halves(seed), (block, high + (block < low).cast(dtypes.u32))))
    return blocks


def _taken(blocks: int, device: str | None) -> tuple[UOp, UOp]:
    """The seed and the first of so many blocks, scalars of u64:
    memory, so that a kernel serves for all values.
    """
    trace = capture()
    if trace is not None:
        return _traced(trace, blocks)
    state = from_array(np.array([STREAM.seed, STREAM.drawn], np.uint64), device)
    STREAM.advance(None, blocks)
    return state.shrink(((0, 1),)).reshape(()), state.shrink(((1, 2),)).reshape(())


def _traced(trace: Capture, blocks: int) -> tuple[UOp, UOp]:
    drawn = trace.drawn
    trace.drawn += blocks
    if trace.seed is None:
        return SEED, DRAWN + drawn
    return UOp.const(dtypes.u64, trace.seed), UOp.const(dtypes.u64, drawn)


def _halves(x: UOp) -> Words:
    return x.cast(dtypes.u32), (x >> x.const_like(32)).cast(dtypes.u32)
