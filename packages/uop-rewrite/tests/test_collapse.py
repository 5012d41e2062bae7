"""Sums that need no loop, against the loops that they replace, run by the interpreter."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from uop_ir import AxisType, DType, Ops, UOp, dtypes, evaluate
from uop_rewrite import collapse, graph_rewrite, symbolic

Array = npt.NDArray[Any]
SIZE = 5
R, Q = UOp.range(SIZE, 0, AxisType.REDUCE), UOp.range(3, 1, AxisType.REDUCE)


def at(memory: UOp, *position: UOp) -> UOp:
    return memory.index(*position).load()


def total(value: UOp, *ranges: UOp) -> UOp:
    return value.reduce(Ops.ADD, 0, ranges)


def pick(condition: UOp, value: UOp) -> UOp:
    return condition.where(value, value.const_like(0))


def simplified(node: UOp) -> UOp:
    return graph_rewrite(node, symbolic + collapse)


def loops(node: UOp) -> int:
    return sum(n.op is Ops.REDUCE for n in node.toposort())


def check(kit: Any, before: UOp, inputs: dict[UOp, Any], gone: bool = True) -> UOp:
    """Simplify a sum; compare its bits with those of the loop; say whether the loop is gone."""
    after = simplified(before)
    one, two = evaluate([before, after], inputs)
    np.testing.assert_array_equal(kit.bits(two), kit.bits(one))
    assert (loops(after) < loops(before)) is gone
    return after


INDEX_TYPES = [*dtypes.ints, dtypes.bool]


@pytest.mark.parametrize("dtype", INDEX_TYPES, ids=str)
def test_pick_by_an_index_of_any_type(kit: Any, dtype: DType) -> None:
    """table[i] as a sum over the table: 0 where i is outside of it, whatever stands elsewhere."""
    table = UOp.param(0, SIZE, dtypes.f32)
    indices = UOp.param(1, 1, dtype)
    i = at(indices, UOp.const(dtypes.index, 0))
    before = total(pick(R.cast(dtype).eq(i), at(table, R)), R)
    values = np.array([-0.0, np.nan, np.inf, 1.5, -2.0], np.float32)
    gone = dtype not in (dtypes.u64, dtypes.bool)  # not every u64 is an index; five values are no two
    for index in (*range(SIZE), SIZE, SIZE + 1, *kit.special(dtype)):
        given = np.array([index]).astype(dtype.numpy)
        check(kit, before, {table: values, indices: given}, gone)


def test_pick_two_values_by_a_bool(kit: Any) -> None:
    r, table, flag = UOp.range(2, 0), UOp.param(0, 2, dtypes.f32), kit.scalar("b", dtypes.bool)
    for value in (False, True):
        check(
            kit,
            total(pick(flag.eq(r.cast(dtypes.bool)), at(table, r)), r),
            {table: np.array([2, 3], np.float32), flag: value},
        )


@pytest.mark.net
@pytest.mark.parametrize("dtype", [d for d in dtypes.all if d not in (dtypes.bool, dtypes.index)], ids=str)
def test_pick_of_any_type(kit: Any, dtype: DType) -> None:
    v, table = UOp.variable("v", -2, SIZE + 1), UOp.param(0, SIZE, dtype)
    data = np.resize(kit.special(dtype)[1:], SIZE)
    for index in range(-2, SIZE + 2):
        check(kit, total(pick(R.eq(v), at(table, R)), R), {table: data, v: index})
        check(
            kit,
            total(pick(v.eq(R), at(table, R * 1) + at(table, (R + 1) % SIZE)), R),
            {table: data, v: index},
        )


def test_pick_needs_no_guard_within_the_range(kit: Any) -> None:
    v, table = UOp.variable("v", 0, SIZE - 1), UOp.param(0, SIZE, dtypes.i32)
    after = check(kit, total(pick(R.eq(v), at(table, R)), R), {table: np.arange(SIZE, dtype=np.int32), v: 3})
    assert after is at(table, v)


def test_pick_with_more_conditions(kit: Any) -> None:
    v, w, table = UOp.variable("v", -1, SIZE), UOp.variable("w", 0, 9), UOp.param(0, SIZE, dtypes.f32)
    condition = R.alu(Ops.CMPLT, w) & R.eq(v) & R.ne(2)
    valid = at(table, R, R < 4) + 1.0
    data = np.array([-0.0, 1, 2, 3, np.nan], np.float32)
    for i, j in product(range(-1, SIZE + 1), (0, 2, 9)):
        check(kit, total(pick(condition, valid), R), {table: data, v: i, w: j})


def test_pick_needs_a_sum_of_zeros(kit: Any) -> None:
    v, x = UOp.variable("v", 0, 3), kit.scalar("x", dtypes.f32)
    for before in (
        R.eq(v).where(x, x.const_like(-0.0)).reduce(Ops.MAX, 0, [R]),
        R.eq(v).where(x, x.const_like(1.0)).reduce(Ops.MUL, 0, [R]),
        total(R.eq(v).where(x, x.const_like(1.0)), R),
        total(R.ne(v).where(x, x.const_like(0.0)), R),
        total(R.eq(R * R - 2).where(x, x.const_like(0.0)), R),
    ):
        check(kit, before, {n: 2 for n in (v, x) if n in before.toposort()}, gone=False)


def test_pick_where_an_equation_is_solved(kit: Any) -> None:
    v, table = UOp.variable("v", -2, SIZE + 1), UOp.param(0, SIZE, dtypes.f32)
    data = np.array([-0.0, np.nan, np.inf, 1.5, -2.0], np.float32)
    for condition in (
        R.eq(R * 2 - 1),
        (R + v).eq(3),
        (v - R).eq(1),
        (R * 3 + v).eq(R * 2),
        (R * 2).eq(v * 2),
    ):
        used = v in condition.toposort()
        for index in range(-2, SIZE + 2) if used else (0,):
            check(kit, total(pick(condition, at(table, R)), R), {table: data, **({v: index} if used else {})})
    check(kit, total(pick((R * 2).eq(v), at(table, R)), R), {table: data, v: 2}, gone=False)


def test_minus_zero_elsewhere(kit: Any) -> None:
    """Adding -0.0 to the sum changes nothing, but the rule states +0.0: the loop stays."""
    v, x = UOp.variable("v", 0, 3), kit.scalar("x", dtypes.f32)
    check(kit, total(R.eq(v).where(x, x.const_like(-0.0)), R), {v: 1, x: -0.0}, gone=False)


def test_pick_in_a_nest_keeps_the_order_of_the_sum(kit: Any) -> None:
    """Floats: over q, then r picks 2 - q: ascending q. Over r, then q picks 2 - r: descending q."""
    table = UOp.param(0, 3, dtypes.f32)
    data = np.array([1e8, -1e8, 1.0], np.float32)
    r = UOp.range(3, 0, AxisType.REDUCE)
    value = pick(r.eq(Q * -1 + 2), at(table, Q))
    assert (
        evaluate([total(value, Q, r)], {table: data})[0] != evaluate([total(value, r, Q)], {table: data})[0]
    )
    assert loops(check(kit, total(value, Q, r), {table: data}, gone=False)) == 1
    assert len(simplified(total(value, Q, r)).src) == 2
    assert simplified(total(value, r, Q)).src[1] is r
    check(kit, total(value, r, Q), {table: data}, gone=False)
    # over r, then q, a choice of r alone cannot be made: each q adds what r picks, in another order
    square = pick(r.eq(Q * Q), at(table, Q))
    assert len(simplified(total(square, r, Q)).src) == 3
    check(kit, total(square, r, Q), {table: data}, gone=False)
    integers = UOp.param(0, 3, dtypes.i32)
    whole = total(pick(r.eq(Q * -1 + 2), at(integers, Q)), r, Q)
    assert len(check(kit, whole, {integers: np.array([1, 2, 3], np.int32)}, gone=False).src) == 2


def test_pick_leaves_ranges_whole(kit: Any) -> None:
    """A range whose end depends on r keeps r."""
    v, x = UOp.variable("v", 0, 3), kit.scalar("x", dtypes.i32)
    inner = UOp.range(R + 1, 7, AxisType.REDUCE)
    check(kit, total(pick(R.eq(v), x + inner.cast(dtypes.i32)), R, inner), {v: 2, x: 5}, gone=False)
    nested = total(pick(R.eq(v), total(x + inner.cast(dtypes.i32) * R.cast(dtypes.i32), inner)), R)
    for i in range(4):
        check(kit, nested, {v: i, x: 5})


@pytest.mark.net
@pytest.mark.parametrize("dtype", [*dtypes.ints, dtypes.index], ids=str)
@pytest.mark.parametrize("end", [0, 1, 5, 300])
def test_repeat(kit: Any, dtype: DType, end: int) -> None:
    x = UOp.variable("x", -5, 5) if dtype is dtypes.index else kit.scalar("x", dtype)
    for value in (0, 1, 3) if dtype is dtypes.index else kit.special(dtype):
        check(kit, total(x, UOp.range(end, 0)), {x: value})


def test_repeat_a_symbolic_number_of_times(kit: Any) -> None:
    n, x = UOp.variable("n", -2, 4), kit.scalar("x", dtypes.i8)
    r = UOp.range(n, 0)
    for end in range(-2, 5):
        check(kit, total(x, r), {n: end, x: 100})
        after = check(kit, total(x + Q.cast(dtypes.i8), Q, r), {n: end, x: 100}, gone=False)
        assert r not in after.toposort()


def test_repeat_is_for_integers_and_free_ranges(kit: Any) -> None:
    x, i = kit.scalar("x", dtypes.f32), kit.scalar("i", dtypes.i32)
    check(kit, total(x, R), {x: 0.1}, gone=False)
    check(kit, total(i + R.cast(dtypes.i32), R), {i: 3}, gone=False)
    check(kit, i.reduce(Ops.MUL, 0, [R]), {i: 3}, gone=False)
    inner = UOp.range(R + 1, 7)
    after = check(kit, total(i, R, inner), {i: 3}, gone=False)  # i times a sum of R + 1 over R
    assert [n.src[1:] for n in after.toposort() if n.op is Ops.REDUCE] == [(R,)]


@pytest.mark.net
@pytest.mark.parametrize("dtype", [dtypes.i8, dtypes.u8, dtypes.i64, dtypes.index], ids=str)
def test_count_what_a_condition_lets_through(kit: Any, dtype: DType) -> None:
    """Triangles and windows: sums of a value over the part of a range between two others."""
    x = UOp.variable("x", -5, 5) if dtype is dtypes.index else kit.scalar("x", dtype)
    v, w = UOp.variable("v", -2, SIZE + 2), UOp.variable("w", -1, 4)
    r, less = R, UOp.const(dtypes.index, -1)
    for condition in (
        r < v, v < r, (v < r) & (r < w), (less < r - v) & (r - v < 3), r + w < v, (r < v) & (w < 3), (r < v) & (r < w),
    ):  # fmt: skip
        for i, j in product(range(-2, SIZE + 3), (-1, 0, 2, 4)):
            given = {v: i, w: j, x: 3}
            used = {n: given[n] for n in given if n in condition.toposort() or n is x}
            check(kit, total(pick(condition, x), R), used)


def test_count_needs_a_value_and_bounds_free_of_the_range(kit: Any) -> None:
    v, f, i = UOp.variable("v", 0, 4), kit.scalar("f", dtypes.f32), kit.scalar("i", dtypes.i32)
    r = R
    for before in (
        total(pick(r < v, f), R),  # f added so often has other bits than a product
        total(pick(r * 2 < v, i), R),
        total(pick(r * r < v, i), R),
        total(pick(r < v, R.cast(dtypes.i32)), R),
        total(pick((r < v) | (v < 2), i), R),
        total((r < v).where(i, i.const_like(1)), R),
        pick(r < v, i).reduce(Ops.MUL, 0, [R]),
    ):
        for value in range(5):
            inputs = {n: 3 if n.dtype is dtypes.i32 else 0.1 for n in (f, i) if n in before.toposort()}
            check(kit, before, {v: value, **inputs}, gone=False)


@pytest.mark.parametrize("dtype", [dtypes.i8, dtypes.u8, dtypes.i32, dtypes.index], ids=str)
def test_what_does_not_change_goes_out_of_a_sum(kit: Any, dtype: DType) -> None:
    x = UOp.variable("x", -5, 5) if dtype is dtypes.index else kit.scalar("x", dtype)
    r, q = (u if dtype is dtypes.index else u.cast(dtype) for u in (R, Q))
    for value, ranges in (
        (r + x, (R,)),
        (r * x, (R,)),
        (r + q + x + 7, (R, Q)),
        (r * q * x, (R, Q)),
        (r * r - x * 3, (R,)),
    ):
        after = check(kit, total(value, *ranges), {x: 3}, gone=False)
        for node in after.toposort():
            assert node.op is not Ops.REDUCE or x not in node.toposort()


def test_what_does_not_change_in_a_sum_of_floats_stays(kit: Any) -> None:
    f = kit.scalar("f", dtypes.f32)
    for value in (R.cast(dtypes.f32) + f, R.cast(dtypes.f32) * f):
        assert check(kit, total(value, R), {f: 0.1}, gone=False).op is Ops.REDUCE
    inner = UOp.range(R + 1, 7)  # how often depends on another range
    i = kit.scalar("i", dtypes.i32)
    check(kit, total(inner.cast(dtypes.i32) + i, R, inner), {i: 3}, gone=False)


@pytest.mark.parametrize("dtype", [dtypes.i8, dtypes.f32, dtypes.index], ids=str)
def test_the_greatest_of_what_does_not_change(kit: Any, dtype: DType) -> None:
    x = UOp.variable("x", -5, 5) if dtype is dtypes.index else kit.scalar("x", dtype)
    n = UOp.variable("n", 0, 3)
    for value in (0, 1, 3) if dtype is dtypes.index else kit.special(dtype):
        check(kit, x.reduce(Ops.MAX, 0, [R]), {x: value})
        check(kit, x.reduce(Ops.MAX, 0, [UOp.range(n, 5)]), {x: value, n: 0}, gone=False)


def test_tensor_level_reductions_stay() -> None:
    x = UOp.param(0, 6, dtypes.i32).reshape((2, 3))
    assert simplified(x.reduce(Ops.ADD, 1)).op is Ops.REDUCE
    assert simplified(x.eq(1).where(x, 0).reduce(Ops.ADD, 1)).op is Ops.REDUCE


def test_what_is_picked_is_not_put_under_a_loop_that_binds_it() -> None:
    """A sum over r that picks q + v, of a product that closes a q of its own;
    and a product that closes r itself.
    """
    v = UOp.variable("v", 0, 2)
    of_q = ((R + Q).cast(dtypes.i32)).reduce(Ops.MUL, 0, (Q,))
    of_r = ((R + 1).cast(dtypes.i32)).reduce(Ops.MUL, 0, (R,))
    for before in (
        total(pick(R.eq(v), of_r), R),
        total(total(pick((R + Q).eq(UOp.const(dtypes.index, 2)), of_q), R), Q),
    ):
        after = graph_rewrite(before, collapse)
        assert loops(after) == loops(before)
