"""Realize: lazy values become memory. Week 5."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from uop_ir import Ops, UOp, UopError, get_backend, toposort

from .live import Lazy, alive, begin_work, end_work
from .memory import base, buffers, new_buffer, numel, view, whole_buffer
from .program import program


def realize(
    values: Sequence[UOp],
    donate: Mapping[int, UOp] | None = None,
    device: str | None = None,
    scalars: Mapping[str, float | int] | None = None,
) -> list[UOp]:
    """Each value as a BUFFER reshaped to its shape; a value that is one already is returned as it is.

    `donate[i]` is a BUFFER whose contents nobody needs after this call: value i is stored there where no copy
    is needed for it. `device` is where values go that read no memory; None: the default one. `scalars` are
    the values of scalar PARAMs, by name. Raises UopError for values of several devices.
    """
    donate = donate or {}
    values = _copied(values)
    wanted: dict[UOp, int] = {}
    donors: list[UOp | None] = []
    for i, value in enumerate(values):
        if whole_buffer(value) is not None:
            continue
        root = base(value)
        if root not in wanted:
            wanted[root] = len(donors)
            donors.append(None)
        given = donate.get(i)
        if given is not None and donors[wanted[root]] is None and given not in donors:
            donors[wanted[root]] = given
    if not wanted:
        return values
    backend = get_backend(device_of(values) or device)
    todo = program(list(wanted), donors, False, backend)
    stored = todo.run(todo.buffers, scalars or {})
    return [v if whole_buffer(v) is not None else view(stored[wanted[base(v)]], v.shape) for v in values]


def device_of(values: Sequence[UOp]) -> str | None:
    """The device on which the values are; None if they read no memory. Raises UopError for several."""
    nodes = toposort(values, gate=lambda n: n.op is not Ops.COPY)
    found = {n.arg if n.op is Ops.COPY else n.arg.device for n in nodes if n.op in (Ops.COPY, Ops.BUFFER)}
    if len(found) > 1:
        raise UopError(
            f"values on {' and '.join(sorted(found))} in one computation", remedy="move them with to()"
        )
    return found.pop() if found else None


def _copied(values: Sequence[UOp]) -> list[UOp]:
    """The values with each COPY done: its operand is realized where it is, and its bytes are moved."""
    copies = [n for n in toposort(values) if n.op is Ops.COPY]
    done: dict[UOp, UOp] = {}
    for copy in copies:
        source = realize([copy.src[0].substitute(done)], device=copy.arg)[0]
        done[copy] = _moved(source, copy.arg)
    return [v.substitute(done) for v in values] if done else list(values)


def _moved(value: UOp, device: str) -> UOp:
    source = whole_buffer(value)
    assert source is not None
    if source.arg.device == device:
        return value
    target = new_buffer(get_backend(device), source.arg.size, source.dtype)
    data = np.empty(source.arg.size, source.dtype.numpy)
    source.memo["memory"].backend.copy_out(source.memo["memory"].handle, data)
    target.memo["memory"].backend.copy_in(target.memo["memory"].handle, data)
    return target.reshape(value.shape)


def duplicate(value: UOp) -> UOp:
    """A realized value in memory of its own."""
    source = whole_buffer(value)
    assert source is not None
    copy = program([source], [None], False, get_backend(source.arg.device))
    return copy.run(copy.buffers, {})[0].reshape(value.shape)


def realize_tensors(tensors: Sequence[Lazy]) -> None:
    """Realize tensors, in place where they were assigned and nobody else needs the old value.

    While jit traces, nothing is done: the trace knows what is needed.
    """
    try:
        if begin_work() is None:
            _realize_tensors(tensors)
    finally:
        end_work()


def _realize_tensors(tensors: Sequence[Lazy]) -> None:
    groups: dict[str | None, list[Lazy]] = {}
    for tensor in {id(t): t for t in tensors}.values():
        if whole_buffer(tensor.uop) is None:
            groups.setdefault(device_of([tensor.uop]), []).append(tensor)
        else:  # what it was assigned has memory of its own
            tensor._assign_target = None
    for todo in groups.values():
        realized = realize([t.uop for t in todo], _donations(todo))
        for tensor, value in zip(todo, realized, strict=True):
            tensor.uop = value
            tensor._assign_target = None


def _donations(todo: Sequence[Lazy]) -> dict[int, UOp]:
    """For each tensor the BUFFER that its assignment left free: one that no other live tensor reads or is."""
    targets = {i: base(t._assign_target) for i, t in enumerate(todo) if t._assign_target is not None}
    if not targets:
        return {}
    mine = {id(t) for t in todo}
    needed = frozenset[UOp]().union(*(buffers(t.uop) for t in alive() if id(t) not in mine))
    return {i: buffer for i, buffer in targets.items() if buffer not in needed and _fits(buffer, todo[i].uop)}


def _fits(buffer: UOp, value: UOp) -> bool:
    same = buffer.op is Ops.BUFFER and buffer.dtype is value.dtype and buffer.arg.size == numel(value.shape)
    free = "memory" in buffer.memo and "tensor.kept" not in buffer.memo
    return same and free and device_of([value]) in (None, buffer.arg.device)
