"""Simplification: the rules that hold for every type, for integers, and for index arithmetic. Week 1.

Index arithmetic is over the mathematical integers, so a sum may be reordered and compared freely. Integers wrap
and floats round: rules for them are few, and each holds bit for bit.
"""

from __future__ import annotations

from math import gcd

from uop_ir import DType, Kind, Ops, UOp, dtypes, fold

from .bounds import bounds
from .engine import BOOL, FLOATS, INDEX, INTEGERS, Rule, RuleSet
from .linear import Linear, build, linear
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
    Pattern,
    a,
    b,
    c,
    var,
    x,
    y,
    z,
)

TRUE, FALSE = UOp.const(dtypes.bool, True), UOp.const(dtypes.bool, False)
n = var("n")

#: Ops that the interpreter folds on constants.
FOLDED = (
    Ops.CAST, Ops.BITCAST, Ops.RECIP, Ops.SQRT, Ops.TRUNC, Ops.NEG, Ops.ADD, Ops.SUB, Ops.MUL, Ops.DIV, Ops.MOD,
    Ops.MAX, Ops.AND, Ops.OR, Ops.XOR, Ops.SHL, Ops.SHR, Ops.CMPLT, Ops.CMPNE, Ops.CMPEQ, Ops.WHERE, Ops.MULACC,
)  # fmt: skip


def _fold(n: UOp) -> UOp | None:
    """The constant that the interpreter computes, where all operands are constants."""
    if any(s.op is not Ops.CONST for s in n.src):
        return None
    return UOp(Ops.CONST, (), fold(n.op, n.arg, [s.arg for s in n.src]))


def _decided(n: UOp) -> UOp | None:
    """The constant that is the only value within a node's bounds."""
    lo, hi = bounds(n)
    return n.const_like(lo) if lo == hi and n.shape == () else None


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
    return a.arg == UOp.const(a.dtype, -0.0).arg


def _plus_zero(a: UOp) -> bool:
    return a.arg == UOp.const(a.dtype, 0.0).arg


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
        # x * 0 == 0                    integers
        Rule(
            "times zero",
            MUL(x, a),
            lambda x, a: a,
            when=lambda x, a: _zero(a) and x.shape == (),
            types=INTEGERS,
        ),
        # x - x == 0                    integers
        Rule(
            "minus itself", SUB(x, x), lambda x: x.const_like(0), when=lambda x: x.shape == (), types=INTEGERS
        ),
        # -(-x) == x                    wraps and flips the sign bit twice
        Rule("negated twice", NEG(NEG(x)), lambda x: x),
        # max(x, x) == x
        Rule("maximum of itself", MAX(x, x), lambda x: x),
        # x & x == x, x | x == x        bool and integers
        Rule("and itself", AND(x, x), lambda x: x),
        Rule("or itself", OR(x, x), lambda x: x),
        # x & true == x, x & false == false, x | false == x, x | true == true
        Rule(
            "and true", AND(x, a), lambda x, a: x if a.value else (a if x.shape == () else None), types=BOOL
        ),
        Rule("or true", OR(x, a), lambda x, a: (a if x.shape == () else None) if a.value else x, types=BOOL),
        # (x != true) != true == x      bool
        Rule(
            "not not",
            CMPNE(CMPNE(x, a), b),
            lambda x, a, b: x,
            when=lambda a, b: a.value and b.value,
            types=BOOL,
        ),
        # where(true, x, y) == x, where(false, x, y) == y, where(c, x, x) == x
        Rule(
            "chosen",
            WHERE(a, x, y),
            lambda a, x, y: x if a.value else y,
            when=lambda x, y: x.shape == y.shape,
        ),
        Rule("no choice", WHERE(c, x, x), lambda c, x: x, when=lambda c, x: c.shape == ()),
        Rule("same choice", WHERE(z, x, x), lambda z, x: x, when=lambda z, x: z.shape == ()),
        # where(z, where(z, x, y), n) == where(z, x, n)
        Rule("chosen twice", WHERE(z, WHERE(z, x, y), n), lambda z, x, n: z.where(x, n)),
        # cast(x) == x                  to its own type
        Rule("cast to itself", CAST(x).named("n"), lambda x: x, when=lambda n, x: n.dtype is x.dtype),
    ]
)


# index arithmetic


def _collect(n: UOp) -> UOp:
    """The canonical sum: like terms together, and what a division and its remainder make together."""
    form = linear(n)
    return build(_recombine(form))


def _recombine(form: Linear) -> Linear:
    """x % a * k + x // a * (a * k) == x * k, and x % a * k + x // a % b * (a * k) == x % (a * b) * k."""
    for term, k in form.terms:
        if term.op is not Ops.MOD or term.src[1].op is not Ops.CONST:
            continue
        source, size = term.src[0], int(term.src[1].value)
        for other, k2 in form.terms:
            if k2 != k * size:
                continue
            if other is source // size:
                merged = source
            elif other.op is Ops.MOD and other.src[1].op is Ops.CONST and other.src[0] is source // size:
                merged = source % (size * int(other.src[1].value))
            else:
                continue
            rest = UOp.const(dtypes.index, form.constant)
            for t, q in form.terms:
                if t is not term and t is not other:
                    rest = rest + t * q
            return _recombine(linear(rest + merged * k))
    return form


def _divide(x: UOp, c: UOp) -> UOp | None:
    """(c * q + r) // c == q + r // c; with 0 <= r < c it is q; a common factor of r and c goes out of both."""
    size = int(c.value)
    quotient, rest = linear(x).split(size)
    lo, hi = rest.interval()
    if lo // size == hi // size:
        return build(Linear(quotient.terms, quotient.constant + lo // size))
    inner = _factor(rest, size)
    if inner is not None:
        factor, high, _ = inner
        return build(quotient) + build(high) // (size // factor)
    if quotient.terms or quotient.constant:
        return build(quotient) + build(rest) // size
    return None


def _factor(form: Linear, size: int) -> tuple[int, Linear, Linear] | None:
    """form == g * high + low with 0 <= low < g, for a g > 1 that divides size; None where there is none."""
    for g in sorted({gcd(k, size) for _, k in form.terms}, reverse=True):
        if g > 1:
            high, low = form.split(g)
            lo, hi = low.interval()
            if 0 <= lo and hi < g:
                return g, high, low
    return None


def _remainder(x: UOp, c: UOp) -> UOp | None:
    """(c * q + r) % c == r % c; with 0 <= r < c it is r; (g * h + l) % (g * d) == g * (h % d) + l for 0 <= l < g."""
    size = int(c.value)
    form = linear(x)
    _, rest = form.split(size)
    lo, hi = rest.interval()
    if lo // size == hi // size:
        return build(Linear(rest.terms, rest.constant - lo // size * size))
    inner = _factor(rest, size)
    if inner is not None:
        factor, high, low = inner
        return (build(high) % (size // factor)) * factor + build(low)
    stripped = [
        (t.src[0], k)
        if t.op is Ops.MOD and t.src[1].op is Ops.CONST and int(t.src[1].value) % size == 0
        else (t, k)
        for t, k in rest.terms
    ]
    if stripped != list(rest.terms) or rest != form:
        total = UOp.const(dtypes.index, rest.constant)
        for t, k in stripped:
            total = total + t * k
        return build(linear(total)) % size
    return None


def _compare(x: UOp, y: UOp) -> UOp | None:
    """x < y as `terms < constant`, or `constant < terms` where all coefficients are negative; a factor goes out."""
    form = linear(x - y)
    if not form.terms:
        return TRUE if form.constant < 0 else FALSE
    flipped = all(k < 0 for _, k in form.terms)
    sign = -1 if flipped else 1
    terms = Linear(tuple((t, sign * k) for t, k in form.terms), 0)
    # terms < limit, or limit < terms, which is not (terms < limit + 1)
    limit = form.constant + 1 if flipped else -form.constant
    for g in sorted({abs(k) for _, k in terms.terms}, reverse=True):
        high, low = terms.split(g)
        lo, hi = low.interval()
        if g > 1 and high.terms and 0 <= lo and hi < g and (limit % g == 0 or lo == hi == 0):
            terms, limit = Linear(high.terms, 0), -(-limit // g)
            break
    left = build(terms)
    return (UOp.const(dtypes.index, limit - 1) < left) if flipped else (left < limit)


def _fits(node: UOp, dtype: DType) -> bool:
    lo, hi = bounds(node)
    return bool(dtype.min <= lo and hi <= dtype.max)


def _index_cast(node: UOp) -> UOp | None:
    """x for CAST(x) of an index that keeps its value in an integer type; a constant as an index; else None."""
    if node.op is Ops.CAST and node.src[0].dtype.kind is Kind.INDEX and _fits(node.src[0], node.dtype):
        return node.src[0]
    return UOp.const(dtypes.index, int(node.value)) if node.op is Ops.CONST else None


def _peel(n: UOp) -> UOp | None:
    """op(cast(x), cast(y)) as op(x, y) over the indices, where nothing wraps."""
    sides = [_index_cast(s) for s in n.src]
    if n.shape != () or any(s is None for s in sides) or all(s.op is Ops.CONST for s in n.src):
        return None
    new = UOp(n.op, tuple(s for s in sides if s is not None))
    if new.dtype.kind is Kind.BOOL:
        return new
    return new.cast(n.dtype) if _fits(new, n.dtype) else None


def _through(n: UOp, x: UOp) -> UOp | None:
    """cast(cast(x)) to an integer or index == cast(x), where the first cast keeps every value."""
    inner = n.src[0]
    if x.dtype.kind in INTEGERS and inner.dtype.kind in INTEGERS and _fits(x, inner.dtype):
        return x.cast(n.dtype)
    return None


def _positive(c: UOp) -> bool:
    return bool(c.value > 0)


def _not_less(x: UOp, y: UOp, a: UOp) -> UOp | None:
    """not (x < y) == y < x + 1"""
    return y < x + 1 if a.value and x.dtype.kind is Kind.INDEX else None


index_rules = RuleSet(
    [
        *(
            Rule("collect terms", Pattern(op, None, "n"), _collect, types=INDEX)
            for op in (Ops.ADD, Ops.SUB, Ops.NEG, Ops.MUL)
        ),
        # (x // a) // b == x // (a * b)             floor division; a, b > 0
        Rule("div of div", DIV(DIV(x, a), b), lambda x, a, b: x // (int(a.value) * int(b.value)),
             when=lambda a, b: _positive(a) and _positive(b), types=INDEX),
        Rule("div of sum", DIV(x, c), _divide, when=_positive, types=INDEX),
        Rule("mod of sum", MOD(x, c), _remainder, when=_positive, types=INDEX),
        Rule("compare sums", CMPLT(x, y), _compare, types=INDEX),
        # not (x < y) == y < x + 1
        Rule("not less", CMPNE(CMPLT(x, y), a), _not_less, types=BOOL),
        # max(x, y) where the bounds decide
        Rule("maximum by bounds", MAX(x, y),
             lambda x, y: x if bounds(y)[1] <= bounds(x)[0] else y if bounds(x)[1] <= bounds(y)[0] else None,
             types=INDEX),
        # casts between indices and integers that keep the value
        *(
            Rule("peel casts", Pattern(op, None, "n"), _peel, types=INTEGERS - INDEX)
            for op in (Ops.ADD, Ops.SUB, Ops.MUL, Ops.CMPLT, Ops.CMPEQ, Ops.CMPNE)
        ),
        Rule("cast through", CAST(CAST(x)).named("n"), _through, types=INTEGERS),
    ]
)  # fmt: skip

#: What index arithmetic needs, and no more than holds for every type.
symbolic = folding + decided + identities + index_rules
