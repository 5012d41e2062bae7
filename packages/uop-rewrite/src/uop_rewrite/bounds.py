"""Bounds: the interval in which the value of an integer node lies, whatever its inputs. Week 1."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import TypeAlias

from uop_ir import Kind, Ops, UOp, VerifyError

#: Both ends are included.
Interval: TypeAlias = tuple[int, int]


def bounds(node: UOp) -> Interval:
    """The least and the greatest value that a node of integer, index or bool dtype can have. Kept in its memo.

    Raises VerifyError for a node of another dtype.
    """
    if node.dtype.kind in (Kind.FLOAT, Kind.VOID):
        raise VerifyError(
            f"{node.op!r}: no bounds of {node.dtype}", remedy="an integer, index or bool has them"
        )
    if "bounds" not in node.memo:
        for n in node.toposort(gate=lambda n: "bounds" not in n.memo):
            if "bounds" not in n.memo:
                n.memo["bounds"] = _interval(n)
    interval: Interval = node.memo["bounds"]
    return interval


def whole(node: UOp) -> Interval:
    """All values of the node's dtype."""
    return int(node.dtype.min), int(node.dtype.max)


def _interval(node: UOp) -> Interval:
    if node.dtype.kind in (Kind.FLOAT, Kind.VOID):
        return 0, 0  # never looked at
    rule = INTERVALS.get(node.op)
    if rule is None:
        return whole(node)
    least, greatest = rule(node)
    lo, hi = whole(node)
    if node.dtype.kind is not Kind.INDEX and not lo <= least <= greatest <= hi:
        return lo, hi  # it may wrap
    return least, greatest


def _of(node: UOp, source: int) -> Interval:
    interval: Interval = node.src[source].memo["bounds"]
    return interval


def _corners(function: Callable[[int, int], int]) -> Callable[[UOp], Interval]:
    """For an operation that is monotone in each operand: the extremes stand at the corners."""

    def rule(node: UOp) -> Interval:
        values = [function(p, q) for p, q in product(_of(node, 0), _of(node, 1))]
        return min(values), max(values)

    return rule


def floor_div(p: int, q: int) -> int:
    """Floor division with p // 0 == 0."""
    return p // q if q else 0


def floor_mod(p: int, q: int) -> int:
    """The remainder of floor_div: p % 0 == p."""
    return p % q if q else p


def _div(node: UOp) -> Interval:
    (lo, hi), (least, greatest) = _of(node, 0), _of(node, 1)
    divisors = {d for d in (least, greatest, -1, 1, 0) if least <= d <= greatest}
    values = [floor_div(p, q) for p in (lo, hi) for q in divisors]
    return min(values), max(values)


def _mod(node: UOp) -> Interval:
    (lo, hi), (least, greatest) = _of(node, 0), _of(node, 1)
    if least == greatest and least > 0 and lo // least == hi // least:
        return lo % least, hi % least
    if least > 0:
        return (lo, hi) if lo >= 0 and hi < least else (0, greatest - 1 if lo < 0 else min(hi, greatest - 1))
    if greatest < 0:
        return least + 1, 0
    return min(lo, least + 1, 0), max(hi, greatest - 1, 0)


def _add(node: UOp) -> Interval:
    (a, b), (c, d) = _of(node, 0), _of(node, 1)
    return a + c, b + d


def _sub(node: UOp) -> Interval:
    (a, b), (c, d) = _of(node, 0), _of(node, 1)
    return a - d, b - c


def _union(node: UOp) -> Interval:
    (a, b), (c, d) = _of(node, 1), _of(node, 2)
    return min(a, c), max(b, d)


def _less(node: UOp) -> Interval:
    if node.src[0] is node.src[1]:
        return 0, 0
    if node.src[0].dtype.kind is Kind.FLOAT:
        return 0, 1
    (a, b), (c, d) = _of(node, 0), _of(node, 1)
    return int(b < c), int(a < d)


def _equal(node: UOp) -> Interval:
    if node.src[0].dtype.kind is Kind.FLOAT:
        return 0, 1
    if node.src[0] is node.src[1]:
        return 1, 1
    (a, b), (c, d) = _of(node, 0), _of(node, 1)
    return int(a == b == c == d), int(a <= d and c <= b)


def _not_equal(node: UOp) -> Interval:
    lo, hi = _equal(node)
    return 1 - hi, 1 - lo


def _cast(node: UOp) -> Interval:
    source = node.src[0].dtype.kind
    if source is Kind.FLOAT:
        return whole(node)
    lo, hi = _of(node, 0)
    if node.dtype.kind is Kind.BOOL:
        return int(lo > 0 or hi < 0), int((lo, hi) != (0, 0))
    return lo, hi


def _and(node: UOp) -> Interval:
    (a, b), (c, d) = _of(node, 0), _of(node, 1)
    if a < 0 and c < 0:
        return whole(node)
    return (min(a, c) if node.dtype.kind is Kind.BOOL else 0), min(d if a < 0 else b, b if c < 0 else d)


def _or(node: UOp) -> Interval:
    (a, b), (c, d) = _of(node, 0), _of(node, 1)
    if a < 0 or c < 0:
        return whole(node)
    return max(a, c), (1 << max(b.bit_length(), d.bit_length())) - 1


def _range(node: UOp) -> Interval:
    return 0, max(_of(node, 0)[1] - 1, 0)


def _param(node: UOp) -> Interval:
    return (node.arg.min, node.arg.max) if node.dtype.kind is Kind.INDEX else whole(node)


def _stack(node: UOp) -> Interval:
    spans = [_of(node, i) for i in range(len(node.src))]
    return min(s[0] for s in spans), max(s[1] for s in spans)


#: One row an op whose result can be narrower than its type.
INTERVALS: dict[Ops, Callable[[UOp], Interval]] = {
    Ops.CONST: lambda node: (int(node.value), int(node.value)),
    Ops.RANGE: _range,
    Ops.SPECIAL: _range,
    Ops.PARAM: _param,
    Ops.ADD: _add,
    Ops.SUB: _sub,
    Ops.NEG: lambda node: (-_of(node, 0)[1], -_of(node, 0)[0]),
    Ops.MUL: _corners(lambda p, q: p * q),
    Ops.MAX: _corners(max),
    Ops.DIV: _div,
    Ops.MOD: _mod,
    Ops.CMPLT: _less,
    Ops.CMPEQ: _equal,
    Ops.CMPNE: _not_equal,
    Ops.WHERE: _union,
    Ops.CAST: _cast,
    Ops.AND: _and,
    Ops.OR: _or,
    Ops.STACK: _stack,
}
