"""The order of a linear program: what it may leave out,
and which END or ENDIF closes what was opened. Week 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .ops import Ops
from .uop import UOp

#: Nodes that need no place in the order: they have no moment.
_TIMELESS = frozenset({Ops.CONST, Ops.PARAM, Ops.BUFFER, Ops.ALLOC})
_OPENING = frozenset({Ops.RANGE, Ops.SPECIAL, Ops.IF})


class Fault(NamedTuple):
    """A node that is wrong in its program, what is wrong with it, and what to do."""

    node: UOp
    what: str
    remedy: str | None = None


def completed(nodes: Sequence[UOp]) -> tuple[tuple[UOp, ...], list[Fault]]:
    """The program with what it may leave out, and the nodes that stand before a source of theirs.

    Constants and memory may be left out, and come first; so may an AFTER, which follows its memory.
    """
    listed, seen = set(nodes), set[UOp]()
    first: dict[UOp, None] = {}
    follow: dict[UOp, dict[UOp, None]] = {}
    faults: list[Fault] = []
    for node in nodes:
        for source in node.src:
            chain = [source]
            while chain[-1].op is Ops.AFTER and chain[-1] not in listed:
                chain.append(chain[-1].src[0])
            under = chain.pop()
            if under not in seen:
                if under.op not in _TIMELESS:
                    faults.append(Fault(node, f"stands before its source {under!r}", "give operands first"))
                first[under] = None
            follow.setdefault(under, {}).update(dict.fromkeys(reversed(chain)))
        seen.add(node)
    return tuple(n for node in (*first, *nodes) for n in (node, *follow.get(node, ()))), faults


def matched(nodes: Sequence[UOp]) -> tuple[dict[int, int], list[Fault]]:
    """For each RANGE the place of its END, for each IF that of its ENDIF,
    for a SPECIAL the end; and what has none.
    """
    places: dict[int, int] = {}
    opened: list[int] = []
    faults: list[Fault] = []
    for at, node in enumerate(nodes):
        if node.op in _OPENING:
            opened.append(at)
        closes = node.src[1:] if node.op is Ops.END else node.src if node.op is Ops.ENDIF else ()
        for wanted in reversed(closes):
            if opened and nodes[opened[-1]] is wanted:
                places[opened.pop()] = at
                continue
            last = repr(nodes[opened[-1]]) if opened else "nothing"
            faults.append(Fault(node, f"closes {wanted!r}, but what was opened last is {last}"))
            return places, faults
    for at in opened:
        if nodes[at].op is not Ops.SPECIAL:
            faults.append(Fault(nodes[at], "is never closed", "END a RANGE, ENDIF an IF"))
        places[at] = len(nodes)
    return places, faults
