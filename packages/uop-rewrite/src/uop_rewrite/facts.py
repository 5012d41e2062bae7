"""Facts: what conditions that hold say about index sums, and what follows for other conditions. Week 1."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from uop_ir import Kind, Ops, UOp

from .bounds import bounds
from .comparison import FALSE, TRUE, complement
from .linear import linear, ordered
from .pattern import COMPARISONS
from .written import Ends, Fact, Span, Terms, span

#: A sum of more terms is not asked what it says of each of them.
MOST_TERMS = 16


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
    """What a set of clauses says together: an interval for each sum,
    and conditions that are true as they stand.
    """

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
        self._telling: dict[Terms, Fact] | None = None

    def decide(self, condition: UOp) -> UOp | None:
        """TRUE or FALSE for a condition that the facts decide."""
        if condition in self.known:
            return self.known[condition]
        said = _said(condition) if self.sums else None
        return None if said is None else _decide(condition, said, self.sums, self.telling())

    def telling(self) -> Mapping[Terms, Fact]:
        """Of the facts about sums of few terms, those that say something of one of the terms alone."""
        if self._telling is None:
            self._telling = {
                terms: fact
                for terms, fact in self.sums.items()
                if 1 < len(terms) <= MOST_TERMS and _tells(fact, self.sums)
            }
        return self._telling

    def alone(self) -> dict[UOp, tuple[int, int]]:
        """The least and the greatest value of each term: by what is said of it, and of sums with it."""
        found = {term: _ends(term, self.sums) for terms in self.sums for term, _ in terms}
        found.update(_alone(self.sums, self.telling()))
        return found

    def others_decide(self, clause: UOp) -> UOp | None:
        """TRUE or FALSE for one of the clauses that what the others say of sums decides."""
        said = _said(clause)
        if said is None:
            return None
        others = [other for c, other in self.about.get(said.terms, {}).items() if c is not clause]
        telling = self.telling()
        if len(said.terms) == 1 and not others and not telling:  # none speaks of it
            return None
        sums = {**self.sums}
        if others:
            sums[said.terms] = together(others)
        else:
            sums.pop(said.terms, None)
        return _decide(clause, said, sums, telling)


def _decide(condition: UOp, said: Fact, sums: Mapping[Terms, Fact], telling: Collection[Terms]) -> UOp | None:
    """TRUE or FALSE for a comparison that says something of a sum, from what is known of sums."""
    least, greatest = _interval(said, sums, telling)
    lo, hi = said.span
    yes, no = (TRUE, FALSE) if condition.op is not Ops.CMPNE else (FALSE, TRUE)
    if (lo is not None and greatest < lo) or (hi is not None and hi < least):
        return no
    return yes if (lo is None or lo <= least) and (hi is None or greatest <= hi) else None


def _interval(said: Fact, sums: Mapping[Terms, Fact], telling: Collection[Terms]) -> tuple[int, int]:
    """Bounds of the terms of a fact: each by what is known of it alone,
    some by what is known of sums with them.
    """
    terms, own = dict(said.terms), said.terms
    alone = _alone(sums, telling) if telling else {}

    def ends(term: UOp) -> tuple[int, int]:
        return alone.get(term) or _ends(term, sums)

    facts = [f for t, f in sums.items() if len(t) > 1 and t != own and (t in telling or _is_part(t, terms))]
    if facts:
        facts += [sums[own]] if own in sums else []
        return span(terms, facts, ends)
    least = greatest = 0
    for term, k in own:
        low, high = ends(term)
        least += k * (low if k > 0 else high)
        greatest += k * (high if k > 0 else low)
    return _within((least, greatest), sums.get(own))


def _alone(sums: Mapping[Terms, Fact], telling: Collection[Terms]) -> dict[UOp, tuple[int, int]]:
    """What the facts about some sums say of their terms alone,
    twice round: one may narrow what another says.
    """
    facts = [sums[terms] for terms in telling if terms in sums]
    found = {term: _ends(term, sums) for fact in facts for term, _ in fact.terms}
    for fact in facts if len(facts) == 1 else facts + facts:
        for term, learned in each(fact, found.__getitem__):
            found[term] = _within(found[term], Fact(((term, 1),), learned))
    return found


def each(said: Fact, ends: Ends) -> Iterator[tuple[UOp, Span]]:
    """low <= k * t + others <= high bounds t by what the others can be at most and at least:
    of each term, where it is.

    What is learned of a term between two steps counts for those that come after.
    """
    low, high = said.span
    least = greatest = 0  # without those of the term itself, in its step
    for term, k in said.terms:
        first, last = ends(term)[:2]
        least += k * (first if k > 0 else last)
        greatest += k * (last if k > 0 else first)
    for term, k in said.terms:
        first, last = ends(term)[:2]
        least -= k * (first if k > 0 else last)
        greatest -= k * (last if k > 0 else first)
        lower = None if low is None else low - greatest
        upper = None if high is None else high - least
        if k < 0:
            lower, upper = (None if upper is None else -upper), (None if lower is None else -lower)
        size = abs(k)
        yield term, (None if lower is None else -(-lower // size), None if upper is None else upper // size)
        first, last = ends(term)[:2]
        least += k * (first if k > 0 else last)
        greatest += k * (last if k > 0 else first)


def _is_part(part: Terms, terms: Mapping[UOp, int]) -> bool:
    """Whether a multiple of a sum is part of another."""
    first, k = part[0]
    if len(part) > len(terms) or first not in terms:
        return False
    factor, rest = divmod(terms[first], k)
    return not rest and all(terms.get(t) == factor * j for t, j in part)


def _tells(fact: Fact, sums: Mapping[Terms, Fact]) -> bool:
    """Whether a fact about a sum says of a term alone what is known of it, or more."""
    terms, (lo, hi) = fact
    least = greatest = widest = 0
    for term, k in terms:
        low, high = _ends(term, sums)
        low, high = (k * low, k * high) if k > 0 else (k * high, k * low)
        least += low
        greatest += high
        widest = max(widest, high - low)
    # of low <= t <= high, k * t can be as much over its least as the sum over its own
    return (hi is not None and hi - least <= widest) or (lo is not None and greatest - lo <= widest)


def _ends(term: UOp, sums: Mapping[Terms, Fact]) -> tuple[int, int]:
    """The least and the greatest value of a term, from what is known of it alone."""
    said = sums.get(((term, 1),))
    return bounds(term) if said is None else _within(bounds(term), said)


def _within(ends: tuple[int, int], said: Fact | None) -> tuple[int, int]:
    """What of an interval is left by a fact."""
    if said is None:
        return ends
    (low, high), (lo, hi) = ends, said.span
    return low if lo is None else max(lo, low), high if hi is None else min(hi, high)


def together(facts: Sequence[Fact]) -> Fact:
    """What facts about one sum say: the span that lies in each of theirs."""
    if len(facts) == 1:
        return facts[0]
    least = [f.span[0] for f in facts if f.span[0] is not None]
    greatest = [f.span[1] for f in facts if f.span[1] is not None]
    span = max(least, default=None), min(greatest, default=None)
    return Fact(facts[0].terms, span)
