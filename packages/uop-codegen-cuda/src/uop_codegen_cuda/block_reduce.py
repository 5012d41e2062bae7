"""Reductions that the threads of a block share:
lanes of a warp by shuffles, warps through shared memory. Week 7.

A REDUCE over a WARP range of 32 is folded by the lanes of a warp: each has its value in a register, and takes
that of the lane 16 behind it, then 8, 4, 2. A REDUCE over a GROUP range is folded by the warps of a block:
the first lane of each stores its value to shared memory, and all threads fold these, in order. What comes of
it is a program of memory and loops like any other,
in which the order of each fold stands: the interpreter gives its bits.

A lane's register is memory of a warp with an element a lane, filled over a WARP range. Lanes from the half on
fold too, with what nobody needs: a warp goes together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import ClassVar, NamedTuple

from uop_ir import AddrSpace, AxisType, Ops, UOp, index
from uop_rewrite import Pass

from .banks import WARP
from .shared import memory_of, stores

#: The axes of a REDUCE that threads share.
SHARED_AXES = frozenset({AxisType.WARP, AxisType.GROUP})


@dataclass(frozen=True)
class BlockReduce(Pass):
    name: ClassVar = "block-reduce"
    purpose: ClassVar = "warp and group axes of a REDUCE become shuffles and shared memory"

    def run(self, root: UOp) -> UOp:
        return block_reduce(root)


def block_reduce(root: UOp) -> UOp:
    """A program at loop level whose reductions have no warp or group axes."""
    if not any(shared_axes(n) for n in root.toposort()):
        return root
    return _BlockReduce(root).program()


def shared_axes(node: UOp) -> list[UOp]:
    """The ranges of a REDUCE that threads share."""
    return [r for r in node.src[1:] if r.arg[1] in SHARED_AXES] if node.op is Ops.REDUCE else []


def open_ranges(order: Iterable[UOp]) -> dict[UOp, frozenset[UOp]]:
    """For each node of a program, given after its sources, the ranges whose value it depends on."""
    found: dict[UOp, frozenset[UOp]] = {}
    for node in order:
        used = frozenset[UOp]().union(*(found[s] for s in node.src))
        if node.op in (Ops.END, Ops.REDUCE):
            used -= frozenset(node.src[1:])
        found[node] = used | {node} if node.op is Ops.RANGE else used
    return found


class Place(NamedTuple):
    """Reductions that one walk makes: over the same ranges, in the same loops, as deep above others."""

    ranges: tuple[UOp, ...]
    loops: frozenset[UOp]
    depth: int


class _BlockReduce:
    def __init__(self, root: UOp) -> None:
        self.root = root
        self.order = list(root.toposort())
        ranges = [n for n in self.order if n.op is Ops.RANGE]
        self.numbers = count(1 + max(int(r.arg[0]) for r in ranges))
        self.slots = count(1 + max((int(n.arg.slot) for n in self.order if n.op is Ops.ALLOC), default=-1))
        groups = [r for r in ranges if r.arg[1] is AxisType.GROUP]
        #: The threads of a block that share reductions: warps, and the lanes of each.
        self.threads = ([int(groups[0].src[0].value)] if groups else []) + [WARP]
        self.new: dict[UOp, UOp] = {r: r.replace(arg=(r.arg[0], AxisType.LOCAL)) for r in groups}

    def program(self) -> UOp:
        opened, depths = open_ranges(self.order), _depths(self.order)
        places = {
            n: Place(n.src[1:], opened[n], depths[n])
            for n in self.order
            if n.op is Ops.REDUCE and shared_axes(n)
        }
        together: dict[Place, list[UOp]] = {}
        for node, place in places.items():
            together.setdefault(place, []).append(node)
        # all that stands on n reductions comes after all that stands on fewer,
        # so that what a walk needs is there
        for node in sorted(self.order, key=lambda n: (depths[n], n not in places)):
            if node in self.new:
                continue
            if node in places:
                self.fold(together[places[node]], places[node])
            else:
                src = [self.new[s] for s in node.src]
                self.new[node] = node if tuple(src) == node.src else node.replace(src=src)
        rows = frozenset[UOp]().union(*(place.loops for place in places.values()))
        return UOp.sink(*(self.with_lanes(self.new[nest], rows) for nest in self.root.src))

    def fold(self, nodes: list[UOp], place: Place) -> None:
        """Reductions in one place."""
        own = [self.new[r] for r in place.ranges if r.arg[1] not in SHARED_AXES]
        axes = {r.arg[1]: self.new.get(r, r) for r in place.ranges}
        loops = tuple(sorted((self.new[r] for r in place.loops), key=lambda r: int(r.arg[0])))
        warp, group = axes.get(AxisType.WARP), axes.get(AxisType.GROUP)
        ops = [node.arg[0] for node in nodes]
        values = [self.new[node.src[0]] for node in nodes]
        if own:
            values = [v.reduce(op, 0, own) for v, op in zip(values, ops, strict=True)]
        if warp is not None:
            values = self.over_lanes(values, ops, warp, loops if group is None else (*loops, group))
        if group is not None:
            values = self.over_warps(values, ops, group, loops)
        self.new.update(zip(nodes, values, strict=True))

    def over_lanes(self, values: list[UOp], ops: list[Ops], lane: UOp, loops: Sequence[UOp]) -> list[UOp]:
        """What the lanes of a warp have, folded by halves: lane n with lane n + 16, ..."""
        half = WARP // 2
        registers = self.fill(values, (lane,), loops, (lane,), WARP + half)
        while half > 1:
            lane = UOp.range(half, next(self.numbers), AxisType.WARP)
            pairs = [_pair(r, lane, half, op) for r, op in zip(registers, ops, strict=True)]
            half //= 2
            registers = self.fill(pairs, (lane,), loops, (lane,), WARP + half)
        return [_pair(r, index(0), 1, op) for r, op in zip(registers, ops, strict=True)]

    def over_warps(self, values: list[UOp], ops: list[Ops], warp: UOp, loops: Sequence[UOp]) -> list[UOp]:
        """What the warps of a block have, folded by each thread in order.
        The first lane of each stores it.
        """
        warps = int(warp.src[0].value)
        lane = UOp.range(WARP, next(self.numbers), AxisType.LOCAL)
        filled = self.fill(values, (warp, lane.eq(0)), loops, (warp, lane), warps)
        each = UOp.range(warps, next(self.numbers), AxisType.REDUCE)
        return [m.index(each).load().reduce(op, 0, (each,)) for m, op in zip(filled, ops, strict=True)]

    def fill(
        self, values: list[UOp], at: Sequence[UOp], loops: Sequence[UOp], ranges: Sequence[UOp], size: int
    ) -> list[UOp]:
        """Memory for each of some values, filled in one loop nest at a position, and where that is valid."""
        memories = [UOp.alloc(next(self.slots), size, v.dtype, AddrSpace.LOCAL).after(*loops) for v in values]
        filled = [m.index(*at).store(v) for m, v in zip(memories, values, strict=True)]
        end = (filled[0] if len(filled) == 1 else UOp.sink(*filled)).end(*ranges)
        return [m.after(end) for m in memories]

    def with_lanes(self, nest: UOp, rows: frozenset[UOp]) -> UOp:
        """A nest that has no axes for the threads that share a reduction with them:
        the first thread stores.
        """
        ranges = nest.src[1:] if nest.op is Ops.END else ()
        local = [r for r in ranges if r.arg[1] is AxisType.LOCAL]
        if any(r not in rows for r in local):
            return nest
        lanes = [UOp.range(n, next(self.numbers), AxisType.LOCAL) for n in self.threads]
        alone = [_only(store, lanes) for store in stores(nest)]
        place = len([r for r in ranges if r.arg[1] in (AxisType.GLOBAL, AxisType.LOCAL)])
        body = alone[0] if len(alone) == 1 else UOp.sink(*alone)
        return body.end(*ranges[:place], *lanes, *ranges[place:])


def _pair(register: UOp, lane: UOp, by: int, op: Ops) -> UOp:
    """What a lane and the one so many behind it have."""
    return register.index(lane).load().alu(op, register.index(lane + by).load())


def _only(store: UOp, lanes: list[UOp]) -> UOp:
    """A store that one thread makes."""
    memory, at, *valid = store.src[0].src
    first = lanes[0].eq(0)
    for lane in lanes[1:]:
        first = first & lane.eq(0)
    return store.replace(src=(memory.index(at, valid[0] & first if valid else first), *store.src[1:]))


def _depths(order: Iterable[UOp]) -> dict[UOp, int]:
    """How many shared reductions stand one on the other, of nodes that come after their sources."""
    depths: dict[UOp, int] = {}
    for node in order:
        below = max((depths[s] for s in node.src), default=0)
        depths[node] = below + bool(shared_axes(node))
    return depths


def lane_fills(order: Iterable[UOp]) -> Iterator[tuple[UOp, list[UOp]]]:
    """The loop nests that fill registers of lanes, each with its memory."""
    for end in order:
        if end.op is Ops.END and end.src[1:] and end.src[1].arg[1] is AxisType.WARP:
            yield end, [memory_of(store.src[0]) for store in stores(end)]
