"""Tiles: the actions that are done to a program, one by one,
and the tile of registers that they make. Week 6.
"""

from __future__ import annotations

from uop_ir import AxisType, Limits, Ops, UOp, toposort
from uop_rewrite import graph_rewrite, symbolic

from .actions import Checked, Retype, Split
from .freedoms import Freedoms
from .loops import next_number, open_ranges
from .machine import Machine
from .nests import Loops, loops_of
from .schedule_legal import extent, find_range
from .text_size import characters, text_limit
from .tile_shape import best_tile


class Tiles:
    """A program and the actions done to it. Actions are not checked:
    who asks for one has seen that it is legal.
    """

    def __init__(self, root: UOp, free: Freedoms, machine: Machine) -> None:
        self.root, self.free, self.machine = root, free, machine
        self.actions: list[Checked] = []
        self.settled = True
        self.limit = text_limit(root)

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
        return loops_of(end)

    def split(self, number: int, factor: int, axis: AxisType) -> int:
        """Split a range, or retype it where the factor is its size; the number of the inner range."""
        r = find_range(self.root, number)
        if extent(r) == factor:
            self.do(Retype(number, axis))
            return number
        outer = next_number(self.root)
        self.do(Split(number, factor, axis))
        return outer + 1

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

    def row_axis(self, loops: Loops, numbers: list[int], fixed: list[int]) -> int | None:
        """The innermost other output axis that the vectors which are loaded do not move along."""
        last = find_range(self.root, numbers[-1])
        opens = [open_ranges(n) for n in loops.end.toposort() if n.op is Ops.LOAD]
        for number in reversed(numbers[:-1]):
            r = find_range(self.root, number)
            if number in fixed and any(last in ranges and r not in ranges for ranges in opens):
                return number
        return None

    def again(self, loops: Loops, axis: UOp) -> list[UOp]:
        """What stands again for each piece that an output axis is cut into,
        although it does not depend on the axis: it is in the loop of a reduction that does.
        """
        around: set[UOp] = {axis}
        for node in reversed(loops.reductions):  # an outer one comes after those inside it
            if not around.isdisjoint(open_ranges(node)):
                around.update(node.src[1:])
        order = loops.end.toposort()
        return [n for n in order if axis not in open_ranges(n) and not around.isdisjoint(open_ranges(n))]

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
        by_piece, by_rows = self.again(loops, last), [] if r is None else self.again(loops, r)

        def allowed(rows: int, vectors: int) -> bool:
            if (height % rows and not depth) or depth * lanes * vectors > Limits.local_memory:
                return False
            rest = width % (lanes * vectors)
            copies = {last: vectors + (rest > 0) + pieces_of(rest, lanes)}
            if r is not None:
                copies[r] = rows + height % rows
            tails = 2 if r is not None and height % rows else 1
            text = characters(copied, copies, last, lanes) + tails * characters(once, {}, last, lanes)
            text += pieces_of(rest, lanes) * characters(by_piece, copies, last, lanes)
            text += (tails - 1) * characters(by_rows, copies, last, lanes)
            return text <= (self.limit // 2 if held and rest else self.limit)  # the rest is as long again

        return best_tile(height, width, lanes, self.machine.registers, allowed)


def pieces_of(rest: int, lanes: int) -> int:
    """Into how many pieces what is left of vectors is cut, each of them as wide as it can be."""
    return (rest >= lanes) + (rest % lanes).bit_count()
