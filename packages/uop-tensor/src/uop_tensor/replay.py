"""Replay: run what jit has traced, on the arguments of a call and the tensors as they are now. Week 5."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from uop_ir import Ops, UOp

from .bindings import Bindings
from .captured import Captured, GradLeft, State, realize_all
from .jit_tree import Tree
from .live import JitError, alive, register
from .memory import buffers, whole_buffer
from .outputs import Output
from .program import Program
from .tensor import Tensor
from .threefry import STREAM
from .value import grad_enabled
from .weak import Scalar, Weak

#: Where a tensor of the result comes from; see Replay.
Result: TypeAlias = "int | Tensor | tuple[type[Tensor], tuple[int | UOp, ...]]"


@dataclass
class Replay:
    """A program, where its inputs come from, and where its results go.

    `sources`, one a BUFFER of the program: the number of an argument, a captured value, or a BUFFER that the trace
    has filled. `results`, one a tensor of the result: the number of an argument, a tensor from outside, or the type
    and shape of a new tensor; those come first among the stored values, whose shapes are `shapes`, in order. Then come
    the new values of the arguments in `assigned`, then gradients, then the states. `scalars` are the numbers that the
    program reads, by name. `seed` and `drawn`: what the function does to the stream of random numbers. `bindings`: where
    the function finds its tensors.
    """

    program: Program | None
    sources: Sequence[int | Captured | UOp]
    shapes: Sequence[tuple[int | UOp, ...]]
    states: Sequence[State]
    result: Tree
    results: Sequence[Result]
    assigned: Sequence[int]
    grads: Sequence[GradLeft]
    scalars: Mapping[str, Scalar]
    seed: int | None
    drawn: int
    bindings: Bindings | None = None

    def __post_init__(self) -> None:
        """Look up once what each call would look up: where each input of the plan comes from, and each scalar."""
        self._single = self.result.structure == ("tensor", 0)
        self._captured = [s for s in self.sources if isinstance(s, Captured)]
        self._inputs: list[int | Captured | UOp | Output] = []
        self._numbers: list[Scalar | str] = []
        if self.program is None:
            return
        plan, homes = self.program.planned.plan, self.program.planned.homes
        shapes = dict(zip(homes, self.shapes, strict=True))
        for place, param in enumerate(plan.inputs):
            if param.arg.slot < len(self.sources):
                self._inputs.append(self.sources[param.arg.slot])
            else:
                self._inputs.append(Output(self.program.backend, param.arg.size, param.dtype, shapes[place]))
        self._stored = homes[: len(homes) - len(self.states)]
        self._numbers = [self.scalars.get(p.arg.name, p.arg.name) for p in plan.scalars]

    def used(self) -> set[int]:
        """The ids of the tensors around the function that it uses."""
        captured = [*self._captured, *(state.captured for state in self.states)]
        alive = [t for c in captured for ref in c.tensors if (t := ref()) is not None]
        return set(map(id, alive)) | {id(r) for r in self.results if isinstance(r, Tensor)}

    def valid(self) -> bool:
        """False once tensors that had one value when they were traced have several, other gradients, or are not those that
        the function would find.
        """
        held = self.bindings is None or self.bindings.hold()
        if self._captured or self.grads:
            return held and all(map(Captured.valid, self._captured)) and all(map(GradLeft.valid, self.grads))
        return held

    def __call__(self, given: Tree) -> object:
        """Run on these arguments; the result of the function."""
        numbers: Any = given.numbers
        stored = iter(self._run(given.tensors, numbers) if self.program is not None else ())
        if self.drawn or self.seed is not None:
            STREAM.advance(self.seed, self.drawn)
        tensors: list[Tensor] = []
        for result in self.results:
            if isinstance(result, tuple):
                tensors.append(_of_memory(result[0], next(stored)))
            else:
                tensors.append(given.tensors[result] if isinstance(result, int) else result)
        for number in self.assigned:
            argument = given.tensors[number]
            argument.uop = next(stored)
            argument._assign_target = None
        if self.grads:
            self._leave_grads(given.tensors, stored)
        if self._single:
            return tensors[0]
        results = [n.compute(numbers) if isinstance(n, Weak) else n for n in self.result.numbers]
        value: object = self.result.rebuild(tensors, results)
        return value

    def _run(self, tensors: Sequence[Tensor], numbers: Sequence[int | float]) -> list[UOp]:
        """The values that are no states, as they are stored."""
        assert self.program is not None
        # most are a BUFFER: to look at them takes a fifth as long as `whole_buffer`
        arguments: list[Any] = [t.uop if t.uop.op is Ops.BUFFER else whole_buffer(t.uop) for t in tensors]
        if None in arguments:
            realize_all(tensors)
            arguments = [whole_buffer(t.uop) for t in tensors]
        if self.states:
            for captured in self._captured:
                captured.memory()
            self._own_states(arguments)
        scalars = (
            [n.value(numbers) if isinstance(n, Scalar) else _of_stream(n) for n in self._numbers]
            if self._numbers
            else ()
        )
        views: list[Any] = [None] * len(self._inputs)
        memory: list[UOp] = []
        for place, source in enumerate(self._inputs):
            if isinstance(source, Output):
                views[place], buffer, _ = source.take()
            elif isinstance(source, Captured):
                buffer = source.memory()
            else:
                buffer = arguments[source] if isinstance(source, int) else source
            memory.append(buffer)
        self.program.execute(memory, scalars)
        return [views[home] for home in self._stored]

    def _leave_grads(self, arguments: Sequence[Tensor], stored: Iterator[UOp]) -> None:
        for left in self.grads:
            grad = Tensor._of(next(stored)) if left.stored else None
            if isinstance(left.place, int):
                tensor, before = arguments[left.place], arguments[left.place].grad
                tensor.grad = grad if before is None or grad is None else before + grad
            else:
                outside = left.place()
                if outside is not None:
                    outside.grad = grad

    def _own_states(self, arguments: Sequence[UOp]) -> None:
        """Give each state memory that nobody else reads: a copy, where an argument or another tensor does."""
        if all([state.alone() for state in self.states]):  # noqa: C419  # a generator takes 0.3 us more
            return
        owner: dict[UOp, State] = {}
        own: dict[int, UOp] = {}
        for state in self.states:
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


def _of_memory(kind: type[Tensor], value: UOp) -> Tensor:
    """As `kind._of(value)`, for memory, which has a dtype of tensors: 1 us, not 1.6."""
    if not grad_enabled():
        return kind._of(value)
    made = kind.__new__(kind)
    made.uop, made.grad, made._assign_target = value, None, None
    made._requires_grad = made._done = False
    register(made)
    return made


def _of_stream(name: str) -> int | float:
    """A scalar of the stream of random numbers. Raises JitError for one that is of another trace."""
    found = STREAM.scalars()
    if name not in found:
        raise JitError("a number of another jitted function is used", remedy="return it from there")
    return found[name]
