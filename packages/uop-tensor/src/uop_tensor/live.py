"""Which tensors are alive, and which jitted function is being traced. Week 5.

`realize` and `jit` know tensors by what they have (`Lazy`), so that the Tensor class can stand on both.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from uop_ir import UOp, UopError


class JitError(UopError):
    """What a jitted function may not do while it is traced."""

    exit_code = 1


class Lazy(Protocol):
    """A tensor: its value, and the BUFFER whose memory an `assign` has left to that value."""

    uop: UOp
    _assign_target: UOp | None


class Capture:
    """What has happened since the trace of a jitted function began."""

    def __init__(self, name: str) -> None:
        self.name = name
        #: Tensors that were assigned, in order of their first assignment.
        self.assignments: dict[int, Lazy] = {}
        #: The seed that `manual_seed` has given, and the random blocks drawn since then or since the beginning.
        self.seed: int | None = None
        self.drawn = 0

    def assigned(self, tensor: Lazy) -> None:
        """Note that `tensor` was given a new value by `assign`."""
        self.assignments.setdefault(id(tensor), tensor)

    def forbid(self, method: str, remedy: str | None = None) -> None:
        """Raise JitError: `method` needs a value, and a trace has none. Without a remedy, the result is to be asked."""
        raise JitError(
            f"{method} asks for a value while {self.name} is traced by jit, where nothing has run yet",
            remedy=remedy or f"return the tensor from {self.name} and call {method} on the result",
        )


#: Every tensor that is alive.
LIVE: weakref.WeakSet[Lazy] = weakref.WeakSet()
_captures: list[Capture] = []


def register(tensor: Lazy) -> None:
    """Enter a new tensor; each tensor does so once, when it is made."""
    LIVE.add(tensor)


def capture() -> Capture | None:
    """The trace that is going on, or None."""
    return _captures[-1] if _captures else None


@contextmanager
def tracing(name: str) -> Iterator[Capture]:
    """Trace for the time of a with block; one trace does not stand inside another."""
    assert not _captures, "a jitted function that is called within a trace is part of that trace"
    found = Capture(name)
    _captures.append(found)
    try:
        yield found
    finally:
        _captures.pop()
