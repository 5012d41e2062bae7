"""The values around a jitted function as a replay meets them:
where they are, and that no one else reads a state. Week 5.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

from uop_ir import Ops, UOp, dtypes, get_backend

from .captured import Captured, State
from .live import alive
from .memory import buffers, handle, new_buffer, whole_buffer
from .tensor import Tensor

_count = getattr(sys, "getrefcount", None)


class Found(NamedTuple):
    """What a call has found. `tensors` give those that are there, and `values` are theirs; `handles`: the
    memory of each captured value. Of the states, `counted` has the value and the BUFFER of each, `fewest` how
    many references there are to these where nobody else has any, and `memos` the memo of each BUFFER.
    """

    tensors: list[Callable[[], Any]]
    values: list[UOp]
    handles: list[Any]
    counted: list[UOp]
    fewest: list[int]
    memos: list[dict[str, Any]]


class Outside:
    """The captured values and the states of a trace.

    Between two calls of a training step nothing moves: what a call has found is kept, and the next one
    compares it as lists, in a tenth of the time that it takes to ask each value by itself
    (benchmarks/jit.py).
    """

    def __init__(self, captured: Sequence[Captured], states: Sequence[State]) -> None:
        self._captured, self._states = captured, states
        self.last: Found | None = None

    def valid(self) -> bool:
        """Whether the tensors still exist, with values of the shapes and dtypes that were traced."""
        last = self.last
        if last is not None:
            try:
                if [find().uop for find in last.tensors] == last.values:
                    return True
            except AttributeError:  # one is gone
                pass
            self.last = None
        return all(map(Captured.valid, self._captured))

    def memory(self, arguments: Sequence[Tensor]) -> Sequence[Any]:
        """The memory of each captured value, after `valid` was asked. Gives each state memory that neither an
        argument nor another tensor reads.
        """
        found = self.last
        if found is None or not alone(found):
            self.last = found = None  # it has references, which are counted
            found = self._look(arguments)
        for memo in found.memos:  # a new value has not been cut off from `backward`
            memo.pop("tensor.cut", None)
        return found.handles

    def _look(self, arguments: Sequence[Tensor]) -> Found:
        """Look at each value by itself, and keep what is found for the next call."""
        for captured in self._captured:
            captured.memory()
        found = self._snapshot(self._fewest())
        if not alone(found):
            self._own_states([whole_buffer(t.uop) for t in arguments])
            found = self._snapshot(self._fewest())
        gone = len(found.tensors) < sum(len(captured.tensors) for captured in self._captured)
        # one that is gone may come back (a gradient); of what has parted, the next call has a trace of its
        # own
        if not gone and not any(captured.parted for captured in self._captured):
            self.last = found
        return found

    def _fewest(self) -> list[int]:
        values = [(state.captured.last, state.captured.memory()) for state in self._states]
        return [
            count
            for value, buffer in values
            for count in (
                _references(value is buffer) if value is buffer or value.src == (buffer,) else (0, 0)
            )
        ]

    def _snapshot(self, fewest: list[int]) -> Found:
        tensors = [find for captured in self._captured for find in captured.tensors]
        there = [(find, tensor.uop) for find in tensors if (tensor := find()) is not None]
        states = [(state.captured.last, state.captured.memory()) for state in self._states]
        return Found(
            [find for find, _ in there],
            [value for _, value in there],
            [handle(captured.memory()) for captured in self._captured],
            [node for state in states for node in state],
            fewest,
            [buffer.memo for _, buffer in states],
        )

    def _own_states(self, arguments: Sequence[UOp | None]) -> None:
        """Give each state memory that nobody else reads: a copy, where an argument or another tensor does."""
        owner: dict[UOp, State] = {}
        own: dict[int, UOp] = {}
        for state in self._states:
            tensor = state.tensor()
            if tensor is not None:
                buffer = state.captured.memory()
                if buffer in owner or buffer in arguments or "tensor.kept" in buffer.memo:
                    state.leave()
                    buffer = state.captured.memory()
                owner[buffer] = state
                own[id(tensor)] = buffer
        shared: dict[UOp, None] = {}
        for other in alive():
            value = other.uop
            memory = value.src[0] if value.op is Ops.RESHAPE else value
            # most are a BUFFER: to look at them takes half as long as `buffers`
            for buffer in (memory,) if memory.op is Ops.BUFFER else buffers(value):
                if buffer in owner and own.get(id(other)) is not buffer:
                    shared[buffer] = None
        for buffer in shared:
            owner[buffer].leave()


def alone(found: Found) -> bool:
    """Whether nothing else can read the memory of the states, as far as reference counts tell: 0.1 us a
    state, where to look at every tensor that is alive takes 0.2 us for each of those.
    """
    if not found.counted:
        return True
    if _count is None or list(map(_count, found.counted)) != found.fewest:
        return False
    return not any(["tensor.kept" in memo for memo in found.memos])  # noqa: C419  # a generator takes 0.3 us more


@cache
def _references(whole: bool) -> list[int]:
    """The references to the value of a state and to its BUFFER that nobody else has;
    `whole`: they are one node.
    """
    buffer = new_buffer(get_backend("INTERP"), 1, dtypes.f32)
    tensor = Tensor._of(buffer if whole else buffer.reshape((1, 1)))
    ref = weakref.ref(tensor)
    captured = Captured([ref], tensor.uop, UOp.const(dtypes.f32, 0.0))
    captured.buffer = buffer
    del buffer
    found = Outside([captured], [State(captured, ref)])._snapshot([])
    return list(map(_count, found.counted)) if _count is not None else []
