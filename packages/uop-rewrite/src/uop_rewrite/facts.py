"""Facts: what conditions that hold say about index sums, and what follows for other conditions. Week 1."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from uop_ir import Kind, Ops, UOp

from .comparison import FALSE, TRUE, complement
from .linear import Linear, linear, ordered
from .pattern import COMPARISONS

#: The terms of a sum without its constant, in their order, the first with a positive coefficient.
Terms: TypeAlias = "tuple[tuple[UOp, int], ...]"
#: Both ends are included; None where there is none.
Span: TypeAlias = "tuple[int | None, int | None]"


@dataclass(frozen=True)
class Fact:
    """sum(terms) lies in the span."""

    terms: Terms
    span: Span


def fact(clause: UOp) -> Fact | None:
    """What a comparison of indices says; None of another clause. Kept in its memo."""
    if clause.op not in (Ops.CMPLT, Ops.CMPEQ) or clause.src[0].dtype.kind is not Kind.INDEX or clause.shape:
        return None
    if "fact" not in clause.memo:
        clause.memo["fact"] = _fact(clause)
    found: Fact | None = clause.memo["fact"]
    return found


def _fact(clause: UOp) -> Fact | None:
    sum_ = linear(clause.src[0]).plus(linear(clause.src[1]), -1)
    if not sum_.terms:
        return None
    terms, limit = tuple(ordered(sum_.terms)), -sum_.constant
    least, greatest = (limit, limit) if clause.op is Ops.CMPEQ else (None, limit - 1)
    if terms[0][1] > 0:
        return Fact(terms, (least, greatest))
    return Fact(tuple((t, -k) for t, k in terms), (-greatest, None if least is None else -least))


class Facts:
    """What a set of clauses says together: the interval of each sum, and conditions that are true as they stand."""

    def __init__(self, conditions: Iterable[UOp]) -> None:
        self.spans: dict[Terms, Span] = {}
        self.known: dict[UOp, UOp] = {}
        for clause in conditions:
            said = fact(clause)
            if said is not None:
                self.spans[said.terms] = meet(self.spans.get(said.terms, (None, None)), said.span)
            else:
                self.known[clause] = TRUE
                self.known[complement(clause)] = FALSE

    def interval(self, sum_: Linear) -> tuple[int, int]:
        """Bounds of a sum: its own, or those of a fact about a part of it and of what is left."""
        least, greatest = sum_.interval()
        coefficients = dict(sum_.terms)
        for terms, (lo, hi) in self.spans.items():
            first, k = terms[0]
            factor, rest = divmod(coefficients.get(first, 0), k)
            if rest or not factor or any(coefficients.get(t, 0) != factor * j for t, j in terms):
                continue
            low, high = sum_.plus(Linear(terms, 0), -factor).interval()
            lower, upper = (lo, hi) if factor > 0 else (hi, lo)
            if lower is not None:
                least = max(least, low + lower * factor)
            if upper is not None:
                greatest = min(greatest, high + upper * factor)
        return least, greatest

    def decide(self, condition: UOp) -> UOp | None:
        """TRUE or FALSE for a condition that the facts decide."""
        if condition in self.known:
            return self.known[condition]
        if (
            condition.op not in COMPARISONS
            or condition.src[0].dtype.kind is not Kind.INDEX
            or condition.shape
        ):
            return None
        if not self.spans:
            return None
        least, greatest = self.interval(linear(condition.src[0]).plus(linear(condition.src[1]), -1))
        if condition.op is Ops.CMPLT:
            return TRUE if greatest < 0 else FALSE if least >= 0 else None
        if least > 0 or greatest < 0:
            return FALSE if condition.op is Ops.CMPEQ else TRUE
        if least == greatest == 0:
            return TRUE if condition.op is Ops.CMPEQ else FALSE
        return None


def meet(x: Span, y: Span) -> Span:
    """What is in both spans."""
    least = [end for end in (x[0], y[0]) if end is not None]
    greatest = [end for end in (x[1], y[1]) if end is not None]
    return max(least, default=None), min(greatest, default=None)
