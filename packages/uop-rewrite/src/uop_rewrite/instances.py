"""Terms on which a rule fires: what its proofs are made of. Week 1.

A rule whose replacement is a function cannot be proved once for all. It is proved term by term: on its
pattern with plain variables, and on its pattern with random terms in the places of the variables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle
from zlib import crc32

from uop_ir import BoundsError, DType, Ops, UOp, dtypes

from .pattern import COMPARISONS, Pattern, in_type
from .rules import Rule
from .terms import Bound, Terms, node, operand_types, scalar, special


def constants(pattern: Pattern) -> int:
    """How many constants of any value stand in a pattern."""
    return (pattern.op is Ops.CONST and pattern.value is None) + sum(map(constants, pattern.src or ()))


def _choices(dtype: DType, among: int) -> Sequence[UOp]:
    """Constants for a pattern with `among` of them: of 8 bits all, where it has one."""
    if among == 1 and dtype.bits == 8:
        return [UOp.const(dtype, v) for v in range(int(dtype.min), int(dtype.max) + 1)]
    return special(dtype)[:: 1 if among == 1 else 3]


def _leaves(pattern: Pattern, dtype: DType, among: int) -> Sequence[UOp]:
    if pattern.value is not None:
        value = in_type(pattern.value, dtype)
        return () if value is None else (value,)
    return (scalar(dtype, str(pattern.name)),) if pattern.op is None else _choices(dtype, among)


def plain(
    pattern: Pattern, dtype: DType, types: Sequence[DType], bound: Bound, among: int
) -> Iterator[tuple[UOp, Bound]]:
    """All nodes of type `dtype` that match a pattern with plain variables, and constants, in its places.

    `among`: how many constants the whole pattern has.
    """
    name = str(pattern.name)
    if pattern.name in bound:
        if bound[name].dtype is dtype:
            yield bound[name], bound
        return
    if pattern.types is not None and dtype.kind not in pattern.types:
        return
    if pattern.op is None or pattern.op is Ops.CONST:
        for leaf in _leaves(pattern, dtype, among):
            yield leaf, {**bound, name: leaf} if pattern.name is not None else bound
        return
    for wanted in operand_types(pattern.op, dtype, types):
        parts = pattern.src or tuple(Pattern(name=f"s{i}") for i in range(len(wanted)))
        found: list[tuple[tuple[UOp, ...], Bound]] = [((), bound)]
        for part, d in zip(parts, wanted, strict=False):
            found = [
                ((*src, new), b) for src, before in found for new, b in plain(part, d, types, before, among)
            ]
        for src, after in found:
            new = node(pattern.op, src, dtype)
            if new is None:  # the op does not take these types
                break
            yield new, {**after, name: new} if pattern.name is not None else after


class RuleFailedError(Exception):
    """A rule raised an error on a term."""

    def __init__(self, before: UOp, error: Exception) -> None:
        super().__init__(f"{type(error).__name__}: {error}")
        self.before = before


def fires(rule: Rule, before: UOp) -> UOp | None:
    """What a rule makes of a node, None where it does not apply;
    constants that overflow an index are left out.

    Raises RuleFailedError where the rule raises anything else.
    """
    try:
        return rule.apply(before)
    except BoundsError:
        return None
    except Exception as error:
        raise RuleFailedError(before, error) from error


def instances(rule: Rule, types: Sequence[DType], wanted: int, attempts: int) -> Iterator[tuple[UOp, UOp]]:
    """Terms on which a rule fires, each with what it makes of it: all plain ones, then `wanted` random ones.

    An INDEX is compared by what is read there. `attempts` bounds how many random terms are tried. Raises
    RuleFailedError where the rule raises an error.
    """
    seen: set[UOp] = set()
    loops = rule.pattern.op is Ops.REDUCE
    count = constants(rule.pattern)
    for dtype in types if rule.pattern.op not in (Ops.REDUCE, Ops.RANGE, Ops.INDEX, Ops.LOAD) else ():
        for before, _ in plain(rule.pattern, dtype, types, {}, count):
            after = None if before in seen else fires(rule, before)
            if after is not None:
                seen.add(before)
                yield before, after
    terms = Terms(crc32(rule.name.encode()), types, loops)
    results = (dtypes.bool,) if rule.pattern.op in COMPARISONS else types
    found = 0
    for _, dtype in zip(range(attempts), cycle(results), strict=False):
        if found == wanted:
            return
        candidate = terms.fill(rule.pattern, dtype, {})
        after = None if candidate is None or candidate in seen else fires(rule, candidate)
        if candidate is not None and after is not None:
            seen.add(candidate)
            found += 1
            yield (candidate.load(), after.load()) if candidate.op is Ops.INDEX else (candidate, after)
