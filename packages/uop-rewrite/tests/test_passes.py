"""Passes in order, and constraints on their order."""

from __future__ import annotations

import pytest

from uop_ir import Ops, UOp, UopError, dtypes, override, settings
from uop_rewrite import Before, Pass, RewriteError, check_order, run_passes

X = UOp.param(0, 4, dtypes.i32)
DOUBLE = Pass("double", lambda root, times: root * times, "times the context")
NEGATE = Pass("negate", lambda root, times: -root, "the other sign")


def test_each_pass_gets_the_result_of_the_one_before() -> None:
    results = list(run_passes(X, (DOUBLE, NEGATE), 2))
    assert results == [(DOUBLE, X * 2), (NEGATE, -(X * 2))]


def test_order() -> None:
    rule = Before("double", "negate", "signs come last")
    check_order((DOUBLE, NEGATE), (rule,))
    with pytest.raises(UopError, match="double must come before negate: signs come last"):
        check_order((NEGATE, DOUBLE), (rule,))
    with pytest.raises(UopError, match="no pass 'negate'"):
        check_order((DOUBLE,), (rule,))
    with pytest.raises(UopError, match="double stands twice"):
        check_order((DOUBLE, NEGATE, DOUBLE), (rule,))


@pytest.mark.parametrize(
    ("result", "complaint"),
    [
        (UOp.const(dtypes.f32, 1.0).alu(Ops.EXP2), "left EXP2"),
        (UOp.range(4, 0).cast(dtypes.f32), r"left ranges \[0\] that nothing closes"),
    ],
)
def test_check_verifies_what_a_pass_gives(result: UOp, complaint: str) -> None:
    passes = [Pass("define", lambda root, context: result, "", frozenset({Ops.EXP2}))]
    with override(settings, check=1), pytest.raises(RewriteError, match=f"pass define {complaint}"):
        list(run_passes(result, passes))
    with override(settings, check=0):
        assert [root for _, root in run_passes(result, passes)] == [result]
