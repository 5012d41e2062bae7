"""The tables inside the package: every interval rule is tested, every pattern name means what it says."""

from __future__ import annotations

import pytest

from uop_ir import Ops, UOp, dtypes
from uop_rewrite import matches, values
from uop_rewrite.bounds import VALUES
from uop_rewrite.pattern import COMMUTATIVE, Builder
from uop_rewrite.symbolic import FOLDED, folding
from uop_rewrite.transfers import whole
from uop_rewrite.value_sets import floor_div, floor_mod

TESTED = frozenset({
    Ops.CONST, Ops.RANGE, Ops.SPECIAL, Ops.PARAM, Ops.ADD, Ops.SUB, Ops.NEG, Ops.MUL, Ops.MULACC, Ops.MAX, Ops.DIV,
    Ops.MOD, Ops.SHL, Ops.SHR, Ops.CMPLT, Ops.CMPEQ, Ops.CMPNE, Ops.WHERE, Ops.CAST, Ops.AND, Ops.OR, Ops.XOR,
    Ops.STACK, Ops.PAD, Ops.RESHAPE, Ops.EXPAND, Ops.PERMUTE, Ops.FLIP, Ops.SHRINK, Ops.STAGE, Ops.COPY,
})  # fmt: skip


def test_every_rule_of_bounds_has_a_test() -> None:
    assert set(VALUES) == TESTED


def test_ops_without_a_rule_have_all_values() -> None:
    x = UOp.param(0, 3, dtypes.i8)
    for node in (x.reduce(Ops.ADD, 1), x.index(UOp.const(dtypes.index, 0)).load(), x.bitcast(dtypes.i8)):
        assert values(node) == whole(node) == (-128, 127, 1, 0)


@pytest.mark.parametrize("q", range(-4, 5))
def test_floor_division_by_anything(q: int) -> None:
    for p in range(-9, 10):
        assert p == floor_div(p, q) * q + floor_mod(p, q)
        assert floor_div(p, 0) == 0
        assert not q or 0 <= floor_mod(p, q) * (1 if q > 0 else -1) < abs(q)


def test_commutative_ops_commute_for_the_interpreter() -> None:
    """MAX is none of them: of two zeros, or with a NaN, it depends on the order."""
    assert {Ops.ADD, Ops.MUL, Ops.AND, Ops.OR, Ops.XOR, Ops.CMPEQ, Ops.CMPNE} == COMMUTATIVE


def test_a_builder_without_sources_matches_any() -> None:
    v = UOp.variable("v", 0, 3)
    assert list(matches(Builder(Ops.ADD)(), v + 1)) == [{}]


def test_each_op_that_folds_has_a_rule() -> None:
    assert [r.pattern.op for r in folding.rules] == list(FOLDED)
