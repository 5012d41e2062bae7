"""Tune space: which schedules a search looks at, from one that it has. Week 6."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, product
from typing import TypeAlias

from uop_ir import AxisType, Ops, UOp

from .actions import Action, Reorder, Retype, Split
from .freedoms import Freedoms
from .loops import in_order, open_ranges
from .machine import Machine
from .optimize import choose
from .schedule import Schedule, apply_schedule
from .schedule_legal import ScheduleError, extent
from .schedule_memory import Hold, Stage

#: A schedule, and the program after it: two with the same program are one.
Scheduled: TypeAlias = "tuple[Schedule, UOp]"
#: Machines whose schedules are tried besides: this one with other numbers of registers, so that tiles differ.
REGISTERS = (32, 24, 12, 8, 48)
FACTORS = {
    AxisType.VECTOR: (8, 16, 4),
    AxisType.UPCAST: (2, 4, 8),
    AxisType.UNROLL: (2, 4, 8),
    AxisType.LOOP: (8, 32),
    AxisType.REDUCE: (8, 32),
}
#: What is tried instead of the factor of a split.
CHANGES = (-2, -1, 1, 2)


def variants(root: UOp, free: Freedoms, machine: Machine) -> Iterator[Scheduled]:
    """No schedule, and those that would be chosen for machines with other registers,
    narrower vectors, one thread.
    """
    yield Schedule(), root
    threads = dict.fromkeys((machine.threads, 1))
    widths = [w for w in (machine.vector_bytes, machine.vector_bytes // 2) if w >= 16]
    for count, width, registers in product(threads, widths, (machine.registers, *REGISTERS)):
        yield choose(root, free, Machine(width, registers, count))


def neighbours(root: UOp, schedule: Schedule, free: Freedoms) -> Iterator[Scheduled]:
    """The schedules one step away: with an action less or another factor, then with an action more."""
    yield from changed(root, schedule, free)
    yield from extended(root, schedule, free)


def changed(root: UOp, schedule: Schedule, free: Freedoms) -> Iterator[Scheduled]:
    """A schedule with one action left out or changed; what is no longer legal behind it is left out too."""
    whole = schedule.actions
    for place, action in enumerate(whole):
        for instead in ((), *((other,) for other in _others(action))):
            part, program = legal_part(root, (*instead, *whole[place + 1 :]), free)
            yield Schedule((*whole[:place], *part.actions)), program
        root = apply_schedule(root, [action], free)


def _others(action: Action) -> Iterator[Action]:
    if isinstance(action, Split):
        factor = action.factor
        near = () if action.axis is AxisType.VECTOR else (factor + d for d in CHANGES)
        for other in dict.fromkeys((factor // 2, factor * 2, *near)):
            if other != factor and other > 1:
                yield replace(action, factor=other)
    if isinstance(action, Split | Retype) and action.axis in (AxisType.UPCAST, AxisType.UNROLL):
        axis = AxisType.UNROLL if action.axis is AxisType.UPCAST else AxisType.UPCAST
        yield replace(action, axis=axis)


def legal_part(root: UOp, actions: Iterable[Action], free: Freedoms) -> Scheduled:
    """The actions without those that are not legal where they stand, and the program after them."""
    kept: list[Action] = []
    for action in actions:
        try:
            root = apply_schedule(root, [action], free)
        except ScheduleError:
            continue
        kept.append(action)
    return Schedule(tuple(kept)), root


def extended(root: UOp, schedule: Schedule, free: Freedoms) -> Iterator[Scheduled]:
    """A schedule with each action more that the table has and that is legal behind it."""
    now = apply_schedule(root, schedule, free)
    for action in actions(now):
        try:
            then = apply_schedule(now, [action], free)
        except ScheduleError:
            continue
        if then is not now:
            yield Schedule((*schedule.actions, action)), then


def actions(root: UOp) -> Iterator[Action]:
    """Actions that may be of use on a program, legal or not."""
    order = root.toposort()
    ranges = [r for r in order if r.op is Ops.RANGE and r.src[0].op is Ops.CONST]
    for r in ranges:
        number = int(r.arg[0])
        yield from (Retype(number, a) for a in (AxisType.THREAD, AxisType.VECTOR) if extent(r) > 1)
        yield from (Split(number, f, a) for a, factors in FACTORS.items() for f in factors)
    yield from chain(_reorders(order), _stages(order, ranges), _holds(order))


def _reorders(order: Iterable[UOp]) -> Iterator[Action]:
    """Each two neighbours of a loop nest exchanged."""
    for n in order:
        if n.op is Ops.END:
            numbers = [int(r.arg[0]) for r in n.src[1:]]
            for i in range(1, len(numbers)):
                yield Reorder((*numbers[: i - 1], numbers[i], numbers[i - 1], *numbers[i + 1 :]))


def _stages(order: Iterable[UOp], ranges: list[UOp]) -> Iterator[Action]:
    """Each argument that is loaded, copied in the order of the reductions and one range more."""
    reduced = [int(r.arg[0]) for r in ranges if r.arg[1] is AxisType.REDUCE]
    slots = [n.src[0].src[0].arg.slot for n in order if n.op is Ops.LOAD and n.src[0].src[0].op is Ops.PARAM]
    for slot, r in product(dict.fromkeys(slots), ranges):
        yield Stage(slot, (*(q for q in reduced if q != r.arg[0]), int(r.arg[0])))


def _holds(order: Iterable[UOp]) -> Iterator[Action]:
    """What each reduction gives for the innermost one or two of the ranges around it, held."""
    for n in order:
        if n.op is Ops.REDUCE:
            around = [int(r.arg[0]) for r in in_order(open_ranges(n))]
            yield from (Hold(int(n.src[1].arg[0]), tuple(around[-k:])) for k in (1, 2) if k <= len(around))
