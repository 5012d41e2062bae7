"""Bounds under a guard: the integers that a node can be where a condition holds. Week 1.

Where `given` rewrites an expression, this leaves it as it is and only says how far it goes: what proves that
an access behind a validity stays within its memory.
"""

from __future__ import annotations

from collections.abc import Mapping

from uop_ir import Kind, Ops, UOp, VerifyError, dtypes

from .bounds import bounds, comparisons, narrowed, values, values_from
from .facts import Facts, each
from .guards import IMPURE, clauses
from .linear import Linear, linear
from .value_sets import ValueSet, clip
from .written import MOST_OPERATIONS, Fact, is_sum, operations, span

Known = Mapping[UOp, ValueSet]
#: Facts about sums of two terms and more, by each of their terms; numbered, the longest first.
Sums = dict[UOp, dict[int, Fact]]
_INTEGERS = frozenset({Kind.INDEX, Kind.SIGNED, Kind.UNSIGNED})
_KNOWN = _INTEGERS | {Kind.BOOL}


def bounds_given(condition: UOp, node: UOp) -> tuple[int, int]:
    """The least and the greatest value of an integer or index where a condition, a bool, holds.

    Those of `bounds` where nothing is learned; any, where the condition never holds. Of the condition, the
    comparisons that an AND joins are used. Both are scalars.
    Raises VerifyError where the condition is no bool; and see `bounds`.
    """
    if getattr(condition, "dtype", None) is not dtypes.bool:
        raise VerifyError(f"bounds_given: {condition!r} is no condition", remedy="a node of dtype bool")
    plain = bounds(node)
    if node.shape or condition.shape or plain[0] == plain[1]:
        return plain
    facts = tuple(Facts(clauses(condition)).sums.values())
    sums: Sums = {}
    for number, said in enumerate(sorted(facts, key=lambda said: -len(said.terms))):
        for term, _ in said.terms if len(said.terms) > 1 else ():
            sums.setdefault(term, {})[number] = said
    found = {
        n: v for n, v in narrowed(comparisons(condition, True), True).items() if n.dtype.kind in _INTEGERS
    }
    for said in facts + facts:  # what the second says of a term may narrow what the first says of others
        _narrow_terms(said, found)
    for n in [*found]:
        _narrow_dividend(n, found)
    order = node.toposort(gate=lambda n: n not in found and not _opaque(n))
    whole = {node, *(s for n in order if not is_sum(n) for s in n.src)}
    for n in order:
        if n in found:
            continue
        if _opaque(n):
            found[n] = values(n) if n.dtype.kind in _INTEGERS else ValueSet(0, 1)
            continue
        known = values_from(n, [found[s] for s in n.src])
        # a part of a long sum is not looked at as a sum: the parts of n terms have n * n terms
        looked_at = n.dtype.kind is Kind.INDEX and (n in whole or operations(n) <= MOST_OPERATIONS)
        found[n] = clip(known, *_sum(linear(n), sums, found)) if looked_at else known
    return found[node][:2]


def _opaque(n: UOp) -> bool:
    """Whether a node is taken as one unknown: memory, another element of its operand, no integer."""
    return n.op in IMPURE or n.shape != () or n.dtype.kind not in _KNOWN


def _narrow_terms(said: Fact, found: dict[UOp, ValueSet]) -> None:
    """What a fact about a sum says of each of its terms, by what is found of the others."""
    for term, (lower, upper) in each(said, lambda t: found.get(t) or values(t)):
        found[term] = clip(found.get(term) or values(term), lower, upper)


def _narrow_dividend(n: UOp, found: dict[UOp, ValueSet]) -> None:
    """What is known of x // c or x % c ends where x has such a quotient or remainder; c > 0."""
    if n.op not in (Ops.DIV, Ops.MOD) or n.src[1].op is not Ops.CONST or n.dtype.kind is not Kind.INDEX:
        return
    x, c = n.src[0], int(n.src[1].value)
    low, high = found[n][:2]
    if c <= 0 or low > high:
        return
    sum_ = linear(x)
    if n.op is Ops.DIV:
        least, greatest = low * c, high * c + c - 1
    else:
        least, greatest = _plain(sum_, found)
        first, last = least % c, greatest % c
        least += 0 if low <= first <= high else (low - first) % c
        greatest -= 0 if low <= last <= high else (last - high) % c
    said = Fact(sum_.terms, (least - sum_.constant, greatest - sum_.constant))
    _narrow_terms(said, found)
    found[x] = clip(found.get(x) or values(x), least, greatest)


def _plain(sum_: Linear, found: Known) -> tuple[int, int]:
    """Bounds of a sum from those of its terms."""
    least = greatest = sum_.constant
    for term, k in sum_.terms:
        low, high = (found.get(term) or values(term))[:2]
        least += k * (low if k > 0 else high)
        greatest += k * (high if k > 0 else low)
    return least, greatest


def _sum(sum_: Linear, sums: Sums, found: Known) -> tuple[int, int]:
    """Bounds of a sum: parts of it that facts speak of, the longest first, and the other terms one by one."""
    least, greatest = span(dict(sum_.terms), _about(sum_, sums), lambda t: found.get(t) or values(t))
    return least + sum_.constant, greatest + sum_.constant


def _about(sum_: Linear, sums: Sums) -> list[Fact]:
    """The facts about terms of a sum, and about what these say that they go with."""
    found: dict[int, Fact] = {}
    stack = [term for term, _ in sum_.terms]
    while stack:
        for number, said in sums.get(stack.pop(), {}).items():
            if number not in found:
                found[number] = said
                stack += [term for term, _ in said.terms]
    return [found[number] for number in sorted(found)]
