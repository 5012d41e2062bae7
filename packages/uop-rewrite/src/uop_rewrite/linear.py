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


def linear(node: UOp) -> Linear:
    """The linear form of a node of dtype index. Iterative."""
    terms: dict[UOp, int] = {}
    constant = 0
    stack = [(node, 1)]
    while stack:
        n, k = stack.pop()
        if n.op is Ops.CONST:
            constant += k * int(n.value)
        elif n.op is Ops.ADD:
            stack += [(n.src[1], k), (n.src[0], k)]
        elif n.op is Ops.SUB:
            stack += [(n.src[1], -k), (n.src[0], k)]
        elif n.op is Ops.NEG:
            stack.append((n.src[0], -k))
        elif n.op is Ops.MUL and n.src[1].op is Ops.CONST:
            stack.append((n.src[0], k * int(n.src[1].value)))
        elif n.op is Ops.MUL and n.src[0].op is Ops.CONST:
            stack.append((n.src[1], k * int(n.src[0].value)))
        else:
            terms[n] = terms.get(n, 0) + k
    return Linear(tuple((t, k) for t, k in terms.items() if k), constant)


def _order(item: tuple[UOp, int]) -> tuple[int, int, int, str]:
    """Greatest multiple first; then products before plain terms, ranges by number, the rest by content."""
    term, k = item
    number = int(term.arg[0]) if term.op is Ops.RANGE else -1
    return -abs(k), 0 if term.op is Ops.MUL else 1, number, "" if number >= 0 else term.key


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
