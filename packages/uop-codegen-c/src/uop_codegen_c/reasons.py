"""Reasons: what each action of a schedule is for, in words, by the program that it acts on. Week 6."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any

from uop_ir import AxisType, Ops, UOp

from .actions import Reorder, Retype, Split
from .freedoms import Freedoms
from .loops import open_ranges
from .machine import Machine
from .nests import work
from .optimize import THREAD_WORK
from .schedule import Schedule, apply_schedule
from .schedule_legal import closers, extent, find_range
from .schedule_memory import Hold, Pad, Stage


def reasons(root: UOp, schedule: Schedule, free: Freedoms, machine: Machine) -> Iterator[str]:
    """A line an action of a schedule: what it is for. Raises ScheduleError where one is not legal."""
    for action in schedule:
        yield f"{action}: {REASONS[type(action)](root, action, machine)}"
        root = apply_schedule(root, [action], free)


def _axis(root: UOp, action: Split | Retype, machine: Machine) -> str:
    """Of an axis that is split or retyped."""
    r = find_range(root, action.number)
    size = action.factor if isinstance(action, Split) else extent(r)
    reduced = any(n.op is Ops.REDUCE for n in closers(root, r))
    if action.axis is AxisType.THREAD:
        count = sum(work(n) for n in root.toposort() if n.op is Ops.END and r in n.src[1:])
        return f"{machine.threads} threads share {count:,} operations; their start is worth {THREAD_WORK:,}"
    rows = action.axis is AxisType.UPCAST and not reduced and _accumulates(root, r)
    text = TILE if rows else AXES[action.axis, reduced]
    text = text.format(size=size, registers=machine.registers)
    rest = extent(r) % size
    return f"{text}; {rest} of {extent(r)} are left for loops of their own" if rest else text


def _accumulates(root: UOp, r: UOp) -> bool:
    """Whether a reduction has a value for each of a range."""
    return any(r in open_ranges(n) for n in root.toposort() if n.op is Ops.REDUCE)


TILE = "{size} accumulators of the tile in {registers} vector registers: what is loaded serves several"
#: By the axis, and whether it is of a reduction: all that are legal, but for THREAD.
AXES = {
    (AxisType.VECTOR, False): "vectors of {size} elements, which lie side by side in memory",
    (AxisType.VECTOR, True): "{size} lanes, whose elements lie side by side, are added up at the end",
    (AxisType.UPCAST, False): "{size} values at a time, none of which waits for another",
    (AxisType.UPCAST, True): "{size} accumulators, so that no addition waits for the one before",
    (AxisType.UNROLL, False): "{size} steps without a branch",
    (AxisType.UNROLL, True): "{size} steps without a branch, in their order",
    (AxisType.LOOP, False): "pieces of {size}, which the caches hold",
    (AxisType.REDUCE, True): "pieces of {size}, which the caches hold",
    (AxisType.GLOBAL, False): "{size} blocks of a GPU",
    (AxisType.LOCAL, False): "{size} threads of a block of a GPU",
    (AxisType.WARP, False): "{size} lanes of a warp of a GPU",
    (AxisType.WARP, True): "{size} lanes of a warp of a GPU, which add up by shuffles",
    (AxisType.GROUP, True): "{size} warps of a GPU, which add up through shared memory",
}


def _stage(root: UOp, action: Stage, machine: Machine) -> str:
    ranges = [find_range(root, n) for n in action.numbers]
    loads = [n for n in root.toposort() if n.op is Ops.LOAD and n.src[0].src[0].op is Ops.PARAM]
    itemsize = next(n.dtype.itemsize for n in loads if n.src[0].src[0].arg.slot == action.slot)
    nbytes = prod(map(extent, ranges)) * itemsize
    return f"{nbytes:,} bytes of argument {action.slot} are copied in the order of their use, and used again"


def _hold(root: UOp, action: Hold, machine: Machine) -> str:
    count = prod(extent(find_range(root, n)) for n in action.numbers)
    return f"{count} values go to memory, from which what is made of them takes one vector after the other"


def _reorder(root: UOp, action: Reorder, machine: Machine) -> str:
    return "what is inside finds the caches as what is outside has filled them"


def _pad(root: UOp, action: Pad, machine: Machine) -> str:
    return "so that a split leaves no rest"


REASONS: dict[type[Any], Callable[[UOp, Any, Machine], str]] = {
    Split: _axis,
    Retype: _axis,
    Stage: _stage,
    Hold: _hold,
    Reorder: _reorder,
    Pad: _pad,
}
