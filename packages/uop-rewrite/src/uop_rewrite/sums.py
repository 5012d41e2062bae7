"""Sums in canonical form: like terms together,
quotients with their remainders, choices by one condition. Week 1.
"""

from __future__ import annotations

from uop_ir import Ops, UOp, dtypes

from .casts import fits, index_cast
from .division import recombine
from .linear import Linear, build, compact, form, linear, saves, shallow
from .pattern import MUL, Pattern, a, x
from .rules import INDEX, Region, Rule, RuleSet
from .written import MOST_OPERATIONS, operations

SUM_OPS = (Ops.ADD, Ops.SUB, Ops.NEG, Ops.MUL)
#: An index sum of many terms, whose prefixes are not rewritten each on its own.
SUMS = Region("sums", (*map(Pattern, (Ops.ADD, Ops.SUB, Ops.NEG)), MUL(x, a)), INDEX)


def collect(n: UOp) -> UOp:
    """The canonical node of an index sum, an index difference or an index multiple.

    It is its own, and says so in its memo: the engine asks again of each node that a rule makes.
    """
    if "collected" in n.memo:
        return n
    new = compact(_choices(recombine(linear(n)), n))
    new.memo["collected"] = True
    return new


def collect_wrapping(n: UOp) -> UOp:
    """A sum of integers that wrap with like terms together, which are equal modulo the type's size.

    Others may use the sums within it: where the new nodes could
    cost more than like terms save, these stay as they are.
    """
    if operations(n) <= MOST_OPERATIONS:
        sum_ = linear(n)
        exact = _over_indices(sum_) if n.shape == () else None
        if exact is not None and fits(exact, n.dtype) and fits(exact, dtypes.index):
            return exact.cast(n.dtype)
        new = compact(_choices(sum_, n), n.dtype)
        if saves([n], [new]) is not None:
            return new
    return compact(shallow(n), n.dtype)


def _over_indices(sum_: Linear) -> UOp | None:
    """The sum of the indices of which all terms are casts."""
    terms = [(index_cast(t), k) for t, k in sum_.terms]
    if (
        not terms
        or any(t is None for t, _ in terms)
        or not dtypes.index.min <= sum_.constant <= dtypes.index.max
    ):
        return None
    return compact(form({t: k for t, k in terms if t is not None}, sum_.constant))


def _choices(sum_: Linear, like: UOp) -> Linear:
    """k * where(c, a, b) + l * where(c, d, e) == where(c,
    k * a + l * d, k * b + l * e), where one side is constant.

    A choice between two constants takes in its factor,
    and the constant of the sum where there is no other term.
    """
    by_condition: dict[UOp, list[tuple[UOp, int]]] = {}
    for term, k in sum_.terms:
        if term.op is Ops.WHERE and term.shape == ():
            by_condition.setdefault(term.src[0], []).append((term, k))
    for condition, found in by_condition.items():
        sides = [_side(found, i) for i in (1, 2)]
        constant = [not s.terms for s in sides]
        if (len(found) > 1 and any(constant)) or (all(constant) and found[0][1] != 1):
            chosen = condition.where(*(compact(s, like.dtype) for s in sides))
            sum_ = sum_.plus(Linear(tuple(found), 0), -1).add(chosen, 1)
    return sum_


def _side(found: list[tuple[UOp, int]], side: int) -> Linear:
    total = Linear((), 0)
    for term, k in found:
        total = total.plus(linear(term.src[side]), k)
    return total


def multiply(x: UOp, y: UOp) -> UOp | None:
    """(k * x) * (l * y) == (k * l) * (x * y): constants go out of a product, which is ordered by content."""
    factors, rest = 1, []
    for side in (x, y):
        sum_ = linear(side)
        if len(sum_.terms) == 1 and not sum_.constant:
            rest.append(sum_.terms[0][0])
            factors *= sum_.terms[0][1]
        else:
            rest.append(side)
    if rest[1].key < rest[0].key:
        rest.reverse()
    new = rest[0] * rest[1]
    if factors == 1 and new.src == (x, y):
        return None
    return new if factors == 1 else new * factors


#: Index sums term by term, as the last step before a program is written: a term can then stand outside of the
#: loops that it does not depend on, which no part of `(i * 8 + j) * 8 + k` can.
spread = RuleSet(
    [Rule("spread terms", Pattern(op, None, "n"), lambda n: build(linear(n)), types=INDEX) for op in SUM_OPS],
    regions=[SUMS],
)
