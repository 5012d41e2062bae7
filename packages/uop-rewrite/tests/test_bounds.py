"""Bounds against all values: sound for every op, and exact for ops of index on intervals."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import combinations_with_replacement, pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from uop_ir import AddrSpace, DType, Ops, UOp, VerifyError, dtypes
from uop_rewrite import bounds, values, wraps

Binary = Callable[[int, int], int]

#: What an op of index computes, on Python's integers.
INDEX: dict[Ops, Binary] = {
    Ops.ADD: lambda p, q: p + q,
    Ops.SUB: lambda p, q: p - q,
    Ops.MUL: lambda p, q: p * q,
    Ops.MAX: max,
    Ops.DIV: lambda p, q: p // q if q else 0,
    Ops.MOD: lambda p, q: p % q if q else p,
    Ops.CMPLT: lambda p, q: int(p < q),
    Ops.CMPEQ: lambda p, q: int(p == q),
    Ops.CMPNE: lambda p, q: int(p != q),
}
SPANS = list(combinations_with_replacement(range(-4, 5), 2))


@pytest.mark.parametrize("op", INDEX)
def test_binary_ops_of_index(op: Ops) -> None:
    """The bounds are the least and the greatest result, not just around them."""
    for (a, b), (c, d) in product(SPANS, SPANS):
        found = [INDEX[op](p, q) for p in range(a, b + 1) for q in range(c, d + 1)]
        node = UOp.variable("x", a, b).alu(op, UOp.variable("y", c, d))
        assert bounds(node) == (min(found), max(found)), (op, a, b, c, d)


#: Values at which integers of 8 bits wrap.
EDGES = {dtypes.i8: (-128, -100, -3, 0, 2, 127), dtypes.u8: (0, 1, 6, 100, 200, 255), dtypes.bool: (0, 1)}


def narrow(dtype: DType, name: str, lo: int, hi: int) -> UOp:
    return UOp.variable(name, lo, hi).cast(dtype)


@pytest.mark.net
@pytest.mark.parametrize("dtype", EDGES, ids=str)
def test_ops_that_wrap(kit: Any, dtype: DType) -> None:
    ops = [Ops.CMPLT, Ops.CMPEQ, Ops.CMPNE, Ops.AND, Ops.OR, Ops.XOR]
    if dtype is not dtypes.bool:
        ops += [Ops.ADD, Ops.SUB, Ops.MUL, Ops.DIV, Ops.MOD, Ops.MAX, Ops.SHL, Ops.SHR]
    spans = list(combinations_with_replacement(EDGES[dtype], 2))
    for (a, b), (c, d) in product(spans, spans):
        x, y = narrow(dtype, "x", a, b), narrow(dtype, "y", c, d)
        nodes = [x.alu(op, y) for op in ops]
        # a sample where all pairs are too many
        domains = {
            x.src[0]: np.unique(np.r_[np.arange(a, b + 1)[:: 1 + (b - a) // 24], b]),
            y.src[0]: np.unique(np.r_[np.arange(c, d + 1)[:: 1 + (d - c) // 24], d]),
        }
        for node, found in zip(nodes, kit.values(nodes, domains), strict=True):
            lo, hi = bounds(node)
            assert lo <= int(found.min()), (node.op, a, b, c, d)
            assert int(found.max()) <= hi, (node.op, a, b, c, d)


@pytest.mark.parametrize("dtype", [*dtypes.ints, dtypes.bool, dtypes.index], ids=str)
def test_casts(kit: Any, dtype: DType) -> None:
    for lo, hi in combinations_with_replacement((-300, -129, -128, -1, 0, 1, 127, 128, 255, 256), 2):
        node = UOp.variable("x", lo, hi).cast(dtype)
        found = kit.values([node])[0].astype(object)
        assert bounds(node)[0] <= found.min() <= found.max() <= bounds(node)[1]
        if not lo < 0 < hi and dtype.min <= lo and hi <= dtype.max:
            assert bounds(node) == (found.min(), found.max())
    assert bounds(kit.scalar("f", dtypes.f32).cast(dtype)) == (dtype.min, dtype.max)


def test_the_rest_of_the_table(kit: Any) -> None:
    v, w = UOp.variable("v", -2, 7), UOp.variable("w", 3, 4)
    assert bounds(v) == (-2, 7)
    assert bounds(-v) == (-7, 2)
    assert bounds(UOp.const(dtypes.u64, -1)) == ((1 << 64) - 1,) * 2
    assert bounds(UOp.const(dtypes.bool, True)) == (1, 1)
    assert bounds((v < 0).where(w, v)) == (0, 7)
    assert bounds((v < w).where(w * 2, -v)) == (-7, 8)
    assert bounds(UOp(Ops.STACK, (v, w))) == (-2, 7)
    assert bounds(UOp.range(5, 0)) == (0, 4)
    assert bounds(UOp.range(v, 0)) == (0, 6)
    assert bounds(UOp.range(0, 0)) == (0, 0)
    assert bounds(UOp(Ops.SPECIAL, (w,), "gidx0")) == (0, 3)
    for dtype in dtypes.ints:
        assert bounds(UOp.param(0, 3, dtype)) == bounds(kit.scalar("n", dtype)) == (dtype.min, dtype.max)
    f = kit.scalar("f", dtypes.f32)
    for node in (f < 1, f.eq(f), f.ne(f), f.cast(dtypes.bool)):
        assert bounds(node) == (0, 1)


def test_a_value_beside_itself(kit: Any) -> None:
    n, f = kit.scalar("n", dtypes.i32), kit.scalar("f", dtypes.f32)
    assert bounds(n.eq(n)) == (1, 1)
    assert bounds(n.ne(n)) == (0, 0)
    assert bounds(n < n) == bounds(f < f) == (0, 0)  # noqa: PLR0124  what is tested


def test_floats_and_effects_have_none(kit: Any) -> None:
    with pytest.raises(VerifyError, match="f32"):
        bounds(kit.scalar("f", dtypes.f32))
    with pytest.raises(VerifyError, match="void"):
        bounds(UOp.sink())


def test_deep_graphs() -> None:
    node = UOp.variable("v", 0, 1)
    for _ in range(20_000):
        node = node + 1
    assert bounds(node) == (20_000, 20_001)


ARITHMETIC = (Ops.ADD, Ops.SUB, Ops.MUL, Ops.DIV, Ops.MOD, Ops.MAX)
BITS = (Ops.AND, Ops.OR, Ops.XOR, Ops.SHL, Ops.SHR)
#: (least, how many, step) of an operand: all its values are tried.
PROGRESSIONS = st.tuples(st.integers(-128, 255), st.integers(1, 24), st.sampled_from((1, 1, 2, 3, 4, 8, 16)))


def progression(dtype: DType, name: str, drawn: tuple[int, int, int]) -> tuple[UOp, UOp]:
    """A variable, and least + step * variable in a dtype, where it fits."""
    least, count, step = drawn
    low, high = (int(dtype.min), int(dtype.max)) if dtype is not dtypes.index else (-128, 255)
    least = min(max(least, low), high)
    count = min(count, (high - least) // step + 1)
    v = UOp.variable(name, 0, count - 1)
    return v, (v * step + least).cast(dtype)


@pytest.mark.net
@pytest.mark.parametrize("dtype", [dtypes.index, dtypes.i8, dtypes.u8], ids=str)
@pytest.mark.parametrize("op", [*ARITHMETIC, *BITS])
@given(PROGRESSIONS, PROGRESSIONS)
@settings(max_examples=40)
def test_values_with_steps(kit: Any, dtype: DType, op: Ops, first: Any, second: Any) -> None:
    """Every result is one of the values; where the operands are intervals and nothing wraps,
    both ends are reached.
    """
    if dtype is dtypes.index and op in BITS:
        return
    (v, x), (w, y) = progression(dtype, "v", first), progression(dtype, "w", second)
    node = x.alu(op, y)
    domains = {n: np.arange(n.arg.min, n.arg.max + 1) for n in (v, w)}
    found = {int(i) for i in np.ravel(kit.values([node], domains)[0])}
    told = values(node)
    assert all(told.least <= i <= told.greatest for i in found)
    assert all((i - told.offset) % told.step == 0 if told.step else i == told.offset for i in found)
    if first[2] == second[2] == 1 and not wraps(node):
        assert (told.least, told.greatest) == (min(found), max(found))


def test_a_step_decides_what_an_interval_cannot() -> None:
    v, w = UOp.variable("v", 0, 9), UOp.variable("w", 0, 9)
    assert values(v * 6 + w * 4 + 1) == (1, 91, 2, 1)
    assert bounds((v * 6 + w * 4 + 1) % 2) == (1, 1)
    assert bounds((v * 4 + 1).eq(w * 2)) == (0, 0)
    assert values((v * 12 + 7) // 4) == (1, 28, 3, 1)
    assert values((v < w).where(v * 4 + 1, w * 6 + 3)) == (1, 57, 2, 1)
    assert values((v * 8).cast(dtypes.u8) & 12)[2:] == (8, 0)
    wide = UOp.param(0, 1, dtypes.i32).index(UOp.const(dtypes.index, 0)).load()
    assert values(wide * 8 + 3)[2:] == (8, 3)  # it wraps, but modulo a power of 2


def test_what_wraps_and_what_is_shown_not_to() -> None:
    v = UOp.variable("v", 0, 9).cast(dtypes.i8)
    assert not wraps(v * 14)
    assert wraps(v * 15)
    assert bounds(v * 14 + 1) == (1, 127)
    assert bounds(-v + v.const_like(-120)) == (-128, 127)
    u = UOp.variable("u", 5, 9).cast(dtypes.u8)
    assert bounds(u - 10) == (251, 255)  # all of them wrap, and alike
    assert not wraps(UOp.variable("v", 0, 9) * (1 << 62))  # index is a mathematical integer


def test_a_choice_by_its_own_comparison() -> None:
    v, w = UOp.variable("v", 0, 9), UOp.variable("w", 3, 5)
    assert bounds((v < w).where(v, w)) == (0, 5)
    assert bounds((v < w).where(w, v)) == (3, 9)
    assert bounds((v < 4).where(v, 0)) == (0, 3)
    assert bounds(v * v - 1) == (-1, 80)


P, Q, S = UOp.range(4, 0), UOp.range(5, 1), UOp.variable("s", -2, 7)


@pytest.mark.parametrize(
    ("condition", "yes", "no"),
    [
        # part of a sum, the whole of it in other words, a multiple of it
        (P + Q > 1, P + Q + S, -1),
        ((P * 3 + Q > 7) & (P * 3 + Q < 11), 10 - Q - P * 3, -1),
        ((P + Q > 3) & (Q < 3) & (S < 5) & (S > 0), (P + Q) * 2 + S - 8, -1),
        # where it does not hold; where one of two does not; where both sides are equal
        (P + Q < 3, 0, P * 2 + Q * 2 - 5),
        ((P + Q < 3) | (P + Q > 5), -1, P + Q),
        ((P + Q).eq(S * 2), P + Q - S * 2, 0),
        # under an operation, and beside a term that is bounded alone
        ((P + Q < 5) & (P < 2), (P + Q) // 2, 0),
        (P - S < 1, P.maximum(S), 7),
    ],
    ids=str,
)
def test_a_choice_by_what_comparisons_say_of_sums(kit: Any, condition: UOp, yes: Any, no: Any) -> None:
    """As tight as the least and the greatest of all values."""
    chosen = condition.where(
        *(side if isinstance(side, UOp) else UOp.const(dtypes.index, side) for side in (yes, no))
    )
    (found,) = kit.values([chosen])
    assert bounds(chosen) == (found.min(), found.max())


def test_a_range_of_a_product_of_sizes_divided_by_one_of_them() -> None:
    """All rows and columns of all matrices; where a size is 0 there is no element."""
    n, m = UOp.variable("n", 0, 5), UOp.variable("m", 0, 7)
    element = UOp.range(m * n, 0)
    places = [(i // b, i % b) for a in range(6) for b in range(8) for i in range(a * b)]
    rows, columns = zip(*places, strict=True)
    assert bounds(element // m) == (min(rows), max(rows)) == (0, 4)
    assert bounds(element % m) == (min(columns), max(columns)) == (0, 6)
    assert bounds(UOp.range(n * m * 3, 0) // n) == (0, 20)
    assert bounds(element // UOp.variable("other", 0, 7)) == (0, 34)


@pytest.mark.parametrize("axis", ["RESHAPE", "EXPAND", "PERMUTE", "FLIP", "SHRINK", "PAD", "STAGE", "COPY"])
def test_what_moves_values_keeps_their_bounds(axis: str) -> None:
    x = UOp.param(0, 4, dtypes.u8).reshape((4, 1)) % 3 + 5
    moved = {
        "RESHAPE": lambda: x.reshape((2, 2)),
        "EXPAND": lambda: x.expand((4, 2)),
        "PERMUTE": lambda: x.permute((1, 0)),
        "FLIP": lambda: x.flip((True, False)),
        "SHRINK": lambda: x.shrink(((0, 2), (0, 1))),
        "PAD": lambda: x.pad(((1, 0), (0, 0))),
        "STAGE": lambda: UOp(Ops.STAGE, (x,), AddrSpace.LOCAL),
        "COPY": lambda: UOp(Ops.COPY, (x,), "CPU"),
    }[axis]()
    assert bounds(moved) == ((0, 7) if axis == "PAD" else (5, 7))


def test_a_product_that_is_added(kit: Any) -> None:
    v = UOp.variable("v", 2, 3).cast(dtypes.i8)
    assert bounds(UOp(Ops.MULACC, (v, v, v))) == (6, 12)


def test_floats_have_none_though_what_is_made_of_them_has() -> None:
    x = UOp.const(dtypes.f32, 1.0)
    bounds(x < 2.0)
    for _ in range(2):
        with pytest.raises(VerifyError, match="no bounds of f32"):
            bounds(x)


def test_a_condition_that_grows_is_not_looked_at_as_a_whole_for_each_choice() -> None:
    """Of each, the comparisons that came last count: as many steps for 400 choices as for four times 100."""
    names = [UOp.variable(f"v{i}", 0, 99) for i in range(402)]
    made = [0]

    def counted(n: int) -> int:
        made[0] = 0
        condition, total = names[0] < 50, names[0]
        for x, y in pairwise(names[1 : n + 1]):
            condition = condition & (x + y < 50)
            total = total + condition.where(x + y, UOp.const(dtypes.index, 0))
        sys.setprofile(lambda *_: made.__setitem__(0, made[0] + 1))
        try:
            found = bounds(total)
        finally:
            sys.setprofile(None)
        assert found == (0, 99 + (n - 1) * 49)
        return made[0]

    assert counted(400) < 5 * counted(100)
