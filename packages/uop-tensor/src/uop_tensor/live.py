"""Which tensors are alive, and which jitted function is being traced. Week 5.

`realize` and `jit` know tensors by what they have (`Lazy`), so that the Tensor class can stand on both.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, get_ident
from time import monotonic, sleep
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
        self.thread = get_ident()
        #: Tensors that were assigned, in order of their first assignment.
        self.assignments: dict[int, Lazy] = {}
        #: The seed that `manual_seed` has given, and the random blocks drawn since then or since the
        #: beginning.
        self.seed: int | None = None
        self.drawn = 0
        #: Tensors that other threads have made meanwhile, perhaps of placeholders.
        self.foreign: list[Lazy] = []

    def assigned(self, tensor: Lazy) -> None:
        """Note that `tensor` was given a new value by `assign`."""
        self.assignments.setdefault(id(tensor), tensor)

    def forbid(self, method: str, remedy: str | None = None) -> None:
        """Raise JitError: `method` needs a value, and a trace has none.
        Without a remedy, the result is to be asked.
        """
        raise JitError(
            f"{method} asks for a value while {self.name} is traced by jit, where nothing has run yet",
            remedy=remedy or f"return the tensor from {self.name} and call {method} on the result",
        )


#: Every tensor that is alive. The references take themselves out: a WeakSet does so in Python, and takes 0.5
#: us more.
_alive: set[weakref.ref[Lazy]] = set()
_forget = _alive.discard
#: How long a thread waits for another one to end its trace, in seconds.
PATIENCE = 60.0
_current: Capture | None = None
#: Whoever traces has it.
_lock = Lock()
#: The threads that read and store values, as often as they have begun to: a trace waits for the others.
_working: list[int] = []


def register(tensor: Lazy) -> None:
    """Enter a new tensor; each tensor does so once, when it is made."""
    _alive.add(weakref.ref(tensor, _forget))
    found = _current
    if found is not None and found.thread != get_ident():
        found.foreign.append(tensor)


def capture() -> Capture | None:
    """The trace that is going on in this thread, or None. Where another thread traces, and tensors are
    placeholders, it is waited for.

    Raises JitError where that takes too long: the other one may wait for this one.
    """
    found = _current
    if found is None or found.thread == get_ident():
        return found
    if get_ident() not in _working:  # else the trace waits for this thread
        _wait(found)
    return None


def begin_work() -> Capture | None:
    """As `capture`, and from here to `end_work` no other thread begins a trace; one that does so is waited
    for. Where it raises, `end_work` is due too.
    """
    thread = get_ident()
    _working.append(thread)  # first: whoever begins a trace looks here after it has said so
    while (found := _current) is not None and found.thread != thread and _working.count(thread) == 1:
        _working.remove(thread)
        try:
            _wait(found)
        finally:
            _working.append(thread)
    return found if found is not None and found.thread == thread else None


def end_work() -> None:
    """The end of what `begin_work` has begun."""
    _working.remove(get_ident())


@contextmanager
def tracing(name: str) -> Iterator[Capture]:
    """Trace for the time of a with block; one trace does not stand inside another."""
    global _current
    assert capture() is None, "a jitted function that is called within a trace is part of that trace"
    with _lock:
        _current = Capture(name)
        try:
            _let_others_end(name)
            yield _current
        finally:
            _current = None


def _let_others_end(name: str) -> None:
    end = monotonic() + PATIENCE
    while any(thread != get_ident() for thread in tuple(_working)):
        if monotonic() > end:
            raise JitError(
                f"{name} is to be traced by jit, and another thread computes for more than {PATIENCE:g} s",
                remedy=f"call {name} once before threads begin, or let them not wait for it while they compute",
            )
        sleep(1e-4)


def alive() -> list[Lazy]:
    """Every tensor that is alive. The copy is one step: other threads may make tensors meanwhile."""
    return [tensor for ref in _alive.copy() if (tensor := ref()) is not None]


def _wait(found: Capture) -> None:
    if not _lock.acquire(timeout=PATIENCE):
        raise JitError(
            f"{found.name} is traced by another thread for more than {PATIENCE:g} s",
            remedy=f"call {found.name} once before threads begin, or let it not wait for them",
        )
    _lock.release()
