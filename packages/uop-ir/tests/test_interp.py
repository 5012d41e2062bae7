"""The interpreter against NumPy: tensors, loops over memory, linear programs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from uop_ir import (
    AddrSpace,
    AxisType,
    BoundsError,
    DType,
    Ops,
    Param,
    UOp,
    UopError,
    VerifyError,
    dtypes,
    evaluate,
    index,
    run_program,
)

F32 = dtypes.f32
Data = npt.NDArray[Any]


def rand(*shape: int, seed: int = 0) -> Data:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def values(output: UOp, inputs: dict[UOp, Any] | None = None) -> Data:
    return evaluate([output], inputs or {})[0]


# tensors


def test_movement_ops_are_those_of_numpy() -> None:
    x = UOp.buffer(24, F32)
    data = rand(24)
    cube = data.reshape(2, 3, 4)
    view = x.reshape((2, 3, 4))
    cases: list[tuple[UOp, Data]] = [
        (view, cube),
        (view.permute((2, 0, 1)), cube.transpose(2, 0, 1)),
        (view.permute((2, 0, 1)).reshape((8, 3)), cube.transpose(2, 0, 1).reshape(8, 3)),
        (view.flip((True, False, True)), cube[::-1, :, ::-1]),
        (view.pad(((1, 0), (0, 2), (3, 1))), np.pad(cube, ((1, 0), (0, 2), (3, 1)))),
        (view.shrink(((1, 2), (0, 2), (1, 4))), cube[1:2, 0:2, 1:4]),
        (view.reshape((2, 1, 3, 4)).expand((2, 5, 3, 4)), np.broadcast_to(cube[:, None], (2, 5, 3, 4))),
        (UOp(Ops.STACK, (view, view * 2.0)), np.stack([cube, cube * 2])),
        (UOp(Ops.STAGE, (view,), AddrSpace.GLOBAL), cube),
        (UOp(Ops.COPY, (view,), "CPU"), cube),
        (view.reshape((24,)).index(index(7)).load(), data[7]),
    ]
    for node, expected in cases:
        result = values(node, {x: data})
        assert result.shape == expected.shape
        assert np.array_equal(result, expected)


def test_elementwise_ops_broadcast() -> None:
    x, y = UOp.buffer(12, F32), UOp.buffer(3, F32)
    a, b = rand(4, 3), rand(3, seed=1)
    result = values(x.reshape((4, 3)) * y + 1.0, {x: a, y: b})
    assert np.array_equal(result, a * b + np.float32(1))


def test_matmul_from_movement_ops() -> None:
    x, y = UOp.buffer(20, F32), UOp.buffer(30, F32)
    a, b = rand(4, 5), rand(5, 6, seed=1)
    left = x.reshape((4, 1, 5)).expand((4, 6, 5))
    right = y.reshape((5, 6)).permute((1, 0)).reshape((1, 6, 5)).expand((4, 6, 5))
    expected = np.zeros((4, 6), np.float32)
    for k in range(5):
        expected = expected + a[:, k, None] * b[k]
    assert np.array_equal(values((left * right).reduce(Ops.ADD, 1), {x: a, y: b}), expected)


@pytest.mark.parametrize("op", [Ops.ADD, Ops.MUL, Ops.MAX])
@pytest.mark.parametrize("dtype", [F32, dtypes.f64, dtypes.i8, dtypes.u16])
def test_reduce_folds_left_to_right(op: Ops, dtype: DType) -> None:
    x = UOp.buffer(60, dtype)
    data = (rand(60) * 10).astype(np.int64).astype(dtype.numpy)
    rows = data.reshape(5, 12)
    fold = {Ops.ADD: np.add, Ops.MUL: np.multiply, Ops.MAX: np.maximum}[op]
    total = np.full(5, 0 if op is Ops.ADD else 1 if op is Ops.MUL else dtype.min, dtype.numpy)
    for k in range(12):
        total = fold(total, rows[:, k])
    result = values(x.reshape((5, 3, 4)).reduce(op, 2), {x: data})
    assert result.dtype == dtype.numpy
    assert np.array_equal(result, total)


def test_reduce_order_and_identity_show_in_the_bits() -> None:
    x = UOp.buffer(3, F32)
    big = np.array([1e8, 1.0, -1e8], np.float32)
    assert values(x.reduce(Ops.ADD, 1), {x: big}) == 0.0
    minus = np.array([-0.0] * 3, np.float32)
    assert not np.signbit(values(x.reduce(Ops.ADD, 1), {x: minus}))
    nothing = UOp.buffer(0, F32)
    empty = np.zeros(0, np.float32)
    assert values(nothing.reduce(Ops.MAX, 1), {nothing: empty}) == -math.inf
    assert (
        values(nothing.reshape((0, 4)).permute((1, 0)).reduce(Ops.MUL, 1), {nothing: empty}).tolist()
        == [1] * 4
    )


@pytest.mark.parametrize("dtype", [dtypes.f16, dtypes.bf16])
def test_reduce_of_halves_accumulates_in_f32(dtype: DType) -> None:
    x = UOp.buffer(4096, dtype)
    data = np.full(4096, 1.0, dtype.numpy)
    data[0] = 0.0078125
    assert values(x.reduce(Ops.ADD, 1), {x: data}) == np.float32(4095.0078125).astype(dtype.numpy)


def test_symbolic_shapes_take_their_size_from_scalars() -> None:
    n = UOp.variable("n", 1, 6)
    x = UOp.buffer(24, F32)
    data = rand(4, 6)
    part = x.reshape((4, 6)).shrink(((0, 4), (0, n)))
    for size in range(1, 7):
        assert np.array_equal(values(part, {x: data, n: size}), data[:, :size])
        grown = part.reshape((4, n, 1)).expand((4, n, 3)).reduce(Ops.ADD, 2)
        expected = np.zeros(4, np.float32)
        for k in np.repeat(np.arange(size), 3):
            expected = expected + data[:, k]
        assert np.array_equal(values(grown, {x: data, n: np.int64(size)}), expected)
        padded = part.pad(((0, 0), (0, index(6) - n)))
        assert np.array_equal(
            values(padded, {x: data, n: size}), np.pad(data[:, :size], ((0, 0), (0, 6 - size)))
        )
    with pytest.raises(BoundsError, match="n = 7"):
        values(part, {x: data, n: 7})


def test_masked_gather() -> None:
    table, at = UOp.buffer(5, F32), UOp.buffer(4, dtypes.i32)
    where = at.cast(dtypes.index)
    valid = (where < 5) & (where > -1)
    data, rows = rand(5), np.array([4, -3, 0, 99], np.int32)
    got = values(table.index(where, valid).load(), {table: data, at: rows})
    assert np.array_equal(got, np.array([data[4], 0, data[0], 0], np.float32))
    with pytest.raises(BoundsError, match="buffer slot"):
        values(table.index(where).load(), {table: data, at: rows})


def test_scalars_of_every_kind() -> None:
    rate = UOp(Ops.PARAM, (), Param(F32, name="rate"))
    flag = UOp(Ops.PARAM, (), Param(dtypes.bool, name="flag"))
    count = UOp(Ops.PARAM, (), Param(dtypes.i8, name="count"))
    assert values(rate * 2.0, {rate: 0.1}) == np.float32(0.1) * 2
    assert values(flag.where(rate, -rate), {rate: np.float32(3), flag: False}) == -3
    assert values(count + 1, {count: 127}) == -128
    size = UOp.variable("n", 0, 10)
    result = values(size * 3 - 1, {size: 4})
    assert result == 11
    assert result.dtype == np.int64


@pytest.mark.net
def test_a_chain_of_100000_nodes() -> None:
    x = UOp.buffer(2, dtypes.u32)
    node, one = x, x + 1
    expected = np.array([1, 2], np.uint32)
    for k in range(100_000):
        node = node * x if k % 2 else node + one
        expected = expected * np.array([1, 2], np.uint32) if k % 2 else expected + np.array([2, 3], np.uint32)
    assert np.array_equal(values(node, {x: np.array([1, 2], np.uint32)}), expected)


def test_bad_inputs_are_refused() -> None:
    x = UOp.buffer(4, F32)
    with pytest.raises(VerifyError, match="no value is given for buffer"):
        values(x + 1.0)
    with pytest.raises(VerifyError, match="holds 4 of f32, 4 of float64 given"):
        values(x, {x: np.zeros(4)})
    with pytest.raises(VerifyError, match="holds 4 of f32, 3 of float32 given"):
        values(x, {x: np.zeros(3, np.float32)})
    with pytest.raises(VerifyError, match="effect"):
        evaluate([UOp.sink()], {})
    with pytest.raises(VerifyError, match="takes no input"):
        values(x, {x + 1.0: np.zeros(4, np.float32)})
    big = UOp.variable("n", 0, 1 << 62)
    with pytest.raises(BoundsError, match="overflows"):
        values(big * big, {big: 1 << 40})


def test_an_output_is_a_copy() -> None:
    x = UOp.buffer(3, F32)
    data = np.ones(3, np.float32)
    values(x, {x: data})[:] = 7
    assert data.tolist() == [1, 1, 1]


@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.f64, dtypes.f16, dtypes.bf16, dtypes.i16], ids=str)
@pytest.mark.parametrize("shape", [(40,), (3, 40), (40, 3)])
def test_a_long_maximum_keeps_the_first_of_equal_zeros(dtype: DType, shape: tuple[int, ...]) -> None:
    """The oracle is the fold, written out in Python;
    -inf and rows of one kind of zero are among the values.
    """
    rng = np.random.default_rng(5)
    floats = [-np.inf, -1.0, -0.0, 0.0, 2.0, np.nan] if dtype.is_float else [-9, 0, 4]
    for kinds in range(1, len(floats) + 1):
        data = rng.choice(floats[:kinds], shape).astype(dtype.numpy)
        x = UOp.buffer(data.size, dtype)
        got = values(x.reshape(shape).reduce(Ops.MAX, 1), {x: data})
        wanted = []
        for row in data.reshape(-1, shape[-1]).astype(np.float64).tolist():
            most = row[0]
            for value in row[1:]:
                most = value if math.isnan(value) or most < value else most
            wanted.append(most)
        kept = np.array(wanted).reshape(shape[:-1]).astype(dtype.numpy)
        assert got.dtype == kept.dtype
        assert np.array_equal(np.isnan(got), np.isnan(kept))
        assert np.array_equal(np.signbit(got) & ~np.isnan(got), np.signbit(kept) & ~np.isnan(kept))
        assert np.array_equal(got[~np.isnan(got)], kept[~np.isnan(kept)])


# kernels: tensor-level stores


def test_values_of_a_kernel_come_before_its_stores() -> None:
    x, y = UOp.param(0, 4, F32), UOp.param(1, 4, F32)
    a, b = rand(4), rand(4, seed=1)
    memory = {x: a.copy(), y: b.copy()}
    run_program(UOp.sink(x.store(y), y.store(x)), memory)
    assert np.array_equal(memory[x], b)
    assert np.array_equal(memory[y], a)


def test_stores_into_views() -> None:
    x, y = UOp.param(0, 12, F32), UOp.param(1, 4, F32)
    a, b = np.zeros(12, np.float32), rand(4)
    column = x.reshape((3, 4)).permute((1, 0)).shrink(((0, 4), (1, 2))).reshape((4,)).flip((True,))
    run_program(UOp.sink(column.store(y)), {x: a, y: b})
    expected = np.zeros((3, 4), np.float32)
    expected[1] = b[::-1]
    assert np.array_equal(a.reshape(3, 4), expected)
    run_program(UOp.sink(x.store(UOp.const(F32, 2.0))), {x: a})
    assert a.tolist() == [2.0] * 12


def test_calls_run_their_bodies() -> None:
    out, x = UOp.param(0, 4, F32), UOp.param(1, 4, F32)
    n = UOp.variable("n", 0, 9)
    body = UOp.sink(out.store(x * n.cast(F32)))
    a, b = UOp.buffer(4, F32), UOp.buffer(4, F32)
    first = UOp(Ops.CALL, (body, b, a, index(2)))
    second = UOp(Ops.CALL, (body, a, b.after(first), index(3)))
    data = {a: rand(4), b: np.zeros(4, np.float32)}
    expected = data[a] * 2 * 3
    run_program(UOp.sink(second), data)
    assert np.array_equal(data[a], expected)


# loops


def loop_matmul(size: int) -> tuple[UOp, list[UOp], UOp, UOp]:
    """The memory of C = A @ B, its ranges, the product of one step, and the place of the result."""
    memory = [UOp.param(slot, size * size, F32) for slot in range(3)]
    i, j = UOp.range(size, 0), UOp.range(size, 1)
    k = UOp.range(size, 2, AxisType.REDUCE)
    product = memory[1].index(i * size + k).load() * memory[2].index(k * size + j).load()
    return UOp.sink(*memory), [i, j, k], product, memory[0].index(i * size + j)


def expected_matmul(a: Data, b: Data) -> Data:
    total = np.zeros((len(a), b.shape[1]), np.float32)
    for k in range(len(b)):
        total = total + a[:, k, None] * b[k]
    return total


def run_matmul(program: UOp | Sequence[UOp], memory: UOp, size: int) -> None:
    a, b, c = rand(size, size), rand(size, size, seed=1), np.zeros((size, size), np.float32)
    run_program(program, dict(zip(memory.src, (c, a, b), strict=True)))
    assert np.array_equal(c, expected_matmul(a, b))


def test_reduce_closes_its_ranges() -> None:
    memory, (i, j, k), product, place = loop_matmul(6)
    run_matmul(UOp.sink(place.store(product.reduce(Ops.ADD, 0, (k,))).end(i, j)), memory, 6)
    run_matmul(UOp.sink(place.store(product.reduce(Ops.ADD, 0, (k,))).end(j).end(i)), memory, 6)


def accumulated(product: UOp, k: UOp, outer: Sequence[UOp]) -> tuple[UOp, list[UOp]]:
    """What an accumulator makes of a REDUCE, and its nodes in linear order."""
    register = UOp.alloc(0, 1, F32, AddrSpace.REG)
    here = register.after(*outer)
    start = here.index(index(0))
    init = start.store(UOp.const(F32, 0.0))
    inside = here.after(init, k).index(index(0))
    current = inside.load()
    added = current + product
    step = inside.store(added)
    end = step.end(k)
    result = here.after(end).index(index(0))
    return result.load(), [register, start, init, k, inside, current, product, added, step, end, result]


def test_accumulators_start_again_in_each_outer_iteration() -> None:
    memory, (i, j, k), product, place = loop_matmul(6)
    total, _ = accumulated(product, k, (i, j))
    run_matmul(UOp.sink(place.store(total).end(i, j)), memory, 6)


def test_linear_programs_run_as_they_stand() -> None:
    memory, (i, j, k), product, place = loop_matmul(5)
    total, nodes = accumulated(product, k, (i, j))
    store = place.store(total)
    end = store.end(i, j)
    before = [n for n in place.toposort() if n not in (i, j, place)]
    needed = [n for n in product.toposort() if n not in (i, j, *before, *nodes)]
    inner = nodes.index(k) + 1
    order = [i, j, *before, place, *nodes[:inner], *needed, *nodes[inner:], total, store, end, UOp.sink(end)]
    run_matmul(order, memory, 5)


def test_reduce_over_two_ranges_is_row_major() -> None:
    out, x = UOp.param(0, 1, F32), UOp.param(1, 6, F32)
    r, s = UOp.range(2, 0), UOp.range(3, 1)
    total = x.index(r * 3 + s).load().reduce(Ops.ADD, 0, (r, s))
    a, data = np.zeros(1, np.float32), np.array([1e8, 1, -1e8, 1, 1e8, -1e8], np.float32)
    run_program(UOp.sink(out.index(index(0)).store(total)), {out: a, x: data})
    expected = np.float32(0)
    for value in data:
        expected = expected + value
    assert a[0] == expected


def test_a_loop_with_an_end_that_depends_on_the_loop_around_it() -> None:
    out = UOp.param(0, 5, dtypes.i32)
    i = UOp.range(5, 0)
    j = UOp.range(i, 1)
    total = (j.cast(dtypes.i32) + 1).reduce(Ops.ADD, 0, (j,))
    data = np.zeros(5, np.int32)
    run_program(UOp.sink(out.index(i).store(total).end(i)), {out: data})
    assert data.tolist() == [0, 1, 3, 6, 10]
    cast = j.cast(dtypes.i32)
    store = out.index(i).store(cast)
    inner = store.end(j)
    body = UOp.sink(inner)
    order = [index(5), i, j, out.index(i), cast, store, inner, body, body.end(i)]
    data[:] = -1
    run_program(order, {out: data})
    assert data.tolist() == [-1, 0, 1, 2, 3]


def test_one_range_closed_by_two_reduces() -> None:
    out, x = UOp.param(0, 2, F32), UOp.param(1, 7, F32)
    r = UOp.range(7, 0)
    value = x.index(r).load()
    low, high = value.reduce(Ops.ADD, 0, (r,)), (value * value).reduce(Ops.MAX, 0, (r,))
    data, a = rand(7), np.zeros(2, np.float32)
    run_program(UOp.sink(out.index(index(0)).store(low), out.index(index(1)).store(high)), {out: a, x: data})
    total = np.float32(0)
    for v in data:
        total = total + v
    assert a.tolist() == [total, (data * data).max()]


def test_invalid_accesses_touch_nothing() -> None:
    out, x = UOp.param(0, 8, F32), UOp.param(1, 4, F32)
    i = UOp.range(8, 0)
    inside = (i < 6) & (i > 1)
    value = x.index(i - 2, inside).load()
    a, data = np.full(8, 9, np.float32), rand(4)
    run_program(UOp.sink(out.index(i).store(value).end(i)), {out: a, x: data})
    assert np.array_equal(a, np.concatenate([[0, 0], data, [0, 0]]).astype(np.float32))
    a[:] = 9
    run_program(UOp.sink(out.index(i + 100, i < 0).store(value).end(i)), {out: a, x: data})
    assert a.tolist() == [9.0] * 8


@pytest.mark.parametrize("offset", [-1, 1])
def test_accesses_out_of_bounds_are_named(offset: int) -> None:
    out, x = UOp.param(0, 4, F32), UOp.param(1, 4, F32)
    i = UOp.range(4, 0)
    wrong = -1 if offset < 0 else 4
    for program in (
        out.index(i).store(x.index(i + offset).load()).end(i),
        out.index(i + offset).store(x.index(i).load()).end(i),
    ):
        with pytest.raises(BoundsError, match=f"element {wrong} of param slot=., which has 4"):
            run_program(UOp.sink(program), {out: np.zeros(4, np.float32), x: np.zeros(4, np.float32)})


def test_vectors_load_compute_and_store_by_lanes() -> None:
    out, x = UOp.param(0, 10, F32), UOp.param(1, 10, F32)
    i = UOp.range(3, 0)
    lanes = UOp(Ops.STACK, tuple(i * 4 + k for k in range(4)))
    valid = lanes < 10
    vector = x.index(lanes, valid).load()
    assert vector.shape == (4,)
    swapped = UOp(Ops.STACK, tuple(vector.index(index(k)) for k in (1, 0, 3, 2)))
    store = out.index(lanes, valid).store(vector * 2.0 + swapped)
    a, data = np.zeros(10, np.float32), rand(10)
    run_program(UOp.sink(store.end(i)), {out: a, x: data})
    padded = np.concatenate([data, [0, 0]]).astype(np.float32)
    pairs = padded.reshape(-1, 2)[:, ::-1].reshape(-1)
    assert np.array_equal(a, (padded * 2 + pairs)[:10])


def test_memory_that_no_one_wrote_holds_a_pattern() -> None:
    out, flags = UOp.param(0, 2, F32), UOp.param(1, 1, dtypes.i16)
    local = UOp.alloc(0, 2, F32, AddrSpace.LOCAL)
    number = UOp.alloc(1, 1, dtypes.i16, AddrSpace.REG)
    a, b = np.zeros(2, np.float32), np.zeros(1, np.int16)
    first = local.index(index(0)).store(UOp.const(F32, 5.0))
    i = UOp.range(2, 0)
    copy = out.index(i).store(local.after(first).index(i).load()).end(i)
    read = flags.index(index(0)).store(number.index(index(0)).load())
    run_program(UOp.sink(copy, read), {out: a, flags: b})
    assert a[0] == 5
    assert np.isnan(a[1])
    assert b[0] == -1


def test_a_tile_in_local_memory() -> None:
    out, x = UOp.param(0, 12, F32), UOp.param(1, 12, F32)
    tile = UOp.alloc(0, 4, F32, AddrSpace.LOCAL)
    i, fill, read = UOp.range(3, 0), UOp.range(4, 1, AxisType.LOCAL), UOp.range(4, 2, AxisType.LOCAL)
    filled = tile.after(i).index(fill).store(x.index(i * 4 + fill).load()).end(fill)
    barrier = UOp(Ops.BARRIER, (filled,))
    value = tile.after(barrier).index(index(3) - read).load()
    a, data = np.zeros(12, np.float32), rand(12)
    run_program(UOp.sink(out.index(i * 4 + read).store(value).end(read).end(i)), {out: a, x: data})
    assert np.array_equal(a.reshape(3, 4), data.reshape(3, 4)[:, ::-1])


def test_specials_are_loops_around_everything() -> None:
    out = UOp.param(0, 12, F32)
    row, column = UOp(Ops.SPECIAL, (index(3),), "gidx0"), UOp(Ops.SPECIAL, (index(4),), "lidx0")
    at = row * 4 + column
    value = at.cast(F32) * 2.0
    place = out.index(at)
    store = place.store(value)
    a = np.zeros(12, np.float32)
    run_program(UOp.sink(store), {out: a})
    assert np.array_equal(a, np.arange(12) * 2)
    a[:] = 0
    nodes = [n for n in UOp.sink(store).toposort() if n.op is not Ops.SPECIAL]
    split = nodes.index(row * 4) if row * 4 in nodes else 0
    run_program([*nodes[:split], row, column, *nodes[split:]], {out: a})
    assert np.array_equal(a, np.arange(12) * 2)
    with pytest.raises(UopError, match="one after another"):
        run_program(UOp.sink(UOp(Ops.BARRIER, (store,))), {out: a})


def test_if_guards_what_follows_in_a_linear_program() -> None:
    out = UOp.param(0, 6, dtypes.i32)
    i = UOp.range(6, 0)
    condition = i > 3
    guard = UOp(Ops.IF, (condition,))
    place = out.index(i)
    value = i.cast(dtypes.i32)
    store = place.store(value)
    done = UOp(Ops.ENDIF, (guard,))
    end = store.end(i)
    data = np.full(6, -1, np.int32)
    run_program([i, condition, place, value, guard, store, done, end], {out: data})
    assert data.tolist() == [-1, -1, -1, -1, 4, 5]
    with pytest.raises(VerifyError, match="linear program"):
        run_program(UOp.sink(UOp(Ops.ENDIF, (UOp(Ops.IF, (UOp.const(dtypes.bool, True),)),))), {})


def test_linear_programs_that_are_none() -> None:
    out = UOp.param(0, 6, dtypes.i32)
    i, j = UOp.range(6, 0), UOp.range(2, 1)
    place, value = out.index(i), i.cast(dtypes.i32)
    store = place.store(value)
    memory = {out: np.zeros(6, np.int32)}
    with pytest.raises(VerifyError, match="never closed"):
        run_program([i, place, value, store], memory)
    with pytest.raises(VerifyError, match="stands before its source"):
        run_program([i, value, store, store.end(i)], memory)
    with pytest.raises(VerifyError, match="opened last"):
        run_program([i, j, place, value, store, store.end(j, i)], memory)
    with pytest.raises(VerifyError, match="holds ranges"):
        run_program([i, value, value.reduce(Ops.ADD, 0, (i,))], memory)


def test_a_range_that_nothing_closes_is_refused() -> None:
    out = UOp.param(0, 6, F32)
    i = UOp.range(6, 0)
    with pytest.raises(VerifyError, match="outside of its loop"):
        run_program(UOp.sink(out.index(i).store(UOp.const(F32, 1.0))), {out: np.zeros(6, np.float32)})


def test_loops_without_iterations() -> None:
    out, n = UOp.param(0, 3, F32), UOp.variable("n", 0, 4)
    i, k = UOp.range(3, 0), UOp.range(n, 1)
    total = UOp.const(F32, 2.0).reduce(Ops.ADD, 0, (k,))
    data = np.full(3, 9, np.float32)
    run_program(UOp.sink(out.index(i).store(total).end(i)), {out: data}, {n: 0})
    assert data.tolist() == [0, 0, 0]
    run_program(UOp.sink(out.index(i).store(total).end(i)), {out: data}, {n: 4})
    assert data.tolist() == [8, 8, 8]
    place, one = out.index(i), UOp.const(F32, 1.0)
    store = place.store(one)
    run_program([i, k, place, store, store.end(i, k)], {out: data}, {n: 0})
    assert data.tolist() == [8, 8, 8]


@pytest.mark.parametrize(("n", "expected"), [(0, [9, 9, 9]), (2, [1, 1, 1])])
def test_an_effect_runs_in_the_innermost_loop_that_repeats_it(n: int, expected: list[int]) -> None:
    """Also where it does not depend on that loop's range, alone or beside an effect that does."""
    out, other, size = UOp.param(0, 3, F32), UOp.param(1, 3, F32), UOp.variable("n", 0, 4)
    i, k = UOp.range(3, 0), UOp.range(size, 1)
    one = UOp.const(F32, 1.0)
    store = out.index(i).store(one)
    depends = other.index(i).store(k.cast(F32))
    for effect in (store, UOp.sink(store, depends), UOp.sink(out.index(index(0)).store(one), depends)):
        data = np.full(3, 9, np.float32)
        run_program(UOp.sink(effect.end(i, k)), {out: data, other: np.zeros(3, np.float32)}, {size: n})
        assert data.tolist() == (expected if store in effect.toposort() else [*expected[:1], 9, 9])


def test_what_waits_for_an_effect_runs_after_it() -> None:
    """The sum of both loops, of which only the store that another one waits for depends on neither."""
    out, total = UOp.param(0, 1, F32), UOp.param(1, 1, F32)
    i, k = UOp.range(3, 0), UOp.range(2, 1)
    first = out.index(index(0)).store(UOp.const(F32, 5.0))
    read = out.after(first).index(index(0)).load()
    second = total.index(index(0)).store(read)
    a, b = np.zeros(1, np.float32), np.zeros(1, np.float32)
    run_program(UOp.sink(UOp.sink(first, second).end(i, k)), {out: a, total: b})
    assert (a[0], b[0]) == (5, 5)


def test_memory_must_be_given_as_contiguous_arrays() -> None:
    out = UOp.param(0, 4, F32)
    program = UOp.sink(out.store(UOp.const(F32, 1.0)))
    with pytest.raises(VerifyError, match="contiguous"):
        run_program(program, {out: np.zeros(8, np.float32)[::2]})
    square = np.zeros((2, 2), np.float32)
    run_program(program, {out: square})
    assert square.tolist() == [[1, 1], [1, 1]]


# random programs


def outcome(program: UOp | Sequence[UOp]) -> dict[UOp, bytes] | type[UopError] | None:
    """The bytes that a program leaves in its memory, or the error of ours;
    None for one that does not name its node.
    """
    nodes = program.toposort() if isinstance(program, UOp) else program
    memory = {}
    for node in nodes:
        if node.op is Ops.PARAM and node.shape:
            data = np.random.default_rng(node.arg.slot).integers(0, 7, node.arg.size).astype(node.dtype.numpy)
            memory[node] = data
    scalars = {node: 3 for node in nodes if node.op is Ops.PARAM and not node.shape}
    try:
        run_program(program, memory, scalars)
    except UopError as error:
        return type(error) if error.node is not None else None
    return {node: data.tobytes() for node, data in memory.items()}


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_random_loops_run_or_leave_their_bounds(data: st.DataObject, loops: Any) -> None:
    result = outcome(data.draw(loops))
    assert isinstance(result, dict) or result is BoundsError


@pytest.mark.net
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_linear_program_does_what_its_graph_does(data: st.DataObject, linears: Any) -> None:
    """Where nothing but the order of its lines tells the two apart:
    a graph has no IF and no order of its own.
    """
    nodes = data.draw(linears)
    straight = [n for n in nodes if n.op not in (Ops.IF, Ops.ENDIF)]
    ends = [n for n in straight if n.op is Ops.END]
    assume(all(n.op is not Ops.SPECIAL for n in nodes))
    result = outcome(straight)
    assert result is not None
    assert result == outcome(UOp.sink(*ends))


def test_a_constant_index_past_64_bits_is_an_overflow() -> None:
    """An index is a mathematical integer; the interpreter,
    which has 64 bits for it, says so and computes no other.
    """
    x, big = UOp.variable("x", 0, 9), UOp.const(dtypes.index, 1 << 64)
    for node in (big, x + big, (x < 1).where(x, big), big.cast(dtypes.i32)):
        with pytest.raises(BoundsError, match="overflows 64 bits"):
            evaluate([node], {x: 3})
    assert evaluate([x < big], {x: 3})[0]


@pytest.mark.parametrize("size", [2**62, 2**63, 2**64])
def test_a_shape_that_no_memory_holds(size: int) -> None:
    one = UOp.const(dtypes.f32, 1.0).reshape((1,))
    for node in (one.pad(((0, size),)), one.reshape((1, 1)).expand((4, size)) + 1.0):
        with pytest.raises(MemoryError):
            evaluate([node], {})
