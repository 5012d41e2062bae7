"""Linear forms: an integer expression as a sum of integer multiples of terms,
and back in one canonical order. Week 1.

Over the mathematical integers for index;
modulo the type's size for integers that wrap, where the same sums are equal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import gcd
from typing import NamedTuple

from uop_ir import DType, Ops, UOp, dtypes

from . import value_sets as sets
from .bounds import values
from .value_sets import ValueSet
from .written import is_sum, operations, summands

_DIGITS = re.compile(r"[0-9]+")


class Linear(NamedTuple):
    """`constant + sum(coefficient * term)`; no coefficient is 0, no term is itself a sum or a multiple."""

    terms: tuple[tuple[UOp, int], ...]
    constant: int

    def split(self, divisor: int) -> tuple[Linear, Linear]:
        """This form as `divisor * quotient + rest`:
        what is divisible, and what is left, constant in [0, divisor).
        """
        whole = tuple([(t, k // divisor) for t, k in self.terms if k % divisor == 0])
        rest = tuple([(t, k) for t, k in self.terms if k % divisor])
        return Linear(whole, self.constant // divisor), Linear(rest, self.constant % divisor)

    def divisors(self) -> int:
        """The greatest common divisor of all coefficients (0 without terms)."""
        return gcd(*(k for _, k in self.terms))

    def values(self) -> ValueSet:
        """What the sum can be."""
        total = sets.constant(self.constant)
        for term, k in self.terms:
            total = sets.add(total, sets.multiply(values(term), sets.constant(k)))
        return total

    def interval(self) -> tuple[int, int]:
        """Bounds of the sum: those of `values` without the steps, which take longer."""
        least = greatest = self.constant
        for term, k in self.terms:
            low, high, _, _ = values(term)
            least += k * (low if k > 0 else high)
            greatest += k * (high if k > 0 else low)
        return least, greatest

    def plus(self, other: Linear, factor: int = 1) -> Linear:
        """This form and `factor` times another."""
        if not other.terms:
            return Linear(self.terms, self.constant + factor * other.constant)
        terms = dict(self.terms)
        for term, k in other.terms:
            terms[term] = terms.get(term, 0) + factor * k
        return form(terms, self.constant + factor * other.constant)

    def add(self, term: UOp, k: int) -> Linear:
        """This form and `k` times a term."""
        return self.plus(Linear(((term, 1),), 0), k)


def form(terms: Mapping[UOp, int], constant: int) -> Linear:
    """The form with these coefficients, those that are 0 left out."""
    return Linear(tuple([item for item in terms.items() if item[1]]), constant)


def saves(old: Sequence[UOp], new: Sequence[UOp]) -> int | None:
    """How many operations new sums save in the place of old ones; None where that could cost too many nodes.

    They may cost one node more, and no more than they save:
    where others use all sums within the old ones, of which only one then goes.
    """
    saved = sum(map(operations, old)) - sum(map(operations, new))
    added = len(_sums(new) - _sums(old)) - 1
    return saved if added <= min(saved, 1) else None


def _sums(nodes: Sequence[UOp]) -> set[UOp]:
    return {n for node in nodes for n in node.toposort(gate=is_sum) if is_sum(n)}


def shallow(node: UOp) -> Linear:
    """The linear form of a sum, a difference or a multiple over its operands as they are."""
    terms: dict[UOp, int] = {}
    constant = 0
    for part, k in summands(node) or ((node, 1),):
        if part.op is Ops.CONST:
            constant += k * part.arg.bits
        else:
            terms[part] = terms.get(part, 0) + k
    return _in_type(terms, constant, node.dtype)


def linear(node: UOp) -> Linear:
    """The linear form of a node of dtype index or integer. Iterative; shared sums are entered once.

    A sum keeps it in its memo; a node that is its own term cannot, or it would never die.
    """
    found: Linear | None = node.memo.get("linear")
    if found is None:
        if node.op is Ops.CONST:
            return Linear((), node.arg.bits)
        if not is_sum(node):
            return _term(node)
        found = node.memo["linear"] = _linear(node)
    return found


def _linear(node: UOp) -> Linear:
    terms: dict[UOp, int] = {}
    constant = 0
    coefficients = {node: 1}
    for n in reversed(node.toposort(gate=lambda n: "linear" not in n.memo and is_sum(n))):
        k = coefficients.pop(n, 0)
        if not k:
            continue
        if n.op is Ops.CONST:
            constant += k * n.arg.bits
            continue
        known = n.memo.get("linear")
        parts = summands(n) if known is None else None
        if known is not None:
            constant += k * known.constant
            for term, factor in known.terms:
                terms[term] = terms.get(term, 0) + k * factor
        elif parts is None:
            only = _term(n)
            constant += k * only.constant
            for term, factor in only.terms:
                terms[term] = terms.get(term, 0) + k * factor
        else:
            for part, factor in parts:
                coefficients[part] = coefficients.get(part, 0) + k * factor
    return _in_type(terms, constant, node.dtype)


def _in_type(terms: Mapping[UOp, int], constant: int, dtype: DType) -> Linear:
    """The form with these coefficients, modulo the size of a type that wraps."""
    if not dtype.is_int:
        return form(terms, constant)
    return form({t: _wrapped(k, dtype) for t, k in terms.items()}, _wrapped(constant, dtype))


def _term(node: UOp) -> Linear:
    """The form of what is no sum: itself, or the one value that its bounds leave."""
    only = values(node)
    return Linear((), only.offset) if only.step == 0 and node.shape == () else Linear(((node, 1),), 0)


def _wrapped(k: int, dtype: DType) -> int:
    """A coefficient modulo the type's size, the one nearest to 0."""
    half = 1 << (dtype.bits - 1)
    return (k + half) % (2 * half) - half


def build(sum_: Linear, dtype: DType = dtypes.index) -> UOp:
    """The one node that stands for a linear form:
    positive multiples, then negative ones, then the constant.
    """
    return _add(ordered(sum_.terms), sum_.constant, dtype)


def compact(sum_: Linear, dtype: DType = dtypes.index) -> UOp:
    """The node of a linear form with few nodes: terms of one coefficient are added before they are
    multiplied, and multiples of multiples are nested (Horner's scheme) where that saves a constant.

    A sum within another is what `compact` makes of it, so that each form has one node, wherever it stands.
    """
    if len(sum_.terms) < 2:
        return _add(sum_.terms, sum_.constant, dtype)
    terms = ordered(sum_.terms)
    groups: dict[int, list[tuple[UOp, int]]] = {}
    for term, k in terms:
        groups.setdefault(abs(k), []).append((term, k))
    sizes = list(groups)
    nested = len(sizes) > 1 and _nests(sizes, sum_)
    if not nested and len(sizes) == len(terms):
        return _add(terms, sum_.constant, dtype)
    if nested:
        factor = min(size for size in sizes if size > 1)
        groups[factor] = [item for size in sizes if size % factor == 0 for item in groups[size]]
        sizes = [size for size in sizes if size % factor or size == factor]
    parts: list[tuple[UOp, int]] = []
    for size in sizes:
        members = groups[size]
        if size == 1 or len(members) == 1:
            parts += members
            continue
        sign = size if any(k > 0 for _, k in members) else -size
        parts.append((compact(Linear(tuple((t, k // sign) for t, k in members), 0), dtype), sign))
    return _add(parts, sum_.constant, dtype)


def _nests(sizes: Sequence[int], sum_: Linear) -> bool:
    """Whether Horner's scheme needs no more constants than the products as they are."""
    ratios = [p // q if p % q == 0 else p for p, q in zip(sizes, [*sizes[1:], 1], strict=True)]
    if ratios == sizes:
        return False
    other = {abs(sum_.constant)}
    level = [t for t, _ in sum_.terms]
    for _ in range(3):
        level = [s for t in level for s in t.src]
        other.update(s.arg.bits for s in level if s.op is Ops.CONST)
    return len({*ratios, *other} - {1}) <= len({*sizes, *other} - {1})


def _add(parts: Sequence[tuple[UOp, int]], constant: int, dtype: DType) -> UOp:
    positive = [p for p in parts if p[1] > 0]
    total: UOp | None = None
    if parts and not positive and (constant > 0 or (constant and parts[0][1] == -1)):  # c - x, not -x + c
        total, constant = UOp.const(dtype, constant), 0
    for term, k in positive + [p for p in parts if p[1] < 0]:
        part = term if abs(k) == 1 else term * abs(k)
        if total is None:
            total = part if k > 0 else (-part if k == -1 else term * k)
        else:
            total = UOp(Ops.ADD if k > 0 else Ops.SUB, (total, part))
    if total is None:
        return UOp.const(dtype, constant)
    if constant == 0:
        return total
    shared = not positive and constant == parts[0][1]  # x * -4 + -4 has one constant, x * -4 - 4 two
    return total + constant if constant > 0 or shared or -constant > dtype.max else total - -constant


def ordered(terms: tuple[tuple[UOp, int], ...]) -> list[tuple[UOp, int]]:
    """Greatest multiple first; then products before plain terms,
    variables by name, ranges by number, the others.

    Of these, the higher an index is, the later it comes: a sum that is computed from another one goes on
    where that ends, so that both share what they have in common.
    What is still alike is ordered by content, whose digest costs more.
    """
    sizes = {abs(item[1]): item for item in terms}
    if len(sizes) == len(terms):
        return [sizes[size] for size in sorted(sizes, reverse=True)]
    ranked = {_rank(item): item for item in terms}
    if len(ranked) < len(terms):
        return sorted(terms, key=lambda item: (_rank(item), item[0].key))
    return [ranked[rank] for rank in sorted(ranked)]


def _rank(item: tuple[UOp, int]) -> tuple[int, bool, int, int, str]:
    term, k = item
    is_range, is_variable = term.op is Ops.RANGE, term.op is Ops.PARAM
    return (
        -abs(k),
        term.op is not Ops.MUL,
        0 if is_range or is_variable or term.dtype.is_int else _height(term),
        int(term.arg[0]) if is_range else -1,
        _natural(str(term.arg.name)) if is_variable else "",
    )


def _height(node: UOp) -> int:
    """How many nodes are above one another in a term."""
    if "height" not in node.memo:
        for n in node.toposort(gate=lambda n: "height" not in n.memo):
            n.memo["height"] = 1 + max([s.memo["height"] for s in n.src], default=0)
    found: int = node.memo["height"]
    return found


def _natural(name: str) -> str:
    """A name to sort by, x2 before x10."""
    return _DIGITS.sub(lambda found: found[0].zfill(9), name)
