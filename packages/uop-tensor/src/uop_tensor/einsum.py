"""Sums of products over named axes: the notation of einsum, and how it becomes products and folds. Week 5."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from typing import TypeAlias

from uop_ir import Ops, UOp

from .errors import TensorError
from .graph import fold, shape_of
from .promotion import accumulator, refuse_bool

#: The names of an operand's axes.
Labels: TypeAlias = "tuple[Hashable, ...]"

_TERM = re.compile(r"([A-Za-z]*)(\.\.\.)?([A-Za-z]*)")


def parse(equation: str, ranks: Sequence[int]) -> tuple[list[Labels], Labels]:
    """The labels of each operand and of the result. The axes of an ellipsis are -1, -2, ... from the right.

    Without an arrow, the result has the axes of the ellipsis, then in alphabetical order the letters that
    stand once. Raises TensorError for what is no equation of operands of these ranks.
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise TensorError(
            f"einsum: {equation!r} has {len(terms)} terms for {len(ranks)} operands", remedy="one for each"
        )
    labels = [_labels(equation, term, rank) for term, rank in zip(terms, ranks, strict=True)]
    every = [label for term in labels for label in term]
    dots = sorted({x for x in every if isinstance(x, int)})
    letters = {x for x in every if isinstance(x, str)}
    if not arrow:
        return labels, (*dots, *sorted(x for x in letters if every.count(x) == 1))
    found = _TERM.fullmatch(right)
    if found is None:
        raise TensorError(f"einsum: {right!r} in {equation!r}", remedy="letters, and at most one ...")
    before, ellipsis, after = found.groups()
    output: Labels = (*before, *(dots if ellipsis else ()), *after)
    if len(set(output)) != len(output) or not letters >= {*before, *after}:
        raise TensorError(
            f"einsum: {right!r} in {equation!r}",
            remedy="the result names each axis once, and only those of operands",
        )
    return labels, output


def _labels(equation: str, term: str, rank: int) -> Labels:
    found = _TERM.fullmatch(term)
    if found is None:
        raise TensorError(f"einsum: {term!r} in {equation!r}", remedy="letters, and at most one ...")
    before, ellipsis, after = found.groups()
    rest = rank - len(before) - len(after)
    if rest < 0 or (rest > 0 and not ellipsis):
        raise TensorError(
            f"einsum: {term!r} in {equation!r} for an operand of {rank} axes",
            remedy="a letter an axis, or ...",
        )
    return (*before, *range(-rest, 0), *after)


def contract(method: str, labels: Sequence[Labels], nodes: Sequence[UOp], output: Labels) -> UOp:
    """The product of nodes of one dtype, summed over each label that is not in `output`.

    From left to right, two at a time; a label that no later operand has is summed as soon as it can be. f16
    and bf16 add up in f32 and are rounded once.
    Raises TensorError where sizes under one label differ and none is 1.
    """
    dtype = nodes[0].dtype
    refuse_bool(method, dtype)
    _check_sizes(method, labels, nodes)
    terms = [_diagonals(n.cast(accumulator(dtype)), term) for n, term in zip(nodes, labels, strict=True)]
    value, have = terms[0]
    for number, (other, theirs) in enumerate(terms[1:], 1):
        later = {*output}.union(*(t for _, t in terms[number + 1 :]))
        value, have = _summed(value, have, later | {*theirs})
        other, theirs = _summed(other, theirs, later | {*have})
        together = (*have, *(x for x in theirs if x not in have))
        last = number == len(terms) - 1
        kept = output if last else tuple(x for x in together if x in later)
        gone = tuple(x for x in together if x not in later)
        product = _aligned(value, have, (*kept, *gone)) * _aligned(other, theirs, (*kept, *gone))
        value, have = fold(product, Ops.ADD, range(len(kept), product.ndim)), kept
    value, have = _summed(value, have, {*output})
    return _aligned(value, have, output).cast(dtype)


def _check_sizes(method: str, labels: Sequence[Labels], nodes: Sequence[UOp]) -> None:
    sizes: dict[Hashable, int] = {}
    for term, node in zip(labels, nodes, strict=True):
        own: dict[Hashable, int] = {}
        for label, size in zip(term, shape_of(node), strict=True):
            known = sizes.get(label, 1)
            different = known != size and 1 not in (known, size)
            if different or own.setdefault(label, size) != size:
                name = label if isinstance(label, str) else "..."
                raise TensorError(
                    f"{method}: {name!r} has the sizes {known if different else own[label]} and {size}",
                    remedy="sizes under one letter must be equal, or 1 in one of two operands",
                )
            sizes[label] = size if known == 1 else known


def _diagonals(x: UOp, labels: Labels) -> tuple[UOp, Labels]:
    """Each label once: of axes under one label, the elements whose positions in both are equal."""
    for label in labels:
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            rest = [a for a in range(x.ndim) if a not in (first, second)]
            x = diagonal(x.permute((*rest, first, second)))
            labels = (*(labels[a] for a in rest), label)
    return x, labels


def diagonal(x: UOp) -> UOp:
    """Of square matrices (..., n, n) the diagonals (..., n):
    with a column more, each row has it at its start.
    """
    *batch, n, _ = shape_of(x)
    around = [(0, 0)] * len(batch)
    flat = x.reshape((*batch, n * n)).pad([*around, (0, n)]).reshape((*batch, n, n + 1))
    whole: list[tuple[int, int]] = [(0, s) for s in (*batch, n)]
    return flat.shrink([*whole, (0, 1)]).reshape((*batch, n))


def _summed(x: UOp, labels: Labels, wanted: set[Hashable]) -> tuple[UOp, Labels]:
    """`x` without the labels that nobody wants."""
    gone = [a for a, label in enumerate(labels) if label not in wanted]
    return fold(x, Ops.ADD, gone), tuple(label for label in labels if label in wanted)


def _aligned(x: UOp, labels: Labels, order: Labels) -> UOp:
    """The axes in an order, with axes of size 1 for the labels that `x` lacks."""
    axes = [labels.index(label) for label in order if label in labels]
    x = x if axes == sorted(axes) else x.permute(axes)
    sizes = iter(shape_of(x))
    return x.reshape([next(sizes) if label in labels else 1 for label in order])
