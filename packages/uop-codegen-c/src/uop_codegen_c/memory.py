"""Memory that kernels use: blocks of bytes, each behind a pointer to what C knows of it. Week 3.

The pointer is the handle that the stack above holds, so that a plan's inputs go to C as they are given: to
take them out of a Python object took 0.2 us a launch, and 0.06 us more for each after the first.
"""

from __future__ import annotations

import weakref
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from uop_ir import BackendError

from .loader import ffi

ALIGNMENT = 64
STRUCT = """\
struct uop_memory {
    void *data;
    int64_t size;            /* in bytes; -1 once it is freed */
};
"""
#: To Python the pointer is an integer; and types are parsed once:
#: a memory is made in 4 us that way, not in 8.
ffi.cdef(STRUCT.replace("void *data", "uintptr_t data"))
HANDLE, ADDRESS = ffi.typeof("struct uop_memory *"), ffi.typeof("uintptr_t")
#: A cffi pointer to a `struct uop_memory`.
Memory: TypeAlias = Any
#: The bytes of each memory, for as long as its handle lives.
_bytes: weakref.WeakKeyDictionary[Memory, npt.NDArray[np.uint8]] = weakref.WeakKeyDictionary()


def allocate(nbytes: int) -> Memory:
    """Memory of so many bytes, aligned to 64, not initialized.
    Raises BackendError where there is not so much.
    """
    if nbytes < 0:
        raise BackendError(f"cannot allocate {nbytes} bytes")
    try:
        block = np.empty(nbytes + ALIGNMENT, np.uint8)
    except (MemoryError, ValueError):
        raise BackendError(f"cannot allocate {nbytes} bytes") from None
    start = int(ffi.cast(ADDRESS, ffi.from_buffer(block)))
    skip = -start % ALIGNMENT
    memory = ffi.new(HANDLE, (start + skip, nbytes))
    _bytes[memory] = block[skip : skip + nbytes]
    return memory


def adopt(data: npt.NDArray[np.uint8]) -> Memory:
    """Memory that is the bytes of a contiguous array, at whatever address."""
    memory = ffi.new(HANDLE, (int(ffi.cast(ADDRESS, ffi.from_buffer(data))), len(data)))
    _bytes[memory] = data
    return memory


def free(memory: Memory) -> None:
    """Give the bytes back. The handle is of no use afterwards."""
    _bytes.pop(memory, None)
    memory.data, memory.size = 0, -1


def bytes_of(memory: Memory) -> npt.NDArray[np.uint8]:
    """The bytes themselves. Raises BackendError where they were freed."""
    found = _bytes.get(memory)
    if found is None:
        raise BackendError("copy of memory that has been freed")
    return found
