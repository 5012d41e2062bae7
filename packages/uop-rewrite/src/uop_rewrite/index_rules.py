"""Rules for index arithmetic: sums, division and remainder, comparisons, casts. Week 1.

Index arithmetic is over the mathematical integers, so a sum may be reordered and compared freely.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd

from uop_ir import DType, Kind, Ops, UOp, dtypes

from .bounds import bounds
from .linear import Linear, build, linear
from .pattern import CAST, CMPLT, CMPNE, DIV, MAX, MOD, Pattern, a, b, c, x, y
from .rules import BOOL, INDEX, INTEGERS, Rule, RuleSet

TRUE, FALSE = UOp.const(dtypes.bool, True), UOp.const(dtypes.bool, False)


def _collect(n: UOp) -> UOp:
    """The canonical sum: like terms together, and what a division and its remainder make together."""
    form = linear(n)
    return build(_recombine(form))


def _recombine(form: Linear) -> Linear:
    """x % a * k + x // a * (a * k) == x * k, and x % a * k + x // a % b * (a * k) == x % (a * b) * k; a, b > 0."""
    remainders = [t for t, _ in form.terms if _constant_mod(t)]
    while remainders:
        term = remainders.pop()
        coefficients = dict(form.terms)
        source, size, k = term.src[0], int(term.src[1].value), coefficients[term]
        quotient = source // size
        others = [r for r in coefficients if _constant_mod(r) and r.src[0] is quotient]
        for other, merged in (
            (quotient, source),
            *((r, source % (size * int(r.src[1].value))) for r in others),
        ):
            if coefficients.get(other) == k * size:
                del coefficients[term], coefficients[other]
                coefficients[merged] = coefficients.get(merged, 0) + k
                form = linear(_sum(coefficients.items(), form.constant))
                remainders = [t for t, _ in form.terms if _constant_mod(t)]
                break
    return form


def _constant_mod(node: UOp) -> bool:
    """Whether a node is a remainder by a positive constant."""
    return node.op is Ops.MOD and node.src[1].op is Ops.CONST and bool(node.src[1].value > 0)


def _sum(terms: Iterable[tuple[UOp, int]], constant: int) -> UOp:
    """A sum whose terms may themselves be sums, in no particular order."""
    total = UOp.const(dtypes.index, constant)
    for term, k in terms:
        total = total + term * k
    return total


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
            if lo >= 0 and hi < g:
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
    stripped = tuple(
        (t.src[0], k) if _constant_mod(t) and int(t.src[1].value) % size == 0 else (t, k)
        for t, k in rest.terms
    )
    if stripped != rest.terms or rest != form:
        return build(linear(_sum(stripped, rest.constant))) % size
    return None


def _compare(x: UOp, y: UOp) -> UOp | None:
    """x < y with like terms together, each on the side where its multiple is positive; a common factor goes out."""
    form = linear(x - y)
    terms, limit = form.terms, -form.constant  # sum(terms) < limit
    if not terms:
        return TRUE if limit > 0 else FALSE
    for g in sorted({abs(k) for _, k in terms} - {1}, reverse=True):
        # g * high + low < limit is high < ceil((limit - lo) / g), unless it depends on low
        high, low = Linear(terms, 0).split(g)
        lo, hi = low.interval()
        rest = (limit - lo) % g
        if hi - lo < (rest or g):
            terms, limit = high.terms, -((lo - limit) // g)
            break
    left = Linear(tuple((t, k) for t, k in terms if k > 0), 0)
    right = Linear(tuple((t, -k) for t, k in terms if k < 0), limit)
    if not left.terms:
        left, right = Linear((), -limit), Linear(right.terms, 0)
    return build(left) < build(right)


def _fits(node: UOp, dtype: DType) -> bool:
    lo, hi = bounds(node)
    return bool(dtype.min <= lo and hi <= dtype.max)


def _index_cast(node: UOp) -> UOp | None:
    """x for CAST(x) of an index that keeps its value in an integer type; a constant as an index; else None."""
    if node.op is Ops.CAST and node.src[0].dtype.kind is Kind.INDEX and _fits(node.src[0], node.dtype):
        return node.src[0]
    if node.op is Ops.CONST and _fits(node, dtypes.index):
        return UOp.const(dtypes.index, int(node.value))
    return None


def _peel(n: UOp) -> UOp | None:
    """op(cast(x), cast(y)) as op(x, y) over the indices, where nothing wraps."""
    sides = [_index_cast(s) for s in n.src]
    if n.shape != () or any(s is None for s in sides) or all(s.op is Ops.CONST for s in n.src):
        return None
    new = UOp(n.op, tuple(s for s in sides if s is not None))
    if new.dtype.kind is Kind.BOOL:
        return new
    return new.cast(n.dtype) if _fits(new, n.dtype) and _fits(new, new.dtype) else None


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
