"""Transfer functions: the integers that an operation can give,
from those that its operands can be. Week 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd
from typing import TypeAlias

from uop_ir import Kind, Ops, UOp

from . import value_sets as sets
from .value_sets import ValueSet, value_set

#: The values of a node, from those of its sources.
Transfer: TypeAlias = Callable[[UOp, Sequence[ValueSet]], ValueSet]
NOTHING = ValueSet(0, 0, 0, 0)  # of a node without integers; never looked at
#: What a bool can be, by its least and its greatest value.
_TRUTHS = {(p, q): value_set(p, q) for p, q in ((0, 0), (0, 1), (1, 1))}


def whole(node: UOp) -> ValueSet:
    """All values of the node's dtype."""
    return ValueSet(int(node.dtype.min), int(node.dtype.max))


def _binary(function: Callable[[ValueSet, ValueSet], ValueSet]) -> Transfer:
    return lambda node, src: function(src[0], src[1])


def _bits(function: Callable[[ValueSet, ValueSet, int], ValueSet]) -> Transfer:
    return lambda node, src: function(src[0], src[1], node.dtype.bits)


def _multiply(node: UOp, src: Sequence[ValueSet]) -> ValueSet:
    return sets.square(src[0]) if node.src[0] is node.src[1] else sets.multiply(src[0], src[1])


def truth(always: bool, never: bool) -> ValueSet:
    return _TRUTHS[always, not never]


def _less(node: UOp, src: Sequence[ValueSet]) -> ValueSet:
    if node.src[0] is node.src[1]:
        return sets.constant(0)
    if node.src[0].dtype.kind is Kind.FLOAT:
        return ValueSet(0, 1)
    x, y = src
    return truth(x.greatest < y.least, x.least >= y.greatest)


def _equal(node: UOp, src: Sequence[ValueSet]) -> ValueSet:
    if node.src[0].dtype.kind is Kind.FLOAT:
        return ValueSet(0, 1)
    x, y = src
    apart = x.greatest < y.least or y.greatest < x.least or _incongruent(x, y)
    return truth(node.src[0] is node.src[1] or (x == y and x.step == 0), apart)


def _incongruent(x: ValueSet, y: ValueSet) -> bool:
    step = gcd(x.step, y.step)
    return step > 1 and (x.offset - y.offset) % step != 0


def _not_equal(node: UOp, src: Sequence[ValueSet]) -> ValueSet:
    return sets.subtract(sets.constant(1), _equal(node, src))


def _and(node: UOp, src: Sequence[ValueSet]) -> ValueSet:
    x, y = src
    if node.dtype.kind is Kind.BOOL:
        return _TRUTHS[x.least & y.least, x.greatest & y.greatest]
    return sets.bit_and(x, y, node.dtype.bits)


def _or(node: UOp, src: Sequence[ValueSet]) -> ValueSet:
    x, y = src
    if node.dtype.kind is Kind.BOOL:
        return _TRUTHS[x.least | y.least, x.greatest | y.greatest]
    return sets.bit_or(x, y, node.dtype.bits)


def _cast(node: UOp, src: Sequence[ValueSet]) -> ValueSet:
    source = src[0]
    if node.src[0].dtype.kind is Kind.FLOAT:
        return whole(node)
    if node.dtype.kind is Kind.BOOL:
        return truth(source.least > 0 or source.greatest < 0 or source.offset != 0, source == NOTHING)
    return source


def _range(node: UOp, src: Sequence[ValueSet]) -> ValueSet:
    return value_set(0, max(src[0].greatest - 1, 0))


def _param(node: UOp, src: Sequence[ValueSet]) -> ValueSet:
    return value_set(node.arg.min, node.arg.max) if node.dtype.kind is Kind.INDEX else whole(node)


def _constant(node: UOp, src: Sequence[ValueSet]) -> ValueSet:
    return sets.constant(int(node.value))


def _multiply_add(node: UOp, src: Sequence[ValueSet]) -> ValueSet:
    return sets.add(sets.multiply(src[0], src[1]), src[2])


def _first(node: UOp, src: Sequence[ValueSet]) -> ValueSet:
    return src[0]


#: One row an op whose result follows from its operands: the exact result, before it wraps.
TRANSFERS: dict[Ops, Transfer] = {
    Ops.CONST: _constant,
    Ops.RANGE: _range,
    Ops.SPECIAL: _range,
    Ops.PARAM: _param,
    Ops.ADD: _binary(sets.add),
    Ops.SUB: _binary(sets.subtract),
    Ops.NEG: lambda node, src: sets.negate(src[0]),
    Ops.MUL: _multiply,
    Ops.MULACC: _multiply_add,
    Ops.MAX: _binary(sets.maximum),
    Ops.SHL: _bits(sets.shift_left),
    Ops.SHR: _bits(sets.shift_right),
    Ops.CMPLT: _less,
    Ops.CMPEQ: _equal,
    Ops.CMPNE: _not_equal,
    Ops.CAST: _cast,
    Ops.AND: _and,
    Ops.OR: _or,
    Ops.XOR: _bits(sets.bit_xor),
    Ops.STACK: lambda node, src: sets.union(src),
    Ops.PAD: lambda node, src: sets.union((src[0], NOTHING)),
    **dict.fromkeys(
        (Ops.RESHAPE, Ops.EXPAND, Ops.PERMUTE, Ops.FLIP, Ops.SHRINK, Ops.STAGE, Ops.COPY), _first
    ),
}
