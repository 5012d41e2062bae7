"""Optimize: choose a schedule of axis actions for a kernel, from strides and sizes alone. Week 6.

The choices, in order. Vectors go along the last output axis where the memory is contiguous along it. A
reduction keeps a tile of accumulators in registers. An operand that many rows read is packed: the last axis
is cut into pieces of the tile's width, and each is copied to local memory in the order of its use; else one
that is contiguous along the reduction is staged whole, if it is read often enough. A reduction that no output
axis can vectorize is split over lanes, and what is left of it over fewer, if it may be reassociated. The
outermost output axis is shared by threads where the kernel is worth their start.
"""

from __future__ import annotations

from math import prod

from uop_ir import AxisType, Limits, Ops, UOp, settings

from .actions import Retype
from .freedoms import Freedoms
from .loops import next_number, open_ranges
from .machine import Machine, this_machine
from .nests import Loops, inside, loops_of, stride, work
from .packing import Packing
from .schedule import Schedule, apply_schedule
from .schedule_legal import extent, find_range, holds_scratch
from .schedule_memory import Stage
from .text_size import characters
from .tiles import pieces_of

#: A kernel that makes fewer scalar operations than this runs on one thread.
THREAD_WORK = 200_000
#: A staged operand must be read at least so many times as often as it is filled.
STAGE_REUSE = 8
#: Accumulator vectors of a reduction over lanes.
ACCUMULATORS = 4


def optimize(
    root: UOp, free: Freedoms, machine: Machine | None = None, schedule: Schedule | None = None
) -> UOp:
    """A program after a schedule: the one that is given, or one that is chosen for it.

    It is chosen for `machine`, or for the one that we run on; none is where the freedoms forbid to optimize.
    Under DEBUG=3 the schedule is printed. Raises ScheduleError for a given one that is not legal.
    """
    if schedule is not None:
        return apply_schedule(root, schedule, free)
    if not free.optimize:
        return root
    chosen, scheduled = choose(root, free, machine or this_machine())
    if settings.debug >= 3:
        print("schedule:", chosen if chosen.actions else "none")
    return scheduled


def choose(root: UOp, free: Freedoms, machine: Machine) -> tuple[Schedule, UOp]:
    """A schedule for a program at loop level, and the program after it."""
    scheduler = Scheduler(root, free, machine)
    for numbers in [[int(r.arg[0]) for r in n.src[1:]] for n in root.src if n.op is Ops.END]:
        scheduler.nest(numbers)
    if free.reassociate:
        scheduler.without_vectors()
    scheduler.threads()
    return Schedule(tuple(scheduler.actions)), scheduler.root


class Scheduler(Packing):
    """Chooses actions for one program and applies them as it goes."""

    def nest(self, numbers: list[int], lanes: int = 0) -> None:
        """Choose for one loop nest, whose ranges have these numbers,
        outermost first; of vectors of at most `lanes`.
        """
        loops = self.look(numbers)
        itemsize = max(n.src[1].dtype.itemsize for n in loops.end.toposort() if n.op is Ops.STORE)
        lanes = min(lanes or self.machine.vector_bytes, self.machine.vector_bytes // max(4, itemsize))
        free = [r for n in numbers if (r := find_range(self.root, n)).arg[1] is AxisType.LOOP]
        fixed = [int(r.arg[0]) for r in free if r.src[0].op is Ops.CONST]
        last = numbers[-1]
        tiled = False
        if last in fixed and extent(find_range(self.root, last)) >= lanes:
            place = self.root.src.index(loops.end)
            left = self.pack(loops, numbers, lanes) if fixed == numbers else None
            if left is not None:
                limit, main = self.limit, self.root.src[place]
                self.limit -= characters(main.toposort(), {}, None, lanes)
                for rest, most in left:
                    self.nest(rest, most)
                self.limit = limit
                return
            self.stage(numbers, last, lanes)
            loops = self.look(numbers)
            tiled = self.contiguous(loops, last, lanes) and not self.holds_scratch(last)
        if self.free.reassociate:
            self.lanes_of_reductions(self.look(numbers), None if not tiled else last, lanes)
        if tiled:
            self.tile(self.look(numbers), numbers, fixed, lanes)

    def without_vectors(self) -> None:
        """Choose for what is no nest, a store in no loop or one column that is left: its reductions."""
        for place in range(len(self.root.src)):
            self.settle()
            now = self.root.src[place]
            order = now.toposort()
            if not any(n.op is Ops.RANGE and n.arg[1] is AxisType.VECTOR for n in order):
                stored = max((n.src[1].dtype.itemsize for n in order if n.op is Ops.STORE), default=4)
                self.lanes_of_reductions(loops_of(now), None, self.machine.vector_bytes // max(4, stored))

    def threads(self) -> None:
        """Share the outermost axis of each nest that is worth the start of threads."""
        self.settle()
        for end in [n for n in self.root.src if n.op is Ops.END]:
            r = end.src[1]
            worth = self.machine.threads > 1 and work(end) >= THREAD_WORK
            if worth and extent(r) > 1 and r.arg[1] is AxisType.LOOP:
                self.do(Retype(int(r.arg[0]), AxisType.THREAD))

    def contiguous(self, loops: Loops, last: int, lanes: int) -> bool:
        """Whether every load stands still or moves by one element along the last output axis.

        A store with a validity moves by a constant number.
        """
        r = find_range(self.root, last)
        guarded = [n for n in loops.end.toposort() if n.op is Ops.STORE and len(n.src[0].src) == 3]
        return all(stride(n, r, lanes) in (0, 1) for n in loops.loads) and all(
            stride(n, r) is not None for n in guarded
        )

    def holds_scratch(self, number: int) -> bool:
        """Whether scratch memory is filled anew in each iteration, so that there are no lanes of it."""
        return holds_scratch(self.root, find_range(self.root, number))

    def stage(self, numbers: list[int], last: int, lanes: int) -> None:
        """Stage the operands of reductions that lie in the other order, where they fit and are read again."""
        loops = self.look(numbers)
        r = find_range(self.root, last)
        outputs = loops.end.src[1:]
        for load in loops.loads:
            if stride(load, r, lanes) in (0, 1, None):
                continue
            reduced = inside(load, outputs)
            if not reduced or any(q.src[0].op is not Ops.CONST for q in (*reduced, r)):
                continue
            around = [i for i, q in enumerate(outputs) if q in open_ranges(load) and q is not r]
            reuse = prod(map(extent, outputs[max(around, default=-1) + 1 : -1]))
            size = load.dtype.itemsize * prod(map(extent, (*reduced, r)))
            if reuse >= STAGE_REUSE and size <= Limits.local_memory:
                order = sorted(int(q.arg[0]) for q in reduced)
                self.do(Stage(load.src[0].src[0].arg.slot, (*order, last)))
                return self.stage(numbers, last, lanes)
        return None

    def lanes_of_reductions(self, loops: Loops, last: int | None, lanes: int) -> None:
        """Split reductions that no output axis makes vectors of, where their loads are contiguous.

        Each is vectors before any has several, as long as the text has room for them.
        """
        r_last = None if last is None else find_range(self.root, last)
        within = self.contiguous_reductions(loops, r_last, lanes)
        text = characters(loops.end.toposort(), {}, r_last, lanes)
        ranges = {number: find_range(self.root, number) for number in within}
        own = {number: characters(within[number], {}, r, lanes) for number, r in ranges.items()}
        least = {number: 1 + (extent(r) % lanes > 0) for number, r in ranges.items()}
        for number in within:
            more = least[number] * own[number] - characters(within[number], {}, None, lanes)
            if text + more > self.limit:
                del ranges[number]
            else:
                text += more
        for number, r in ranges.items():
            size = extent(r)
            room = (self.limit - text) // max(own[number], 1) + least[number]
            fits = (
                k for k in (ACCUMULATORS, 2) if size >= 2 * k * lanes and k + (size % (k * lanes) > 0) <= room
            )
            many = next(fits, 1)
            rest, tail = size % (many * lanes), next_number(self.root) + 2
            inner = self.split(number, many * lanes, AxisType.UPCAST)
            self.split(inner, lanes, AxisType.VECTOR)
            copies, tails = many + (rest > 0), 2 * pieces_of(rest, lanes)
            if rest > 1 and many + tails <= room:
                self.narrow(tail, lanes)
                copies = many + tails
            text += (copies - least[number]) * own[number]

    def contiguous_reductions(self, loops: Loops, last: UOp | None, lanes: int) -> dict[int, dict[UOp, None]]:
        """The ranges of reductions that may be vectors, each with what is computed along it, in order."""
        chosen: dict[int, bool] = {}
        within: dict[int, dict[UOp, None]] = {}
        for node in loops.reductions:
            r = node.src[-1]
            number = int(r.arg[0])
            along = [n for n in node.src[0].toposort() if r in open_ranges(n)]
            within.setdefault(number, {}).update(dict.fromkeys(along))
            strides = {stride(n, r, lanes) for n in along if n.op is Ops.LOAD}
            taken = [n for n in loops.reductions if chosen.get(int(n.src[-1].arg[0])) and n.src[-1] is not r]
            nested = any(n.src[-1] in open_ranges(node) or r in open_ranges(n) for n in taken)
            around = last is not None and last in open_ranges(node)
            free = not (nested or around or self.holds_scratch(number))  # a value has lanes of one axis
            long = r.src[0].op is Ops.CONST and extent(r) >= lanes
            chosen[number] = (
                chosen.get(number, True) and free and long and bool(strides) and strides <= {0, 1}
            )
        return {number: nodes for number, nodes in within.items() if chosen[number]}

    def tile(self, loops: Loops, numbers: list[int], fixed: list[int], lanes: int) -> None:
        """Make vectors of the last axis and, for reductions along it, a tile of rows."""
        last = numbers[-1]
        r = find_range(self.root, last)
        tall = [n for n in loops.reductions if r in open_ranges(n)]
        row = self.row_axis(loops, numbers, fixed) if tall else None
        rows, vectors = self.shape_of_tile(loops, row, r, lanes) if tall else (1, 1)
        size = extent(r)
        rest = size % (lanes * vectors)
        order = loops.end.toposort()
        own = characters((n for n in order if r in open_ranges(n)), {}, r, lanes)
        own += characters(self.again(loops, r), {}, r, lanes)
        room = (self.limit - characters(order, {}, r, lanes) + own) // max(own, 1)
        if rows == vectors == 1 and room < 1 + (rest > 0):
            return
        if row is not None and rows > 1:
            self.split(row, rows, AxisType.UPCAST)
        tail = next_number(self.root) + 2
        inner = self.split(last, lanes * vectors, AxisType.UPCAST)
        self.split(inner, lanes, AxisType.VECTOR)
        if rest > 1 and (rows * vectors > 1 or room > rest.bit_count()):
            self.narrow(tail, lanes)

    def narrow(self, number: int, lanes: int) -> None:
        """Make vectors of what is left of a range, each as wide as it can be."""
        size = extent(find_range(self.root, number))
        lanes = min(lanes, 1 << (size.bit_length() - 1))
        tail = next_number(self.root) + 2
        self.split(number, lanes, AxisType.VECTOR)
        if size % lanes > 1:
            self.narrow(tail, lanes)
