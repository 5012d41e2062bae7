"""Bounds: the integers that a node can be, whatever its inputs: an interval, and a residue class in it. Week 1."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd

from uop_ir import Kind, Ops, UOp, VerifyError

from . import value_sets as sets
from .value_sets import ValueSet, value_set

_NOTHING = ValueSet(0, 0, 0, 0)  # of a node without integers; never looked at


def bounds(node: UOp) -> tuple[int, int]:
    """The least and the greatest value that a node of integer, index or bool dtype can have. Kept in its memo.

    Raises VerifyError for a node of another dtype.
    """
    return values(node)[:2]


def values(node: UOp) -> ValueSet:
    """The values that a node of integer, index or bool dtype can have: bounds, step and offset. Kept in its memo.

    A node of which it is said that `step == 4` and `offset == 3` is 3 more than a multiple of 4.
    Raises VerifyError for a node of another dtype.
    """
    found: ValueSet | None = node.memo.get("values")
    if found is None:
        if node.dtype.kind in (Kind.FLOAT, Kind.VOID):
            raise VerifyError(
                f"{node.op!r}: no bounds of {node.dtype}", remedy="an integer, index or bool has them"
            )
        if all("values" in s.memo for s in node.src):
            node.memo["values"] = found = _values(node)
        else:
            for n in node.toposort(gate=lambda n: "values" not in n.memo):
                if "values" not in n.memo:
                    n.memo["values"] = _values(n)
            found = node.memo["values"]
    return found


def whole(node: UOp) -> ValueSet:
    """All values of the node's dtype."""
    return ValueSet(int(node.dtype.min), int(node.dtype.max))


def wraps(node: UOp) -> bool:
    """Whether an integer operation may overflow its type: its result is then the exact one modulo the type's size.

    False for index and bool, which do not wrap, and where the bounds show that the exact result fits.
    """
    if not node.dtype.is_int or node.op not in ARITHMETIC:
        return False
    values(node)
    least, greatest = VALUES[node.op](node)[:2]
    return least < node.dtype.min or greatest > node.dtype.max


def _values(node: UOp) -> ValueSet:
    kind = node.dtype.kind
    if kind in (Kind.FLOAT, Kind.VOID):
        return _NOTHING
    rule = VALUES.get(node.op)
    if rule is None:
        return whole(node)
    found = rule(node)
    if kind is Kind.INDEX or (node.dtype.min <= found.least and found.greatest <= node.dtype.max):
        return found
    size, first = 1 << node.dtype.bits, int(node.dtype.min)
    turns = (found.least - first) // size
    if (found.greatest - first) // size == turns:  # all values wrap alike
        turned = turns * size
        return value_set(found.least - turned, found.greatest - turned, found.step, found.offset - turned)
    # What is known modulo a power of 2 stays true.
    step = gcd(found.step, size)
    return value_set(int(node.dtype.min), int(node.dtype.max), step, found.offset)


def _of(node: UOp, source: int) -> ValueSet:
    found: ValueSet = node.src[source].memo["values"]
    return found


def _binary(function: Callable[[ValueSet, ValueSet], ValueSet]) -> Callable[[UOp], ValueSet]:
    return lambda node: function(_of(node, 0), _of(node, 1))


def _bits(function: Callable[[ValueSet, ValueSet, int], ValueSet]) -> Callable[[UOp], ValueSet]:
    return lambda node: function(_of(node, 0), _of(node, 1), node.dtype.bits)


def _multiply(node: UOp) -> ValueSet:
    same = node.src[0] is node.src[1]
    return sets.square(_of(node, 0)) if same else sets.multiply(_of(node, 0), _of(node, 1))


def _truth(always: bool, never: bool) -> ValueSet:
    return value_set(int(always), int(not never))


def _less(node: UOp) -> ValueSet:
    if node.src[0] is node.src[1]:
        return sets.constant(0)
    if node.src[0].dtype.kind is Kind.FLOAT:
        return ValueSet(0, 1)
    x, y = _of(node, 0), _of(node, 1)
    return _truth(x.greatest < y.least, x.least >= y.greatest)


def _equal(node: UOp) -> ValueSet:
    if node.src[0].dtype.kind is Kind.FLOAT:
        return ValueSet(0, 1)
    x, y = _of(node, 0), _of(node, 1)
    apart = x.greatest < y.least or y.greatest < x.least or _incongruent(x, y)
    return _truth(node.src[0] is node.src[1] or (x == y and x.step == 0), apart)


def _incongruent(x: ValueSet, y: ValueSet) -> bool:
    step = gcd(x.step, y.step)
    return step > 1 and (x.offset - y.offset) % step != 0


def _not_equal(node: UOp) -> ValueSet:
    return sets.subtract(sets.constant(1), _equal(node))


def _where(node: UOp) -> ValueSet:
    """Either choice. Where the condition compares it, it is on the right side: where(x < y, x, y) is the lesser."""
    condition, *choices = node.src
    yes, no = _of(node, 1), _of(node, 2)
    if (
        condition.op is Ops.CMPLT
        and condition.src[0].dtype is node.dtype
        and node.dtype.kind is not Kind.FLOAT
    ):
        x, y = condition.src
        lower, upper = _of(condition, 0), _of(condition, 1)
        if choices[0] is x:
            yes = sets.clip(yes, None, upper.greatest - 1)
        elif choices[0] is y:
            yes = sets.clip(yes, lower.least + 1, None)
        if choices[1] is x:
            no = sets.clip(no, upper.least, None)
        elif choices[1] is y:
            no = sets.clip(no, None, lower.greatest)
    return sets.union((yes, no))


def _cast(node: UOp) -> ValueSet:
    source = _of(node, 0)
    if node.src[0].dtype.kind is Kind.FLOAT:
        return whole(node)
    if node.dtype.kind is Kind.BOOL:
        return _truth(source.least > 0 or source.greatest < 0 or source.offset != 0, source == _NOTHING)
    return source


def _range(node: UOp) -> ValueSet:
    return value_set(0, max(_of(node, 0).greatest - 1, 0))


def _param(node: UOp) -> ValueSet:
    return value_set(node.arg.min, node.arg.max) if node.dtype.kind is Kind.INDEX else whole(node)


def _constant(node: UOp) -> ValueSet:
    return sets.constant(int(node.value))


def _multiply_add(node: UOp) -> ValueSet:
    return sets.add(sets.multiply(_of(node, 0), _of(node, 1)), _of(node, 2))


def _first(node: UOp) -> ValueSet:
    return _of(node, 0)


#: Ops whose exact result may have no place in their type.
ARITHMETIC = frozenset({Ops.ADD, Ops.SUB, Ops.NEG, Ops.MUL, Ops.DIV, Ops.SHL, Ops.MULACC})

#: One row an op whose result can be narrower than its type: the exact result, before it wraps.
VALUES: dict[Ops, Callable[[UOp], ValueSet]] = {
    Ops.CONST: _constant,
    Ops.RANGE: _range,
    Ops.SPECIAL: _range,
    Ops.PARAM: _param,
    Ops.ADD: _binary(sets.add),
    Ops.SUB: _binary(sets.subtract),
    Ops.NEG: lambda node: sets.negate(_of(node, 0)),
    Ops.MUL: _multiply,
    Ops.MULACC: _multiply_add,
    Ops.MAX: _binary(sets.maximum),
    Ops.DIV: _binary(sets.divide),
    Ops.MOD: _binary(sets.modulo),
    Ops.SHL: _bits(sets.shift_left),
    Ops.SHR: _bits(sets.shift_right),
    Ops.CMPLT: _less,
    Ops.CMPEQ: _equal,
    Ops.CMPNE: _not_equal,
    Ops.WHERE: _where,
    Ops.CAST: _cast,
    Ops.AND: _bits(sets.bit_and),
    Ops.OR: _bits(sets.bit_or),
    Ops.XOR: _bits(sets.bit_xor),
    Ops.STACK: lambda node: sets.union(_of(node, i) for i in range(len(node.src))),
    Ops.PAD: lambda node: sets.union((_of(node, 0), _NOTHING)),
    **dict.fromkeys(
        (Ops.RESHAPE, Ops.EXPAND, Ops.PERMUTE, Ops.FLIP, Ops.SHRINK, Ops.STAGE, Ops.COPY), _first
    ),
}
