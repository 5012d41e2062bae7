"""Terms as formulas of the solver z3, and the proof that two
are equal for all values of their variables. Week 1.

An index is a mathematical integer. An i8 or u32 is a bit vector, or, in a term with an index in it, an
integer that wraps: solvers are bad at going from one to the other, so both are tried. A float is z3's own.
What each op is stands in `smt_rows`. z3 comes with `uop-rewrite[verify]`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from uop_ir import AddrSpace, Const, DType, Kind, Ops, UOp, dtypes, toposort

from .smt_rows import BITWISE, CONVERSIONS, FLOAT_BITS, QUIET, ROWS, Formula, wrapped
from .witness import is_variable

try:
    import z3
except ImportError:  # the extra is not installed: brute force only
    z3 = None

PROVED, UNKNOWN, DIFFERENT, UNTRANSLATED = "proved", "unknown", "different", "not translated"


@dataclass(frozen=True)
class Answer:
    """What the solver says. UNKNOWN: nothing in time. UNTRANSLATED: it depends on a node that has no formula.

    `values` are those of the variables for which the terms are DIFFERENT.
    """

    verdict: str
    values: Mapping[UOp, Any] | None = None


def available() -> bool:
    """Whether z3 is installed."""
    return z3 is not None


def prove_equal(before: UOp, after: UOp, timeout: float) -> Answer:
    """Whether two terms are equal for all values of their variables within their bounds.

    `timeout` in seconds, for each of the two ways in which a term
    with both indices and other integers can be read.
    """
    order = toposort((before, after))
    ways: tuple[bool, ...] = (False,)
    if any(n.dtype is dtypes.index for n in order):
        ways = (False, True) if any(n.op in BITWISE for n in order) else (True, False)
        ways = ways if any(n.dtype.is_int for n in order) else (True,)
    answer = Answer(UNKNOWN)
    for integers in ways:
        answer = ask(before, after, timeout, integers)
        if answer.verdict != UNKNOWN:
            break
    return answer


def ask(before: UOp, after: UOp, timeout: float, integers: bool) -> Answer:
    """As `prove_equal`, in one way: integers that wrap as `integers`, or as bit vectors."""
    translation = Translation(integers)
    one, two = translation.formula(before), translation.formula(after)
    solver = z3.Solver()
    solver.set("timeout", int(timeout * 1000))
    solver.add(*translation.facts, one != two)
    found = solver.check()
    if found == z3.unsat:
        return Answer(PROVED)
    if translation.opaque:
        return Answer(UNTRANSLATED)
    return Answer(UNKNOWN) if found == z3.unknown else Answer(DIFFERENT, translation.values(solver.model()))


class Translation:
    """Formulas of terms, and what is known of their variables: `facts`.

    A node that z3 has no word for stands for any value of its type,
    the same in both terms: what is proved so holds.
    """

    def __init__(self, integers: bool) -> None:
        self.integers = integers
        self.facts: list[Formula] = []
        self.opaque: list[UOp] = []
        self._formulas: dict[UOp, Formula] = {}

    def family(self, dtype: DType) -> str:
        """Which rows of ROWS speak of a type."""
        if dtype.is_int:
            return "wrapping" if self.integers else "vector"
        return dtype.kind.value

    def sort(self, dtype: DType) -> Formula:
        if dtype is dtypes.bool:
            return z3.BoolSort()
        if dtype.is_float:
            return z3.FPSort(*FLOAT_BITS[dtype])
        return z3.IntSort() if self.family(dtype) in ("index", "wrapping") else z3.BitVecSort(dtype.bits)

    def formula(self, term: UOp) -> Formula:
        """The formula of a term of shape (). Iterative."""
        for node in term.toposort(gate=lambda n: n not in self._formulas):
            if node not in self._formulas:
                self._formulas[node] = self._formula(node)
        return self._formulas[term]

    def _formula(self, node: UOp) -> Formula:
        if is_variable(node):
            return self._variable(node)
        if node.op is Ops.CONST:
            return self._constant(node)
        if node.dtype is dtypes.void or node.addrspace is not AddrSpace.ALU:
            return None  # memory is looked at by LOAD
        operands = [self._formulas[s] for s in node.src]
        if node.op is Ops.LOAD and node.src[0].op is Ops.INDEX and node.src[0].src[0].op is Ops.PARAM:
            return self._load(node.src[0])
        if node.op is Ops.WHERE:
            return z3.If(*operands)
        family = self.family(node.src[0].dtype) if node.src else ""
        row = CONVERSIONS.get((node.op, family, self.family(node.dtype)))
        if row is not None:
            return row(node.src[0].dtype, node.dtype, *operands)
        row = ROWS.get(family, {}).get(node.op)
        if row is None:
            self.opaque.append(node)
            return self._variable(node)
        out = row(node.src[0].dtype, *operands)
        return wrapped(node.dtype, out) if family == "wrapping" and node.dtype is not dtypes.bool else out

    def _variable(self, node: UOp) -> Formula:
        """What is known of it is its type, and the bounds that its arg states:
        no analysis of ours is believed.
        """
        out = z3.Const(f"{node.op.value}_{node.key}", self.sort(node.dtype))
        if node.op in (Ops.RANGE, Ops.SPECIAL):
            self.facts += [out >= 0, out < self._formulas[node.src[0]]]
        elif node.dtype.is_int and self.integers:
            self.facts += [out >= int(node.dtype.min), out <= int(node.dtype.max)]
        elif node.op is Ops.PARAM and node.dtype is dtypes.index:
            self.facts += [out >= node.arg.min, out <= node.arg.max]
        return out

    def _load(self, place: UOp) -> Formula:
        """Memory is a function of the position; where the access is invalid, 0 is read."""
        memory, at, *valid = place.src
        function = z3.Function(f"memory_{memory.key}", z3.IntSort(), self.sort(place.dtype))
        value = function(self._formulas[at])
        if z3.is_int(value):
            self.facts += [value >= int(place.dtype.min), value <= int(place.dtype.max)]
        return z3.If(self._formulas[valid[0]], value, self._constant(place.const_like(0))) if valid else value

    def _constant(self, node: UOp) -> Formula:
        dtype, sort, bits = node.dtype, self.sort(node.dtype), node.arg.bits
        if dtype is dtypes.bool:
            return z3.BoolVal(bool(bits))
        return z3.fpBVToFP(z3.BitVecVal(bits, dtype.bits), sort) if dtype.is_float else sort.cast(bits)

    def values(self, model: Formula) -> dict[UOp, Any]:
        """What a model gives to the variables."""
        return {n: _value(n.dtype, model, f) for n, f in self._formulas.items() if is_variable(n)}


def _value(dtype: DType, model: Formula, variable: Formula) -> Any:
    if dtype.is_float:
        found = model.eval(
            z3.If(z3.fpIsNaN(variable), z3.BitVecVal(QUIET[dtype], dtype.bits), z3.fpToIEEEBV(variable)),
            model_completion=True,
        )
        return Const(dtype, found.as_long()).value
    found = model.eval(variable, model_completion=True)
    if dtype is dtypes.bool:
        return z3.is_true(found)
    return found.as_signed_long() if z3.is_bv(found) and dtype.kind is Kind.SIGNED else found.as_long()
