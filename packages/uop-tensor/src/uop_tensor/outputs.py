"""Memory for the results of a replay: that of a result which nobody holds any more is used again. Week 5.

To make memory, the BUFFER that names it and a view of that takes 20 us; to use them again takes 1 us. That
nobody holds them is read from their reference counts, which CPython keeps exactly: a tensor, a graph or an
exported array is one reference more than there was when nobody had the result yet. Measured by
benchmarks/jit.py.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from typing import Any

from uop_ir import Backend, DType, UOp

from .memory import new_buffer, view

#: How many are watched. `loss = step(...)` holds the last result while the next is computed, and so needs
#: two.
WATCHED = 2
TRIES = range(WATCHED)
_unequal = itertools.count()
#: Where Python does not count, never the same number.
_count: Callable[[object], int] = getattr(sys, "getrefcount", lambda _: next(_unequal))
#: A view of the shape of the result, its BUFFER and its Memory.
Entry = tuple[UOp, UOp, Any]


class Output:
    """The memory of one result."""

    def __init__(
        self, backend: Backend, size: int, dtype: DType, shape: tuple[int | UOp, ...], cut: bool
    ) -> None:
        """`cut`: the result depends on a parameter, to which `backward` would not come from here."""
        self._backend, self._size, self._dtype, self._shape, self._cut = backend, size, dtype, shape, cut
        self._lent: list[Entry] = [self._new()]
        self._alone: tuple[int, ...] = ()
        self.take()  # nobody holds it: it tells how many references that makes

    def take(self) -> Entry:
        """Memory that nobody else holds. A thread that counts has taken the entry from the list, and holds
        its parts when it puts the entry back, and ever after: it returns the parts, not the entry, which
        others find in the list.
        """
        lent = self._lent
        for _ in TRIES:
            try:
                entry = lent.pop(0)
            except IndexError:  # there are fewer, or another thread has it
                break
            value, buffer, memory = entry
            references = _count(value), _count(buffer), _count(memory)
            lent.append(entry)
            if references == (self._alone or references) and "tensor.kept" not in buffer.memo:
                self._alone = references
                if self._cut:
                    buffer.memo["tensor.cut"] = True
                else:  # what was there may have been cut off, by realize
                    buffer.memo.pop("tensor.cut", None)
                return value, buffer, memory
        del lent[: 1 - WATCHED]  # they are kept: no business of ours
        value, buffer, memory = entry = self._new()
        lent.append(entry)
        return value, buffer, memory

    def _new(self) -> Entry:
        buffer = new_buffer(self._backend, self._size, self._dtype)
        if self._cut:
            buffer.memo["tensor.cut"] = True
        return view(buffer, self._shape), buffer, buffer.memo["memory"]
