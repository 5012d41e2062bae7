"""Actions on memory: stage a tile of an operand in the order of its use,
hold a tile of sums, pad a range. Week 6.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from uop_ir import REDUCE_IDENTITY, AddrSpace, AxisType, Limits, Ops, UOp, flatten, index

from .actions import Checked, check_distinct, in_brackets
from .loops import in_order, memory_of, next_number, next_slot, open_ranges
from .schedule_legal import ScheduleError, carries, closers, constant, find_range, holds_scratch


@dataclass(frozen=True)
class Stage(Checked):
    """Copy what a LOAD of argument `slot` reads over some ranges into local memory,
    in the order of these ranges.

    The copy is filled once for all values of the ranges that the position does not depend on. Behind what
    belongs to one value of the first range, a row, stand `padding` elements that nobody uses: they move the
    rows of a tile to other banks of a GPU's shared memory.
    """

    indexes = True

    slot: int
    numbers: tuple[int, ...]
    padding: int = 0

    def __str__(self) -> str:
        padding = f" {self.padding}" if self.padding else ""
        return f"stage {self.slot} {in_brackets(self.numbers)}{padding}"

    def check(self, root: UOp) -> None:
        check_distinct(self.numbers, "stage")
        ranges = tuple(find_range(root, n) for n in self.numbers)
        shape = [constant(r, "stage") for r in ranges]
        size = shape[0] * (prod(shape[1:]) + self.padding)
        if self.padding < 0:
            raise ScheduleError(f"stage: a padding of {self.padding} elements", remedy="0 or more")
        loads = self._loads(root, ranges)
        if not loads:
            raise ScheduleError(
                f"stage: no load of argument {self.slot} depends on the ranges {list(self.numbers)}"
            )
        stored = [memory_of(n.src[0]) for n in root.toposort() if n.op is Ops.STORE]
        if loads[0].src[0].src[0] in stored:
            raise ScheduleError(f"stage: the program stores to argument {self.slot}")
        for r in {r for load in loads for r in open_ranges(load)}:
            if any(n.op is Ops.END and _stored_by(n).op is Ops.ALLOC for n in closers(root, r)):
                raise ScheduleError(f"stage: argument {self.slot} is loaded where scratch memory is filled")
        nbytes = size * loads[0].dtype.itemsize
        if nbytes > Limits.local_memory:
            raise ScheduleError(f"stage: a tile of {nbytes} bytes", remedy=f"at most {Limits.local_memory}")

    def act(self, root: UOp) -> UOp:
        ranges = tuple(find_range(root, n) for n in self.numbers)
        return root.substitute(_in_local_memory(root, self._loads(root, ranges), ranges, self.padding))

    def _loads(self, root: UOp, ranges: tuple[UOp, ...]) -> list[UOp]:
        """The loads of the argument that depend on all of the ranges."""
        return [
            n
            for n in root.toposort()
            if n.op is Ops.LOAD
            and n.src[0].src[0].op is Ops.PARAM
            and n.src[0].src[0].arg.slot == self.slot
            and set(ranges) <= open_ranges(n)
        ]


@dataclass(frozen=True)
class Hold(Checked):
    """Put what a reduction over range `number` gives for some
    ranges around it into local memory, in their order.

    So it is computed in loops of its own, with ranges of their own, and what is made of it in the loops that
    are there: a tile of accumulators can be larger than what the expression behind it leaves room for.
    """

    indexes = True

    number: int
    numbers: tuple[int, ...]

    def __str__(self) -> str:
        return f"hold {self.number} {in_brackets(self.numbers)}"

    def check(self, root: UOp) -> None:
        check_distinct(self.numbers, "hold")
        r = find_range(root, self.number)
        ranges = tuple(find_range(root, n) for n in self.numbers)
        size = prod(constant(q, "hold") for q in ranges)
        held = [n for n in closers(root, r) if n.op is Ops.REDUCE]
        if not held:
            raise ScheduleError(
                f"hold: range {self.number} is of no reduction", remedy="name a range of a reduction"
            )
        for node in held:
            if not set(ranges) <= open_ranges(node):
                raise ScheduleError(
                    f"hold: a reduction over range {self.number} does not depend on the ranges "
                    f"{list(self.numbers)}",
                    remedy="name ranges that it depends on",
                )
            if any(n in held for n in node.src[0].toposort()):
                raise ScheduleError(
                    f"hold: a reduction over range {self.number} stands within another",
                    remedy="name a range that one of them has",
                )
        for q in ranges:
            if any(n.op is Ops.END and _stored_by(n).op is Ops.ALLOC for n in closers(root, q)):
                raise ScheduleError(
                    f"hold: range {q.arg[0]} fills scratch memory", remedy="name ranges of other stores"
                )
            if holds_scratch(root, q):
                raise ScheduleError(
                    f"hold: scratch memory is filled inside of range {q.arg[0]}",
                    remedy="hold before what fills it",
                )
            if any(n.op is Ops.REDUCE for n in closers(root, q)):
                raise ScheduleError(
                    f"hold: range {q.arg[0]} is of a reduction", remedy="name ranges of a store"
                )
        nbytes = size * sum(n.dtype.itemsize for n in held)
        if nbytes > Limits.local_memory:
            raise ScheduleError(f"hold: a tile of {nbytes} bytes", remedy=f"at most {Limits.local_memory}")

    def act(self, root: UOp) -> UOp:
        ranges = tuple(find_range(root, n) for n in self.numbers)
        r = find_range(root, self.number)
        held = [n for n in closers(root, r) if n.op is Ops.REDUCE]
        return root.substitute(_in_local_memory(root, held, ranges))


def _in_local_memory(
    root: UOp, values: list[UOp], ranges: tuple[UOp, ...], padding: int = 0
) -> dict[UOp, UOp]:
    """For each value a load from local memory that is filled over ranges like these, in their order."""
    shape = tuple(int(r.src[0].value) for r in ranges)
    first = next_number(root)
    slot = next_slot(root)
    own = tuple(UOp.range(s, first + i) for i, s in enumerate(shape))
    loads: dict[UOp, UOp] = {}
    for value in values:
        outer = in_order(open_ranges(value) - frozenset(ranges))
        size = shape[0] * (prod(shape[1:]) + padding)
        memory = UOp.alloc(slot + len(loads), size, value.dtype, AddrSpace.LOCAL)
        fill = value.substitute(dict(zip(ranges, own, strict=True)))
        place = memory.after(*outer)
        at, own_at = (flatten(shape, rs) + rs[0] * padding for rs in (ranges, own))
        filled = place.after(place.index(own_at).store(fill).end(*own))
        loads[value] = filled.index(at).load()
    return loads


#: Ops that give 0 where all their operands are 0.
OF_ZEROS = frozenset({Ops.ADD, Ops.SUB, Ops.MUL, Ops.CAST})


@dataclass(frozen=True)
class Pad(Checked):
    """Lengthen a range to a multiple, so that it can be split without a rest.

    Behind its end nothing is loaded, nothing is stored,
    and a reduction folds its identity, or 0 that it has anyway.
    """

    indexes = True

    number: int
    multiple: int

    def __str__(self) -> str:
        return f"pad {self.number} {self.multiple}"

    def check(self, root: UOp) -> None:
        r = find_range(root, self.number)
        size = constant(r, "pad")
        if self.multiple < 1 or size % self.multiple == 0:
            raise ScheduleError(f"pad: range {self.number} of {size} to a multiple of {self.multiple}")
        if r.arg[1] not in (AxisType.LOOP, AxisType.REDUCE):
            raise ScheduleError(
                f"pad: range {self.number} is {r.arg[1].value} already", remedy="pad it before"
            )
        if any(n.op is Ops.END and (carries(n) or _stored_by(n).op is Ops.ALLOC) for n in closers(root, r)):
            raise ScheduleError(f"pad: range {self.number} fills scratch memory or carries values")

        for n in root.toposort():
            scratch = n.op is Ops.INDEX and memory_of(n).op is Ops.ALLOC
            if scratch and r in open_ranges(n.src[1]):
                raise ScheduleError(
                    f"pad: range {self.number} indexes scratch memory", remedy="pad it before"
                )

    def act(self, root: UOp) -> UOp:
        r = find_range(root, self.number)
        size = int(r.src[0].value)
        longer = r.replace(src=(index(size + -size % self.multiple),))
        there = longer < size
        new: dict[UOp, UOp] = {r: longer}
        # What is 0 past the end, which a sum may fold as it is: a product is contracted there too.
        zero = set[UOp]()
        for node in root.toposort():
            if node in new:
                continue
            now = node.replace(src=[new[s] for s in node.src])
            if node.op in (Ops.LOAD, Ops.STORE) and r in open_ranges(node):
                place, *value = now.src
                memory, at, *valid = place.src
                if memory_of(place).addrspace is not AddrSpace.REG:
                    now = now.replace(src=(memory.index(at, valid[0] & there if valid else there), *value))
                    zero.add(now)
            elif node.op in OF_ZEROS and zero.issuperset(now.src):
                zero.add(now)
            elif (
                node.op is Ops.REDUCE
                and r in node.src[1:]
                and not (node.arg[0] is Ops.ADD and now.src[0] in zero)
            ):
                value_ = now.src[0]
                identity = value_.const_like(REDUCE_IDENTITY[node.arg[0]](value_.dtype))
                now = now.replace(src=(there.where(value_, identity), *now.src[1:]))
            new[node] = now
        return new[root]


def _stored_by(end: UOp) -> UOp:
    """The memory that a loop nest stores to."""
    return next(memory_of(n.src[0]) for n in reversed(end.toposort()) if n.op is Ops.STORE)
