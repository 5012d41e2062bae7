"""Memory for the results of a replay: that of a result which nobody holds any more is used again. Week 5.

To make memory, the BUFFER that names it and a view of that takes 20 us; to use them again takes 1 us. That nobody holds
them is read from their reference counts, which CPython keeps exactly: a tensor, a graph or an exported array is one
reference more than there was when nobody had the result yet. Measured by benchmarks/jit.py.
"""

from __future__ import annotations

import sys
from typing import Any

from uop_ir import Backend, DType, UOp

from .memory import new_buffer, view

#: How many are watched. `loss = step(...)` holds the last result while the next is computed, and so needs two.
WATCHED = 2
_count = getattr(sys, "getrefcount", None)
#: A view of the shape of the result, its BUFFER and its Memory.
Entry = tuple[UOp, UOp, Any]


class Output:
    """The memory of one result."""

    def __init__(self, backend: Backend, size: int, dtype: DType, shape: tuple[int | UOp, ...]) -> None:
        self._backend, self._size, self._dtype, self._shape = backend, size, dtype, shape
        self._lent: list[Entry] = []
        self._alone = _references(self._new())

    def take(self) -> Entry:
        """Memory that nobody else holds. A thread that counts has taken the entry from the list, and holds its parts when
        it puts the entry back.
        """
        for _ in range(len(self._lent)):
            try:
                entry = self._lent.pop(0)
            except IndexError:  # another thread has it
                break
            free = _references(entry) == self._alone and "tensor.kept" not in entry[1].memo
            value, buffer, memory = entry
            self._lent.append(entry)
            if free:
                return value, buffer, memory
        del self._lent[: 1 - WATCHED]  # they are kept: no business of ours
        value, buffer, memory = entry = self._new()
        self._lent.append(entry)
        return value, buffer, memory

    def _new(self) -> Entry:
        buffer = new_buffer(self._backend, self._size, self._dtype)
        return view(buffer, self._shape), buffer, buffer.memo["memory"]


def _references(entry: Entry) -> tuple[int, ...]:
    """How many there are to each part; where Python does not count, never the same number."""
    value, buffer, memory = entry
    return (_count(value), _count(buffer), _count(memory)) if _count is not None else (id(entry),)
