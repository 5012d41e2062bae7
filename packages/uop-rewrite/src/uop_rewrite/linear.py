"""Linear forms: an index expression as a sum of integer multiples of terms, and back in one canonical order. Week 1."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from uop_ir import Ops, UOp, dtypes

from .bounds import bounds


@dataclass(frozen=True)
class Linear:
    """`constant + sum(coefficient * term)`; no coefficient is 0, no term is itself a sum or a multiple."""

    terms: tuple[tuple[UOp, int], ...]
    constant: int

    def split(self, divisor: int) -> tuple[Linear, Linear]:
        """This form as `divisor * quotient + rest`: what is divisible, and what is left, constant in [0, divisor)."""
        whole = tuple((t, k // divisor) for t, k in self.terms if k % divisor == 0)
        rest = tuple((t, k) for t, k in self.terms if k % divisor)
        return Linear(whole, self.constant // divisor), Linear(rest, self.constant % divisor)

    def divisors(self) -> int:
        """The greatest common divisor of all coefficients (0 without terms)."""
        return gcd(*(k for _, k in self.terms))

    def interval(self) -> tuple[int, int]:
        """Bounds of the sum."""
        lo = hi = self.constant
        for term, k in self.terms:
            a, b = bounds(term)
            lo, hi = lo + min(a * k, b * k), hi + max(a * k, b * k)
        return lo, hi


def _summands(node: UOp) -> tuple[tuple[UOp, int], ...] | None:
    """What a node is a sum of, each with its coefficient; None where it is no sum and no multiple."""
    match node.op, node.src:
        case Ops.ADD, (p, q):
            return (p, 1), (q, 1)
        case Ops.SUB, (p, q):
            return (p, 1), (q, -1)
        case Ops.NEG, (p,):
            return ((p, -1),)
        case Ops.MUL, (p, q) if q.op is Ops.CONST:
            return ((p, int(q.value)),)
        case Ops.MUL, (p, q) if p.op is Ops.CONST:
            return ((q, int(p.value)),)
    return None


def linear(node: UOp) -> Linear:
    """The linear form of a node of dtype index. Iterative; shared sums are entered once."""
    terms: dict[UOp, int] = {}
    constant = 0
    coefficients = {node: 1}
    for n in reversed(node.toposort(gate=lambda n: _summands(n) is not None)):
        k = coefficients.pop(n, 0)
        if n.op is Ops.CONST:
            constant += k * int(n.value)
            continue
        summands = _summands(n)
        if summands is None:
            if k:
                terms[n] = k
            continue
        for part, factor in summands:
            coefficients[part] = coefficients.get(part, 0) + k * factor
    return Linear(tuple(terms.items()), constant)


def _order(item: tuple[UOp, int]) -> tuple[int, int, int, str]:
    """Greatest multiple first; then products before plain terms, ranges by number, the rest by content."""
    term, k = item
    number = int(term.arg[0]) if term.op is Ops.RANGE else -1
    return -abs(k), 0 if term.op is Ops.MUL else 1, number, term.key


def build(form: Linear) -> UOp:
    """The one node that stands for a linear form: positive multiples, then negative ones, then the constant."""
    out: UOp | None = None
    items = sorted(form.terms, key=_order)
    for term, k in [i for i in items if i[1] > 0] + [i for i in items if i[1] < 0]:
        part = term if abs(k) == 1 else term * abs(k)
        if out is None:
            out = part if k > 0 else (-part if k == -1 else term * k)
        else:
            out = out + part if k > 0 else out - part
    if out is None:
        return UOp.const(dtypes.index, form.constant)
    if form.constant == 0:
        return out
    return out + form.constant if form.constant > 0 else out - -form.constant
