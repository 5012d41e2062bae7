"""Text size: about how long the C of a loop nest becomes when its axes are copied into registers. Week 6.

A C compiler takes its time for a long function, and a reader gives up;
so the optimizer makes fewer copies of much text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from uop_ir import AxisType, Kind, Ops, UOp, dtypes

from .loops import open_ranges
from .widen import NARROW

#: Characters that the loops of a kernel may have where it is the optimizer that copies them.
LIMIT = 15_500
#: How many fewer where there are f16s: the functions
#: that convert vectors of two widths stand before the loops.
F16_HELPERS = 4_000
#: Characters of the text of an op, each with the name, the type and the broadcasts that come with it.
CHARACTERS: dict[Ops, int] = {
    **dict.fromkeys((Ops.CONST, Ops.RANGE, Ops.INDEX, Ops.AFTER, Ops.ALLOC, Ops.PARAM, Ops.END, Ops.SINK), 0),
    Ops.LOAD: 70,
    Ops.STORE: 70,
    Ops.REDUCE: 130,
}
#: The same of functions whose definitions are long: of f32 and of f64, each scalar and in vectors.
LONG: dict[Ops, tuple[tuple[int, int], tuple[int, int]]] = {
    Ops.EXP2: ((850, 1_300), (1_300, 1_900)),
    Ops.LOG2: ((1_000, 1_700), (1_650, 2_500)),
    Ops.SIN: ((2_450, 4_200), (7_500, 11_900)),
}
OTHER, ROUNDING, LANE = 45, 100, 25


def text_limit(root: UOp) -> int:
    """Characters that each loop nest of a program may have."""
    helpers = F16_HELPERS if any(n.dtype is dtypes.f16 for n in root.toposort()) else 0
    return (LIMIT - helpers) // max(sum(n.op is Ops.END for n in root.src), 1)


def characters(nodes: Iterable[UOp], copies: Mapping[UOp, int], vector: UOp | None, lanes: int) -> int:
    """About how long the text of some nodes is,
    where each stands once for each copy of the ranges it depends on.

    `copies` says how many there are of a range; of an upcast one there are as many as it has values.
    What depends on `vector`, or on a range that is one already, is a vector; of a masked load or store
    each lane is written. With None no other is.
    """
    total = 0
    for node in nodes:
        if node.dtype.kind is Kind.INDEX:
            continue
        ranges = open_ranges(node.src[0] if node.op is Ops.REDUCE else node)
        if node.op in LONG:
            lanewise = any(r is vector or r.arg[1] is AxisType.VECTOR for r in ranges)
            size = LONG[node.op][node.dtype is dtypes.f64][lanewise]
        else:
            size = CHARACTERS.get(node.op, OTHER)
        if node.op is Ops.REDUCE:  # of a vector, lane by lane in the end
            size += sum(LANE * int(r.src[0].value) for r in node.src[1:] if r.arg[1] is AxisType.VECTOR)
        if node.dtype in NARROW and node.op not in (Ops.LOAD, Ops.CONST):
            size += ROUNDING
        if node.op in (Ops.LOAD, Ops.STORE) and len(node.src[0].src) == 3:
            alone = vector is None or vector not in open_ranges(node.src[0].src[2])
            size += LANE if alone else LANE * lanes
        for r in ranges:
            if r in copies:
                size *= copies[r]
            elif r.arg[1] is AxisType.UPCAST:
                size *= int(r.src[0].value)
        total += size
    return total
