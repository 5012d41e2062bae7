"""Optimize: choose a schedule of axis actions for a kernel, from strides and sizes alone. Week 6.

The choices, in order. Vectors go along the last output axis where the memory is contiguous along it; an operand that
is contiguous along the reduction instead is first staged in the other order, if it is read often enough. A reduction
keeps a tile of accumulators in registers. A reduction that no output axis can vectorize is split over lanes, if it may
be reassociated. The outermost output axis is shared by threads where the kernel is worth their start.
"""

from __future__ import annotations

from dataclasses import dataclass

from uop_ir import AxisType, Kind, Limits, Ops, UOp, settings
from uop_rewrite import linear

from .actions import Checked, Retype, Split
from .demands import simplify
from .freedoms import Freedoms
from .loops import next_number, open_ranges
from .machine import Machine, this_machine
from .schedule import Schedule, apply_schedule
from .schedule_legal import extent, find_range, holds_scratch
from .schedule_memory import Stage
from .text_size import LIMIT, characters

#: A kernel that makes fewer scalar operations than this runs on one thread.
THREAD_WORK = 200_000
#: Scalar operations that one op stands for in this count; the others count once.
WORK = {Ops.EXP2: 20, Ops.LOG2: 30, Ops.SIN: 40, Ops.DIV: 4, Ops.SQRT: 4, Ops.RECIP: 4}
#: A staged operand must be read at least so many times as often as it is filled.
STAGE_REUSE = 8
#: Accumulator vectors of a reduction over lanes.
ACCUMULATORS = 4
#: Rows and vectors of a tile of accumulators that are tried.
ROWS, VECTORS = (8, 6, 5, 4, 3, 2, 1), (4, 3, 2, 1)


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


def stride(load: UOp, r: UOp, lanes: int = 1) -> int | None:
    """By how many elements a load or a store moves when a range does; None where it is no constant number.

    With `lanes`: when the range moves within an aligned group of so many values, such as those of a vector.
    """
    position = load.src[0].src[1]
    total = _coefficient(position, r)
    if total is None and lanes > 1 and extent(r) % lanes == 0:
        group, lane = UOp.range(extent(r) // lanes, -1), UOp.range(lanes, -2)
        return _coefficient(simplify(position.substitute({r: group * lanes + lane})), lane)
    return total


def _coefficient(position: UOp, r: UOp) -> int | None:
    total = 0
    for term, k in linear(position).terms:
        if term is r:
            total += k
        elif r in open_ranges(term):
            return None
    return total


def work(end: UOp) -> int:
    """Scalar operations of a loop nest, at the greatest sizes."""
    total = 0
    for node in end.toposort():
        if node.dtype.kind not in (Kind.VOID, Kind.INDEX) and node.op is not Ops.CONST:
            times = WORK.get(node.op, 1)
            for r in open_ranges(node.src[0] if node.op is Ops.REDUCE else node):
                times *= extent(r)
            total += times
    return total


@dataclass(frozen=True)
class Loops:
    """A loop nest as it is now: its END, the loads from arguments, and the reductions."""

    end: UOp
    loads: tuple[UOp, ...]
    reductions: tuple[UOp, ...]


class Scheduler:
    """Chooses actions for one program and applies them as it goes."""

    def __init__(self, root: UOp, free: Freedoms, machine: Machine) -> None:
        self.root, self.free, self.machine = root, free, machine
        self.actions: list[Checked] = []
        self.limit = LIMIT // max(sum(n.op is Ops.END for n in root.src), 1)

    def do(self, action: Checked) -> None:
        self.root = action.act(self.root)
        self.actions.append(action)

    def look(self, numbers: list[int]) -> Loops:
        """The nest that closes the ranges with these numbers."""
        ranges = {find_range(self.root, n) for n in numbers}
        (end,) = [n for n in self.root.src if n.op is Ops.END and set(n.src[1:]) == ranges]
        order = end.toposort()
        loads = tuple(n for n in order if n.op is Ops.LOAD and n.src[0].src[0].op is Ops.PARAM)
        return Loops(end, loads, tuple(n for n in order if n.op is Ops.REDUCE))

    def nest(self, numbers: list[int]) -> None:
        """Choose for one loop nest, whose ranges have these numbers, outermost first."""
        loops = self.look(numbers)
        itemsize = max(n.src[1].dtype.itemsize for n in loops.end.toposort() if n.op is Ops.STORE)
        lanes = self.machine.vector_bytes // max(4, itemsize)
        free = [r for n in numbers if (r := find_range(self.root, n)).arg[1] is AxisType.LOOP]
        fixed = [int(r.arg[0]) for r in free if r.src[0].op is Ops.CONST]
        last = numbers[-1]
        tiled = False
        if last in fixed and extent(find_range(self.root, last)) >= lanes:
            self.stage(numbers, last, lanes)
            loops = self.look(numbers)
            tiled = self.contiguous(loops, last, lanes) and not self.holds_scratch(last)
        if self.free.reassociate:
            self.lanes_of_reductions(self.look(numbers), None if not tiled else last, lanes)
        if tiled:
            self.tile(self.look(numbers), numbers, fixed, lanes)

    def threads(self) -> None:
        """Share the outermost axis of each nest that is worth the start of threads."""
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
            inside = [q for q in open_ranges(load) if q not in outputs]
            if not inside or any(q.src[0].op is not Ops.CONST for q in (*inside, r)):
                continue
            around = [i for i, q in enumerate(outputs) if q in open_ranges(load) and q is not r]
            reuse = 1
            for q in outputs[max(around, default=-1) + 1 : -1]:
                reuse *= extent(q)
            size = load.dtype.itemsize * extent(r)
            for q in inside:
                size *= extent(q)
            if reuse >= STAGE_REUSE and size <= Limits.local_memory:
                order = sorted(int(q.arg[0]) for q in inside)
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
            inside = characters((n for n in node.src[0].toposort() if r in open_ranges(n)), {}, r, lanes)
            text[int(r.arg[0])] = max(text.get(int(r.arg[0]), 0), inside)
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
        inner = self.split(last, lanes * vectors, AxisType.UPCAST)
        self.split(inner, lanes, AxisType.VECTOR)

    def row_axis(self, loops: Loops, numbers: list[int], fixed: list[int]) -> int | None:
        """The innermost other output axis that some operand of a reduction does not move along."""
        for number in reversed(numbers[:-1]):
            r = find_range(self.root, number)
            if number in fixed and any(r not in open_ranges(n) for n in loops.loads if open_ranges(n)):
                return number
        return None

    def shape_of_tile(self, loops: Loops, row: int | None, last: UOp, lanes: int) -> tuple[int, int]:
        """Rows and vectors whose accumulators and operands fit the registers, with the most products a load."""
        best, found = (-1.0, 0), (1, 1)
        r = None if row is None else find_range(self.root, row)
        height, width = 0 if r is None else extent(r), extent(last)
        nodes = loops.end.toposort()
        for rows in ROWS if height else (1,):
            for vectors in VECTORS:
                fits = rows * vectors + vectors + 1 <= self.machine.registers
                if not fits or (rows > 1 and height % rows) or lanes * vectors > width:
                    continue
                waste = width % (lanes * vectors) // lanes
                score = (rows * vectors / (rows + vectors) - 0.25 * waste, rows * vectors)
                if score <= best:
                    continue
                copies = {last: vectors + (width % (lanes * vectors) > 0)} | ({} if r is None else {r: rows})
                if rows * vectors == 1 or characters(nodes, copies, last, lanes) <= self.limit:
                    best, found = score, (rows, vectors)
        return found
