"""What stands at a place of the order: the k-th, the middle, quantiles, the most frequent. Week 5."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Self

import numpy as np

from uop_ir import Ops, UOp, dtypes

from . import compose, shapes
from .creation import count
from .cumulative import running
from .data import Array, Number, from_array
from .errors import TensorError
from .graph import broadcast_to, detach, fold, known_device, stored
from .ordering import Ordering
from .padding import constant
from .picking import picked, picked_along
from .promotion import accumulator, as_float
from .sorting import order
from .value import Value
from .windows import cut


class Ranks(Ordering):
    """What is picked takes its gradient to where it came from. To sort n elements costs n log(n)^2
    comparisons.
    """

    def kthvalue(self, k: int, axis: int = -1, keepdim: bool = False) -> tuple[Self, Self]:
        """The element that is the k-th of the sorted ones,
        counted from 1, and the position (i64) that it had.
        """
        at = shapes.one_axis("kthvalue", self.ndim, axis)
        if not 1 <= k <= self.shape[at]:
            raise TensorError(
                f"kthvalue: number {k} along an axis of size {self.shape[at]}", remedy="counted from 1"
            )
        place = broadcast_to(UOp.const(dtypes.u32, k - 1), (*self.shape[:at], 1, *self.shape[at + 1 :]))
        return self._ranked(order(self.uop, at, False), place, at, keepdim)

    def median(self, axis: int | None = None, keepdim: bool = False) -> Self | tuple[Self, Self]:
        """The middle element, the lower of two; NaN where there is one.
        Along an axis, with the position it had.

        `quantile(0.5)` is the mean of the middle two.
        """
        return self._middle("median", axis, keepdim)

    def nanmedian(self, axis: int | None = None, keepdim: bool = False) -> Self | tuple[Self, Self]:
        """`median` of what is not NaN; NaN where nothing is left."""
        return self._middle("nanmedian", axis, keepdim)

    def _middle(self, method: str, axis: int | None, keepdim: bool) -> Self | tuple[Self, Self]:
        self._nonempty(method, axis)
        x = self.reshape(-1) if axis is None else self
        at = shapes.one_axis(method, x.ndim, 0 if axis is None else axis)
        size = x.shape[at]
        found = order(x.uop, at, False)
        if method == "nanmedian":
            place = ((_numbers(x.uop, at) + 1) // 2 - 1).maximum(0).cast(dtypes.u32)
        else:
            last = cut(picked_along(x.uop, found, at), at, size - 1, size)
            place = compose.is_nan(last).where(UOp.const(dtypes.u32, size - 1), (size - 1) // 2)
        values, indices = x._ranked(found, place, at, keepdim)
        if axis is not None:
            return values, indices
        return values.reshape((1,) * self.ndim) if keepdim else values

    def mode(self, axis: int = -1, keepdim: bool = False) -> tuple[Self, Self]:
        """The element that stands most often along an axis, the least of several, and its last position
        (i64). Each NaN is distinct.
        """
        self._nonempty("mode", axis)
        at = shapes.one_axis("mode", self.ndim, axis)
        size = self.shape[at]
        found = order(self.uop, at, False)
        ordered = detach(stored(picked_along(self.uop, found, at)))
        number = count(size, dtypes.i32).reshape((size, *(1,) * (self.ndim - at - 1)))
        before = constant(cut(ordered, at, 0, size - 1), _in_front(self.ndim, at), ordered.const_like(0))
        begins = number.eq(0) | ordered.ne(before)
        # how long each run of equal elements is up to here; the first of the longest has the least element
        length = number - running(begins.where(number, 0), Ops.MAX, at)
        place = self._of(stored(length)).argmax(at, keepdim=True).uop.cast(dtypes.u32)
        return self._ranked(found, place, at, keepdim)

    def _ranked(self, found: UOp, place: UOp, axis: int, keepdim: bool) -> tuple[Self, Self]:
        """The elements that come in some place of the order along an axis, and their positions."""
        position = picked_along(found, place, axis)
        value = picked_along(self.uop, position, axis)
        shape = position.shape if keepdim else (*position.shape[:axis], *position.shape[axis + 1 :])
        return self._of(value.reshape(shape)), self._of(position.reshape(shape).cast(dtypes.i64))

    def quantile(
        self,
        q: Number | Sequence[float] | Array | Value,
        axis: int | None = None,
        keepdim: bool = False,
        interpolation: str = "linear",
    ) -> Self:
        """What a part `q` (0 to 1) of the elements along an axis (None:
        of all) is below; NaN where there is one.

        Several `q` make an axis in front; those in a tensor are read. Between two elements, `interpolation`
        is "linear", "lower", "higher", "midpoint" or "nearest" (halves to the even one). Integers are
        computed as f32.
        """
        return self._quantile("quantile", q, axis, keepdim, interpolation)

    def nanquantile(
        self,
        q: Number | Sequence[float] | Array | Value,
        axis: int | None = None,
        keepdim: bool = False,
        interpolation: str = "linear",
    ) -> Self:
        """`quantile` of what is not NaN; NaN where nothing is left."""
        return self._quantile("nanquantile", q, axis, keepdim, interpolation)

    def _quantile(
        self,
        method: str,
        q: Number | Sequence[float] | Array | Value,
        axis: int | None,
        keepdim: bool,
        interpolation: str,
    ) -> Self:
        parts = np.asarray(q._data(method) if isinstance(q, Value) else q, np.float64)
        if parts.ndim > 1 or not ((parts >= 0) & (parts <= 1)).all():
            raise TensorError(
                f"{method}: q={parts.tolist()}", remedy="a number from 0 to 1, or a vector of them"
            )
        if interpolation not in _BETWEEN:
            raise TensorError(
                f"{method}: interpolation={interpolation!r}", remedy=f"one of {', '.join(_BETWEEN)}"
            )
        self._nonempty(method, axis if self.ndim else None)
        x = self.reshape(-1) if axis is None or not self.ndim else self
        at = shapes.one_axis(method, x.ndim, 0 if axis is None else axis)
        size = x.shape[at]
        dtype = as_float(self.dtype)
        node = x.uop.cast(dtype)
        ordered = picked_along(node, order(node, at, False), at).cast(accumulator(dtype))
        home = known_device(self.uop)
        along = (len(parts.reshape(-1)),) + (1,) * (x.ndim - at - 1)
        if method == "nanquantile":
            numbers = (_numbers(node, at) - 1).maximum(0).cast(dtypes.f64)
            place = from_array(parts.reshape(along), home) * numbers
            below = compose.floor(place)
            above = compose.minimum(below + 1, numbers)
            low, high = (picked_along(ordered, p.cast(dtypes.i32), at) for p in (below, above))
            out = _between(low, high, place, interpolation)
        else:
            known = parts.reshape(-1) * (size - 1)
            first = np.floor(known)
            low, high, last = (
                picked(ordered, from_array(np.asarray(p, np.int32), home), at)
                for p in (first, np.minimum(first + 1, size - 1), np.full(len(first), size - 1))
            )
            out = _between(low, high, from_array(known, home).reshape(along), interpolation)
            out = compose.is_nan(last).where(last, out)
        out = out.permute([at, *(a for a in range(x.ndim) if a != at)])
        kept = [1] * self.ndim if axis is None else [1 if a == at else s for a, s in enumerate(self.shape)]
        shape = kept if keepdim else out.shape[1:]
        return self._of(out.cast(dtype).reshape((*out.shape[: parts.ndim], *shape)))


#: By name: where between the two elements around it a place lies, from 0 to 1.
_BETWEEN: dict[str, Callable[[UOp], UOp]] = {
    "linear": lambda place: place - compose.floor(place),
    "lower": lambda place: place.const_like(0),
    "higher": lambda place: compose.ceil(place) - compose.floor(place),
    "midpoint": lambda place: (compose.ceil(place) - compose.floor(place)) * 0.5,
    "nearest": lambda place: compose.round_half_even(place) - compose.floor(place),
}


def _between(low: UOp, high: UOp, place: UOp, interpolation: str) -> UOp:
    """What stands at places between elements and the next ones."""
    weight = _BETWEEN[interpolation](place).cast(low.dtype)
    return weight.eq(0).where(low, compose.lerp(low, high, weight))  # an infinity less itself is none


def _numbers(x: UOp, axis: int) -> UOp:
    """How many elements along an axis, which is kept, are not NaN (i32)."""
    return fold(x.eq(x).cast(dtypes.i32), Ops.ADD, (axis,), keepdim=True)


def _in_front(ndim: int, axis: int) -> list[tuple[int, int]]:
    """One element before those of an axis."""
    return [(1, 0) if a == axis else (0, 0) for a in range(ndim)]
