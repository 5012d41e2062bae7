"""Barriers: where the threads of a block wait for each other,
by what they do with the memory that they share. Week 8.

A read of memory that was filled since the last barrier waits for all of the fill, and a fill of memory that
was read since then for all of these reads; nothing else waits. In a loop, what one iteration leaves open
counts for the next. A barrier stands in the outermost loop in which it separates the two,
so that it is not repeated in loops within.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from uop_ir import BackendError, Ops, UOp
from uop_rewrite import bounds

from .shared import memory_of

_NONE: frozenset[UOp] = frozenset()


class Open(NamedTuple):
    """The shared memory that was read, and that was filled, since the last barrier."""

    read: frozenset[UOp] = _NONE
    filled: frozenset[UOp] = _NONE

    def __or__(self, other: Open) -> Open:
        return Open(self.read | other.read, self.filled | other.filled)

    def before(self, then: Open) -> bool:
        """Whether what is done then has to wait for what was done."""
        return bool(self.filled & then.read or self.read & then.filled)


@dataclass(frozen=True)
class Item:
    """Statements of a program from one place on:
    a loop with what it repeats, or a statement; a branch is one.

    `sure`: it is not a loop that may have no iterations.
    """

    start: int
    does: Open
    body: tuple[Item, ...] | None = None
    sure: bool = True


def with_barriers(order: Sequence[UOp], shared: frozenset[int]) -> list[UOp]:
    """The program of one thread with the barriers that the memory of these slots needs,
    none of them redundant.

    Raises BackendError where one would stand in a branch, which not all threads take.
    """
    if not shared:
        return list(order)
    _, places = _walk(_items(order, shared), Open())
    out: list[UOp] = []
    filled: list[UOp] = []
    for place, node in enumerate(order):
        if place in places:
            out.append(UOp(Ops.BARRIER, filled))
            filled = []
        if node.op is Ops.STORE and _of(shared, node):
            filled.append(node)
        out.append(node)
    return out


def _of(shared: frozenset[int], node: UOp) -> frozenset[UOp]:
    """The shared memory that a LOAD or STORE is of."""
    memory = memory_of(node.src[0])
    return frozenset({memory}) if memory.op is Ops.ALLOC and memory.arg.slot in shared else _NONE


def _items(order: Sequence[UOp], shared: frozenset[int]) -> tuple[Item, ...]:
    """A program as nested items."""
    opened: list[tuple[int, list[Item]]] = [(0, [])]
    branch, within = -1, Open()
    for place, node in enumerate(order):
        does = Open()
        if node.op is Ops.LOAD:
            does = Open(read=_of(shared, node))
        elif node.op is Ops.STORE:
            does = Open(filled=_of(shared, node))
        if node.op is Ops.IF:
            branch, within = place, Open()
        elif node.op is Ops.ENDIF:
            if within.read & within.filled:
                raise BackendError("a barrier that not all threads of a block reach", remedy="pad the range")
            opened[-1][1].append(Item(branch, within))
            branch = -1
        elif branch >= 0:
            within |= does
        elif node.op is Ops.RANGE:
            opened.append((place, []))
        elif node.op is Ops.END:
            for _ in node.src[1:]:
                start, inside = opened.pop()
                all_of_it = Open()
                for item in inside:
                    all_of_it |= item.does
                sure = bounds(order[start].src[0])[0] > 0
                opened[-1][1].append(Item(start, all_of_it, tuple(inside), sure))
        elif does != Open():
            opened[-1][1].append(Item(place, does))
    return tuple(opened[0][1])


def _walk(items: Sequence[Item], state: Open) -> tuple[Open, set[int]]:
    """What is open behind some items, and the places that need a barrier before them,
    where this is open at first.
    """
    places: set[int] = set()
    for item in items:
        if item.body is None:
            if state.before(item.does):
                places.add(item.start)
                state = Open()
            state |= item.does
            continue
        left, _ = _walk(item.body, Open())
        _, own = _walk(item.body, left)
        behind, needed = _walk(item.body, left | state)
        if needed != own:
            places.add(item.start)
            state = Open()
            behind, _ = _walk(item.body, left)
        places |= own
        state = behind if item.sure else state | behind
    return state, places
