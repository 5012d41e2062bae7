"""Stage: scratch memory that is filled once and read at several positions,
in the loops where it belongs. Week 4.

It stands inside of every range that its value uses at all positions alike, and outside of those that it does
not use. What a position has in common with the others is fixed there;
the other axes are the axes of the scratch memory.
"""

from __future__ import annotations

from itertools import takewhile
from typing import NamedTuple

from uop_ir import AddrSpace, AxisType, BackendError, Limits, Ops, UOp, flatten, index
from uop_rewrite import bounds

from .demands import Demand, Lowering, common, simplify
from .loops import open_ranges


class Scope(NamedTuple):
    """Where a STAGE stands: the loops around it,
    the index of each axis as it is filled, and the axes that it has.
    """

    loops: tuple[UOp, ...]
    at: tuple[UOp, ...]
    axes: tuple[int, ...]


def stage_demand(state: Lowering, node: UOp) -> None:
    """Ask for the value of a STAGE where it is filled."""
    scope = _scope(state, node)
    own = tuple(scope.at[a] for a in scope.axes if scope.at[a].op is Ops.RANGE)
    state.demand(node.src[0], scope.at, None, scope.loops + own)


def stage_value(state: Lowering, node: UOp, want: Demand) -> UOp:
    """The element of a STAGE at a position that was asked for; 0 where there is none."""
    scope = _scope(state, node)
    shape = [node.shape[a] for a in scope.axes]
    if (node, "fill") not in state.ranges:
        state.ranges[node, "fill"] = (_filled(state, node, scope, shape),)
    memory = state.ranges[node, "fill"][0]
    at = simplify(flatten(shape, [want.at[a] for a in scope.axes]))
    return memory.index(at, *(() if want.valid is None else (want.valid,))).load()


def _scope(state: Lowering, node: UOp) -> Scope:
    """All that use the STAGE have asked for it by now."""
    wants = list(state.demands[node])
    uses = [(want.ranges(), state.within[node, want]) for want in wants]
    loops = common([tuple(takewhile(used.__contains__, chain)) for used, chain in uses])
    while True:
        fixed = [
            all(want.at[a] is i for want in wants) and open_ranges(i) <= set(loops) and _exists(i, size)
            for a, (i, size) in enumerate(zip(wants[0].at, node.shape, strict=True))
        ]
        used = frozenset[UOp]().union(*(open_ranges(i) for i, f in zip(wants[0].at, fixed, strict=True) if f))
        needed = tuple(takewhile(used.__contains__, loops))
        if needed == loops:
            break
        loops = needed
    axes = tuple(a for a, there in enumerate(fixed) if not there)
    own = iter(state.new_ranges(node, tuple(node.shape[a] for a in axes), AxisType.LOOP))
    at = tuple(i if there else next(own) for i, there in zip(wants[0].at, fixed, strict=True))
    return Scope(loops, at, axes)


def _exists(i: UOp, size: int | UOp) -> bool:
    """Whether an index is in range wherever it is asked for: where it is filled nothing says when it is."""
    low, high = bounds(i)
    return isinstance(size, int) and low >= 0 and high < size


def _filled(state: Lowering, node: UOp, scope: Scope, shape: list[int | UOp]) -> UOp:
    """The memory of a STAGE behind the loops that fill it."""
    size = 1
    for d in shape:
        size *= bounds(index(d))[1]
    space = node.arg
    room = 1 if space is AddrSpace.REG else Limits.local_memory // node.dtype.itemsize
    if size > room or space not in (AddrSpace.REG, AddrSpace.LOCAL):
        raise BackendError(
            f"Ops.STAGE: {size} elements of {node.dtype} in {space.value} memory, where a kernel has room for {room}",
            remedy="use them within fewer loops, or STORE them in a kernel of their own",
        )
    memory = UOp.alloc(state.scratch, size, node.dtype, space)
    state.scratch += 1
    place = memory.after(*scope.loops) if scope.loops else memory
    own = [scope.at[a] for a in scope.axes]
    fill = place.index(simplify(flatten(shape, own))).store(state.value(node.src[0], scope.at, None))
    loops = [r for r in own if r.op is Ops.RANGE]
    return place.after(fill.end(*loops) if loops else fill)
