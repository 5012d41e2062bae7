"""Widen: f16 and bf16 are storage; each op on them computes in f32 and rounds once. Week 2."""

from __future__ import annotations

from uop_ir import Kind, Ops, UOp, dtypes

NARROW = frozenset({dtypes.f16, dtypes.bf16})
#: The ops that compute on floats. The others move them, or choose among them.
COMPUTING = frozenset(
    {
        Ops.RECIP, Ops.SQRT, Ops.TRUNC, Ops.NEG, Ops.ADD, Ops.SUB, Ops.MUL, Ops.DIV, Ops.MOD, Ops.MAX, Ops.MULACC,
        Ops.CMPLT, Ops.CMPNE, Ops.CMPEQ,
    }
)  # fmt: skip


def widen(root: UOp) -> UOp:
    """The program without arithmetic on narrow floats.

    What is left of them are loads, stores, choices, bit casts, and casts that round a wider type once.
    """
    order = root.toposort()
    if all(node.dtype not in NARROW for node in order):
        return root
    new: dict[UOp, UOp] = {}
    for node in order:
        src = [new[s] for s in node.src]
        if node.op in COMPUTING and src[0].dtype in NARROW:
            wide = UOp(node.op, [s.cast(dtypes.f32) for s in src])
            new[node] = wide.cast(node.dtype) if node.dtype in NARROW else wide
        elif node.op is Ops.CAST and (src[0].dtype in NARROW or (node.dtype in NARROW and _exact(src[0]))):
            new[node] = src[0].cast(dtypes.f32).cast(node.dtype)
        else:
            new[node] = node.replace(src=src)
    return new[root]


def _exact(node: UOp) -> bool:
    """Whether f32 holds every value of a node's type."""
    return node.dtype.kind is Kind.BOOL or (node.dtype.is_int and node.dtype.bits <= 16)
