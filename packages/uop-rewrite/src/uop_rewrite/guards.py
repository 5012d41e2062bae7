"""Simplification under a guard: what a condition that holds says about the terms of another expression. Week 1.

The conditions of a PAD, of a WHERE and of a validity mask are conjunctions of comparisons of index sums. Each bounds a
sum; where the sum stands in an expression, it can be taken for a variable with these bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from uop_ir import Kind, Ops, UOp, dtypes

from .bounds import bounds
from .comparison import FALSE, TRUE, complement, less, negated
from .linear import Linear, compact, linear, ordered
from .pattern import COMPARISONS

Simplify = Callable[[UOp], UOp]

#: An expression of more nodes is left as it is, and of more clauses, only the first are held against each other.
MOST_NODES = 200
MOST_CLAUSES = 16
#: Ops for whose sake it is worth to know more about their operands.
_PROFIT = frozenset({Ops.DIV, Ops.MOD, Ops.MAX, Ops.CMPLT, Ops.CMPEQ, Ops.CMPNE, Ops.WHERE, Ops.AND, Ops.OR})
#: An expression with one of these depends on more than the values of its leaves, or touches memory though the
#: guard fails.
_IMPURE = frozenset(
    {Ops.INDEX, Ops.LOAD, Ops.REDUCE, Ops.END, Ops.STORE, Ops.AFTER, Ops.STAGE, Ops.CALL, Ops.COPY}
)


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


@dataclass(frozen=True)
class Fact:
    """`least <= sum(terms) <= greatest`; the first term's coefficient is positive, the sum without common factor."""

    terms: tuple[tuple[UOp, int], ...]
    least: int | None
    greatest: int | None


def fact(clause: UOp) -> Fact | None:
    """What a comparison of indices says; None of another clause. Kept in its memo."""
    if clause.op not in (Ops.CMPLT, Ops.CMPEQ) or clause.src[0].dtype.kind is not Kind.INDEX or clause.shape:
        return None
    if "fact" not in clause.memo:
        clause.memo["fact"] = _fact(clause)
    found: Fact | None = clause.memo["fact"]
    return found


def _fact(clause: UOp) -> Fact | None:
    sum_ = linear(clause.src[0]).plus(linear(clause.src[1]), -1)
    if not sum_.terms:
        return None
    terms, limit = tuple(ordered(sum_.terms)), -sum_.constant
    least: int | None = None
    greatest: int | None = limit - 1
    if clause.op is Ops.CMPEQ:
        least = greatest = limit
    if terms[0][1] < 0:
        terms = tuple((t, -k) for t, k in terms)
        least, greatest = (None if greatest is None else -greatest), (None if least is None else -least)
    return Fact(terms, least, greatest)


class Facts:
    """What a set of clauses says together: the interval of each sum, and conditions that are true as they stand."""

    def __init__(self, conditions: Iterable[UOp]) -> None:
        self.spans: dict[tuple[tuple[UOp, int], ...], tuple[int | None, int | None]] = {}
        self.known: dict[UOp, UOp] = {}
        for clause in conditions:
            said = fact(clause)
            if said is not None:
                least, greatest = self.spans.get(said.terms, (None, None))
                self.spans[said.terms] = _most(least, said.least), _least(greatest, said.greatest)
            else:
                self.known[clause] = TRUE
                self.known[complement(clause)] = FALSE

    def interval(self, sum_: Linear) -> tuple[int, int]:
        """Bounds of a sum: its own, or those of a fact about a part of it and of what is left."""
        least, greatest = sum_.interval()
        coefficients = dict(sum_.terms)
        for terms, (lo, hi) in self.spans.items():
            first, k = terms[0]
            factor, rest = divmod(coefficients.get(first, 0), k)
            if rest or not factor or any(coefficients.get(t, 0) != factor * j for t, j in terms):
                continue
            low, high = sum_.plus(Linear(terms, 0), -factor).interval()
            lower, upper = (lo, hi) if factor > 0 else (hi, lo)
            if lower is not None:
                least = max(least, low + lower * factor)
            if upper is not None:
                greatest = min(greatest, high + upper * factor)
        return least, greatest

    def decide(self, condition: UOp) -> UOp | None:
        """TRUE or FALSE for a condition that the facts decide."""
        if condition in self.known:
            return self.known[condition]
        if (
            condition.op not in COMPARISONS
            or condition.src[0].dtype.kind is not Kind.INDEX
            or condition.shape
        ):
            return None
        if not self.spans:
            return None
        least, greatest = self.interval(linear(condition.src[0]).plus(linear(condition.src[1]), -1))
        if condition.op is Ops.CMPLT:
            return TRUE if greatest < 0 else FALSE if least >= 0 else None
        if least > 0 or greatest < 0:
            return FALSE if condition.op is Ops.CMPEQ else TRUE
        if least == greatest == 0:
            return TRUE if condition.op is Ops.CMPEQ else FALSE
        return None


def _most(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else max(a, b)


def _least(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else min(a, b)


def given(conditions: Sequence[UOp], node: UOp, simplify: Simplify) -> UOp:
    """`node` where all conditions hold: an expression that is equal there, with fewer nodes; else `node` itself."""
    nodes = node.toposort()
    if len(nodes) > MOST_NODES or any(n.op in _IMPURE for n in nodes):
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


def _narrow(term: UOp, lo: int | None, hi: int | None, number: int) -> UOp | None:
    """A variable, or a constant, in the place of a term whose bounds a fact narrows."""
    least, greatest = bounds(term)
    low, high = max(least, least if lo is None else lo), min(greatest, greatest if hi is None else hi)
    if low > high or (low, high) == (least, greatest):
        return None
    if low == high:
        return UOp.const(dtypes.index, low)
    return UOp.variable(f"_given{number}", low, high)


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
    whole = UOp.variable(f"_given{number}", low, high) if low < high else UOp.const(dtypes.index, low)
    for term, k in sum_.terms:
        if k in (1, -1):
            others = sum_.plus(Linear(((term, k),), 0), -1)
            alone = linear(whole).plus(others, -1)
            tried = simplify(node.substitute({term: compact(Linear((), 0).plus(alone, k))}))
            node = _better(node, simplify(tried.substitute({whole: compact(sum_)} if low < high else {})))
    return node


def _better(old: UOp, new: UOp) -> UOp:
    return new if new.dtype is old.dtype and new.shape == old.shape and size(new) < size(old) else old


def size(node: UOp) -> int:
    """How many nodes an expression has."""
    return len(node.toposort())


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
    spans: dict[tuple[tuple[UOp, int], ...], tuple[int | None, int | None]] = {}
    of: dict[tuple[tuple[UOp, int], ...], list[UOp]] = {}
    for part in parts:
        if part is FALSE or (fact(part) is None and complement(part) in seen):
            return None
        if part is TRUE:
            continue
        seen[part] = None
        said = fact(part)
        if said is not None:
            least, greatest = spans.get(said.terms, (None, None))
            spans[said.terms] = _most(least, said.least), _least(greatest, said.greatest)
            of.setdefault(said.terms, []).append(part)
    for terms, (least, greatest) in spans.items():
        if least is not None and greatest is not None and least > greatest:
            return None
        if len(of[terms]) < 2:
            continue
        whole = compact(Linear(terms, 0))
        if least is not None and least == greatest:
            new = [whole.eq(UOp.const(dtypes.index, least))]
        else:
            lower = [less(UOp.const(dtypes.index, least - 1), whole)] if least is not None else []
            upper = [less(whole, UOp.const(dtypes.index, greatest + 1))] if greatest is not None else []
            new = lower + upper
        if set(new) != set(of[terms]):
            first, *rest = of[terms]
            keys = list(seen)
            at = keys.index(first)
            keys = [*keys[:at], *new, *(k for k in keys[at + 1 :] if k not in rest)]
            seen = dict.fromkeys(keys)
    return list(seen)


def disjunction(node: UOp, simplify: Simplify) -> UOp | None:
    """An OR by De Morgan's law: the conjunction of the negated clauses, negated."""
    parts = clauses(node, Ops.OR)
    if any(complement(p) in parts for p in parts):
        return TRUE
    opposite = [negated(p) for p in parts]
    if any(p is None for p in opposite):
        return combine(parts, Ops.OR) if size(node) > size(combine(parts, Ops.OR) or node) else None
    both = combine([p for p in opposite if p is not None])
    new = None if both is None else conjunction(both, simplify)
    if new is None:
        return None
    result = combine([complement(p) for p in clauses(new)], Ops.OR)
    return result if result is not None and size(result) < size(node) else None
