"""Legal: what an axis action may do to a range, and the reason where it may not. Week 6."""

from __future__ import annotations

from uop_ir import AddrSpace, AxisType, Limits, Ops, UOp, UopError
from uop_rewrite import bounds

from .loops import CLOSING, all_ranges, memory_of, open_ranges

#: What the ranges of a store may become, and those of a reduction.
STORED = frozenset(AxisType) - {AxisType.REDUCE, AxisType.GROUP}
REDUCED = frozenset(
    {AxisType.REDUCE, AxisType.UNROLL, AxisType.UPCAST, AxisType.VECTOR, AxisType.WARP, AxisType.GROUP}
)
#: Axes that are no loops in the C: a range of such a type has a constant size.
COPIED = frozenset({AxisType.UNROLL, AxisType.UPCAST, AxisType.VECTOR})
#: Axes whose sums are kept apart and added behind the loop, in another order.
APART = frozenset({AxisType.UPCAST, AxisType.VECTOR, AxisType.WARP, AxisType.GROUP})
#: The most lanes of a vector, and the most copies that the ranges around a value may make of it.
MOST_LANES, MOST_COPIES = 64, 1024
#: Bytes of scratch memory, which is on the stack, that staged operands may take in all.
MOST_STAGED = 4 * Limits.local_memory


class ScheduleError(UopError):
    """An action that is not legal on a program, with the reason."""


def find_range(root: UOp, number: int) -> UOp:
    """The RANGE with a number. Raises ScheduleError where there is none."""
    for r in all_ranges(root):
        if r.arg[0] == number:
            return r
    raise ScheduleError(f"no range {number}", remedy=f"ranges {[r.arg[0] for r in all_ranges(root)]}")


def constant(r: UOp, action: str) -> int:
    """The size of a range. Raises ScheduleError where it is no constant."""
    if r.src[0].op is not Ops.CONST:
        raise ScheduleError(f"{action}: range {r.arg[0]} has no constant size")
    return int(r.src[0].value)


def extent(r: UOp) -> int:
    """The greatest number of values that a range has."""
    return bounds(r.src[0])[1]


def closers(root: UOp, r: UOp) -> list[UOp]:
    """The ENDs and REDUCEs that close a range."""
    return [n for n in root.toposort() if n.op in CLOSING and r in n.src[1:]]


def holds_scratch(root: UOp, r: UOp) -> bool:
    """Whether scratch memory is filled anew for each value of a range."""
    return any(n.op is Ops.AFTER and n.src[0].op is Ops.ALLOC and r in n.src[1:] for n in root.toposort())


def carries(node: UOp) -> bool:
    """Whether a loop of stores takes values from one iteration to the next:
    a running sum, a walk that scatters.
    """
    return node.op is Ops.END and any(r.arg[1] is AxisType.REDUCE for r in node.src[1:])


def check_axis(root: UOp, r: UOp, axis: AxisType, size: int, action: str) -> None:
    """Raise ScheduleError where a range, or a part of it of this size,
    may not become an axis of this type.
    """
    number = r.arg[0]
    for node in closers(root, r):
        if r.arg[1] is AxisType.REDUCE and carries(node):
            raise ScheduleError(f"{action}: range {number} carries values from one iteration to the next")
        allowed = REDUCED if node.op is Ops.REDUCE else STORED
        if axis not in allowed:
            what = "a reduction" if node.op is Ops.REDUCE else "a store"
            names = ", ".join(a.value for a in AxisType if a in allowed)
            raise ScheduleError(f"{action}: range {number} is of {what}: no {axis.value}", remedy=names)
    if axis not in COPIED:
        return
    constant(r, action)
    if any(n.op is Ops.RANGE and r in open_ranges(n.src[0]) for n in root.toposort()):
        raise ScheduleError(f"{action}: the size of another range depends on range {number}")
    if axis is AxisType.VECTOR:
        _check_vector(root, r, size, action)
    else:
        _check_copies(root, r, size, action)


def _check_vector(root: UOp, r: UOp, size: int, action: str) -> None:
    number = r.arg[0]
    if not 2 <= size <= MOST_LANES or size & (size - 1):
        raise ScheduleError(
            f"{action}: {size} lanes of range {number}", remedy=f"a power of two, 2 to {MOST_LANES}"
        )
    if holds_scratch(root, r):
        raise ScheduleError(f"vector: scratch memory is filled inside of range {number}")
    for node in root.toposort():
        others = [q.arg[0] for q in together(node, r) if q is not r and q.arg[1] is AxisType.VECTOR]
        if others:
            raise ScheduleError(
                f"vector: a value depends on range {number} and on range {others[0]}, a vector"
            )
        if node.op is Ops.STORE and len(node.src[0].src) == 3 and r in open_ranges(node.src[0].src[2]):
            raise ScheduleError(f"vector: whether a store is made depends on range {number}")


def _check_copies(root: UOp, r: UOp, size: int, action: str) -> None:
    """A compiler takes its time for many copies."""
    for node in root.toposort():
        if r in together(node, r):
            copies = size
            for q in together(node, r):
                if q is not r and q.arg[1] in (AxisType.UPCAST, AxisType.UNROLL):
                    copies *= extent(q)
            if copies > MOST_COPIES:
                raise ScheduleError(
                    f"{action}: {copies} copies of what depends on range {r.arg[0]}",
                    remedy=f"at most {MOST_COPIES}",
                )


def together(node: UOp, r: UOp) -> frozenset[UOp]:
    """The ranges that are open at a node, or that it closes, where `r` is one of them."""
    found = open_ranges(node) | (frozenset(node.src[1:]) if node.op in CLOSING else frozenset())
    return found if r in found else frozenset()


def check_program(root: UOp, action: str) -> None:
    """Raise ScheduleError for a program that an action has made and that cannot be lowered."""
    staged: dict[UOp, int] = {}
    for node in root.toposort():
        if node.op is Ops.AFTER and node.src[0].op is Ops.ALLOC:
            size = node.src[0].arg.size * node.src[0].arg.dtype.itemsize
            for r in node.src[1:]:
                if r.op is Ops.RANGE and r.arg[1] is AxisType.VECTOR:
                    raise ScheduleError(
                        f"{action}: scratch memory is filled inside of range {r.arg[0]}, a vector"
                    )
                if r.op is Ops.RANGE and r.arg[1] is AxisType.UPCAST:
                    size *= extent(r)
            if node.src[0].arg.addrspace is AddrSpace.LOCAL:
                staged[node.src[0]] = max(size, staged.get(node.src[0], 0))
        elif node.op in CLOSING:
            _check_order(node, action)
    if sum(staged.values()) > MOST_STAGED:
        raise ScheduleError(
            f"{action}: {sum(staged.values())} bytes of scratch memory", remedy=f"at most {MOST_STAGED}"
        )


def _check_order(node: UOp, action: str) -> None:
    ranges = node.src[1:]
    for place, r in enumerate(ranges):
        if r.arg[1] is AxisType.THREAD and (place or node.op is Ops.REDUCE or open_ranges(node)):
            raise ScheduleError(f"thread: range {r.arg[0]} is not the outermost loop of a store")
    if node.op is not Ops.REDUCE or AxisType.UNROLL not in [r.arg[1] for r in ranges]:
        return
    loops = [r for r in ranges if r.arg[1] not in APART]
    first = next(i for i, r in enumerate(loops) if r.arg[1] is AxisType.UNROLL)
    if any(r.arg[1] is not AxisType.UNROLL for r in loops[first:]):
        raise ScheduleError(f"unroll: range {loops[first].arg[0]} is not the innermost of its reduction")
    unrolled = set(loops[first:])
    for n in node.src[0].toposort():
        inner = n.op is Ops.REDUCE or (n.op is Ops.AFTER and memory_of(n).op is Ops.ALLOC)
        if inner and not unrolled.isdisjoint(open_ranges(n)):
            raise ScheduleError(f"unroll: a reduction stands inside of range {loops[first].arg[0]}")
