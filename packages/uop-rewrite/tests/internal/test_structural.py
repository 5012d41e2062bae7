"""Proofs of rules that move elements or fold axes: by distinct elements in small shapes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from uop_ir import Ops, UOp, dtypes, evaluate, parse_uir, toposort
from uop_rewrite import BOOL, Pattern, Rule, prove_command, var
from uop_rewrite.proofs import prove
from uop_rewrite.prove_command import prove as command

x = var("x")


def p(op: Ops, *src: Pattern, name: str | None = None) -> Pattern:
    return Pattern(op, src, name)


def _windows(x: UOp, n: UOp, m: UOp) -> UOp:
    """Of a window, another."""
    return x.shrink(tuple((p + r, p + s) for (p, _), (r, s) in zip(n.arg, m.arg, strict=True)))


def _halves(x: UOp, m: UOp) -> UOp | None:
    """Of four bools, two at a time: false, true, false, true stay what they are."""
    whole = x.shape == (4,) and m.arg == (False,)
    return x.reshape((2, 2)).flip((True, False)).reshape((4,)) if whole else None


FLIP, PERMUTE, SHRINK, PAD, RESHAPE = Ops.FLIP, Ops.PERMUTE, Ops.SHRINK, Ops.PAD, Ops.RESHAPE
RIGHT = [
    (Rule("flip twice", p(FLIP, p(FLIP, x, name="n"), name="m"), lambda x, n, m: x if n.arg == m.arg else None), True),
    (Rule("reshape twice", p(RESHAPE, p(RESHAPE, x), name="m"), lambda x, m: x.reshape(m.shape)), True),
    (Rule("shrink twice", p(SHRINK, p(SHRINK, x, name="n"), name="m"), _windows), True),
    (Rule("negated later", p(FLIP, p(Ops.NEG, x), name="m"), lambda x, m: -x.flip(m.arg)), False),
    (Rule("greatest of all", p(Ops.REDUCE, p(FLIP, x), name="m"),
          lambda x, m: x.reduce(*m.arg) if m.arg == (Ops.MAX, len(x.shape)) else None), False),
]  # fmt: skip
WRONG = [
    Rule("unmoved", p(FLIP, x), lambda x: x),
    Rule("permuted twice", p(PERMUTE, p(PERMUTE, x)), lambda x: x),
    Rule("padded and cut", p(PAD, p(SHRINK, x), name="m"), lambda x, m: x if m.shape == x.shape else None),
    Rule("reshaped at once", p(RESHAPE, p(PERMUTE, x), name="m"), lambda x, m: x.reshape(m.shape)),
    Rule("sign of a sum", p(Ops.REDUCE, p(Ops.NEG, x), name="m"), lambda x, m: x.reduce(*m.arg)),
    Rule("first axes", p(Ops.REDUCE, p(PERMUTE, x), name="m"), lambda x, m: x.reduce(*m.arg)),
    Rule("halves swapped", p(FLIP, Pattern(types=BOOL, name="x"), name="m"), _halves),
    Rule("raises", p(FLIP, x), lambda x: x.permute((7,))),
]


@pytest.mark.parametrize(("rule", "moves"), RIGHT, ids=lambda r: getattr(r, "name", ""))
def test_right_rules_hold(rule: Rule, moves: bool) -> None:
    proof = prove(rule, wanted=20)
    assert proof.witness is None, proof.witness.text()
    assert (proof.terms, proof.every) == (20, 20 if moves else 0)
    assert proof.verdict == ("proved" if moves else "tested")


@pytest.mark.parametrize("rule", WRONG, ids=lambda r: r.name)
def test_wrong_rules_are_refuted(rule: Rule) -> None:
    proof = prove(rule, wanted=20)
    assert proof.verdict == "refuted"
    witness = proof.witness
    assert witness is not None
    assert parse_uir(f"# after{witness.text().split('# after')[0]}").root is witness.before
    if rule.name != "raises":
        assert any(differ(witness.before, witness.after, seed) for seed in range(5))


def differ(one: UOp, two: UOp, seed: int) -> bool:
    """Whether the interpreter sees a difference on random memory."""
    random = np.random.default_rng(seed)
    memory = {}
    for n in toposort((one, two)):
        if n.op is Ops.PARAM:
            drawn = 9 * random.standard_normal(n.arg.size)
            memory[n] = drawn > 0 if n.dtype is dtypes.bool else drawn.astype(n.dtype.numpy)
    got, want = evaluate([one, two], memory)
    return got.shape == want.shape and bool((got != want).any())


def test_a_rule_without_terms_is_no_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = "from uop_ir import Ops\nfrom uop_rewrite import Pattern, Rule, RuleSet, var\n"
    source += "mine = RuleSet([Rule('never', Pattern(Ops.BARRIER, (var('x'),)), lambda x: x)])\n"
    (tmp_path / "rules_without_terms.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    assert command(["--rules", "rules_without_terms:mine"]) == prove_command.FAILED
    assert "no terms" in capsys.readouterr().out
