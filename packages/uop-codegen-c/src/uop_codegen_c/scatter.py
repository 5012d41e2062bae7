"""Scatter: a fold for each value of what a number in memory
says becomes one walk that folds where it says. Week 4.

What a gradient of picked rows, a histogram or a sum of segments is when it is made of a one-hot mask and a
REDUCE (or a product or maximum, with the identity in place of 0):

    out[v] = sum over n of where(at[n] == v, g[n], 0)             as many additions as values times elements
    out[v] = 0 for all v; for n: out[at[n]] = out[at[n]] + g[n]   one for each element, in the same order

The loop over n is serial, so that the bits are the same and no two additions meet.
What names no element is left out.
"""

from __future__ import annotations

from typing import NamedTuple

from uop_ir import REDUCE_IDENTITY, AxisType, Ops, UOp, dtypes, index
from uop_rewrite import Linear, bounds, build, clauses, graph_rewrite, linear, symbolic

from .loops import next_number, open_ranges

#: For fewer values than this, to compare is no dearer than to load and store again.
FEW = 4


class OneHot(NamedTuple):
    """A REDUCE that folds what is chosen where `at == v`, and what other conditions say."""

    v: UOp
    at: UOp
    others: list[UOp]
    chosen: UOp


def scatter(root: UOp) -> UOp:
    """The program with each fold that is stored,
    and is for an index that memory names, folded where it belongs.
    """
    ends = [_scattered(root, end) or end if end.op is Ops.END else end for end in root.src]
    return root if tuple(ends) == root.src else UOp.sink(*ends)


def _scattered(root: UOp, end: UOp) -> UOp | None:
    """A loop nest of one such store as two: the identity, and behind them the walk over the elements."""
    store = end.src[0]
    if store.op is not Ops.STORE or store.src[0].src[0].op is not Ops.PARAM:
        return None
    place, total = store.src
    found = _one_hot(total, end.src[1:]) if total.op is Ops.REDUCE and total.arg[1] == 0 else None
    memory = place.src[0]
    reads = (n for n in root.toposort() if n.op is Ops.LOAD)
    if found is None or any(n.src[0].src[0] is memory for n in reads):
        return None
    first = next_number(root)
    kept = [r for r in end.src[1:] if r is not found.v]
    own = {r: r.replace(arg=(first + k, r.arg[1])) for k, r in enumerate([*kept, *total.src[1:]])}
    walk = [own[r] for r in total.src[1:]]
    at = found.at.substitute(own)
    identity = total.const_like(REDUCE_IDENTITY[total.arg[0]](total.dtype))
    valid = (at < found.v.src[0]) & (index(-1) < at)
    chosen = found.chosen.substitute({**own, found.v: at})
    for other in found.others:
        if open_ranges(other).isdisjoint(kept):
            valid = valid & other.substitute(own)
        else:  # lanes of a store have one validity together: where this does not hold, the identity is folded in
            chosen = other.substitute(own).where(chosen, identity)
    start = place.store(identity).end(*end.src[1:])
    element = place.src[1].substitute({**own, found.v: at})
    before = memory.after(start, *walk).index(element, valid).load()
    added = memory.after(start).index(element, valid).store(before.alu(total.arg[0], chosen))
    split = end.src.index(found.v)
    loops = [own[r] for r in end.src[1:split]], walk, [own[r] for r in end.src[split + 1 :]]
    return graph_rewrite(added, symbolic).end(*(r for part in loops for r in part))


def _one_hot(total: UOp, ranges: tuple[UOp, ...]) -> OneHot | None:
    """What a REDUCE folds for one of some ranges; None where it is no fold over a one-hot mask."""
    value, op = total.src[0], total.arg[0]
    if value.op is Ops.CAST and value.src[0].dtype is dtypes.bool:
        value = value.src[0].where(value.const_like(1), 0)
    identity = total.const_like(REDUCE_IDENTITY[op](total.dtype))
    if value.op is not Ops.WHERE or value.src[2] is not identity or total.shape != ():
        return None
    conditions = clauses(value.src[0])
    for which in conditions:
        others = [c for c in conditions if c is not which]
        for v in ranges:
            at = _named(which, v) if v.arg[1] is AxisType.LOOP and bounds(v)[1] + 1 >= FEW else None
            free = at is not None and not any(v in n.toposort() for n in (at, value.src[1], *others))
            if at is not None and free and not open_ranges(at).isdisjoint(total.src[1:]):
                return OneHot(v, at, others, value.src[1])
    return None


def _named(condition: UOp, v: UOp) -> UOp | None:
    """The index that a condition says a range is equal to; None where it says something else."""
    if condition.op is not Ops.CMPEQ:
        return None
    if condition.src[0].dtype is dtypes.index:
        sum_ = linear(condition.src[0]).plus(linear(condition.src[1]), -1)  # k * v + z == 0
        k = dict(sum_.terms).get(v, 0)
        return build(Linear((), 0).plus(sum_.add(v, -k), -k)) if k in (1, -1) else None
    for side, other in (condition.src, condition.src[::-1]):
        holds = side.op is Ops.CAST and side.src[0] is v and bounds(v)[1] <= side.dtype.max
        if holds and side.dtype.is_int and side.dtype is not dtypes.u64:
            return other.cast(dtypes.index)
    return None
