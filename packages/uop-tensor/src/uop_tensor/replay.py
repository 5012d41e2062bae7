"""Replay: run what jit has traced, on the arguments of a call and the tensors as they are now. Week 5."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from uop_ir import Ops, UOp

from .bindings import Bindings
from .captured import Captured, GradLeft, State, realize_all
from .jit_tree import Tree
from .live import JitError, register
from .memory import base, handle
from .outputs import Output
from .outside import Outside
from .program import Program
from .structure import TENSOR
from .tensor import Tensor
from .threefry import STREAM
from .value import grad_enabled
from .weak import Scalar, Weak

#: By names of their own: to ask an enum for one takes 0.05 us.
RESHAPE = Ops.RESHAPE
#: Where a tensor of the result comes from; see Replay.
Result: TypeAlias = "int | Tensor | tuple[type[Tensor], tuple[int | UOp, ...]]"


@dataclass
class Replay:
    """A program, where its inputs come from, and where its results go.

    `sources`, one a BUFFER of the program: the number of an argument, a captured value, or a BUFFER that the
    trace has filled. `results`, one a tensor of the result: the number of an argument, a tensor from outside,
    or the type and shape of a new tensor; those come first among the stored values, whose shapes are
    `shapes`, in order; `cut` tells of each new tensor whether it depends on a parameter. Then come the new
    values of the arguments in `assigned`, then gradients, then the states. `scalars` are the numbers that the
    program reads, by name. `seed` and `drawn`: what the function does to the stream of random numbers.
    `bindings`: where the function finds its tensors.
    """

    program: Program | None
    sources: Sequence[int | Captured | UOp]
    shapes: Sequence[tuple[int | UOp, ...]]
    states: Sequence[State]
    result: Tree
    results: Sequence[Result]
    cut: Sequence[bool]
    assigned: Sequence[int]
    grads: Sequence[GradLeft]
    scalars: Mapping[str, Scalar]
    seed: int | None
    drawn: int
    bindings: Bindings | None = None

    def __post_init__(self) -> None:
        """Look up once what each call would look up:
        where each input of the plan comes from, and each scalar.
        """
        self._captured = [s for s in self.sources if isinstance(s, Captured)]
        self.assigns = bool(self.states or self.assigned)
        captured = [*self._captured, *(state.captured for state in self.states)] if self.assigns else []
        self._refs = {id(tensor): weakref.ref(tensor) for c in captured for tensor in c.alive()}
        self.outside = Outside(self._captured, self.states)
        self._kinds = [r[0] for r in self.results if isinstance(r, tuple)]
        self._only_new = len(self._kinds) == len(self.results) and not self.assigned and not self.grads
        self._single = self._only_new and self.result.structure[0] is TENSOR
        self._make = _of_memory if grad_enabled() else _of_constant  # that is part of the signature
        self._memory: list[Any] = []
        self._given: list[tuple[int, int]] = []
        self._around: list[tuple[int, int]] = []
        self._outputs: list[tuple[int, Output]] = []
        self._numbers: list[Scalar | str] = []
        if self.program is None:
            return
        plan, homes = self.program.planned.plan, self.program.planned.homes
        self._memory = [None] * len(plan.inputs)
        for place, param in enumerate(plan.inputs):
            source = self.sources[param.arg.slot] if param.arg.slot < len(self.sources) else None
            if isinstance(source, int):
                self._given.append((place, source))
            elif isinstance(source, Captured):
                self._around.append((place, self._captured.index(source)))
            elif source is not None:
                self._memory[place] = handle(source)
        given = list(zip(homes, self.shapes, strict=True))[: len(homes) - len(self.states)]
        for number, (home, shape) in enumerate(given):
            param, cut = plan.inputs[home], number < len(self.cut) and self.cut[number]
            self._outputs.append(
                (home, Output(self.program.backend, param.arg.size, param.dtype, shape, cut))
            )
        self._numbers = [self.scalars.get(p.arg.name, p.arg.name) for p in plan.scalars]

    def found_around(self, given: Sequence[Tensor]) -> list[int]:
        """The numbers of the arguments that the function finds by itself, too."""
        return [i for i, t in enumerate(given) if id(t) in self._refs and self._refs[id(t)]() is t]

    def used(self) -> set[int]:
        """The ids of the tensors around the function that it uses."""
        captured = [*self._captured, *(state.captured for state in self.states)]
        alive = [tensor for c in captured for tensor in c.alive()]
        return set(map(id, alive)) | {id(r) for r in self.results if isinstance(r, Tensor)}

    def valid(self) -> bool:
        """False once tensors that had one value when they were traced have several, other gradients, or are
        not those that the function would find.
        """
        return (
            (self.bindings is None or self.bindings.hold())
            and (not self._captured or self.outside.valid())
            and (not self.grads or all(map(GradLeft.valid, self.grads)))
        )

    def run(self, given: Sequence[Tensor], numbers: Sequence[Any]) -> Any:
        """Run on the tensors and numbers of a call; the result of the function."""
        stored = self._run(given, numbers) if self.program is not None else []
        if self.drawn or self.seed is not None:
            STREAM.advance(self.seed, self.drawn)
        if self._single:
            return self._make(self._kinds[0], stored[0])
        tensors = list(map(self._make, self._kinds, stored))
        if not self._only_new:
            tensors = self._all_results(given, tensors, stored[len(tensors) :])
        results = [n.compute(numbers) if isinstance(n, Weak) else n for n in self.result.numbers]
        return self.result.rebuild(tensors, results)

    def _run(self, tensors: Sequence[Tensor], numbers: Sequence[int | float]) -> list[UOp]:
        """The values that are no states, as they are stored."""
        assert self.program is not None
        memory = self._memory.copy()
        # one reference more to the BUFFER of each argument: a state that is one is not alone
        held: list[UOp] = []
        try:
            for place, number in self._given:
                value = tensors[number].uop
                while value.op is RESHAPE:
                    value = value.src[0]
                memory[place] = value.memo["memory"].handle
                held.append(value)
        except KeyError:  # it is no BUFFER
            realize_all(tensors)
            held = [base(t.uop) for t in tensors]
            for place, number in self._given:
                memory[place] = handle(held[number])
        if self._around:
            handles = self.outside.memory(tensors)
            for place, number in self._around:
                memory[place] = handles[number]
        scalars: Sequence[int | float] = ()
        if self._numbers:
            scalars = [n.value(numbers) if isinstance(n, Scalar) else _of_stream(n) for n in self._numbers]
        stored: list[UOp] = []
        for place, output in self._outputs:
            value, _, lent = output.take()
            memory[place] = lent.handle
            stored.append(value)
        self.program.execute(memory, scalars)
        return stored

    def _all_results(self, arguments: Sequence[Tensor], new: list[Any], stored: list[UOp]) -> list[Any]:
        """The tensors of the result, also those that were there before;
        arguments and gradients get their new values.
        """
        made, rest = iter(new), iter(stored)
        for number in self.assigned:
            argument = arguments[number]
            argument.uop = next(rest)
            argument._assign_target = None
        self._leave_grads(arguments, rest)
        return [
            next(made) if isinstance(r, tuple) else arguments[r] if isinstance(r, int) else r
            for r in self.results
        ]

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


def _of_memory(kind: type[Tensor], value: UOp) -> Tensor:
    """As `kind._of(value)`, for memory, which has a dtype of tensors: 0.7 us, not 1.6."""
    made = kind.__new__(kind)
    made.uop = value
    register(made)
    return made


def _of_constant(kind: type[Tensor], value: UOp) -> Tensor:
    return kind._of(value)


def _of_stream(name: str) -> int | float:
    """A scalar of the stream of random numbers. Raises JitError for one that is of another trace."""
    found = STREAM.scalars()
    if name not in found:
        raise JitError("a number of another jitted function is used", remedy="return it from there")
    return found[name]
