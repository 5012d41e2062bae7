"""Facts: what conditions that hold say about index sums, and what follows for other conditions. Week 1."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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


@dataclass(frozen=True, slots=True)
class Fact:
    """sum(terms) lies in the span; whatever is said of the terms, it lies in `whole`."""

    terms: Terms
    span: Span
    whole: tuple[int, int]


def fact(clause: UOp) -> Fact | None:
    """What a comparison of indices says, as an interval; None of another clause. Kept in its memo."""
    return _said(clause) if clause.op in (Ops.CMPLT, Ops.CMPEQ) else None


def _said(clause: UOp) -> Fact | None:
    """The interval where a comparison of indices holds; of x != y, where it does not."""
    if clause.op not in COMPARISONS or clause.src[0].dtype.kind is not Kind.INDEX or clause.shape:
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
    least = None if clause.op is Ops.CMPLT else limit
    greatest = limit - 1 if least is None else limit
    if terms[0][1] > 0:
        return Fact(terms, (least, greatest), Linear(terms, 0).interval())
    terms = tuple([(t, -k) for t, k in terms])
    return Fact(terms, (-greatest, None if least is None else -least), Linear(terms, 0).interval())


class Facts:
    """What a set of clauses says together: an interval for each sum, and conditions that are true as they stand."""

    def __init__(self, conditions: Iterable[UOp]) -> None:
        self.sums: dict[Terms, Fact] = {}
        self.known: dict[UOp, UOp] = {}
        self._about: dict[Terms, list[Fact]] = {}
        for clause in conditions:
            said = fact(clause)
            if said is None:
                self.known[clause] = TRUE
                self.known[complement(clause)] = FALSE
            else:
                about = self._about.setdefault(said.terms, [])
                about.append(said)
                self.sums[said.terms] = together(about)

    def without(self, clause: UOp) -> Facts:
        """What all clauses but this one say."""
        others = Facts(())
        others.sums, others.known, others._about = {**self.sums}, {**self.known}, {**self._about}
        said = fact(clause)
        if said is None:
            del others.known[clause], others.known[complement(clause)]
            return others
        about = others._about[said.terms] = [f for f in self._about[said.terms] if f is not said]
        if about:
            others.sums[said.terms] = together(about)
        else:
            del others.sums[said.terms]
        return others

    def _interval(self, said: Fact) -> tuple[int, int]:
        """Bounds of the terms of a fact: their own, or those of a fact about a part of them and of what is left."""
        least, greatest = low, high = said.whole
        coefficients = dict(said.terms)
        for other in self.sums.values():
            first, k = other.terms[0]
            factor, rest = divmod(coefficients.get(first, 0), k)
            if rest or not factor or any(coefficients.get(t, 0) != factor * j for t, j in other.terms):
                continue
            narrower = [
                None if end is None else factor * (end - wide)
                for end, wide in zip(other.span, other.whole, strict=True)
            ]
            lower, upper = narrower if factor > 0 else narrower[::-1]
            if lower is not None:
                least = max(least, low + lower)
            if upper is not None:
                greatest = min(greatest, high + upper)
        return least, greatest

    def decide(self, condition: UOp) -> UOp | None:
        """TRUE or FALSE for a condition that the facts decide."""
        if condition in self.known:
            return self.known[condition]
        said = _said(condition) if self.sums else None
        if said is None:
            return None
        least, greatest = self._interval(said)
        lo, hi = said.span
        yes, no = (TRUE, FALSE) if condition.op is not Ops.CMPNE else (FALSE, TRUE)
        if (lo is not None and greatest < lo) or (hi is not None and hi < least):
            return no
        return yes if (lo is None or lo <= least) and (hi is None or greatest <= hi) else None


def together(facts: Sequence[Fact]) -> Fact:
    """What facts about one sum say: the span that lies in each of theirs."""
    if len(facts) == 1:
        return facts[0]
    least = [f.span[0] for f in facts if f.span[0] is not None]
    greatest = [f.span[1] for f in facts if f.span[1] is not None]
    span = max(least, default=None), min(greatest, default=None)
    return Fact(facts[0].terms, span, facts[0].whole)
