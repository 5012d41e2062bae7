"""Axis actions: the few steps of which every optimization is made, as data. Week 6.

Each acts on a program at loop level and gives an equal one: the same stores of the same values, up to the
freedoms that it says it needs. A schedule is a tuple of actions; printed, it can be read and applied again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import ClassVar, Protocol

from uop_ir import AxisType, Ops, UOp, index
from uop_rewrite import graph_rewrite, symbolic

from .loops import CLOSING, in_order, next_number, next_slot, open_ranges, retype
from .schedule_legal import (
    APART,
    ScheduleError,
    carries,
    check_axis,
    check_program,
    closers,
    constant,
    extent,
    find_range,
)


class Action(Protocol):
    """One step of a schedule."""

    def apply(self, root: UOp) -> UOp:
        """The program after the action. Raises ScheduleError where it is not legal."""


def _is_number(value: object) -> bool:
    return type(value) is int


#: What the fields of an action may hold, by how their types are written.
FIELDS: dict[str, Callable[[object], bool]] = {
    "int": _is_number,
    "AxisType": lambda value: isinstance(value, AxisType),
    "tuple[int, ...]": lambda value: isinstance(value, tuple) and all(map(_is_number, value)),
}


class Checked:
    """An action with its reasons apart from its work: what chooses only legal ones asks for `act` alone.

    `indexes`: whether `act` makes indices, which are to be simplified before anyone reads strides off them.
    Raises ScheduleError for a field of another type.
    """

    indexes: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for name, kind in type(self).__annotations__.items():
            if kind in FIELDS and not FIELDS[kind](getattr(self, name)):
                action = type(self).__name__.lower()
                raise ScheduleError(f"{action}: {name} is {getattr(self, name)!r}", remedy=f"give {kind}")

    def check(self, root: UOp) -> None:
        """Raise ScheduleError where the action is not legal on a program."""

    def act(self, root: UOp) -> UOp:
        """The program after an action that is legal."""
        raise NotImplementedError

    def reorders(self, root: UOp) -> UOp | None:
        """A REDUCE that the action makes fold its values in another order or in parts, if there is one."""
        return None

    def apply(self, root: UOp) -> UOp:
        """The program after the action. Raises ScheduleError where it is not legal."""
        self.check(root)
        new = self.act(root)
        if self.indexes:
            new = graph_rewrite(new, symbolic)
        check_program(new, str(self))
        return new


def _moved(
    body: UOp, at: dict[UOp, UOp], ranges: dict[UOp, tuple[UOp, ...]], slots: Iterator[int] | None = None
) -> UOp:
    """A body with ranges replaced: by an index in what is computed,
    by ranges where scratch memory stands in them.

    With `slots` this is a second copy, and such memory is its own, with the next slot.
    """
    new = dict(at)
    for node in body.toposort():
        if node.op is Ops.AFTER and node.src[0].op is Ops.ALLOC and any(r in ranges for r in node.src[1:]):
            memory, arg = node.src[0], node.src[0].arg
            if memory not in new:
                own = memory if slots is None else UOp.alloc(next(slots), arg.size, arg.dtype, arg.addrspace)
                new[memory] = own
            new[node] = new[memory].after(*(q for r in node.src[1:] for q in ranges.get(r, (r,))))
    return body.substitute(new)


def _folded(root: UOp, r: UOp) -> UOp | None:
    """A REDUCE over a range, if there is one that the order of its values makes a difference to."""
    return next((n for n in closers(root, r) if n.op is Ops.REDUCE and n.dtype.is_float), None)


@dataclass(frozen=True)
class Split(Checked):
    """Split a range into an outer and an inner one of `factor`, the inner one an axis of a given type.

    Where the factor does not divide the size, what closes the range is repeated for the rest. The outer range
    keeps its place, the inner one follows it; they get the next two numbers, and the rest, if it is a loop,
    the one behind them. A range of one value is none. A reduction that is split with a rest, or whose inner
    axis is upcast or vector (several accumulators), needs the freedom to reassociate.
    """

    indexes = True

    number: int
    factor: int
    axis: AxisType

    def __str__(self) -> str:
        return f"split {self.number} {self.factor} {self.axis.value}"

    def check(self, root: UOp) -> None:
        r = find_range(root, self.number)
        size = constant(r, "split")
        if not 2 <= self.factor < size:
            remedy = f"2 to {size - 1}, or retype {self.number} {self.axis.value}"
            raise ScheduleError(
                f"split: factor {self.factor} for range {self.number} of {size}", remedy=remedy
            )
        if r.arg[1] is AxisType.VECTOR:
            raise ScheduleError(f"split: range {self.number} is a vector already", remedy="split it before")
        check_axis(root, r, self.axis, self.factor, "split")
        check_axis(root, r, r.arg[1], size // self.factor, "split")

    def reorders(self, root: UOp) -> UOp | None:
        r = find_range(root, self.number)
        apart = self.axis in APART or int(r.src[0].value) % self.factor
        return _folded(root, r) if apart and r.arg[1] not in APART else None

    def act(self, root: UOp) -> UOp:
        parts = _Parts(root, find_range(root, self.number), self)
        new: dict[UOp, UOp] = {}
        for node in root.toposort():
            src = [new[s] for s in node.src]
            if node.op is Ops.REDUCE and parts.r in node.src[1:]:
                new[node] = parts.reduce(node, src)
            elif node.op is Ops.END and parts.r in node.src[1:]:
                new[node] = parts.end(src)
            elif tuple(src) == node.src:
                new[node] = node
            else:
                new[node] = node.replace(src=_effects(src) if node.op in (Ops.SINK, Ops.AFTER) else src)
        return new[root]


class _Parts:
    """What a range that is split becomes: `loops` in the main part,
    `tail` in the rest. One of one value is an index.
    """

    def __init__(self, root: UOp, r: UOp, split: Split) -> None:
        self.r = r
        whole, self.rest = divmod(int(r.src[0].value), split.factor)
        self.done = whole * split.factor
        self.slots = count(next_slot(root))
        first = next_number(root)
        self.numbers = count(first + 3)
        outer = UOp.range(whole, first, r.arg[1]) if whole > 1 else index(0)
        inner = UOp.range(split.factor, first + 1, split.axis)
        self.tail = UOp.range(self.rest, first + 2, r.arg[1]) if self.rest > 1 else index(0)
        self.at = outer * split.factor + inner
        self.loops = _ranges(outer, inner)
        self.own: dict[UOp, UOp] = {}

    def reduce(self, node: UOp, src: list[UOp]) -> UOp:
        """A REDUCE over the range, with the rest folded behind it."""
        op = node.arg[0]
        main = _moved(src[0], {self.r: self.at}, {self.r: self.loops})
        out = node.replace(src=(main, *_replaced(src[1:], self.r, *self.loops)))
        if not self.rest:
            return out
        own = self.owned(q for q in src[1:] if q is not self.r)
        left = self.left(src[0], own)
        closed = [own.get(q, q) for q in _replaced(src[1:], self.r, *_ranges(self.tail))]
        return out.alu(op, left.reduce(op, 0, closed) if closed else left)

    def end(self, src: list[UOp]) -> UOp:
        """An END of the range, with a loop nest for the rest behind it."""
        body, at = src[0], src.index(self.r)
        before, behind = src[1:at], src[at + 1 :]
        main = _moved(body, {self.r: self.at}, {self.r: self.loops})
        if not self.rest:
            return main.end(*before, *self.loops, *behind)
        inside = {
            q for n in body.toposort() if n.op is Ops.REDUCE and self.r in open_ranges(n) for q in n.src[1:]
        }
        own = self.owned([*behind, *in_order(inside)])
        left = self.left(body, own)
        closed = [*_ranges(self.tail), *(own[q] for q in behind)]
        loops = [main.end(*self.loops, *behind), left.end(*closed) if closed else left]
        return UOp.sink(*_effects(loops)).end(*before) if before else UOp.sink(*_effects(loops))

    def owned(self, ranges: Iterable[UOp]) -> dict[UOp, UOp]:
        """For each range the one that the rest has in its place."""
        found = {}
        for q in ranges:
            if q not in self.own:
                self.own[q] = q.replace(arg=(next(self.numbers), q.arg[1]))
            found[q] = self.own[q]
        return found

    def left(self, body: UOp, own: dict[UOp, UOp]) -> UOp:
        """What the rest computes."""
        loops = {self.r: _ranges(self.tail), **{q: (new,) for q, new in own.items()}}
        return _moved(body, {self.r: self.tail + self.done, **own}, loops, self.slots)


def _ranges(*indices: UOp) -> tuple[UOp, ...]:
    """The ranges among indices."""
    return tuple(i for i in indices if i.op is Ops.RANGE)


def _effects(src: Sequence[UOp]) -> list[UOp]:
    """Sources, with those of a SINK in its place."""
    return [e for s in src for e in (s.src if s.op is Ops.SINK else (s,))]


def _replaced(ranges: list[UOp], r: UOp, *by: UOp) -> list[UOp]:
    return [q for old in ranges for q in (by if old is r else (old,))]


@dataclass(frozen=True)
class Retype(Checked):
    """Give a range another type of axis."""

    number: int
    axis: AxisType

    def __str__(self) -> str:
        return f"retype {self.number} {self.axis.value}"

    def check(self, root: UOp) -> None:
        r = find_range(root, self.number)
        if self.axis is AxisType.THREAD:
            for node in closers(root, r):
                if node.op is Ops.REDUCE or open_ranges(node):
                    raise ScheduleError(f"thread: range {self.number} is not the outermost loop of a store")
        check_axis(root, r, self.axis, extent(r), "retype")

    def reorders(self, root: UOp) -> UOp | None:
        r = find_range(root, self.number)
        return _folded(root, r) if self.axis in APART and r.arg[1] not in APART else None

    def act(self, root: UOp) -> UOp:
        r = find_range(root, self.number)
        return root.substitute({r: retype(r, self.axis)})


@dataclass(frozen=True)
class Reorder(Checked):
    """Close the ranges of an END or REDUCE in another order,
    outermost first. A REDUCE needs reassociation.
    """

    numbers: tuple[int, ...]

    def __str__(self) -> str:
        return f"reorder {in_brackets(self.numbers)}"

    def check(self, root: UOp) -> None:
        check_distinct(self.numbers, "reorder")
        for n in self.numbers:
            find_range(root, n)
        closing = self._closing(root)
        if not closing:
            raise ScheduleError(f"reorder: no loop nest closes exactly the ranges {list(self.numbers)}")
        if any(map(carries, closing)):
            raise ScheduleError("reorder: a range carries values from one iteration to the next")

    def reorders(self, root: UOp) -> UOp | None:
        for n in self._closing(root):
            if n.op is Ops.REDUCE and n.dtype.is_float and [r.arg[0] for r in n.src[1:]] != [*self.numbers]:
                return n
        return None

    def act(self, root: UOp) -> UOp:
        wanted = tuple(find_range(root, n) for n in self.numbers)
        closing = set(self._closing(root))
        new: dict[UOp, UOp] = {}
        for node in root.toposort():
            src = tuple(new[s] for s in node.src)
            src = (src[0], *wanted) if node in closing else src
            new[node] = node if src == node.src else node.replace(src=src)
        return new[root]

    def _closing(self, root: UOp) -> list[UOp]:
        wanted = set(self.numbers)
        return [n for n in root.toposort() if n.op in CLOSING and {r.arg[0] for r in n.src[1:]} == wanted]


def in_brackets(numbers: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, numbers))})"


def check_distinct(numbers: tuple[int, ...], action: str) -> None:
    if len(set(numbers)) < len(numbers) or not numbers:
        raise ScheduleError(f"{action}: ranges {list(numbers)}, each of which must stand once")
