"""The generator of random terms reaches every rule,
within the whole set: none is out of its sight, or shadowed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from typing import Any

import pytest

from uop_ir import BoundsError, Ops, UOp, dtypes
from uop_rewrite import collapse, graph_rewrite, observing, symbolic
from uop_rewrite.instances import instances
from uop_rewrite.proofs import SMALL
from uop_rewrite.terms import Terms

ALL = symbolic + collapse
TYPES = (*SMALL, dtypes.f32)


@pytest.fixture(scope="module")
def at_random(kit: Any) -> set[str]:
    """The rules that fire in 500 random terms."""
    fired, terms = kit.Fired(), Terms(1, TYPES)
    with observing(fired):
        for number in range(500):
            with suppress(BoundsError):
                graph_rewrite(terms.term(TYPES[number % len(TYPES)], 8), ALL)
    return set(fired.rules)


@pytest.mark.net
@pytest.mark.parametrize("name", dict.fromkeys(r.name for r in ALL.rules))
def test_each_rule_fires(kit: Any, name: str, at_random: set[str]) -> None:
    """By chance, or on terms of its pattern."""
    if name in at_random:
        return
    fired = kit.Fired()
    with observing(fired):
        for rule in ALL.rules:
            for before, _ in instances(rule, TYPES, 40, 8000) if rule.name == name else ():
                with suppress(BoundsError):
                    graph_rewrite(before, ALL)
                if name in fired.rules:
                    return
    pytest.fail("it fires on no random term")


def test_every_op_of_scalars_is_drawn() -> None:
    terms = Terms(2, TYPES)
    drawn = {n.op for i in range(600) for n in terms.term(TYPES[i % len(TYPES)], 8).toposort()}
    assert {
        Ops.ADD, Ops.SUB, Ops.MUL, Ops.DIV, Ops.MOD, Ops.MAX, Ops.NEG, Ops.AND, Ops.OR, Ops.XOR, Ops.SHL, Ops.SHR,
        Ops.CMPLT, Ops.CMPNE, Ops.CMPEQ, Ops.WHERE, Ops.CAST, Ops.RECIP, Ops.TRUNC,
    } <= drawn  # fmt: skip


def conditions() -> str:
    """The key of some conditions at random: their choice of ops is the widest."""
    terms = Terms(7, TYPES)
    return UOp.sink(*(terms.term(dtypes.bool, 6) for _ in range(8))).key


def test_a_seed_gives_the_same_terms() -> None:
    one, two = (Terms(7, TYPES) for _ in range(2))
    assert [one.term(d, 6) for d in TYPES] == [two.term(d, 6) for d in TYPES]


def test_a_seed_gives_the_same_terms_in_another_process() -> None:
    """One with other hashes, and other addresses."""
    found = subprocess.run(
        [sys.executable, "-c", f"import runpy; print(runpy.run_path({__file__!r})['conditions']())"],
        env={**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == conditions()
