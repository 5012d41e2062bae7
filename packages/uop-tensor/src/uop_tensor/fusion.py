"""Which values are stored and which are computed where they are used. Week 5.

Consumers are walked before producers, and each node collects its demands: at which index, within which loops,
which kernel asks for it. Movement ops change the index, a REDUCE opens loops. A value that does not depend on
the inner loops is computed outside of them, so a demand stands within the loops down to the innermost that
its index uses, and two demands that agree are one. Then `cost.py` decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple

from uop_ir import INDEX_MAPS, AxisType, Ops, UOp, flatten, index, index_map
from uop_rewrite import graph_rewrite, symbolic

from .cost import costs, is_leaf, prices
from .memory import extent, numel
from .one_hot import Index, operand, output_index, scatters
from .prefixes import folds_prefix


class Demand(NamedTuple):
    """A kernel (named by the value that it stores) wants
    a value at an index within loops, outermost first.
    """

    kernel: UOp
    at: Index
    loops: tuple[UOp, ...]

    @property
    def evaluations(self) -> int:
        """How often the value is computed for this demand."""
        return prod(extent(loop.src[0]) for loop in self.loops)


@dataclass
class Fusion:
    """`stored`: the values that become kernels, producers first. `reads`: the demands on each memory and each
    stored value, whose kernels read it.
    """

    stored: list[UOp] = field(default_factory=list)
    reads: dict[UOp, list[Demand]] = field(default_factory=dict)


class _Loops:
    """The loops of kernels, and index arithmetic over them."""

    def __init__(self) -> None:
        self.opened: dict[UOp, int] = {}
        self._simple: dict[UOp, UOp] = {}
        self._used: dict[UOp, frozenset[UOp]] = {}

    def kernel(self, value: UOp) -> Demand:
        """The demand of the kernel that stores a value: one loop an axis."""
        self.opened[value] = len(value.shape)
        at = output_index(value.shape)
        return Demand(value, at, tuple(i for i in at if i.op is Ops.RANGE))

    def reduce(self, kernel: UOp, size: int | UOp) -> UOp:
        """A new loop of a REDUCE."""
        number = self.opened[kernel]
        self.opened[kernel] = number + 1
        return index(0) if size == 1 else UOp.range(size, number, AxisType.REDUCE)

    def demand(self, kernel: UOp, at: Index, loops: tuple[UOp, ...]) -> Demand:
        """A demand within the loops that it depends on."""
        at = tuple(map(self.simple, at))
        used = frozenset[UOp]().union(*map(self.used, at))
        inner = max((i for i, loop in enumerate(loops) if loop in used), default=-1)
        return Demand(kernel, at, loops[: inner + 1])

    def simple(self, i: UOp) -> UOp:
        """An index in its one simplest form."""
        if i.op in (Ops.RANGE, Ops.CONST):
            return i
        if i not in self._simple:
            self._simple[i] = graph_rewrite(i, symbolic)
        return self._simple[i]

    def used(self, i: UOp) -> frozenset[UOp]:
        """The loops that an index depends on."""
        if i not in self._used:
            self._used[i] = frozenset(n for n in i.toposort() if n.op is Ops.RANGE)
        return self._used[i]


def evaluations(demands: Iterable[Demand]) -> int:
    """How often a value is computed for these demands together."""
    return sum(d.evaluations for d in demands)


def identity(demand: Demand, shape: Sequence[int | UOp]) -> bool:
    """True where memory, as a value of a shape, is read at the very element that the kernel stores."""
    kernel = demand.kernel
    if tuple(shape) == kernel.shape:
        return demand.at == output_index(kernel.shape)
    read, stored = flatten(shape, demand.at), flatten(kernel.shape, output_index(kernel.shape))
    return graph_rewrite(read, symbolic) is graph_rewrite(stored, symbolic)


def decide(root: UOp, forced: frozenset[UOp] = frozenset()) -> Fusion:
    """What to store of the graph below `root`, a SINK of distinct values that are all stored.

    Values in `forced`, STAGEs, sums that scatter and folds of prefixes are stored too, whatever they cost.
    """
    outputs = set(root.src)
    order = list(root.toposort())[:-1]
    costed = costs(order, outputs)
    loops = _Loops()
    fusion = Fusion()
    demands: dict[UOp, dict[Demand, None]] = {node: {} for node in order}
    for node in reversed(order):
        asked = list(demands.pop(node))
        if is_leaf(node):
            fusion.reads[node] = asked
            continue
        choice = node not in costed.cheap and node.op not in INDEX_MAPS
        asked_for = (
            node in outputs or node in forced or node.op is Ops.STAGE or scatters(node) or folds_prefix(node)
        )
        if asked_for or (choice and _pays(node, asked, costed.cost[node])):
            fusion.stored.append(node)
            fusion.reads[node] = asked
            asked = [loops.kernel(node)]
        propagate = _PROPAGATE.get(node.op, _elementwise)
        for demand in asked:
            for source, at, within in propagate(node, demand, loops):
                if source.op is not Ops.CONST:
                    same = at is demand.at and within is demand.loops
                    new = demand if same else loops.demand(demand.kernel, at, within)
                    demands[source][new] = None
    fusion.stored.reverse()
    return fusion


def _pays(node: UOp, demands: list[Demand], cost: float) -> bool:
    """True where storing costs less than computing the value at each demand."""
    stored, computed = prices(numel(node.shape), cost, evaluations(demands))
    return stored < computed


_Asked = Iterator[tuple[UOp, Index, tuple[UOp, ...]]]


def _elementwise(node: UOp, demand: Demand, loops: _Loops) -> _Asked:
    """Shapes align on the right; an axis of size 1 is read at 0."""
    for source in node.src:
        at = demand.at if source.shape == node.shape else operand(source, demand.at)
        yield source, at, demand.loops


def _movement(node: UOp, demand: Demand, loops: _Loops) -> _Asked:
    at, _ = index_map(node, demand.at)
    yield node.src[0], at, demand.loops


def _reduce(node: UOp, demand: Demand, loops: _Loops) -> _Asked:
    source = node.src[0]
    new = tuple(loops.reduce(demand.kernel, size) for size in source.shape[len(node.shape) :])
    yield source, demand.at + new, demand.loops + tuple(r for r in new if r.op is Ops.RANGE)


def _stack(node: UOp, demand: Demand, loops: _Loops) -> _Asked:
    for source in node.src:
        yield source, demand.at[1:], demand.loops


_PROPAGATE: dict[Ops, Callable[[UOp, Demand, _Loops], _Asked]] = {
    **dict.fromkeys(INDEX_MAPS, _movement),
    Ops.REDUCE: _reduce,
    Ops.STACK: _stack,
}
