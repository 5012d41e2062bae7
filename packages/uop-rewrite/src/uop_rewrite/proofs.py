"""Proofs of rules: what speaks for each one, or values that speak against it. Week 1.

Each rule is held against the interpreter on terms on which it fires: for all values of their variables where
those are few, and with z3, where it is installed, for all values of all terms. See docs/proofs.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter

from uop_ir import INDEX_MAPS, DType, Ops, UOp, dtypes

from .instances import RuleFailedError, instances
from .pattern import Pattern
from .rules import Rule
from .smt import DIFFERENT, PROVED, UNKNOWN, available, prove_equal
from .structural import instances as shaped_instances
from .structural import is_shaped, only_moves
from .witness import Witness, at_values, differing, search

#: The types on whose values brute force can be complete; with z3 at 32 bits, others in their place.
SMALL = (dtypes.bool, dtypes.i8, dtypes.u8, dtypes.f16, dtypes.index)
AT_32_BITS = (dtypes.bool, dtypes.i32, dtypes.u32, dtypes.f32, dtypes.index)
#: The types of which special values are tried.
WIDE = tuple(d for d in dtypes.all if d not in SMALL or d is dtypes.bool)
#: Random terms that are tried for each one wanted.
_ATTEMPTS = 200


@dataclass
class Proof:
    """What was found out about a rule, and in how many terms on which it fires.

    terms: those of small types; every: of them, those equal for every value by brute force; solved: those
    equal for every value by z3; unsolved: those on which z3 gave no answer in time and brute force was not
    complete; wide: terms of wider types, equal for special values. A rule is refuted by its `witness`.
    """

    rule: str
    op: str
    kind: str
    terms: int = 0
    every: int = 0
    solved: int = 0
    unsolved: int = 0
    wide: int = 0
    seconds: float = 0.0
    witness: Witness | None = None
    _open: int = field(default=0, repr=False)

    @property
    def verdict(self) -> str:
        """refuted; no terms: it never fired; unknown: z3 ran out of time;
        proved: for all values of all terms; tested.
        """
        if self.witness is not None:
            return "refuted"
        if not self.terms + self.wide:
            return "no terms"
        if self.unsolved:
            return "unknown (timeout)"
        return "proved" if self.terms and not self._open else "tested"


def kind_of(pattern: Pattern) -> str:
    """scalar, structural (it moves elements) or reduction, by the ops of a pattern."""
    ops, stack = set(), [pattern]
    while stack:
        part = stack.pop()
        ops.add(part.op)
        stack += part.src or ()
    return "reduction" if Ops.REDUCE in ops else "structural" if ops & set(INDEX_MAPS) else "scalar"


def prove(rule: Rule, *, bits: int = 8, timeout: float = 1.0, wanted: int = 40) -> Proof:
    """Look for values that refute a rule, and for proofs that there are none.

    `bits`: the width of the integers that z3 reasons about, 8 or 32. `timeout`: seconds for each term.
    `wanted`: random terms, beside those with plain variables.
    """
    start = perf_counter()
    proof = Proof(
        rule.name, "any" if rule.pattern.op is None else rule.pattern.op.value, kind_of(rule.pattern)
    )
    try:
        if is_shaped(rule.pattern):
            _prove_shaped(proof, rule, wanted)
        else:
            _prove_scalar(proof, rule, bits, timeout, wanted)
    except RuleFailedError as failed:
        proof.witness = Witness(failed.before, failed.before, {}, ("a value", f"the rule raised {failed}"))
    proof.seconds = perf_counter() - start
    return proof


def _prove_shaped(proof: Proof, rule: Rule, wanted: int) -> None:
    """By distinct elements in small shapes: for all values,
    where nothing is done to these but to move them.
    """
    for before, after in shaped_instances(rule, wanted, wanted * _ATTEMPTS):
        proof.terms += 1
        proof.witness = differing(before, after)
        if proof.witness is not None:
            return
        complete = only_moves(before) and only_moves(after)
        proof.every += complete
        proof._open += not complete


def _prove_scalar(proof: Proof, rule: Rule, bits: int, timeout: float, wanted: int) -> None:
    solver = timeout if available() and proof.kind == "scalar" else None
    _prove(proof, rule, SMALL, wanted, solver if bits == 8 else None)
    if solver is not None and bits != 8:
        _prove(proof, rule, AT_32_BITS, wanted, solver)
    for before, after in instances(rule, WIDE, wanted // 4, wanted // 4 * _ATTEMPTS):
        proof.wide += 1
        proof.witness = proof.witness or search(before, after).witness


def _prove(proof: Proof, rule: Rule, types: Sequence[DType], wanted: int, timeout: float | None) -> None:
    for before, after in instances(rule, types, wanted, wanted * _ATTEMPTS):
        proof.terms += 1
        found = search(before, after)
        proof.every += found.complete
        verdict = None
        if found.witness is None and timeout is not None:
            verdict, found_by_z3 = _solve(before, after, timeout)
            proof.witness = proof.witness or found_by_z3
        proof.witness = proof.witness or found.witness
        if proof.witness is not None:
            return
        proof.solved += verdict == PROVED
        proof.unsolved += verdict == UNKNOWN and not found.complete
        proof._open += not (found.complete or verdict == PROVED)


def _solve(before: UOp, after: UOp, timeout: float) -> tuple[str, Witness | None]:
    """z3's verdict. Values that it finds count once the interpreter has confirmed them."""
    answer = prove_equal(before, after, timeout)
    if answer.verdict is not DIFFERENT or answer.values is None:
        return answer.verdict, None
    witness = at_values(before, after, answer.values)
    return (UNKNOWN, None) if witness is None else (DIFFERENT, witness)
