"""Bounds: the integers that a node can be, whatever its inputs:
an interval, and a residue class in it. Week 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from math import gcd

from uop_ir import Kind, Ops, UOp, VerifyError

from . import value_sets as sets
from .sizes import MOVING, few
from .transfers import NOTHING, TRANSFERS, Transfer, truth, whole
from .value_sets import ValueSet, value_set
from .written import Fact, fact_as_written, is_sum, span, written

#: A choice of more nodes is not looked at under its condition;
#: of a condition, not more comparisons are looked at.
FEW_NODES, FEW_COMPARISONS = 64, 16
_NARROWED = (Kind.INDEX, Kind.SIGNED, Kind.UNSIGNED)


def bounds(node: UOp) -> tuple[int, int]:
    """The least and the greatest value that a node of integer,
    index or bool dtype can have. Kept in its memo.

    Raises VerifyError for a node of another dtype, and for what is no node.
    """
    if not isinstance(node, UOp):
        raise VerifyError(f"bounds: {node!r} is no UOp", remedy="UOp.const makes one of a number")
    return values(node)[:2]


def values(node: UOp) -> ValueSet:
    """The values that a node of integer, index or bool dtype can have:
    bounds, step and offset. Kept in its memo.

    A node of which it is said that `step == 4` and `offset == 3` is 3 more than a multiple of 4.
    Raises VerifyError for a node of another dtype.
    """
    found: ValueSet | None = node.memo.get("values")
    if found is None or found is NOTHING:
        if node.dtype.kind in (Kind.FLOAT, Kind.VOID):
            raise VerifyError(
                f"{node.op!r}: no bounds of {node.dtype}", remedy="an integer, index or bool has them"
            )
        try:
            src = [s.memo["values"] for s in node.src]
        except KeyError:  # not yet those of the sources
            _keep(node)
            found = node.memo["values"]
        else:
            found = node.memo["values"] = values_from(node, src)
    return found


def _keep(node: UOp) -> None:
    """The values of a node and of what it stands on, each in its memo. Iterative."""
    stack = [node]
    while stack:
        n = stack[-1]
        unknown = [s for s in n.src if "values" not in s.memo]
        if unknown:
            stack += unknown
        else:
            stack.pop()
            if "values" not in n.memo:
                n.memo["values"] = values_from(n, [s.memo["values"] for s in n.src])


def not_zero(x: UOp) -> bool:
    """Whether no value of a node is 0."""
    least, greatest = bounds(x)
    return least > 0 or greatest < 0


def wraps(node: UOp) -> bool:
    """Whether an integer operation may overflow its type:
    its result is then the exact one modulo the type's size.

    False for index and bool, which do not wrap, and where the bounds show that the exact result fits.
    """
    if not node.dtype.is_int or node.op not in ARITHMETIC:
        return False
    least, greatest = VALUES[node.op](node, [values(s) for s in node.src])[:2]
    return least < node.dtype.min or greatest > node.dtype.max


def values_from(node: UOp, src: Sequence[ValueSet]) -> ValueSet:
    """The values of a node whose sources have these."""
    kind = node.dtype.kind
    if kind in (Kind.FLOAT, Kind.VOID):
        return NOTHING
    rule = VALUES.get(node.op)
    if rule is None:
        return whole(node)
    found = rule(node, src)
    if (
        kind is Kind.INDEX
        or kind is Kind.BOOL
        or (node.dtype.min <= found.least and found.greatest <= node.dtype.max)
    ):
        return found
    size, first = 1 << node.dtype.bits, int(node.dtype.min)
    turns = (found.least - first) // size
    if (found.greatest - first) // size == turns:  # all values wrap alike
        turned = turns * size
        return value_set(found.least - turned, found.greatest - turned, found.step, found.offset - turned)
    # What is known modulo a power of 2 stays true.
    step = gcd(found.step, size)
    return value_set(int(node.dtype.min), int(node.dtype.max), step, found.offset)


def _divide(node: UOp, src: Sequence[ValueSet]) -> ValueSet:
    """Of a range that has `n * m` values, the quotient by m is less than n;
    x // x is 1, or 0 where x is 0.
    """
    if node.src[0] is node.src[1]:
        return truth(src[0].least > 0 or src[0].greatest < 0, src[0] == NOTHING)
    others = _others(node)
    found = sets.divide(src[0], src[1])
    if others is None or src[1].least < 0:
        return found
    most = 1
    for other in others:
        most *= max(bounds(other)[1], 0)
    return sets.clip(found, 0, max(most - 1, 0))


def _modulo(node: UOp, src: Sequence[ValueSet]) -> ValueSet:
    """Of a range that has `n * m` values, there are none where m is 0."""
    found = sets.modulo(src[0], src[1])
    return (
        found
        if _others(node) is None or src[1].least < 0
        else sets.clip(found, 0, max(src[1].greatest - 1, 0))
    )


def _others(node: UOp) -> tuple[UOp, ...] | None:
    """The factors of the size of a range besides the one that it is divided by;
    None where that is no factor.
    """
    r, by = node.src
    if r.op is not Ops.RANGE or by.op is Ops.CONST:
        return None
    factors = [r.src[0]]
    while any(f.op is Ops.MUL for f in factors):
        factors = [g for f in factors for g in (f.src if f.op is Ops.MUL else (f,))]
    if by not in factors:
        return None
    factors.remove(by)
    return tuple(factors)


def _where(node: UOp, src: Sequence[ValueSet]) -> ValueSet:
    """Either choice, each under what the condition says where it is chosen."""
    condition, yes, no = node.src
    if yes is no or src[0].least == src[0].greatest:  # which is no choice
        return _either(src)
    return sets.union((_under(condition, True, yes, src[1]), _under(condition, False, no, src[2])))


def _either(src: Sequence[ValueSet]) -> ValueSet:
    """The values of a choice from those of condition and choices."""
    least, greatest = src[0].least, src[0].greatest
    return sets.union(src[1:]) if least < greatest else src[1 if least else 2]


def comparisons(condition: UOp, holds: bool) -> Iterator[UOp]:
    """The CMPLT and CMPEQ of integers all of which hold where a condition does, or none where it does not."""
    seen = {condition}
    stack = [condition]
    while stack:
        part = stack.pop()
        if part.op is (Ops.AND if holds else Ops.OR):
            new = [s for s in dict.fromkeys(part.src) if s not in seen]
            seen.update(new)
            stack += new
        elif part.op in (Ops.CMPLT, Ops.CMPEQ) and part.src[0].dtype.kind in _NARROWED:
            yield part


def narrowed(parts: Iterable[UOp], holds: bool) -> dict[UOp, ValueSet]:
    """The values of operands of comparisons, where all of these hold, or none does."""
    found: dict[UOp, ValueSet] = {}
    for part in parts:
        x, y = part.src
        lower, upper = (found.get(x, values(x)), found.get(y, values(y)))
        if part.op is Ops.CMPLT and holds:
            found[x] = sets.clip(lower, None, upper.greatest - 1)
            found[y] = sets.clip(upper, lower.least + 1, None)
        elif part.op is Ops.CMPLT:
            found[x] = sets.clip(lower, upper.least, None)
            found[y] = sets.clip(upper, None, lower.greatest)
        elif holds:
            found[x] = sets.clip(lower, upper.least, upper.greatest)
            found[y] = sets.clip(upper, lower.least, lower.greatest)
    return found


def _under(condition: UOp, holds: bool, choice: UOp, known: ValueSet) -> ValueSet:
    """The values of a choice where a condition holds, or does not.
    Of a large one, only its own are looked at.
    """
    parts = [*islice(comparisons(condition, holds), FEW_COMPARISONS)] if known.step else []
    found = narrowed(parts, holds)
    nodes = few(choice, FEW_NODES, gate=lambda n: n not in found) if found else None
    if nodes is None:
        return found.get(choice, known)
    facts = [fact for fact in (fact_as_written(part, holds) for part in parts) if fact is not None]
    if nodes.isdisjoint(found) and not any(t in nodes for fact in facts for t, _ in fact.terms):
        return known
    if any(n.op in MOVING for n in nodes):
        return found.get(choice, known)
    facts.sort(key=lambda fact: -len(fact.terms))
    outermost = {choice, *(s for n in nodes if not is_sum(n) for s in n.src)} if facts else set()
    for n in nodes.intersection(found) if facts else ():
        found[n] = _summed(n, facts, found)
    for n in choice.toposort(gate=lambda n: n not in found):
        if n not in found:
            src = [found[s] for s in n.src]
            # each choice within it under its own condition, too, would take exponential time
            found[n] = _either(src) if n.op is Ops.WHERE else values_from(n, src)
            if n in outermost:
                found[n] = _summed(n, facts, found)
    new = found[choice]
    return known if new.least < known.least or new.greatest > known.greatest else new


def _summed(n: UOp, facts: Sequence[Fact], found: dict[UOp, ValueSet]) -> ValueSet:
    """What of the values of an index sum is left by what is known of its terms, alone and together."""
    sum_ = written((n, 1)) if n.dtype.kind is Kind.INDEX and is_sum(n) else None
    if sum_ is None:
        return found[n]
    terms, constant = sum_
    least, greatest = span(terms, facts, lambda t: found.get(t) or values(t))
    return sets.clip(found[n], least + constant, greatest + constant)


#: Ops whose exact result may have no place in their type.
ARITHMETIC = frozenset({Ops.ADD, Ops.SUB, Ops.NEG, Ops.MUL, Ops.DIV, Ops.SHL, Ops.MULACC})

#: One row an op whose result can be narrower than its type: the exact result, before it wraps.
VALUES: dict[Ops, Transfer] = {**TRANSFERS, Ops.DIV: _divide, Ops.MOD: _modulo, Ops.WHERE: _where}
