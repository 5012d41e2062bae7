"""How large an expression is, by walks that give up where it is larger than what is asked for. Week 1."""

from __future__ import annotations

from collections.abc import Callable

from uop_ir import INDEX_MAPS, Ops, UOp

#: An element of one of these is another element of its operand:
#: what is known of one says nothing of the other.
MOVING = frozenset({*INDEX_MAPS, Ops.STACK})


def few(root: UOp, most: int, gate: Callable[[UOp], bool] | None = None) -> set[UOp] | None:
    """All nodes below a root, itself too; None where there are more than `most`.
    See `toposort` for the gate.
    """
    seen, stack = {root}, [root]
    while stack:
        node = stack.pop()
        if gate is None or gate(node):
            for s in node.src:
                if s not in seen:
                    seen.add(s)
                    stack.append(s)
            if len(seen) > most:
                return None
    return seen


def smaller(new: UOp, old: UOp, most: int) -> bool:
    """Whether one expression has fewer nodes than another, of which at most `most` are counted."""
    nodes = few(old, most)
    return few(new, most if nodes is None else len(nodes) - 1) is not None
