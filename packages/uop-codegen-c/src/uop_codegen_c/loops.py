"""Which loops a node stands in: the ranges that are open at it. Week 3."""

from __future__ import annotations

from collections.abc import Iterable

from uop_ir import AxisType, Ops, UOp

NAMING = frozenset({Ops.INDEX, Ops.AFTER})
CLOSING = frozenset({Ops.END, Ops.REDUCE})
#: For walks over whole programs: an attribute of an Enum takes
#: six times as long to find as a name, and each node asks.
AFTER, ALLOC, END, INDEX, LOAD, RANGE, SINK, STORE = (
    Ops.AFTER, Ops.ALLOC, Ops.END, Ops.INDEX, Ops.LOAD, Ops.RANGE, Ops.SINK, Ops.STORE,
)  # fmt: skip
_NONE: frozenset[UOp] = frozenset()


def open_ranges(node: UOp) -> frozenset[UOp]:
    """The ranges whose value a node depends on, less those that END and REDUCE below it have closed."""
    if "open" not in node.memo:
        for n in node.toposort(gate=lambda n: "open" not in n.memo):
            if "open" not in n.memo:
                n.memo["open"] = _open(n)
    found: frozenset[UOp] = node.memo["open"]
    return found


def _open(node: UOp) -> frozenset[UOp]:
    if node.op is RANGE:
        outer: frozenset[UOp] = node.src[0].memo["open"]
        return outer | {node}
    if node.op in CLOSING:
        closed = node.src[1:]
        ends = (r.src[0].memo["open"] for r in closed)
        found: frozenset[UOp] = node.src[0].memo["open"].difference(closed).union(*ends)
        return found - frozenset(closed)
    found = _NONE
    for s in node.src:  # the same set again, wherever it can be: most nodes stand where their sources do
        other: frozenset[UOp] = s.memo["open"]
        if other is not found and not other <= found:
            found = other if found <= other else found | other
    return found


def all_ranges(root: UOp) -> tuple[UOp, ...]:
    """Every RANGE of a program, by number."""
    if "ranges" not in root.memo:
        root.memo["ranges"] = in_order(n for n in root.toposort() if n.op is RANGE)
    found: tuple[UOp, ...] = root.memo["ranges"]
    return found


def next_number(root: UOp) -> int:
    """A number that no RANGE of a program has, nor any above it."""
    return max((int(r.arg[0]) + 1 for r in all_ranges(root)), default=0)


def next_slot(root: UOp) -> int:
    """A slot that no scratch memory of a program has, nor any above it."""
    if "slot" not in root.memo:
        used = [int(n.arg.slot) for n in root.toposort() if n.op is ALLOC]
        root.memo["slot"] = 1 + max(used, default=-1)
    found: int = root.memo["slot"]
    return found


def retype(r: UOp, axis: AxisType) -> UOp:
    """The same range as another type of axis."""
    return r.replace(arg=(r.arg[0], axis))


def in_order(ranges: Iterable[UOp]) -> tuple[UOp, ...]:
    """Ranges by number."""
    return tuple(sorted(ranges, key=lambda r: int(r.arg[0])))


def length(node: UOp) -> int:
    """The size of the one axis of memory or of a vector, which is constant; 1 for a scalar."""
    size = node.shape[0] if node.shape else 1
    assert isinstance(size, int)
    return size


def effects(end: UOp) -> tuple[UOp, ...]:
    """What an END repeats."""
    return end.src[0].src if end.src[0].op is SINK else end.src[:1]


def memory_of(node: UOp) -> UOp:
    """The PARAM or ALLOC that an INDEX names an element of."""
    while node.op in NAMING:
        node = node.src[0]
    return node
