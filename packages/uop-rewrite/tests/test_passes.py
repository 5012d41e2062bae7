"""Passes in order, their options, constraints on their order, and what is said and checked after each."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass
from typing import ClassVar

import pytest

from uop_ir import Ops, UOp, UopError, VerifyError, dtypes, override, parse_uir
from uop_ir import settings as ir_settings
from uop_rewrite import (
    Before,
    Fold,
    Pass,
    RewriteError,
    Simplify,
    check_order,
    run_passes,
    settings,
)

X = UOp.param(0, 4, dtypes.i32)


@dataclass(frozen=True)
class Times(Pass):
    name: ClassVar = "times"
    purpose: ClassVar = "a multiple"

    factor: int = 2

    def run(self, root: UOp) -> UOp:
        return root * self.factor


@dataclass(frozen=True)
class Negate(Pass):
    name: ClassVar = "negate"
    purpose: ClassVar = "the other sign"

    def run(self, root: UOp) -> UOp:
        return -root


@dataclass(frozen=True)
class Define(Pass):
    """Says that it eliminates EXP2, and gives what it is told to give."""

    name: ClassVar = "define"
    purpose: ClassVar = ""
    eliminates: ClassVar = frozenset({Ops.EXP2})

    result: UOp

    def run(self, root: UOp) -> UOp:
        return self.result


@dataclass(frozen=True)
class Fixed(Define):
    """Eliminates nothing, and gives what it is told to give."""

    name: ClassVar = "fixed"
    eliminates: ClassVar = frozenset()


def test_each_pass_gets_the_result_of_the_one_before() -> None:
    assert list(run_passes(X, (Times(3), Negate()))) == [(Times(3), X * 3), (Negate(), -(X * 3))]


def test_the_options_of_a_pass_are_its_fields() -> None:
    assert repr(Times(3)) == "Times(factor=3)"
    assert Times(2) == Times() != Times(3)
    with pytest.raises(FrozenInstanceError):
        Times().factor = 4  # type: ignore[misc]  # that it cannot be set is what this tests


def test_the_passes_of_this_package() -> None:
    r = UOp.range(3, 0)
    x = UOp.const(dtypes.i32, 2) + 3
    loop = x.reduce(Ops.ADD, ranges=[r])
    assert Fold().run(x * 1 + X) is UOp.const(dtypes.i32, 5) + X
    assert Fold().run(X * 1) is X * 1
    assert Simplify().run(X * 1) is X
    assert Ops.REDUCE in [n.op for n in Simplify().run(loop).toposort()]
    assert Simplify(collapse=True).run(loop) is UOp.const(dtypes.i32, 15)


def test_order() -> None:
    rule = Before("times", "negate", "signs come last")
    check_order((Times(), Negate()), (rule,))
    with pytest.raises(UopError, match="times must come before negate: signs come last"):
        check_order((Negate(), Times()), (rule,))
    with pytest.raises(UopError, match="no pass 'negate'"):
        check_order((Times(),), (rule,))
    with pytest.raises(UopError, match="times stands twice"):
        check_order((Times(), Negate(), Times(3)), (rule,))


@pytest.mark.parametrize(
    ("result", "complaint"),
    [
        (UOp.const(dtypes.f32, 1.0).alu(Ops.EXP2), "left EXP2"),
        (UOp.range(4, 0).cast(dtypes.f32), "made a program that is wrong: .*nothing closes range 0"),
    ],
)
def test_check_verifies_what_a_pass_gives(result: UOp, complaint: str) -> None:
    passes = [Define(result)]
    with override(ir_settings, check=1), pytest.raises(RewriteError, match=f"pass define {complaint}"):
        list(run_passes(X, passes))
    with override(ir_settings, check=0):
        assert [root for _, root in run_passes(X, passes)] == [result]


def test_what_a_pass_eliminated_must_not_come_back() -> None:
    half, exp = UOp.const(dtypes.f32, 0.5), UOp.const(dtypes.f32, 1.0).alu(Ops.EXP2)
    with override(ir_settings, check=1), pytest.raises(RewriteError, match="pass fixed left EXP2"):
        list(run_passes(exp, [Define(half), Fixed(exp)]))


def test_check_verifies_the_program_before_the_first_pass() -> None:
    with override(ir_settings, check=1), pytest.raises(VerifyError, match="nothing closes range 0"):
        list(run_passes(UOp.range(4, 0).cast(dtypes.f32), [Negate()]))


@pytest.mark.parametrize(
    ("asked", "printed"),
    [
        ("", []),
        ("times", ["times"]),
        ("negate, times", ["times", "negate"]),
        ("all", ["times", "negate"]),
        ("define, fixed", []),  # passes of other programs
    ],
)
def test_print_after_prints_the_program_as_uir(
    asked: str, printed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with override(settings, print_after=asked):
        results = {step.name: root for step, root in run_passes(X, (Times(), Negate()))}
    out, err = capsys.readouterr()
    _, *texts = err.split("# after ")
    names = [text.partition("\n")[0] for text in texts]
    assert names == printed
    assert out == ""
    for name, text in zip(names, texts, strict=True):
        assert parse_uir("# " + text).root is results[name]


def test_print_after_an_unknown_pass_is_refused() -> None:
    with override(settings, print_after="times,nowhere"), pytest.raises(UopError) as error:
        list(run_passes(X, (Times(), Negate())))
    assert "PRINT_AFTER: no pass 'nowhere'" in str(error.value)
    for name in ("times", "negate", "define", "fold", "simplify", "all"):
        assert name in (error.value.remedy or "").split(", ")
