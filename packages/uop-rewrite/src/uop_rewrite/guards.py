"""Simplification under a guard: what a condition that holds
says about the terms of another expression. Week 1.

The conditions of a PAD, of a WHERE and of a validity mask are conjunctions of comparisons of index sums. Each
bounds a sum; where the sum stands in an expression, it can be taken for a variable with these bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice

from uop_ir import Ops, UOp, dtypes

from .comparison import FALSE, TRUE, complement, less
from .facts import Facts
from .linear import Linear, compact, linear
from .pattern import COMPARISONS
from .sizes import MOVING, few, smaller
from .written import Fact

Simplify = Callable[[UOp], UOp]
_GIVEN = "_given"

#: An expression of more nodes is left as it is,
#: and of more clauses, only the first are held against each other.
MOST_NODES = 200
MOST_CLAUSES = 16
#: Ops for whose sake it is worth to know more about their operands.
_PROFIT = frozenset({Ops.DIV, Ops.MOD, Ops.MAX, Ops.CMPLT, Ops.CMPEQ, Ops.CMPNE, Ops.WHERE, Ops.AND, Ops.OR})
#: An expression with one of these depends on more than the values of its leaves, or touches memory though the
#: guard fails.
IMPURE = MOVING | {
    Ops.INDEX, Ops.LOAD, Ops.REDUCE, Ops.END, Ops.STORE, Ops.AFTER, Ops.STAGE, Ops.CALL, Ops.COPY,
}  # fmt: skip


def clauses(condition: UOp, op: Ops = Ops.AND) -> list[UOp]:
    """The operands of a tree of AND (or OR), left to right, each once."""
    seen: dict[UOp, None] = {}
    stack = [condition]
    while stack:
        node = stack.pop()
        if node not in seen:
            seen[node] = None
            if node.op is op:
                stack += [node.src[1], node.src[0]]
    return [node for node in seen if node.op is not op]


def combine(parts: Iterable[UOp], op: Ops = Ops.AND) -> UOp | None:
    """The tree of AND (or OR) of some conditions, None without any."""
    out: UOp | None = None
    for part in parts:
        out = part if out is None else UOp(op, (out, part))
    return out


def given(conditions: Iterable[UOp], node: UOp, simplify: Simplify) -> UOp:
    """`node` where all conditions hold: an expression that is equal there,
    with fewer nodes; else `node` itself.
    """
    if node.dtype is not dtypes.bool and not _learns(node):
        return node
    facts = Facts(islice(conditions, MOST_CLAUSES))
    decided = facts.decide(node) if node.dtype is dtypes.bool and node.shape == () else None
    if decided is not None:
        return decided
    return _under(facts, node, simplify) if _learns(node) else node


def _learns(node: UOp) -> bool:
    """Whether there is an operation in a node for whose sake
    it is worth to know more of its leaves. In its memo.
    """
    found: bool | None = node.memo.get("learns")
    if found is None:
        found = node.memo["learns"] = _profits(node)
    return found


def _profits(node: UOp) -> bool:
    nodes = few(node, MOST_NODES)
    if nodes is None:
        return False
    profits = False
    for n in nodes:
        if n.op in IMPURE or _is_given(n):
            return False
        profits = profits or (
            (n.op in _PROFIT or n.dtype is dtypes.bool) and (n is not node or n.op not in COMPARISONS)
        )
    return profits


def _under(facts: Facts, node: UOp, simplify: Simplify) -> UOp:
    """`node` where the facts hold."""
    nodes = node.toposort()
    known = {n: found for n in nodes if n.dtype is dtypes.bool and (found := facts.decide(n)) is not None}
    if known:
        node = _better(node, simplify(_replaced(node, known)))
        nodes = node.toposort()
    narrow: dict[UOp, UOp] = {}
    for number, (term, ends) in enumerate(facts.alone().items()):
        if term in nodes:
            new = _narrow(Fact(((term, 1),), ends), number)
            if new is not None:
                narrow[term] = new
    # a variable in the place of `r % c` would hide what is known of r
    plain = {t: v for t, v in narrow.items() if t.op in (Ops.RANGE, Ops.PARAM)}
    for some in [plain, narrow] if len(plain) < len(narrow) else [narrow]:
        if some:
            back = {v: t for t, v in some.items() if v.op is not Ops.CONST}
            node = _better(node, simplify(simplify(_replaced(node, some)).substitute(back)))
    for number, said in enumerate(facts.sums.values()):
        if len(said.terms) > 1:
            node = _under_sum(node, said, number, simplify)
    return node


def _replaced(node: UOp, new: dict[UOp, UOp]) -> UOp:
    """A node with others in the place of some;
    the sizes of ranges stay, since a range of another size is another.
    """
    ranges = {n: n for n in node.toposort() if n.op is Ops.RANGE and n.src[0].op is not Ops.CONST}
    return node.substitute({**ranges, **new})


def _is_given(node: UOp) -> bool:
    """Whether a node has the name of one of the variables that stand for terms under a guard."""
    return node.op is Ops.PARAM and str(node.arg.name).startswith(_GIVEN)


def _narrow(said: Fact, number: int) -> UOp | None:
    """A variable, or a constant, in the place of a sum whose bounds a fact narrows;
    None where it does not.
    """
    least, greatest = Linear(said.terms, 0).interval()
    lo, hi = said.span
    low, high = max(least, least if lo is None else lo), min(greatest, greatest if hi is None else hi)
    if low > high or (low, high) == (least, greatest):
        return None
    return UOp.variable(f"{_GIVEN}{number}", low, high) if low < high else UOp.const(dtypes.index, low)


def _under_sum(node: UOp, said: Fact, number: int, simplify: Simplify) -> UOp:
    """A fact about a sum: one of its plain terms is written as a variable of these bounds less the others."""
    nodes = node.toposort()
    whole = _narrow(said, number) if all(t in nodes for t, _ in said.terms) else None
    if whole is None:
        return node
    sum_ = Linear(said.terms, 0)
    back = {whole: compact(sum_)} if whole.op is not Ops.CONST else {}
    for term, k in said.terms:
        if k in (1, -1):
            others = sum_.add(term, -k)
            alone = linear(whole).plus(others, -1)
            tried = simplify(_replaced(node, {term: compact(Linear((), 0).plus(alone, k))}))
            node = _better(node, simplify(tried.substitute(back)))
    return node


def _better(old: UOp, new: UOp) -> UOp:
    return new if new.dtype is old.dtype and new.shape == old.shape and smaller(new, old, MOST_NODES) else old


def conjunction(node: UOp, simplify: Simplify) -> UOp | None:
    """An AND whose clauses are held against each other: what others imply goes, what they exclude is false.

    Where all that came of it is that clauses went, nothing more will: the result knows so, in its memo.
    """
    if "held" in node.memo:
        return None
    parts = clauses(node)
    facts = Facts(parts)
    kept = _merge(parts, facts)
    if kept is None:
        return FALSE
    if kept != parts or len(kept) > MOST_CLAUSES:
        facts = Facts(kept[: MOST_CLAUSES + 1])
    changed = False
    i = 0
    while i < min(len(kept), MOST_CLAUSES):
        clause = kept[i]
        new = facts.others_decide(clause)
        if new is None and _learns(clause):
            others = kept[:i] + kept[i + 1 :]
            new = _under(Facts(others[:MOST_CLAUSES]), clause, simplify)
        if new is None or new is clause:
            i += 1
            continue
        if new is FALSE:
            return FALSE
        if new is TRUE or new in kept:
            del kept[i]
        else:
            kept[i] = new
            changed = True
            i += 1
        facts = Facts(kept[: MOST_CLAUSES + 1])
    if kept == parts and _joins(node) < len(parts):
        return None
    result = combine(kept) or TRUE
    if not changed and len(parts) <= MOST_CLAUSES:
        result.memo["held"] = True
    return result


def _joins(node: UOp) -> int:
    """Of how many ANDs a conjunction is made: of more than its clauses need,
    where it has some of them twice.
    """
    return sum(n.op is Ops.AND for n in node.toposort(gate=lambda n: n.op is Ops.AND))


def _merge(parts: list[UOp], facts: Facts) -> list[UOp] | None:
    """The clauses with those about one sum as one: the narrowest. None where they exclude each other."""
    if any(part is FALSE or facts.known.get(part) is FALSE for part in parts):
        return None
    merged: dict[UOp, list[UOp]] = {TRUE: []}
    for terms, about in facts.about.items():
        if len(about) == 1:
            continue
        least, greatest = facts.sums[terms].span
        if least is not None and greatest is not None:
            if least > greatest:
                return None
            if least < greatest and len(about) == 2 and all(None in said.span for said in about.values()):
                continue  # one of them says the one end, the other the other end
        new = _within(compact(Linear(terms, 0)), least, greatest)
        if set(new) != about.keys():
            merged.update((part, []) for part in about)
            merged[next(iter(about))] = new
    return [kept for part in parts for kept in merged.get(part, [part])]


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
