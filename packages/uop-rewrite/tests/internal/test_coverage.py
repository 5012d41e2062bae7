"""Every rule fires within the whole set: none is shadowed by those before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from uop_ir import Ops, UOp, dtypes
from uop_rewrite import Rule, RuleSet, collapse, graph_rewrite, observing, symbolic

R, Q, V = UOp.range(6, 0), UOp.range(4, 1), UOp.variable("v", -3, 5)

#: For each rule an expression of an i32, a float and two bools that it simplifies.
EXAMPLES: dict[str, Callable[[UOp, UOp, UOp, UOp], UOp]] = {
    "fold constants": lambda i, f, p, q: f.const_like(2.0) * 3,
    "one value left": lambda i, f, p, q: V < 9,
    "times one": lambda i, f, p, q: f * 1.0,
    "plus zero": lambda i, f, p, q: i + 0,
    "minus zero": lambda i, f, p, q: i - 0,
    "plus float zero": lambda i, f, p, q: f + -0.0,
    "minus float zero": lambda i, f, p, q: f - 0.0,
    "divided by one": lambda i, f, p, q: f / 1.0,
    "minus itself": lambda i, f, p, q: i - i,
    "negated twice": lambda i, f, p, q: (-f).alu(Ops.NEG),
    "maximum of itself": lambda i, f, p, q: f.maximum(f),
    "and itself": lambda i, f, p, q: p & p,
    "or itself": lambda i, f, p, q: i | i,
    "and true": lambda i, f, p, q: p & True,
    "or true": lambda i, f, p, q: p | False,
    "not not": lambda i, f, p, q: p.ne(True).ne(True),
    "chosen": lambda i, f, p, q: UOp.const(dtypes.bool, False).where(f, f * f),
    "same choice": lambda i, f, p, q: p.where(f, f),
    "chosen twice": lambda i, f, p, q: p.where(p.where(f, f * f), f + f),
    "cast to itself": lambda i, f, p, q: UOp(Ops.CAST, (f,), f.dtype),
    "collect terms": lambda i, f, p, q: V * 2 + R - V,
    "div of div": lambda i, f, p, q: (V * V) // 3 // 2,
    "div of sum": lambda i, f, p, q: (V * 4 + Q) // 4,
    "mod of sum": lambda i, f, p, q: (V * 8 + Q) % 4,
    "compare sums": lambda i, f, p, q: V + 3 < R,
    "not less": lambda i, f, p, q: (V < R).ne(True),
    "maximum by bounds": lambda i, f, p, q: V.maximum(R + 5),
    "peel casts": lambda i, f, p, q: V.cast(dtypes.i32) * 4,
    "cast through": lambda i, f, p, q: R.cast(dtypes.i8).cast(dtypes.i64),
    "pick": lambda i, f, p, q: R.eq(V).where(f, f.const_like(0)).reduce(Ops.ADD, 0, [R]),
    "repeat": lambda i, f, p, q: i.reduce(Ops.ADD, 0, [R]),
}


class Fired:
    """An observer that gathers the names of the rules that apply."""

    times = False

    def __init__(self, names: set[str]) -> None:
        self.names = names

    def started(self, root: UOp, rules: RuleSet, order: str) -> None: ...
    def tried(self, rule: Rule, seconds: float, hit: bool) -> None: ...
    def finished(self, root: UOp, result: UOp | None) -> None: ...

    def applied(self, rule: Rule, before: UOp, after: UOp) -> None:
        self.names.add(rule.name)


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
    fired: set[str] = set()
    with observing(Fired(fired)):
        after = graph_rewrite(before, symbolic + collapse)
    assert name in fired
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
