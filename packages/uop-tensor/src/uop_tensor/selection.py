"""What an index selects: numbers, slices, None and Ellipsis make a view,
all else positions along its axes. Week 5.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from operator import index
from types import EllipsisType
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from uop_ir import UOp, dtypes
from uop_ir import index as as_index
from uop_rewrite import bounds, graph_rewrite, symbolic

from .data import Array, from_array, nested
from .errors import PositionError, TensorError
from .graph import broadcast_to, known_device, shape_of, unsqueezed
from .picking import picked, wrapped
from .shapes import broadcast, size_of
from .value import Value
from .windows import cut, every

Item: TypeAlias = "int | slice | EllipsisType | Value | Sequence[Any] | Array | None"
#: The elements of a mask; what reads them raises JitError while jit traces.
Read: TypeAlias = "Callable[[Value], Array]"
#: Positions along an axis, or for every axis (None): an array that was checked, or a node.
Positions: TypeAlias = "tuple[int | None, Array | UOp]"


class Selection(NamedTuple):
    """`x[items]`: of `view`, a view of x, the axes `axes` give way to those of `at`,
    which stand behind `place` others.

    `at` counts along `axes` as if they were one axis; None: the view is all.
    """

    view: UOp
    axes: tuple[int, ...]
    place: int
    at: UOp | None

    @property
    def value(self) -> UOp:
        """The elements."""
        return self.view if self.at is None else picked(self.rows, self.at, self.place)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the elements."""
        rows = shape_of(self.rows)
        at = self.at
        return rows if at is None else (*rows[: self.place], *shape_of(at), *rows[self.place + 1 :])

    @property
    def rows(self) -> UOp:
        """The view with `axes` made one, at `place`."""
        if self.at is None:
            return self.view
        x = self.view.permute(self._order)
        sizes, after = shape_of(x), self.place + len(self.axes)
        return x.reshape((*sizes[: self.place], prod(sizes[self.place : after]), *sizes[after:]))

    def of_rows(self, rows: UOp) -> UOp:
        """The view whose `rows` these are."""
        if self.at is None:
            return rows
        order = self._order
        split = rows.reshape([self.view.shape[a] for a in order])
        return split.permute(sorted(range(len(order)), key=order.__getitem__))

    @property
    def _order(self) -> list[int]:
        others = [a for a in range(self.view.ndim) if a not in self.axes]
        return [*others[: self.place], *self.axes, *others[self.place :]]


def as_items(given: object) -> tuple[Any, ...]:
    """What stands between brackets, as a tuple of ints, slices,
    None, Ellipsis, arrays of integers or bool, tensors.
    """
    return tuple(_item(i) for i in (given if isinstance(given, tuple) else (given,)))


def _item(item: object) -> object:
    if item is None or item is Ellipsis or isinstance(item, slice | Value):
        return item
    if isinstance(item, list | tuple | range | np.ndarray | bool | np.bool_):
        return host_positions("index", item)
    try:
        return index(item)  # type: ignore[arg-type]  # what is no int is refused here
    except TypeError:
        raise PositionError(
            f"index: {type(item).__name__} is no index",
            remedy="an int, a slice, None, ..., or a tensor, array or list of integers or bool",
        ) from None


def host_positions(method: str, given: object) -> int | Array:
    """Positions or a mask from Python or NumPy: an int, or an array of integers or bool."""
    array = nested(method, given)
    if array.size == 0 and not isinstance(given, np.ndarray):
        array = array.astype(np.int64)
    if array.dtype.kind not in "biu":
        raise TensorError(
            f"{method}: positions of dtype {array.dtype}", remedy="positions are integers, masks are bool"
        )
    return int(array) if array.ndim == 0 and array.dtype.kind != "b" else array


def is_mask(item: object) -> bool:
    """Whether an item is a tensor or an array of bool."""
    if isinstance(item, Value):
        return item.dtype is dtypes.bool
    return isinstance(item, np.ndarray) and item.dtype.kind == "b"


def select(x: UOp, items: tuple[Any, ...], read: Read) -> Selection:
    """What `x[items]` is. Raises TensorError for items that do not fit the shape."""
    free = x.ndim - sum(map(_taken, items))
    if free < 0 or sum(item is Ellipsis for item in items) > 1:
        what = f"{x.ndim - free} items" if free < 0 else "more than one ..."
        raise PositionError(
            f"index: {what} for a tensor of shape {x.shape}",
            remedy=f"{x.ndim} items at most, of which one may be ...",
        )
    y, axis = x, 0
    found: list[Positions] = []
    numbers: list[int] = []  # which items are numbers or positions
    place = 0  # the axis of the first of them
    for number, item in enumerate(items):
        if item is None:
            y, axis = unsqueezed(y, axis), axis + 1
        elif item is Ellipsis:
            axis += free
        elif isinstance(item, slice):
            y, axis = _sliced(y, axis, item), axis + 1
        else:
            place = axis if not numbers else place
            numbers.append(number)
            if isinstance(item, int):
                y = _element(y, axis, item)
                continue
            new = _positions(y, axis, item, read)
            found += new
            axis += sum(a is not None for a, _ in new)
    if not found:
        return Selection(y, (), 0, None)
    if numbers != list(range(numbers[0], numbers[-1] + 1)):
        place = 0
    axes = tuple(a for a, _ in found if a is not None)
    if not axes:  # True or False alone: an axis of one element, or none
        (length,) = _together([p for _, p in found])
        return Selection(cut(unsqueezed(y, place), place, 0, length), (), 0, None)
    return Selection(y, axes, place, _flat(y, found, known_device(x)))


def _taken(item: object) -> int:
    """How many axes an item takes."""
    if item is None or item is Ellipsis:
        return 0
    return item.ndim if is_mask(item) and isinstance(item, Value | np.ndarray) else 1


def _positions(y: UOp, axis: int, item: Array | Value, read: Read) -> list[Positions]:
    """An array or tensor as positions along axes of `y` from `axis` on;
    a mask as one array of positions an axis.
    """
    sizes = shape_of(y)[axis : axis + _taken(item)]
    if is_mask(item):
        if item.shape != sizes:
            raise PositionError(
                f"index: a mask of shape {item.shape} for axes of sizes {sizes}",
                remedy="a mask has the sizes of the axes that it indexes",
            )
        mask = read(item) if isinstance(item, Value) else item
        if mask.ndim == 0:
            return [(None, np.zeros(int(mask), np.int64))]
        return [(axis + i, at) for i, at in enumerate(mask.nonzero())]
    if isinstance(item, Value):
        return [(axis, device_positions("index", item, sizes[0]))]
    return [(axis, checked("index", item, sizes[0]))]


def device_positions(method: str, given: Value, size: int) -> UOp:
    """A tensor of positions as a node; negative ones are counted from the end of an axis."""
    if not given.dtype.is_int:
        raise TensorError(
            f"{method}: positions of dtype {given.dtype}", remedy="positions are integers; cast them"
        )
    return wrapped(given.uop, size)


def checked(method: str, at: Array, size: int) -> Array:
    """Positions along an axis, from 0. Raises TensorError where one is out of range."""
    wrong = (at >= size) | (at.astype(np.int64) < -size)
    if wrong.any():
        raise PositionError(
            f"{method}: {at[wrong].flat[0]} along an axis of size {size}",
            remedy=f"from {-size} to {size - 1}" if size else "it has no elements",
        )
    return np.where(at < 0, at + size, at).astype(np.int64)


def _together(given: Sequence[Array | UOp]) -> tuple[int, ...]:
    """The shape of all positions together."""
    return tuple(int(n) for n in broadcast("index", *(p.shape for p in given)) if isinstance(n, int))


def _flat(y: UOp, found: Sequence[Positions], device: str | None) -> UOp:
    """Positions along several axes of `y` as positions along all of them made one;
    -1 where one is out of range.
    """
    shape = _together([p for _, p in found])
    sizes = [1 if a is None else shape_of(y)[a] for a, _ in found]
    dtype = dtypes.i32 if prod(sizes) <= dtypes.i32.max else dtypes.i64
    arrays = [p for _, p in found if isinstance(p, np.ndarray)]
    if len(arrays) == len(found):
        at = np.ravel_multi_index(np.broadcast_arrays(*arrays), sizes) if prod(sizes) else np.zeros(shape)
        return from_array(np.asarray(at, dtype.numpy), device)
    nodes = [from_array(p, device) if isinstance(p, np.ndarray) else p for _, p in found]
    if len(nodes) == 1:
        return nodes[0]
    total, valid = UOp.const(dtype, 0), UOp.const(dtypes.bool, True)
    for node, size in zip(nodes, sizes, strict=True):
        inside = (node < size) & ((node < 0) ^ True)
        total = total * size + inside.where(node, 0).cast(dtype)
        valid = valid & inside
    return broadcast_to(valid.where(total, -1), shape)


def _element(x: UOp, axis: int, at: int) -> UOp:
    if isinstance(x.shape[axis], UOp):
        return _without_axis(_sliced_by_size(x, axis, slice(at, at + 1)), axis)
    size = shape_of(x)[axis]
    if not -size <= at < size:
        raise PositionError(f"index: {at} along an axis of size {size}", remedy=f"from {-size} to {size - 1}")
    at %= size
    return _without_axis(cut(x, axis, at, at + 1), axis)


def _without_axis(x: UOp, axis: int) -> UOp:
    return x.reshape((*x.shape[:axis], *x.shape[axis + 1 :]))


def _sliced(x: UOp, axis: int, item: slice) -> UOp:
    if isinstance(x.shape[axis], UOp) or any(size_of(n) for n in (item.start, item.stop, item.step)):
        return _sliced_by_size(x, axis, item)
    size = shape_of(x)[axis]
    try:
        start, stop, step = item.indices(size)
    except (TypeError, ValueError) as error:
        raise TensorError(f"index: {item}: {error}") from None
    length = len(range(start, stop, step))
    if length == 0:
        return cut(x, axis, 0, 0)
    if step < 0:
        x = x.flip([a == axis for a in range(x.ndim)])
        start, step = size - 1 - start, -step
    return every(cut(x, axis, start, start + (length - 1) * step + 1), axis, step)


def _sliced_by_size(x: UOp, axis: int, item: slice) -> UOp:
    """A slice to or from a size of a jitted function,
    or along an axis that has one: in front, in steps of 1.
    """
    if item == slice(None):
        return x
    size = x.shape[axis]
    start, stop = (
        size_of(n) or (default if n is None else n) for n, default in ((item.start, 0), (item.stop, size))
    )
    if item.step not in (None, 1) or any(isinstance(n, int) and n < 0 for n in (start, stop)):
        raise TensorError(
            f"index: {item} along an axis whose size varies",
            remedy="beside a size of a jitted function, from 0 on and in steps of 1",
        )
    if not (_at_most(0, start) and _at_most(start, stop) and _at_most(stop, size)):
        raise TensorError(
            f"index: {item} may leave the axis",
            remedy="for all sizes within the bounds given to jit, it must begin, end and lie within",
        )
    return cut(x, axis, start, stop)


def _at_most(one: int | UOp, other: int | UOp) -> bool:
    """Whether a size is at most another, whatever the sizes that they are made of."""
    return bool(bounds(graph_rewrite(as_index(other) - one, symbolic))[0] >= 0)
