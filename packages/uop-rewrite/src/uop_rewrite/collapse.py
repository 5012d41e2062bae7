"""Reductions that need no loop: a sum over a range that picks one element,
or that adds one value again and again.

Week 1. Rules for REDUCE at loop level, whose sources after the first are the ranges that it closes.
"""

from __future__ import annotations

from collections.abc import Sequence

from uop_ir import Kind, Ops, UOp, dtypes, toposort

from .bounds import bounds
from .casts import fits
from .guards import clauses, combine
from .linear import Linear, compact, linear
from .pattern import Pattern
from .rules import INTEGERS, NUMBERS, VALUES, Rule, RuleSet


def _uses(nodes: Sequence[UOp], r: UOp) -> bool:
    return r in toposort(nodes)


def _bound(nodes: Sequence[UOp], ranges: set[UOp]) -> bool:
    """Whether one of the ranges is closed within: what is put there for another would mean something else."""
    return any(n.op in (Ops.REDUCE, Ops.END) and not ranges.isdisjoint(n.src[1:]) for n in toposort(nodes))


def _selects(condition: UOp, r: UOp) -> UOp | None:
    """The index i where a condition says `r == i` and i does not depend on r; else None."""
    if condition.op is not Ops.CMPEQ or condition.src[0].dtype.kind is Kind.FLOAT:
        return None
    x, y = condition.src
    if x.dtype.kind is Kind.INDEX:
        # k * r + z == 0 says r == -k * z, for k of 1 or -1
        sum_ = linear(x).plus(linear(y), -1)
        k = dict(sum_.terms).get(r, 0)
        other = compact(Linear((), 0).plus(sum_.add(r, -k), -k))
        return other if k in (1, -1) and not _uses([other], r) else None
    for side, other in ((x, y), (y, x)):
        exact = side.op is Ops.CAST and side.src[0] is r and fits(r, side.dtype)
        if exact and fits(other, dtypes.index) and not _uses([other], r):
            return other.cast(dtypes.index)
    return None


def _guarded(value: UOp, r: UOp, at: UOp, valid: UOp | None) -> UOp:
    """`value` with r replaced by `at`; each access that depended on r is valid only where `valid` is true."""
    new: dict[UOp, UOp] = {r: at}
    for node in value.toposort():
        if node in new:
            continue
        src = tuple(new[s] for s in node.src)
        if src == node.src:
            new[node] = node
            continue
        if node.op is Ops.INDEX and valid is not None and src[1] is not node.src[1]:
            src = (*src[:2], valid if len(src) == 2 else src[2] & valid)
        new[node] = node.replace(src=src)
    return new[value]


def _reads_under(value: UOp, guard: UOp) -> bool:
    """Whether a value is a LOAD that is 0 where `guard` is false."""
    return value.op is Ops.LOAD and value.src[0].src[2:] == (guard,)


def _pick(n: UOp) -> UOp | None:
    """sum over r of where(r == i and rest, v(r), 0) == where(0 <= i < end and rest(i), v(i), 0), i free of r.

    All other terms add +0.0 to a sum that starts from +0.0, so the bits are those of 0 + v(i). Floats are
    added in the order of the other ranges, so i must be free of those inside r.
    """
    value, ranges = n.src[0], n.src[1:]
    if n.arg != (Ops.ADD, 0) or value.op is not Ops.WHERE or value.shape != ():
        return None
    condition, picked, other = value.src
    if other.op is not Ops.CONST or other.arg != n.const_like(0).arg:
        return None
    conditions = clauses(condition)
    for place, r in enumerate(ranges):
        left, inner = tuple(q for q in ranges if q is not r), ranges[place + 1 :]
        for which in conditions:
            at = _selects(which, r)
            if at is None or _uses(left, r) or (n.dtype.is_float and any(_uses([at], q) for q in inner)):
                continue
            if _bound([*conditions, picked], {r, *(n for n in at.toposort() if n.op is Ops.RANGE)}):
                continue
            inside = [at < r.src[0], UOp.const(dtypes.index, -1) < at]
            valid = combine([c for c in inside if bounds(c) != (1, 1)])
            rest = [_guarded(c, r, at, valid) for c in conditions if c is not which]
            new = _guarded(picked, r, at, valid)
            guard = combine(rest + ([] if valid is None else [valid]))
            if guard is not None and not _reads_under(new, guard):
                new = guard.where(new, n.const_like(0))
            if left:
                return UOp(Ops.REDUCE, (new, *left), n.arg)
            return new + n.const_like(0) if n.dtype.is_float else new
    return None


def _repeat(n: UOp) -> UOp | None:
    """sum over r of v == v * end, where v does not depend on r: integers, which wrap alike on both sides."""
    value, ranges = n.src[0], n.src[1:]
    if n.arg != (Ops.ADD, 0):
        return None
    for r in ranges:
        left = tuple(q for q in ranges if q is not r)
        if not _uses([value, *left], r):
            total = value * r.src[0].maximum(0).cast(n.dtype)
            return UOp(Ops.REDUCE, (total, *left), n.arg) if left else total
    return None


def _count(n: UOp) -> UOp | None:
    """sum over r of where(a <= r < b and rest, v, 0) == where(rest, v * (min(b, end) - max(a, 0)), 0).

    For integers, v and rest free of r, and a count that is not less than 0.
    """
    value, ranges = n.src[0], n.src[1:]
    if n.arg != (Ops.ADD, 0) or value.op is not Ops.WHERE or value.shape != ():
        return None
    condition, chosen, other = value.src
    if other.op is not Ops.CONST or other.arg.bits != 0:
        return None
    for r in ranges:
        left = tuple(q for q in ranges if q is not r)
        if _uses([chosen, *left], r):
            continue
        lowers, uppers, rest = [UOp.const(dtypes.index, 0)], [r.src[0]], []
        for clause in clauses(condition):
            if not _uses([clause], r):
                rest.append(clause)
                continue
            limit = _limit(clause, r)
            if limit is None:
                break
            (lowers if limit[0] else uppers).append(limit[1])
        else:
            lower, negated_upper = lowers[0], -uppers[0]
            for bound in lowers[1:]:
                lower = lower.maximum(bound)
            for bound in uppers[1:]:
                negated_upper = negated_upper.maximum(-bound)
            total = chosen * (-negated_upper - lower).maximum(0).cast(n.dtype)
            guard = combine(rest)
            new = total if guard is None else guard.where(total, n.const_like(0))
            return UOp(Ops.REDUCE, (new, *left), n.arg) if left else new
    return None


def _limit(clause: UOp, r: UOp) -> tuple[bool, UOp] | None:
    """What a comparison says of r alone: (true, a) for a <= r,
    (false, b) for r < b; None where it says more.
    """
    if clause.op is not Ops.CMPLT or clause.src[0].dtype.kind is not Kind.INDEX:
        return None
    sum_ = linear(clause.src[0]).plus(linear(clause.src[1]), -1)  # k * r + z < 0
    k = dict(sum_.terms).get(r, 0)
    z = compact(sum_.add(r, -k))
    if k not in (1, -1) or _uses([z], r):
        return None
    return (True, z + 1) if k < 0 else (False, -z)


def _invariant(n: UOp) -> UOp | None:
    """sum of (v + w) == sum of v + w * iterations,
    and sum of v * w == w * sum of v, for w free of all ranges.
    """
    value, ranges = n.src[0], n.src[1:]
    if (
        n.arg != (Ops.ADD, 0)
        or value.shape != ()
        or not ranges
        or any(_uses([r.src[0]], q) for r in ranges for q in ranges)
    ):
        return None
    free = [(t, k) for t, k in linear(value).terms if not any(_uses([t], r) for r in ranges)]
    bound = Linear(tuple(t for t in linear(value).terms if t not in free), 0)
    fixed = Linear(tuple(free), linear(value).constant)
    if bound.terms and (fixed.terms or fixed.constant):
        times = UOp.const(n.dtype, 1)
        for r in ranges:
            times = times * r.src[0].maximum(0).cast(n.dtype)
        return UOp(Ops.REDUCE, (compact(bound, n.dtype), *ranges), n.arg) + compact(fixed, n.dtype) * times
    if value.op is Ops.MUL:
        for v, w in (value.src, value.src[::-1]):
            if not any(_uses([w], r) for r in ranges):
                return UOp(Ops.REDUCE, (v, *ranges), n.arg) * w
    return None


def _greatest(n: UOp) -> UOp | None:
    """max over r of v == v, where v does not depend on r, which has at least one value."""
    value, ranges = n.src[0], n.src[1:]
    if n.arg != (Ops.MAX, 0):
        return None
    for r in ranges:
        left = tuple(q for q in ranges if q is not r)
        if not _uses([value, *left], r) and bounds(r.src[0])[0] > 0:
            return UOp(Ops.REDUCE, (value, *left), n.arg) if left else value
    return None


collapse = RuleSet(
    [
        Rule("pick", Pattern(Ops.REDUCE, None, "n"), _pick, types=VALUES),
        Rule("count", Pattern(Ops.REDUCE, None, "n"), _count, types=INTEGERS),
        Rule("repeat", Pattern(Ops.REDUCE, None, "n"), _repeat, types=INTEGERS),
        Rule("invariant", Pattern(Ops.REDUCE, None, "n"), _invariant, types=INTEGERS),
        Rule("greatest", Pattern(Ops.REDUCE, None, "n"), _greatest, types=NUMBERS),
    ]
)
