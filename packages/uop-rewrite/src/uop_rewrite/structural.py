"""Terms of small shapes, on which rules fire that move elements or fold axes:
what their proofs are made of. Week 1.

Elements of a leaf are distinct, so that a term which only moves them is equal to another of its shape for all
values where it is for these. Of bools, several leaves together tell all places apart:
see `witness.differing`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import cycle, permutations, product
from math import prod
from types import MappingProxyType
from typing import Any, TypeAlias, cast
from zlib import crc32

from uop_ir import INDEX_MAPS, DType, Ops, UOp, VerifyError, dtypes

from .instances import fires
from .pattern import Pattern
from .rules import Rule
from .terms import Bound, Terms, special

Shape: TypeAlias = "tuple[int, ...]"
#: The types of the leaves: folds of the one wrap, those of the other round.
TYPES = (dtypes.i8, dtypes.f32)
SHAPES: tuple[Shape, ...] = ((2, 3), (3,), (2, 1, 3), (1, 2), (), (4,), (3, 2, 2), (0, 2))
#: A term has at most so many axes, each grown to at most this.
MOST_AXES, MOST_SIZE = 3, 3
FOLDS = (Ops.ADD, Ops.MAX, Ops.MUL)


def is_shaped(pattern: Pattern) -> bool:
    """Whether a pattern has an op that moves elements, or a REDUCE of axes: one without ranges."""
    folds = pattern.op is Ops.REDUCE and pattern.src is not None and len(pattern.src) == 1
    return pattern.op in INDEX_MAPS or folds or any(map(is_shaped, pattern.src or ()))


def only_moves(term: UOp) -> bool:
    """Whether a term does nothing with elements but move them."""
    return all(n.op in INDEX_MAPS or n.op in (Ops.PARAM, Ops.CONST) for n in term.toposort())


def _windows(size: int) -> list[tuple[int, int]]:
    return [(begin, end) for begin in range(size + 1) for end in range(begin, size + 1)]


def _same_count(shape: Shape) -> Iterator[Shape]:
    """Shapes of as many elements."""
    count = prod(shape)
    sizes = [n for n in range(count + 1) if (count % n == 0 if n else count == 0)]
    for rank in range(MOST_AXES + 1):
        yield from (s for s in product(sizes, repeat=rank) if prod(s) == count)


#: The args that an op can have over a small shape; of sizes that it grows, small ones.
ARGUMENTS: dict[Ops, Callable[[Shape], Iterable[Any]]] = {
    Ops.RESHAPE: _same_count,
    Ops.EXPAND: lambda shape: product(*(range(1, MOST_SIZE + 1) if s == 1 else (s,) for s in shape)),
    Ops.PERMUTE: lambda shape: permutations(range(len(shape))),
    Ops.FLIP: lambda shape: product((False, True), repeat=len(shape)),
    Ops.PAD: lambda shape: product(((0, 0), (1, 0), (0, 2)), repeat=len(shape)),
    Ops.SHRINK: lambda shape: product(*map(_windows, shape)),
    Ops.REDUCE: lambda shape: product(FOLDS, range(1, len(shape) + 1)),
}


def _over(op: Ops, terms: Terms, patterns: Sequence[Pattern], dtype: DType, bound: Bound) -> UOp | None:
    """A movement op, or a fold, over what the pattern of its source can be."""
    x = terms.fill(patterns[0] if patterns else Pattern(), dtype, bound)
    if x is None or len(x.shape) > MOST_AXES:
        return None
    args = list(ARGUMENTS[op](cast("Shape", x.shape)))
    try:
        return UOp(op, (x,), terms.pick(args)) if args else None
    except VerifyError:  # a fold that its dtype does not have
        return None


class Shaped(Terms):
    """Random terms over arrays of small shapes:
    in the place of a variable stands one of these, or a constant.
    """

    sizes = (0,)

    def _variables(self, dtype: DType, loops: bool) -> list[UOp]:
        if dtype is dtypes.index:
            return list(special(dtype))
        first = len(SHAPES) * self._types.index(dtype)
        return [UOp.param(first + i, prod(s), dtype).reshape(s) for i, s in enumerate(SHAPES)]

    _WAYS = MappingProxyType({op: partial(_over, op) for op in ARGUMENTS})


def instances(rule: Rule, wanted: int, attempts: int) -> Iterator[tuple[UOp, UOp]]:
    """Terms of small shapes on which a rule fires, each with what it makes of it: `wanted` random ones.

    Raises RuleFailedError where the rule raises an error.
    """
    terms, seen = Shaped(crc32(rule.name.encode()), TYPES), set[UOp]()
    for _, dtype in zip(range(attempts), cycle((*TYPES, dtypes.bool)), strict=False):
        if len(seen) == wanted:
            return
        before = terms.fill(rule.pattern, dtype, {})
        after = None if before is None or before in seen else fires(rule, before)
        if before is not None and after is not None:
            seen.add(before)
            yield before, after
