"""Proofs of rules: the rules of this package hold, and wrong ones of each kind are refuted by values."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from uop_ir import AxisType, Kind, Ops, Param, UOp, UopError, dtypes, evaluate, parse_uir
from uop_rewrite import (
    FLOATS,
    INDEX,
    INTEGERS,
    Pattern,
    Rule,
    collapse,
    const,
    prove_command,
    smt,
    symbolic,
    var,
)
from uop_rewrite.proofs import Proof, prove
from uop_rewrite.prove_command import prove as command
from uop_rewrite.witness import contents, search

x, y, z, a, b = var("x"), var("y"), var("z"), const("a"), const("b")
SIGNED = frozenset({Kind.SIGNED})
WRAPPING = frozenset({Kind.SIGNED, Kind.UNSIGNED})


def p(op: Ops, *src: Pattern) -> Pattern:
    return Pattern(op, src or None)


def _repeat_once_less(n: UOp) -> UOp | None:
    value, *ranges = n.src
    if n.arg != (Ops.ADD, 0) or len(ranges) > 1 or any(r in value.toposort() for r in ranges):
        return None
    return value * (ranges[0].src[0] - 1).cast(n.dtype)


def _forget_the_guard(n: UOp) -> UOp | None:
    value, *ranges = n.src
    if (
        n.arg != (Ops.ADD, 0)
        or len(ranges) > 1
        or value.op is not Ops.WHERE
        or value.src[0].op is not Ops.CMPEQ
    ):
        return None
    r, at = value.src[0].src
    return value.src[1].substitute({r: at}) if r is ranges[0] and r not in at.toposort() else None


def _free_range(n: UOp) -> UOp | None:
    return n.src[0] if n.arg == (Ops.MAX, 0) else None


#: Rules that look right.
WRONG: dict[str, Rule] = {
    rule.name: rule
    for rule in (
        Rule("times zero", p(Ops.MUL, x, a), lambda x, a: a, lambda a: a.value == 0, FLOATS),
        Rule("plus zero", p(Ops.ADD, x, a), lambda x, a: x, lambda a: a.value == 0, FLOATS),
        Rule("minus itself", p(Ops.SUB, x, x), lambda x: x.const_like(0), types=FLOATS),
        Rule("divided by itself", p(Ops.DIV, x, x), lambda x: x.const_like(1), types=FLOATS),
        Rule("maximum commutes", p(Ops.MAX, x, y), lambda x, y: y.maximum(x), types=FLOATS),
        Rule("equal to itself", p(Ops.CMPEQ, x, x), lambda x: UOp.const(dtypes.bool, True), types=FLOATS),
        Rule("sum on one side", p(Ops.CMPLT, p(Ops.ADD, x, a), b), lambda x, a, b: x < b.value - a.value,
             types=SIGNED),
        Rule("times and divided", p(Ops.DIV, p(Ops.MUL, x, a), a), lambda x, a: x, lambda a: a.value != 0, WRAPPING),
        Rule("divided by itself (i)", p(Ops.DIV, x, x), lambda x: x.const_like(1), types=INTEGERS),
        Rule("divided twice", p(Ops.DIV, p(Ops.DIV, x, a), b), lambda x, a, b: x // (a.value * b.value + 1),
             lambda a, b: a.value > 0 and b.value > 0, INDEX),
        Rule("divided twice, any sign", p(Ops.DIV, p(Ops.DIV, x, a), b), lambda x, a, b: x // (a.value * b.value),
             types=INDEX),
        Rule("no borrow", p(Ops.DIV, p(Ops.ADD, x, a), b), lambda x, a, b: x // b.value + a.value // b.value,
             lambda b: b.value > 0, INDEX),
        Rule("remainder of a small", p(Ops.MOD, x, a), lambda x, a: x, lambda a: a.value > 4, INDEX),
        Rule("shifted back", p(Ops.SHL, p(Ops.SHR, x, a), a), lambda x, a: x, types=WRAPPING),
        Rule("and one", p(Ops.AND, x, a), lambda x, a: x, lambda a: a.value == 1, WRAPPING),
        Rule("branches swapped", p(Ops.WHERE, a, x, y), lambda a, x, y: y if a.value else x),
        Rule("cast twice", p(Ops.CAST, p(Ops.CAST, x)).named("n"), lambda n, x: x.cast(n.dtype), types=INTEGERS),
        Rule("another type", p(Ops.CAST, x).named("n"), lambda n, x: x),
        Rule("raises", p(Ops.NEG, x), lambda x: UOp(Ops.AND, (x, x)), types=FLOATS),
        Rule("once less", p(Ops.REDUCE).named("n"), _repeat_once_less, types=INTEGERS),
        Rule("out of the table", p(Ops.REDUCE).named("n"), _forget_the_guard, types=INTEGERS),
        Rule("a range that nothing closes", p(Ops.REDUCE).named("n"), _free_range, types=INTEGERS),
    )
}  # fmt: skip


def differ(before: UOp, after: UOp, values: dict[UOp, Any]) -> bool:
    """Whether the interpreter sees a difference."""
    fixed = {leaf: value for leaf, value in values.items() if leaf.op is Ops.PARAM}
    fixed |= {n: contents(n) for t in (before, after) for n in t.toposort() if n.op is Ops.PARAM and n.shape}
    ranges = {leaf: UOp.const(dtypes.index, int(v)) for leaf, v in values.items() if leaf.op is Ops.RANGE}
    one, two = evaluate([t.substitute(ranges) for t in (before, after)], fixed)
    return one.tobytes() != two.tobytes() and not (np.isnan(one) and np.isnan(two))


@pytest.mark.net
@pytest.mark.parametrize("name", WRONG)
def test_wrong_rule_is_refuted(name: str) -> None:
    proof = prove(WRONG[name], wanted=20)
    assert proof.verdict == "refuted"
    witness = proof.witness
    assert witness is not None
    if witness.before is not witness.after and witness.results[1][0].isdigit():
        assert differ(witness.before, witness.after, dict(witness.values))
    sides = witness.text().split("# after")
    assert parse_uir(f"# after{sides[0]}").root is witness.before
    assert parse_uir(f"# after{sides[1]}").root is witness.after


@pytest.mark.net
@pytest.mark.parametrize(
    "rule", [pytest.param(r, id=f"{r.name}-{r.pattern.op}") for r in (symbolic + collapse).rules]
)
def test_rules_of_this_package_hold(rule: Rule, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smt, "z3", None)
    proof = prove(rule, wanted=3)
    assert proof.witness is None, proof.witness.text()
    assert proof.terms + proof.wide, "no term on which it fires"
    assert proof.verdict in ("proved", "tested")


def test_kinds_and_verdicts() -> None:
    rules = {r.name: r for r in (symbolic + collapse).rules}
    assert prove(rules["times one"], wanted=2).kind == "scalar"
    assert prove(rules["repeat"], wanted=2).kind == "reduction"
    moved = prove(Rule("unmoved", p(Ops.FLIP, x), lambda x: x), wanted=2)
    assert (moved.kind, moved.verdict) == ("structural", "refuted")
    assert prove(Rule("never", p(Ops.BARRIER, x), lambda x: x), wanted=2).verdict == "no terms"
    itself = prove(Rule("itself", p(Ops.AND, x, x), lambda x: x), wanted=0)
    assert itself.verdict == "proved"
    assert itself.every == itself.terms == 3  # bool, i8 and u8
    assert Proof("r", "add", "scalar", terms=2, unsolved=1).verdict == "unknown (timeout)"


def test_special_values_prove_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not all pairs of f16 are tried."""
    monkeypatch.setattr(smt, "z3", None)
    proof = prove(Rule("commutes", p(Ops.ADD, x, y), lambda x, y: y + x, types=FLOATS), wanted=0)
    assert (proof.terms, proof.every, proof.verdict) == (1, 0, "tested")


def test_search_skips_what_has_no_value() -> None:
    """Values outside of a range, reads out of bounds, and indices that overflow count neither way."""
    w = UOp.variable("w", 0, 4)
    r = UOp.range(w, 0)
    assert search(r < w, UOp.const(dtypes.bool, True)).complete
    big = UOp.variable("n", -(1 << 40), 1 << 40)
    found = search(big * big // 2, big * big * 2 // 4)
    assert found.witness is None
    assert not found.complete
    memory = UOp.param(0, 4, dtypes.i32)
    assert search(memory.index(w + 4).load(), UOp.const(dtypes.i32, 0)).tried == 0


def test_search_knows_when_it_is_complete(kit: Any) -> None:
    i, f, g = (kit.scalar(n, d) for n, d in (("i", dtypes.i8), ("f", dtypes.f16), ("g", dtypes.f32)))
    j = kit.scalar("j", dtypes.u8)
    assert search(i + 1, i - -1) == search(i + 1, i - -1)
    assert search(i + 1, i - -1).complete
    assert (
        search(i.cast(dtypes.i32) * j.cast(dtypes.i32), j.cast(dtypes.i32) * i.cast(dtypes.i32)).tried
        == 1 << 16
    )
    assert search(f + f, f * 2).complete
    assert not search(g + g, g * 2).complete
    assert search(f + 0, f).witness is not None


def test_sums_over_the_loop_are_compared(kit: Any) -> None:
    n, i = UOp.variable("n", -1, 3), kit.scalar("i", dtypes.i8)
    r = UOp.range(n, 0, AxisType.REDUCE)
    total = (i + r.cast(dtypes.i8)).reduce(Ops.ADD, 0, [r])
    assert search(total, total + 0).tried == 5 * 256
    found = search(total, i * n.cast(dtypes.i8)).witness
    assert found is not None
    assert found.values[n] not in (0, 1)


def test_command_prints_a_table(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smt, "z3", None)
    assert command(["times one", "repeat"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split()[:4] == ["rule", "op", "kind", "verdict"]
    assert rows[0].startswith("times one")
    assert any("brute force only" in row for row in rows)


def test_command_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["repeat", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["z3"] is smt.available()
    (row,) = found["rules"]
    assert (row["rule"], row["kind"], row["witness"]) == ("repeat", "reduction", None)


def test_command_refutes_rules_of_a_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = """
from uop_ir import Ops
from uop_rewrite import FLOATS, Pattern, Rule, RuleSet, const, var
mine = RuleSet([Rule("times zero", Pattern(Ops.MUL, (var("x"), const("a"))), lambda x, a: a, lambda a: a.value == 0)])
"""
    (tmp_path / "rules_of_mine.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    assert command(["--rules", "rules_of_mine:mine"]) == prove_command.FAILED
    out = capsys.readouterr().out
    assert "refuted" in out
    assert "# before: nan where x = " in out or "# before: -0.0 where x = " in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["zzz"], "no rule 'zzz' (without a name, all rules are proved and named)"),
        (["time one"], "no rule 'time one' (near it: times one"),
        (["--timeout", "0"], "no number of seconds"),
        (["--timeout", "nan"], "no number of seconds"),
        (["--timeout", "inf"], "no number of seconds"),
        (["--rules", "..:x"], "give MODULE:NAME of a RuleSet"),
        (["--bits", "16"], "--bits"),
        (["--rules", "uop_rewrite"], "--rules uop_rewrite"),
        (["--rules", "uop_rewrite:nothing"], "nothing"),
        (["--rules", "uop_rewrite:bounds"], "no RuleSet"),
        (["--rules", "not_there:x"], "not_there"),
        (["--rules", ":x"], "--rules :x"),
    ],
)
def test_command_refuses(arguments: list[str], message: str) -> None:
    with pytest.raises(UopError, match=re.escape(message)):
        command(arguments)


def test_a_wrong_rule_that_only_z3_finds() -> None:
    """No brute force tries this value of an i32."""
    pytest.importorskip("z3")

    def replacement(x: UOp) -> UOp:
        return x.eq(123456789).where(x.const_like(0), x) if x.dtype is dtypes.i32 else x

    rule = Rule("and itself but for one", p(Ops.AND, x, x), replacement, types=SIGNED)
    assert prove(rule, wanted=4).witness is None
    proof = prove(rule, bits=32, wanted=4)
    assert proof.witness is not None
    assert 123456789 in proof.witness.values.values()


def test_parameters_of_a_name_are_told_apart_by_type() -> None:
    one, two = (UOp(Ops.PARAM, (), Param(d, name="x")) for d in (dtypes.i8, dtypes.u8))
    found = search(one.cast(dtypes.i32), two.cast(dtypes.i32)).witness
    assert found is not None
    assert len(found.values) == 2
    assert np.int8(found.values[one]) != found.values[two]
