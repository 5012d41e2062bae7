"""Random expressions, simplified: equal everywhere, done in one go, no wider bounds, hardly larger."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from uop_ir import DType, Ops, UOp, dtypes
from uop_rewrite import bounds, graph_rewrite, symbolic

ARITHMETIC = (Ops.ADD, Ops.SUB, Ops.MUL, Ops.DIV, Ops.MOD, Ops.MAX)
BITWISE = (Ops.AND, Ops.OR, Ops.XOR)
COMPARE = (Ops.CMPLT, Ops.CMPNE, Ops.CMPEQ)


@settings(max_examples=120)
@given(data=st.data())
def test_index_expressions(kit: Any, data: st.DataObject) -> None:
    before = data.draw(kit.index_expressions())
    after = graph_rewrite(before, symbolic)
    kit.agree(before, after)
    assert graph_rewrite(after, symbolic) is after
    least, greatest = bounds(before)
    assert least <= bounds(after)[0]
    assert bounds(after)[1] <= greatest
    # a product of a sum is spread, and a common factor of a remainder goes out: a few nodes more
    assert len(after.toposort()) <= 2 * len(before.toposort())
    found = kit.values([after])[0]
    assert bounds(after)[0] <= found.min()
    assert found.max() <= bounds(after)[1]


@st.composite
def value_expressions(draw: st.DrawFn, kit: Any) -> UOp:
    """A scalar of any dtype, of up to 12 operations over two PARAMs of one type, constants and an index."""
    dtype: DType = draw(st.sampled_from([d for d in dtypes.all if d is not dtypes.index]))
    nodes = [
        kit.scalar("x", dtype),
        kit.scalar("y", dtype),
        UOp.range(5, 0).cast(draw(st.sampled_from(dtypes.ints))),
    ]
    for _ in range(draw(st.integers(1, 12))):
        x = draw(st.sampled_from(nodes))
        alike = [n for n in nodes if n.dtype is x.dtype]
        values = [v.item() for v in kit.special(x.dtype)]
        y = draw(st.sampled_from([*alike, *(x.const_like(v) for v in values)]))
        truths = [n for n in nodes if n.dtype is dtypes.bool]
        ops = [*COMPARE, Ops.WHERE, Ops.CAST]
        if x.dtype is not dtypes.bool:
            ops += [*ARITHMETIC, Ops.NEG]
        if x.dtype.is_int or x.dtype is dtypes.bool:
            ops += BITWISE
        op = draw(st.sampled_from(ops))
        if op is Ops.CAST:
            new = x.cast(draw(st.sampled_from([d for d in dtypes.all if d is not dtypes.index])))
        elif op is Ops.NEG:
            new = -x
        elif op is Ops.WHERE:
            condition = draw(st.sampled_from([*truths, x < y, UOp.const(dtypes.bool, True)]))
            new = condition.where(x, y)
        else:
            new = x.alu(op, y)
        nodes.append(new)
    last: UOp = nodes[-1]
    return last


def operations(node: UOp) -> int:
    """The nodes that compute: r + r becomes r * 2, which has a constant more."""
    return sum(n.op is not Ops.CONST for n in node.toposort())


@settings(max_examples=120)
@given(data=st.data())
def test_integers_floats_and_bools(kit: Any, data: st.DataObject) -> None:
    before = data.draw(value_expressions(kit))
    after = graph_rewrite(before, symbolic)
    kit.agree(before, after)
    assert graph_rewrite(after, symbolic) is after
    peeled = sum(n.op is Ops.CAST and n.src[0].dtype is dtypes.index for n in after.toposort())
    assert operations(after) <= operations(before) + peeled  # c + c beside c: cast(r * 2) beside cast(r)
    if not after.dtype.is_float:
        found = kit.values([after])[0].astype(object)
        assert bounds(after)[0] <= found.min()
        assert found.max() <= bounds(after)[1]
