"""Replay: run what jit has traced, on the arguments of a call and the tensors as they are now. Week 5."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass

from uop_ir import UOp

from .jit_tree import Tree
from .live import LIVE
from .memory import buffers, whole_buffer
from .program import Program
from .realize import duplicate
from .tensor import Tensor


class Captured:
    """A value from outside that a trace uses: the live tensors that have it, and its last known BUFFER."""

    def __init__(self, tensors: Sequence[Tensor], placeholder: UOp) -> None:
        self.tensors = [weakref.ref(t) for t in tensors]
        self.placeholder = placeholder
        self.last = tensors[0].uop

    def alive(self) -> list[Tensor]:
        """Those of the tensors that still exist."""
        return [t for ref in self.tensors if (t := ref()) is not None]

    def valid(self) -> bool:
        """Whether they still have one value, of the shape and dtype that were traced."""
        values = {t.uop for t in self.alive()}
        traced = self.placeholder
        return len(values) < 2 and all(v.shape == traced.shape and v.dtype is traced.dtype for v in values)

    def realize(self) -> None:
        """Compute the value, where it is not memory yet."""
        tensors = self.alive()
        if tensors:
            _realize(tensors)
            self.last = tensors[0].uop

    def buffer(self) -> UOp:
        """The BUFFER of the value, once it is realized."""
        found = whole_buffer(self.last)
        assert found is not None
        return found


@dataclass
class State:
    """A tensor that the function assigns: its new value is stored over the old one."""

    captured: Captured
    tensor: weakref.ref[Tensor]

    def leave(self) -> None:
        """Go to a copy of the memory, and leave the old one to the others that read it."""
        tensor = self.tensor()
        assert tensor is not None
        tensor.uop = self.captured.last = duplicate(tensor.uop)


@dataclass
class Replay:
    """A program, where its inputs come from, and where its results go.

    `sources`, one a BUFFER of the program: the number of an argument, a captured value, or a BUFFER that the trace
    has filled. `results`, one a tensor of the result: the number of an argument, a tensor from outside, or the type
    and shape of a new tensor; those come first among the stored values, in order. Then come the new values of the
    arguments in `assigned`, then the states.
    """

    program: Program | None
    sources: Sequence[int | Captured | UOp]
    states: Sequence[State]
    result: Tree
    results: Sequence[int | Tensor | tuple[type[Tensor], tuple[int | UOp, ...]]]
    assigned: Sequence[int]

    def valid(self) -> bool:
        """False once tensors that had one value when they were traced have several."""
        return all(s.valid() for s in self.sources if isinstance(s, Captured))

    def __call__(self, given: Tree) -> object:
        """Run on these arguments; the result of the function."""
        stored = iter(self._run(given) if self.program is not None else ())
        tensors: list[Tensor] = []
        for result in self.results:
            if isinstance(result, tuple):
                kind, shape = result
                tensors.append(kind._of(next(stored).reshape(shape)))
            else:
                tensors.append(given.tensors[result] if isinstance(result, int) else result)
        for number in self.assigned:
            argument = given.tensors[number]
            argument.uop = next(stored).reshape(argument.uop.shape)
            argument._assign_target = None
        value: object = self.result.rebuild(tensors, self.result.numbers)
        return value

    def _run(self, given: Tree) -> list[UOp]:
        assert self.program is not None
        _realize(given.tensors)
        arguments = [_memory(t) for t in given.tensors]
        for source in self.sources:
            if isinstance(source, Captured):
                source.realize()
        self._own_states(arguments)
        memory = [
            source.buffer()
            if isinstance(source, Captured)
            else arguments[source]
            if isinstance(source, int)
            else source
            for source in self.sources
        ]
        return self.program.run(memory, {f"arg{i}": n for i, n in enumerate(given.numbers)})

    def _own_states(self, arguments: Sequence[UOp]) -> None:
        """Give each state memory that nobody else reads: a copy, where an argument or another tensor does."""
        owner: dict[UOp, State] = {}
        for state in self.states:
            if state.tensor() is not None:
                if state.captured.buffer() in owner or state.captured.buffer() in arguments:
                    state.leave()
                owner[state.captured.buffer()] = state
        own = {id(state.tensor()): buffer for buffer, state in owner.items()}
        states = frozenset(owner)
        shared: dict[UOp, None] = {}
        for other in list(LIVE):
            read = buffers(other.uop)
            if not states.isdisjoint(read):
                shared |= dict.fromkeys(b for b in read if b in owner and own.get(id(other)) is not b)
        for buffer in shared:
            owner[buffer].leave()


def _realize(tensors: Sequence[Tensor]) -> None:
    lazy = [t for t in tensors if whole_buffer(t.uop) is None]
    if lazy:
        lazy[0].realize(*lazy[1:])


def _memory(tensor: Tensor) -> UOp:
    found = whole_buffer(tensor.uop)
    assert found is not None
    return found
