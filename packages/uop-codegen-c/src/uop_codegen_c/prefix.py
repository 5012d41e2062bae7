"""Prefix: a fold of all elements up to one that moves
on with a loop is carried along from iteration to iteration.

Week 4. What a cumulative sum is when it is made of a mask, or of windows over a padded axis, and a REDUCE:

    out[i] = sum over j of where(j < i + c, x[j], 0)        n * n additions
    s = 0; for i: s = s + x[i + c - 1]; out[i] = s          n additions in the same order: the same bits

What the mask leaves out adds the identity: +0.0 to a sum that starts from +0.0 and so never is -0.0.
"""

from __future__ import annotations

from typing import NamedTuple

from uop_ir import REDUCE_IDENTITY, AddrSpace, AxisType, Ops, UOp, dtypes, index
from uop_rewrite import build, clauses, graph_rewrite, linear, symbolic

from .loops import in_order, next_number, next_slot, open_ranges


class Fold(NamedTuple):
    """`value` of each j of a range with low <= j < i + c,
    where nothing else depends on i; i and j are ranges.
    """

    value: UOp
    j: UOp
    low: int
    c: int


def carry_prefixes(root: UOp, reassociate: bool) -> UOp:
    """The program with each fold of a prefix carried along by the loop of the store that it is for.

    `reassociate`: floats may be folded from the end,
    which makes a prefix of what comes at or behind an index.
    """
    new: dict[UOp, UOp] = {}
    number = next_number(root)
    slot = next_slot(root)
    for node in root.toposort():
        src = tuple(new[s] for s in node.src)
        now = node if src == node.src else node.replace(src=src)
        plan = _plan(now, reassociate) if now.op is Ops.END else None
        if plan is not None:
            now = _with_carry(*plan, number, slot)
            number, slot = number + 1, slot + len(plan[2])
        new[node] = now
    return new[root]


def _plan(end: UOp, reassociate: bool) -> tuple[UOp, UOp, dict[UOp, Fold]] | None:
    """A loop nest, the range of it that carries, and what it carries."""
    reductions = [n for n in end.toposort() if n.op is Ops.REDUCE and len(n.src) == 2]
    if not any(_parts(n, n.src[0])[0] for n in reductions):
        return None
    for i in reversed(end.src[1:]):
        for way in (end, _backwards(end, i)) if i.arg[1] is AxisType.LOOP else ():
            found = {
                n: _prefix(n, i, reassociate)
                for n in way.toposort()
                if n.op is Ops.REDUCE and i in open_ranges(n) and open_ranges(n) <= set(end.src[1:])
            }
            folds = {n: fold for n, fold in found.items() if fold is not None}
            if folds:
                return way, i, folds
    return None


def _backwards(end: UOp, i: UOp) -> UOp:
    """A loop nest whose stores come in the opposite order along a range."""
    body = end.src[0].substitute({i: i.src[0] - 1 - i})
    return graph_rewrite(body, symbolic).end(*end.src[1:])


def _with_carry(end: UOp, i: UOp, folds: dict[UOp, Fold], number: int, slot: int) -> UOp:
    """Ranges that a fold depends on come outside of the one that carries it."""
    own = i.replace(arg=(number, AxisType.REDUCE))
    outer: set[UOp] = set()
    new: dict[UOp, UOp] = {i: own}
    for node in end.src[0].toposort():
        if node in new:
            continue
        if node in folds:
            around = open_ranges(node) - {i}
            outer |= around
            new[node] = _carry(node, folds[node], own, in_order(around), slot)
            slot += 1
        else:
            new[node] = node.replace(src=[new[s] for s in node.src])
    inner = [r for r in end.src[1:] if r not in outer and r is not i]
    return new[end.src[0]].end(*(r for r in end.src[1:] if r in outer), own, *inner)


def _carry(node: UOp, fold: Fold, i: UOp, outer: tuple[UOp, ...], slot: int) -> UOp:
    """The value of a fold within the loop of i,
    which starts from the identity and takes in one element a time.
    """
    op = node.arg[0]
    start = node.const_like(REDUCE_IDENTITY[op](node.dtype))
    at = i + (fold.c - 1)
    inside = graph_rewrite((at < fold.j.src[0]) & (index(fold.low - 1) < at), symbolic)
    element = _element(fold.value, fold.j, at, inside)
    if inside.op is not Ops.CONST:
        element = inside.where(element, start)
    memory = UOp.alloc(slot, 1, node.dtype, AddrSpace.REG)
    begin = memory.after(*outer).index(index(0)).store(start)
    before = memory.after(begin, i).index(index(0)).load()
    step = memory.after(begin).index(index(0)).store(before.alu(op, graph_rewrite(element, symbolic)))
    return memory.after(step).index(index(0)).load()


def _element(value: UOp, j: UOp, at: UOp, inside: UOp) -> UOp:
    """A value with j replaced; what j named in memory is read
    only where the new index is inside of its range.
    """
    new: dict[UOp, UOp] = {j: at}
    for node in value.toposort():
        if node not in new:
            src = tuple(new[s] for s in node.src)
            if node.op is Ops.INDEX and src != node.src and inside.op is not Ops.CONST:
                src = (*src[:2], inside if len(src) == 2 else src[2] & inside)
            new[node] = node if src == node.src else node.replace(src=src)
    return new[value]


# which REDUCEs fold a prefix


def _prefix(node: UOp, i: UOp, reassociate: bool) -> Fold | None:
    """How a REDUCE over one range folds a prefix that grows with i,
    by at most one element an iteration; else None.
    """
    if len(node.src) != 2 or node.shape != ():
        return None
    j = node.src[1]
    fold = _masked(node, node.src[0], j, i) or _windowed(node, j, i)
    if fold is None and (reassociate or not node.dtype.is_float):
        value = graph_rewrite(node.src[0].substitute({j: j.src[0] - 1 - j}), symbolic)
        fold = _masked(node, value, j, i)
    return fold


def _masked(node: UOp, value: UOp, j: UOp, i: UOp) -> Fold | None:
    """Of a value that a mask makes the identity from j == i + c on."""
    conditions, chosen = _parts(node, value)
    lower, upper = [0], None
    for clause in conditions:
        if i not in clause.toposort():
            limit = _limit(clause, j)
            lower += [int(limit[1].value)] if limit and limit[0] and limit[1].op is Ops.CONST else []
            continue
        limit = _limit(clause, j)
        c = None if limit is None or limit[0] else _constant(limit[1] - i)
        if c is None:
            return None
        upper = c if upper is None else min(c, upper)
    if upper is None or upper - max(lower) > 1 or i in chosen.toposort():
        return None
    return Fold(
        _without(value, chosen, [c for c in conditions if i not in c.toposort()]), j, max(lower), upper
    )


def _windowed(node: UOp, j: UOp, i: UOp) -> Fold | None:
    """Of a value that depends on i + j alone, and is the identity before the last window's first element."""
    if i.src[0].op is not Ops.CONST or j.src[0].op is not Ops.CONST:
        return None
    width, windows = int(j.src[0].value), int(i.src[0].value)
    u = UOp.range(width + windows - 1, int(j.arg[0]), AxisType.REDUCE)
    value = graph_rewrite(node.src[0].substitute({j: u - i}), symbolic)
    conditions, _ = _parts(node, value)
    starts = [limit[1] for c in conditions if (limit := _limit(c, u)) is not None and limit[0]]
    low = max((int(s.value) for s in starts if s.op is Ops.CONST), default=0)
    if i in value.toposort() or low < windows - 1 or width - low > 1:
        return None
    return Fold(value, u, low, width)


def _parts(node: UOp, value: UOp) -> tuple[list[UOp], UOp]:
    """The conditions under which a value that is folded is not the identity, and what it is there."""
    op = node.arg[0]
    identity = REDUCE_IDENTITY[op](node.dtype)
    if value.op is Ops.WHERE and value.src[2].op is Ops.CONST and value.src[2] is value.const_like(identity):
        return clauses(value.src[0]), value.src[1]
    if value.op is Ops.LOAD and op is Ops.ADD and len(value.src[0].src) == 3:
        place = value.src[0]
        return clauses(place.src[2]), place.src[0].index(place.src[1]).load()
    return [], value


def _without(value: UOp, chosen: UOp, conditions: list[UOp]) -> UOp:
    """A masked value under some of its conditions only."""
    if not conditions:
        return chosen
    both = conditions[0]
    for c in conditions[1:]:
        both = both & c
    if value.op is Ops.LOAD:
        place = value.src[0]
        return place.src[0].index(place.src[1], both).load()
    return both.where(chosen, value.src[2])


def _limit(clause: UOp, j: UOp) -> tuple[bool, UOp] | None:
    """(true, a) where a comparison says a <= j, (false, b) where it says j < b; None where it says more."""
    if clause.op is not Ops.CMPLT or clause.src[0].dtype is not dtypes.index:
        return None
    sum_ = linear(clause.src[0]).plus(linear(clause.src[1]), -1)  # k * j + z < 0
    k = dict(sum_.terms).get(j, 0)
    z = build(sum_.add(j, -k))
    if k not in (1, -1) or j in z.toposort():
        return None
    return (True, build(linear(z + 1))) if k < 0 else (False, build(linear(-z)))


def _constant(node: UOp) -> int | None:
    sum_ = linear(node)
    return None if sum_.terms else sum_.constant
