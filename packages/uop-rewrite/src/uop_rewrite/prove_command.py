"""The command `uopc prove`: a table of what speaks for each rule, or a witness against it. Week 1."""

from __future__ import annotations

import importlib
import json
import math
from collections import Counter
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from uop_ir import CommandParser, UopError

from .collapse import collapse
from .proofs import Proof
from .proofs import prove as prove_rule
from .rules import Rule, RuleSet
from .smt import available
from .symbolic import symbolic

#: Values speak against a rule, or nothing speaks for it.
FAILED = 1
#: The columns of the table: field, title, width.
_COLUMNS = (
    ("rule", "rule", -24), ("op", "op", -8), ("kind", "kind", -10), ("verdict", "verdict", -18), ("terms", "terms", 6),
    ("every", "every", 6), ("solved", "solved", 7), ("unsolved", "unsolved", 9), ("wide", "wide", 6),
    ("seconds", "seconds", 8),
)  # fmt: skip
_LEGEND = """
terms: on which the rule fired, of bool, i8, u8, f16 and index; wide: of wider types, special values tried.
every: equal for every value, by brute force; solved: equal for every value, by z3; unsolved: z3 ran out of time.
structural rules, and reductions of axes: terms are of small shapes; every: both sides only move distinct elements.
"""


def prove(argv: list[str]) -> int:
    """Prove rules, one by one: a table of kind, evidence and time, or values that refute one."""
    options = _parser().parse_args(argv)
    if not 0 < options.timeout < math.inf:
        raise UopError(
            f"--timeout {options.timeout} is no number of seconds", remedy="give one greater than 0"
        )
    rules = _chosen(_rules(options.rules), options.rule)
    if not options.json:
        print(_row({field: title for field, title, _ in _COLUMNS}))
    proofs = []
    for rule in rules:
        proof = prove_rule(rule, bits=options.bits, timeout=options.timeout)
        proofs.append(proof)
        if not options.json:
            print(_row(_fields(proof)), flush=True)
            if proof.witness is not None:
                print(proof.witness.text(), end="")
    if options.json:
        print(
            json.dumps(
                {"z3": available(), "bits": options.bits, "rules": [_json(p) for p in proofs]}, indent=1
            )
        )
    else:
        print(_LEGEND + _summary(proofs))
    return FAILED if any(p.verdict in ("refuted", "no terms") for p in proofs) else 0


def _parser() -> CommandParser:
    parser = CommandParser(prog="uopc prove", description=prove.__doc__, allow_abbrev=False)
    parser.add_argument("rule", nargs="*", metavar="RULE", help="names of rules (default: all)")
    parser.add_argument(
        "--bits", type=int, choices=(8, 32), default=8, help="width of z3's integers (default 8)"
    )
    parser.add_argument(
        "--timeout", type=float, default=1.0, metavar="S", help="seconds for a term (default 1)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--rules", metavar="MODULE:NAME", help="a RuleSet in place of symbolic and collapse")
    return parser


def _rules(place: str | None) -> RuleSet:
    if place is None:
        return symbolic + collapse
    module, _, name = place.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise UopError(f"--rules {place}: {error}", remedy="give MODULE:NAME of a RuleSet") from None
    if not isinstance(found, RuleSet):
        raise UopError(f"--rules {place}: {type(found).__name__} is no RuleSet")
    return found


def _chosen(rules: RuleSet, names: Sequence[str]) -> list[Rule]:
    known = dict.fromkeys(r.name for r in rules.rules)
    unknown = [name for name in names if name not in known]
    if unknown:
        near = get_close_matches(unknown[0], known, cutoff=0.4)
        remedy = f"near it: {', '.join(near)}" if near else "without a name, all rules are proved and named"
        raise UopError(f"no rule {unknown[0]!r}", remedy=remedy)
    return [r for r in rules.rules if not names or r.name in names]


def _fields(proof: Proof) -> dict[str, Any]:
    return {field: getattr(proof, field) for field, _, _ in _COLUMNS}


def _row(fields: dict[str, Any]) -> str:
    cells = {k: f"{v:.2f}" if isinstance(v, float) else str(v) for k, v in fields.items()}
    return " ".join(
        cells[field].ljust(-width) if width < 0 else cells[field].rjust(width) for field, _, width in _COLUMNS
    )


def _json(proof: Proof) -> dict[str, Any]:
    witness = proof.witness
    return {**_fields(proof), "witness": None if witness is None else witness.text()}


def _summary(proofs: Sequence[Proof]) -> str:
    counts = Counter(p.verdict for p in proofs)
    text = f"{len(proofs)} rules: {', '.join(f'{n} {verdict}' for verdict, n in counts.items())}"
    if available():
        return text
    return f"{text}\nz3 is not installed, so brute force only (pip install 'uop-rewrite[verify]')"
