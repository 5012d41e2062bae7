"""Comparisons of index sums: decided by bounds, or with like terms together and no common factor. Week 1."""

from __future__ import annotations

from math import gcd

from uop_ir import Ops, UOp, dtypes

from .bounds import bounds
from .division import constant_div, divisor
from .linear import Linear, compact, linear, ordered
from .written import is_sum

TRUE, FALSE = UOp.const(dtypes.bool, True), UOp.const(dtypes.bool, False)


#: Of a sum of more quotients, none is multiplied out.
FEW_QUOTIENTS = 4


def less(x: UOp, y: UOp) -> UOp:
    """x < y in its canonical form: each term on the side where its multiple is positive,
    without a common factor.
    """
    sum_ = linear(x).plus(linear(y), -1)
    return _negative(sum_, x < y if _split_already(x, y) or _split_already(y, x) else None)


def _split_already(x: UOp, limit: UOp) -> bool:
    """Whether `_split` leaves a canonical sum and a constant that it is compared with as they are."""
    if limit.op is not Ops.CONST or not ("collected" in x.memo or x.op is Ops.RANGE):
        return False
    terms, constant = linear(x)
    if constant or not all(k > 0 for _, k in terms):
        return False
    return len(terms) == 1 or (len(terms) > 1 and limit.arg.bits != 0)


def _negative(sum_: Linear, known: UOp | None = None) -> UOp:
    """sum < 0, which `known` says in canonical form, where no shorter sum does.

    With x // c in it, that is a condition on x: for a whole number s, x // c < -s where x < -s * c.
    """
    terms, limit = _reduced(sum_.terms, -sum_.constant)  # sum(terms) < limit
    least, greatest = Linear(terms, 0).interval()
    if greatest < limit:
        return TRUE
    if least >= limit:
        return FALSE
    best = _sides(terms, limit) if known is None or terms is not sum_.terms else known
    quotients = [(term, k) for term, k in terms if constant_div(term) and k in (1, -1)]
    for term, k in quotients if len(quotients) <= FEW_QUOTIENTS else []:
        size = divisor(term)
        others = Linear(tuple(t for t in terms if t[0] is not term), -limit)
        rest = Linear((), 0 if k > 0 else size - 1).plus(others, size)
        new = _negative(rest.plus(linear(term.src[0]), k))
        if length(new) < length(best):
            best = new
    return best


def length(condition: UOp) -> int:
    """How many nodes a comparison has, down to the terms of its sums and of the quotients in them."""
    return len(condition.toposort(gate=lambda n: n is condition or n.op is Ops.DIV or is_sum(n)))


def _sides(terms: tuple[tuple[UOp, int], ...], limit: int) -> UOp:
    """sum(terms) < limit as one node."""
    left, right = _split(Linear(terms, -limit))
    return compact(left) < compact(right)


def _split(sum_: Linear) -> tuple[Linear, Linear]:
    """Two sums whose difference is this one, neither of them 0 where there are two terms."""
    terms, constant = sum_.terms, sum_.constant
    left = tuple([(t, k) for t, k in terms if k > 0])
    right = tuple([(t, -k) for t, k in terms if k < 0])
    if len(terms) > 1 and not constant and not (left and right):
        most, *others = ordered(terms)
        if left:
            return Linear(tuple(others), 0), Linear(((most[0], -most[1]),), 0)
        return Linear((most,), 0), Linear(tuple((t, -k) for t, k in others), 0)
    if not right:
        return Linear(left, 0), Linear((), -constant)
    if not left:
        return Linear((), constant), Linear(right, 0)
    return Linear(left, max(constant, 0)), Linear(right, max(-constant, 0))


def _reduced(terms: tuple[tuple[UOp, int], ...], limit: int) -> tuple[tuple[tuple[UOp, int], ...], int]:
    """The same condition sum(terms) < limit in fewer terms, or with smaller coefficients.

    g * high + low < limit is high < ceil((limit - least low) / g), where that does not depend on low.
    Of terms that are not negative, sum(k * t) < limit is sum(t) < 1 for 0 < limit <= all k:
    all of them are 0.
    """
    if len(terms) == 1:
        if terms[0][1] in (1, -1):
            return terms, limit
        k = abs(terms[0][1])
        return ((terms[0][0], terms[0][1] // k),), -(-limit // k)
    sizes = {abs(k) for _, k in terms}
    for g in sorted({gcd(*sizes), *sizes} - {0, 1}, reverse=True):
        high, low = Linear(terms, 0).split(g)
        lo, hi = low.interval()
        rest = (limit - lo) % g
        if hi - lo < (rest or g):
            return _reduced(high.terms, -((lo - limit) // g))
    if 0 < limit <= min((k for _, k in terms), default=0) and all(bounds(t)[0] >= 0 for t, _ in terms):
        return tuple((t, 1) for t, _ in terms), 1
    return terms, limit


def equal(x: UOp, y: UOp) -> UOp:
    """x == y in its canonical form, as `less`; where no values can be equal, false."""
    sum_ = linear(x).plus(linear(y), -1)
    factor = sum_.divisors()
    span = sum_.values()
    if (
        span.least > 0
        or span.greatest < 0
        or (span.step and -span.offset % span.step)
        or (factor and sum_.constant % factor)
    ):
        return FALSE
    if not sum_.terms:
        return TRUE
    sum_ = Linear(tuple((t, k // factor) for t, k in sum_.terms), sum_.constant // factor)
    left, right = _split(_mostly_positive(sum_))
    return compact(left).eq(compact(right))


def _mostly_positive(sum_: Linear) -> Linear:
    """The sum or its negative: the one of which more terms, or the first, have positive coefficients."""
    positive = sum(k > 0 for _, k in sum_.terms)
    if positive * 2 < len(sum_.terms) or (positive * 2 == len(sum_.terms) and ordered(sum_.terms)[0][1] < 0):
        return Linear((), 0).plus(sum_, -1)
    return sum_


def congruent(x: UOp, y: UOp) -> UOp:
    """x == y of integers that wrap, with what stands on both sides left out:
    x - y == 0 modulo the type's size.
    """
    dtype, sum_ = x.dtype, linear(x - y)
    if not sum_.terms:
        return FALSE if sum_.constant else TRUE
    left, right = _split(_mostly_positive(sum_))
    return compact(left, dtype).eq(compact(right, dtype))


def unequal(x: UOp, y: UOp) -> UOp:
    """x != y in its canonical form."""
    return complement(equal(x, y))


def incongruent(x: UOp, y: UOp) -> UOp:
    """x != y of integers that wrap, as `congruent`."""
    return complement(congruent(x, y))


def not_less(x: UOp, y: UOp) -> UOp:
    """not (x < y) == y < x + 1"""
    return less(y, x + 1)


def negated(condition: UOp) -> UOp | None:
    """The negation of a condition as a node no greater than it; None where there is none."""
    if condition.op is Ops.CONST:
        return FALSE if condition.arg.bits else TRUE
    if condition.op is Ops.CMPLT and condition.src[0].dtype is dtypes.index and condition.shape == ():
        found: UOp | None = condition.memo.get("negation")
        if found is None:
            found = not_less(*condition.src)
            if "negation" not in found.memo:  # never both ways: two nodes that keep each other alive
                condition.memo["negation"] = found
        return found
    if condition.op is Ops.CMPEQ:
        return UOp(Ops.CMPNE, condition.src)
    if condition.op is Ops.CMPNE:
        return condition.src[0] if condition.src[1] is TRUE else UOp(Ops.CMPEQ, condition.src)
    return None


def complement(condition: UOp) -> UOp:
    """The negation of a condition: a comparison the other way round, or `!= true`."""
    other = negated(condition)
    return condition.ne(TRUE) if other is None else other
