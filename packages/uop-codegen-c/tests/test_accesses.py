"""Every access is proved in range, guarded, or refused:
with the node, the interval of its position, and the memory's size.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from uop_codegen_c import Freedoms, generate, linearize, render, stages
from uop_ir import AddrSpace, BoundsError, DType, Ops, UOp, dtypes, index, run_program

R, Q = UOp.range(8, 0), UOp.range(3, 1)
OUT, MEMORY = UOp.param(0, 32, dtypes.f32), UOp.param(1, 16, dtypes.f32)
N = UOp.variable("n", 0, 9)


def text(*nests: UOp, since: str = "bounds") -> str:
    """The C of a program of loops, through all passes from the check on, or from an earlier one."""
    body = UOp.sink(*nests)
    *_, (_, root) = stages(body, Freedoms(), since)
    order = linearize(root)
    params = [n for n in order if n.op is Ops.PARAM]
    return render("kernel", order, sorted(params, key=lambda p: p.arg.size is None))[1]


def reads(place: UOp) -> UOp:
    """A loop nest that stores what stands at a place."""
    return OUT.index(R * 3 + Q).store(place.load()).end(R, Q)


def at_least(low: int, node: UOp) -> UOp:
    return index(low - 1) < node


@pytest.mark.parametrize(
    ("at", "interval"),
    [
        (R * 2 + Q, "0 to 16"),
        (R - Q, "-2 to 7"),
        (R + N, "0 to 16"),
        (UOp.param(2, 8, dtypes.u8).index(R).load().cast(dtypes.index), "0 to 255"),
        (index(16), "16 to 16"),
    ],
    ids=str,
)
def test_what_may_be_outside_is_refused(at: UOp, interval: str) -> None:
    for nest in (reads(MEMORY.index(at)), MEMORY.index(at).store(UOp.const(dtypes.f32, 1.0)).end(R, Q)):
        message = rf"index\(param1, .*\): elements {interval} of param slot=1, which has 16"
        with pytest.raises(BoundsError, match=message) as refused:
            text(nest)
        assert isinstance(refused.value.node, UOp)
        assert refused.value.node.src[1] is at


@pytest.mark.parametrize(
    ("at", "valid", "interval"),
    [
        (R * 3 + Q, R < 6, "0 to 17"),
        (R - Q, at_least(-1, R - Q), "-1 to 7"),
        (R * 3 + Q, (R < 4) | (Q < 1), "0 to 23"),
        (R * 3 + Q, UOp.param(2, 1, dtypes.bool).index(index(0)).load(), "0 to 23"),
    ],
    ids=str,
)
def test_a_validity_that_does_not_keep_it_inside_is_refused(at: UOp, valid: UOp, interval: str) -> None:
    with pytest.raises(BoundsError, match=f": elements {interval} of param slot=1, which has 16"):
        text(reads(MEMORY.index(at, valid)))


ROW = UOp.param(2, 8, dtypes.i64).index(R).load().cast(dtypes.index)


@pytest.mark.parametrize(
    ("at", "valid"),
    [
        (R * 3 + Q, R < 5),
        (R - Q, at_least(0, R - Q)),
        (R * 3 + Q - 4, at_least(4, R * 3 + Q) & (R < 6) & (Q < 2)),
        (ROW * 3 + Q, at_least(0, ROW) & (ROW < 5)),
        (R * 3 + Q, (R < 5) & UOp.param(2, 1, dtypes.bool).index(index(0)).load()),
        (R + 9 + N, R + N < 7),
        (R + 99, R < 0),
    ],
    ids=str,
)
def test_a_validity_that_keeps_it_inside(at: UOp, valid: UOp) -> None:
    assert "?" in text(reads(MEMORY.index(at, valid))) or valid is (R < 0)


def test_scratch_memory_too() -> None:
    memory = UOp.alloc(0, 7, dtypes.f32, AddrSpace.LOCAL)
    fill = memory.index(R).store(UOp.const(dtypes.f32, 1.0)).end(R)
    with pytest.raises(BoundsError, match="elements 0 to 7 of alloc slot=0, which has 7"):
        text(OUT.index(Q).store(memory.after(fill).index(Q).load()).end(Q))


def test_the_lanes_of_a_vector_are_all_inside() -> None:
    """What a pass before it makes, the renderer looks at again."""
    lanes = UOp(Ops.STACK, [index(i) for i in range(4)])
    for count, good in ((4, True), (5, False)):
        r = UOp.range(count, 0)
        value = MEMORY.index(r * 4 + lanes).load()
        order = linearize(UOp.sink(OUT.index(r * 4 + lanes).store(value).end(r)))
        if good:
            assert "load_f32x4" in render("kernel", order, [OUT, MEMORY])[1]
            continue
        with pytest.raises(BoundsError, match="elements 0 to 19 of param slot=1, which has 16"):
            render("kernel", order, [OUT, MEMORY])


def test_the_lanes_of_a_vector_are_all_inside_where_it_is_valid() -> None:
    lanes = UOp(Ops.STACK, [index(i) for i in range(4)])
    for first, good in ((0, True), (1, False)):
        r = UOp.range(5, 0)
        value = MEMORY.index(r * 4 + lanes + first, r < 4).load()
        order = linearize(UOp.sink(OUT.index(r * 4 + lanes).store(value).end(r)))
        if good:
            assert "? load_f32x4" in render("kernel", order, [OUT, MEMORY])[1]
            continue
        with pytest.raises(BoundsError, match="elements 1 to 16 of param slot=1, which has 16"):
            render("kernel", order, [OUT, MEMORY])


def test_lanes_that_do_not_follow_one_another_are_read_one_by_one() -> None:
    order = [0, 1, 3, 2]
    lanes, along = (UOp(Ops.STACK, [index(i) for i in which]) for which in (order, range(4)))
    r = UOp.range(4, 0)
    body = UOp.sink(OUT.index(r * 4 + along).store(MEMORY.index(r * 4 + lanes).load()).end(r))
    said = render("kernel", linearize(body), [OUT, MEMORY])[1]
    assert re.findall(r"data1\[ridx0\*4(?:\+(\d))?\]", said) == ["", "1", "3", "2"]


def test_memory_without_elements_is_only_there_in_loops_that_never_run() -> None:
    nothing, never = UOp.param(1, 0, dtypes.f32), UOp.range(0, 5)
    with pytest.raises(BoundsError, match="elements 0 to 7 of param slot=1, which has 0"):
        text(reads(nothing.index(R)))
    order = linearize(UOp.sink(OUT.index(index(0)).store(nothing.index(never).load()).end(never)))
    assert "ridx5 < 0" in render("kernel", order, [OUT, nothing])[1]


def test_what_has_no_elements_is_not_read_before_a_loop_that_never_runs() -> None:
    nothing = UOp.param(1, 0, dtypes.f32)
    for value in (nothing * 2.0, nothing.reshape((0, 1)).expand((0, 3)).reduce(Ops.ADD, 1)):
        body = UOp.sink(UOp.param(0, 0, dtypes.f32).store(value))
        assert "data1" not in generate(body).text
    total = nothing.reshape((1, 0)).expand((3, 0)).reduce(Ops.MAX, 1)
    assert "data1" not in generate(UOp.sink(UOp.param(0, 3, dtypes.f32).store(total))).text
    padded = UOp(Ops.STAGE, (nothing,), AddrSpace.LOCAL).pad(((1, 2),))
    assert "data1" not in generate(UOp.sink(UOp.param(0, 3, dtypes.f32).store(padded))).text


def test_an_index_that_64_bits_do_not_hold_is_refused() -> None:
    far = ROW * (1 << 62)
    with pytest.raises(BoundsError, match=r"mul\(cast\(.*an index of -\d+ to \d+, which 64 bits do not hold"):
        text(OUT.index(R).store((far % 7).eq(ROW).where(UOp.const(dtypes.f32, 1.0), 0.0)).end(R))
    assert "int64_t" in text(reads(MEMORY.index(far, ROW.eq(0))))


@pytest.mark.parametrize("free", [Freedoms(), Freedoms(optimize=False)], ids=["optimized", "plain"])
@pytest.mark.parametrize("size", [1, 7, 8, 9, 16, 31, 33])
def test_windows_of_padded_images(
    run_cpu: Callable[..., Any], run_interp: Callable[..., Any], free: Freedoms, size: int
) -> None:
    """Positions of two sums, each behind a mask of its own: a 3 by 3 window over an image padded by 1."""
    image = UOp.param(1, size * size, dtypes.i32).reshape((size, size)).pad(((1, 1), (1, 1)))
    windows = [image.shrink(((i, i + size), (j, j + size))) for i, j in itertools.product(range(3), repeat=2)]
    total = windows[0]
    for window in windows[1:]:
        total = total.maximum(window)
    body = UOp.sink(UOp.param(0, size * size, dtypes.i32).reshape((size, size)).store(total))
    generate(body, free)
    given_ = [
        np.zeros(size * size, np.int32),
        np.random.default_rng(0).permutation(size * size).astype(np.int32),
    ]
    np.testing.assert_array_equal(run_cpu(body, given_)[0], run_interp(body, given_)[0])


@pytest.mark.net
@given(data=st.data())
def test_what_is_accepted_stays_inside_when_interpreted(data: st.DataObject) -> None:
    """The interpreter looks at each access as it happens."""

    def number(depth: int = 2) -> UOp:
        leaf = data.draw(st.sampled_from([R, Q, N]))
        k = data.draw(st.integers(1, 5))
        if not depth:
            return leaf
        other = number(depth - 1)
        return data.draw(
            st.sampled_from([leaf * k, leaf + k, leaf - k, leaf // k, leaf % k, leaf + other, leaf - other])
        )

    def condition() -> UOp:
        low, high = data.draw(st.integers(-3, 9)), data.draw(st.integers(2, 20))
        x = data.draw(st.sampled_from([at, number(), R + Q, R - Q]))
        return data.draw(st.sampled_from([at_least(low, x), x < high, x.eq(high)]))

    at = number()
    place = MEMORY.index(at, at_least(0, at) & condition() & condition())
    nest = reads(place) if data.draw(st.booleans()) else place.store(UOp.const(dtypes.f32, 1.0)).end(R, Q)
    try:
        text(nest)
    except BoundsError:
        return
    for n in range(10):
        memory = {OUT: np.zeros(32, np.float32), MEMORY: np.ones(16, np.float32)}
        run_program(UOp.sink(nest), memory, {N: n})


@pytest.mark.parametrize(
    ("at", "valid"),
    [
        (R - 2, (R - 2) * (R - 9) < 1),  # 2 <= r
        (R * 3 + Q, R * R < 16),
        (R * 2 + Q - 3, index(2) < (R * R) % 4 + R),
    ],
    ids=str,
)
def test_what_only_its_mask_keeps_in_range_is_guarded(at: UOp, valid: UOp) -> None:
    """Masks of movement ops, which are right. Those of loops written by hand may not be, and are refused."""
    nest = reads(MEMORY.index(at, valid))
    with pytest.raises(BoundsError):
        text(nest)
    assert text(nest, since="guard")
    _, guarded = next(stages(UOp.sink(nest), Freedoms(), "guard"))
    data = np.arange(1, 17, dtype=np.float32)
    memory = [{OUT: np.zeros(32, np.float32), MEMORY: data} for _ in range(2)]
    run_program(UOp.sink(nest), memory[0])
    run_program(guarded, memory[1])
    np.testing.assert_array_equal(memory[0][OUT], memory[1][OUT])


def test_what_follows_from_a_mask_by_more_than_intervals_needs_no_guard() -> None:
    """The windows of a pool from behind: at r - q even."""
    q, windows = (R - Q + 1) // 2, (R + Q + 1) % 2 < 1
    at = q * 2 + UOp.range(2, 3) - 1
    valid = windows & (UOp.range(2, 3) * 2 + R > Q) & (Q < 2) & (R < 5)
    body = UOp.sink(OUT.index(R).store(MEMORY.index(at, valid).load()).end(R, Q, UOp.range(2, 3)))
    assert next(stages(body, Freedoms(), "guard")) == ("guard", body)


def test_what_fills_a_memory_is_guarded_as_what_reads_it() -> None:
    fill = UOp.range(8, 3)
    scratch = UOp.alloc(0, 6, dtypes.f32, AddrSpace.LOCAL)

    def hard(r: UOp) -> UOp:
        return (r - 2) * (r - 9) < 1

    filled = scratch.index(fill - 2, hard(fill)).store(MEMORY.index(fill - 2, hard(fill)).load()).end(fill)
    nest = OUT.index(R).store(scratch.after(filled).index(R - 2, hard(R)).load()).end(R)
    with pytest.raises(BoundsError):
        text(nest)
    assert text(nest, since="guard")


def test_a_lane_that_is_masked_out_is_not_read() -> None:
    r = UOp.range(3, 3)
    lanes = UOp(Ops.STACK, [index(i) for i in range(4)])
    for valid, wanted in {
        lanes < 2: "{data1[0], data1[1], 0, 0}",
        (r < 2) & (lanes > 0): "{0, val0 ? data1[1] : 0, val0 ? data1[2] : 0, val0 ? data1[3] : 0}",
        (r < 2) & (lanes < 4): "ridx3 < 2 ? load_f32x4(data1 + 0) : (f32x4){0}",
        lanes < 4: "load_f32x4(data1 + 0)",
        lanes < 0: "{0.0f, 0.0f, 0.0f, 0.0f}",
        UOp.param(2, 4, dtypes.bool).index(lanes).load(): "{val0[0] ? data1[0] : 0, val0[1] ? data1[1] : 0, ",
    }.items():
        assert wanted in text(OUT.index(r * 4 + lanes).store(MEMORY.index(lanes, valid).load()).end(r))


def test_a_condition_holds_up_to_its_end() -> None:
    guard, store = UOp(Ops.IF, (R < 4,)), MEMORY.index(R * 4).store(UOp.const(dtypes.f32, 0.0))
    sources = [n for n in UOp.sink(guard, store).toposort() if n.op not in (Ops.IF, Ops.STORE, Ops.SINK)]
    end, loop = UOp(Ops.ENDIF, (guard,)), store.end(R)
    assert "if (ridx0 < 4)" in render("kernel", [*sources, guard, store, end, loop], [MEMORY])[1]
    with pytest.raises(BoundsError, match="elements 0 to 28 of param slot=1, which has 16"):
        render("kernel", [*sources, guard, end, store, loop], [MEMORY])


def test_a_loop_of_a_size_that_may_be_0_is_looked_at() -> None:
    r = UOp.range(N, 2)
    assert "for" in text(OUT.index(r).store(MEMORY.index(r + 7).load()).end(r))
    with pytest.raises(BoundsError, match="elements 8 to 16 of param slot=1, which has 16"):
        text(OUT.index(r).store(MEMORY.index(r + 8).load()).end(r))


def test_sums_of_ranges_of_symbolic_sizes_are_in_range_where_they_are_for_each_size() -> None:
    """a * n + b * r + c * q + d for r below n and q below n + 2, against all values."""
    n = UOp.variable("n", 1, 4)
    r, q = UOp.range(n, 2), UOp.range(n + 2, 3)
    accepted = 0
    for a, b, c, d in itertools.product((-1, 0, 1, 3), (-3, -1, 2), (-1, 0, 1), (-2, -1, 0, 1, 9)):
        load = MEMORY.index(n * a + r * b + q * c + d).load()
        found = {
            a * size + b * i + c * j + d for size in range(1, 5) for i in range(size) for j in range(size + 2)
        }
        inside = 0 <= min(found) <= max(found) < 16
        try:
            next(stages(UOp.sink(OUT.index(index(0)).store(load).end(r, q)), Freedoms(), "bounds"))
            assert inside, (a, b, c, d)
            accepted += 1
        except BoundsError:
            assert not inside, (a, b, c, d)
    assert accepted


@pytest.mark.parametrize(
    ("size", "type_"), [((1 << 31) - 1, "int"), (1 << 31, "int64_t"), ((1 << 31) + 1, "int64_t")]
)
def test_an_index_has_the_bits_that_it_needs(size: int, type_: str) -> None:
    """The end of a loop counts: the index reaches it."""
    r, bytes_ = UOp.range(size, 2), UOp.param(0, size, dtypes.u8)
    order = linearize(UOp.sink(bytes_.index(r).store(UOp.const(dtypes.u8, 1)).end(r)))
    assert f"for ({type_} ridx2 = 0; ridx2 < {size};" in render("kernel", order, [bytes_])[1]


@pytest.mark.parametrize("dtype", [dtypes.i32, dtypes.i64], ids=str)
def test_what_may_overflow_is_computed_behind_the_validity_that_keeps_it_small(dtype: DType) -> None:
    """Though what is made of it is small whatever it is: a remainder of a square, used twice."""
    row = UOp.param(2, 8, dtype).index(R).load().cast(dtypes.index)
    at = (row * row + R) // 5 % 2 + (row * 5 + Q) % 3 + (row * 2 + R) // 2 % 3 + (row * 3 + Q) % 7
    valid = at_least(0, row) & (row < 5)
    value = MEMORY.index(at, valid).load() + UOp.param(3, 16, dtypes.f32).index(at, valid).load()
    square, *others = [
        s for s in text(OUT.index(R * 3 + Q).store(value).end(R, Q)).splitlines() if "val0*val0" in s
    ]
    assert square.index(" ? data1[") < square.index("val0*val0")
    assert not others


@pytest.mark.parametrize(
    ("at", "text_"),
    [
        (R // N, "div_i32(ridx0, n)"),
        (R % N, "mod_i32(ridx0, n)"),
        ((R - 3) // 2 + 2, "div_i32(ridx0-3, 2)+2"),
        ((R - 3) % 5, "mod_i32(ridx0-3, 5)"),
    ],
    ids=str,
)
def test_a_quotient_that_c_would_not_floor_or_not_define_is_a_helper(at: UOp, text_: str) -> None:
    loop = OUT.index(R).store(MEMORY.index(at).load()).end(R)
    assert f"data1[{text_}]" in render("kernel", linearize(UOp.sink(loop)), [OUT, MEMORY, N])[1]


FORMULAS: list[Callable[[Any, Any], Any]] = [
    lambda r, n: n * (r // 3),
    lambda r, n: r // 3 * n,
    lambda r, n: n * (r % 3),
    lambda r, n: (r * n) // 3 % 5,
    lambda r, n: r // (n * 2),
    lambda r, n: r % (n * 2),
    lambda r, n: (r + 9) // (n // 2 + 1),
    lambda r, n: (r + 1) * (n + 2),
    lambda r, n: n - (1 - r),
    lambda r, n: n + 7 - r - 1,
    lambda r, n: (r - n) // 2 + 5,
    lambda r, n: (r - n) % 4,
]


@pytest.mark.parametrize("formula", FORMULAS)
def test_index_arithmetic_has_the_parentheses_that_c_needs(formula: Callable[[Any, Any], Any]) -> None:
    """Whose precedence is that of Python; its quotients are made to floor where one may be negative."""
    n = UOp.variable("n", 1, 9)
    bytes_ = UOp.param(1, 1000, dtypes.u8)
    loop = OUT.index(R).store(bytes_.index(formula(R, n)).load().cast(dtypes.f32)).end(R)
    helpers, said = render("kernel", linearize(UOp.sink(loop)), [OUT, bytes_, n])
    (at,) = re.findall(r"data1\[(.*)\];", said)
    names = {"div_i32": lambda x, y: x // y, "mod_i32": lambda x, y: x % y}
    assert ("div_i32" in at or "mod_i32" in at) == bool(helpers)
    for r, size in itertools.product(range(8), range(1, 10)):
        found = eval(at.replace("/", "//"), {**names, "ridx0": r, "n": size})  # noqa: S307  # of our own text
        assert found == formula(r, size), at


def test_a_vector_of_bools_that_is_built_lane_by_lane(
    run_loops: Callable[..., Any], same_bits: Callable[..., None]
) -> None:
    """Its lanes are masks, all bits set or none, however the bools come there; in memory they are 0 and 1."""
    out, x, y = (UOp.param(slot, 8, dtypes.bool) for slot in range(3))
    lanes = UOp(Ops.STACK, [index(i) for i in range(4)])
    picked = UOp(Ops.STACK, [x.index(index(i)).load() for i in (3, 0, 5, 1)])
    mixed = picked ^ y.index(lanes).load()
    body = UOp.sink(out.index(lanes).store(picked), out.index(lanes + 4).store(mixed))
    of_x, of_y = np.array([1, 0, 0, 1, 0, 1, 1, 0], np.bool_), np.array([1, 1, 0, 0, 1, 1, 1, 0], np.bool_)
    took = of_x[[3, 0, 5, 1]]
    same_bits(
        run_loops(body, [np.zeros(8, np.bool_), of_x, of_y])[0], np.concatenate([took, took ^ of_y[:4]])
    )
