"""Folds of prefixes: for each index of an axis, the fold of what stands before it, or behind it, along another. Week 5.

Such a fold takes one step an element where it is itself what a kernel stores (see the code generator), and as many as the
axis is long where it is a part of something else. So it is stored.
"""

from __future__ import annotations

from math import prod

from uop_ir import Ops, UOp, index

from .cost import LOAD, STORE
from .memory import extent, numel
from .one_hot import conditions, leaves, operand, origin


def folds_prefix(node: UOp) -> bool:
    """Whether a value folds what an order of two axes chooses, one that it keeps and one that it folds, of values that do
    not depend on the former, and is worth to be stored. Kept in its memo.
    """
    if node.op is not Ops.REDUCE:
        return False
    if "folds_prefix" not in node.memo:
        elements = prod(map(extent, node.src[0].shape[node.ndim :]))
        pays = numel(node.shape) * (STORE + LOAD) < numel(node.shape) * elements
        node.memo["folds_prefix"] = pays and _folds_prefix(node)
    found: bool = node.memo["folds_prefix"]
    return found


def _folds_prefix(node: UOp) -> bool:
    source = node.src[0]
    at = tuple(index(0) if d == 1 else UOp.range(d, number) for number, d in enumerate(source.shape))
    folded = {i for i in at[node.ndim :] if i.op is Ops.RANGE}
    value, at = origin(source, at)
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
