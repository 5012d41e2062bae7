"""Rows: reductions whose terms the threads of a block share, chosen by what global memory moves. Week 7.

Of a kernel with reductions a block computes a row: the outputs that have their values in common. The lanes of
a warp take neighbours in memory, so that a warp moves 4 sectors for 32 terms of f32 where a thread alone
moves 32. A block has as many warps as leave each thread 4 terms, up to 8, or up to 32 where it is the only
one; where a row has fewer terms, each warp has a row of its own, 8 a block. Of a reduction within another,
lanes take the inner one, and warps the outer one if that has 8 terms. What no thread shares stays as it is:
fewer than 32 terms, floats whose order is fixed, sizes that are symbolic, outputs of several shapes.

It is done where it moves fewer sectors than threads that each compute an output, counted as if nothing were
cached, or where there are at most 1024 outputs of at least 256 terms:
then a GPU waits for the longest chain of terms.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from uop_codegen_c import (
    Action,
    Freedoms,
    Pad,
    Reorder,
    Retype,
    Schedule,
    ScheduleError,
    Split,
    apply_schedule,
)
from uop_ir import AxisType, Ops, UOp

from .banks import WARP
from .block_reduce import open_ranges
from .grid import check_grid, dimensions
from .reduce_legal import check_reductions
from .shared import stores
from .staging import contiguous, sectors, size, stride

#: Terms of a thread, at least, where a row has more than one warp;
#: warps of a block, and of one alone, at most.
TERMS, WARPS, ALONE = 4, 8, 32
#: Where there are so few outputs of so many terms, the chain of terms is what takes time.
FEW, MANY = 1024, 256


class Shared(NamedTuple):
    """A reduction that threads share: the range of its lanes, or None, and whether warps share it too."""

    node: UOp
    lanes: UOp | None
    warps: bool


def share_reductions(root: UOp, free: Freedoms) -> tuple[Schedule, UOp] | None:
    """A schedule by which threads share a program's reductions,
    and the program after it; None without worth.
    """
    if not _regular(root):
        return None
    rows = _Rows(root, free)
    if not rows.worth():
        return None
    try:
        rows.map()
        check_reductions(rows.root)
        check_grid(rows.root)
    except ScheduleError:
        return None  # legality has rules of its own
    return Schedule(tuple(rows.actions)), rows.root


def _regular(root: UOp) -> bool:
    """Whether a program is one nest of stores, of constant sizes,
    without scratch memory, with a reduction.
    """
    order = root.toposort()
    nests = [n for n in root.src if n.op in (Ops.END, Ops.STORE)]
    return (
        len(nests) == len(root.src) == 1
        and all(e.op is Ops.STORE for e in stores(nests[0]))
        and all(n.src[0].op is Ops.CONST and size(n) > 0 for n in order if n.op is Ops.RANGE)
        and all(n.op is not Ops.ALLOC for n in order)
        and any(n.op is Ops.REDUCE for n in order)
    )


class _Rows:
    """Chooses the actions for one program and applies them as it goes."""

    def __init__(self, root: UOp, free: Freedoms) -> None:
        self.root, self.actions = root, list[Action]()
        order = list(root.toposort())
        self.order, self.opened = order, open_ranges(order)
        self.nest = root.src[0]
        self.outputs = self.nest.src[1:] if self.nest.op is Ops.END else ()
        self.all = [n for n in order if n.op is Ops.REDUCE]
        self.free = [n for n in self.all if free.reassociate or not n.dtype.is_float]
        self.lanes = {n: c for n in self.free if (c := self.along(n)) is not None}
        #: Of each reduction those within it that lanes can take: it is left to warps where there are any.
        self.within = {
            n: [m for m in self.lanes if not self.opened[m].isdisjoint(n.src[1:])] for n in self.all
        }

    def along(self, node: UOp) -> UOp | None:
        """The range of a reduction of at least 32 terms that lanes take:
        with the fewest sectors, half of them at least with terms.
        """
        if prod(map(size, node.src[1:])) < WARP:
            return None
        long = [r for r in node.src[1:] if size(r) >= WARP // 2]
        return min(
            reversed(long),
            key=lambda r: _waste(r) * sum(self.moved(x, r) for x in self.loads(r)),
            default=None,
        )

    def loads(self, r: UOp) -> list[UOp]:
        """The loads that move with a range."""
        return [n for n in self.order if n.op is Ops.LOAD and r in self.opened[n]]

    def moved(self, load: UOp, r: UOp, lanes: int = WARP) -> int:
        """The sectors that lanes along a range move."""
        return sectors(lanes, stride(load, r), load.dtype.itemsize)

    def worth(self) -> bool:
        """Whether it moves less, or there is too little to do for threads that share nothing."""
        if not self.lanes:
            return False
        outputs = prod(map(size, self.outputs))
        terms = max(prod(map(size, n.src[1:])) for n in self.lanes)
        if outputs <= FEW and terms >= MANY:
            return True
        thread = (contiguous(self.nest) or self.outputs[-1]) if self.outputs else None
        alone = shared = 0.0
        for node, lanes in self.lanes.items():
            if self.within[node]:
                continue
            rows = prod(size(r) for r in self.outputs if r in self.opened[node])
            for load in self.loads(lanes):
                times = prod(size(r) for r in self.opened[load] if r not in self.outputs)
                shared += rows * times / WARP * _waste(lanes) * self.moved(load, lanes)
                if thread is None:
                    alone += times
                else:
                    abreast = min(size(thread), WARP)
                    alone += outputs / abreast * times * self.moved(load, thread, abreast)
        return shared < alone

    # the mapping

    def map(self) -> None:
        common = [r for r in self.outputs if any(r in self.opened[n] for n in self.lanes)]
        shared = self.shared()
        warps = self.warps(shared, WARPS if common else ALONE)
        done: set[UOp] = set()
        for node, lanes, grouped in shared:
            ranges = [r for r in node.src[1:] if r not in done]
            done.update(ranges)
            if ranges and (lanes is None or lanes in ranges):
                self.cut(ranges, lanes, warps if grouped else 1, (AxisType.GROUP, AxisType.WARP))
        if self.outputs:
            self.place(common, [r for r in self.outputs if r not in common], warps)

    def shared(self) -> list[Shared]:
        """Which of the reductions threads share, and how."""
        long = [n for n in self.free if self.within[n] and prod(map(size, n.src[1:])) >= WARPS]
        outer = [n for n in long if not self.is_within(n, self.all)]
        inner = [n for n in self.lanes if not self.within[n]]
        return [
            *(Shared(n, None, True) for n in outer),
            *(Shared(n, self.lanes[n], not self.is_within(n, outer)) for n in inner),
        ]

    def is_within(self, node: UOp, others: Sequence[UOp]) -> bool:
        return any(not self.opened[node].isdisjoint(n.src[1:]) for n in others)

    def warps(self, shared: Sequence[Shared], most: int) -> int:
        """The warps of a block: a power of two, as many
        as leave each thread enough of the longest reduction.
        """
        warps = 1
        for node, lanes, grouped in shared:
            terms, each = prod(map(size, node.src[1:])), WARP * TERMS if lanes is not None else 1
            while grouped and 2 * warps <= most and 2 * warps * each <= terms:
                warps *= 2
        return warps

    def cut(
        self, ranges: Sequence[UOp], lanes: UOp | None, warps: int, axes: tuple[AxisType, AxisType]
    ) -> tuple[list[int], list[int]]:
        """Give parts of some ranges to warps and lanes, as axes of these types:
        those with the fewest values past the end.

        The numbers of what is left of the ranges as loops, and of warps and lanes.
        """

        def factors(r: UOp, grouped: UOp) -> tuple[int, int]:
            return warps if r is grouped else 1, WARP if r is lanes else 1

        options = [*([] if lanes is None else [lanes]), *ranges]
        grouped = min(options, key=lambda g: prod(_up(size(r), prod(factors(r, g))) for r in ranges))
        loops: list[int] = []
        threads: dict[int, int] = {}
        for r in ranges:
            number, parts = int(r.arg[0]), factors(r, grouped)
            left = _up(size(r), prod(parts))
            if left > size(r):
                self.do(Pad(number, prod(parts)))
            for place in (1, 0):
                if parts[place] > 1:
                    number, threads[place] = self.part(number, left, parts[place], axes[place])
                    left //= parts[place]
            loops += [number] if left > 1 else []
        return loops, [threads[place] for place in sorted(threads)]

    def part(self, number: int, extent: int, factor: int, axis: AxisType) -> tuple[int, int]:
        """Make the inner part of a range an axis of a type:
        the numbers of the outer and of the inner part.
        """
        if extent == factor:
            self.do(Retype(number, axis))
            return number, number
        outer = max(int(n.arg[0]) for n in self.root.toposort() if n.op is Ops.RANGE) + 1
        self.do(Split(number, factor, axis))
        return outer, outer + 1

    def place(self, common: Sequence[UOp], columns: Sequence[UOp], warps: int) -> None:
        """Outputs that have values in common stand in one block, the others in different ones."""
        extents = {int(r.arg[0]): size(r) for r in common}
        rows: list[int] = []
        if warps == 1 and common and size(common[-1]) > 1:
            last = int(common[-1].arg[0])
            abreast = min(WARPS, extents[last])
            if extents[last] % abreast:
                self.do(Pad(last, abreast))
            outer, inner = self.part(last, _up(extents[last], abreast), abreast, AxisType.LOCAL)
            extents = {n: e for n, e in extents.items() if n != last}
            if outer != inner:
                extents[outer] = _up(size(common[-1]), abreast) // abreast
            rows = [inner]
        grid = dimensions([*reversed(extents)], extents)
        for number in grid:
            self.do(Retype(number, AxisType.GLOBAL))
        loops, threads = [n for n in extents if n not in grid], list[int]()
        if columns:
            along = contiguous(self.nest)
            lanes = along if along in columns else columns[-1]
            left, threads = self.cut(columns, lanes, warps, (AxisType.LOCAL, AxisType.LOCAL))
            loops += left
        numbers = (*reversed(grid), *rows, *threads, *loops)
        if len(numbers) > 1:
            self.do(Reorder(numbers))

    def do(self, action: Action) -> None:
        self.root = apply_schedule(self.root, [action])
        self.actions.append(action)


def _waste(r: UOp) -> float:
    """How many lanes there are for each term of a range."""
    return _up(size(r), WARP) / size(r)


def _up(n: int, multiple: int) -> int:
    return n + -n % multiple
