"""Simplification: constant folding, what the bounds decide, identities; with the index rules, `symbolic`. Week 1.

Integers wrap and floats round: the rules here are few, and each holds bit for bit.
"""

from __future__ import annotations

from uop_ir import Ops, UOp, dtypes, fold

from .bounds import bounds
from .index_rules import index_rules
from .pattern import (
    ADD,
    AND,
    CAST,
    CMPNE,
    DIV,
    MAX,
    MUL,
    NEG,
    OR,
    SUB,
    WHERE,
    Pattern,
    a,
    b,
    var,
    x,
    y,
    z,
)
from .rules import BOOL, FLOATS, INTEGERS, Rule, RuleSet

n = var("n")

#: Ops that the interpreter folds on constants.
FOLDED = (
    Ops.CAST, Ops.BITCAST, Ops.RECIP, Ops.SQRT, Ops.TRUNC, Ops.NEG, Ops.ADD, Ops.SUB, Ops.MUL, Ops.DIV, Ops.MOD,
    Ops.MAX, Ops.AND, Ops.OR, Ops.XOR, Ops.SHL, Ops.SHR, Ops.CMPLT, Ops.CMPNE, Ops.CMPEQ, Ops.WHERE, Ops.MULACC,
)  # fmt: skip


def _fold(n: UOp) -> UOp | None:
    """The constant that the interpreter computes, where all operands are constants.

    Raises BoundsError where an index overflows, as the interpreter does.
    """
    if any(s.op is not Ops.CONST for s in n.src):
        return None
    return UOp(Ops.CONST, (), fold(n.op, n.arg, [s.arg for s in n.src]))


def _decided(n: UOp) -> UOp | None:
    """The constant that is the only value within a node's bounds."""
    lo, hi = bounds(n)
    return n.const_like(lo) if lo == hi else None


folding = RuleSet(Rule("fold constants", Pattern(op, None, "n"), _fold) for op in FOLDED)

decided = RuleSet(
    Rule("one value left", Pattern(op, None, "n"), _decided, types=INTEGERS | BOOL)
    for op in (
        Ops.ADD,
        Ops.SUB,
        Ops.MUL,
        Ops.DIV,
        Ops.MOD,
        Ops.MAX,
        Ops.CMPLT,
        Ops.CMPNE,
        Ops.CMPEQ,
        Ops.AND,
        Ops.OR,
    )
)


def _zero(a: UOp) -> bool:
    return bool(a.value == 0)


def _one(a: UOp) -> bool:
    return bool(a.value == 1)


def _minus_zero(a: UOp) -> bool:
    return bool(a.arg == UOp.const(a.dtype, -0.0).arg)


def _plus_zero(a: UOp) -> bool:
    return bool(a.arg == UOp.const(a.dtype, 0.0).arg)


def _both_true(x: UOp, a: UOp, b: UOp) -> bool:
    return x.dtype is dtypes.bool and bool(a.value and b.value)


# every type, bit for bit

identities = RuleSet(
    [
        # x * 1 == x
        Rule("times one", MUL(x, a), lambda x, a: x, when=_one),
        # x + 0 == x                    integers
        Rule("plus zero", ADD(x, a), lambda x, a: x, when=_zero, types=INTEGERS),
        # x - 0 == x                    integers
        Rule("minus zero", SUB(x, a), lambda x, a: x, when=_zero, types=INTEGERS),
        # x + -0.0 == x                 floats: -0.0 is the identity, +0.0 turns -0.0 into +0.0
        Rule("plus float zero", ADD(x, a), lambda x, a: x, when=_minus_zero, types=FLOATS),
        # x - 0.0 == x                  floats
        Rule("minus float zero", SUB(x, a), lambda x, a: x, when=_plus_zero, types=FLOATS),
        # x / 1 == x
        Rule("divided by one", DIV(x, a), lambda x, a: x, when=_one),
        # x - x == 0                    integers
        Rule("minus itself", SUB(x, x), lambda x: x.const_like(0), types=INTEGERS),
        # -(-x) == x                    wraps and flips the sign bit twice
        Rule("negated twice", NEG(NEG(x)), lambda x: x),
        # max(x, x) == x
        Rule("maximum of itself", MAX(x, x), lambda x: x),
        # x & x == x, x | x == x        bool and integers
        Rule("and itself", AND(x, x), lambda x: x),
        Rule("or itself", OR(x, x), lambda x: x),
        # x & true == x, x & false == false, x | false == x, x | true == true
        Rule("and true", AND(x, a), lambda x, a: x if a.value else a, types=BOOL),
        Rule("or true", OR(x, a), lambda x, a: a if a.value else x, types=BOOL),
        # (x != true) != true == x      bool
        Rule("not not", CMPNE(CMPNE(x, a), b), lambda x, a, b: x, when=_both_true, types=BOOL),
        # where(true, x, y) == x, where(false, x, y) == y, where(z, x, x) == x
        Rule("chosen", WHERE(a, x, y), lambda a, x, y: x if a.value else y),
        Rule("same choice", WHERE(z, x, x), lambda x: x),
        # where(z, where(z, x, y), n) == where(z, x, n)
        Rule("chosen twice", WHERE(z, WHERE(z, x, y), n), lambda z, x, n: z.where(x, n)),
        # cast(x) == x                  to its own type
        Rule("cast to itself", CAST(x).named("n"), lambda x: x, when=lambda n, x: n.dtype is x.dtype),
    ]
)

#: What index arithmetic needs, and no more than holds for every type.
symbolic = folding + decided + identities + index_rules
