"""Shared memory: which staged tiles the threads of a block share, and whether that is legal. Week 8.

A tile is shared where a range of its fill is LOCAL: each thread fills a part, and reads what others have
filled. Else each thread has a tile of its own, filled by itself.
"""

from __future__ import annotations

from collections.abc import Iterable

from uop_codegen_c import ScheduleError
from uop_ir import AddrSpace, AxisType, Ops, UOp

#: Bytes of shared memory of a block that a text may declare, on every architecture.
MOST_SHARED = 48 * 1024
#: A block has one tile, not one for each value of such an axis.
OWN = frozenset({AxisType.LOCAL, AxisType.UPCAST, AxisType.UNROLL, AxisType.VECTOR})


def memory_of(place: UOp) -> UOp:
    """The memory of which an INDEX names an element, whatever it comes after."""
    while place.op in (Ops.INDEX, Ops.AFTER):
        place = place.src[0]
    return place


def stores(nest: UOp) -> tuple[UOp, ...]:
    """What a loop nest repeats; a store in no loop is one of its own."""
    if nest.op is not Ops.END:
        return (nest,)
    return nest.src[0].src if nest.src[0].op is Ops.SINK else nest.src[:1]


def fills(order: Iterable[UOp]) -> dict[UOp, list[UOp]]:
    """The loop nests that fill shared memory, each with what it fills."""
    found: dict[UOp, list[UOp]] = {}
    for end in order:
        if end.op is not Ops.END or not _local(end):
            continue
        filled = list(dict.fromkeys(memory_of(e.src[0]) for e in stores(end) if e.op is Ops.STORE))
        if filled and all(m.op is Ops.ALLOC and m.arg.addrspace is AddrSpace.LOCAL for m in filled):
            found[end] = filled
    return found


def shared_bytes(filled: dict[UOp, list[UOp]]) -> int:
    """What the memory that some loop nests fill takes."""
    return sum(m.arg.size * m.arg.dtype.itemsize for m in {m for ms in filled.values() for m in ms})


def _local(end: UOp) -> list[UOp]:
    return [r for r in end.src[1:] if r.op is Ops.RANGE and r.arg[1] is AxisType.LOCAL]


def check_shared(root: UOp) -> None:
    """Raise ScheduleError for a program at loop level whose shared memory a block cannot have or fill.

    All threads of the block must come to each barrier, so that a kernel with shared memory is one loop nest
    with local ranges of constant size, and each fill has no more threads than that.
    """
    order = root.toposort()
    filled = fills(order)
    if not filled:
        return
    nests = [n for n in root.src if n.op is Ops.END]
    if len(root.src) > 1 or len(nests) != 1:
        raise ScheduleError(
            "shared memory in a kernel of several loop nests: not all threads would reach its barriers",
            remedy="pad instead of a split with a rest; one output a kernel",
        )
    for r in order:
        uses = r.src[0].toposort() if r.op is Ops.RANGE else ()
        for number, axis in (q.arg for q in uses if q.op is Ops.RANGE and q.arg[1] in OWN):
            raise ScheduleError(
                f"shared memory, where the size of range {r.arg[0]} depends on range {number}, {axis.value}: "
                "not all values of that would reach its barriers",
                remedy=f"a size that is the same for all values of range {number}",
            )
    block = _sizes(nests[0])
    for end, memories in filled.items():
        for axis, size in enumerate(_sizes(end)):
            if axis >= len(block) or size > block[axis]:
                have = block[axis] if axis < len(block) else 1
                raise ScheduleError(
                    f"a tile filled by {size} threads along {'xyz'[min(axis, 2)]}, where the block has {have}",
                    remedy="split its fill",
                )
        for node in order:
            if node.op is Ops.AFTER and node.src[0] in memories:
                own = [r for r in node.src[1:] if r.op is Ops.RANGE and r.arg[1] in OWN]
                if own:
                    number, axis = own[0].arg
                    raise ScheduleError(
                        f"a tile for each value of range {number}, {axis.value}, that several threads fill",
                        remedy=f"stage it over range {number} too",
                    )
    nbytes = shared_bytes(filled)
    if nbytes > MOST_SHARED:
        raise ScheduleError(f"{nbytes} bytes of shared memory", remedy=f"at most {MOST_SHARED}")


def _sizes(end: UOp) -> list[int]:
    """The threads along x, y and z that a loop nest has. Raises ScheduleError where they are no constant."""
    sizes = []
    for r in reversed(_local(end)):
        if r.src[0].op is not Ops.CONST:
            raise ScheduleError(
                f"shared memory, where range {r.arg[0]} has no constant size: not all threads would reach its barriers",
                remedy="pad its axis before it is split",
            )
        sizes.append(int(r.src[0].value))
    return sizes
