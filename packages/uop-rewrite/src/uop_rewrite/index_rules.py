"""Rules for index arithmetic: sums, division and remainder, comparisons, casts. Week 1.

Index arithmetic is over the mathematical integers, so a sum may be reordered and compared freely.
"""

from __future__ import annotations

from collections.abc import Callable

from uop_ir import Ops, UOp, dtypes

from .bounds import bounds, values
from .casts import peel, through
from .comparison import congruent, equal, incongruent, length, less, unequal
from .division import divide, divide_by_term, remainder, remainder_by_term
from .linear import linear, saves
from .pattern import CAST, CMPEQ, CMPLT, CMPNE, DIV, MAX, MOD, MUL, Pattern, c, x, y
from .rules import INDEX, INTEGERS, VALUES, Rule, RuleSet
from .sums import SUM_OPS, SUMS, collect, collect_wrapping, multiply
from .written import MOST_OPERATIONS, operations


def _positive(c: UOp) -> bool:
    return bool(c.arg.bits > 0)


def _no_constant(y: UOp) -> bool:
    return y.op is not Ops.CONST


def _ordered(n: UOp) -> UOp | None:
    """The operands of a commutative op in one order, a constant last."""
    p, q = n.src
    swap = p.op is Ops.CONST if Ops.CONST in (p.op, q.op) else q.key < p.key
    return n.replace(src=(q, p)) if swap and p is not q else None


def _greatest(x: UOp, y: UOp) -> UOp | None:
    """max(x, y) where the bounds of x - y decide."""
    least, greatest = linear(x).plus(linear(y), -1).interval()
    return x if least >= 0 else y if greatest <= 0 else None


def _single(n: UOp) -> UOp | None:
    """A range of one iteration, or a variable with one value, as the constant that it is to an operation."""
    known = {s: s.const_like(bounds(s)[0]) for s in n.src if s.op in (Ops.RANGE, Ops.PARAM) and _one_value(s)}
    return n.replace(src=[known.get(s, s) for s in n.src]) if known else None


def _one_value(s: UOp) -> bool:
    return s.dtype is dtypes.index and values(s).step == 0


def _cancelled(relation: Callable[[UOp, UOp], UOp]) -> Callable[..., UOp | None]:
    """An equation of sums that wrap without what stands on both sides, where that takes fewer operations."""

    def rule(x: UOp, y: UOp, n: UOp) -> UOp | None:
        if not 0 < operations(x) + operations(y) <= MOST_OPERATIONS:
            return None
        new = relation(x, y)
        return new if new.shape == n.shape and saves(n.src, new.src) else None

    return rule


def _compared(relation: Callable[[UOp, UOp], UOp]) -> Callable[..., UOp | None]:
    """A relation in its canonical form, unless that is longer."""

    def rule(x: UOp, y: UOp, n: UOp) -> UOp | None:
        new = relation(x, y)
        return new if new is n or length(new) <= length(n) else None

    return rule


index_rules = RuleSet(
    [
        Rule("order factors", MUL(x, y), multiply, types=INDEX, when=lambda x, y: _no_constant(x) and _no_constant(y)),
        *(
            Rule("collect terms", Pattern(op, None, "n"), collect, types=INDEX)
            for op in SUM_OPS
        ),
        *(
            Rule("collect wrapping terms", Pattern(op, None, "n"), collect_wrapping, types=INTEGERS - INDEX)
            for op in SUM_OPS
        ),
        # x // c == ...                             see division.divide
        Rule("div of sum", DIV(x, c), lambda x, c: divide(x, c.arg.bits), when=_positive, types=INDEX),
        Rule("mod of sum", MOD(x, c), lambda x, c: remainder(x, c.arg.bits), when=_positive, types=INDEX),
        # (y * q + r) // y == q + r // y            y is not 0
        Rule("div by term", DIV(x, y), divide_by_term, when=_no_constant, types=INDEX),
        # (y * q + r) % y == r % y
        Rule("mod by term", MOD(x, y), remainder_by_term, when=_no_constant, types=INDEX),
        Rule("compare sums", CMPLT(x, y).named("n"), _compared(less), types=INDEX),
        Rule("equal sums", CMPEQ(x, y).named("n"), _compared(equal), types=INDEX),
        Rule("unequal sums", CMPNE(x, y).named("n"), _compared(unequal), types=INDEX),
        Rule("equal wrapping sums", CMPEQ(x, y).named("n"), _cancelled(congruent), types=INTEGERS - INDEX),
        Rule("unequal wrapping sums", CMPNE(x, y).named("n"), _cancelled(incongruent), types=INTEGERS - INDEX),
        # max(x, y) where the bounds decide
        Rule("maximum by bounds", MAX(x, y), _greatest, types=INDEX),
        # max(max(x, a), b) == max(x, max(a, b))
        Rule("order maximum", Pattern(Ops.MAX, None, "n"), _ordered, types=INDEX),
        # an operand with one value left
        *(
            Rule("one value for an operand", Pattern(op, None, "n"), _single, types=VALUES)
            for op in (
                Ops.WHERE, Ops.MAX, Ops.CMPLT, Ops.CMPEQ, Ops.CMPNE, Ops.DIV, Ops.MOD, Ops.MUL, Ops.CAST, Ops.INDEX,
            )
        ),
        # casts between indices and integers that keep the value
        *(
            Rule("peel casts", Pattern(op, None, "n"), peel, types=INTEGERS - INDEX)
            for op in (Ops.DIV, Ops.MOD, Ops.MAX, Ops.CMPLT, Ops.CMPEQ, Ops.CMPNE)
        ),
        Rule("cast through", CAST(CAST(x)).named("n"), through, types=INTEGERS),
    ],
    regions=[SUMS],
)  # fmt: skip
