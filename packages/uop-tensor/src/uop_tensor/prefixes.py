"""Folds of prefixes: for each index of an axis,
the fold of what stands before it, or behind it, along another. Week 5.

Such a fold takes one step an element where it is itself what a kernel stores (see the code generator), and as
many as the axis is long where it is a part of something else. So it is stored.
"""

from __future__ import annotations

from uop_ir import Ops, UOp

from .one_hot import Index, conditions, leaves, operand, pays_stored


def folds_prefix(node: UOp) -> bool:
    """Whether a value folds what an order of two axes chooses, one that it keeps and one that it folds, of
    values that do not depend on the former, and is worth to be stored. Kept in its memo.
    """
    return pays_stored(node, "folds_prefix", _folds_prefix)


def _folds_prefix(value: UOp, at: Index, folded: set[UOp]) -> bool:
    if value.op is not Ops.WHERE:
        return False
    used = set[UOp]().union(*leaves(value.src[1], operand(value.src[1], at)))
    for mask, place in conditions(value.src[0], operand(value.src[0], at)):
        if mask.op is Ops.CMPLT:
            (memory, one), (others, other) = (leaves(s, operand(s, place)) for s in mask.src)
            for kept, gone in ((one, other), (other, one)):
                apart = kept.isdisjoint(folded | used | memory | others)
                if kept and gone and apart and gone <= folded:
                    return True
    return False
