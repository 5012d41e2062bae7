"""A graph of values becomes kernels: what is stored once, what is fused, what is merged. Week 5.

`fusion.decide` says which values are stored; each is a kernel. A kernel that would need more memory arguments
than the backend takes, or be very long, is cut further.
Then kernels that walk the same elements of the same memory become one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from uop_ir import Limits, Ops, UOp
from uop_rewrite import graph_rewrite, symbolic

from .cost import is_memory
from .cut import LENGTH, body_nodes, cut_long, cut_wide, length
from .fusion import Demand, Fusion, decide, identity
from .memory import nbytes, numel
from .one_hot import scatters
from .prefixes import folds_prefix

#: A loop of so many times fewer steps than another is short beside it.
SHORT = 8


@dataclass
class Kernel:
    """The values that a kernel stores, the memory and stored values that it reads, and how long it is."""

    values: list[UOp]
    reads: dict[UOp, None]
    reduces: bool
    length: int


class Graph:
    """Kernels and which of them must run before which, as sets of kernel numbers in the bits of an int."""

    def __init__(self, kernels: list[Kernel]) -> None:
        self.kernels: dict[int, Kernel] = dict(enumerate(kernels))
        self.writer = {value: k for k, kernel in self.kernels.items() for value in kernel.values}
        self.direct: dict[int, set[int]] = {}
        self.users: dict[int, set[int]] = {k: set() for k in self.kernels}
        self.before: dict[int, int] = {}
        for k, kernel in self.kernels.items():
            self.direct[k] = {self.writer[r] for r in kernel.reads if r in self.writer}
            self.before[k] = 0
            for d in self.direct[k]:
                self.before[k] |= self.before[d] | 1 << d
                self.users[d].add(k)

    def depends(self, later: int, earlier: int) -> bool:
        """True where `later` must run after `earlier`."""
        return bool(self.before[later] >> earlier & 1)

    def add_edge(self, earlier: int, later: int) -> None:
        """`later` runs after `earlier`, and so does all that runs after `later`."""
        self.direct[later].add(earlier)
        self.users[earlier].add(later)
        self._runs_before(earlier)

    def _runs_before(self, k: int) -> None:
        """Tell all that run after a kernel, as far as they do not know it, what runs before it."""
        changed = [k]
        while changed:
            k = changed.pop()
            known = self.before[k] | 1 << k
            for user in self.users[k]:
                if known & ~self.before[user]:
                    self.before[user] |= known
                    changed.append(user)

    def merge(self, into: int, other: int) -> None:
        """Make two kernels one; no third may have to run between them."""
        gone = self.kernels.pop(other)
        kernel = self.kernels[into]
        kernel.values += gone.values
        kernel.length += gone.length
        kernel.reduces |= gone.reduces
        kernel.reads = {r: None for r in kernel.reads | gone.reads if r not in kernel.values}
        self.writer.update(dict.fromkeys(gone.values, into))
        for d in self.direct.pop(other) - {into}:
            self.users[d] = self.users[d] - {other} | {into}
            self.direct[into].add(d)
        for user in self.users.pop(other):
            self.direct[user] = self.direct[user] - {other} | {into}
            self.users[into].add(user)
        self.users[into].discard(other)
        self.before[into] = (self.before[into] | self.before.pop(other)) & ~(1 << into)
        self._runs_before(into)


def schedule(root: UOp, donors: Mapping[UOp, UOp], limits: Limits) -> tuple[Graph, Fusion]:
    """The kernels of a graph in which all memory is PARAMs. `root` is a SINK of distinct values to store;
    `donors` is the memory over which a value is to be stored, where it is known.

    Raises UopError where a single operation reads more memory arguments than a kernel may have.
    """
    forced: frozenset[UOp] = frozenset()
    while True:
        fusion = decide(root, forced)
        stored = set(fusion.stored)
        kernels = [_kernel(value, stored) for value in fusion.stored]
        cuts = forced.union(*(_cuts(kernel, stored, limits.arguments) for kernel in kernels))
        if cuts == forced:
            break
        forced = cuts
    graph = Graph(kernels)
    _merge(graph, fusion, donors, limits.arguments)
    needed = set(root.src).union(*(kernel.reads for kernel in graph.kernels.values()))
    for kernel in graph.kernels.values():
        kernel.values = [value for value in kernel.values if value in needed]
    return graph, fusion


def _kernel(value: UOp, stored: set[UOp]) -> Kernel:
    reads: dict[UOp, None] = {}
    reduces = False
    size = 0
    outside = stored - {value}
    for node in body_nodes(value, outside):
        if is_memory(node) or node in outside:
            reads[node] = None
        else:
            reduces |= node.op is Ops.REDUCE
            size += length(node)
    return Kernel([value], reads, reduces, size)


def _cuts(kernel: Kernel, stored: set[UOp], arguments: int) -> set[UOp]:
    """What to store within a kernel that is too wide or too long."""
    (value,) = kernel.values
    outside = stored - {value}
    if len(kernel.reads) >= arguments:
        return cut_wide(value, outside, arguments)
    return cut_long(value, outside) if kernel.length > LENGTH else set()


def _merge(graph: Graph, fusion: Fusion, donors: Mapping[UOp, UOp], arguments: int) -> None:
    """Make kernels that store the same shape one, where that saves loads: of several that would take it, a
    kernel joins the one with which it saves most.
    What scatters stays alone, and what folds prefixes is the only fold.

    An optimizer's moments and parameter are computed from the same gradient, the greatest element of a row
    and the sum of its exponentials from the same row: read once, stored in one loop.
    """
    walks = {k: _walk(kernel, fusion) for k, kernel in graph.kernels.items()}
    touching: dict[object, dict[int, None]] = {}  # the kernels of a shape that load or store a value
    for k in list(graph.kernels):
        kernel, shape = graph.kernels[k], graph.kernels[k].values[0].shape
        size = numel(shape)
        places: list[object] = [(shape, m) for m in kernel.reads if numel(m.shape) >= size]
        places += [shape] if size == 1 else []
        best, most = k, 0
        for other in sorted({o for place in places for o in touching.get(place, ())}):
            into = graph.kernels[other]
            together = len(into.reads | kernel.reads) + len(into.values) + len(kernel.values)
            fits = together <= arguments and into.length + kernel.length <= LENGTH
            if not fits or any(map(scatters, into.values)):
                continue
            if kernel.reduces and any(scatters(v) or folds_prefix(v) for v in into.values + kernel.values):
                continue
            saved = _saved(into, kernel, walks[other], walks[k])
            if saved > most and _joinable(graph, fusion, donors, other, k):
                best, most = other, saved
        for place in [*places, *((shape, v) for v in kernel.values)]:
            touching.setdefault(place, {})[best] = None
        if best != k:
            graph.merge(best, k)
            walks[best] = {p: max(walks[best].get(p, 0), walks[k].get(p, 0)) for p in walks[best] | walks[k]}


#: How often a kernel loads an element of what it reads, for each memory and index in the kernel's own loops.
Walk = dict[tuple[UOp, tuple[UOp, ...]], int]


def _walk(kernel: Kernel, fusion: Fusion) -> Walk:
    found: Walk = {}
    for memory in kernel.reads:
        for demand in fusion.reads[memory]:
            if demand.kernel in kernel.values:
                at = _renumbered(demand)
                found[memory, at] = max(found.get((memory, at), 0), demand.evaluations)
    return found


def _renumbered(demand: Demand) -> tuple[UOp, ...]:
    """The index of a demand, its loops numbered as they stand within each other:
    that of equal walks is equal.
    """
    first = len(demand.kernel.shape)
    inner = [r for r in demand.loops if r.arg[0] >= first]
    new = {r: UOp.range(r.src[0], first + n, r.arg[1]) for n, r in enumerate(inner)}
    if all(r is n for r, n in new.items()):
        return demand.at
    return tuple([graph_rewrite(i.substitute(new), symbolic) for i in demand.at])


def _saved(into: Kernel, kernel: Kernel, before: Walk, walk: Walk) -> int:
    """Bytes that are loaded once in place of twice if two kernels are one.

    A kernel without a REDUCE saves what it uses of the other, and what both read if neither has one; of one
    element it saves its launch. Two with a REDUCE save what both walk through alike, if it is as large as all
    that they walk through: the second loop finds it in the cache. A product of matrices walks through more
    than its operands have, and has an order of loops for itself alone.
    A short loop before a long one that uses its result saves that.
    """
    if kernel.reduces:
        steps, first = max(walk.values(), default=0), max(before.values(), default=0)
        both = {m for m, at in walk.keys() & before.keys() if numel(m.shape) >= max(steps, first)}
        used = [m for m in kernel.reads if m in into.values and SHORT * first <= steps]
        return sum(map(nbytes, both)) + sum(map(nbytes, used))
    used = [m for m in kernel.reads if m in into.values or (m in into.reads and not into.reduces)]
    size = numel(kernel.values[0].shape)
    saved = sum(nbytes(m) for m in used if numel(m.shape) >= size)
    return saved or int(size == 1 and not into.reduces)


def _joinable(graph: Graph, fusion: Fusion, donors: Mapping[UOp, UOp], earlier: int, later: int) -> bool:
    """Whether nothing has to run between two kernels, and each uses of what the other stores, and of what
    stood there before, only the element that it stores itself.
    """
    if graph.depends(earlier, later):
        return False
    if any(d != earlier and graph.depends(d, earlier) for d in graph.direct[later]):
        return False
    first, second = graph.kernels[earlier].values, graph.kernels[later].values
    replaced = [(donors[v], second) for v in first if v in donors] + [
        (donors[v], first) for v in second if v in donors
    ]
    return all(
        identity(demand, memory.shape)
        for memory, users in [*((v, second) for v in first), *replaced]
        for demand in fusion.reads.get(memory, ())
        if demand.kernel in users
    )
