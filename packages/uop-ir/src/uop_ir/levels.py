"""The three levels of a program, tensor, loop and linear, and what each of them may contain: data. Week 1."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, NamedTuple

from .arguments import items, operation
from .movement import INDEX_MAPS
from .ops import AddrSpace, AxisType, Ops


class Level(Enum):
    """How far a program is on its way to a machine.

    tensor: values with shapes, as users write them. loop: scalars and vector registers in loops over memory,
    a graph. linear: the same in one order, which is the order of execution.
    """

    TENSOR = "tensor"
    LOOP = "loop"
    LINEAR = "linear"


_VALUES = frozenset({
    Ops.CONST, Ops.CAST, Ops.BITCAST, Ops.RECIP, Ops.SQRT, Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.TRUNC, Ops.NEG, Ops.ADD,
    Ops.SUB, Ops.MUL, Ops.DIV, Ops.MOD, Ops.MAX, Ops.AND, Ops.OR, Ops.XOR, Ops.SHL, Ops.SHR, Ops.CMPLT, Ops.CMPNE,
    Ops.CMPEQ, Ops.WHERE, Ops.MULACC, Ops.STACK,
})  # fmt: skip
_MEMORY = frozenset({Ops.PARAM, Ops.BUFFER, Ops.ALLOC, Ops.STORE, Ops.AFTER, Ops.SINK})
_LOOPS = frozenset({Ops.INDEX, Ops.LOAD, Ops.RANGE, Ops.END, Ops.BARRIER, Ops.WMMA})
_ORDERED = frozenset({Ops.SPECIAL, Ops.IF, Ops.ENDIF})

#: The ops of each level.
CONTENTS: dict[Level, frozenset[Ops]] = {
    Level.TENSOR: _VALUES | _MEMORY | INDEX_MAPS.keys() | {Ops.CALL, Ops.COPY, Ops.REDUCE, Ops.STAGE},
    Level.LOOP: _VALUES | _MEMORY | _LOOPS | {Ops.REDUCE, Ops.STAGE},
    Level.LINEAR: _VALUES | _MEMORY | _LOOPS | _ORDERED,
}


class Allowed(NamedTuple):
    """The values that one part of an op's arg may have at a level."""

    part: Callable[[Any], Enum]
    values: frozenset[Enum]


#: For an op that a level has, but not with every arg.
ARGS: dict[tuple[Level, Ops], Allowed] = {
    (Level.TENSOR, Ops.ALLOC): Allowed(lambda arg: arg.addrspace, frozenset({AddrSpace.GLOBAL})),
    (Level.LINEAR, Ops.RANGE): Allowed(
        lambda arg: arg[1], frozenset(AxisType) - {AxisType.UPCAST, AxisType.VECTOR}
    ),
}


def level_of(ops: Iterable[Ops]) -> Level:
    """The level that a program has by its ops: linear with SPECIAL,
    IF or ENDIF, loop with any other that has no shape.

    A program that is given as a sequence of nodes is linear whatever it contains.
    """
    found = frozenset(operation("level_of", op) for op in items("level_of", ops, "ops"))
    if found & _ORDERED:
        return Level.LINEAR
    return Level.LOOP if found & _LOOPS else Level.TENSOR
