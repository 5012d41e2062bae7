"""Random expressions, simplified: equal everywhere to the bit,
done in one go, no wider bounds, hardly larger.

An expression that fails is written to failures/, shrunk,
as `.uir`. What lies there is tried again in every run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from uop_ir import OPS, AxisType, BoundsError, DType, Ops, UOp, VerifyError, dtypes, format_uir, read_uir
from uop_rewrite import RuleSet, bounds, collapse, graph_rewrite, symbolic

pytestmark = pytest.mark.net

FAILURES = Path(__file__).parent / "failures"
#: 1,000 examples in CI, 100,000 under --hypothesis-profile=nightly: shares of these.
EXAMPLES = 100_000 if settings.get_current_profile_name() == "nightly" else 1_000

COMPARE = (Ops.CMPLT, Ops.CMPNE, Ops.CMPEQ)
CONVERT = (Ops.CAST, Ops.BITCAST)
SUMS = (Ops.ADD, Ops.SUB, Ops.NEG, Ops.MUL)
#: Every elementwise op; the functions, whose definitions the interpreter runs, are seldom drawn.
ELEMENTWISE = (
    Ops.ADD, Ops.SUB, Ops.MUL, Ops.DIV, Ops.MOD, Ops.MAX, Ops.NEG, Ops.AND, Ops.OR, Ops.XOR, Ops.SHL, Ops.SHR,
    Ops.WHERE, Ops.WHERE, Ops.MULACC, Ops.RECIP, Ops.SQRT, Ops.TRUNC, *COMPARE, *COMPARE, *CONVERT, Ops.CAST,
)  # fmt: skip
FUNCTIONS = (Ops.EXP2, Ops.LOG2, Ops.SIN)
INDEX_SOURCES = (dtypes.bool, dtypes.i8, dtypes.u8, dtypes.i16, dtypes.u16, dtypes.index)
SIZE = 5
R, Q = UOp.range(SIZE, 20, AxisType.REDUCE), UOp.range(3, 21, AxisType.REDUCE)
END = UOp.variable("end", -1, 3)
N = UOp.range(END, 22, AxisType.REDUCE)
V, W = UOp.variable("v", -2, SIZE + 1), UOp.variable("w", 0, 3)


@contextmanager
def saved(before: UOp) -> Iterator[None]:
    """Write an expression that fails to failures/. Hypothesis runs the shrunk one last."""
    try:
        yield
    except Exception:
        FAILURES.mkdir(exist_ok=True)
        (FAILURES / "new.uir").write_text(format_uir(before))
        raise


def check(kit: Any, before: UOp, rules: RuleSet) -> UOp:
    """Simplify; the value is the same, and simplifying again changes nothing."""
    try:
        kit.values([before])
    except BoundsError:  # an index overflows: the expression has no value
        assume(False)
    after = graph_rewrite(before, rules)
    kit.agree(before, after)
    assert graph_rewrite(after, RuleSet(rules.rules, rules.regions)) is after  # a set that remembers nothing
    return after


def check_bounds(kit: Any, before: UOp, after: UOp) -> None:
    """Bounds are no wider than before, and hold."""
    if before.dtype.is_float:
        return
    least, greatest = bounds(after)
    assert bounds(before)[0] <= least
    assert greatest <= bounds(before)[1]
    found = kit.values([after])[0].astype(object)
    assert least <= found.min()
    assert found.max() <= greatest


def operations(node: UOp) -> tuple[int, int]:
    """The nodes that compute, each once and as often as it is used:
    r + r becomes r * 2, which has a constant more.
    """
    nodes = [n for n in node.toposort() if n.op is not Ops.CONST]
    uses: dict[UOp, int] = {}
    for n in nodes:
        uses[n] = 1 + sum(uses.get(s, 0) for s in n.src)
    return len(nodes), uses.get(node, 0)


@settings(max_examples=EXAMPLES * 3 // 10)
@given(data=st.data())
def test_index_expressions(kit: Any, data: st.DataObject) -> None:
    before = data.draw(kit.index_expressions())
    with saved(before):
        after = check(kit, before, symbolic)
        check_bounds(kit, before, after)
        # a product of a sum is spread, and a common factor of a remainder goes out: a few nodes more
        assert len(after.toposort()) <= 2 * len(before.toposort())


class Expressions:
    """Draws well-typed expressions, an op at a time, over leaves of any types."""

    def __init__(
        self, draw: Callable[..., Any], kit: Any, leaves: Sequence[UOp], to_index: bool = False
    ) -> None:
        self.draw, self.kit, self.nodes, self.to_index = draw, kit, list(leaves), to_index

    def one_of(self, items: Sequence[Any]) -> Any:
        return self.draw(st.sampled_from(items))

    def constant(self, dtype: DType) -> UOp:
        if dtype is dtypes.index:
            return UOp.const(dtype, self.draw(st.integers(-9, 9)))
        return UOp.const(dtype, self.one_of([v.item() for v in self.kit.special(dtype)]))

    def operand(self, dtype: DType) -> UOp:
        """An earlier node of a type, or a constant."""
        alike = [n for n in self.nodes if n.dtype is dtype]
        use = bool(alike) and self.draw(st.integers(0, 3)) > 0
        return self.one_of(alike) if use else self.constant(dtype)

    def step(self) -> None:
        """One op more."""
        op = self.one_of(FUNCTIONS if self.draw(st.integers(0, 40)) == 40 else ELEMENTWISE)
        x = self.one_of(self.nodes)
        try:
            self.nodes.append(self.node(op, x))
        except VerifyError:  # the op does not take this type
            self.nodes.append(x.eq(self.operand(x.dtype)))

    def node(self, op: Ops, x: UOp) -> UOp:
        if op in CONVERT:
            into_index = self.to_index and x.dtype in INDEX_SOURCES
            return UOp(op, (x,), self.one_of([d for d in dtypes.all if into_index or d is not dtypes.index]))
        if op is Ops.WHERE:
            return UOp(op, (self.operand(dtypes.bool), x, self.operand(x.dtype)))
        others = [self.operand(x.dtype) for _ in range(OPS[op].least - 1)]
        return UOp(op, (*others, x) if self.draw(st.booleans()) else (x, *others))


@st.composite
def value_expressions(draw: st.DrawFn, kit: Any) -> UOp:
    """A scalar of any dtype, of up to 12 operations over two PARAMs of one type, constants and an index."""
    dtype: DType = draw(st.sampled_from([d for d in dtypes.all if d is not dtypes.index]))
    index = UOp.range(5, 0)
    leaves = [kit.scalar("x", dtype), kit.scalar("y", dtype), index.cast(draw(st.sampled_from(dtypes.ints)))]
    terms = Expressions(draw, kit, [*leaves, *([index] if draw(st.booleans()) else [])], to_index=True)
    for _ in range(draw(st.integers(1, 12))):
        terms.step()
    return terms.nodes[-1]


@settings(max_examples=EXAMPLES * 4 // 10)
@given(data=st.data())
def test_every_dtype(kit: Any, data: st.DataObject) -> None:
    before = data.draw(value_expressions(kit))
    with saved(before):
        after = check(kit, before, symbolic)
        peeled = sum(n.op is Ops.CAST and n.src[0].dtype is dtypes.index for n in after.toposort())
        (nodes, tree), (nodes_before, tree_before) = operations(after), operations(before)
        # an index sum has one form, whatever part of it others use:
        # -r - where(b, r, -r) loses the -r that is used twice
        alone = sum(n.op in SUMS and n.dtype is dtypes.index for n in after.toposort())
        # c + c beside c: cast(r * 2) beside cast(r);
        # (x + 3) + (y + 5) beside x + 3: x + y + 8 saves one, and costs one
        assert nodes - nodes_before - peeled - alone <= tree_before - tree
        check_bounds(kit, before, after)


@settings(max_examples=EXAMPLES // 10)
@given(data=st.data())
def test_vectors(kit: Any, data: st.DataObject) -> None:
    """Expressions of shape (4,): a vector, what broadcasts along it, and positions in it."""
    dtype = data.draw(st.sampled_from([d for d in dtypes.all if d is not dtypes.index]))
    vector = UOp.param(0, 4, dtype)
    lanes = UOp.param(1, 4, dtypes.i8).cast(dtypes.index)
    leaves = [vector, vector, kit.scalar("x", dtype), lanes, UOp.range(4, 0)]
    terms = Expressions(data.draw, kit, leaves)
    for _ in range(data.draw(st.integers(1, 8))):
        terms.step()
    before = terms.nodes[-1]
    with saved(before):
        check_bounds(kit, before, check(kit, before, symbolic))


@st.composite
def loops(draw: st.DrawFn, kit: Any) -> UOp:
    """A fold over one or two ranges, of a value that may be chosen by where the ranges stand."""
    dtype: DType = draw(st.sampled_from([d for d in dtypes.all if d is not dtypes.bool]))
    closed = draw(st.sampled_from([(R,), (Q,), (N,), (R, Q), (Q, R), (N, Q), (R, N)]))
    index = Expressions(draw, kit, [*closed, *closed, V, W])
    for _ in range(draw(st.integers(0, 3))):
        index.step()
    at = [n for n in index.nodes if n.dtype is dtypes.index]
    truths = [n for n in index.nodes if n.dtype is dtypes.bool] or [closed[0] < W]
    values = [V] if dtype is dtypes.index else [kit.scalar("x", dtype)]
    if dtype is not dtypes.index:
        values.append(UOp.param(0, SIZE, dtype).index(R if R in closed else W).load())
    if dtype.is_int or dtype is dtypes.index:
        values.append(draw(st.sampled_from(at)).cast(dtype))
    terms = Expressions(draw, kit, [*values, *truths])
    for _ in range(draw(st.integers(0, 3))):
        terms.step()
    value = draw(st.sampled_from([n for n in terms.nodes if n.dtype is dtype]))
    r, other = draw(st.sampled_from(closed)), draw(st.sampled_from(at))
    for condition in draw(
        st.lists(st.sampled_from([r.eq(other), other.eq(r), r < other, other < r, *truths]), max_size=2)
    ):
        value = condition.where(value, value.const_like(0))
    return value.reduce(draw(st.sampled_from([Ops.ADD, Ops.ADD, Ops.ADD, Ops.MAX, Ops.MUL])), 0, closed)


@settings(max_examples=EXAMPLES * 2 // 10)
@given(data=st.data())
def test_loops(kit: Any, data: st.DataObject) -> None:
    before = data.draw(loops(kit))
    with saved(before):
        check(kit, before, symbolic + collapse)


@pytest.mark.parametrize("file", sorted(FAILURES.glob("*.uir")), ids=lambda f: f.stem)
def test_expressions_that_failed(kit: Any, file: Path) -> None:
    before = read_uir(file).root
    check_bounds(kit, before, check(kit, before, symbolic + collapse))
