"""Every rule fires within the whole set: none is shadowed by those before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from uop_ir import Ops, UOp, dtypes
from uop_rewrite import collapse, graph_rewrite, observing, symbolic

R, Q, V = UOp.range(6, 0), UOp.range(4, 1), UOp.variable("v", -3, 5)
N = UOp.variable("n", 1, 4)

#: For each rule an expression of an i32, a float and two bools that it simplifies.
EXAMPLES: dict[str, Callable[[UOp, UOp, UOp, UOp], UOp]] = {
    "fold constants": lambda i, f, p, q: f.const_like(2.0) * 3,
    "one value left": lambda i, f, p, q: V * V * 0 - 1 < Q,
    "times one": lambda i, f, p, q: f * 1.0,
    "times minus one": lambda i, f, p, q: f * -1.0,
    "plus zero": lambda i, f, p, q: i + 0,
    "minus zero": lambda i, f, p, q: i - 0,
    "plus float zero": lambda i, f, p, q: f + -0.0,
    "minus float zero": lambda i, f, p, q: f - 0.0,
    "divided by one": lambda i, f, p, q: f / 1.0,
    "divided by minus one": lambda i, f, p, q: i // -1,
    "remainder by itself": lambda i, f, p, q: i % i,
    "remainder twice": lambda i, f, p, q: i % 5 % 5,
    "minus itself": lambda i, f, p, q: i - i,
    "negated twice": lambda i, f, p, q: (-f).alu(Ops.NEG),
    "accumulate once": lambda i, f, p, q: UOp(Ops.MULACC, (f, f.const_like(1), f)),
    "accumulate zero": lambda i, f, p, q: UOp(Ops.MULACC, (f, f, f.const_like(-0.0))),
    "maximum of itself": lambda i, f, p, q: f.maximum(f),
    "maximum twice": lambda i, f, p, q: f.maximum(-f).maximum(-f),
    "maximum of constants": lambda i, f, p, q: i.maximum(3).maximum(4),
    "and itself": lambda i, f, p, q: i & i,
    "or itself": lambda i, f, p, q: i | i,
    "xor itself": lambda i, f, p, q: i ^ i,
    "and ones": lambda i, f, p, q: i & -1,
    "or zero": lambda i, f, p, q: i | 0,
    "xor zero": lambda i, f, p, q: i ^ 0,
    "and of constants": lambda i, f, p, q: (i & 12) & 20,
    "or of constants": lambda i, f, p, q: (i | 12) | 20,
    "xor of constants": lambda i, f, p, q: (i ^ 12) ^ 20,
    "xor twice": lambda i, f, p, q: (p ^ q) ^ q,
    "shifted left by zero": lambda i, f, p, q: i << 0,
    "shifted right by zero": lambda i, f, p, q: i >> 0,
    "is not false": lambda i, f, p, q: p.ne(False),
    "is true": lambda i, f, p, q: p.eq(True),
    "is false": lambda i, f, p, q: p.eq(False),
    "not": lambda i, f, p, q: (V < R).ne(True),
    "and its complement": lambda i, f, p, q: (i < 3).eq(p) & (i < 3).ne(p),
    "or its complement": lambda i, f, p, q: (i < 3).eq(p) | (i < 3).ne(p),
    "chosen": lambda i, f, p, q: UOp.const(dtypes.bool, False).where(f, f * f),
    "same choice": lambda i, f, p, q: p.where(f, f),
    "swapped choice": lambda i, f, p, q: p.ne(True).where(f, f * f),
    "choice by the shorter condition": lambda i, f, p, q: (V < V * N + 1).where(f, f * f),
    "chosen twice": lambda i, f, p, q: p.where(p.where(f, f * f), f + f),
    "refused twice": lambda i, f, p, q: p.where(f + f, p.where(f, f * f)),
    "both": lambda i, f, p, q: p.where(q.where(f, f * f), f * f),
    "either": lambda i, f, p, q: p.where(f, q.where(f, f * f)),
    "choice of truth": lambda i, f, p, q: p.where(UOp.const(dtypes.bool, True), q),
    "choice of falsehood": lambda i, f, p, q: p.where(q, False),
    "no choice of truth": lambda i, f, p, q: (
        (i < f.cast(i.dtype)).eq(p).where(UOp.const(dtypes.bool, False), q)
    ),
    "no choice of falsehood": lambda i, f, p, q: i.eq(5).where(q, True),
    "choice of the greater": lambda i, f, p, q: (i < 7).where(i.const_like(7), i),
    "choice of constants": lambda i, f, p, q: p.where(f.const_like(1), f.const_like(3)) * 2.0,
    "cast to itself": lambda i, f, p, q: UOp(Ops.CAST, (f,), f.dtype),
    "cast without loss": lambda i, f, p, q: f.cast(dtypes.f64).cast(dtypes.f32),
    "bitcast twice": lambda i, f, p, q: i.bitcast(dtypes.u32).bitcast(dtypes.i32),
    "bitcast to itself": lambda i, f, p, q: UOp(Ops.BITCAST, (i,), i.dtype),
    "order factors": lambda i, f, p, q: (R * 2) * (V * 3),
    "collect terms": lambda i, f, p, q: V * 2 + R - V,
    "collect wrapping terms": lambda i, f, p, q: i * 2 + 3 - i,
    "div of sum": lambda i, f, p, q: (V * 4 + Q) // 4,
    "mod of sum": lambda i, f, p, q: (V * 8 + Q) % 4,
    "div by term": lambda i, f, p, q: (N * V + Q) // N,
    "mod by term": lambda i, f, p, q: (N * V + Q) % N,
    "compare sums": lambda i, f, p, q: V + 3 < R + 5,
    "equal sums": lambda i, f, p, q: (V + 3).eq(R * 2 + V),
    "unequal sums": lambda i, f, p, q: (V + 3).ne(R * 2 + V),
    "equal wrapping sums": lambda i, f, p, q: (i + 3).eq(5),
    "unequal wrapping sums": lambda i, f, p, q: (i + 3).ne(f.cast(dtypes.i32) + i),
    "maximum by bounds": lambda i, f, p, q: V.maximum(R + 5),
    "order maximum": lambda i, f, p, q: V.const_like(2).maximum(V),
    "one value for an operand": lambda i, f, p, q: p.where(UOp.variable("w", 3, 3), V),
    "peel casts": lambda i, f, p, q: V.cast(dtypes.i32) // 4,
    "cast through": lambda i, f, p, q: R.cast(dtypes.i8).cast(dtypes.i64),
    "and of clauses": lambda i, f, p, q: (V < 3) & (V < 4),
    "or of clauses": lambda i, f, p, q: (V < 3) | (V < 4),
    "choice under its condition": lambda i, f, p, q: (V < 1).where(V.maximum(1), V),
    "index under its validity": lambda i, f, p, q: UOp.param(0, 4, dtypes.i32).index(R % 4, R < 4).load(),
    "never valid": lambda i, f, p, q: UOp.param(0, 4, dtypes.i32).index(R, R < 0).load(),
    "pick": lambda i, f, p, q: R.eq(V).where(f, f.const_like(0)).reduce(Ops.ADD, 0, [R]),
    "count": lambda i, f, p, q: (R < V).where(i, i.const_like(0)).reduce(Ops.ADD, 0, [R]),
    "invariant": lambda i, f, p, q: (R.cast(i.dtype) * i).reduce(Ops.ADD, 0, [R]),
    "greatest": lambda i, f, p, q: f.reduce(Ops.MAX, 0, [R]),
    "repeat": lambda i, f, p, q: i.reduce(Ops.ADD, 0, [R]),
}


def test_every_rule_has_an_example() -> None:
    assert {r.name for r in (symbolic + collapse).rules} == set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_rule_fires_within_the_set(kit: Any, name: str) -> None:
    before = EXAMPLES[name](
        kit.scalar("i", dtypes.i32),
        kit.scalar("f", dtypes.f32),
        kit.scalar("p", dtypes.bool),
        kit.scalar("q", dtypes.bool),
    )
    fired = kit.Fired()
    with observing(fired):
        after = graph_rewrite(before, symbolic + collapse)
    assert name in fired.rules
    assert after is not before
    if before.op is not Ops.REDUCE and all(n.op is not Ops.LOAD for n in before.toposort()):
        kit.agree(before, after)


@pytest.mark.parametrize(("a", "b"), [(-2, 3), (2, -3), (-2, -3), (2, 0), (2, 3)])
def test_remainders_recombine_for_positive_divisors(kit: Any, a: int, b: int) -> None:
    """x % a + x // a % b * a is x % (a * b)."""
    before = V % a + V // a % b * a
    kit.agree(before, graph_rewrite(before, symbolic))


def test_products_that_no_index_holds_are_left(kit: Any) -> None:
    """A u64 wraps later than an index overflows."""
    before = UOp.range(2, 0).cast(dtypes.u64) * ((1 << 64) - 1)
    kit.agree(before, graph_rewrite(before, symbolic))
    before = V.maximum(0).cast(dtypes.u64).eq((1 << 64) - 1)
    kit.agree(before, graph_rewrite(before, symbolic))
