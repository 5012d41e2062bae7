"""Accumulate: a REDUCE becomes a register that starts
from the identity and is folded into, in a loop. Week 3.

Values of an unrolled range are folded one after another in each iteration of that loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

from uop_ir import REDUCE_IDENTITY, AddrSpace, AxisType, Ops, UOp, index

from .loops import in_order, length, next_slot, open_ranges


def accumulate(root: UOp, contract: bool, settle: Callable[[UOp], UOp]) -> UOp:
    """The program without REDUCE. Reductions that close the same ranges share one loop.

    `contract`: a product that feeds a sum of floats becomes MULACC, which rounds once. `settle` does with a
    value of an unrolled range what has been done with the program before.
    """
    new: dict[UOp, UOp] = {}
    groups: dict[Any, list[UOp]] = {}
    order = list(root.toposort())
    depths = _depths(order)
    reductions = [n for n in order if n.op is Ops.REDUCE]
    # those with the same key run in one loop: same ranges, same place, same depth of reductions below
    keys = {n: (n.src[1:], open_ranges(n), depths[n]) for n in reductions}
    for node in reductions:
        groups.setdefault(keys[node], []).append(node)
    slots = {node: slot for slot, node in enumerate(reductions)}
    slot_base = next_slot(root)
    # all that stands on n reductions comes after all that stands on fewer,
    # so that a group's sources are ready
    order.sort(key=lambda n: (depths[n], n not in keys))
    for node in order:
        if node in new:
            continue
        if node in keys:
            _close_group(groups[keys[node]], new, slots, slot_base, contract, settle)
            continue
        src = tuple([new[s] for s in node.src])
        new[node] = node if src == node.src else node.replace(src=src)
    return new[root]


def _depths(order: list[UOp]) -> dict[UOp, int]:
    """How many reductions stand one on the other, of nodes that come after their sources."""
    depths: dict[UOp, int] = {}
    for node in order:
        below = max([depths[s] for s in node.src], default=0)
        depths[node] = below + 1 if node.op is Ops.REDUCE else below
    return depths


def _close_group(
    group: list[UOp],
    new: dict[UOp, UOp],
    slots: dict[UOp, int],
    slot_base: int,
    contract: bool,
    settle: Callable[[UOp], UOp],
) -> None:
    ranges = tuple(new[r] for r in group[0].src[1:] if r.arg[1] is not AxisType.UNROLL)
    unrolled = [new[r] for r in group[0].src[1:] if r.arg[1] is AxisType.UNROLL]
    outer = in_order(open_ranges(group[0]))
    memories: list[UOp] = []
    steps: list[UOp] = []
    values = [new[node.src[0]] for node in group]
    every = {lanes: _all(lanes) for lanes in set(map(length, values))}
    for node, value in zip(group, values, strict=True):
        lanes = length(value)
        memory = UOp.alloc(slot_base + slots[node], lanes, node.dtype, AddrSpace.REG)
        start = node.const_like(REDUCE_IDENTITY[node.arg[0]](node.dtype))
        at = every[lanes]
        begin = memory.after(*outer).index(at).store(start)
        now = memory.after(begin, *ranges).index(at).load()
        for one in map(settle, _unrolled(value, unrolled)) if unrolled else (value,):
            now = _step(node.arg[0], now, one, contract)
        steps.append(memory.after(begin).index(at).store(now))
        memories.append(memory)
    loop = (steps[0] if len(steps) == 1 else UOp.sink(*steps)).end(*ranges)
    for node, memory, step in zip(group, memories, steps, strict=True):
        new[node] = memory.after(loop if ranges else step).index(every[memory.arg.size]).load()


def _unrolled(value: UOp, ranges: Sequence[UOp]) -> Iterator[UOp]:
    """A value at all values of some ranges, the last of which changes first."""
    for at in product(*(range(int(r.src[0].value)) for r in ranges)):
        yield value.substitute({r: index(i) for r, i in zip(ranges, at, strict=True)})


def _all(lanes: int) -> UOp:
    """The position of an accumulator of so many lanes."""
    return index(0) if lanes == 1 else UOp(Ops.STACK, [index(i) for i in range(lanes)])


def _step(op: Ops, now: UOp, value: UOp, contract: bool) -> UOp:
    if contract and op is Ops.ADD and value.op is Ops.MUL and value.dtype.is_float:
        return UOp(Ops.MULACC, (*value.src, now))
    return now.alu(op, value)
