"""The table of gradients is complete."""

from uop_ir import Ops
from uop_tensor.gradient import RULES


def test_every_op_has_a_cell() -> None:
    assert RULES.keys() == set(Ops)
    without = {op for op, rule in RULES.items() if rule is None}
    computed = {op for op in Ops if op not in without}
    assert {Ops.TRUNC, Ops.CMPLT, Ops.AND, Ops.BITCAST} <= without
    assert {Ops.MUL, Ops.WHERE, Ops.REDUCE, Ops.PAD, Ops.STACK, Ops.COPY, Ops.STAGE, Ops.SIN} <= computed
