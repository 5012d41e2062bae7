"""Axes and shapes as users write them: negative axes, tuples or loose numbers, -1, broadcasting. Week 5."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from operator import index
from typing import TypeAlias, cast

from uop_ir import UOp, dtypes

from .errors import PositionError, TensorError

Axis: TypeAlias = "int | Sequence[int] | None"


def integers(method: str, given: Sequence[object]) -> tuple[int, ...]:
    """`f(2, 3)` and `f((2, 3))` alike, as a tuple of ints."""
    if len(given) == 1 and isinstance(given[0], Sequence):
        given = given[0]
    try:
        return tuple(size_of(n) or index(n) for n in given)  # type: ignore[arg-type, misc]  # what is no int is refused here
    except TypeError:
        raise TensorError(
            f"{method}: sizes and axes are ints, not {tuple(given)!r}", remedy="give ints, or a tuple of them"
        ) from None


def size_of(n: object) -> UOp | None:
    """What stands in shapes for a size of a jitted function (see jit); None for all else."""
    if isinstance(n, UOp):
        return n if n.dtype is dtypes.index else None
    size: UOp | None = getattr(n, "_size", None)
    return size


def one_axis(method: str, ndim: int, axis: int) -> int:
    """An axis counted from the front; negative ones count from the end."""
    numbers = integers(method, (axis,))
    if len(numbers) != 1:
        raise TensorError(f"{method}: axis {axis!r}", remedy="name one axis")
    (number,) = numbers
    if not -ndim <= number < ndim:
        remedy = f"{-ndim} to {ndim - 1}" if ndim else "a value of shape () has no axis"
        raise PositionError(f"{method}: axis {number} of a tensor of {ndim} axes", remedy=remedy)
    return number % ndim


def axes(method: str, ndim: int, axis: Axis) -> tuple[int, ...]:
    """The axes meant, ascending; None means all."""
    if axis is None:
        return tuple(range(ndim))
    numbers = [
        one_axis(method, ndim, a) for a in integers(method, axis if isinstance(axis, Sequence) else (axis,))
    ]
    if len(set(numbers)) != len(numbers):
        raise TensorError(f"{method}: an axis twice in {axis!r}", remedy="name each axis once")
    return tuple(sorted(numbers))


def filled(method: str, old: Sequence[int], new: Sequence[int]) -> tuple[int, ...]:
    """`new` with its -1 replaced by the size that keeps the number of elements of `old`."""
    if any(size_of(n) is not None for n in (*old, *new)):
        return _filled_around_sizes(method, old, new)
    size, known = prod(old), prod(n for n in new if n != -1)
    unknown = sum(n == -1 for n in new)
    if unknown == 1 and known > 0 and size % known == 0:
        return tuple(size // known if n == -1 else n for n in new)
    if unknown or any(n < 0 for n in new) or known != size:
        raise TensorError(
            f"{method}: {tuple(old)} has {size} elements and does not fit {tuple(new)}",
            remedy="give sizes with the same product; at most one may be -1",
        )
    return tuple(new)


def _filled_around_sizes(method: str, old: Sequence[object], new: Sequence[object]) -> tuple[int, ...]:
    """`filled` where sizes of a jitted function stand on both sides, or no -1."""
    before, after = ([n for n in shape if isinstance(n, UOp)] for shape in (old, new))
    found = tuple(new)
    if -1 in new:
        if sorted(map(id, before)) != sorted(map(id, after)):
            raise TensorError(f"{method}: -1 beside a size of a jitted function", remedy="name each size")
        ints = ([n for n in shape if isinstance(n, int)] for shape in (old, new))
        left = iter(filled(method, *ints))
        found = tuple(n if isinstance(n, UOp) else next(left) for n in new)
    return cast("tuple[int, ...]", found)


def broadcast(method: str, *shapes: Sequence[int | UOp]) -> tuple[int | UOp, ...]:
    """The shape of operands of these shapes together: aligned on the right, each axis equal or 1."""
    rank = max(map(len, shapes))
    out = []
    for sizes in zip(*((1,) * (rank - len(s)) + tuple(s) for s in shapes), strict=True):
        found = {s for s in sizes if s != 1}
        if len(found) > 1:
            raise TensorError(
                f"{method}: shapes {' and '.join(str(tuple(s)) for s in shapes)} do not broadcast",
                remedy="aligned on the right, sizes must be equal or 1; reshape or unsqueeze one",
            )
        out.append(found.pop() if found else 1)
    return tuple(out)
