"""Simplification under a guard: what a condition that holds says about the terms of another expression. Week 1.

The conditions of a PAD, of a WHERE and of a validity mask are conjunctions of comparisons of index sums. Each bounds a
sum; where the sum stands in an expression, it can be taken for a variable with these bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from uop_ir import Ops, UOp, dtypes

from .bounds import bounds
from .comparison import FALSE, TRUE, complement, less
from .facts import Facts, Span, Terms, fact, meet
from .linear import Linear, compact, linear
from .pattern import COMPARISONS
from .sizes import MOVING, few, smaller

Simplify = Callable[[UOp], UOp]
_GIVEN = "_given"

#: An expression of more nodes is left as it is, and of more clauses, only the first are held against each other.
MOST_NODES = 200
MOST_CLAUSES = 16
#: Ops for whose sake it is worth to know more about their operands.
_PROFIT = frozenset({Ops.DIV, Ops.MOD, Ops.MAX, Ops.CMPLT, Ops.CMPEQ, Ops.CMPNE, Ops.WHERE, Ops.AND, Ops.OR})
#: An expression with one of these depends on more than the values of its leaves, or touches memory though the
#: guard fails.
_IMPURE = MOVING | {
    Ops.INDEX, Ops.LOAD, Ops.REDUCE, Ops.END, Ops.STORE, Ops.AFTER, Ops.STAGE, Ops.CALL, Ops.COPY,
}  # fmt: skip


def clauses(condition: UOp, op: Ops = Ops.AND) -> list[UOp]:
    """The operands of a tree of AND (or OR), left to right, each once."""
    out: dict[UOp, None] = {}
    stack = [condition]
    while stack:
        node = stack.pop()
        if node.op is op:
            stack += [node.src[1], node.src[0]]
        else:
            out[node] = None
    return list(out)


def combine(parts: Iterable[UOp], op: Ops = Ops.AND) -> UOp | None:
    """The tree of AND (or OR) of some conditions, None without any."""
    out: UOp | None = None
    for part in parts:
        out = part if out is None else UOp(op, (out, part))
    return out


def given(conditions: Sequence[UOp], node: UOp, simplify: Simplify) -> UOp:
    """`node` where all conditions hold: an expression that is equal there, with fewer nodes; else `node` itself."""
    nodes = few(node, MOST_NODES)
    if nodes is None or any(n.op in _IMPURE or _is_given(n) for n in nodes):
        return node
    conditions = conditions[:MOST_CLAUSES]
    if (
        not any((n.op in _PROFIT and n is not node) or n in conditions for n in nodes)
        and node.op not in _PROFIT - COMPARISONS
    ):
        return node
    facts = Facts(conditions)
    known = {n: found for n in nodes if n.dtype is dtypes.bool and (found := facts.decide(n)) is not None}
    if known:
        node = _better(node, simplify(node.substitute(known)))
        nodes = node.toposort()
    together: dict[UOp, UOp] = {}
    for number, (terms, (lo, hi)) in enumerate(facts.spans.items()):
        if len(terms) == 1 and terms[0][1] == 1 and terms[0][0] in nodes:
            narrow = _narrow(terms[0][0], lo, hi, number)
            if narrow is not None:
                together[terms[0][0]] = narrow
    if together:
        node = _under(node, together, simplify)
    for number, (terms, (lo, hi)) in enumerate(facts.spans.items()):
        if len(terms) > 1:
            node = _under_sum(node, Linear(terms, 0), lo, hi, number, simplify)
    return node


def _is_given(node: UOp) -> bool:
    """Whether a node has the name of one of the variables that stand for terms under a guard."""
    return node.op is Ops.PARAM and str(node.arg.name).startswith(_GIVEN)


def _narrow(term: UOp, lo: int | None, hi: int | None, number: int) -> UOp | None:
    """A variable, or a constant, in the place of a term whose bounds a fact narrows."""
    least, greatest = bounds(term)
    low, high = max(least, least if lo is None else lo), min(greatest, greatest if hi is None else hi)
    if low > high or (low, high) == (least, greatest):
        return None
    if low == high:
        return UOp.const(dtypes.index, low)
    return UOp.variable(f"{_GIVEN}{number}", low, high)


def _under(node: UOp, new: dict[UOp, UOp], simplify: Simplify) -> UOp:
    """Simplify with some terms replaced by variables, and put them back."""
    back = {v: t for t, v in new.items() if v.op is not Ops.CONST}
    return _better(node, simplify(simplify(node.substitute(new)).substitute(back)))


def _under_sum(
    node: UOp, sum_: Linear, lo: int | None, hi: int | None, number: int, simplify: Simplify
) -> UOp:
    """A fact about a sum: one of its plain terms is written as a variable of these bounds less the others."""
    nodes = node.toposort()
    if any(t not in nodes for t, _ in sum_.terms):
        return node
    least, greatest = sum_.interval()
    low, high = max(least, least if lo is None else lo), min(greatest, greatest if hi is None else hi)
    if low > high or (low, high) == (least, greatest):
        return node
    whole = UOp.variable(f"{_GIVEN}{number}", low, high) if low < high else UOp.const(dtypes.index, low)
    for term, k in sum_.terms:
        if k in (1, -1):
            others = sum_.add(term, -k)
            alone = linear(whole).plus(others, -1)
            tried = simplify(node.substitute({term: compact(Linear((), 0).plus(alone, k))}))
            node = _better(node, simplify(tried.substitute({whole: compact(sum_)} if low < high else {})))
    return node


def _better(old: UOp, new: UOp) -> UOp:
    return new if new.dtype is old.dtype and new.shape == old.shape and smaller(new, old, MOST_NODES) else old


def conjunction(node: UOp, simplify: Simplify) -> UOp | None:
    """An AND whose clauses are held against each other: what others imply goes, what they exclude is false."""
    parts = clauses(node)
    kept = _merge(parts)
    if kept is None:
        return FALSE
    i = 0
    while i < min(len(kept), MOST_CLAUSES):
        others = kept[:i] + kept[i + 1 :]
        new = Facts(others[:MOST_CLAUSES]).decide(kept[i])
        if new is None:
            new = given(others, kept[i], simplify) if others else kept[i]
        if new is FALSE:
            return FALSE
        if new is TRUE:
            del kept[i]
            continue
        kept[i] = new
        i += 1
    if kept == parts:
        return None
    result = combine(kept)
    return TRUE if result is None else result


def _merge(parts: list[UOp]) -> list[UOp] | None:
    """The clauses with those about one sum as one: the narrowest. None where they exclude each other."""
    seen: dict[UOp, None] = {}
    spans: dict[Terms, Span] = {}
    of: dict[Terms, list[UOp]] = {}
    for part in parts:
        if part is FALSE or (fact(part) is None and complement(part) in seen):
            return None
        if part is TRUE:
            continue
        seen[part] = None
        said = fact(part)
        if said is not None:
            spans[said.terms] = meet(spans.get(said.terms, (None, None)), said.span)
            of.setdefault(said.terms, []).append(part)
    merged: dict[UOp, list[UOp]] = {}
    for terms, (least, greatest) in spans.items():
        if least is not None and greatest is not None and least > greatest:
            return None
        first, *others = of[terms]
        new = _within(compact(Linear(terms, 0)), least, greatest) if others else [first]
        if set(new) != {first, *others}:
            merged[first] = new
            merged.update((other, []) for other in others)
    return [kept for part in seen for kept in merged.get(part, [part])]


def _within(node: UOp, least: int | None, greatest: int | None) -> list[UOp]:
    """The clauses that say `least <= node <= greatest`."""
    if least is not None and least == greatest:
        return [node.eq(UOp.const(dtypes.index, least))]
    lower = [] if least is None else [less(UOp.const(dtypes.index, least - 1), node)]
    upper = [] if greatest is None else [less(node, UOp.const(dtypes.index, greatest + 1))]
    return lower + upper


def disjunction(node: UOp, simplify: Simplify) -> UOp | None:
    """An OR by De Morgan's law: the conjunction of the negated clauses, negated."""
    parts = clauses(node, Ops.OR)
    opposite = [complement(p) for p in parts]
    if not set(parts).isdisjoint(opposite):
        return TRUE
    both = combine(opposite)
    if both is None:
        return None
    new = conjunction(both, simplify)
    result = combine([complement(p) for p in (opposite if new is None else clauses(new))], Ops.OR)
    return result if result is not None and smaller(result, node, MOST_NODES) else None
