"""What is made of masks and REDUCE without quadratic cost:
counters, prefix sums, picked and scattered elements.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import pytest

from uop_codegen_c import Freedoms, generate, linearize, settings, stages
from uop_ir import REDUCE_IDENTITY, AddrSpace, AxisType, Ops, UOp, call_params, dtypes, override, run_program

F32, I32 = dtypes.f32, dtypes.i32
STRICT = Freedoms(optimize=False, contract=False, reassociate=False)
TRUE = UOp.const(dtypes.bool, True)


def param(slot: int, shape: tuple[int, ...], dtype: Any = F32) -> UOp:
    return UOp.param(slot, prod(shape), dtype).reshape(shape)


def kernel(value: UOp) -> UOp:
    return UOp.sink(param(0, value.shape, value.dtype).store(value))  # type: ignore[arg-type]  # sizes are ints


def along(x: UOp, axis: int, shape: tuple[int, ...]) -> UOp:
    """A vector as one axis of a shape."""
    return x.reshape(tuple(s if a == axis else 1 for a, s in enumerate(shape))).expand(shape)


def windows(x: UOp, size: int) -> UOp:
    """All windows of a size of the last axis, as a new last axis: rows that are one longer than the axis."""
    *lead, n = x.shape
    count = n - size + 1
    whole = tuple((0, d) for d in lead)
    repeated = x.reshape((*lead, 1, n)).expand((*lead, size + 1, n)).reshape((*lead, (size + 1) * n))
    rows = repeated.shrink((*whole, (0, size * (n + 1)))).reshape((*lead, size, n + 1))
    axes = (*range(len(lead)), len(lead) + 1, len(lead))
    return rows.shrink((*whole, (0, size), (0, count))).permute(axes)


def counter(n: int) -> UOp:
    """0 to n - 1: as many ones as stand before, less one."""
    return windows(UOp.const(I32, 1).reshape((1,)).expand((n,)).pad(((n - 1, 0),)), n).reduce(Ops.ADD, 1) - 1


def masked(x: UOp, before: Callable[[UOp, UOp], UOp], op: Ops = Ops.ADD, other: float = 0.0) -> UOp:
    """For each i the fold of all x[..., j] for which before(j, i) holds."""
    shape = (*x.shape, x.shape[-1])
    rank = len(shape)
    i, j = (along(counter(x.shape[-1]), axis, shape) for axis in (rank - 2, rank - 1))  # type: ignore[arg-type]
    spread = x.reshape((*x.shape[:-1], 1, x.shape[-1])).expand(shape)
    return before(j, i).where(spread, other).reduce(op, 1)


def up_to(j: UOp, i: UOp) -> UOp:
    return (i < j).ne(TRUE)


def cumsum(x: UOp) -> UOp:
    """The sum of all windows as long as the last axis, over zeros that stand before it."""
    n = x.shape[-1]
    pairs = [*((0, 0) for _ in x.shape[1:]), (n - 1, 0)]
    return windows(x.pad(pairs), n).reduce(Ops.ADD, 1)  # type: ignore[arg-type]  # sizes are ints


def transposed(x: UOp) -> UOp:
    return x.permute((1, 0))


def scattered(values: int, at: UOp, g: UOp, op: Ops = Ops.ADD) -> UOp:
    """For each value the fold of the rows g[n] with at[n] equal to it."""
    n, width = g.shape
    shape: Any = (values, width, n)
    mask = along(counter(values).cast(at.dtype), 0, shape).eq(at.reshape((1, 1, n)).expand(shape))
    rows = transposed(g).reshape((1, width, n)).expand(shape)
    return mask.where(rows, g.const_like(REDUCE_IDENTITY[op](g.dtype))).reduce(op, 1)


def gathered(table: UOp, at: UOp) -> UOp:
    """table[at[n]] for each n, as a sum over one-hot rows."""
    rows, width = table.shape
    shape: Any = (at.shape[0], width, rows)
    mask = along(counter(rows), 2, shape).eq(along(at, 0, shape))  # type: ignore[arg-type]  # sizes are ints
    return mask.where(transposed(table).reshape((1, width, rows)).expand(shape), 0.0).reduce(Ops.ADD, 1)


def operations(body: UOp) -> int:
    return generate(body, STRICT).flops


PREFIXES: dict[str, Callable[[UOp], UOp]] = {
    "windows": cumsum,
    "mask": lambda x: masked(x, up_to),
    "exclusive": lambda x: masked(x, lambda j, i: j < i),
    "two behind": lambda x: masked(x, lambda j, i: (j + 2) < i),
    "from the third on": lambda x: masked(x, lambda j, i: up_to(j, i) & (j.const_like(2) < j)),
    "greatest": lambda x: masked(x, up_to, Ops.MAX, -np.inf),
    "product": lambda x: masked(x, up_to, Ops.MUL, 1.0),
    "from the end": lambda x: cumsum(x.flip((False, True))).flip((False, True)),
    "of what was computed": lambda x: cumsum((x * x).alu(Ops.EXP2)) + 1.0,
    "with a matrix": lambda x: cumsum(x) * x.reduce(Ops.ADD, 1).reshape((x.shape[0], 1)).expand(x.shape),
    "of columns": lambda x: transposed(cumsum(transposed(x))),
}


@pytest.mark.net
@pytest.mark.parametrize("opt", [0, 1])
@pytest.mark.parametrize("shape", [(1, 1), (16, 40)], ids=str)
@pytest.mark.parametrize("name", PREFIXES)
def test_prefixes_have_the_bits_of_the_graph(
    run_cpu: Callable[..., Any],
    run_interp: Callable[..., Any],
    same_bits: Callable[..., None],
    name: str,
    shape: tuple[int, int],
    opt: int,
) -> None:
    body = kernel(PREFIXES[name](param(1, shape)))
    rng = np.random.default_rng(0)
    x = rng.standard_normal(prod(shape)).astype(np.float32)
    x[rng.random(x.size) < 0.2] = rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan])
    given = [np.zeros(prod(shape), np.float32), x]
    with override(settings, opt=opt, strict=1):
        same_bits(run_cpu(body, given)[0], run_interp(body, given)[0])


@pytest.mark.parametrize("name", [n for n in PREFIXES if n not in ("of what was computed", "with a matrix")])
def test_a_prefix_takes_one_operation_an_element(name: str) -> None:
    for rows, columns in ((4, 1000), (2, 100_000)):
        shape = (columns, rows) if name == "of columns" else (rows, columns)
        assert operations(kernel(PREFIXES[name](param(1, shape)))) == rows * columns


def test_the_cost_of_a_cumulative_sum_is_linear_up_to_a_million(run_cpu: Callable[..., Any]) -> None:
    for n in (1_000, 10_000, 1_000_000):
        assert operations(kernel(cumsum(param(1, (n,))))) == n
    x = np.random.default_rng(0).integers(-8, 8, n).astype(np.float32)  # each sum is exact
    out = run_cpu(kernel(cumsum(param(1, (n,)))), [np.zeros(n, np.float32), x])[0]
    np.testing.assert_array_equal(out, np.cumsum(x))


@pytest.mark.parametrize("rows", [1, 2])
def test_a_walk_that_carries_a_sum_is_not_shared_by_threads(rows: int) -> None:
    """However long it is: of several, each is one thread's."""
    shared = generate(kernel(cumsum(param(1, (rows, 1_000_000))))).text.partition("#pragma omp")[2]
    assert shared == "" or (rows == 2 and "< 2; ridx" in shared.splitlines()[1])


def test_a_sum_of_all_behind_an_element_is_linear_where_floats_may_be_reassociated() -> None:
    """Integers always may; floats are summed up from the end."""
    for dtype, free in ((I32, STRICT), (F32, Freedoms(optimize=False))):
        x = param(1, (1000,), dtype)
        body = kernel(masked(x, lambda j, i: (j < i).ne(TRUE), other=0))
        order = linearize(dict(stages(body, free))["spread"])
        assert sum(n.op is Ops.RANGE for n in order) == 1
        given = np.random.default_rng(0).integers(-8, 8, 1000).astype(dtype.numpy)
        memory = [np.zeros_like(given), given]
        run_program(order, dict(zip(call_params(body), memory, strict=True)))
        np.testing.assert_array_equal(memory[0], np.cumsum(given[::-1])[::-1])
    assert operations(kernel(masked(param(1, (100,)), lambda j, i: (j < i).ne(TRUE)))) == 10_000


def test_a_scratch_of_a_prefix_is_filled_in_one_walk(run_cpu: Callable[..., Any]) -> None:
    """The loop that fills scratch memory carries a value as that of a store does."""
    total = UOp(Ops.STAGE, (cumsum(param(1, (50,))),), AddrSpace.LOCAL)
    body = kernel(total + total.flip((True,)))
    assert operations(body) == 100
    x = np.arange(50, dtype=np.float32)
    want = np.cumsum(x) + np.cumsum(x)[::-1]
    np.testing.assert_array_equal(run_cpu(body, [np.zeros(50, np.float32), x])[0], want)


@pytest.mark.parametrize("n", [4, 8, 19])
@pytest.mark.parametrize("dtype", [dtypes.f64, dtypes.i64], ids=str)
def test_a_sum_of_running_sums_has_lanes_of_one_of_the_two(
    run_cpu: Callable[..., Any], dtype: Any, n: int
) -> None:
    x, weight = param(1, (n,), dtype), param(2, (n,), dtype)
    body = kernel((weight * (x + masked(x, up_to, other=0))).reduce(Ops.ADD, 1))
    rng = np.random.default_rng(0)
    numbers, factors = (rng.integers(-9, 9, n).astype(dtype.numpy) for _ in range(2))
    (found,) = run_cpu(body, [np.zeros(1, dtype.numpy), numbers, factors])[0]
    assert found == (factors * (numbers + np.cumsum(numbers))).sum()


@pytest.mark.net
@pytest.mark.parametrize("opt", [0, 1])
@pytest.mark.parametrize("width", [3, 40])
@pytest.mark.parametrize(
    ("dtype", "index_type"),
    [(F32, I32), (I32, dtypes.i64), (dtypes.f16, dtypes.u8), (dtypes.f64, dtypes.i8)],
    ids=str,
)
def test_scattered_rows_have_the_bits_of_the_graph(
    run_cpu: Callable[..., Any],
    run_interp: Callable[..., Any],
    same_bits: Callable[..., None],
    dtype: Any,
    index_type: Any,
    width: int,
    opt: int,
) -> None:
    values, count = 7, 30
    body = kernel(scattered(values, param(1, (count,), index_type), param(2, (count, width), dtype)))
    rng = np.random.default_rng(0)
    at = rng.integers(0 if index_type is dtypes.u8 else -3, values + 3, count).astype(index_type.numpy)
    g = (rng.standard_normal((count, width)) * 5).astype(dtype.numpy)
    given = [np.ones(values * width, dtype.numpy), at, g.reshape(-1)]
    with override(settings, opt=opt, strict=1):
        same_bits(run_cpu(body, given)[0], run_interp(body, given)[0])


@pytest.mark.parametrize("opt", [0, 1])
@pytest.mark.parametrize("index_type", [I32, dtypes.i64], ids=str)
def test_rows_that_are_scattered_into_a_part_of_the_columns(
    run_cpu: Callable[..., Any],
    run_interp: Callable[..., Any],
    same_bits: Callable[..., None],
    index_type: Any,
    opt: int,
) -> None:
    """A condition that differs between the columns, which are lanes of one store, is none of that store."""
    values, count, inner = 5, 12, 6
    rows = (param(2, (count, inner), dtypes.f64) + 1).pad(((1, 0), (1, 1)))
    body = kernel(scattered(values, param(1, (count + 1,), index_type), rows))
    rng = np.random.default_rng(0)
    at = rng.integers(-2, values + 2, count + 1).astype(index_type.numpy)
    given = [np.ones(values * (inner + 2)), at, rng.standard_normal(count * inner)]
    with override(settings, opt=opt, strict=1):
        same_bits(run_cpu(body, given)[0], run_interp(body, given)[0])


def test_a_scatter_of_integers_is_that_of_numpy(run_cpu: Callable[..., Any]) -> None:
    values, count, width = 1000, 5000, 16
    body = kernel(scattered(values, param(1, (count,), I32), param(2, (count, width), I32)))
    rng = np.random.default_rng(0)
    at, g = rng.integers(0, values, count), rng.integers(-9, 9, (count, width))
    want = np.zeros((values, width), np.int64)
    np.add.at(want, at, g)
    given = [np.ones(values * width, np.int32), at.astype(np.int32), g.astype(np.int32).reshape(-1)]
    np.testing.assert_array_equal(run_cpu(body, given)[0].reshape(values, width), want)


def test_a_scatter_takes_one_addition_an_element() -> None:
    for values, count, width in ((1_000, 100_000, 8), (100_000, 1_000_000, 1)):
        body = kernel(scattered(values, param(1, (count,), I32), param(2, (count, width))))
        assert operations(body) == count * width


@pytest.mark.parametrize("op", [Ops.MAX, Ops.MUL])
@pytest.mark.parametrize("dtype", [F32, dtypes.u8])
def test_products_and_greatest_elements_are_scattered_too(
    run_cpu: Callable[..., Any],
    run_interp: Callable[..., Any],
    same_bits: Callable[..., None],
    dtype: Any,
    op: Ops,
) -> None:
    """Where nothing is sent stands the identity; NaN and -0.0 are folded as the graph says."""
    values, count, width = 7, 30, 3
    body = kernel(scattered(values, param(1, (count,), I32), param(2, (count, width), dtype), op))
    ends = [n for n in linearize(dict(stages(body, STRICT))["spread"]) if n.op is Ops.END]
    assert sorted(sorted(int(r.src[0].value) for r in end.src[1:]) for end in ends) == [
        [width, values],
        [width, count],
    ]
    rng = np.random.default_rng(0)
    at = rng.integers(-3, values + 3, count).astype(np.int32)
    at[at == 2] = 1
    g = rng.integers(0, 9, (count, width)).astype(dtype.numpy)
    if dtype is F32:
        g = g * np.where(rng.random(g.shape) < 0.5, -1, 1).astype(np.float32)
        g[0, 0] = np.nan
    given = [np.ones(values * width, dtype.numpy), at, g.reshape(-1)]
    got = run_cpu(body, given)[0]
    same_bits(got, run_interp(body, given)[0])
    assert (got.reshape(values, width)[2] == REDUCE_IDENTITY[op](dtype)).all()


def test_a_histogram_is_a_scatter_of_ones(run_cpu: Callable[..., Any]) -> None:
    count = 1000
    shape = (10, count)
    mask = along(counter(10), 0, shape).eq(along(param(1, (count,), I32), 1, shape))
    body = kernel(mask.cast(I32).reduce(Ops.ADD, 1))
    order = linearize(dict(stages(body, STRICT))["spread"])
    assert [int(n.src[0].value) for n in order if n.op is Ops.RANGE] == [10, count]
    at = np.random.default_rng(0).integers(-2, 12, count).astype(np.int32)
    want = np.bincount(at[(at >= 0) & (at < 10)], minlength=10)
    np.testing.assert_array_equal(run_cpu(body, [np.zeros(10, np.int32), at])[0], want)


def test_memory_that_is_read_too_is_not_scattered_to(run_cpu: Callable[..., Any]) -> None:
    """The zeros would be stored before it is read."""
    values, count = 8, 20
    out, at = UOp.param(0, values, F32), param(1, (count,), I32)
    shape = (values, count)
    mask = along(counter(values), 0, shape).eq(along(at, 1, shape))
    total = mask.where(along(out * 2.0, 0, shape), 0.0).reduce(Ops.ADD, 1)
    given = [np.arange(values, dtype=np.float32), np.arange(count, dtype=np.int32) % 5]
    want = np.where(np.arange(values) < 5, np.arange(values) * 8.0, 0.0)
    np.testing.assert_array_equal(run_cpu(UOp.sink(out.store(total)), given)[0], want)


def test_an_element_that_a_scatter_would_overwrite_is_read_before_it(run_cpu: Callable[..., Any]) -> None:
    values, count = 8, 20
    out, at, g = UOp.param(0, values, F32), param(1, (count,), I32), param(2, (count,))
    shape = (values, count)
    mask = along(counter(values), 0, shape).eq(along(at, 1, shape))
    factor = out.shrink(((0, 1),)).reshape((1, 1)).expand(shape)
    total = mask.where(along(g, 1, shape) * factor, 0.0).reduce(Ops.ADD, 1)
    given = [np.full(values, 3, np.float32), np.arange(count, dtype=np.int32) % 5, np.ones(count, np.float32)]
    got = run_cpu(UOp.sink(out.store(total)), given)[0]
    np.testing.assert_array_equal(got, np.bincount(given[1], minlength=values) * 3)


def test_a_counter_has_no_loop_of_its_own_and_a_gather_no_loop_over_the_table() -> None:
    for n in (7, 1_000_003):
        order = linearize(dict(stages(kernel(counter(n)), STRICT))["spread"])
        assert sum(r.op is Ops.RANGE for r in order) == 1
        order = linearize(
            dict(stages(kernel(gathered(param(1, (n, 4)), param(2, (5,), I32))), STRICT))["spread"]
        )
        assert [int(r.src[0].value) for r in order if r.op is Ops.RANGE] == [5, 4]


def times_own(x: UOp) -> UOp:
    """For each i the sum of x[j] * x[i] for all j up to it."""
    n = x.shape[-1]
    shape = (*x.shape, n)
    i, j = (along(counter(n), axis, shape) for axis in (1, 2))  # type: ignore[arg-type]  # sizes are ints
    spread = x.reshape((x.shape[0], 1, n)).expand(shape) * x.reshape((*x.shape, 1)).expand(shape)
    return up_to(j, i).where(spread, 0.0).reduce(Ops.ADD, 1)


#: What looks like a prefix and is none, or not of one more element each time.
ALIKE: dict[str, Callable[[UOp], UOp]] = {
    "a product with the zeros before it": lambda x: windows(x.pad(((0, 0), (19, 0))), 20).reduce(Ops.MUL, 1),
    "a greatest with the zeros before it": lambda x: windows(x.pad(((0, 0), (19, 0))), 20).reduce(Ops.MAX, 1),
    "of two limits": lambda x: masked(x, lambda j, i: (j < i) & ((j + 3) < i)),
    "two at first": lambda x: masked(x, lambda j, i: j < (i + 2)),
    "three at first": lambda x: masked(x, lambda j, i: j < (i + 3)),
    "of windows that are one short": lambda x: windows(x.pad(((0, 0), (18, 0))), 19).reduce(Ops.ADD, 1),
    "of windows that are two short": lambda x: windows(x.pad(((0, 0), (17, 0))), 18).reduce(Ops.ADD, 1),
    "of windows that begin with two": lambda x: windows(x.pad(((0, 0), (18, 0))), 20).reduce(Ops.ADD, 1),
    "of what depends on the end": times_own,
}


@pytest.mark.parametrize("name", ALIKE)
def test_what_looks_like_a_prefix_has_the_bits_of_the_graph(
    run_cpu: Callable[..., Any],
    run_interp: Callable[..., Any],
    same_bits: Callable[..., None],
    name: str,
) -> None:
    body = kernel(ALIKE[name](param(1, (2, 20))))
    given = [np.zeros(p.arg.size, np.float32) for p in call_params(body)]
    given[1] += np.random.default_rng(0).uniform(-2, -1, 40).astype(np.float32)
    with override(settings, opt=0, strict=1):
        same_bits(run_cpu(body, given)[0], run_interp(body, given)[0])


def test_sums_of_segments_of_rows(run_cpu: Callable[..., Any]) -> None:
    """What is added in the inner loop is read again each time,
    though its place does not depend on that loop.
    """
    values, count, width = 7, 30, 12
    at, g = param(1, (count,), I32), param(2, (count, width), I32)
    shape = (values, count, width)
    mask = along(counter(values), 0, shape).eq(along(at, 1, shape))
    total = mask.where(g.reshape((1, count, width)).expand(shape), 0).reduce(Ops.ADD, 2)
    rng = np.random.default_rng(0)
    where = rng.integers(0, values, count).astype(np.int32)
    what = rng.integers(-9, 9, (count, width)).astype(np.int32)
    want = np.zeros(values, np.int32)
    np.add.at(want, where, what.sum(1))
    given = [np.ones(values, np.int32), where, what.reshape(-1)]
    np.testing.assert_array_equal(run_cpu(kernel(total), given)[0], want)


@pytest.mark.parametrize("opt", [0, 1])
def test_a_scatter_takes_what_another_condition_lets_through(run_cpu: Callable[..., Any], opt: int) -> None:
    values, count = 9, 40
    at, g = param(1, (count,), I32), param(2, (count,), I32)
    shape = (values, count)
    mask = along(counter(values), 0, shape).eq(along(at, 1, shape)) & (along(g, 1, shape) < 3)
    total = mask.where(along(g, 1, shape), 0).reduce(Ops.ADD, 1)
    rng = np.random.default_rng(0)
    where, what = rng.integers(0, values, count).astype(np.int32), rng.integers(-9, 9, count).astype(np.int32)
    want = np.zeros(values, np.int32)
    np.add.at(want, where[what < 3], what[what < 3])
    with override(settings, opt=opt):
        got = run_cpu(kernel(total), [np.ones(values, np.int32), where, what])[0]
    np.testing.assert_array_equal(got, want)


def test_a_scatter_by_a_type_that_does_not_hold_all_values(run_cpu: Callable[..., Any]) -> None:
    """The counter wraps in it, so that an index stands for more than one value."""
    values, count = 300, 50
    at = param(1, (count,), dtypes.u8)
    shape = (values, count)
    mask = along(counter(values).cast(dtypes.u8), 0, shape).eq(along(at, 1, shape))
    where = (np.arange(count) * 7 % 256).astype(np.uint8)
    want = (np.arange(values)[:, None] % 256 == where).sum(1)
    body = kernel(mask.cast(I32).reduce(Ops.ADD, 1))
    np.testing.assert_array_equal(run_cpu(body, [np.ones(values, np.int32), where])[0], want)


def test_a_fold_of_what_the_loop_itself_stores_stays_where_it_is() -> None:
    """Loops written by hand: each sum reads what those before it have stored.
    A walk would begin with all of it zero.
    """
    out, at = UOp.param(0, 6, I32), UOp.param(1, 6, I32)
    v, n = UOp.range(6, 0, AxisType.LOOP), UOp.range(6, 1, AxisType.REDUCE)
    chosen = at.index(n).load().eq(v.cast(I32)).where(out.index(n).load(), 0)
    root = UOp.sink(out.index(v).store(chosen.reduce(Ops.ADD, 0, (n,))).end(v))
    *_, (_, lowered) = stages(root, STRICT, first="carry")
    got = np.arange(1, 7, dtype=np.int32)
    run_program(linearize(lowered), {out: got, at: np.array([1, 0, 3, 0, 5, 0], np.int32)})
    assert got.tolist() == [12, 12, 0, 0, 0, 0]
