"""Simplification ends: each application of each rule lowers a measure, checked in random rewrites.

The measure has four parts, compared left to right. The weight: a sum over the tree, in which what is under a
DIV, a MOD or a product counts for more, so that moving a term out of one lowers it. The disorder: how many
nodes are not in the canonical form that rules for sums and comparisons give, and how many compute with
integers that wrap, not with indices. The size:
how many nodes the tree has; last, how many of them are not the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from uop_ir import BoundsError, DType, Ops, UOp, dtypes, format_uir
from uop_rewrite import Pattern, Rule, RuleSet, collapse, graph_rewrite, linear, observing, symbolic, var
from uop_rewrite.terms import Terms

pytestmark = pytest.mark.net

NIGHTLY = settings.get_current_profile_name() == "nightly"
EXAMPLES = 30_000 if NIGHTLY else 300
TYPES = (dtypes.index, dtypes.bool, dtypes.i8, dtypes.index, dtypes.u8, dtypes.f32)
#: Rules that bring terms into their canonical form.
ORDERING = (
    "collect terms", "collect wrapping terms", "order factors", "order maximum", "compare sums", "equal sums",
    "unequal sums", "mod of sum", "choice of constants",
)  # fmt: skip
COMPARISONS = (Ops.CMPLT, Ops.CMPEQ, Ops.CMPNE)
SUMS = (Ops.ADD, Ops.SUB, Ops.NEG, Ops.MUL)

Weigh = Callable[[UOp, Sequence[int]], int]


def _product(n: UOp, w: Sequence[int]) -> int:
    """A constant factor of integers is a coefficient: it weighs in a sum what it weighs alone."""
    if n.dtype.is_float:
        return w[0] * w[1] + 2
    if any(s.op is Ops.CONST for s in n.src):
        return sum(w)
    inside = sum(s.op is Ops.NEG or (s.op is Ops.MUL and s.src[1].op is Ops.CONST) for s in n.src)
    return w[0] * w[1] + 1 + 2 * inside  # a coefficient goes out


def _division(factor: int) -> Weigh:
    """A multiple of a constant divisor goes out of the dividend, and a common factor out of both."""

    def weigh(n: UOp, w: Sequence[int]) -> int:
        x, size = n.src
        total = factor * w[0] * w[1] + factor
        if size.op is not Ops.CONST or n.dtype.is_float:
            return total
        by = int(size.value)
        outside = n.dtype is dtypes.index and by > 0 and not 0 <= linear(x).constant < by
        return total + 2 * outside + 3 * abs(by).bit_length()

    return weigh


def _quotient(n: UOp, w: Sequence[int]) -> int:
    """A term that stands in the dividend more often than the divisor goes out,
    and stays in it: it is there twice then.

    Also where the dividend is cast, as a cast of the quotient may take its place.
    """
    x, size = n.src
    while x.op is Ops.CAST:
        x = x.src[0]
    terms = linear(x).terms if x.dtype is dtypes.index and size.op is Ops.CONST else ()
    return _division(4)(n, w) + sum(weight(term) + 1 for term, k in terms if k > size.value > 0)


def _sum(n: UOp, w: Sequence[int]) -> int:
    return sum(w) + int(n.dtype.is_float)


def _more(extra: int, of_bool: int | None = None) -> Weigh:
    """What the operands weigh, and more."""

    def weigh(n: UOp, w: Sequence[int]) -> int:
        return sum(w) + (of_bool if of_bool is not None and n.src[0].dtype is dtypes.bool else extra)

    return weigh


#: What the node of an op weighs, by the weights of its operands.
#: Those without a row: 2 more than its operands.
WEIGHTS: dict[Ops, Weigh] = {
    Ops.ADD: _sum,
    Ops.SUB: _sum,
    Ops.NEG: _sum,
    Ops.MUL: _product,
    Ops.MULACC: lambda n, w: w[0] * w[1] + w[2] + 3,
    Ops.DIV: _quotient,
    Ops.MOD: _division(3),
    Ops.AND: _more(1),
    Ops.OR: _more(1),
    Ops.CMPEQ: _more(5, of_bool=2),
    Ops.CMPNE: _more(4, of_bool=1),
    Ops.CMPLT: _more(3),
    Ops.WHERE: _more(3),
    Ops.CAST: _more(1),
    Ops.REDUCE: lambda n, w: 4 * w[0] * prod(3 * r for r in w[1:]),
}
LEAF, CONSTANT = 3, 1


def foldable(n: UOp) -> bool:
    """Whether a node is an op on constants, which weighs what the constant does that it becomes."""
    return bool(n.src) and n.op is not Ops.RANGE and all(s.op is Ops.CONST for s in n.src)


def weight(root: UOp) -> int:
    """Of a tree: shared nodes count as often as they stand there."""
    found: dict[UOp, int] = {}
    for n in root.toposort():
        if not n.src:
            found[n] = CONSTANT if n.op is Ops.CONST else LEAF
        else:
            row = WEIGHTS.get(n.op, _more(2))
            found[n] = CONSTANT if foldable(n) else row(n, [found[s] for s in n.src])
    return found[root]


_ordering = [r for r in symbolic.rules if r.name in ORDERING]


def disorder(root: UOp) -> int:
    """The nodes of a tree that a rule of ORDERING would change,
    and twice those that compute with wrapping integers.

    A sum of many terms counts as one node, a comparison as more:
    terms that change sides may meet others there.
    """
    own: dict[UOp, int] = {}
    found: dict[UOp, int] = {}
    for n in root.toposort():
        own[n] = 0
        if n.src and not foldable(n):
            wrapping = n.src[-1].dtype.is_int and n.op is not Ops.CAST
            changes = any(r.pattern.op is n.op and r.apply(n) is not None for r in _ordering)
            own[n] = 2 * int(wrapping) + (3 if n.op in COMPARISONS else 1) * int(changes)
        inside = sum(own[s] for s in n.src if n.op in SUMS and s.op in SUMS and s.dtype is n.dtype)
        found[n] = own[n] - inside + sum(found[s] for s in n.src)
    return found[root]


def size(root: UOp) -> int:
    found: dict[UOp, int] = {}
    for n in root.toposort():
        found[n] = 1 + sum(found[s] for s in n.src)
    return found[root]


def measure(root: UOp) -> tuple[int, int, int, int]:
    return weight(root), disorder(root), size(root), len(root.toposort())


class Measured:
    """An observer that keeps the applications which do not lower the measure."""

    times = False

    def __init__(self) -> None:
        self.rules: set[str] = set()
        self.wrong: list[tuple[str, UOp, UOp]] = []

    def started(self, root: UOp, rules: RuleSet, order: str) -> None:
        """Nothing to note."""

    def finished(self, root: UOp, result: UOp | None) -> None:
        """Nothing to note."""

    def tried(self, rule: Rule, seconds: float, hit: bool) -> None:
        """Nothing to note."""

    def applied(self, rule: Rule, before: UOp, after: UOp) -> None:
        self.rules.add(rule.name)
        if weight(after) >= weight(before) and measure(after) >= measure(before):
            self.wrong.append((rule.name, before, after))


def check(measured: Measured) -> None:
    for rule, before, after in measured.wrong:
        pytest.fail(
            f"{rule}: {measure(before)} to {measure(after)}\n{format_uir(before)}to\n{format_uir(after)}"
        )


@settings(max_examples=EXAMPLES, derandomize=not NIGHTLY)
@given(seed=st.integers(0, 1 << 32), dtype=st.sampled_from(TYPES))
def test_each_application_lowers_the_measure(seed: int, dtype: DType) -> None:
    measured = Measured()
    with observing(measured), suppress(BoundsError):  # constants that overflow an index
        graph_rewrite(Terms(seed, TYPES).term(dtype, 10), symbolic)
    check(measured)


@pytest.mark.parametrize("fold", [Ops.ADD, Ops.MAX, Ops.MUL], ids=str)
def test_a_loop_weighs_more_than_what_takes_its_place(fold: Ops) -> None:
    measured = Measured()
    r, q, v = UOp.range(5, 0), UOp.range(3, 1), UOp.variable("v", -2, 6)
    with observing(measured):
        for dtype in (dtypes.i32, dtypes.f32, dtypes.index):
            x = UOp.variable("x", 0, 9) if dtype is dtypes.index else UOp.const(dtype, 3)
            picked = (r.eq(v) & (q < v)).where(x, 0)
            for value, ranges in ((x, [r]), (x, [r, q]), (picked, [r]), (picked, [q, r])):
                graph_rewrite(value.reduce(fold, 0, ranges), symbolic + collapse)
    check(measured)


def test_a_term_that_goes_out_of_a_dividend_and_stays_in_it() -> None:
    measured = Measured()
    x = (UOp.variable("v", -7, 6) + 2) % 16
    with observing(measured):
        assert graph_rewrite(x * 5 // 4, symbolic) is graph_rewrite(x + x // 4, symbolic)
    check(measured)


def test_a_rule_that_goes_nowhere_is_seen() -> None:
    x, y = UOp.variable("x", 0, 3), UOp.variable("y", 0, 3)
    measured = Measured()
    back = Rule("back", Pattern(Ops.MAX, (var("x"), var("y"))), lambda x, y: y.maximum(x))
    for before, after in ((x.maximum(y), y.maximum(x)), (y.maximum(x), x.maximum(y))):
        measured.applied(back, before, after)
    assert measured.wrong
    assert disorder(x.maximum(y)) + disorder(y.maximum(x)) == 1
