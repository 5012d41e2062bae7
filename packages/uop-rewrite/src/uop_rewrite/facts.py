"""Facts: what conditions that hold say about index sums, and what follows for other conditions. Week 1."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from uop_ir import Kind, Ops, UOp

from .bounds import bounds
from .comparison import FALSE, TRUE, complement
from .linear import linear, ordered
from .pattern import COMPARISONS
from .written import Fact, Span, Terms


def fact(clause: UOp) -> Fact | None:
    """What a comparison of indices says, as an interval; None of another clause. Kept in its memo."""
    return _said(clause) if clause.op is Ops.CMPLT or clause.op is Ops.CMPEQ else None


def _said(clause: UOp) -> Fact | None:
    """The interval where a comparison of indices holds; of x != y, where it does not."""
    if "fact" not in clause.memo:
        clause.memo["fact"] = _fact(clause)
    found: Fact | None = clause.memo["fact"]
    return found


def _fact(clause: UOp) -> Fact | None:
    """What `_said` keeps: of terms without a common factor, in their order, the first coefficient positive.
    So all facts about a sum have the same terms, by which they are found.
    """
    if clause.op not in COMPARISONS or clause.src[0].dtype.kind is not Kind.INDEX or clause.shape:
        return None
    sum_ = linear(clause.src[0]).plus(linear(clause.src[1]), -1)
    if not sum_.terms:
        return None
    ranked, limit = ordered(sum_.terms), -sum_.constant
    least = None if clause.op is Ops.CMPLT else limit
    greatest = limit - 1 if least is None else limit
    factor = 1 if abs(ranked[-1][1]) == 1 else sum_.divisors()
    if ranked[0][1] > 0:
        span: Span = None if least is None else -(-least // factor), greatest // factor
    else:  # the other way round
        span = -(greatest // factor), None if least is None else -least // factor
        factor = -factor
    terms = tuple([(t, k // factor) for t, k in ranked])
    return Fact(terms, span)


class Facts:
    """What a set of clauses says together: an interval for each sum, and conditions that are true as they stand."""

    def __init__(self, conditions: Iterable[UOp]) -> None:
        self.known: dict[UOp, UOp] = {}
        self.about: dict[Terms, dict[UOp, Fact]] = {}
        for clause in conditions:
            said = fact(clause)
            if said is None:
                self.known[clause] = TRUE
                self.known[complement(clause)] = FALSE
            else:
                self.about.setdefault(said.terms, {})[clause] = said
        self.sums = {terms: together([*about.values()]) for terms, about in self.about.items()}

    def decide(self, condition: UOp) -> UOp | None:
        """TRUE or FALSE for a condition that the facts decide."""
        if condition in self.known:
            return self.known[condition]
        said = _said(condition) if self.sums else None
        return None if said is None else _decide(condition, said, self.sums)

    def others_decide(self, clause: UOp) -> UOp | None:
        """TRUE or FALSE for one of the clauses that what the others say of sums decides."""
        said = _said(clause)
        if said is None:
            return None
        others = [other for c, other in self.about.get(said.terms, {}).items() if c is not clause]
        if len(said.terms) == 1 and not others:  # none speaks of it
            return None
        sums = {**self.sums}
        if others:
            sums[said.terms] = together(others)
        else:
            sums.pop(said.terms, None)
        return _decide(clause, said, sums)


def _decide(condition: UOp, said: Fact, sums: Mapping[Terms, Fact]) -> UOp | None:
    """TRUE or FALSE for a comparison that says something of a sum, from what is known of sums."""
    least, greatest = _interval(said, sums)
    lo, hi = said.span
    yes, no = (TRUE, FALSE) if condition.op is not Ops.CMPNE else (FALSE, TRUE)
    if (lo is not None and greatest < lo) or (hi is not None and hi < least):
        return no
    return yes if (lo is None or lo <= least) and (hi is None or greatest <= hi) else None


def _interval(said: Fact, sums: Mapping[Terms, Fact]) -> tuple[int, int]:
    """Bounds of the terms of a fact: each by what is known of it alone, some together where that says more."""
    coefficients = dict(said.terms)
    ends = {term: _ends(term, k, sums) for term, k in said.terms}
    low, high = map(sum, zip(*ends.values(), strict=True))
    least, greatest = low, high
    for terms, (_, (lo, hi)) in sums.items():
        first, k = terms[0]
        if not 1 < len(terms) <= len(coefficients) or first not in coefficients:
            continue
        factor, rest = divmod(coefficients[first], k)
        if rest or any(coefficients.get(t) != factor * j for t, j in terms):
            continue
        if factor < 0:
            lo, hi = hi, lo
        if lo is not None:
            least = max(least, low - sum(ends[t][0] for t, _ in terms) + factor * lo)
        if hi is not None:
            greatest = min(greatest, high - sum(ends[t][1] for t, _ in terms) + factor * hi)
    return least, greatest


def _ends(term: UOp, k: int, sums: Mapping[Terms, Fact]) -> tuple[int, int]:
    """The least and the greatest value of k * term, from what is known of the term."""
    low, high = bounds(term)
    said = sums.get(((term, 1),))
    if said is not None:
        lo, hi = said.span
        low, high = low if lo is None else max(lo, low), high if hi is None else min(hi, high)
    return (k * low, k * high) if k > 0 else (k * high, k * low)


def together(facts: Sequence[Fact]) -> Fact:
    """What facts about one sum say: the span that lies in each of theirs."""
    if len(facts) == 1:
        return facts[0]
    least = [f.span[0] for f in facts if f.span[0] is not None]
    greatest = [f.span[1] for f in facts if f.span[1] is not None]
    span = max(least, default=None), min(greatest, default=None)
    return Fact(facts[0].terms, span)
