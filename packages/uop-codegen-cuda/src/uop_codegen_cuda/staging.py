"""Staging: the tiles of a product's two operands in shared memory,
chosen by what global memory moves. Week 8.

A block of 16 x 16 threads computes a tile of sums, up to 4 x 4 a thread in registers. The reduction goes in
steps of 16: in each the threads load what the tile needs of both operands, a row for each of the 16, and then
all read it. A row is the tile's side, and a padding that makes the bank conflicts fewest.

The cost is in sectors of 32 bytes that global memory moves, counted as if nothing were cached. A thread that
computes one sum loads each operand in each step: a warp moves 1 sector where they are one element, else as
many as its 32 lanes span. Staged, 16 threads move what 16 elements span, once for a whole tile. Of the tiles
that cost least the largest is taken, and none where it costs more than half of what is moved without, or
where more than half of its sums would be thrown away. What is made of a sum stands in the text once for each
sum of a thread: a long expression leaves room for fewer.
"""

from __future__ import annotations

from dataclasses import dataclass

from uop_codegen_c import Action, Pad, Reorder, Retype, Schedule, Split, Stage, apply_schedule
from uop_ir import AxisType, Kind, Ops, UOp
from uop_rewrite import linear

from .banks import WARP, Access, best_padding
from .shared import memory_of

#: Threads along each side of a block, which are the steps of a reduction at a time, too.
SIDE = 16
#: Sums of a thread along each side of its tile, at most.
MOST = 4
#: Operations in what all sums of a thread are made into,
#: at most, and how many a function that is defined by others is.
MOST_OPERATIONS = 1000
DEFINED = {Ops.EXP2: 20, Ops.LOG2: 30, Ops.SIN: 40}
SECTOR = 32
#: Dimensions of a grid, and the blocks along the second and third of them, at most.
DIMENSIONS, BLOCKS = 3, 65535


@dataclass(frozen=True)
class Operand:
    """A LOAD of a product: the range of the output that it moves with, and by how many elements it moves."""

    load: UOp
    axis: UOp
    along_axis: int | None
    along_sum: int | None

    @property
    def slot(self) -> int:
        return int(self.load.src[0].src[0].arg.slot)

    def sectors(self, lanes: int, stride: int | None) -> int:
        """What `lanes` threads move whose elements are `stride` apart."""
        return sectors(lanes, stride, self.load.dtype.itemsize)

    @property
    def fill_sectors(self) -> int:
        """What 16 threads move that fill along whichever range the memory is contiguous."""
        return min(self.sectors(SIDE, self.along_axis), self.sectors(SIDE, self.along_sum))


@dataclass(frozen=True)
class Product:
    """A loop nest of one sum of a product: its rows and columns, further output ranges, the range of the sum,
    and how many operations make the product and what is stored of it.
    """

    rows: Operand
    columns: Operand
    others: tuple[UOp, ...]
    summed: UOp
    operations: int

    def direct(self) -> float:
        """Sectors that are moved where each thread computes one sum, its lanes along the columns."""
        each = self.rows.sectors(WARP, 0) + self.columns.sectors(WARP, self.columns.along_axis)
        return size(self.rows.axis) * size(self.columns.axis) * size(self.summed) * each / WARP

    def staged(self, tile: tuple[int, int]) -> float:
        """Sectors that are moved with a tile of so many rows and columns."""
        blocks = _parts(size(self.rows.axis), tile[0]) * _parts(size(self.columns.axis), tile[1])
        step = tile[0] * self.rows.fill_sectors + tile[1] * self.columns.fill_sectors
        return blocks * _parts(size(self.summed), SIDE) * step

    def tile(self) -> tuple[int, int] | None:
        """Rows and columns of the tile that moves least; None where it is not worth it."""
        sides = [SIDE * n for n in range(1, MOST + 1)]
        wanted = size(self.rows.axis) * size(self.columns.axis)
        tiles = [
            (h, w)
            for h in sides
            for w in sides
            if _up(size(self.rows.axis), h) * _up(size(self.columns.axis), w) <= 2 * wanted
            and h * w // SIDE**2 * self.operations <= MOST_OPERATIONS
        ]
        best = min(tiles, key=lambda t: (self.staged(t), -t[0] * t[1]), default=None)
        return best if best is not None and 2 * self.staged(best) <= self.direct() else None


def sectors(lanes: int, stride: int | None, itemsize: int) -> int:
    """What lanes move whose elements are `stride` apart; None where that is not always the same."""
    if stride == 0:
        return 1
    span = lanes if stride is None else abs(stride) * lanes * itemsize // SECTOR
    return max(1, min(lanes, span))


def size(r: UOp) -> int:
    """The size of a range of constant size."""
    return int(r.src[0].value)


def _parts(n: int, part: int) -> int:
    return -(-n // part)


def _up(n: int, multiple: int) -> int:
    return n + -n % multiple


def stage_operands(root: UOp) -> tuple[Schedule, UOp] | None:
    """A schedule that stages the operands of a program's product,
    and the program after it; None without worth.
    """
    product = find_product(root)
    if product is not None and min(o.load.dtype.itemsize for o in (product.rows, product.columns)) < 4:
        return None
    tile = product.tile() if product is not None else None
    if product is None or tile is None:
        return None
    high, wide = (_parts(size(o.axis), t) for o, t in zip((product.rows, product.columns), tile, strict=True))
    blocks = [n for n in (*map(size, product.others), high, wide) if n > 1]
    if len(blocks) > DIMENSIONS or max(blocks[:-1], default=1) > BLOCKS:
        return None
    staging = Staging(root, product, tile)
    staging.run()
    return Schedule(tuple(staging.actions)), staging.root


def find_product(root: UOp) -> Product | None:
    """The product of a kernel that has one loop nest,
    one store and one reduction, of two loads; None without.
    """
    if len(root.src) != 1 or root.src[0].op is not Ops.END or root.src[0].src[0].op is not Ops.STORE:
        return None
    order = root.toposort()
    reductions = [n for n in order if n.op is Ops.REDUCE]
    ranges = [n for n in order if n.op is Ops.RANGE]
    outputs = root.src[0].src[1:]
    if len(reductions) != 1 or len(reductions[0].src) != 2 or any(n.op is Ops.ALLOC for n in order):
        return None
    summed = reductions[0].src[1]
    loads = [n for n in reductions[0].src[0].toposort() if n.op is Ops.LOAD]
    if any(r.src[0].op is not Ops.CONST for r in ranges) or size(summed) < SIDE or len(loads) != 2:
        return None
    stored = memory_of(root.src[0].src[0].src[0])
    if any(load.src[0].src[0] is stored for load in loads):
        return None
    used = [{n for n in load.toposort() if n.op is Ops.RANGE} for load in loads]
    column = contiguous(root.src[0])
    if column in used[0]:
        loads, used = loads[::-1], used[::-1]
    mine = [r for r in outputs if r in used[0] and r not in used[1]]
    if column in used[0] or column not in used[1] or len(mine) != 1 or not all(summed in u for u in used):
        return None
    others = tuple(r for r in outputs if r not in (mine[0], column))
    rows, columns = (
        Operand(load, axis, stride(load, axis), stride(load, summed))
        for load, axis in zip(loads, (mine[0], column), strict=True)
    )
    values = [n for n in order if n.dtype.kind not in (Kind.VOID, Kind.INDEX) and n.op is not Ops.CONST]
    return Product(rows, columns, others, summed, sum(DEFINED.get(n.op, 1) for n in values))


def contiguous(end: UOp) -> UOp | None:
    """The range of a loop nest along which its first store
    to an argument moves by one element, if there is one.
    """
    store = next(n for n in end.toposort() if n.op is Ops.STORE and memory_of(n.src[0]).op is Ops.PARAM)
    return next((t for t, k in linear(store.src[0].src[1]).terms if k == 1 and t in end.src[1:]), None)


def stride(load: UOp, r: UOp) -> int | None:
    """By how many elements a load moves with a range; None where that is not always the same."""
    total = 0
    for term, k in linear(load.src[0].src[1]).terms:
        if term is r:
            total += k
        elif r in term.toposort():
            return None
    return total


class Staging:
    """Chooses the actions for one product and applies them as it goes."""

    def __init__(self, root: UOp, product: Product, tile: tuple[int, int]) -> None:
        self.root, self.product, self.tile = root, product, tile
        self.actions: list[Action] = []

    def run(self) -> None:
        rows, columns = self.product.rows, self.product.columns
        high, height, y = self.side(rows.axis, self.tile[0])
        wide, width, x = self.side(columns.axis, self.tile[1])
        others = [int(r.arg[0]) for r in self.product.others]
        for number in (*others, *high, *wide):
            self.do(Retype(number, AxisType.GLOBAL))
        step = self.step(self.product.summed)
        self.do(Reorder((*others, *high, *wide, y, x, *height, *width)))
        self.stage(rows, step, height, y, along=0)
        self.stage(columns, step, width, x, along=1)

    def do(self, action: Action) -> None:
        self.root = apply_schedule(self.root, [action])
        self.actions.append(action)

    def next(self) -> int:
        return max(int(n.arg[0]) for n in self.root.toposort() if n.op is Ops.RANGE) + 1

    def padded(self, r: UOp, multiple: int) -> int:
        """Make a range a multiple; its size."""
        if size(r) % multiple:
            self.do(Pad(int(r.arg[0]), multiple))
        return _up(size(r), multiple)

    def side(self, r: UOp, length: int) -> tuple[list[int], list[int], int]:
        """Cut an output range: into blocks, the sums of a thread,
        and the threads; those of one value are none.
        """
        left, number = self.padded(r, length) // SIDE, int(r.arg[0])
        if left == 1:
            self.do(Retype(number, AxisType.LOCAL))
            return [], [], number
        outer, thread = self.next(), self.next() + 1
        self.do(Split(number, SIDE, AxisType.LOCAL))
        sums = length // SIDE
        if sums == 1:
            return [outer], [], thread
        if sums == left:
            self.do(Retype(outer, AxisType.UPCAST))
            return [], [outer], thread
        block, copies = self.next(), self.next() + 1
        self.do(Split(outer, sums, AxisType.UPCAST))
        return [block], [copies], thread

    def step(self, r: UOp) -> int:
        """Cut the reduction into steps; the number of the range within one."""
        if self.padded(r, SIDE) == SIDE:
            return int(r.arg[0])
        self.do(Split(int(r.arg[0]), SIDE, AxisType.REDUCE))
        return self.next() - 1

    def stage(self, operand: Operand, step: int, sums: list[int], thread: int, along: int) -> None:
        """Stage the tile of an operand, a row for each value of the step;
        its fill goes along contiguous memory.
        """
        side = self.tile[along]
        across = operand.sectors(SIDE, operand.along_sum) < operand.sectors(SIDE, operand.along_axis)
        fill = Access(side // SIDE, *((1, 0, 0, 1) if across else (0, 1, 1, 0)))
        read = Access(side, along_x=along, along_y=1 - along)
        padding = best_padding([fill, read], side, operand.load.dtype.itemsize, (SIDE, SIDE))
        first = self.next()
        self.do(Stage(operand.slot, (step, *sums, thread), padding))
        row, column = first, first + 1 + len(sums)
        copies = list(range(first + 1, column))
        for number in (row, column):
            self.do(Retype(number, AxisType.LOCAL))
        for number in copies:
            self.do(Retype(number, AxisType.UPCAST))
        self.do(Reorder((*((column, row) if across else (row, column)), *copies)))
