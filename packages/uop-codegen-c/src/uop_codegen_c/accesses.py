"""Accesses: each is proved to stay in its memory, guarded or refused;
and how many bits their arithmetic needs. Week 2.

A position must be in range for all values of its ranges and of what is loaded, by its bounds; behind a
validity, where the validity holds. What cannot be proved is refused:
a kernel never relies on its data to be good.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from uop_ir import AddrSpace, BoundsError, Ops, UOp, dtypes, index
from uop_rewrite import bounds, bounds_given, build, linear

from .demands import simplify
from .loops import INDEX, length, open_ranges

Interval: TypeAlias = tuple[int, int]

ACCESSES = frozenset({Ops.LOAD, Ops.STORE})
BRANCHES = frozenset({Ops.IF, Ops.ENDIF})
I32: Interval = (-(1 << 31), (1 << 31) - 1)
I64: Interval = (-(1 << 63), (1 << 63) - 1)


def check_accesses(program: Iterable[UOp]) -> None:
    """Prove that every LOAD and STORE of a program at loop or linear level stays in its memory.

    Raises BoundsError for one that may not, with the node, the interval of its position and the size.
    """
    for node, condition in _under_conditions(program):
        if node.op in ACCESSES and not _is_proved(node.src[0], condition):
            raise _may_leave(node.src[0], condition)


def guard_accesses(root: UOp) -> UOp:
    """A program at loop level in which each access whose validity does not prove it in range is valid only
    there, and a vector is loaded behind conditions of its lanes, not behind a vector.

    The first is for what index maps have made: no position is out of range under their validity, but it can
    take more to see it than intervals and simplification.
    """
    order = root.toposort()
    if all(len(n.src) < 3 for n in order if n.op is INDEX):
        return root
    changes: dict[UOp, Callable[[UOp], UOp]] = {}
    for node, condition in _under_conditions(order):
        if node.op in ACCESSES and len(node.src[0].src) == 3:
            place = node.src[0]
            if not _is_proved(place, condition):
                changes[place] = _guarded
            if node.op is Ops.LOAD and place.src[2].shape:
                changes[node] = _lane_by_lane
    if not changes:
        return root
    new: dict[UOp, UOp] = {}
    for node in order:  # not `substitute`: the memory of a place may hold others
        src = tuple([new[s] for s in node.src])
        now = node if src == node.src else node.replace(src=src)
        new[node] = changes[node](now) if node in changes else now
    return new[root]


def _guarded(place: UOp) -> UOp:
    memory, at, valid = place.src
    return place.replace(src=(memory, at, valid & _least(at) & _most(at, memory)))


def _lane_by_lane(load: UOp) -> UOp:
    """A load of a vector with a validity that is a STACK of what it is in each lane,
    or the one that all lanes have.

    A vector of conditions is compared in vain where they are known, or the same, as most are: padded
    convolutions take 0.3 to 0.6 of the time that they took with such masks (gcc; 0.7 to 0.9, clang). And gcc
    does not fold the lanes of a mask: it would warn of elements outside of an array that are never read.
    """
    memory, at, valid = load.src[0].src
    conditions = lanes_of(valid, length(load))
    if any(n.op is Ops.LOAD for c in conditions for n in c.toposort()):
        return load
    if len(set(conditions)) > 1:
        return memory.index(at, UOp(Ops.STACK, conditions)).load()
    (valid,) = set(conditions)
    if valid.op is not Ops.CONST:
        return memory.index(at, valid).load()
    nothing = UOp(Ops.STACK, [UOp.const(load.dtype, 0)] * length(load))
    return memory.index(at).load() if valid.value else nothing


def _least(at: UOp) -> UOp:
    return index(-1) < at


def _most(at: UOp, memory: UOp) -> UOp:
    return at < index(length(memory))


def _is_proved(place: UOp, condition: UOp | None) -> bool:
    """By intervals; else as what simplification sees to follow from the condition."""
    low, high = _reach(place, condition)
    if low > high or 0 <= low <= high < length(place.src[0]) or _never_runs(place):
        return True
    if condition is None or condition.shape or place.src[1].shape:
        return False
    memory, at = place.src[:2]
    known = simplify(condition)
    return simplify(known & _least(at)) is known and simplify(known & _most(at, memory)) is known


def _may_leave(place: UOp, condition: UOp | None) -> BoundsError:
    low, high = _reach(place, condition)
    return BoundsError(
        f"{_expression(place)}: elements {low} to {high} of {_memory(place)}, which has {length(place.src[0])}",
        remedy="INDEX with a validity that keeps it in range",
        node=place,
    )


def _reach(place: UOp, condition: UOp | None) -> Interval:
    """The least and the greatest position of an access where a condition holds;
    (1, 0) where it never does.
    """
    at = place.src[1]
    low, high = bounds(at)
    if 0 <= low <= high < length(place.src[0]):
        return low, high
    symbolic = [r for r in open_ranges(place) if r.op is Ops.RANGE and r.src[0].op is not Ops.CONST]
    for r in symbolic:
        condition = r < r.src[0] if condition is None else condition & (r < r.src[0])
    if condition is None:
        return low, high
    positions, conditions = [at], [condition]
    if at.shape or condition.shape:
        positions, conditions = (lanes_of(n, length(place)) for n in (at, condition))
    found = [_between(p, symbolic, c) for p, c in zip(positions, conditions, strict=True) if bounds(c)[1]]
    return min((f[0] for f in found), default=1), max((f[1] for f in found), default=0)


def _between(at: UOp, symbolic: Sequence[UOp], condition: UOp) -> Interval:
    """The bounds of a position where a condition holds, within ranges of which some have a symbolic size."""
    low, high = bounds_given(condition, at)
    if not symbolic:
        return low, high
    least, most = (_corner(at, symbolic, sign) for sign in (-1, 1))
    return max(low, bounds_given(condition, least)[0]), min(high, bounds_given(condition, most)[1])


def _corner(at: UOp, ranges: Sequence[UOp], sign: int) -> UOp:
    """A position with ranges at their ends, where it is greatest
    (`sign` 1) or least (-1) of all that they lead to.

    In `n - 1 - r` with r below n the least is then 0: two intervals know nothing of the n that both have.
    """
    corner = linear(at)
    for r, k in corner.terms:
        if r in ranges:
            corner = corner.add(r, -k)
            if k * sign > 0:
                corner = corner.plus(linear(r.src[0] - 1), k)
    return build(corner)


def _under_conditions(program: Iterable[UOp]) -> Iterator[tuple[UOp, UOp | None]]:
    """Each node with the condition under which it acts: its validity, and the IFs around it."""
    around: list[UOp | None] = [None]
    for node in program:
        condition = around[-1]
        if node.op in BRANCHES:
            if node.op is Ops.IF:
                around.append(_both(condition, node.src[0]))
            else:
                around.pop()
            condition = around[-1]
        elif node.op in ACCESSES and len(node.src[0].src) == 3:
            condition = _both(condition, node.src[0].src[2])
        yield node, condition


def _both(first: UOp | None, second: UOp) -> UOp:
    return second if first is None else first & second


def _never_runs(place: UOp) -> bool:
    """Whether an access stands in a loop of no iterations."""
    return any(bounds(r.src[0])[1] == 0 for r in open_ranges(place))


def _expression(node: UOp) -> str:
    return str(node).rpartition(" : ")[0]


def _memory(place: UOp) -> str:
    memory = place.src[0]
    while memory.op is Ops.AFTER:
        memory = memory.src[0]
    return f"{memory.op.value} slot={memory.arg.slot}"


# vectors


def lanes_of(node: UOp, lanes: int) -> list[UOp]:
    """A position or a condition for each lane, as scalars. Kept in its memo."""
    iotas = [n for n in node.toposort() if n.op is Ops.STACK] if node.shape else []
    if not iotas:
        return [node] * lanes
    if "lanes" not in node.memo:
        node.memo["lanes"] = [
            simplify(node.substitute({n: n.src[lane] for n in iotas})) for lane in range(lanes)
        ]
    found: list[UOp] = node.memo["lanes"]
    return found


def stride(position: UOp) -> tuple[UOp, int] | None:
    """(first, step) where the lanes of a position are first + step * lane; else None. Kept in its memo."""
    if "stride" not in position.memo:
        form = linear(position)
        vectors = [(t, k) for t, k in form.terms if t.shape]
        position.memo["stride"] = None
        if len(vectors) == 1 and _is_iota(vectors[0][0]):
            rest = type(form)(tuple((t, k) for t, k in form.terms if not t.shape), form.constant)
            position.memo["stride"] = build(rest), vectors[0][1]
    found: tuple[UOp, int] | None = position.memo["stride"]
    return found


def _is_iota(node: UOp) -> bool:
    """Whether a vector is (0, 1, ..., n-1). Kept in its memo."""
    if "iota" not in node.memo:
        node.memo["iota"] = node.op is Ops.STACK and all(
            s.op is Ops.CONST and s.value == i for i, s in enumerate(node.src)
        )
    found: bool = node.memo["iota"]
    return found


def _addresses(place: UOp) -> Sequence[UOp]:
    """The index arithmetic that an access is written with."""
    position = place.src[1]
    if not position.shape:
        return (position,)
    found = stride(position)
    return (found[0],) if found is not None and found[1] == 1 else lanes_of(position, length(position))


# width


def index_width(program: Iterable[UOp]) -> tuple[bool, frozenset[UOp]]:
    """Whether some index of a linear program needs 64 bits, and the indices that are in range wherever they
    stand, as is all that they are computed from.

    What stands behind a validity is computed only where that holds.
    Raises BoundsError for an index that may not fit 64 bits.
    """
    width = _Width()
    for node, condition in _under_conditions(program):
        if node.op in ACCESSES:
            if node.src[0].addrspace is not AddrSpace.REG:
                for at in _addresses(node.src[0]):
                    width.enter(at, condition)
        elif (node.dtype is not dtypes.index or node.op is Ops.RANGE) and node.op is not Ops.INDEX:
            for s in node.src:
                if s.dtype is dtypes.index and s.op is not Ops.RANGE:
                    width.enter(s, None)
    return width.wide, frozenset(width.narrow if not width.wide else width.narrow | width.long)


class _Width:
    """Gathers the indices that are computed, by how many bits they need whatever holds."""

    def __init__(self) -> None:
        self.narrow: set[UOp] = set()
        self.long: set[UOp] = set()
        self.wide = False

    def enter(self, root: UOp, condition: UOp | None) -> None:
        """An index, and those that it is computed from, where a condition holds."""
        for node in root.toposort(gate=lambda n: n not in self.narrow and n.dtype is dtypes.index):
            if node in self.narrow or node.dtype is not dtypes.index:
                continue
            low, high = bounds(node)
            sources = [s for s in node.src if s.dtype is dtypes.index]
            if I32[0] <= low and high <= I32[1] and all(s in self.narrow for s in sources):
                self.narrow.add(node)
                continue
            if I64[0] <= low and high <= I64[1] and all(s in self.narrow or s in self.long for s in sources):
                self.long.add(node)
            if condition is not None:
                low, high = bounds_given(condition, node)
            if low < I64[0] or I64[1] < high:
                raise BoundsError(
                    f"{_expression(node)}: an index of {low} to {high}, which 64 bits do not hold",
                    remedy="bound what it is computed from",
                    node=node,
                )
            self.wide = self.wide or low < I32[0] or I32[1] < high
