"""Reading parts of a tensor: numbers, slices, None, Ellipsis, and a tensor of integers. Week 5."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from types import EllipsisType
from typing import Any, Self, TypeAlias

import numpy as np

from uop_ir import DType, Ops, UOp, dtypes

from . import shapes
from .creation import count
from .data import from_array
from .errors import TensorError
from .graph import fold, known_device, shape_of
from .reduce import Reduction
from .value import Value

Item: TypeAlias = "int | slice | EllipsisType | Value | Sequence[Any] | np.ndarray[Any, Any] | None"


def take(x: UOp, at: UOp, axis: int) -> UOp:
    """The elements of `x` at positions along an axis; the axes of `at` stand in the place of that axis.

    A one-hot sum: `sum_n WHERE(n == at, x[n], 0)`, which the code generators turn into one read. A position
    from -n to -1 counts from the end; one out of range gives 0.
    """
    n = shape_of(x)[axis]
    if at.dtype.max < n:
        at = at.cast(dtypes.i64)
    if at.dtype.min < 0:
        at = (at < 0).where(at + n, at)
    kept = [a for a in range(x.ndim) if a != axis]
    x_last = x.permute((*kept, axis))
    before, after = x_last.shape[:axis], x_last.shape[axis:-1]
    spread = x_last.reshape((*before, *(1,) * at.ndim, *after, n))
    chosen = at.reshape((*at.shape, *(1,) * (len(after) + 1))).eq(count(n, at.dtype))
    if x.dtype is dtypes.bool:
        return fold((chosen & spread).cast(dtypes.u8), Ops.MAX, (x.ndim + at.ndim - 1,)).cast(dtypes.bool)
    return fold(chosen.where(spread, 0), Ops.ADD, (x.ndim + at.ndim - 1,))


class Indexing(Reduction):
    """`x[...]` as in NumPy, with at most one tensor (array, list) of integers; nothing is ever written
    through it.
    """

    def __getitem__(self, items: Item | tuple[Item, ...]) -> Self:
        items = items if isinstance(items, tuple) else (items,)
        x, axis, tensor_axis = self.uop, 0, -1
        tensor: UOp | None = None
        for item in _full(items, self.shape, known_device(x)):
            if item is None:
                x, axis = x.reshape((*x.shape[:axis], 1, *x.shape[axis:])), axis + 1
            elif isinstance(item, slice):
                x, axis = _sliced(x, axis, item), axis + 1
            elif isinstance(item, UOp):
                if tensor is not None:
                    raise TensorError("index: more than one tensor", remedy="index one axis at a time")
                tensor, tensor_axis, axis = item, axis, axis + 1
            else:
                x = _element(x, axis, item)
        if tensor is not None:
            x = take(x, tensor, tensor_axis)
            if _scattered(items):
                order = list(range(x.ndim))
                moved = order[tensor_axis : tensor_axis + tensor.ndim]
                x = x.permute(moved + [a for a in order if a not in moved])
        return self._of(x)

    def __setitem__(self, items: object, value: object) -> None:
        raise TensorError(
            "index: a tensor is a value and cannot be written in part",
            remedy="use where, pad or cat, then assign",
        )

    def take(self, indices: Value | Sequence[Any] | np.ndarray[Any, Any] | int, axis: int = 0) -> Self:
        """The elements at `indices` along an axis; the axes of `indices` stand in its place.

        Negative positions count from the end; one out of range gives 0.
        """
        at = shapes.one_axis("take", self.ndim, axis)
        given = np.asarray(indices) if isinstance(indices, int) else indices
        positions = _positions("take", given, known_device(self.uop))
        return self._of(take(self.uop, positions, at))

    def one_hot(self, classes: int, dtype: DType = dtypes.i64) -> Self:
        """A new last axis of `classes` elements: 1 at the position that this integer names, else 0."""
        at = _positions("one_hot", self, None)
        wide = at if at.dtype.max >= classes else at.cast(dtypes.i64)
        return self._of(wide.reshape((*wide.shape, 1)).eq(count(classes, wide.dtype)).cast(dtype))


def _positions(method: str, given: Value | Sequence[Any] | np.ndarray[Any, Any], device: str | None) -> UOp:
    """Positions as a node of an integer dtype; those of a list or an array go to `device`."""
    if isinstance(given, Value):
        node = given.uop
    else:
        array = np.asarray(given)
        node = from_array(array.astype(np.int64) if array.size == 0 else array, device)
    if node.dtype is dtypes.bool:
        raise TensorError(
            f"{method}: a bool tensor as an index gives a shape that depends on data",
            remedy="use where, or multiply by the mask",
        )
    if not node.dtype.is_int:
        raise TensorError(
            f"{method}: positions of dtype {node.dtype}", remedy="positions are integers; cast them"
        )
    return node


def _full(
    items: tuple[Item, ...], shape: tuple[int, ...], device: str | None
) -> list[int | slice | UOp | None]:
    """The items with Ellipsis, and what is left out at the end, written as slices; tensors as nodes."""
    used = sum(item is not None and item is not Ellipsis for item in items)
    dots = sum(item is Ellipsis for item in items)
    if used > len(shape) or dots > 1:
        what = "more than one ..." if dots > 1 else f"{used} items"
        raise TensorError(f"index: {what} for a tensor of shape {shape}")
    if dots == 0:
        items = (*items, Ellipsis)
    out: list[int | slice | UOp | None] = []
    for item in items:
        if item is Ellipsis:
            out.extend([slice(None)] * (len(shape) - used))
        else:
            out.append(_item(item, device))
    return out


def _item(item: Item, device: str | None) -> int | slice | UOp | None:
    if item is None or isinstance(item, slice):
        return item
    if isinstance(item, Value | list | np.ndarray | bool | np.bool_):
        return _positions("index", item if isinstance(item, Value | list) else np.asarray(item), device)
    try:
        return index(item)  # type: ignore[arg-type]  # what is no int is refused here
    except TypeError:
        raise TensorError(
            f"index: {type(item).__name__} is no index",
            remedy="an int, a slice, None, ... or a tensor of integers",
        ) from None


def _scattered(items: tuple[Item, ...]) -> bool:
    """Whether a slice, None or ... stands between ints and the tensor: then NumPy puts the tensor's axes in
    front.
    """
    places = [i for i, item in enumerate(items) if not isinstance(item, slice | EllipsisType | None)]
    return places != list(range(places[0], places[0] + len(places)))


def _element(x: UOp, axis: int, at: int) -> UOp:
    size = shape_of(x)[axis]
    if not -size <= at < size:
        raise TensorError(f"index: {at} along an axis of size {size}", remedy=f"from {-size} to {size - 1}")
    at %= size
    cut = x.shrink(_along(x, axis, (at, at + 1), whole=x.shape))
    return cut.reshape((*x.shape[:axis], *x.shape[axis + 1 :]))


def _sliced(x: UOp, axis: int, item: slice) -> UOp:
    size = shape_of(x)[axis]
    try:
        start, stop, step = item.indices(size)
    except (TypeError, ValueError) as error:
        raise TensorError(f"index: {item}: {error}") from None
    length = len(range(start, stop, step))
    if length == 0:
        return x.shrink(_along(x, axis, (0, 0), whole=x.shape))
    if step < 0:
        x = x.flip([a == axis for a in range(x.ndim)])
        start, step = size - 1 - start, -step
    end = start + (length - 1) * step + 1
    x = x.shrink(_along(x, axis, (start, end), whole=x.shape))
    if step == 1:
        return x
    # every step-th element: fill up to a multiple, then take the first of each group
    x = x.pad(_along(x, axis, (0, length * step - (end - start)), whole=None))
    x = x.reshape((*x.shape[:axis], length, step, *x.shape[axis + 1 :]))
    x = x.shrink(_along(x, axis + 1, (0, 1), whole=x.shape))
    return x.reshape((*x.shape[: axis + 1], *x.shape[axis + 2 :]))


def _along(
    x: UOp, axis: int, pair: tuple[int, int], whole: tuple[int | UOp, ...] | None
) -> list[tuple[int, int | UOp]]:
    """`pair` for one axis; the others whole (of a SHRINK, which gets their sizes) or not padded (None)."""
    return [pair if a == axis else (0, whole[a] if whole else 0) for a in range(x.ndim)]
