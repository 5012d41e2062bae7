"""Nests: how the loads of a loop nest move with its ranges, and how much it computes. Week 6."""

from __future__ import annotations

from dataclasses import dataclass

from uop_ir import Kind, Ops, UOp
from uop_rewrite import linear

from .demands import simplify
from .loops import effects, open_ranges
from .schedule_legal import extent

#: Scalar operations that one op stands for in this count; the others count once.
WORK = {Ops.EXP2: 20, Ops.LOG2: 30, Ops.SIN: 40, Ops.DIV: 4, Ops.SQRT: 4, Ops.RECIP: 4}


def stride(load: UOp, r: UOp, lanes: int = 1) -> int | None:
    """By how many elements a load or a store moves when a range does; None where it is no constant number.

    With `lanes`: when the range moves within an aligned group of so many values, such as those of a vector.
    """
    position = load.src[0].src[1]
    total = _coefficient(position, r)
    if total is None and lanes > 1 and extent(r) % lanes == 0:
        group, lane = UOp.range(extent(r) // lanes, -1), UOp.range(lanes, -2)
        return _coefficient(simplify(position.substitute({r: group * lanes + lane})), lane)
    return total


def _coefficient(position: UOp, r: UOp) -> int | None:
    total = 0
    for term, k in linear(position).terms:
        if term is r:
            total += k
        elif r in open_ranges(term):
            return None
    return total


def work(end: UOp) -> int:
    """Scalar operations of a loop nest, at the greatest sizes."""
    total = 0
    for node in end.toposort():
        if node.dtype.kind not in (Kind.VOID, Kind.INDEX) and node.op is not Ops.CONST:
            times = WORK.get(node.op, 1)
            for r in open_ranges(node.src[0] if node.op is Ops.REDUCE else node):
                times *= extent(r)
            total += times
    return total


@dataclass(frozen=True)
class Loops:
    """A loop nest as it is now: its END, or a store in no loop; its loads from arguments; its reductions."""

    end: UOp
    loads: tuple[UOp, ...]
    reductions: tuple[UOp, ...]


def loops_of(end: UOp) -> Loops:
    """What is known of the loop nest that an END closes, or of a store that stands in no loop."""
    order = end.toposort()
    loads = tuple(n for n in order if n.op is Ops.LOAD and n.src[0].src[0].op is Ops.PARAM)
    return Loops(end, loads, tuple(n for n in order if n.op is Ops.REDUCE))


def inside(load: UOp, outputs: tuple[UOp, ...]) -> list[UOp]:
    """The ranges of reductions that a load depends on."""
    return [q for q in open_ranges(load) if q not in outputs]


def innermost(root: UOp) -> list[UOp]:
    """The ENDs of a program that close stores, and no other loops of stores."""
    ends = [n for n in root.toposort() if n.op is Ops.END]
    return [end for end in ends if all(n.op is Ops.STORE for n in effects(end))]


def sums(end: UOp) -> list[int]:
    """The number of the innermost range of each reduction in a loop nest."""
    return [int(n.src[-1].arg[0]) for n in end.toposort() if n.op is Ops.REDUCE]
