"""A graph of values becomes kernels: what is stored once, what is fused, what is merged. Week 5.

`fusion.decide` says which values are stored; each is a kernel. A kernel that would need more memory arguments than
the backend takes, or be very long, is cut further. Then kernels that walk the same elements of the same memory become one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from uop_ir import Limits, Ops, UOp

from .cost import is_memory
from .cut import LENGTH, body_nodes, cut_long, cut_wide, length
from .fusion import Fusion, decide, identity
from .one_hot import scatters


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
        self.before: dict[int, int] = {}
        for k, kernel in self.kernels.items():
            self.direct[k] = {self.writer[r] for r in kernel.reads if r in self.writer}
            self.before[k] = 0
            for d in self.direct[k]:
                self.before[k] |= self.before[d] | 1 << d

    def depends(self, later: int, earlier: int) -> bool:
        """True where `later` must run after `earlier`."""
        return bool(self.before[later] >> earlier & 1)

    def add_edge(self, earlier: int, later: int) -> None:
        """`later` runs after `earlier`, and so does all that runs after `later`."""
        self.direct[later].add(earlier)
        new = self.before[earlier] | 1 << earlier
        for k in self.kernels:
            if k == later or self.depends(k, later):
                self.before[k] |= new

    def merge(self, into: int, other: int) -> None:
        """Make two kernels one; no third may have to run between them."""
        gone = self.kernels.pop(other)
        kernel = self.kernels[into]
        kernel.values += gone.values
        kernel.length += gone.length
        kernel.reads = {r: None for r in kernel.reads | gone.reads if r not in kernel.values}
        self.writer.update(dict.fromkeys(gone.values, into))
        self.direct[into] = (self.direct[into] | self.direct.pop(other)) - {into}
        self.before[into] = (self.before[into] | self.before.pop(other)) & ~(1 << into)
        for k, direct in self.direct.items():
            if other in direct:
                direct.remove(other)
                direct.add(into)
            if self.before[k] >> other & 1 or self.before[k] >> into & 1:
                self.before[k] = (self.before[k] & ~(1 << other)) | self.before[into] | 1 << into


def schedule(root: UOp, donors: Mapping[UOp, UOp], limits: Limits) -> tuple[Graph, Fusion]:
    """The kernels of a graph in which all memory is PARAMs. `root` is a SINK of distinct values to store; `donors` is
    the memory over which a value is to be stored, where it is known.

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
    _merge_elementwise(graph, fusion, donors, limits.arguments)
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


def _merge_elementwise(graph: Graph, fusion: Fusion, donors: Mapping[UOp, UOp], arguments: int) -> None:
    """Make kernels without a REDUCE part of others that store the same shape, where that saves loads.

    An optimizer's moments and parameter are computed from the same gradient: read once, stored in one loop. A kernel
    joins the first that takes it: one without a REDUCE that reads some of the same memory, or any whose values it
    uses, if at the very element that it stores. What scatters stays alone.
    """
    open_kernels: dict[object, list[int]] = {}
    for k in list(graph.kernels):
        kernel = graph.kernels[k]
        group = open_kernels.setdefault(kernel.values[0].shape, [])
        for other in [] if kernel.reduces else group:
            into = graph.kernels[other]
            together = len(into.reads | kernel.reads) + len(into.values) + len(kernel.values)
            uses = other in graph.direct[k]
            shares = not into.reduces and bool(into.reads.keys() & kernel.reads.keys())
            fits = together <= arguments and into.length + kernel.length <= LENGTH
            fits = fits and not any(map(scatters, into.values))
            if (uses or shares) and fits and _joinable(graph, fusion, donors, other, k):
                graph.merge(other, k)
                break
        else:
            group.append(k)


def _joinable(graph: Graph, fusion: Fusion, donors: Mapping[UOp, UOp], earlier: int, later: int) -> bool:
    """Whether nothing has to run between two kernels, and each uses of what the other stores, and of what stood there
    before, only the element that it stores itself."""
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
