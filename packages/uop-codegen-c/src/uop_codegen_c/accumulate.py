"""Accumulate: a REDUCE becomes a register that starts from the identity and is folded into, in a loop. Week 3.

Values of an unrolled range are folded one after another in each iteration of that loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from uop_ir import REDUCE_IDENTITY, AddrSpace, AxisType, Ops, UOp, index

from .loops import in_order, length, open_ranges


def accumulate(root: UOp, contract: bool) -> UOp:
    """The program without REDUCE. Reductions that close the same ranges share one loop.

    `contract`: a product that feeds a sum of floats becomes MULACC, which rounds once.
    """
    new: dict[UOp, UOp] = {}
    groups: dict[Any, list[UOp]] = {}
    # all that stands on n reductions comes after all that stands on fewer, so that a group's sources are ready
    order = sorted(root.toposort(), key=lambda n: (_depth(n), n.op is not Ops.REDUCE))
    for node in order:
        if node.op is Ops.REDUCE:
            groups.setdefault(_loop_key(node), []).append(node)
    slots = {node: slot for slot, node in enumerate(n for n in root.toposort() if n.op is Ops.REDUCE)}
    slot_base = 1 + max((int(n.arg.slot) for n in order if n.op is Ops.ALLOC), default=-1)
    for node in order:
        if node in new:
            continue
        if node.op is Ops.REDUCE:
            _close_group(groups[_loop_key(node)], new, slots, slot_base, contract)
            continue
        src = tuple(new[s] for s in node.src)
        new[node] = node if src == node.src else node.replace(src=src)
    return new[root]


def _loop_key(node: UOp) -> tuple[tuple[UOp, ...], frozenset[UOp], int]:
    """Reductions with the same key run in one loop: same ranges, same place, same depth of reductions below."""
    return node.src[1:], open_ranges(node), _depth(node)


def _depth(node: UOp) -> int:
    """How many reductions stand one on the other. Asked of sources first, so that it goes no deeper than one node."""
    depth: int | None = node.memo.get("reductions")
    if depth is None:
        depth = max(map(_depth, node.src), default=0) + (node.op is Ops.REDUCE)
        node.memo["reductions"] = depth
    return depth


def _close_group(
    group: list[UOp], new: dict[UOp, UOp], slots: dict[UOp, int], slot_base: int, contract: bool
) -> None:
    ranges = tuple(new[r] for r in group[0].src[1:] if r.arg[1] is not AxisType.UNROLL)
    unrolled = [new[r] for r in group[0].src[1:] if r.arg[1] is AxisType.UNROLL]
    outer = in_order(open_ranges(group[0]))
    memories: list[UOp] = []
    steps: list[UOp] = []
    for node in group:
        value = new[node.src[0]]
        lanes = length(value)
        memory = UOp.alloc(slot_base + slots[node], lanes, node.dtype, AddrSpace.REG)
        start = node.const_like(REDUCE_IDENTITY[node.arg[0]](node.dtype))
        begin = _at(memory.after(*outer), lanes).store(start)
        now = _at(memory.after(begin, *ranges), lanes).load()
        for one in _unrolled(value, unrolled):
            now = _step(node.arg[0], now, one, contract)
        steps.append(_at(memory.after(begin), lanes).store(now))
        memories.append(memory)
    loop = (steps[0] if len(steps) == 1 else UOp.sink(*steps)).end(*ranges)
    for node, memory, step in zip(group, memories, steps, strict=True):
        new[node] = _at(memory.after(loop if ranges else step), memory.arg.size).load()


def _unrolled(value: UOp, ranges: Sequence[UOp]) -> Iterator[UOp]:
    """A value at all values of some ranges, the last of which changes first."""
    for at in product(*(range(int(r.src[0].value)) for r in ranges)):
        yield value.substitute({r: index(i) for r, i in zip(ranges, at, strict=True)})


def _at(memory: UOp, lanes: int) -> UOp:
    return memory.index(index(0) if lanes == 1 else UOp(Ops.STACK, [index(i) for i in range(lanes)]))


def _step(op: Ops, now: UOp, value: UOp, contract: bool) -> UOp:
    if contract and op is Ops.ADD and value.op is Ops.MUL and value.dtype.is_float:
        return UOp(Ops.MULACC, (*value.src, now))
    return now.alu(op, value)
