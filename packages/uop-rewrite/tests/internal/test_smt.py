"""Terms as formulas of z3: on constants, the formula is what the interpreter computes."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from uop_ir import OPS, BoundsError, DType, Kind, Ops, UOp, dtypes, evaluate, fold
from uop_rewrite.proofs import AT_32_BITS, SMALL
from uop_rewrite.terms import Terms, node, special
from uop_rewrite.witness import variables

z3 = pytest.importorskip("z3")
from uop_rewrite.smt import DIFFERENT, PROVED, UNTRANSLATED, Translation, prove_equal
from uop_rewrite.smt_rows import ROWS

BINARY = sorted({op for rows in ROWS.values() for op in rows if OPS[op].least == 2}, key=lambda op: op.value)


def check(term: UOp, result: UOp) -> None:
    """Both ways of reading integers agree with the constant that the interpreter computed."""
    for integers in (False, True):
        translation = Translation(integers)
        same = z3.simplify(translation.formula(term) == translation.formula(result))
        assert z3.is_true(same) or translation.opaque, (term, result, integers, same)


def constant(term: UOp) -> UOp:
    return UOp(Ops.CONST, (), fold(term.op, term.arg, [s.arg for s in term.src]))


@pytest.mark.parametrize("op", BINARY, ids=str)
@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_each_op_on_special_values(op: Ops, dtype: DType) -> None:
    for p, q in product(special(dtype)[::2], special(dtype)):
        term = node(op, [p, q], None)
        if term is not None:
            check(term, constant(term))


@pytest.mark.parametrize("op", [Ops.CAST, Ops.BITCAST], ids=str)
@pytest.mark.parametrize("source", dtypes.all, ids=str)
def test_each_conversion_of_special_values(op: Ops, source: DType) -> None:
    for dtype, value in product(dtypes.all, special(source)):
        term = node(op, [value], dtype)
        try:
            if term is not None:
                check(term, constant(term))
        except BoundsError:  # a u64 past the range of index
            assert source is dtypes.u64


@pytest.mark.parametrize("types", [SMALL, AT_32_BITS], ids=["8", "32"])
def test_random_terms_at_random_values(types: tuple[DType, ...]) -> None:
    terms = Terms(1, types)
    for number in range(150):
        term = terms.term(types[number % len(types)], 6)
        leaves = variables(term)
        ranges = {leaf: UOp.const(dtypes.index, 0) for leaf in leaves if leaf.op is Ops.RANGE}
        values: dict[UOp, Any] = {
            leaf: terms.pick([v for v in special(leaf.dtype) if within(leaf, v)]).value
            for leaf in leaves
            if leaf.op is Ops.PARAM
        }
        fixed = term.substitute({**ranges, **{leaf: leaf.const_like(v) for leaf, v in values.items()}})
        try:
            found = evaluate([fixed], {})[0].item()
        except BoundsError:
            continue
        check(fixed, term.const_like(found))


def within(leaf: UOp, value: UOp) -> bool:
    least, greatest = (leaf.arg.min, leaf.arg.max) if leaf.dtype.kind is Kind.INDEX else (None, None)
    return least is None or greatest is None or least <= value.value <= greatest


def test_bounds_are_facts() -> None:
    v, r = UOp.variable("v", -3, 5), UOp.range(6, 0)
    true = UOp.const(dtypes.bool, True)
    assert prove_equal(v < 6, true, 5.0).verdict == PROVED
    assert prove_equal((r < 6) & (UOp.const(dtypes.index, -1) < r), true, 5.0).verdict == PROVED
    wider = prove_equal(v < 5, true, 5.0)
    assert (wider.verdict, wider.values) == (DIFFERENT, {v: 5})


def test_what_has_no_formula_is_any_value(kit: Any) -> None:
    f = kit.scalar("f", dtypes.f32)
    one, two = f % 3.0, f % -3.0
    assert prove_equal(one + 1.0, one + 1.0, 5.0).verdict == PROVED
    assert prove_equal(one, two, 5.0).verdict == UNTRANSLATED


def test_memory_is_a_function_of_the_position() -> None:
    memory, v, w = UOp.param(0, 9, dtypes.i8), UOp.variable("v", 0, 3), UOp.variable("w", 0, 3)
    read = memory.index(v + w, v < w).load()
    assert prove_equal(read, memory.index(w + v, v < w).load(), 5.0).verdict == PROVED
    assert (
        prove_equal(read, (v < w).where(memory.index(v + w).load(), read.const_like(0)), 5.0).verdict
        == PROVED
    )
    assert prove_equal(read, memory.index(w + v).load(), 5.0).verdict == DIFFERENT


def test_the_way_of_the_solver_runs_out_of_time() -> None:
    """Of factors, the solver knows nothing in a hundredth of a second."""
    x, y = (UOp.variable(n, 2, 1 << 40) for n in "xy")
    assert (
        prove_equal((x * y).eq(1000000016000000063), UOp.const(dtypes.bool, False), 0.01).verdict == "unknown"
    )
