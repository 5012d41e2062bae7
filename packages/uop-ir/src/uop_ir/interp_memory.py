"""Memory in the interpreter: places named by INDEX, reads and writes, every one of them checked. Week 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .dtype import DType, dtypes
from .errors import BoundsError
from .inspection import expression
from .uop import UOp
from .walks import base

Array: TypeAlias = "npt.NDArray[Any]"


@dataclass(frozen=True)
class Place:
    """What an INDEX names: elements `at` of `memory`, those where `valid`. A scalar position is an int."""

    node: UOp
    memory: Array
    at: Any
    valid: Any


def scratch(size: int, dtype: DType) -> Array:
    """Memory that nothing has been written to: NaN for floats, -1 or the greatest value for integers."""
    if dtype is dtypes.bool:
        return np.ones(size, np.bool_)
    return np.full(size * dtype.itemsize, 0xFF, np.uint8).view(dtype.numpy)


def read(place: Place) -> Array:
    """The elements; 0 where invalid. Raises BoundsError where a valid position is outside of the memory."""
    if type(place.at) is int and isinstance(place.valid, bool):
        if not place.valid:
            return np.zeros((), place.memory.dtype)
        _check(place, place.at, place.at)
        value: Array = place.memory[place.at]
        return value
    at, valid = _several(place)
    out = np.zeros(at.shape, place.memory.dtype)
    out[valid] = place.memory[at[valid]]
    return out


def write(place: Place, value: Array) -> None:
    """Store where valid. Raises BoundsError where a valid position is outside of the memory."""
    if type(place.at) is int and isinstance(place.valid, bool):
        if place.valid:
            _check(place, place.at, place.at)
            place.memory[place.at] = value
        return
    at, valid = _several(place)
    place.memory[at[valid]] = np.broadcast_to(value, at.shape)[valid]


def _several(place: Place) -> tuple[Array, Array]:
    """Positions and validity as arrays of one shape; the valid positions are inside of the memory."""
    at, valid = np.broadcast_arrays(np.asarray(place.at, np.int64), np.asarray(place.valid, np.bool_))
    if valid.any():
        _check(place, int(at[valid].min()), int(at[valid].max()))
    return at, valid


def _check(place: Place, least: int, most: int) -> None:
    size = len(place.memory)
    if least < 0 or most >= size:
        wrong = least if least < 0 else most
        what = f"{expression(place.node)}: element {wrong} of {name(place.node.src[0])}, which has {size}"
        raise BoundsError(what, node=place.node)


def name(node: UOp) -> str:
    """Memory as an error names it."""
    node = base(node)
    slot = getattr(node.arg, "slot", None)
    return f"a {node.op.value}" if slot is None else f"{node.op.value} slot={slot}"
