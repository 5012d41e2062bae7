"""Expand: upcast and vector axes leave the loops and become registers. Week 3.

An upcast range becomes copies, one a value, and so does an unrolled one of a store; a vector range becomes
the constant vector (0, 1, ..., n-1), and what depends on it a vector by broadcasting. A reduction over such a
range keeps one accumulator a copy or lane and folds them behind its loop. Over an unrolled range it keeps one
accumulator, and is left to the pass accumulate.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from uop_ir import AxisType, Ops, UOp, index

from .loops import AFTER, ALLOC, CLOSING, next_slot

#: The axes that END and REDUCE lose here.
EXPANDED = {
    Ops.END: frozenset({AxisType.UPCAST, AxisType.VECTOR, AxisType.UNROLL}),
    Ops.REDUCE: frozenset({AxisType.UPCAST, AxisType.VECTOR}),
}


def expand(root: UOp) -> UOp:
    """The program without upcast and vector ranges. A range that is not of constant size stays a loop."""
    new: dict[UOp, UOp] = {}
    slots = count(next_slot(root))
    for node in root.toposort():
        src = tuple([new[s] for s in node.src])
        if node.op is Ops.AFTER or node.op is Ops.SINK:  # a loop may have become several effects
            src = tuple(e for s in src for e in (s.src if s.op is Ops.SINK else (s,)))
        now = node if src == node.src else node.replace(src=src)
        new[node] = _close(now, slots) if now.op in CLOSING else now
    return new[root]


def _size(r: UOp) -> int:
    return int(r.src[0].value)


def _close(node: UOp, slots: Iterator[int]) -> UOp:
    """END or REDUCE with its expanded ranges resolved, innermost first."""
    body, ranges = node.src[0], node.src[1:]
    expanded = [r for r in ranges if r.arg[1] in EXPANDED[node.op]]
    kept = tuple(r for r in ranges if r not in expanded)
    if not expanded:
        return node
    bodies = [body]
    lanes = 1
    for r in reversed(expanded):
        if r.arg[1] is AxisType.VECTOR:
            lanes = _size(r)
            bodies = [b.substitute({r: UOp(Ops.STACK, [index(i) for i in range(lanes)])}) for b in bodies]
        else:
            found = [_inside(b, r) for b in bodies]
            bodies = [
                _copy(b, r, i, *f, slots) for i in range(_size(r)) for b, f in zip(bodies, found, strict=True)
            ]
    if node.op is Ops.END:
        return _together([b.end(*kept) for b in bodies])
    return _fold(node.arg[0], [_reduce(b, node, kept) for b in bodies], lanes)


def _inside(body: UOp, r: UOp) -> tuple[list[UOp], list[UOp]]:
    """What stands on a range, in order, and the scratch memory that stands in it."""
    order = body.toposort()
    scratch = {n.src[0] for n in order if n.op is AFTER and n.src[0].op is ALLOC and r in n.src[1:]}
    above = {r, *scratch}
    out = []
    for node in order:
        if not above.isdisjoint(node.src):
            above.add(node)
            out.append(node)
    return out, [n for n in order if n in scratch]


def _copy(body: UOp, r: UOp, value: int, inside: list[UOp], scratch: list[UOp], slots: Iterator[int]) -> UOp:
    """The body at one value of an upcast range, from the second on with scratch memory of its own."""
    new: dict[UOp, UOp] = {r: index(value)}
    for memory in scratch if value else ():
        arg = memory.arg
        new[memory] = UOp.alloc(next(slots), arg.size, arg.dtype, arg.addrspace)
    for node in inside:
        new[node] = node.replace(src=[new.get(s, s) for s in node.src])
    return new.get(body, body)


def _together(effects: list[UOp]) -> UOp:
    """Effects as one; loops over the same ranges become one loop."""
    groups: dict[tuple[UOp, ...], list[UOp]] = {}
    for effect in effects:
        for e in effect.src if effect.op is Ops.SINK else (effect,):
            groups.setdefault(e.src[1:] if e.op is Ops.END else (), []).append(e)
    out = [
        e
        for ranges, members in groups.items()
        for e in (members if not ranges else [_merged(members, ranges)])
    ]
    return out[0] if len(out) == 1 else UOp.sink(*out)


def _merged(ends: list[UOp], ranges: tuple[UOp, ...]) -> UOp:
    return ends[0] if len(ends) == 1 else _together([e.src[0] for e in ends]).end(*ranges)


def _reduce(body: UOp, node: UOp, kept: tuple[UOp, ...]) -> UOp:
    return body.reduce(node.arg[0], 0, kept) if kept else body


def _fold(op: Ops, parts: list[UOp], lanes: int) -> UOp:
    """All accumulators and all their lanes as one value, by halves."""
    while len(parts) > 1:
        parts = [
            parts[i].alu(op, parts[i + 1]) if i + 1 < len(parts) else parts[i]
            for i in range(0, len(parts), 2)
        ]
    if lanes == 1:
        return parts[0]
    if (
        parts[0].shape == ()
    ):  # what does not depend on the vector's range is folded once for each of its values
        return _fold(op, [parts[0]] * lanes, 1)
    return _fold(op, [parts[0].index(index(i)) for i in range(lanes)], 1)
