"""Packing: copy what all rows of a product read in the order of its use, and tile what reads it. Week 6."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from uop_ir import AxisType, Limits, Ops, UOp

from .actions import Reorder, Retype, Split
from .loops import next_number, open_ranges
from .nests import Loops, innermost, inside, stride, sums
from .schedule_legal import extent, find_range
from .schedule_memory import Hold, Stage
from .text_size import characters
from .tile_shape import total_cycles
from .tiles import Tiles

#: An operand is packed if it is of more bytes than this, which a first cache keeps, and so many rows read it;
#: more where it is contiguous already and each of several parts is packed anew, as in a convolution.
PACKED_BYTES, PACKED_ROWS, PACKED_ROWS_OF_PARTS = 16_384, 32, 96
#: How many times faster the tile must be that is had by holding its sums in memory.
HOLD_GAIN = 1.15


@dataclass(frozen=True)
class Packed:
    """What pays to be packed: loads, loops outside and inside
    of the pieces of the last axis, the axis of rows.

    `depth` is how many bytes of a column are packed.
    """

    loads: tuple[UOp, ...]
    before: list[int]
    behind: list[int]
    row: int
    depth: int


class Packing(Tiles):
    """What is done to a loop nest whose last axis is cut into pieces of a tile's width,
    each of which is packed.
    """

    def pack(self, loops: Loops, numbers: list[int], lanes: int) -> list[tuple[list[int], int]] | None:
        """Cut the last axis into pieces of a tile's width,
        and copy each of what all rows read; None where it does not pay.

        What remains to be done: the nest of the columns that are left,
        if there is one, and the most lanes that it has.
        """
        packed = self.packed(loops, numbers, lanes)
        if packed is None:
            return None
        r, outputs = find_range(self.root, numbers[-1]), loops.end.src[1:]
        alone = len(loops.reductions) == 1 and packed.row == packed.behind[-1]
        height, vectors, hold = self.tile_of_products(loops, packed.row, r, lanes, packed.depth, alone)
        width = lanes * vectors
        text = 0 if hold else characters(loops.end.toposort(), {}, r, lanes)
        if packed.depth * width > Limits.local_memory or text > self.limit:
            return None
        around, piece, tail = self.cut(packed.before, numbers[-1], packed.behind, width, packed.depth)
        for slot, order in {n.src[0].src[0].arg.slot: inside(n, outputs) for n in packed.loads}.items():
            self.settle()
            staged = (*around, *sorted(int(q.arg[0]) for q in order), piece)
            if not self.loads(slot, staged):  # a mask leaves nothing of it in this piece
                continue
            copy = next_number(self.root) + len(around) + len(order)
            self.do(Stage(slot, staged))
            if all(stride(n, r, lanes) == 1 for n in packed.loads if n.src[0].src[0].arg.slot == slot):
                self.vectors(copy, lanes)
        if hold:
            self.hold(int(loops.reductions[0].src[-1].arg[0]), packed.row, height, lanes)
        else:
            self.vectors(piece, lanes)
            self.rows(packed.row, height)
        if tail is None:
            return []
        ends = [[int(q.arg[0]) for q in n.src[1:]] for n in self.root.src if n.op is Ops.END]
        (rest,) = [n for n in ends if tail in n]
        rest = [*(n for n in rest if n != tail), tail]
        self.do(Reorder(tuple(rest)))
        return [(rest, 1 << (extent(find_range(self.root, tail)).bit_length() - 1))]

    def packed(self, loops: Loops, numbers: list[int], lanes: int) -> Packed | None:
        """What all rows of a loop nest read along its last axis; None where it does not pay to pack it."""
        last, outputs = numbers[-1], loops.end.src[1:]
        r = find_range(self.root, last)
        tall = any(r in open_ranges(n) for n in loops.reductions)
        row = self.row_axis(loops, numbers, numbers) if tall else None
        if row is None or any(n.op is Ops.ALLOC for n in loops.end.toposort()):
            return None
        rows = find_range(self.root, row)
        loads = tuple(
            n
            for n in loops.loads
            if r in open_ranges(n) and rows not in open_ranges(n) and inside(n, outputs)
        )
        depends = frozenset[UOp]().union(*map(open_ranges, loads))
        before = [n for n in numbers if n != last and find_range(self.root, n) in depends]
        behind = [n for n in numbers if n != last and n not in before]
        lies = all(stride(n, r, lanes) == 1 for n in loads)
        least = PACKED_ROWS_OF_PARTS if before and lies else PACKED_ROWS
        depth = sum(n.dtype.itemsize * prod(map(extent, inside(n, outputs))) for n in loads)
        if (
            prod(extent(find_range(self.root, n)) for n in behind) < least
            or depth * extent(r) <= PACKED_BYTES
            or any(q.src[0].op is not Ops.CONST for n in loads for q in inside(n, outputs))
            or not all(n in loads or stride(n, r, lanes) in (0, 1) for n in loops.loads)
            or any(n.op is Ops.STORE and stride(n, r) is None for n in loops.end.toposort())
        ):
            return None
        return Packed(loads, before, behind, row, depth)

    def loads(self, slot: int, numbers: tuple[int, ...]) -> bool:
        """Whether something is loaded from an argument at a position that depends on these ranges."""
        loads = (n for n in self.root.toposort() if n.op is Ops.LOAD and n.src[0].src[0].op is Ops.PARAM)
        return any(
            n.src[0].src[0].arg.slot == slot and {int(r.arg[0]) for r in open_ranges(n)}.issuperset(numbers)
            for n in loads
        )

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
        """Cut the last axis into pieces that are packed:
        the loop over those that are packed together, each, the rest.

        All together, in front of the loops `behind`, where they fit memory and leave no rest: so these write
        row by row. Else each by itself, around these loops.
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

    def hold(self, summed: int, number: int, height: int, lanes: int) -> None:
        """Hold tiles of what is summed over a range, of so many values of another;
        what is made of them is not copied.
        """
        others = [end for end in innermost(self.root) if summed not in sums(end)]
        first, size = next_number(self.root), extent(find_range(self.root, number))
        rows = {number} if height == size else {first + 1, first + 2} if height > 1 else set[int]()
        if 1 < height < size:
            self.split(number, height, AxisType.LOOP)
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
