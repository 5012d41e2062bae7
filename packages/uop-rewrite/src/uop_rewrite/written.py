"""Sums as they are written: their terms, what comparisons say of these,
and how far a sum goes where that holds. Week 1.

Nothing here asks for the bounds of a node, so that these can be found with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from uop_ir import Kind, Ops, UOp

#: The terms of a sum without its constant, each with its coefficient.
Terms: TypeAlias = "tuple[tuple[UOp, int], ...]"
#: Both ends are included; None where there is none.
Span: TypeAlias = "tuple[int | None, int | None]"

#: Longer sums are taken as they are written, or not looked at.
MOST_OPERATIONS = 64


class Fact(NamedTuple):
    """sum(terms) lies in the span."""

    terms: Terms
    span: Span


def summands(node: UOp) -> tuple[tuple[UOp, int], ...] | None:
    """What a node is a sum of, each with its coefficient; None where it is no sum and no multiple."""
    op, src = node.op, node.src
    if op is Ops.ADD:
        return (src[0], 1), (src[1], 1)
    if op is Ops.SUB:
        return (src[0], 1), (src[1], -1)
    if op is Ops.MUL:
        if src[1].op is Ops.CONST:
            return ((src[0], src[1].arg.bits),)
        if src[0].op is Ops.CONST:
            return ((src[1], src[0].arg.bits),)
        return None
    return ((src[0], -1),) if op is Ops.NEG else None


def is_sum(node: UOp) -> bool:
    """Whether a node is a sum, a difference or a multiple, which a linear form opens."""
    return summands(node) is not None


def operations(sum_: UOp) -> int:
    """How many sums, differences and multiples a node is made of,
    shared ones each time; not much over MOST_OPERATIONS.
    """
    found, stack = 0, [sum_]
    while stack and found <= MOST_OPERATIONS:
        parts = summands(stack.pop())
        if parts is not None:
            found += 1
            stack += [part for part, _ in parts]
    return found


def written(*parts: tuple[UOp, int]) -> tuple[dict[UOp, int], int] | None:
    """The terms and the constant of a sum of multiples,
    both over the mathematical integers; None of a long one.
    """
    terms: dict[UOp, int] = {}
    constant, left, stack = 0, MOST_OPERATIONS, [*parts]
    while stack:
        node, k = stack.pop()
        opened = summands(node)
        if opened is not None:
            left -= 1
            if not left:
                return None
            stack += [(part, k * factor) for part, factor in opened]
        elif node.op is Ops.CONST:
            constant += k * node.arg.bits
        else:
            terms[node] = terms.get(node, 0) + k
    return {term: k for term, k in terms.items() if k}, constant


def fact_as_written(comparison: UOp, holds: bool) -> Fact | None:
    """What a CMPLT or CMPEQ of indices that holds, or does not, says of a sum of two or more terms."""
    x, y = comparison.src
    one_term = (y.op is Ops.CONST and not is_sum(x)) or (x.op is Ops.CONST and not is_sum(y))
    if one_term or x.dtype.kind is not Kind.INDEX or (comparison.op is Ops.CMPEQ and not holds):
        return None
    sum_ = written((x, 1), (y, -1))
    if sum_ is None or len(sum_[0]) < 2:
        return None
    limit = -sum_[1]
    if comparison.op is Ops.CMPEQ:
        return Fact(tuple(sum_[0].items()), (limit, limit))
    return Fact(tuple(sum_[0].items()), (None, limit - 1) if holds else (limit, None))


#: The least and the greatest value of a term.
Ends = Callable[[UOp], Sequence[int]]


def span(terms: Mapping[UOp, int], facts: Iterable[Fact], ends: Ends) -> tuple[int, int]:
    """How far sum(terms) goes: parts of it that facts speak of,
    in their order, and the other terms one by one.
    """
    facts = [*facts]
    return _least(terms, facts, ends), -_least({t: -k for t, k in terms.items()}, facts, ends)


def _least(left: Mapping[UOp, int], facts: Sequence[Fact], ends: Ends) -> int:
    """sum == factor * (what a fact bounds) + the others: the least by the factors that make it greatest."""
    total, least = 0, _alone(left, ends)
    for terms, (low, high) in facts:
        for factor in dict.fromkeys([left[t] // j for t, j in terms if t in left and left[t] % j == 0]):
            limit = low if factor > 0 else high
            if limit is None:
                continue
            others = {**left}
            for term, j in terms:
                others[term] = others.get(term, 0) - factor * j
            others = {term: k for term, k in others.items() if k}
            new = total + factor * limit + _alone(others, ends)
            if new > least:
                left, total, least = others, total + factor * limit, new
                break
    return least


def _alone(terms: Mapping[UOp, int], ends: Ends) -> int:
    """The least value of a sum whose terms are looked at one by one."""
    return sum(k * ends(term)[0 if k > 0 else 1] for term, k in terms.items())
