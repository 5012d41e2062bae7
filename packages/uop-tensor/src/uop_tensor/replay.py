"""Replay: run what jit has traced, on the arguments of a call and the tensors as they are now. Week 5."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from uop_ir import UOp

from .jit_tree import Tree
from .live import LIVE
from .memory import buffers, whole_buffer
from .program import Program
from .realize import duplicate
from .tensor import Tensor
from .threefry import STREAM

#: Where a tensor of the result comes from; see Replay.
Result: TypeAlias = "int | Tensor | tuple[type[Tensor], tuple[int | UOp, ...]]"


class Captured:
    """A value from outside that a trace uses: the live tensors that have it, and its last known BUFFER."""

    def __init__(self, tensors: Sequence[Tensor], placeholder: UOp) -> None:
        self.tensors = [weakref.ref(t) for t in tensors]
        self.placeholder = placeholder
        self.last = tensors[0].uop
        self.buffer: UOp | None = None
        self.parted = False

    def valid(self) -> bool:
        """Whether the tensors that still exist have one value, of the shape and dtype that were traced."""
        if self.parted:
            return False
        values = {t.uop for ref in self.tensors if (t := ref()) is not None}
        if values == {self.last}:
            return True
        traced = self.placeholder
        return len(values) < 2 and all(v.shape == traced.shape and v.dtype is traced.dtype for v in values)

    def memory(self) -> UOp:
        """The BUFFER of the value now; it is realized, where it is not memory yet."""
        tensor = next((t for ref in self.tensors if (t := ref()) is not None), None)
        if self.buffer is None or (tensor is not None and tensor.uop is not self.last):
            if tensor is not None:
                _realize([t for ref in self.tensors if (t := ref()) is not None])
                self.last = tensor.uop
            self.buffer = whole_buffer(self.last)
            assert self.buffer is not None
        return self.buffer


@dataclass
class State:
    """A tensor that the function assigns: its new value is stored over the old one."""

    captured: Captured
    tensor: weakref.ref[Tensor]

    def leave(self) -> None:
        """Go to a copy of the memory, and leave the old one to the others that read it."""
        tensor, captured = self.tensor(), self.captured
        assert tensor is not None
        tensor.uop = captured.last = duplicate(tensor.uop)
        captured.buffer = whole_buffer(tensor.uop)
        # for this call, equal contents; for the next, a new trace
        captured.parted = len(captured.tensors) > 1
        captured.tensors = [self.tensor]


@dataclass
class Replay:
    """A program, where its inputs come from, and where its results go.

    `sources`, one a BUFFER of the program: the number of an argument, a captured value, or a BUFFER that the trace
    has filled. `results`, one a tensor of the result: the number of an argument, a tensor from outside, or the type
    and shape of a new tensor; those come first among the stored values, in order. Then come the new values of the
    arguments in `assigned`, then the states. `seed` and `drawn`: what the function does to the stream of random numbers.
    """

    program: Program | None
    sources: Sequence[int | Captured | UOp]
    states: Sequence[State]
    result: Tree
    results: Sequence[Result]
    assigned: Sequence[int]
    seed: int | None
    drawn: int

    def valid(self) -> bool:
        """False once tensors that had one value when they were traced have several."""
        return all(s.valid() for s in self.sources if isinstance(s, Captured))

    def __call__(self, given: Tree) -> object:
        """Run on these arguments; the result of the function."""
        stored = iter(self._run(given) if self.program is not None else ())
        STREAM.advance(self.seed, self.drawn)
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
                source.memory()
        self._own_states(arguments)
        memory = [
            source.memory()
            if isinstance(source, Captured)
            else arguments[source]
            if isinstance(source, int)
            else source
            for source in self.sources
        ]
        numbers: dict[str, float | int] = {f"arg{i}": n for i, n in enumerate(given.numbers)}
        return self.program.run(memory, numbers | STREAM.scalars())

    def _own_states(self, arguments: Sequence[UOp]) -> None:
        """Give each state memory that nobody else reads: a copy, where an argument or another tensor does."""
        owner: dict[UOp, State] = {}
        own: dict[int, UOp] = {}
        for state in self.states:
            tensor = state.tensor()
            if tensor is not None:
                buffer = state.captured.memory()
                if buffer in owner or buffer in arguments:
                    state.leave()
                    buffer = state.captured.memory()
                owner[buffer] = state
                own[id(tensor)] = buffer
        shared: dict[UOp, None] = {}
        for other in list(LIVE):
            for buffer in buffers(other.uop):
                if buffer in owner and own.get(id(other)) is not buffer:
                    shared[buffer] = None
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
