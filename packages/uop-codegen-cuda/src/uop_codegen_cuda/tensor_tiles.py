"""Tensor tiles: a product of matrices on tensor cores, its operands staged in shared memory. Week 8.

A warp computes up to 2 x 4 tiles of an instruction, a block has up to 2 x 2 warps: 64 x 64 sums of f16. The
reduction goes in steps of two instructions, in each of which the block loads what it needs of both operands
into shared memory, a row for each row or column of its tile, padded so that the fragments are read with the
fewest bank conflicts. A block of one tile reads global memory.

It is chosen where a sum may be reordered. Sizes that are no multiples are padded: of the tiles that add at
most a quarter to a size the largest is taken, else the smallest, and none where more than half of all
products would be of zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from uop_codegen_c import (
    Action,
    Freedoms,
    Pad,
    Reorder,
    Retype,
    Schedule,
    ScheduleError,
    Split,
    Stage,
    apply_schedule,
)
from uop_ir import AxisType, Ops, UOp

from .banks import BANKS, WARP, wavefronts
from .instructions import Instruction
from .staging import BLOCKS, DIMENSIONS, Operand, Product, find_product, size
from .tensor_core import TensorCore, product_of

#: Tiles of a warp along rows and columns, and warps of a block along either, from the most on.
TILES, WARPS = ((2, 1), (4, 2, 1)), (2, 1)
#: Instructions of a step; what padding may add to a size, and to all that is computed.
STEPS = (2, 1)
LONGER, MORE = 1.25, 2


def tensor_tiles(root: UOp, free: Freedoms) -> tuple[Schedule, UOp] | None:
    """A schedule that gives a program's product to tensor cores,
    and the program after it; None where none can.
    """
    product = find_product(root) if free.reassociate else None
    if product is None:
        return None
    (node,) = (n for n in root.toposort() if n.op is Ops.REDUCE)
    axes = (product.rows.axis, product.columns.axis)
    try:
        instruction = product_of(node, axes, product.summed).instruction
    except ScheduleError:
        return None
    tiles = _Tiles(root, product, instruction)
    blocks = [n for n in (*map(size, product.others), *tiles.blocks) if n > 1]
    if len(blocks) > DIMENSIONS or max(blocks[:-1], default=1) > BLOCKS or tiles.waste > MORE:
        return None
    try:
        tiles.map()
    except ScheduleError:  # a factor that is not 0 where its load is padded
        return None
    return Schedule(tuple(tiles.actions)), tiles.root


def _largest(n: int, lengths: Sequence[int]) -> int:
    """The first of some lengths, longest first, to whose multiple n is padded by little; else the last."""
    return next((length for length in lengths if _up(n, length) <= LONGER * n), lengths[-1])


def _up(n: int, multiple: int) -> int:
    return n + -n % multiple


class _Tiles:
    """Chooses the actions for one product and applies them as it goes."""

    def __init__(self, root: UOp, product: Product, instruction: Instruction) -> None:
        self.root, self.product, self.instruction = root, product, instruction
        self.actions: list[Action] = []
        m, n, k = instruction.shape
        self.tiles, self.warps, self.blocks, self.sides = list[int](), list[int](), list[int](), list[int]()
        for operand, length, most in zip((product.rows, product.columns), (m, n), TILES, strict=True):
            shapes = {length * tiles * warps: (tiles, warps) for warps in WARPS for tiles in reversed(most)}
            side = _largest(size(operand.axis), sorted(shapes, reverse=True))
            tiles, warps = shapes[side]
            self.tiles.append(tiles)
            self.warps.append(warps)
            self.blocks.append(_up(size(operand.axis), side) // side)
            self.sides.append(side)
        self.step = _largest(size(product.summed), [k * steps for steps in STEPS])

    @property
    def waste(self) -> float:
        """How many products are computed for each that is wanted."""
        ranges = (self.product.rows.axis, self.product.columns.axis, self.product.summed)
        return prod(_up(size(r), n) / size(r) for r, n in zip(ranges, (*self.sides, self.step), strict=True))

    def map(self) -> None:
        others = [int(r.arg[0]) for r in self.product.others]
        for number in others:
            self.do(Retype(number, AxisType.GLOBAL))
        operands = (self.product.rows, self.product.columns)
        grid, inner = list(others), list[int]()
        for operand, side in zip(operands, self.sides, strict=True):
            block, number = self.cut(*self.padded(operand.axis, side), side, AxisType.LOOP)
            inner.append(number)
            if block is not None:
                self.do(Retype(block, AxisType.GLOBAL))
                grid.append(block)
        summed = self.product.summed
        _, terms = self.cut(*self.padded(summed, self.step), self.step, AxisType.REDUCE)
        if max(*self.tiles, *self.warps) > 1:
            for place, operand in enumerate(operands):
                self.stage(operand, inner[place], terms, place)
        first = self.next()
        self.do(TensorCore((*inner, terms)))
        lanes, warps, copies = list[int](), list[int](), list[int]()
        for place, number in enumerate(inner):
            tiles, count = self.tiles[place], self.warps[place]
            if tiles * count == 1:
                lanes.append(number)
                continue
            left, lane, first = first, first + 1, first + 2
            lanes.append(lane)
            if tiles > 1:
                outer, copy = self.cut(left, tiles * count, tiles, AxisType.UPCAST)
                copies.append(copy)
                left = outer if outer is not None else left
            if count > 1:
                self.do(Retype(left, AxisType.LOCAL))
                warps.append(left)
        self.do(Reorder((*grid, *warps, *lanes, *copies)))

    def padded(self, r: UOp, multiple: int) -> tuple[int, int]:
        """Make a range a multiple: its number and its size."""
        number = int(r.arg[0])
        if size(r) % multiple:
            self.do(Pad(number, multiple))
        return number, _up(size(r), multiple)

    def cut(self, number: int, extent: int, factor: int, axis: AxisType) -> tuple[int | None, int]:
        """Make an inner part of a range an axis of a type:
        the numbers of the outer part, if any, and of the inner one.
        """
        if factor == extent:
            if axis not in (AxisType.LOOP, AxisType.REDUCE):
                self.do(Retype(number, axis))
            return None, number
        outer = self.next()
        self.do(Split(number, factor, axis))
        return outer, outer + 1

    def stage(self, operand: Operand, number: int, terms: int, place: int) -> None:
        """Stage the tile of an operand, terms along its rows; lanes fill it along contiguous memory."""
        along = operand.sectors(WARP, operand.along_sum) <= operand.sectors(WARP, operand.along_axis)
        row = self.next()
        column = row + 1
        self.do(Stage(operand.slot, (number, terms), self.padding(place, along)))
        lengths = {row: self.sides[place], column: self.step}
        lane, other = (column, row) if along else (row, column)
        loops = list[int]()
        lanes = min(lengths[lane], WARP)
        outer, lane = self.cut(lane, lengths[lane], lanes, AxisType.LOCAL)
        loops += [] if outer is None else [outer]
        warps, left = list[int](), lengths[other]
        for count in reversed(self.warps):
            if count > 1:
                outer, warp = self.cut(other, left, count, AxisType.LOCAL)
                warps.insert(0, warp)
                other, left = warp if outer is None else outer, left // count
        loops += [] if other in warps else [other]
        self.do(Reorder((*warps, lane, *loops)))

    def padding(self, place: int, along: bool) -> int:
        """The least number of elements behind a row with which a step takes the fewest wavefronts."""
        itemsize = self.instruction.operand.itemsize
        layout = (self.instruction.a, self.instruction.b)[place]
        length, depth = self.instruction.shape[place], self.instruction.shape[2]
        fragments = self.sides[place] // length * (self.step // depth) * self.warps[1 - place]
        stores = self.sides[place] * self.step // WARP

        def cost(padding: int) -> tuple[int, int]:
            width = self.step + padding
            total = stores * wavefronts([lane * (1 if along else width) for lane in range(WARP)], itemsize)
            for element in range(layout.elements):
                places = [layout.place(lane, element) for lane in range(WARP)]
                rows = places if place == 0 else [(column, row) for row, column in places]
                total += fragments * wavefronts([row * width + term for row, term in rows], itemsize)
            return total, padding

        return min(range(BANKS), key=cost)

    def do(self, action: Action) -> None:
        self.root = apply_schedule(self.root, [action])
        self.actions.append(action)

    def next(self) -> int:
        return max(int(n.arg[0]) for n in self.root.toposort() if n.op is Ops.RANGE) + 1
