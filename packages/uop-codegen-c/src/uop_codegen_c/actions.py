"""Axis actions: the few steps of which every optimization is made, as data. Week 6.

Each acts on a program at loop level and gives an equal one: the same stores of the same values, up to the freedoms
that it says it needs. A schedule is a tuple of actions; printed, it can be read and applied again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Protocol

from uop_ir import AddrSpace, AxisType, Ops, UOp, UopError, flatten, index
from uop_rewrite import bounds, graph_rewrite, symbolic

from .loops import CLOSING, all_ranges, in_order, next_number, next_slot, open_ranges, retype


class ScheduleError(UopError):
    """An action that is not legal on a program, with the reason."""


class Action(Protocol):
    """One step of a schedule."""

    def apply(self, root: UOp) -> UOp:
        """The program after the action. Raises ScheduleError where it is not legal."""


def find_range(root: UOp, number: int) -> UOp:
    """The RANGE with a number. Raises ScheduleError where there is none."""
    for r in all_ranges(root):
        if r.arg[0] == number:
            return r
    raise ScheduleError(f"no range {number}", remedy=f"ranges {[r.arg[0] for r in all_ranges(root)]}")


def _constant(r: UOp, action: str) -> int:
    if r.src[0].op is not Ops.CONST:
        raise ScheduleError(f"{action}: range {r.arg[0]} has no constant size")
    return int(r.src[0].value)


def holds_scratch(root: UOp, r: UOp) -> bool:
    """Whether scratch memory is filled anew for each value of a range."""
    return any(n.op is Ops.AFTER and n.src[0].op is Ops.ALLOC and r in n.src[1:] for n in root.toposort())


def _check_vector(root: UOp, r: UOp, axis: AxisType) -> None:
    """Scratch memory that is filled anew for each value of a range has no lanes."""
    if axis is AxisType.VECTOR and holds_scratch(root, r):
        raise ScheduleError(f"vector: scratch memory is filled inside of range {r.arg[0]}")


def _moved(
    body: UOp, at: dict[UOp, UOp], ranges: dict[UOp, tuple[UOp, ...]], slots: Iterator[int] | None = None
) -> UOp:
    """A body with ranges replaced: by an index in what is computed, by ranges where scratch memory stands in them.

    With `slots` this is a second copy, and such memory is its own, with the next slot.
    """
    new = dict(at)
    for node in body.toposort():
        if node.op is Ops.AFTER and node.src[0].op is Ops.ALLOC and any(r in ranges for r in node.src[1:]):
            memory, arg = node.src[0], node.src[0].arg
            if memory not in new:
                own = memory if slots is None else UOp.alloc(next(slots), arg.size, arg.dtype, arg.addrspace)
                new[memory] = own
            new[node] = new[memory].after(*(q for r in node.src[1:] for q in ranges.get(r, (r,))))
    return body.substitute(new)


def _closer(root: UOp, r: UOp) -> list[UOp]:
    return [n for n in root.toposort() if n.op in CLOSING and r in n.src[1:]]


@dataclass(frozen=True)
class Split:
    """Split a range into an outer and an inner one of `factor`, the inner one an axis of a given type.

    Where the factor does not divide the size, what closes the range is repeated for the rest. The outer range keeps
    its place, the inner one follows it; they get the next two numbers. A reduction that is split with a rest, or whose
    inner axis is upcast or vector (several accumulators), needs the freedom to reassociate.
    """

    number: int
    factor: int
    axis: AxisType

    def apply(self, root: UOp) -> UOp:
        r = find_range(root, self.number)
        size = _constant(r, "split")
        if not 1 <= self.factor <= size:
            raise ScheduleError(f"split: factor {self.factor} for range {self.number} of {size}")
        _check_vector(root, r, self.axis)
        whole, rest = divmod(size, self.factor)
        first = next_number(root)
        slots = count(next_slot(root))
        outer, inner = UOp.range(whole, first, r.arg[1]), UOp.range(self.factor, first + 1, self.axis)
        new: dict[UOp, UOp] = {}
        for node in root.toposort():
            src = [new[s] for s in node.src]
            if node.op is Ops.REDUCE and r in node.src[1:]:
                new[node] = self._reduce(node, src, r, outer, inner, rest, slots)
            elif node.op is Ops.END and r in node.src[1:]:
                new[node] = self._end(src, r, outer, inner, rest, slots)
            else:
                new[node] = node.replace(src=src)
        return graph_rewrite(_flat(new[root]), symbolic)

    def _reduce(
        self, node: UOp, src: list[UOp], r: UOp, outer: UOp, inner: UOp, rest: int, slots: Iterator[int]
    ) -> UOp:
        main = _moved(src[0], {r: outer * self.factor + inner}, {r: (outer, inner)})
        out = node.replace(src=(main, *_replaced(src[1:], r, outer, inner)))
        if not rest:
            return out
        first = int(inner.arg[0]) + 1
        own = {
            q: q.replace(arg=(first + i, q.arg[1])) for i, q in enumerate(q for q in src[1:] if q is not r)
        }
        tail = UOp.range(rest, first + len(own), r.arg[1]) if rest > 1 else index(0)
        at = {r: tail + int(outer.src[0].value) * self.factor, **own}
        left = _moved(src[0], at, _own_loops(r, tail, own), slots)
        closed = [q for q in _replaced(src[1:], r, tail) if q.op is Ops.RANGE]
        closed = [own.get(q, q) for q in closed]
        return out.alu(node.arg[0], left.reduce(node.arg[0], 0, closed) if closed else left)

    def _end(self, src: list[UOp], r: UOp, outer: UOp, inner: UOp, rest: int, slots: Iterator[int]) -> UOp:
        body, at = src[0], src.index(r)
        before, behind = src[1:at], src[at + 1 :]
        main = _moved(body, {r: outer * self.factor + inner}, {r: (outer, inner)})
        if not rest:
            return main.end(*before, outer, inner, *behind)
        loop = main.end(outer, inner, *behind)
        first = int(inner.arg[0]) + 1
        inside = {q for n in body.toposort() if n.op is Ops.REDUCE and r in open_ranges(n) for q in n.src[1:]}
        own = {q: q.replace(arg=(first + i, q.arg[1])) for i, q in enumerate([*behind, *in_order(inside)])}
        tail = UOp.range(rest, first + len(own), r.arg[1]) if rest > 1 else index(0)
        done = int(outer.src[0].value) * self.factor
        closed = [q for q in (tail, *(own[q] for q in behind)) if q.op is Ops.RANGE]
        left = _moved(body, {r: tail + done, **own}, _own_loops(r, tail, own), slots)
        return UOp.sink(loop, left.end(*closed) if closed else left).end(*before)


def _own_loops(r: UOp, tail: UOp, own: dict[UOp, UOp]) -> dict[UOp, tuple[UOp, ...]]:
    """What stands for each range in the rest of a split one."""
    return {r: (tail,) if tail.op is Ops.RANGE else (), **{q: (new,) for q, new in own.items()}}


def _flat(root: UOp) -> UOp:
    """A SINK without SINKs among its sources."""
    return UOp.sink(*(e for s in root.src for e in (s.src if s.op is Ops.SINK else (s,))))


def _replaced(ranges: list[UOp], r: UOp, *by: UOp) -> list[UOp]:
    return [q for old in ranges for q in (by if old is r else (old,))]


@dataclass(frozen=True)
class Retype:
    """Give a range another type of axis."""

    number: int
    axis: AxisType

    def apply(self, root: UOp) -> UOp:
        r = find_range(root, self.number)
        _check_vector(root, r, self.axis)
        if self.axis is AxisType.THREAD:
            for node in _closer(root, r):
                if node.op is Ops.REDUCE or open_ranges(node):
                    raise ScheduleError(f"thread: range {self.number} is not the outermost loop of a store")
        return root.substitute({r: retype(r, self.axis)})


@dataclass(frozen=True)
class Reorder:
    """Close the ranges of an END or REDUCE in another order, outermost first. A REDUCE needs reassociation."""

    numbers: tuple[int, ...]

    def apply(self, root: UOp) -> UOp:
        wanted = tuple(find_range(root, n) for n in self.numbers)
        new: dict[UOp, UOp] = {}
        found = False
        for node in root.toposort():
            src = tuple(new[s] for s in node.src)
            if node.op in CLOSING and set(node.src[1:]) == set(wanted):
                src, found = (src[0], *wanted), True
            new[node] = node.replace(src=src)
        if not found:
            raise ScheduleError(f"reorder: no loop nest closes exactly the ranges {list(self.numbers)}")
        return new[root]


@dataclass(frozen=True)
class Stage:
    """Copy what a LOAD of argument `slot` reads over some ranges into local memory, in the order of these ranges.

    The copy is filled once for all values of the ranges that the position does not depend on.
    """

    slot: int
    numbers: tuple[int, ...]

    def apply(self, root: UOp) -> UOp:
        ranges = tuple(find_range(root, n) for n in self.numbers)
        shape = tuple(_constant(r, "stage") for r in ranges)
        loads = [n for n in root.toposort() if n.op is Ops.LOAD and self._reads(n, ranges)]
        if not loads:
            raise ScheduleError(
                f"stage: no load of argument {self.slot} depends on the ranges {list(self.numbers)}"
            )
        first = next_number(root)
        slot = next_slot(root)
        own = tuple(UOp.range(s, first + i) for i, s in enumerate(shape))
        replaced: dict[UOp, UOp] = {}
        for load in loads:
            size = 1
            for s in shape:
                size *= s
            outer = in_order(open_ranges(load) - frozenset(ranges))
            memory = UOp.alloc(slot + len(replaced), size, load.dtype, AddrSpace.LOCAL)
            fill = load.substitute(dict(zip(ranges, own, strict=True)))
            place = memory.after(*outer)
            filled = place.after(place.index(flatten(shape, own)).store(fill).end(*own))
            replaced[load] = filled.index(flatten(shape, ranges)).load()
        return graph_rewrite(root.substitute(replaced), symbolic)

    def _reads(self, load: UOp, ranges: tuple[UOp, ...]) -> bool:
        place = load.src[0]
        memory = place.src[0]
        return memory.op is Ops.PARAM and memory.arg.slot == self.slot and set(ranges) <= open_ranges(load)


def apply_schedule(root: UOp, schedule: Iterable[Action]) -> UOp:
    """A program after all actions of a schedule, in order."""
    for action in schedule:
        root = action.apply(root)
    return root


def extent(r: UOp) -> int:
    """The greatest number of values that a range has."""
    return bounds(r.src[0])[1]
