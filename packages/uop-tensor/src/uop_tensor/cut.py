"""Kernels that would be too large are cut: some of the values within them are stored. Week 5.

A kernel is too wide if it reads more values than a backend takes as arguments, and too long if a C compiler
would take its time: compilers need more than twice as long for a block of code that is twice as long.
"""

from __future__ import annotations

from collections.abc import Iterator

from uop_ir import INDEX_MAPS, Kind, Ops, UOp, UopError

from .cost import is_leaf, is_memory
from .memory import numel

#: Operations of a kernel, in those of the rendered text.
#: To store a value costs about 32 of them (see `cost.py`).
LENGTH = 2000
#: Operations that the definition of an op has; each of the others counts once.
LENGTHS: dict[Ops, int] = {Ops.EXP2: 20, Ops.LOG2: 30, Ops.SIN: 200}
#: What a cut stores may be so many times as large as what the kernel stores or reads;
#: else the kernel stays long.
GROWTH = 4


def body_nodes(value: UOp, outside: set[UOp]) -> Iterator[UOp]:
    """The nodes of a kernel that stores `value`, sources first; values from outside of it are not entered."""
    return iter(value.toposort(gate=lambda n: n not in outside))


def length(node: UOp) -> int:
    """What a node adds to the length of its kernel."""
    return 0 if is_leaf(node) or node.op in INDEX_MAPS else LENGTHS.get(node.op, 1)


def cut_wide(value: UOp, outside: set[UOp], arguments: int) -> set[UOp]:
    """The values to store within a kernel so that no part of it reads and stores more than `arguments`.

    Where operands together read too much, the one that reads most is stored.
    Raises UopError where each is one read.
    """
    found: set[UOp] = set()
    reads: dict[UOp, frozenset[UOp]] = {}
    for node in body_nodes(value, outside):
        if is_leaf(node) or node in outside:
            reads[node] = frozenset({node} if is_memory(node) or node in outside else ())
            continue
        while len(together := frozenset[UOp]().union(*(reads[s] for s in node.src))) >= arguments:
            most = max(node.src, key=lambda s: len(reads[s]))
            if len(reads[most]) < 2:
                raise UopError(
                    f"{node.op!r} reads {len(together)} values at once, the backend takes {arguments - 1}",
                    remedy="combine fewer at a time",
                )
            found.add(computed(most))
            reads[most] = frozenset({computed(most)})
        reads[node] = together
    return found


def cut_long(value: UOp, outside: set[UOp]) -> set[UOp]:
    """The values to store within a kernel so that no part of it is longer than LENGTH.

    The nodes stand in an order, sources first. Each cut lies between two of them, where least has to be
    stored: the values before the cut that are used behind it.
    """
    order = list(body_nodes(value, outside))
    if sum(map(length, order)) <= LENGTH:
        return set()
    end = _last_uses(order, outside)
    live = [0] * len(order)  # elements that a cut behind this node stores
    for place, node in enumerate(order):
        live[place] += live[place - 1] if place else 0
        if node in end:
            live[place] += numel(node.shape)
            live[end[node]] -= numel(node.shape)
    most = GROWTH * max(numel(n.shape) for n in order if n is value or is_memory(n) or n in outside)
    found: set[UOp] = set()
    done, total, best = 0, 0, 0
    for place, node in enumerate(order):
        total += length(node)
        if total - done > LENGTH and live[best] <= most:
            found |= {n for n in order[: best + 1] if n in end and end[n] > best}
            done, best = sum(map(length, order[: best + 1])), place
        elif total - done <= LENGTH // 2 or live[place] <= live[best]:
            best = place
    return found


def _last_uses(order: list[UOp], outside: set[UOp]) -> dict[UOp, int]:
    """Where each value that a cut would store is last used;
    what is made of constants alone is computed again.
    """
    end: dict[UOp, int] = {}
    variable: set[UOp] = set()
    for place, node in enumerate(order):
        if is_memory(node) or node in outside:
            variable.add(node)
        elif any(s in variable for s in node.src) and node.dtype.kind is not Kind.INDEX:
            variable.add(node)
            if node.op not in INDEX_MAPS:
                used = (computed(s) for s in node.src)
                end.update({u: place for u in used if u in variable and u not in outside and not is_leaf(u)})
    return end


def computed(value: UOp) -> UOp:
    """The value that this one is a view of."""
    while value.op in INDEX_MAPS:
        value = value.src[0]
    return value
