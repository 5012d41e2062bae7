"""Kernels become a Plan: what is stored in place, in which order, and where scratch memory lies. Week 5."""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeAlias

from uop_ir import AddrSpace, Limits, Ops, Plan, UOp, call_params

from .cost import is_memory
from .cut import body_nodes
from .fusion import Fusion, identity
from .memory import numel, view
from .order import run_order
from .schedule import Graph, Kernel, schedule

Shape: TypeAlias = "tuple[int | UOp, ...]"
#: Bytes: scratch starts at a multiple of this, which no vector of a CPU or GPU exceeds.
ALIGNMENT = 64


@dataclass(frozen=True)
class Want:
    """Where a value is to end: in fresh memory, or if `donor` is given, in the memory of that input.

    Without `must`, the value goes there only where no copy is needed.
    """

    donor: int | None = None
    must: bool = False


@dataclass(frozen=True)
class Task:
    """What a plan is made of: a SINK of distinct values over
    the memory PARAMs 0 to `inputs` - 1, one Want a value.
    """

    root: UOp
    inputs: int
    wants: tuple[Want, ...]
    limits: Limits


@dataclass(frozen=True)
class Planned:
    """A plan, and for each value the slot among `plan.inputs` in which it ends.

    Bytes: `scratch` is what all scratch memory would take together, were none shared, and `bound` what lives
    at one time at most: no arena can be smaller.
    """

    task: Task
    plan: Plan
    homes: tuple[int, ...]
    scratch: int
    bound: int


@dataclass
class Arranged:
    """Kernels in order, and where the values of the root end: in homes of their own, by copies if need be."""

    graph: Graph
    fusion: Fusion
    order: list[int]
    slots: dict[int, UOp]
    homes: dict[UOp, UOp]
    placed: list[UOp]
    copies: list[tuple[UOp, UOp]]


def arrange(task: Task) -> Arranged:
    """The kernels of a task. Values that no donor takes get the slots from `inputs` on, in order."""
    root, inputs = task.root, task.inputs
    slots = {n.arg.slot: n for n in root.toposort() if is_memory(n)}
    for value, want in zip(root.src, task.wants, strict=True):
        if want.donor is not None and want.donor not in slots:
            slots[want.donor] = UOp.param(want.donor, numel(value.shape), value.dtype)
    donors = {v: slots[w.donor] for v, w in zip(root.src, task.wants, strict=True) if w.donor is not None}
    graph, fusion = schedule(root, donors, task.limits)
    readers: dict[UOp, list[int]] = {}
    for k, kernel in graph.kernels.items():
        for memory in kernel.reads:
            readers.setdefault(memory, []).append(k)
    homes: dict[UOp, UOp] = {}
    copies: list[tuple[UOp, UOp]] = []
    placed: list[UOp] = []
    for value, want in zip(root.src, task.wants, strict=True):
        home = None
        donor = donors.get(value)
        if donor is not None:
            if _in_place(graph, fusion, readers, value, donor):
                home = homes[value] = donor
            elif want.must:
                home = donor
                copies.append((value, donor))
        if home is None:
            home = homes[value] = UOp.param(inputs, numel(value.shape), value.dtype)
            slots[inputs] = home
            inputs += 1
        placed.append(home)
    return Arranged(graph, fusion, run_order(graph, homes), slots, homes, placed, copies)


def make_plan(root: UOp, inputs: int, wants: tuple[Want, ...], limits: Limits) -> Planned:
    """The plan of a Task."""
    task = Task(root, inputs, wants, limits)
    arranged = arrange(task)
    calls = _Calls(arranged.graph, arranged.homes)
    for k in arranged.order:
        calls.add(arranged.graph.kernels[k])
    for value, donor in arranged.copies:
        calls.add_copy(value, donor)
    scratch = calls.scratch
    offsets, arena = scratch.lay_out()
    memory = tuple(arranged.slots[s] for s in sorted(arranged.slots))
    scalars = sorted({n for n in root.toposort() if n.op is Ops.PARAM and not is_memory(n)}, key=_name)
    plan = Plan(tuple(calls.calls), memory, tuple(scalars), offsets, arena)
    homes = tuple(memory.index(home) for home in arranged.placed)
    return Planned(task, plan, homes, scratch.total, scratch.bound(len(calls.calls)))


def _name(scalar: UOp) -> str:
    return str(scalar.arg.name)


def _in_place(
    graph: Graph, fusion: Fusion, readers: Mapping[UOp, Sequence[int]], value: UOp, donor: UOp
) -> bool:
    """Whether `value` may be stored over the memory it replaces;
    if so, its kernel runs after all other readers.

    Its own kernel may read the memory only at the element that it stores,
    and no other reader may need its result.
    """
    writer = graph.writer[value]
    own = graph.kernels[writer].values
    if any(d.kernel in own and not identity(d, donor.shape) for d in fusion.reads.get(donor, ())):
        return False
    others = [k for k in readers.get(donor, ()) if k != writer]
    if any(graph.depends(k, writer) for k in others):
        return False
    for k in others:
        graph.add_edge(k, writer)
    return True


class _Scratch:
    """Memory between kernels: from the kernel that stores a value to the last one that reads it."""

    def __init__(self) -> None:
        self.allocs: dict[UOp, UOp] = {}
        self.lives: dict[UOp, tuple[int, int]] = {}

    def home(self, value: UOp, time: int) -> UOp:
        """The scratch memory of a value that is stored or read at a time."""
        if value not in self.allocs:
            alloc = UOp.alloc(len(self.allocs), numel(value.shape), value.dtype, AddrSpace.GLOBAL)
            self.allocs[value] = alloc
            self.lives[alloc] = (time, time)
        alloc = self.allocs[value]
        self.lives[alloc] = (self.lives[alloc][0], time)
        return alloc

    def lay_out(self) -> tuple[dict[int, int], int]:
        """Byte offsets by slot, and the size of the arena.

        The greatest first, each in the lowest place that is free for its whole life: simple, and near the
        optimum for lives that are known beforehand (Pisarchyk and Lee, 2020).
        """
        offsets: dict[int, int] = {}
        placed: list[tuple[int, int, int, int]] = []  # begin and end in bytes, first and last time
        for alloc in sorted(self.lives, key=lambda a: (-_bytes(a), a.arg.slot)):
            first, last = self.lives[alloc]
            begin, size = 0, _bytes(alloc)
            for low, high, since, until in placed:
                if since <= last and first <= until and low < begin + size and begin < high:
                    begin = high
            insort(placed, (begin, begin + size, first, last))
            offsets[alloc.arg.slot] = begin
        return dict(sorted(offsets.items())), max((p[1] for p in placed), default=0)

    @property
    def total(self) -> int:
        """Bytes, were none shared."""
        return sum(map(_bytes, self.lives))

    def bound(self, calls: int) -> int:
        """The bytes that live at one of so many times, at most."""
        change = [0] * (calls + 1)
        for alloc, (first, last) in self.lives.items():
            change[first] += _bytes(alloc)
            change[last + 1] -= _bytes(alloc)
        return max(accumulate(change))


def _bytes(alloc: UOp) -> int:
    size: int = alloc.arg.size * alloc.dtype.itemsize
    return -(-size // ALIGNMENT) * ALIGNMENT


class _Calls:
    """CALLs in the order in which they run. An argument waits by AFTER for the CALLs whose result it reads,
    and, where it is stored to, for those that read what stood there before.
    """

    def __init__(self, graph: Graph, homes: dict[UOp, UOp]) -> None:
        self.calls: list[UOp] = []
        self.scratch = _Scratch()
        self._stored = {value for kernel in graph.kernels.values() for value in kernel.values}
        self._homes = homes
        self._writer: dict[UOp, UOp] = {}
        self._readers: dict[UOp, list[UOp]] = {}

    def memory(self, value: UOp) -> UOp:
        """Where a value lies that is read or stored now."""
        if is_memory(value):
            return value
        return self._homes.get(value) or self.scratch.home(value, len(self.calls))

    def add(self, kernel: Kernel) -> None:
        """The CALL of a kernel; of one that stores no element, none."""
        if all(numel(value.shape) == 0 for value in kernel.values):
            return
        params: dict[UOp, UOp] = {}
        stores = [
            self._param(value, params, value.shape).store(self._value(value, kernel, params))
            for value in kernel.values
        ]
        self._call(UOp.sink(*stores), params, kernel.reads, [self.memory(value) for value in kernel.values])
        self._writer.update(dict.fromkeys(kernel.values, self.calls[-1]))

    def add_copy(self, value: UOp, target: UOp) -> None:
        """The CALL that copies a stored value into memory that others have read."""
        if numel(value.shape) == 0:
            return
        params: dict[UOp, UOp] = {}
        store = self._param(target, params).store(self._param(value, params, (target.arg.size,)))
        self._call(UOp.sink(store), params, {value: None}, [target])

    def _param(self, value: UOp, params: dict[UOp, UOp], shape: Shape | None = None) -> UOp:
        """The argument of a kernel in which a value lies, numbered by first use."""
        memory = self.memory(value)
        if memory not in params:
            params[memory] = UOp.param(len(params), memory.arg.size, memory.dtype)
        return params[memory] if shape is None else view(params[memory], shape)

    def _value(self, value: UOp, kernel: Kernel, params: dict[UOp, UOp]) -> UOp:
        """What a kernel stores, over its own arguments."""
        new: dict[UOp, UOp] = {}
        outside = self._stored.difference(kernel.values)
        for node in body_nodes(value, outside):
            if is_memory(node):
                new[node] = self._param(node, params)
            elif node in outside:
                new[node] = self._param(node, params, node.shape)
            elif node.op is Ops.STAGE:
                new[node] = new[node.src[0]]
            else:
                src = tuple(new[s] for s in node.src)
                new[node] = node if src == node.src else node.replace(src=src)
        return new[value].reshape(value.shape)

    def _call(self, body: UOp, params: dict[UOp, UOp], reads: dict[UOp, None], targets: list[UOp]) -> None:
        effects: dict[UOp, dict[UOp, None]] = {memory: {} for memory in params}
        for value in reads:
            if value in self._writer:
                effects[self.memory(value)][self._writer[value]] = None
        for target in targets:
            effects[target] |= dict.fromkeys(self._readers.get(target, ()))
        arguments = [memory.after(*effects[memory]) for memory in params]
        scalars = [p for p in call_params(body) if not is_memory(p)]
        self.calls.append(UOp(Ops.CALL, (body, *arguments, *scalars)))
        for value in filter(is_memory, reads):
            self._readers.setdefault(value, []).append(self.calls[-1])
