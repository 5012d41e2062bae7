"""One-hot folds that scatter: for each index of an axis,
the sum of what numbers in memory name by it. Week 5.

Such a sum (or product, or maximum) costs as many operations as there are elements where it is itself what a
kernel stores, and as many times more as the axis is long where
it is a part of something else (see the code generator). So it is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod

from uop_ir import INDEX_MAPS, Ops, UOp, index, index_map

from .cost import LOAD, STORE, is_memory
from .memory import extent, numel

Index = tuple[UOp, ...]


def scatters(node: UOp) -> bool:
    """Whether a value is a fold over a one-hot mask of an axis that it keeps,
    worth to be stored. Kept in its memo.
    """
    return pays_stored(node, "scatters", _scatters)


def pays_stored(node: UOp, name: str, has_form: Callable[[UOp, Index, set[UOp]], bool]) -> bool:
    """Whether a value is a fold of some form, and worth to be stored:
    what that costs is less than what it saves.

    `has_form` is given what is folded, the index in it of an element of the value and of its fold, and the
    ranges of the fold. What was found is kept in the value's memo, by `name`.
    """
    if node.op is not Ops.REDUCE:
        return False
    if name not in node.memo:
        source = node.src[0]
        elements = prod(map(extent, source.shape[node.ndim :]))
        found = numel(node.shape) * (STORE + LOAD) < numel(node.shape) * elements
        if found:
            at = output_index(source.shape)
            folded = {i for i in at[node.ndim :] if i.op is Ops.RANGE}
            found = has_form(*origin(source, at), folded)
        node.memo[name] = found
    kept: bool = node.memo[name]
    return kept


def _scatters(value: UOp, at: Index, summed: set[UOp]) -> bool:
    if value.op is Ops.CAST or value.op is Ops.WHERE:
        for mask, place in conditions(value.src[0], operand(value.src[0], at)):
            sides = [leaves(s, operand(s, place)) for s in mask.src] if mask.op is Ops.CMPEQ else []
            for (memory, counter), (named, _) in zip(sides, sides[::-1], strict=True):
                if counter and not memory and summed.isdisjoint(counter) and not summed.isdisjoint(named):
                    return True
    return False


def output_index(shape: Sequence[int | UOp]) -> Index:
    """The index of an element that a kernel stores:
    a loop an axis, in order, none for an axis of one element.
    """
    return tuple(index(0) if size == 1 else UOp.range(size, number) for number, size in enumerate(shape))


def origin(node: UOp, at: Index) -> tuple[UOp, Index]:
    """What a view is of, and the index in it."""
    while node.op in INDEX_MAPS:
        at, _ = index_map(node, at)
        node = node.src[0]
    return node, at


def operand(source: UOp, at: Index) -> Index:
    """The index in an operand that broadcasts."""
    tail = at[len(at) - len(source.shape) :]
    return tuple(index(0) if d == 1 else i for d, i in zip(source.shape, tail, strict=True))


def conditions(mask: UOp, at: Index) -> Iterator[tuple[UOp, Index]]:
    """The conditions that an AND joins."""
    mask, at = origin(mask, at)
    if mask.op is Ops.AND:
        for source in mask.src:
            yield from conditions(source, operand(source, at))
    else:
        yield mask, at


def leaves(node: UOp, at: Index) -> tuple[set[UOp], set[UOp]]:
    """The loops by which a value depends on memory, and those by which it depends on tables of constants.

    An index is taken for the sum of its loops:
    as many ways as may lead to a node, they differ in few sets of loops.
    """
    memory, counters = set[UOp](), set[UOp]()
    seen: set[tuple[UOp, Index]] = set()
    stack = [(node, at)]
    while stack:
        node, at = origin(*stack.pop())
        each = [{n for n in i.toposort() if n.op is Ops.RANGE} for i in at]
        at = tuple(sum(sorted(loops, key=_number), index(0)) for loops in each)
        if (node, at) in seen:
            continue
        seen.add((node, at))
        loops = set[UOp]().union(*each)
        if is_memory(node) or node.op in (Ops.REDUCE, Ops.STAGE):
            memory |= loops
        elif node.op is Ops.STACK and all(s.op is Ops.CONST for s in node.src):
            counters |= loops
        elif node.op is Ops.STACK:
            memory |= loops
        else:
            stack += [(s, operand(s, at)) for s in node.src]
    return memory, counters


def _number(loop: UOp) -> int:
    number: int = loop.arg[0]
    return number
