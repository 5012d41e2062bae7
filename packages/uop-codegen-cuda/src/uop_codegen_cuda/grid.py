"""From loops to threads: the ranges of the grid become SPECIALs,
and what is past an axis's end is guarded. Week 7.

It acts on a linear program. Every thread runs all of it: a loop over a GLOBAL or LOCAL range is there no
more, the range is the index of the block or of the thread. The innermost GLOBAL range of a nest is gidx0, the
next gidx1; lidx0 likewise. All nests of a kernel share one grid, as large as the largest needs: a nest that
is smaller, or an axis whose end is not that of the grid, is guarded by an IF. What fills shared memory has
local ranges of its own, that are the indices of the threads too;
what fills registers of lanes has a warp range, which is lidx0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from math import prod

from uop_codegen_c import ScheduleError
from uop_ir import AddrSpace, AxisType, BackendError, Ops, UOp, index, toposort
from uop_rewrite import bounds, graph_rewrite, linear, symbolic

from .block_reduce import lane_fills
from .shared import fills
from .staging import BLOCKS, DIMENSIONS

#: What the index of a grid's axis is called.
PREFIX = {AxisType.GLOBAL: "gidx", AxisType.LOCAL: "lidx"}
#: Axes that CUDA text has not, and what to ask for instead.
OF_A_CPU = {AxisType.VECTOR: "upcast", AxisType.THREAD: "global or local"}
#: Threads of a block, at most, and blocks and threads along a dimension that allows fewer than others (CUDA
#: C++ Programming Guide, technical specifications per compute capability).
MOST_THREADS = 1024
MOST_ALONG = {"gidx1": BLOCKS, "gidx2": BLOCKS, "lidx2": 64}


def check_grid(root: UOp) -> None:
    """Raise ScheduleError for a program at loop level whose axes no launch has, or no thread can run."""
    order = root.toposort()
    nests = [_names(end) for end in (*root.src, *fills(order)) if end.op is Ops.END]
    for r in filter(_is_range, order):
        number, axis = r.arg
        if axis in OF_A_CPU:
            raise ScheduleError(
                f"range {number} is {axis.value}, which CUDA has not", remedy=f"{OF_A_CPU[axis]} instead"
            )
        if axis in PREFIX and not any(r in names for names in nests):
            raise ScheduleError(
                f"range {number}, {axis.value}, is not an outermost one of a store",
                remedy="a reorder with global and local axes first",
            )
    for axis, prefix in PREFIX.items():
        count = max((sum(name.startswith(prefix) for name in names.values()) for names in nests), default=0)
        if count > DIMENSIONS:
            raise ScheduleError(
                f"{count} {axis.value} axes", remedy=f"at most {DIMENSIONS}; make others loops"
            )
    sizes: dict[str, int] = {}
    for r, name in (item for names in nests for item in names.items()):
        sizes[name] = max(sizes.get(name, 1), bounds(r.src[0])[1])
    threads = prod(n for name, n in sizes.items() if name.startswith(PREFIX[AxisType.LOCAL]))
    if threads > MOST_THREADS:
        raise ScheduleError(
            f"{threads} threads a block",
            remedy=f"at most {MOST_THREADS}; split a local axis, or make it global",
        )
    for name, most in MOST_ALONG.items():
        if sizes.get(name, 1) > most:
            unit = "blocks" if name.startswith(PREFIX[AxisType.GLOBAL]) else "threads"
            raise ScheduleError(
                f"{sizes[name]} {unit} along {'xyz'[int(name[-1])]}",
                remedy=f"at most {most}; a reorder with the longest axis innermost of its kind",
            )


def to_grid(order: Sequence[UOp]) -> list[UOp]:
    """A linear program with ranges of the grid as the program of one thread of it.

    Raises BackendError where a range of the grid is not an outermost one of a store.
    """
    root = order[-1]
    filled = fills(order)
    names = {end: _names(end) for end in (*root.src, *filled) if end.op is Ops.END}
    lanes = {end: {end.src[1]: f"{PREFIX[AxisType.LOCAL]}0"} for end, _ in lane_fills(order)}
    if any(n.arg[1] in PREFIX and not any(n in ns for ns in names.values()) for n in order if _is_range(n)):
        raise BackendError("a global or local range that is not an outermost one of a store")
    names |= lanes
    sizes = {
        name: _size(name, [r.src[0] for ns in names.values() for r, n in ns.items() if n == name])
        for name in sorted({n for ns in names.values() for n in ns.values()})
    }
    specials = {name: UOp(Ops.SPECIAL, (size,), name) for name, size in sizes.items()}
    return list(_Rewrite(names, specials, filled, frozenset(lanes)).program(order))


def launch(order: Sequence[UOp]) -> tuple[tuple[UOp, ...], tuple[UOp, ...]]:
    """The blocks of a grid and the threads of a block,
    each in x, y and z, that a program of `to_grid` asks for.
    """
    sizes = {n.arg: n.src[0] for n in order if n.op is Ops.SPECIAL}
    blocks, threads = (tuple(sizes.get(f"{p}{i}", index(1)) for i in range(3)) for p in PREFIX.values())
    return blocks, threads


def dimensions(axes: list[int], extents: dict[int, int]) -> list[int]:
    """Which of the axes, innermost first, become the dimensions x, y and z of the grid."""
    first = next((n for n in axes if extents[n] > BLOCKS), None)
    rest = [n for n in axes if extents[n] <= BLOCKS]
    return ([] if first is None else [first]) + rest[: DIMENSIONS - (first is not None)]


def _is_range(node: UOp) -> bool:
    return node.op is Ops.RANGE


def _names(end: UOp) -> dict[UOp, str]:
    """The ranges of the grid that a nest has outermost, each with the name of its index."""
    names: dict[UOp, str] = {}
    count = dict.fromkeys(PREFIX.values(), 0)
    outermost = []
    for r in end.src[1:]:
        if r.arg[1] not in PREFIX:
            break
        outermost.append(r)
    for r in reversed(outermost):
        prefix = PREFIX[r.arg[1]]
        names[r] = f"{prefix}{count[prefix]}"
        count[prefix] += 1
    return names


def _size(name: str, ends: list[UOp]) -> UOp:
    """The size of an axis of the grid: the largest that a nest asks for,
    at least 1. That of a block is a constant.
    """
    if name.startswith(PREFIX[AxisType.LOCAL]):
        return index(max(1, *(bounds(e)[1] for e in ends)))
    largest = reduce(lambda a, b: a.maximum(b), dict.fromkeys(ends))
    return graph_rewrite(largest.maximum(1), symbolic)


class _Rewrite:
    """One walk over a linear program, with what each of its nodes became."""

    def __init__(
        self,
        names: dict[UOp, dict[UOp, str]],
        specials: dict[str, UOp],
        filled: dict[UOp, list[UOp]],
        lanes: frozenset[UOp],
    ) -> None:
        self.specials, self.filled, self.lanes = specials, filled, lanes
        self.names = {r: name for ns in names.values() for r, name in ns.items()}
        self.nests = {end: {r: specials[name] for r, name in ns.items()} for end, ns in names.items() if ns}
        self.opened = {end.src[1]: end for end in self.nests}
        self.new: dict[UOp, UOp] = {}
        self.listed: set[UOp] = set()

    def program(self, order: Sequence[UOp]) -> Iterator[UOp]:
        yield from self.need(self.specials.values())
        yield from self.need(memory for memories in self.filled.values() for memory in memories)
        #: What was there before each nest and each loop that is open, and the guards of the nests.
        outside: list[set[UOp]] = []
        guards: list[UOp | None] = []
        for node in order:
            if node in self.opened:
                outside.append(self.listed)
                self.listed = set(self.listed)
                guards.append(self.guard(self.opened[node]))
                yield from self.begin(guards[-1])
            if node in self.names:
                self.new[node] = self.specials[self.names[node]]
                continue
            now = self.rewritten(node)
            self.new[node] = now
            if node.op is Ops.RANGE:
                outside.append(self.listed)
                self.listed = set(self.listed)
            if (
                not guards
                and node.op is Ops.STORE
                and node.src[0].addrspace is AddrSpace.GLOBAL
                and self.specials
            ):
                alone = self.guard(None)
                yield from self.begin(alone)
                yield now
                yield from self.finish(alone)
            elif now not in self.listed:
                self.listed.add(now)
                yield now
            if node.op is Ops.END:
                for _ in now.src[1:] if now.op is Ops.END else ():
                    self.listed = outside.pop() | {now}
            if node in self.nests:
                yield from self.finish(guards.pop())
                self.listed = outside.pop() | {now}

    def rewritten(self, node: UOp) -> UOp:
        """A node on what its sources became; an END of nothing but ranges of the grid is its effect."""
        src = [self.new[s] if s in self.new else self.rewritten(s) for s in node.src]
        if node in self.nests:
            return src[0].end(*(s for s in src[1:] if _is_range(s)))
        if node.op is Ops.AFTER:
            return src[0].after(*(s for s in src[1:] if s.op is not Ops.SPECIAL))
        return node if tuple(src) == node.src else node.replace(src=src)

    def need(self, nodes: Iterable[UOp]) -> Iterator[UOp]:
        """What some nodes stand on, and they themselves, where they are not there yet."""
        for node in toposort(nodes):
            if node not in self.listed:
                self.listed.add(node)
                yield node

    def guard(self, end: UOp | None) -> UOp | None:
        """The condition under which a thread has a part in a nest; None where every thread has.

        A fill of shared memory is a matter of each block: without a nest, of one thread. In a fill of
        registers each lane has a part, whether its value is needed or not: a warp goes together.
        """
        if end in self.lanes:
            return None
        nest = self.nests[end] if end is not None else {}
        ends = {special: r.src[0].substitute(nest) for r, special in nest.items()}
        # an index below the end of a short block is within the axis, so its block is
        implied = toposort(ends.values())
        tests = []
        for name, special in self.specials.items():
            last = ends.get(special, index(1))
            if end in self.filled and not name.startswith(PREFIX[AxisType.LOCAL]):
                continue
            if last is not special.src[0] and special not in implied:
                tests.append(special.eq(0) if last is index(1) else _below(special, last))
        return reduce(lambda a, b: a & b, tests) if tests else None

    def begin(self, guard: UOp | None) -> Iterator[UOp]:
        if guard is not None:
            yield from self.need([guard])
            yield UOp(Ops.IF, (guard,))

    def finish(self, guard: UOp | None) -> Iterator[UOp]:
        if guard is not None:
            yield UOp(Ops.ENDIF, (UOp(Ops.IF, (guard,)),))


def _below(special: UOp, end: UOp) -> UOp:
    """special < end. Of an end that is a minimum with the size of the axis, only the other part counts."""
    size, form = special.src[0], linear(end)
    if size.op is Ops.CONST and form.constant == 0 and len(form.terms) == 1:
        (term, k) = form.terms[0]
        if k == -1 and term.op is Ops.MAX and term.src[1] is index(-int(size.value)):
            return graph_rewrite(special + term.src[0] < 0, symbolic)
    return special < end
