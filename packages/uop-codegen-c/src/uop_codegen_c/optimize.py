"""Optimize: choose a schedule of axis actions for a kernel, from strides and sizes alone. Week 6.

The choices, in order. Vectors go along the last output axis where the memory is contiguous along it. A reduction keeps
a tile of accumulators in registers. An operand that many rows read is packed: the last axis is cut into pieces of the
tile's width, and each is copied to local memory in the order of its use; else one that is contiguous along the
reduction is staged whole, if it is read often enough. A reduction that no output axis can vectorize is split over
lanes, if it may be reassociated. The outermost output axis is shared by threads where the kernel is worth their start.
"""

from __future__ import annotations

from math import prod

from uop_ir import AxisType, Limits, Ops, UOp, settings, toposort
from uop_rewrite import graph_rewrite, symbolic

from .actions import Checked, Reorder, Retype, Split
from .freedoms import Freedoms
from .loops import next_number, open_ranges
from .machine import Machine, this_machine
from .nests import Loops, innermost, inside, stride, sums, work
from .schedule import Schedule, apply_schedule
from .schedule_legal import extent, find_range, holds_scratch
from .schedule_memory import Hold, Stage
from .text_size import LIMIT, characters
from .tile_shape import best_tile, total_cycles

#: A kernel that makes fewer scalar operations than this runs on one thread.
THREAD_WORK = 200_000
#: A staged operand must be read at least so many times as often as it is filled.
STAGE_REUSE = 8
#: Accumulator vectors of a reduction over lanes.
ACCUMULATORS = 4
#: An operand is packed if it is of more bytes than this, which a first cache keeps, and so many rows read it; more
#: where it is contiguous already and each of several parts is packed anew, as in a convolution.
PACKED_BYTES, PACKED_ROWS, PACKED_ROWS_OF_PARTS = 16_384, 32, 96
#: How many times faster the tile must be that is had by holding its sums in memory.
HOLD_GAIN = 1.15


def optimize(
    root: UOp, free: Freedoms, machine: Machine | None = None, schedule: Schedule | None = None
) -> UOp:
    """A program after a schedule: the one that is given, or one that is chosen for it.

    It is chosen for `machine`, or for the one that we run on; none is where the freedoms forbid to optimize. Under
    DEBUG=3 the schedule is printed. Raises ScheduleError for a given one that is not legal.
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
    scheduler.threads()
    return Schedule(tuple(scheduler.actions)), scheduler.root


class Scheduler:
    """Chooses actions for one program and applies them as it goes."""

    def __init__(self, root: UOp, free: Freedoms, machine: Machine) -> None:
        self.root, self.free, self.machine = root, free, machine
        self.actions: list[Checked] = []
        self.settled = True
        self.limit = LIMIT // max(sum(n.op is Ops.END for n in root.src), 1)

    def do(self, action: Checked) -> None:
        self.root = action.act(self.root)
        self.settled &= not action.indexes
        self.actions.append(action)

    def settle(self) -> None:
        """Simplify the indices that actions have made: once for all since somebody last looked."""
        if not self.settled:
            self.root, self.settled = graph_rewrite(self.root, symbolic), True

    def look(self, numbers: list[int]) -> Loops:
        """The nest that closes the ranges with these numbers."""
        self.settle()
        ranges = {find_range(self.root, n) for n in numbers}
        (end,) = [n for n in self.root.src if n.op is Ops.END and set(n.src[1:]) == ranges]
        order = end.toposort()
        loads = tuple(n for n in order if n.op is Ops.LOAD and n.src[0].src[0].op is Ops.PARAM)
        return Loops(end, loads, tuple(n for n in order if n.op is Ops.REDUCE))

    def nest(self, numbers: list[int], lanes: int = 0) -> None:
        """Choose for one loop nest, whose ranges have these numbers, outermost first; of vectors of at most `lanes`."""
        loops = self.look(numbers)
        itemsize = max(n.src[1].dtype.itemsize for n in loops.end.toposort() if n.op is Ops.STORE)
        lanes = min(lanes or self.machine.vector_bytes, self.machine.vector_bytes // max(4, itemsize))
        free = [r for n in numbers if (r := find_range(self.root, n)).arg[1] is AxisType.LOOP]
        fixed = [int(r.arg[0]) for r in free if r.src[0].op is Ops.CONST]
        last = numbers[-1]
        tiled = False
        if last in fixed and extent(find_range(self.root, last)) >= lanes:
            if fixed == numbers and self.pack(loops, numbers, lanes):
                return
            self.stage(numbers, last, lanes)
            loops = self.look(numbers)
            tiled = self.contiguous(loops, last, lanes) and not self.holds_scratch(last)
        if self.free.reassociate:
            self.lanes_of_reductions(self.look(numbers), None if not tiled else last, lanes)
        if tiled:
            self.tile(self.look(numbers), numbers, fixed, lanes)

    def pack(self, loops: Loops, numbers: list[int], lanes: int) -> bool:
        """Cut the last axis into pieces of a tile's width, and copy each of what all rows read. Whether that was done."""
        last, outputs = numbers[-1], loops.end.src[1:]
        r = find_range(self.root, last)
        tall = any(r in open_ranges(n) for n in loops.reductions)
        row = self.row_axis(loops, numbers, numbers) if tall else None
        if row is None or any(n.op is Ops.ALLOC for n in loops.end.toposort()):
            return False
        rows = find_range(self.root, row)
        packed = [
            n
            for n in loops.loads
            if r in open_ranges(n) and not {rows} & open_ranges(n) and inside(n, outputs)
        ]
        depends = frozenset[UOp]().union(*map(open_ranges, packed))
        before = [n for n in numbers if n != last and find_range(self.root, n) in depends]
        behind = [n for n in numbers if n != last and n not in before]
        lies = all(stride(n, r, lanes) == 1 for n in packed)
        least = PACKED_ROWS_OF_PARTS if before and lies else PACKED_ROWS
        depth = sum(n.dtype.itemsize * prod(map(extent, inside(n, outputs))) for n in packed)
        if (
            prod(extent(find_range(self.root, n)) for n in behind) < least
            or depth * extent(r) <= PACKED_BYTES
            or any(q.src[0].op is not Ops.CONST for n in packed for q in inside(n, outputs))
            or not all(n in packed or stride(n, r, lanes) in (0, 1) for n in loops.loads)
            or any(n.op is Ops.STORE and stride(n, r) is None for n in loops.end.toposort())
        ):
            return False
        summed, *more = sums(loops.end)
        may_hold = row == behind[-1] and not more
        height, vectors, hold = self.tile_of_products(loops, row, r, lanes, depth, may_hold)
        width = lanes * vectors
        if depth * width > Limits.local_memory:
            return False
        around, piece, tail = self.cut(before, last, behind, width, depth)
        for slot, order in {n.src[0].src[0].arg.slot: inside(n, outputs) for n in packed}.items():
            copy = next_number(self.root) + len(around) + len(order)
            self.settle()
            self.do(Stage(slot, (*around, *sorted(int(q.arg[0]) for q in order), piece)))
            if all(stride(n, r, lanes) == 1 for n in packed if n.src[0].src[0].arg.slot == slot):
                self.vectors(copy, lanes)
        if hold:
            self.hold(summed, row, height, lanes)
        else:
            self.vectors(piece, lanes)
            self.rows(row, height)
        if tail is not None:
            ends = [[int(q.arg[0]) for q in n.src[1:]] for n in self.root.src if n.op is Ops.END]
            (rest,) = [n for n in ends if tail in n]
            rest = [*(n for n in rest if n != tail), tail]
            self.do(Reorder(tuple(rest)))
            self.nest(rest, 1 << (extent(find_range(self.root, tail)).bit_length() - 1))
        return True

    def tile_of_products(
        self, loops: Loops, row: int, last: UOp, lanes: int, depth: int, may_hold: bool
    ) -> tuple[int, int, bool]:
        """Rows and vectors of a tile, and whether it is had by holding its sums in memory."""
        plain = held = self.shape_of_tile(loops, row, last, lanes, depth)
        if may_hold:
            held = self.shape_of_tile(loops, row, last, lanes, depth, held=True)
        height, width = extent(find_range(self.root, row)), extent(last)
        now, then = (total_cycles(*tile, height, width, lanes) for tile in (plain, held))
        return (*held, True) if now > HOLD_GAIN * then else (*plain, False)

    def cut(
        self, before: list[int], last: int, behind: list[int], width: int, depth: int
    ) -> tuple[tuple[int, ...], int, int | None]:
        """Cut the last axis into pieces that are packed: the loop over those that are packed together, each, the rest.

        All together, in front of the loops `behind`, where they fit memory and leave no rest: so these write row by row.
        Else each by itself, around these loops.
        """
        size = extent(find_range(self.root, last))
        if not before and size > width and size % width == 0 and depth * size <= Limits.local_memory:
            outer = next_number(self.root)
            self.do(Split(last, width, AxisType.LOOP))
            return (outer,), outer + 1, None
        if size == width:
            self.do(Reorder((*before, *behind, last)))
            return (), last, None
        # outermost, so that the rest is a nest of its own
        self.do(Reorder((last, *before, *behind)))
        outer = next_number(self.root)
        self.do(Split(last, width, AxisType.LOOP))
        pieces = (outer,) if size >= 2 * width else ()
        self.do(Reorder((*before, *pieces, *behind, outer + 1)))
        return (), outer + 1, outer + 2 if size % width > 1 else None

    def vectors(self, number: int, lanes: int) -> None:
        """Make vectors of a range whose size they divide, side by side in registers."""
        if extent(find_range(self.root, number)) > lanes:
            self.do(Retype(number, AxisType.UPCAST))
        self.split(number, lanes, AxisType.VECTOR)

    def rows(self, number: int, height: int) -> None:
        """Make a tile of so many values of a range, and another of the rest."""
        size = extent(find_range(self.root, number))
        tail = next_number(self.root) + 2
        if height > 1:
            self.split(number, height, AxisType.UPCAST)
            if size % height > 1:
                self.do(Retype(tail, AxisType.UPCAST))

    def hold(self, summed: int, number: int, height: int, lanes: int) -> None:
        """Hold tiles of what is summed over a range, of so many values of another; what is made of them is not copied."""
        others = [end for end in innermost(self.root) if summed not in sums(end)]
        first = next_number(self.root)
        rows = {number}
        if 1 < height < extent(find_range(self.root, number)):
            self.split(number, height, AxisType.LOOP)
            rows = {first + 1, first + 2}
        for end in innermost(self.root):
            if end in others:
                continue
            ranges = [int(q.arg[0]) for q in end.src[1:]]
            tile = [n for n in ranges if n in rows or n == ranges[-1]]
            (summed,) = sums(end)
            self.do(Reorder((*(n for n in ranges if n not in tile), *tile)))
            own = range(next_number(self.root), next_number(self.root) + len(tile))
            self.do(Hold(summed, tuple(tile)))
            for row in own[:-1]:
                self.do(Retype(row, AxisType.UPCAST))
            self.vectors(own[-1], lanes)
            self.split(tile[-1], lanes, AxisType.VECTOR)

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
        """Split reductions that no output axis makes vectors of, where their loads are contiguous."""
        r_last = None if last is None else find_range(self.root, last)
        chosen: dict[int, int] = {}
        text: dict[int, int] = {}
        whole = characters(loops.end.toposort(), {}, None, lanes)
        for node in loops.reductions:
            r = node.src[-1]
            own = characters((n for n in node.src[0].toposort() if r in open_ranges(n)), {}, r, lanes)
            text[int(r.arg[0])] = max(text.get(int(r.arg[0]), 0), own)
            below = [n for n in node.src[0].toposort() if n.op is Ops.LOAD and r in open_ranges(n)]
            strides = [stride(n, r, lanes) for n in below]
            if (r_last is not None and r_last in open_ranges(node)) or self.holds_scratch(int(r.arg[0])):
                chosen[int(r.arg[0])] = 0
            elif r.src[0].op is Ops.CONST and extent(r) >= lanes and strides and set(strides) <= {0, 1}:
                chosen.setdefault(int(r.arg[0]), extent(r))
            else:
                chosen[int(r.arg[0])] = 0
        for number, size in chosen.items():
            if not size:
                continue
            room = max((self.limit - whole) // max(text[number], 1), 1)
            many = next((k for k in (ACCUMULATORS, 2, 1) if size >= 2 * k * lanes and k <= room), 1)
            inner = self.split(number, many * lanes, AxisType.UPCAST)
            self.split(inner, lanes, AxisType.VECTOR)

    def split(self, number: int, factor: int, axis: AxisType) -> int:
        """Split a range, or retype it where the factor is its size; the number of the inner range."""
        r = find_range(self.root, number)
        if extent(r) == factor:
            self.do(Retype(number, axis))
            return number
        outer = next_number(self.root)
        self.do(Split(number, factor, axis))
        return outer + 1

    def tile(self, loops: Loops, numbers: list[int], fixed: list[int], lanes: int) -> None:
        """Make vectors of the last axis and, for reductions along it, a tile of rows."""
        last = numbers[-1]
        r = find_range(self.root, last)
        tall = [n for n in loops.reductions if r in open_ranges(n)]
        row = self.row_axis(loops, numbers, fixed) if tall else None
        rows, vectors = self.shape_of_tile(loops, row, r, lanes) if tall else (1, 1)
        if row is not None and rows > 1:
            self.split(row, rows, AxisType.UPCAST)
        size, tail = extent(r), next_number(self.root) + 2
        inner = self.split(last, lanes * vectors, AxisType.UPCAST)
        self.split(inner, lanes, AxisType.VECTOR)
        if size % (lanes * vectors) > 1:
            self.narrow(tail, lanes)

    def narrow(self, number: int, lanes: int) -> None:
        """Make vectors of what is left of a range, each as wide as it can be."""
        size = extent(find_range(self.root, number))
        lanes = min(lanes, 1 << (size.bit_length() - 1))
        tail = next_number(self.root) + 2
        self.split(number, lanes, AxisType.VECTOR)
        if size % lanes > 1:
            self.narrow(tail, lanes)

    def row_axis(self, loops: Loops, numbers: list[int], fixed: list[int]) -> int | None:
        """The innermost other output axis that the vectors which are loaded do not move along."""
        last = find_range(self.root, numbers[-1])
        opens = [open_ranges(n) for n in loops.end.toposort() if n.op is Ops.LOAD]
        for number in reversed(numbers[:-1]):
            r = find_range(self.root, number)
            if number in fixed and any(last in ranges and r not in ranges for ranges in opens):
                return number
        return None

    def shape_of_tile(
        self,
        loops: Loops,
        row: int | None,
        last: UOp,
        lanes: int,
        depth: int = 0,
        *,
        held: bool = False,
    ) -> tuple[int, int]:
        """Rows and vectors of a tile. With `depth`, bytes of a column to be packed, rows may be left over.

        `held`: of sums in memory, so that what is made of them is not copied.
        """
        r = None if row is None else find_range(self.root, row)
        height, width = 1 if r is None else extent(r), extent(last)
        copied, once = list(loops.end.toposort()), list[UOp]()
        if held:
            within = toposort(loops.reductions)
            copied, once = list(within), [n for n in copied if n not in within]

        def allowed(rows: int, vectors: int) -> bool:
            if (height % rows and not depth) or depth * lanes * vectors > Limits.local_memory:
                return False
            rest = width % (lanes * vectors)
            copies = {last: vectors + (rest > 0) + (rest >= lanes) + (rest % lanes).bit_count()}
            if r is not None:
                copies[r] = rows + height % rows
            tails = 2 if r is not None and height % rows else 1
            text = characters(copied, copies, last, lanes) + tails * characters(once, {}, last, lanes)
            return text <= self.limit

        return best_tile(height, width, lanes, self.machine.registers, allowed)
