"""Brute force: values of the variables of two terms on which they differ,
found by the interpreter. Week 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from uop_ir import BoundsError, Kind, Ops, UOp, dtypes, evaluate, format_uir, toposort

from .bounds import bounds
from .terms import special

Array: TypeAlias = "npt.NDArray[Any]"

#: How many combinations of values are tried on a pair of terms,
#: and how many of the variables that size loops.
COMBINATIONS = 1 << 16
_SIZES = 64
#: Of a variable of dtype index with more values than this, some are tried.
_WIDE = 256
#: Slots of the memory that holds the values of variables, past those that terms read.
FIRST_SLOT = 1000
#: Where an index overflows for large values, values up to this are tried.
_SMALL = 8


@dataclass(frozen=True)
class Witness:
    """Two terms that should be equal, and values of their variables for which they are not."""

    before: UOp
    after: UOp
    values: Mapping[UOp, Any]
    results: tuple[str, str]

    def text(self) -> str:
        """Both terms as `.uir`, with the values of variables and of the terms."""
        given = ", ".join(f"{name(leaf)} = {value}" for leaf, value in self.values.items())
        return "".join(
            f"# {side}: {result}{f' where {given}' if given else ''}\n{format_uir(term)}"
            for side, term, result in (
                ("before", self.before, self.results[0]),
                ("after", self.after, self.results[1]),
            )
        )


@dataclass(frozen=True)
class Search:
    """What a search found: a witness if there is one; whether every value of every variable was tried."""

    witness: Witness | None
    complete: bool
    tried: int


def name(leaf: UOp) -> str:
    """What a variable is called in a report."""
    if leaf.op is Ops.RANGE:
        return f"range {leaf.arg[0]}"
    return str(leaf.arg.name if leaf.op is Ops.PARAM else leaf.arg)


def variables(term: UOp) -> list[UOp]:
    """The scalar PARAMs and the ranges that no REDUCE in the term closes."""
    order = term.toposort()
    closed = {r for n in order if n.op is Ops.REDUCE for r in n.src[1:]}
    return [n for n in order if n not in closed and is_variable(n)]


def is_variable(node: UOp) -> bool:
    return node.op in (Ops.RANGE, Ops.SPECIAL) or (node.op is Ops.PARAM and node.arg.size is None)


def domain(leaf: UOp) -> tuple[Array, bool]:
    """Values of a variable, and whether they are all that it can have."""
    if leaf.dtype is dtypes.bool:
        return np.array([False, True]), True
    if leaf.dtype.bits <= 16 and leaf.dtype.kind is Kind.FLOAT:
        return np.arange(1 << 16, dtype=np.uint16).view(leaf.dtype.numpy), True
    if leaf.dtype.bits == 8:
        return np.arange(int(leaf.dtype.min), int(leaf.dtype.max) + 1).astype(leaf.dtype.numpy), True
    if leaf.dtype is dtypes.index:
        least, most = bounds(leaf)
        if most - least < _WIDE:
            return np.arange(least, most + 1), True
    return few(leaf), False


def few(leaf: UOp) -> Array:
    """Some values of a variable: special ones, and those at the ends of its bounds."""
    if leaf.dtype.is_float:
        return np.array([c.value for c in special(leaf.dtype)], np.float64).astype(leaf.dtype.numpy)
    least, most = bounds(leaf)
    chosen = {int(c.value) for c in special(leaf.dtype)} | {least, least + 1, most - 1, most}
    return np.array(sorted(v for v in chosen if least <= v <= most), leaf.dtype.numpy)


def domains(leaves: Sequence[UOp]) -> tuple[list[Array], bool]:
    """Values for each variable, all of them for as many as COMBINATIONS allows."""
    chosen = [few(leaf) for leaf in leaves]
    complete = True
    for place, leaf in enumerate(leaves):
        wide, all_of_them = domain(leaf)
        others = np.prod([len(c) for i, c in enumerate(chosen) if i != place], dtype=float)
        if len(wide) <= len(chosen[place]) or len(wide) * others <= COMBINATIONS:
            chosen[place] = wide
        complete &= all_of_them and len(chosen[place]) >= len(wide)
    while np.prod([len(c) for c in chosen], dtype=float) > COMBINATIONS:
        longest = max(range(len(chosen)), key=lambda i: len(chosen[i]))
        chosen[longest] = chosen[longest][::2]
        complete = False
    return chosen, complete


def bits(value: Array) -> Array:
    """The bits of an array, all NaNs alike."""
    if value.dtype.kind in "biu":
        return value
    unsigned = np.ascontiguousarray(value).view(f"u{value.dtype.itemsize}")
    with np.errstate(invalid="ignore"):  # signalling NaNs
        return np.where(np.isnan(value), unsigned.dtype.type(1), unsigned)


def contents(memory: UOp) -> Array:
    """Distinct values for a memory PARAM."""
    values = np.arange(1, memory.arg.size + 1)
    return np.asarray(values if memory.dtype.is_int else values / 3).astype(memory.dtype.numpy)


def search(before: UOp, after: UOp) -> Search:
    """Compare two terms, bit for bit, for many values of their variables: for all, where those are few.

    Values for which `before` reads out of bounds or overflows an index are left out: it has no value there.
    """
    loose = [leaf for leaf in variables(after) if leaf not in variables(before)]
    if any(leaf.op is Ops.RANGE for leaf in loose):
        text = f"uses {', '.join(name(leaf) for leaf in loose)}, which the other does not"
        return Search(Witness(before, after, {}, ("a value", text)), True, 0)
    leaves = list(dict.fromkeys(variables(before) + variables(after)))
    chosen, complete = domains(leaves)
    try:
        return _compare(before, after, leaves, chosen, complete)
    except BoundsError:
        chosen = [_near_zero(leaf, values) for leaf, values in zip(leaves, chosen, strict=True)]
    try:
        return _compare(before, after, leaves, chosen, False)
    except BoundsError:
        return Search(None, False, 0)


def differing(before: UOp, after: UOp) -> Witness | None:
    """Compare two terms of arrays of one shape, without variables,
    bit for bit, on memory of distinct elements.

    Of bools there are but two: they are each binary digit of their places, which tell these apart, and one
    more, in which a constant differs from them all.
    """
    memory = [n for n in toposort((before, after)) if n.op is Ops.PARAM]
    digits = max([n.arg.size.bit_length() for n in memory if n.dtype is dtypes.bool], default=0)
    for digit in range(digits + 1):
        inputs = {n: _digit(n, digit) if n.dtype is dtypes.bool else contents(n) for n in memory}
        try:
            one, two = evaluate([before, after], inputs)
        except BoundsError:  # a sum of indices that overflows
            return None
        if not np.array_equal(bits(one), bits(two)):
            return Witness(before, after, {}, (str(one.tolist()), str(two.tolist())))
    return None


def _digit(memory: UOp, digit: int) -> Array:
    """A binary digit of the place of each element, counted from 1."""
    return np.asarray(np.arange(1, memory.arg.size + 1) >> digit & 1 == 1)


def at_values(before: UOp, after: UOp, values: Mapping[UOp, Any]) -> Witness | None:
    """The witness that values are, or None where the interpreter finds the terms equal there."""
    leaves = list(dict.fromkeys(variables(before) + variables(after)))
    chosen = [np.array([values[leaf]]).astype(leaf.dtype.numpy) for leaf in leaves]
    try:
        return _compare(before, after, leaves, chosen, False).witness
    except (BoundsError, OverflowError):  # an index that the interpreter cannot hold
        return None


def _near_zero(leaf: UOp, values: Array) -> Array:
    return values[np.abs(values) <= _SMALL] if leaf.dtype is dtypes.index else values


def _compare(
    before: UOp, after: UOp, leaves: Sequence[UOp], chosen: Sequence[Array], complete: bool
) -> Search:
    """Variables that the ends of loops depend on take one value after the other, all others are arrays."""
    loops = [n for n in toposort((before, after)) if n.op is Ops.RANGE and n not in leaves]
    sizing = toposort(loops)
    outer = [(leaf, values) for leaf, values in zip(leaves, chosen, strict=True) if leaf in sizing]
    inner = [(leaf, values) for leaf, values in zip(leaves, chosen, strict=True) if leaf not in sizing]
    tried = 0
    for values in islice(product(*(values for _, values in outer)), _SIZES):
        fixed = {leaf: value for (leaf, _), value in zip(outer, values, strict=True)}
        witness, count = _compare_arrays(before, after, fixed, inner)
        tried += count
        if witness is not None:
            return Search(witness, complete, tried)
    return Search(None, complete, tried)


def _compare_arrays(
    before: UOp, after: UOp, fixed: Mapping[UOp, Any], inner: Sequence[tuple[UOp, Array]]
) -> tuple[Witness | None, int]:
    grids = np.meshgrid(*(values for _, values in inner), indexing="ij") if inner else []
    size = grids[0].size if grids else 1
    mapping = {leaf: UOp.const(leaf.dtype, value.item()) for leaf, value in fixed.items()}
    inputs = {n: contents(n) for n in toposort((before, after)) if n.op is Ops.PARAM and n.shape}
    for slot, ((leaf, _), grid) in enumerate(zip(inner, grids, strict=True), FIRST_SLOT):
        memory = UOp.param(slot, size, dtypes.i64 if leaf.dtype is dtypes.index else leaf.dtype)
        mapping[leaf] = memory.cast(leaf.dtype)
        inputs[memory] = grid.reshape(-1).astype(memory.dtype.numpy)
    within = [leaf < leaf.src[0] for leaf, _ in inner if leaf.src]  # a range below its end
    results = evaluate([term.substitute(mapping) for term in (before, *within)], inputs)
    one, *reached = (np.broadcast_to(result, (size,)) for result in results)
    valid = np.logical_and.reduce([np.ones(size, np.bool_), *reached])

    def witness(at: int, results: tuple[str, str]) -> Witness:
        values = {leaf: grid.reshape(-1)[at] for (leaf, _), grid in zip(inner, grids, strict=True)}
        return Witness(before, after, {**fixed, **values}, results)

    try:
        two = np.broadcast_to(evaluate([after.substitute(mapping)], inputs)[0], (size,))
    except BoundsError as error:
        if size == 1:
            return witness(0, (str(one[0]), str(error))), 1
        raise
    wrong = np.nonzero((bits(one) != bits(two)) & valid)[0]
    if len(wrong):
        at = int(wrong[0])
        return witness(at, (str(one[at]), str(two[at]))), size
    return None, int(valid.sum())
