"""Traces: what a jitted function computes from its arguments and from the tensors around it. Week 5.

For the time of a trace every live tensor is a placeholder, a BUFFER without memory, so that the graph tells
which tensors the function has used. Afterwards each has its value back, and the graph is a program like any
other.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from uop_ir import Ops, UOp, VerifyError, get_backend, toposort

from .bindings import Bindings
from .captured import Captured, GradLeft, GradOf, State
from .graph import known_device
from .jit_tree import Tree, flatten
from .live import Capture, JitError, alive, tracing
from .memory import base, numel, view
from .program import program
from .realize import duplicate, realize
from .replay import Replay, Result
from .tensor import Tensor
from .weak import Scalars


def trace(
    name: str,
    function: Callable[..., Any],
    given: Tree,
    exported: bool = False,
    same: Collection[int] = (),
) -> Replay:
    """Run `function` once on values that do not exist yet, and make a program of what it has computed.

    The arguments of the numbers `same` are tensors that the function finds by itself, too. For a program that
    is exported gradients are dropped. Raises JitError for what cannot be replayed; all tensors are then what
    they were before, and under the names that they had. Where the function has changed a number that it
    reads, it is run once more, and may not do so again.
    """
    first = bindings = Bindings(function)
    replay = None
    try:
        with suppress(_NumberChanged):
            replay = _trace(name, function, given, exported, bindings, same)
        if replay is None:  # the length of a table that has grown, say, stays the next time; a count does not
            bindings = Bindings(function)
            replay = _trace(name, function, given, exported, bindings, same)
    except BaseException:
        first.restore()
        raise
    if bindings.watch(replay.used()):
        replay.bindings = bindings
    return replay


class _NumberChanged(JitError):
    """A function has read a number and changed it."""


def _trace(
    name: str,
    function: Callable[..., Any],
    given: Tree,
    exported: bool,
    bindings: Bindings,
    same: Collection[int],
) -> Replay:
    device = next((t.device for t in given.tensors), None) or get_backend().name
    scalars = Scalars(name)
    with tracing(name) as capture, _placeholders(device, capture) as outside:
        grads = [(t, t.grad) for t in alive() if isinstance(t, Tensor) and id(t) in outside]
        arguments = [t if i in same else _argument(t, device) for i, t in enumerate(given.tensors)]
        sources: dict[UOp, int | Captured] = {base(a.uop): i for i, a in enumerate(arguments)}
        sources |= {base(c.placeholder): c for c in {id(c): c for c in outside.values()}.values()}
        numbers = [scalars.argument(i, n, given.sizes.get(i)) for i, n in enumerate(given.numbers)]
        args, kwargs = given.rebuild(arguments, numbers)
        with _naming_sizes(name, given):
            result = flatten(name, function(*args, **kwargs))
        if not given.unchanged((args, kwargs), arguments, numbers):
            raise JitError(
                f"{name} changes a list, dict or dataclass among its arguments, which a replay would not",
                remedy=f"return what is new from {name}",
            )
        number = {id(a): i for i, a in enumerate(arguments) if i not in same}
        results = [_result(t, number, outside) for t in result.tensors]
        made_anew = [t for t, r in zip(result.tensors, results, strict=True) if isinstance(r, tuple)]
        values, cut = [t.uop for t in made_anew], [t._feeds_backward() for t in made_anew]
        _refuse_symbolic(name, values)
        changed = [t for t in capture.assignments.values() if isinstance(t, Tensor)]
        assigned = [number[id(t)] for t in changed if id(t) in number]
        states = [t for t in changed if id(t) in outside]
        values += [arguments[i].uop for i in assigned]
        new_ones = [None if i in same else a for i, a in enumerate(arguments)]
        left = [] if exported else _grads_left(grads, new_ones, states)
        values += [grad.uop for _, grad in left if grad is not None]
        values += [t.uop for t in states]
        _refuse_rebound(name, bindings, outside, values)
    scalars.close()
    del args, kwargs, changed, grads, made_anew
    _refuse_new_state(name, capture, [*result.tensors, *arguments], set(outside))
    first = {id(outside[id(t)]): t for t in reversed(states)}
    shared = [t for t in states if first[id(outside[id(t)])] is not t]
    if shared:  # two values in one memory: each state needs its own
        for t in shared:
            t.uop = duplicate(realize([t.uop])[0])
        return _trace(name, function, given, exported, bindings, same)
    donors = [None] * (len(values) - len(states)) + [base(outside[id(t)].placeholder) for t in states]
    if any(n.op is Ops.COPY for n in toposort(values)):
        raise JitError(f"{name} moves a tensor to another device", remedy="move it before the call")
    made = program(values, donors, True, get_backend(device)) if values else None
    for buffer in made.buffers if made is not None else ():
        if buffer not in sources:
            buffer.memo["tensor.kept"] = True  # filled by the trace, read by every replay
    return Replay(
        made,
        [sources.get(b, b) for b in made.buffers] if made is not None else [],
        [value.shape for value in values],
        [State(outside[id(t)], weakref.ref(t)) for t in states],
        Tree(result.structure, (), result.numbers),
        results,
        cut,
        assigned,
        [g for g, _ in left],
        scalars.scalars,
        capture.seed,
        capture.drawn,
    )


@contextmanager
def _naming_sizes(name: str, given: Tree) -> Iterator[None]:
    """Say of errors of methods that take a size for an int, or for an element, that it is one."""
    try:
        yield
    except (TypeError, VerifyError) as error:
        if not given.sizes or (isinstance(error, TypeError) and "UOp" not in str(error)):
            raise
        sizes = " or ".join(bounds.name for bounds in given.sizes.values())
        raise JitError(
            f"{name} calls a method that needs to know the size {sizes}: {error}",
            remedy="call it for the greatest size and slice the result, or name the parameter in static",
        ) from error


def _refuse_symbolic(name: str, values: list[UOp]) -> None:
    """Raise JitError for a result whose shape is not the same at each call."""
    if any(isinstance(size, UOp) for value in values for size in value.shape):
        raise JitError(
            f"{name} returns a tensor whose shape depends on a size",
            remedy="reduce that axis before it is returned",
        )


def _grads_left(
    before: list[tuple[Tensor, Tensor | None]], arguments: list[Tensor | None], states: list[Tensor]
) -> list[tuple[GradLeft, Tensor | None]]:
    """The gradients that a function leaves. Where it also assigns the tensor, it has used them up."""
    used = {id(t) for t in states}
    left = [
        (GradLeft(weakref.ref(t), grad is not None, t.grad is not None), t.grad)
        for t, grad in before
        if t.grad is not grad and id(t) not in used
    ]
    given = [(i, t.grad) for i, t in enumerate(arguments) if t is not None and t.grad is not None]
    return left + [(GradLeft(i, False, True), grad) for i, grad in given]


@contextmanager
def _placeholders(device: str, capture: Capture) -> Iterator[dict[int, Captured]]:
    """Make each live tensor a placeholder for the time of a with block; by id, what it stands for."""
    tensors = [t for t in alive() if isinstance(t, Tensor)]
    before = [(t, t.uop, t._assign_target, t.grad) for t in tensors]
    owners = {id(t.grad): t for t in tensors if t.grad is not None}
    groups: dict[UOp, list[Tensor]] = {}
    for t in tensors:
        groups.setdefault(t.uop, []).append(t)
    outside: dict[int, Captured] = {}
    for value, group in groups.items():
        refs = [GradOf(owners[id(t)]) if id(t) in owners else weakref.ref(t) for t in group]
        captured = Captured(refs, value, _placeholder(value, device))
        outside |= {id(t): captured for t in group}
    try:
        for t in tensors:
            t.uop, t._assign_target = outside[id(t)].placeholder, None
        yield outside
    finally:
        for t, uop, target, grad in before:
            t.uop, t._assign_target, t.grad = uop, target, grad
        real = {
            base(c.placeholder): c.last.reshape((numel(c.last.shape),))
            for c in (outside.values() if capture.foreign else ())
        }
        for other in capture.foreign:  # made of placeholders, perhaps: of what these stand for
            other.uop = other.uop.substitute(real)


def _placeholder(value: UOp, device: str) -> UOp:
    buffer = UOp.buffer(numel(value.shape), value.dtype, known_device(value) or device)
    return view(buffer, value.shape)


def _argument(given: Tensor, device: str) -> Tensor:
    made = type(given)._of(_placeholder(given.uop, device))
    made._requires_grad = given._requires_grad
    return made


def _result(tensor: Tensor, number: Mapping[int, int], outside: Mapping[int, Captured]) -> Result:
    """What a result is: an argument, a tensor from outside, or a new tensor."""
    if id(tensor) in number:
        return number[id(tensor)]
    return tensor if id(tensor) in outside else (type(tensor), tensor.uop.shape)


def _refuse_rebound(
    name: str, bindings: Bindings, outside: Mapping[int, Captured], values: list[UOp]
) -> None:
    """Raise JitError for another tensor in the place of one that is used: by what is computed, or for that
    other one; and for another number in the place of one that the function reads.
    """
    changed = bindings.changed()
    new = [found.uop for _, _, _, found in changed if isinstance(found, Tensor)]
    used = set(toposort([*values, *new])) if changed else set()
    numbers = bindings.constants.changed()
    if numbers:
        raise _NumberChanged(
            f"{name} reads the number {numbers[0]} and changes it, which a replay would not",
            remedy="keep it in a tensor and assign that, or make it an argument",
        )
    for _, key, old, _ in changed:
        if base(outside[id(old)].placeholder) in used:
            raise JitError(
                f"{name} uses the tensor {key} and puts another one in its place, which a replay would not",
                remedy="give it the new value with assign, or make it an argument and return the new one",
            )


def _refuse_new_state(name: str, capture: Capture, known: list[Tensor], outside: set[int]) -> None:
    """Raise JitError for a tensor that was made and assigned within the trace and lives on:
    it would never change.
    """
    wanted = {id(t) for t in known} | outside
    new = [weakref.ref(t) for i, t in capture.assignments.items() if i not in wanted]
    capture.assignments.clear()
    if any(ref() is not None for ref in new):
        gc.collect()
    if any(ref() is not None for ref in new):
        raise JitError(
            f"{name} makes a tensor, assigns it and keeps it: a replay would not",
            remedy=f"make the tensor before {name} is called",
        )
