"""Random well-typed terms, and random terms that match a pattern. Week 1."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import TypeVar

import numpy as np

from uop_ir import OPS, DType, Kind, Ops, Param, UOp, VerifyError, dtypes

from .pattern import COMPARISONS, Pattern, in_type

T = TypeVar("T")
#: What a pattern's names are bound to.
Bound = dict[str, UOp]

CONVERSIONS = (Ops.CAST, Ops.BITCAST)
_ARITHMETIC = (Ops.ADD, Ops.SUB, Ops.MUL, Ops.DIV, Ops.MOD, Ops.MAX)
_BITWISE = (Ops.AND, Ops.OR, Ops.XOR)
# in an order, which the set of them has not: that of their addresses
_RELATIONS = (Ops.CMPLT, Ops.CMPNE, Ops.CMPEQ)
#: The ops that random terms are made of, by the kind of their result; what stands twice is twice as likely.
GROWN: dict[Kind, tuple[Ops, ...]] = {
    Kind.INDEX: (*_ARITHMETIC, *_ARITHMETIC, Ops.NEG, Ops.WHERE, Ops.CAST),
    Kind.SIGNED: (*_ARITHMETIC, *_BITWISE, Ops.SHL, Ops.SHR, Ops.NEG, Ops.WHERE, Ops.CAST, Ops.CAST),
    Kind.UNSIGNED: (*_ARITHMETIC, *_BITWISE, Ops.SHL, Ops.SHR, Ops.NEG, Ops.WHERE, Ops.CAST, Ops.CAST),
    Kind.FLOAT: (*_ARITHMETIC, Ops.NEG, Ops.RECIP, Ops.TRUNC, Ops.WHERE, Ops.CAST),
    Kind.BOOL: (*_RELATIONS, *_RELATIONS, *_BITWISE, Ops.CAST),
}
#: Values near which rules of integers and floats go wrong; those that a type does not have are left out.
_SPECIAL = (0, 1, -1, 2, -2, 3, 4, -3, 5, 6, 7, 8, 12, 16, -7)
_SPECIAL_FLOATS = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    2.0,
    -3.0,
    float("inf"),
    float("-inf"),
    float("nan"),
    1e-8,
    65504.0,
)
#: The ranges that a random REDUCE closes; the end of the third is a variable,
#: that of the last the first range.
SIZE = 5
_END = UOp.variable("end", -1, 4)
R, Q, N = UOp.range(SIZE, 10), UOp.range(3, 11), UOp.range(_END, 12)
_RANGES: tuple[tuple[UOp, ...], ...] = (
    (R,), (R,), (R,), (Q,), (N,), (R, Q), (Q, R), (N, Q), (R, N), (R, UOp.range(R + 1, 13)),
)  # fmt: skip


def special(dtype: DType) -> tuple[UOp, ...]:
    """Constants of a type that rules are likely to get wrong."""
    if dtype.is_float:
        return tuple(dict.fromkeys(UOp.const(dtype, v) for v in _SPECIAL_FLOATS))
    if dtype is dtypes.bool:
        return UOp.const(dtype, False), UOp.const(dtype, True)
    edges = () if dtype is dtypes.index else (dtype.min, dtype.max, dtype.min + 1, dtype.max - 1)
    values = [v for v in (*_SPECIAL, *edges) if dtype.min <= v <= dtype.max]
    return tuple(UOp.const(dtype, v) for v in dict.fromkeys(values))


def scalar(dtype: DType, name: str) -> UOp:
    """A variable of any type; one of dtype index lies in -7 to 6."""
    return UOp.variable(name, -7, 6) if dtype is dtypes.index else UOp(Ops.PARAM, (), Param(dtype, name=name))


def operand_types(op: Ops, dtype: DType, types: Sequence[DType]) -> list[tuple[DType, ...]]:
    """The types that the operands of a node of type `dtype` can have, of those in `types`."""
    if op in CONVERSIONS:
        return [(d,) for d in types]
    if op is Ops.WHERE:
        return [(dtypes.bool, dtype, dtype)]
    if op in COMPARISONS:
        return [(d, d) for d in types] if dtype is dtypes.bool else []
    return [(dtype,) * OPS[op].least]


class Terms:
    """Random terms over a few variables of given types. The seed makes them the same in every run."""

    #: How many ops stand in the place of a pattern's variable, at most.
    sizes: tuple[int, ...] = (0, 1, 2, 3)

    def __init__(self, seed: int, types: Sequence[DType], loops: bool = False) -> None:
        self._random = np.random.default_rng(seed)
        self._types = tuple(dict.fromkeys((*types, dtypes.bool, dtypes.index)))
        self._made: dict[DType, list[UOp]] = {d: [] for d in self._types}
        self._leaves = {d: self._variables(d, loops) for d in self._types}

    def pick(self, items: Sequence[T]) -> T:
        return items[int(self._random.integers(len(items)))]

    def chance(self, probability: float) -> bool:
        return bool(self._random.random() < probability)

    def _variables(self, dtype: DType, loops: bool) -> list[UOp]:
        if loops:
            at = [R, Q, UOp.variable("v", -2, SIZE + 1), UOp.variable("w", 0, 3)]
            if dtype is dtypes.index:
                return at
            reads = [self._memory(dtype).index(r).load() for r in (R, Q)]
            return [scalar(dtype, f"x_{dtype}"), *reads, *([at[0].cast(dtype)] if dtype.is_int else [])]
        if dtype is not dtypes.index:
            casts = (
                [UOp.variable("v", -7, 6).cast(dtype), UOp.range(12, 0).cast(dtype)] if dtype.is_int else []
            )
            return [*(scalar(dtype, f"{letter}_{dtype}") for letter in "xy"), *casts]
        return [
            UOp.variable("v", -7, 6), UOp.variable("w", 1, 5), UOp.variable("n", -(1 << 20), 1 << 20),
            UOp.variable("m", 0, 1 << 20), UOp.variable("one", 3, 3), UOp.range(12, 0), UOp.range(4, 1),
            UOp.range(UOp.variable("w", 1, 5), 2),
        ]  # fmt: skip

    def _memory(self, dtype: DType) -> UOp:
        return UOp.param(self._types.index(dtype), SIZE, dtype)

    def constant(self, dtype: DType) -> UOp:
        return self.pick(special(dtype))

    def term(self, dtype: DType, size: int) -> UOp:
        """A term of up to `size` ops; parts of earlier ones come again."""
        made = self._made[dtype]
        if size <= 0:
            return self.constant(dtype) if self.chance(0.2) else self.pick(self._leaves[dtype])
        if made and self.chance(0.2):
            return self.pick(made[-12:])
        if self.chance(0.05):
            return self.term(dtypes.bool, size - 1).where(self.constant(dtype), self.constant(dtype))
        op = self.pick(GROWN[dtype.kind])
        types = self.pick(operand_types(op, dtype, self._types))
        count = len(types)
        src = [self.term(d, int(self._random.integers(size)) if count > 1 else size - 1) for d in types]
        if count == 2 and self.chance(0.5):
            src[1] = self.constant(types[1])
        new = node(op, src, dtype)
        if new is None:
            return src[0] if src[0].dtype is dtype else self.constant(dtype)
        made.append(new)
        return new

    def fill(self, pattern: Pattern, dtype: DType, bound: Bound) -> UOp | None:
        """A node of type `dtype` that matches a pattern, at random;
        adds to `bound`. None where there is none.
        """
        name = pattern.name
        if name is not None and name in bound:
            return bound[name] if bound[name].dtype is dtype else None
        if pattern.types is not None and dtype.kind not in pattern.types:
            return None
        if pattern.op is None:
            alike = [n for n in bound.values() if n.dtype is dtype]
            related = alike and self.chance(0.15)
            new: UOp | None = self._relative(alike[0]) if related else self.term(dtype, self.pick(self.sizes))
        elif pattern.value is not None:
            new = in_type(pattern.value, dtype)
        elif pattern.op is Ops.CONST:
            new = self.constant(dtype)
        else:
            way = self._WAYS.get(pattern.op)
            if way is None:
                new = self._operation(pattern.op, pattern.src, dtype, bound)
            else:
                new = way(self, pattern.src or (), dtype, bound)
        if new is not None and name is not None:
            bound[name] = new
        return new

    def _operation(
        self, op: Ops, patterns: Sequence[Pattern] | None, dtype: DType, bound: Bound
    ) -> UOp | None:
        wanted = operand_types(op, dtype, self._types)
        if not wanted or (patterns is not None and len(patterns) != len(wanted[0])):
            return None
        types = self.pick(wanted)
        if patterns is None:
            patterns = [Pattern() if self.chance(0.7) else Pattern(Ops.CONST) for _ in types]
        src: list[UOp] = []
        for part, d in zip(patterns, types, strict=True):
            new = self.fill(part, d, bound)
            if new is None:
                return None
            src.append(new)
        return node(op, src, dtype)

    def _relative(self, x: UOp) -> UOp:
        """The same term, or its complement, in which rules often look for each other."""
        if x.dtype is dtypes.bool:
            return self.pick((x, x.ne(True)))
        return self.pick((x, x ^ -1, -x)) if x.dtype.is_int else x

    def _range(self, patterns: Sequence[Pattern], dtype: DType, bound: Bound) -> UOp | None:
        if dtype is not dtypes.index:
            return None
        end = self.fill(patterns[0], dtype, bound) if patterns else self.pick((*special(dtype), _END))
        return None if end is None else UOp.range(end, 20)

    def _index(self, patterns: Sequence[Pattern], dtype: DType, bound: Bound) -> UOp | None:
        """An element of memory, under a condition that keeps it within."""
        if dtype is dtypes.index:
            return None
        _, at, valid = (*patterns, *(Pattern(),) * 3)[:3]
        place, condition = self.fill(at, dtypes.index, bound), self.fill(valid, dtypes.bool, bound)
        if place is None or condition is None:
            return None
        if condition.op is Ops.CONST and not condition.value:
            return self._memory(dtype).index(place, condition)
        inside = [condition, place < SIZE, UOp.const(dtypes.index, -1) < place]
        first = self.pick((0, 1, 2))
        return self._memory(dtype).index(place, inside[first] & inside[first - 1] & inside[first - 2])

    def _load(self, patterns: Sequence[Pattern], dtype: DType, bound: Bound) -> UOp | None:
        place = self.fill(patterns[0] if patterns else Pattern(Ops.INDEX), dtype, bound)
        return None if place is None else place.load()

    def _reduce(self, patterns: Sequence[Pattern], dtype: DType, bound: Bound) -> UOp | None:
        value = self.fill(patterns[0] if patterns else Pattern(), dtype, bound)
        if value is None:
            return None
        ranges = self.pick(_RANGES)
        if self.chance(0.6):
            condition = self._condition(self.pick(ranges))
            value = condition.where(value, value.const_like(0))
        return node(
            Ops.REDUCE, [value, *ranges], (self.pick((Ops.ADD, Ops.ADD, Ops.ADD, Ops.MAX, Ops.MUL)), 0)
        )

    def _condition(self, r: UOp) -> UOp:
        """What a sum over r is often under: r compared with something, and maybe another condition."""
        other = self.term(dtypes.index, int(self._random.integers(3)))
        condition = self.pick((r.eq(other), other.eq(r), r < other, other < r))
        return condition & self.term(dtypes.bool, 1) if self.chance(0.3) else condition

    #: Ops whose operands are not simply terms of one type.
    _WAYS = MappingProxyType({Ops.REDUCE: _reduce, Ops.RANGE: _range, Ops.INDEX: _index, Ops.LOAD: _load})


def node(op: Ops, src: Sequence[UOp], arg: object) -> UOp | None:
    """The node, or None where the op does not take these operands; `arg` is for ops that have one."""
    try:
        return UOp(op, src, arg if op in (*CONVERSIONS, Ops.REDUCE) else None)
    except VerifyError:
        return None
