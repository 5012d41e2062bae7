"""Simplification: constant folding, what the bounds decide,
identities; with the index rules, `symbolic`. Week 1.

Integers wrap and floats round: the rules here are few, and each holds bit for bit.
"""

from __future__ import annotations

from uop_ir import Kind, Ops, UOp, dtypes, fold

from .bounds import values
from .casts import bitcasts, lossless
from .comparison import FALSE, TRUE, complement, length, negated
from .engine import graph_rewrite
from .guards import IMPURE, MOST_NODES, clauses, conjunction, disjunction, given
from .index_rules import index_rules
from .pattern import (
    ADD,
    AND,
    CAST,
    CMPEQ,
    CMPLT,
    CMPNE,
    DIV,
    MAX,
    MOD,
    MUL,
    NEG,
    OR,
    SUB,
    WHERE,
    XOR,
    Builder,
    Pattern,
    a,
    b,
    var,
    x,
    y,
    z,
)
from .rules import BOOL, FLOATS, INDEX, INTEGERS, Region, Rule, RuleSet
from .sizes import few
from .sums import SUM_OPS

n = var("n")
BITCAST, INDEXED, LOAD, MULACC, SHL, SHR = (
    Builder(o) for o in (Ops.BITCAST, Ops.INDEX, Ops.LOAD, Ops.MULACC, Ops.SHL, Ops.SHR)
)
WRAPPING = INTEGERS - INDEX

#: Ops that the interpreter folds on constants.
FOLDED = (
    Ops.CAST, Ops.BITCAST, Ops.RECIP, Ops.SQRT, Ops.TRUNC, Ops.NEG, Ops.ADD, Ops.SUB, Ops.MUL, Ops.DIV, Ops.MOD,
    Ops.MAX, Ops.AND, Ops.OR, Ops.XOR, Ops.SHL, Ops.SHR, Ops.CMPLT, Ops.CMPNE, Ops.CMPEQ, Ops.WHERE, Ops.MULACC,
)  # fmt: skip
#: Ops of which a choice between constants is a choice between results.
CHOSEN = (
    Ops.CAST, Ops.NEG, Ops.ADD, Ops.SUB, Ops.MUL, Ops.DIV, Ops.MOD, Ops.MAX, Ops.AND, Ops.OR, Ops.XOR, Ops.CMPLT,
    Ops.CMPNE, Ops.CMPEQ,
)  # fmt: skip


def _fold(n: UOp) -> UOp | None:
    """The constant that the interpreter computes, where all operands are constants.

    Raises BoundsError where an index overflows, as the interpreter does.
    """
    for s in n.src:
        if s.op is not Ops.CONST:
            return None
    return UOp(Ops.CONST, (), fold(n.op, n.arg, [s.arg for s in n.src]))


def _decided(n: UOp) -> UOp | None:
    """The constant that is the only value within a node's bounds."""
    found = values(n)
    return n.const_like(found.least) if found.least == found.greatest else None


folding = RuleSet(Rule("fold constants", Pattern(op, None, "n"), _fold) for op in FOLDED)


def _one_value_left(op: Ops, types: frozenset[Kind]) -> Rule:
    return Rule("one value left", Pattern(op, None, "n"), _decided, types=types)


decided = RuleSet(
    _one_value_left(op, INTEGERS | BOOL)
    for op in (
        Ops.DIV, Ops.MOD, Ops.MAX, Ops.CMPLT, Ops.CMPNE, Ops.CMPEQ, Ops.AND, Ops.OR, Ops.XOR, Ops.SHL, Ops.SHR,
        Ops.WHERE,
    )
) + RuleSet(
    [
        *(_one_value_left(op, WRAPPING) for op in SUM_OPS),
        Rule("one value left", CAST(x).named("n"), _decided, types=BOOL),
    ]
)  # fmt: skip

#: An index sum is brought into canonical form first: the values of that are asked for again.
decided_sums = RuleSet(_one_value_left(op, INDEX) for op in SUM_OPS)


def _zero(a: UOp) -> bool:
    return bool(a.value == 0)


def _one(a: UOp) -> bool:
    return bool(a.value == 1)


def _minus_one(a: UOp) -> bool:
    return bool(a.value == -1)


def _ones(a: UOp) -> bool:
    """All bits set."""
    return bool(a.arg.bits in (-1, (1 << a.dtype.bits) - 1))


def _minus_zero(a: UOp) -> bool:
    return bool(a.arg == UOp.const(a.dtype, -0.0).arg)


def _plus_zero(a: UOp) -> bool:
    return bool(a.arg == UOp.const(a.dtype, 0.0).arg)


def _true(a: UOp) -> bool:
    return a is TRUE


def _false(a: UOp) -> bool:
    return a is FALSE


def _opposite(x: UOp, y: UOp) -> bool:
    """Whether y is the negation of x. That of a CMPLT is another one, which takes longer to find."""
    return (x.op is not Ops.CMPLT or y.op is Ops.CMPLT) and negated(x) is y


def _shorter(n: UOp, z: UOp, o: UOp) -> UOp | None:
    """The choice by the negation of its condition,
    where that has fewer nodes; a mask stays one: z or a constant.

    Sums of masks and what is read under them are recognized by that form.
    A computed index is neither, unless it reads memory.
    """
    if o.op is Ops.CONST and (o.dtype is not dtypes.index or z.op is Ops.CONST or _impure(z)):
        return None
    other = negated(n)
    return None if other is None or length(other) >= length(n) else other.where(o, z)


def _impure(z: UOp) -> bool:
    """Whether memory is read below a node, or it is too large to say."""
    nodes = few(z, MOST_NODES)
    return nodes is None or any(n.op in IMPURE for n in nodes)


def _unless(op: Ops, z: UOp, x: UOp) -> UOp | None:
    other = negated(z)
    return None if other is None else UOp(op, (other, x))


def _choices(n: UOp) -> UOp | None:
    """op(where(z, a, b), c) == where(z, op(a, c), op(b,
    c)) for constants, and for two choices by one condition.
    """
    chosen = [s for s in n.src if s.op is Ops.WHERE]
    if not chosen or any(
        s.src[0] is not chosen[0].src[0] if s.op is Ops.WHERE else s.op is not Ops.CONST for s in n.src
    ):
        return None
    sides = [[s.src[i] if s.op is Ops.WHERE else s for s in n.src] for i in (1, 2)]
    constant = [all(s.op is Ops.CONST for s in side) for side in sides]
    if not all(constant) and not (any(constant) and len(chosen) == 2):
        return None
    yes, no = (n.replace(src=side) for side in sides)
    return chosen[0].src[0].where(yes, no)


# every type, bit for bit

identities = RuleSet(
    [
        # x * 1 == x
        Rule("times one", MUL(x, a), lambda x, a: x, when=_one),
        # x * -1 == -x                  floats
        Rule("times minus one", MUL(x, a), lambda x, a: -x, when=_minus_one, types=FLOATS),
        # x + 0 == x                    integers
        Rule("plus zero", ADD(x, a), lambda x, a: x, when=_zero, types=WRAPPING),
        # x - 0 == x                    integers
        Rule("minus zero", SUB(x, a), lambda x, a: x, when=_zero, types=WRAPPING),
        # x + -0.0 == x                 floats: -0.0 is the identity, +0.0 turns -0.0 into +0.0
        Rule("plus float zero", ADD(x, a), lambda x, a: x, when=_minus_zero, types=FLOATS),
        # x - 0.0 == x                  floats
        Rule("minus float zero", SUB(x, a), lambda x, a: x, when=_plus_zero, types=FLOATS),
        # x / 1 == x
        Rule("divided by one", DIV(x, a), lambda x, a: x, when=_one),
        # x / -1 == -x
        Rule("divided by minus one", DIV(x, a), lambda x, a: -x, when=_minus_one),
        # x % x == 0                    0 % 0 == 0
        Rule("remainder by itself", MOD(x, x), lambda x: x.const_like(0), types=INTEGERS),
        # x % y % y == x % y
        Rule("remainder twice", MOD(MOD(x, y), y), lambda x, y: x % y, types=INTEGERS),
        # x - x == 0                    integers
        Rule("minus itself", SUB(x, x), lambda x: x.const_like(0), types=WRAPPING),
        # -(-x) == x                    wraps and flips the sign bit twice
        Rule("negated twice", NEG(NEG(x)), lambda x: x),
        # x * 1 + z == x + z, x * y + -0.0 == x * y          rounded once, either way
        Rule("accumulate once", MULACC(x, a, z), lambda x, a, z: x + z, when=_one),
        Rule("accumulate zero", MULACC(x, y, a), lambda x, y: x * y, when=_minus_zero, types=FLOATS),
        # max(x, x) == x, max(max(x, y), y) == max(x, y), max(max(x, a), b) == max(x, max(a, b))
        Rule("maximum of itself", MAX(x, x), lambda x: x),
        Rule("maximum twice", MAX(MAX(x, y), y), lambda x, y: x.maximum(y)),
        Rule("maximum of constants", MAX(MAX(x, a), b), lambda x, a, b: x.maximum(a.maximum(b)), types=INTEGERS),
        # x & x == x, x | x == x, x ^ x == 0                  bool and integers
        Rule("and itself", AND(x, x), lambda x: x),
        Rule("or itself", OR(x, x), lambda x: x),
        Rule("xor itself", XOR(x, x), lambda x: x.const_like(0)),
        # x & -1 == x, x | 0 == x, x ^ 0 == x
        Rule("and ones", AND(x, a), lambda x, a: x, when=_ones),
        Rule("or zero", OR(x, a), lambda x, a: x, when=_zero),
        Rule("xor zero", XOR(x, a), lambda x, a: x, when=_zero),
        # (x & a) & b == x & (a & b), and so for or and xor; (x ^ y) ^ y == x
        Rule("and of constants", AND(AND(x, a), b), lambda x, a, b: x & (a & b)),
        Rule("or of constants", OR(OR(x, a), b), lambda x, a, b: x | (a | b)),
        Rule("xor of constants", XOR(XOR(x, a), b), lambda x, a, b: x ^ (a ^ b)),
        Rule("xor twice", XOR(XOR(x, y), y), lambda x, y: x),
        # x << 0 == x, x >> 0 == x
        Rule("shifted left by zero", SHL(x, a), lambda x, a: x, when=_zero),
        Rule("shifted right by zero", SHR(x, a), lambda x, a: x, when=_zero),
        # x != false is x, x == true is x, x == false is x != true
        Rule("is not false", CMPNE(x, a), lambda x, a: x, when=_false, types=BOOL),
        Rule("is true", CMPEQ(x, a), lambda x, a: x, when=_true, types=BOOL),
        Rule("is false", CMPEQ(x, a), lambda x, a: complement(x), when=_false, types=BOOL),
        # (x == y) != true is x != y; so for other comparisons of what has an order without NaN
        Rule("not", CMPNE(x, a), lambda x, a: negated(x), when=_true, types=BOOL),
        # x & not x == false, x | not x == true; of vectors x & false, x | true, which have their shape
        Rule("and its complement", AND(x, y), lambda x: x & FALSE if x.shape else FALSE, when=_opposite, types=BOOL),
        Rule("or its complement", OR(x, y), lambda x: x | TRUE if x.shape else TRUE, when=_opposite, types=BOOL),
        # where(true, x, y) == x, where(false, x, y) == y, where(z, x, x) == x
        Rule("chosen", WHERE(a, x, y), lambda a, x, y: x if a.value else y),
        Rule("same choice", WHERE(z, x, x), lambda x: x),
        # where(not z, x, y) == where(z, y, x)
        Rule("swapped choice", WHERE(CMPNE(z, a), x, y), lambda z, a, x, y: z.where(y, x),
             when=_true),
        # where(x < y, z, o) == where(y < x + 1, o, z)        integers: no NaN
        Rule("choice by the shorter condition", WHERE(CMPLT(x, y).named("n"), z, var("o")), _shorter),
        # where(z, where(z, x, y), n) == where(z, x, n), where(z, x, where(z, y, n)) == where(z, x, n)
        Rule("chosen twice", WHERE(z, WHERE(z, x, y), n), lambda z, x, n: z.where(x, n)),
        Rule("refused twice", WHERE(z, x, WHERE(z, y, n)), lambda z, x, n: z.where(x, n)),
        # where(z, where(n, x, y), y) == where(z & n, x, y), where(z, x, where(n, x, y)) == where(z | n, x, y)
        Rule("both", WHERE(z, WHERE(n, x, y), y), lambda z, n, x, y: (z & n).where(x, y)),
        Rule("either", WHERE(z, x, WHERE(n, x, y)), lambda z, n, x, y: (z | n).where(x, y)),
        # where(z, true, x) == z | x, where(z, x, false) == z & x; with both, z
        Rule("choice of truth", WHERE(z, a, x), lambda z, x: z | x, when=_true, types=BOOL),
        Rule("choice of falsehood", WHERE(z, x, a), lambda z, x: z & x, when=_false, types=BOOL),
        # where(z, false, x) == not z & x, where(z, x, true) == not z | x, where the negation is no node more
        Rule("no choice of truth", WHERE(z, a, x), lambda z, x: _unless(Ops.AND, z, x), when=_false, types=BOOL),
        Rule("no choice of falsehood", WHERE(z, x, a), lambda z, x: _unless(Ops.OR, z, x), when=_true, types=BOOL),
        # where(x < y, y, x) == max(x, y)                     integers: no NaN
        Rule("choice of the greater", WHERE(CMPLT(x, y), y, x), lambda x, y: x.maximum(y), types=INTEGERS),
        # op(where(z, a, b), c) == where(z, op(a, c), op(b, c))
        *(Rule("choice of constants", Pattern(op, None, "n"), _choices) for op in CHOSEN),
        # cast(x) == x                  to its own type
        Rule("cast to itself", CAST(x).named("n"), lambda x: x, when=lambda n, x: n.dtype is x.dtype),
        Rule("cast without loss", CAST(CAST(x)).named("n"), lossless),
        Rule("bitcast twice", BITCAST(BITCAST(x)).named("n"), bitcasts),
        Rule("bitcast to itself", BITCAST(x).named("n"), lambda x: x, when=lambda n, x: n.dtype is x.dtype),
    ]
)  # fmt: skip

#: What needs no guard: the rules by which expressions are simplified where one holds.
plain = (folding + decided + identities + index_rules + decided_sums).remembering()


def _simplify(node: UOp) -> UOp:
    return graph_rewrite(node, plain)


def _choose(n: UOp) -> UOp | None:
    """where(z, x, y): x where z holds, y where it does not."""
    condition, yes, no = n.src
    new_yes = given(clauses(condition), yes, _simplify)
    new_no = given((complement(c) for c in clauses(condition, Ops.OR)), no, _simplify)
    return None if (new_yes, new_no) == (yes, no) else condition.where(new_yes, new_no)


def _valid(n: UOp) -> UOp | None:
    """An index under its validity, which goes where it always holds."""
    memory, at, valid = n.src
    if valid is TRUE:
        return memory.index(at)
    new = given(clauses(valid), at, _simplify)
    return None if new is at else memory.index(new, valid)


guarded = RuleSet(
    [
        Rule("and of clauses", Pattern(Ops.AND, None, "n"), lambda n: conjunction(n, _simplify), types=BOOL),
        Rule("or of clauses", Pattern(Ops.OR, None, "n"), lambda n: disjunction(n, _simplify), types=BOOL),
        Rule("choice under its condition", Pattern(Ops.WHERE, None, "n"), _choose),
        Rule("index under its validity", INDEXED(x, y, z).named("n"), _valid),
        # a load that is never valid is 0
        Rule("never valid", LOAD(INDEXED(x, y, a)).named("n"), lambda n: n.const_like(0), when=_false),
    ],
    regions=[
        Region("conjunction", (Pattern(Ops.AND),), BOOL),
        Region("disjunction", (Pattern(Ops.OR),), BOOL),
    ],
)

#: What index arithmetic and its conditions need, and no more than holds for every type.
symbolic = (plain + guarded).remembering()
