"""Memory under values: what is realized, what a graph reads, and how memory is freed. Week 5."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from uop_ir import Backend, DType, Ops, UOp, UopError
from uop_rewrite import bounds


@dataclass
class Held:
    """Bytes of memory under values: `now`, and the `most` since the process began.
    Scratch memory is not counted.
    """

    now: int = 0
    most: int = 0


HELD = Held()


class Memory:
    """Memory of a device; it goes back when the BUFFER that holds it dies."""

    __slots__ = ("backend", "handle", "nbytes")

    def __init__(self, backend: Backend, handle: Any, nbytes: int) -> None:
        self.backend = backend
        self.handle = handle
        self.nbytes = nbytes
        HELD.now += nbytes
        HELD.most = max(HELD.most, HELD.now)

    def __del__(self, finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if not finalizing():
            HELD.now -= self.nbytes
            self.backend.free(self.handle)


def new_buffer(backend: Backend, size: int, dtype: DType) -> UOp:
    """A BUFFER with memory, not initialized."""
    return buffer_of(backend, backend.allocate(size * dtype.itemsize), size, dtype)


def buffer_of(backend: Backend, handle: Any, size: int, dtype: DType) -> UOp:
    """A BUFFER of memory that is there already."""
    buffer = UOp.buffer(size, dtype, backend.name)
    buffer.memo["memory"] = Memory(backend, handle, size * dtype.itemsize)
    return buffer


def handle(buffer: UOp) -> Any:
    """What the backend knows the memory of a BUFFER by. Raises UopError for one without memory."""
    try:
        return buffer.memo["memory"].handle
    except KeyError:
        raise UopError(
            "a value that was traced by jit has no memory outside of the jitted function",
            remedy="return the tensor from the jitted function",
        ) from None


def extent(dim: int | UOp) -> int:
    """A dimension, a symbolic one at its greatest."""
    return dim if isinstance(dim, int) else int(bounds(dim)[1])


def numel(shape: Sequence[int | UOp]) -> int:
    """How many elements a shape has, symbolic dimensions at their greatest."""
    return prod(map(extent, shape))


def nbytes(value: UOp) -> int:
    """How many bytes a value takes in memory, symbolic dimensions at their greatest."""
    return numel(value.shape) * value.dtype.itemsize


def view(memory: UOp, shape: Sequence[int | UOp]) -> UOp:
    """Memory as a row-major value of a shape; of a symbolic shape, as much of the memory as it takes."""
    if all(isinstance(dim, int) for dim in shape):
        return memory.reshape(shape)
    size: int | UOp = 1
    for dim in shape:
        size = (
            dim if isinstance(size, int) and size == 1 else dim * size if isinstance(dim, UOp) else size * dim
        )
    return memory.shrink(((0, size),)).reshape(shape)


def base(value: UOp) -> UOp:
    """The node that a value is a RESHAPE of, or an AFTER without effects;
    the value itself where it is none.
    """
    while value.op is Ops.RESHAPE or (value.op is Ops.AFTER and len(value.src) == 1):
        value = value.src[0]
    return value


def whole_buffer(value: UOp) -> UOp | None:
    """The BUFFER of a realized value; None for any other value."""
    found = base(value)
    return found if found.op is Ops.BUFFER else None


def buffers(value: UOp) -> frozenset[UOp]:
    """All BUFFERs that a value reads. Kept in its memo, unless it is one: that would keep itself alive."""
    whole = whole_buffer(value)
    if whole is not None:
        return frozenset({whole})
    if "tensor.buffers" not in value.memo:
        found = frozenset(n for n in value.toposort() if n.op is Ops.BUFFER)
        value.memo["tensor.buffers"] = found
    kept: frozenset[UOp] = value.memo["tensor.buffers"]
    return kept
