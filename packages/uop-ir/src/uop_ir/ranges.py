"""Walks within one program, and which loops a node stands in: the ranges that are open at it. Week 1."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from .ops import Ops

if TYPE_CHECKING:
    from .uop import UOp

_NONE: frozenset[UOp] = frozenset()


def closed_ranges(node: UOp) -> tuple[UOp, ...]:
    """The ranges that a node closes, outermost first."""
    return node.src[1:] if node.op in (Ops.END, Ops.REDUCE) else ()


def own_sources(node: UOp) -> tuple[UOp, ...]:
    """The sources that run in the same program: a CALL's body is a program of its own."""
    return node.src[1:] if node.op is Ops.CALL else node.src


def open_ranges(order: Iterable[UOp]) -> dict[UOp, frozenset[UOp]]:
    """For each node, given after its sources, the RANGEs and SPECIALs that its sources need,
    less those it closes.
    """
    out: dict[UOp, frozenset[UOp]] = {}
    for node in order:
        found = _NONE
        for source in own_sources(node):
            if not out[source] <= found:
                found |= out[source]
        if node.op in (Ops.RANGE, Ops.SPECIAL):
            found |= {node}
        out[node] = found.difference(closed_ranges(node)) if found else found
    return out


def postorder(roots: Iterable[UOp], below: Callable[[UOp], Sequence[UOp]]) -> list[UOp]:
    """The nodes reached through `below`, each after what stands below it. Iterative."""
    order: dict[UOp, None] = {}
    stack: list[tuple[UOp, bool]] = [(r, False) for r in reversed(tuple(roots))]
    while stack:
        node, entered = stack.pop()
        if node in order:
            continue
        if entered:
            order[node] = None
            continue
        stack.append((node, True))
        stack.extend((s, False) for s in reversed(below(node)) if s not in order)
    return list(order)
