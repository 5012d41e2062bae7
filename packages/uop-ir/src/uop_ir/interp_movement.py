"""Movement ops on arrays: views of NumPy wherever there is one. Week 1."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .errors import BoundsError, VerifyError
from .ops import Ops
from .uop import UOp

Array: TypeAlias = "npt.NDArray[Any]"


def _fill(entries: Sequence[int | None], symbolic: Iterator[int]) -> list[int]:
    return [next(symbolic) if e is None else e for e in entries]


def _pairs(node: UOp, sizes: list[int]) -> list[tuple[int, int]]:
    flat = _fill([e for pair in node.arg for e in pair], iter(sizes))
    return list(zip(flat[::2], flat[1::2], strict=True))


def _reshape(node: UOp, x: Array, sizes: list[int]) -> Array:
    shape = _fill(node.arg, iter(sizes))
    if int(np.prod(shape, dtype=object)) != x.size:
        raise VerifyError(f"{node.op!r}: shape {x.shape} does not have as many elements as {tuple(shape)}")
    return x.reshape(shape)


def _with_room(shape: Sequence[int], itemsize: int) -> Sequence[int]:
    """The shape of an array that may exist. Raises MemoryError where a machine cannot count its bytes."""
    if prod(n for n in shape if n) * itemsize > sys.maxsize:
        raise MemoryError(f"an array of shape {tuple(shape)}")
    return shape


def _expand(node: UOp, x: Array, sizes: list[int]) -> Array:
    return np.broadcast_to(x, _with_room(_fill(node.arg, iter(sizes)), x.itemsize))


def _permute(node: UOp, x: Array, sizes: list[int]) -> Array:
    return x.transpose(node.arg)


def _flip(node: UOp, x: Array, sizes: list[int]) -> Array:
    return x[tuple(slice(None, None, -1 if reverse else 1) for reverse in node.arg)]


def _pad(node: UOp, x: Array, sizes: list[int]) -> Array:
    pairs = _pairs(node, sizes)
    if any(width < 0 for pair in pairs for width in pair):
        raise BoundsError(f"{node.op!r}: negative width in {pairs}")
    shape = [b + s + a for s, (b, a) in zip(x.shape, pairs, strict=True)]
    out = np.zeros(_with_room(shape, x.itemsize), x.dtype)
    out[tuple(slice(b, b + s) for s, (b, _) in zip(x.shape, pairs, strict=True))] = x
    return out


def _shrink(node: UOp, x: Array, sizes: list[int]) -> Array:
    pairs = _pairs(node, sizes)
    for size, (begin, end) in zip(x.shape, pairs, strict=True):
        if not 0 <= begin <= end <= size:
            raise BoundsError(f"{node.op!r}: part ({begin}, {end}) of an axis of {size}")
    return x[tuple(slice(*pair) for pair in pairs)]


#: For each movement op its result, from the array and the values of the symbolic sizes.
MOVEMENT: dict[Ops, Callable[[UOp, Array, list[int]], Array]] = {
    Ops.RESHAPE: _reshape,
    Ops.EXPAND: _expand,
    Ops.PERMUTE: _permute,
    Ops.FLIP: _flip,
    Ops.PAD: _pad,
    Ops.SHRINK: _shrink,
}
