"""Index maps: where an element of a movement op's result comes from. Week 4.

Each movement op is defined here, once: the interpreter,
the scheduler and the lowering reckon with the same maps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from . import arguments
from .dtype import dtypes
from .errors import VerifyError
from .ops import Ops
from .uop import UOp, index

#: The position in the source, and the condition under which the element comes from it (None: always; else 0).
Position: TypeAlias = "tuple[tuple[UOp, ...], UOp | None]"


def sizes(node: UOp) -> tuple[tuple[int | UOp, int | UOp], ...]:
    """The pairs of a PAD or SHRINK, with symbolic entries in place. Raises VerifyError for any other op."""
    if arguments.node("sizes", node).op not in (Ops.PAD, Ops.SHRINK):
        raise VerifyError(f"sizes: {node.op!r} has no pairs of sizes", remedy="PAD and SHRINK have")
    symbolic = iter(node.src[1:])
    first, second = zip(*node.arg, strict=True) if node.arg else ((), ())
    flat = [next(symbolic) if d is None else d for pair in zip(first, second, strict=True) for d in pair]
    return tuple(zip(flat[::2], flat[1::2], strict=True))


def index_map(node: UOp, at: Sequence[UOp]) -> Position:
    """Where the element `at` (one index an axis of `node`) of a movement op lies in its source."""
    if arguments.node("index_map", node).op not in INDEX_MAPS:
        raise VerifyError(f"index_map: {node.op!r} is no movement op", remedy="PAD, RESHAPE and the like are")
    at = arguments.nodes("index_map", at)
    if len(at) != len(node.shape):
        raise VerifyError(f"index_map: {len(at)} indices of a value of {len(node.shape)} axes")
    return INDEX_MAPS[node.op](node, at)


def _reshape(node: UOp, at: tuple[UOp, ...]) -> Position:
    return reshape_index(node.shape, node.src[0].shape, at), None


def reshape_index(
    shape: Sequence[int | UOp], source: Sequence[int | UOp], at: Sequence[UOp]
) -> tuple[UOp, ...]:
    """The index into `source` of the element `at` of `shape`, both row-major views of the same elements.

    Axes of size 1 are passed over; the others are matched in groups of equal size, so that an axis that did
    not change keeps its index as it is.
    """
    out: list[UOp] = []
    i = j = 0
    while i < len(shape) or j < len(source):
        if (i < len(shape) and j < len(source) and shape[i] is source[j]) or _equal(shape, i, source, j):
            out.append(at[i])
            i, j = i + 1, j + 1
            continue
        if i < len(shape) and shape[i] == 1:
            i += 1
            continue
        if j < len(source) and source[j] == 1:
            out.append(index(0))
            j += 1
            continue
        end, stop = _group(shape, i, source, j)
        flat = flatten(shape[i:end], at[i:end])
        out.extend(unflatten(source[j:stop], flat))
        i, j = end, stop
    return tuple(out)


def _equal(shape: Sequence[int | UOp], i: int, source: Sequence[int | UOp], j: int) -> bool:
    return i < len(shape) and j < len(source) and shape[i] == source[j]


def _group(shape: Sequence[int | UOp], i: int, source: Sequence[int | UOp], j: int) -> tuple[int, int]:
    """The ends of the shortest run of axes from i and from j that have as many elements;
    else all that is left.
    """
    left = right = 1
    end, stop = i, j
    while end < len(shape) or stop < len(source):
        grow_left = stop == len(source) or (end < len(shape) and left <= right)
        size = shape[end] if grow_left else source[stop]
        if not isinstance(size, int):
            return len(shape), len(source)
        if grow_left:
            left, end = left * size, end + 1
        else:
            right, stop = right * size, stop + 1
        if left == right and end > i and stop > j:
            return end, stop
    return len(shape), len(source)


def flatten(shape: Sequence[int | UOp], at: Sequence[UOp]) -> UOp:
    """The row-major position of the element `at`. Raises VerifyError where it has not one index an axis."""
    shape, at = arguments.dimensions("flatten", shape), arguments.nodes("flatten", at)
    if len(at) != len(shape):
        raise VerifyError(f"flatten: {len(at)} indices of a value of {len(shape)} axes")
    flat: UOp | None = None
    for size, i in zip(shape, at, strict=True):
        flat = i if flat is None else flat * index(size) + i
    return index(0) if flat is None else flat


def unflatten(shape: Sequence[int | UOp], flat: UOp) -> tuple[UOp, ...]:
    """The index of the element at a row-major position."""
    out: list[UOp] = []
    for axis in range(len(shape) - 1, -1, -1):
        if shape[axis] == 1:
            out.append(index(0))
            continue
        out.append(flat % index(shape[axis]) if any(s != 1 for s in shape[:axis]) else flat)
        flat = flat // index(shape[axis])
    return tuple(reversed(out))


def _expand(node: UOp, at: tuple[UOp, ...]) -> Position:
    source = node.src[0].shape
    return tuple(i if s == o else index(0) for i, s, o in zip(at, source, node.shape, strict=True)), None


def _permute(node: UOp, at: tuple[UOp, ...]) -> Position:
    out = [at[0]] * len(at)
    for i, axis in zip(at, node.arg, strict=True):
        out[axis] = i
    return tuple(out), None


def _flip(node: UOp, at: tuple[UOp, ...]) -> Position:
    return tuple(
        (index(s) - 1) - i if reverse else i for i, s, reverse in zip(at, node.shape, node.arg, strict=True)
    ), None


def _pad(node: UOp, at: tuple[UOp, ...]) -> Position:
    out: list[UOp] = []
    valid: UOp | None = None
    for i, size, (before, after) in zip(at, node.src[0].shape, sizes(node), strict=True):
        conditions = []
        if before != 0:
            conditions.append((i < before).ne(UOp.const(dtypes.bool, True)))
            i = i - before
        if after != 0:
            conditions.append(i < size)
        for condition in conditions:
            valid = condition if valid is None else valid & condition
        out.append(i)
    return tuple(out), valid


def _shrink(node: UOp, at: tuple[UOp, ...]) -> Position:
    return tuple(i if begin == 0 else i + begin for i, (begin, _) in zip(at, sizes(node), strict=True)), None


INDEX_MAPS: dict[Ops, Callable[[UOp, tuple[UOp, ...]], Position]] = {
    Ops.RESHAPE: _reshape,
    Ops.EXPAND: _expand,
    Ops.PERMUTE: _permute,
    Ops.FLIP: _flip,
    Ops.PAD: _pad,
    Ops.SHRINK: _shrink,
}
