"""Elements by position along an axis: gather and scatter,
with folds of what meets in one place, and take. Week 5.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self, TypeAlias

import numpy as np

from uop_ir import DType, Ops, UOp, dtypes

from . import compose, shapes
from .data import Array, Number, from_array
from .errors import TensorError
from .graph import broadcast_to, detach, known_device, shape_of, with_gradient_of
from .indexing import as_value
from .masks import Masks
from .picking import added, grouped, picked, picked_along, replaced_along
from .promotion import accumulator, promote, refuse_bool
from .selection import checked, device_positions, host_positions
from .value import Value

Positions: TypeAlias = "Value | Sequence[Any] | Array | int"

#: What `reduce` of `scatter` is called by `scatter_reduce`.
_SCATTER = {"add": "sum", "multiply": "prod"}


class Gather(Masks):
    """Positions are integers, from -n to n - 1 along an axis of n elements. Those in lists and arrays are
    checked at once; one in a tensor that is out of range reads 0 and writes nothing.
    """

    def gather(self, axis: int, index: Positions) -> Self:
        """For each element of `index` the one in the same place,
        but for the position along `axis`, which it says.

        `index` has as many axes as this tensor, each but `axis` at most as long.
        """
        at = shapes.one_axis("gather", self.ndim, axis)
        positions = self._positions("gather", index, at)
        _fits("gather", positions, self.shape, "a tensor", at)
        pairs = enumerate(zip(self.shape, shape_of(positions), strict=True))
        bounds = [(0, s if a == at else n) for a, (s, n) in pairs]
        return self._of(picked_along(self.uop.shrink(bounds), positions, at))

    def take(self, indices: Positions, axis: int | None = None) -> Self:
        """The elements at `indices` along an axis (None:
        of all, row-major); the axes of `indices` stand in its place.
        """
        if axis is None:
            return self.reshape(-1).take(indices, 0)
        at = shapes.one_axis("take", self.ndim, axis)
        return self._of(picked(self.uop, self._positions("take", indices, at), at))

    def index_select(self, axis: int, index: Positions) -> Self:
        """The elements at the positions of a vector along an axis."""
        at = shapes.one_axis("index_select", self.ndim, axis)
        return self._of(picked(self.uop, self._vector("index_select", index, at), at))

    def take_along_axis(self, indices: Positions, axis: int | None = -1) -> Self:
        """`gather`, but all axes other than `axis` (None: all as one) broadcast."""
        if axis is None:
            return self.reshape(-1).take_along_axis(indices, 0)
        at = shapes.one_axis("take_along_axis", self.ndim, axis)
        positions = self._positions("take_along_axis", indices, at)
        if positions.ndim != self.ndim:
            raise TensorError(
                f"take_along_axis: indices of shape {positions.shape} for a tensor of shape {self.shape}",
                remedy="as many axes each",
            )
        others = [(*s[:at], 1, *s[at + 1 :]) for s in (self.shape, shape_of(positions))]
        common = shapes.broadcast("take_along_axis", *others)
        x, positions = (
            broadcast_to(n, (*common[:at], n.shape[at], *common[at + 1 :])) for n in (self.uop, positions)
        )
        return self._of(picked_along(x, positions, at))

    take_along_dim = take_along_axis

    def repeat_interleave(self, repeats: Positions, axis: int | None = None) -> Self:
        """Each element repeated, along an axis (None: of all elements, row-major).

        `repeats` is one count, or a vector of one count for each element of the axis, which is read.
        """
        if axis is None:
            return self.reshape(-1).repeat_interleave(repeats, 0)
        at = shapes.one_axis("repeat_interleave", self.ndim, axis)
        if not isinstance(repeats, Value | np.ndarray | Sequence) or (
            isinstance(repeats, Value) and not repeats.ndim
        ):
            (times,) = shapes.integers("repeat_interleave", (repeats,))
            return self._interleaved(times, at)
        given = repeats._data("repeat_interleave") if isinstance(repeats, Value) else repeats
        counts = np.asarray(host_positions("repeat_interleave", given))
        if (
            counts.dtype.kind not in "iu"
            or counts.shape not in ((1,), self.shape[at : at + 1])
            or (counts < 0).any()
        ):
            raise TensorError(
                f"repeat_interleave: counts {counts.dtype}{counts.shape} for axis {at} of {self.shape}",
                remedy="one integer from 0 on, or a vector of one for each element of the axis",
            )
        return self.take(np.repeat(np.arange(self.shape[at]), counts), at)

    def scatter(
        self,
        axis: int,
        index: Positions,
        src: Self | Number | None = None,
        reduce: str | None = None,
        *,
        value: Number | None = None,
    ) -> Self:
        """This tensor with the elements of `src` (or one number) where `index` says along an axis:
        `gather` undone.

        `index` has as many axes as this tensor and as `src`, each at most as long, but for that of this
        tensor along `axis`. Of several elements for one place the last is taken. `reduce` "add" and
        "multiply" are the sum and product of `scatter_reduce`. `value` is a `src` that is one number.
        """
        if src is not None and value is not None:
            raise TensorError("scatter: both src and value", remedy="give one of them")
        src = value if src is None else src
        if src is None:
            raise TensorError("scatter: neither src nor value", remedy="give one of them")
        if reduce is not None and reduce not in _SCATTER:
            raise TensorError(f"scatter: reduce={reduce!r}", remedy='"add", "multiply" or None')
        if reduce is not None:
            return self._reduced("scatter", axis, index, src, _SCATTER[reduce], True)
        at, positions, values = self._scattered("scatter", axis, index, src)
        return self._of(replaced_along(self.uop, positions, values, at))

    def scatter_add(self, axis: int, index: Positions, src: Self | Number) -> Self:
        """This tensor with each element of `src` added where `index` says along an axis;
        shapes as for `scatter`.

        f16 and bf16 are added in f32.
        """
        return self._reduced("scatter_add", axis, index, src, "sum", True)

    def scatter_reduce(
        self, axis: int, index: Positions, src: Self | Number, reduce: str, include_self: bool = True
    ) -> Self:
        """Elements of `src` that `index` sends to one place, folded: "sum", "prod", "mean", "amax" or "amin".

        The old element is one of them, unless `include_self` is false; where nothing is sent it stays. Shapes
        as for `scatter`. A mean of integers is floored; ties of an extreme share the gradient evenly. The
        gradient of "prod" costs as much as a matrix of both sizes along the axis.
        """
        return self._reduced("scatter_reduce", axis, index, src, reduce, include_self)

    def index_add(self, axis: int, index: Positions, source: Self, alpha: Number = 1) -> Self:
        """This tensor with `alpha * source` added to the elements
        at the positions of a vector along an axis.
        """
        refuse_bool("index_add", self.dtype)
        at, positions, values = self._parts("index_add", axis, index, source)
        positions = broadcast_to(
            positions.reshape((*positions.shape, *(1,) * (self.ndim - at - 1))), values.shape
        )
        scaled = values if alpha == 1 else values * as_value(values, alpha)
        return self._of(added(self.uop, positions, scaled, at))

    def _parts(self, method: str, axis: int, index: Positions, source: Self) -> tuple[int, UOp, UOp]:
        """The axis, a vector of positions along it, and the values for them, in this tensor's dtype."""
        at = shapes.one_axis(method, self.ndim, axis)
        positions = self._vector(method, index, at)
        wanted = (*self.shape[:at], *shape_of(positions), *self.shape[at + 1 :])
        if source.ndim == 0 and wanted == (1,):
            source = source.reshape(wanted)
        if source.shape != wanted:
            raise TensorError(
                f"{method}: {source.shape} at positions of shape {positions.shape} of axis {at} of {self.shape}",
                remedy=f"the source has the shape {wanted}",
            )
        return at, positions, castable(method, source.uop, self.dtype)

    def _vector(self, method: str, index: Positions, axis: int) -> UOp:
        """A vector of positions along an axis; one alone is one of one element."""
        positions = self._positions(method, index, axis)
        if positions.ndim > 1:
            raise TensorError(f"{method}: positions of shape {positions.shape}", remedy="give a vector")
        return positions if positions.ndim else positions.reshape((1,))

    def _positions(self, method: str, given: Positions, axis: int) -> UOp:
        """Positions along an axis as a node, from 0 where they are in range."""
        size = self.shape[axis]
        if isinstance(given, Value):
            return device_positions(method, given, size)
        array = np.asarray(host_positions(method, given))
        if array.dtype.kind == "b":
            raise TensorError(f"{method}: positions of dtype bool", remedy="use masked_select, or x[mask]")
        return from_array(checked(method, array, size), known_device(self.uop))

    def _scattered(
        self, method: str, axis: int, index: Positions, src: Self | Number
    ) -> tuple[int, UOp, UOp]:
        """The axis, and positions and values of one shape,
        which is that of this tensor along all other axes.
        """
        at = shapes.one_axis(method, self.ndim, axis)
        positions = self._positions(method, index, at)
        _fits(method, positions, self.shape, "a tensor", at)
        if isinstance(src, Value):
            values = castable(method, src.uop, self.dtype)
            _fits(method, positions, src.shape, "a source", None)
            values = values.shrink([(0, n) for n in positions.shape])
        else:
            values = broadcast_to(as_value(self.uop, src), positions.shape)
        pairs = enumerate(zip(self.shape, shape_of(positions), strict=True))
        widths = [(0, 0 if a == at else s - n) for a, (s, n) in pairs]
        if any(after for _, after in widths):
            positions, values = (positions + 1).pad(widths) - 1, values.pad(widths)
        return at, positions, values

    def _reduced(
        self, method: str, axis: int, index: Positions, src: Self | Number, reduce: str, include_self: bool
    ) -> Self:
        if reduce not in REDUCE:
            raise TensorError(f"{method}: reduce={reduce!r}", remedy=f"one of {', '.join(REDUCE)}")
        refuse_bool(method, self.dtype)
        at, positions, values = self._scattered(method, axis, index, src)
        return self._of(REDUCE[reduce](self.uop, positions, values, at, include_self))


def _fits(method: str, positions: UOp, shape: Sequence[int], of: str, axis: int | None) -> None:
    """Raise TensorError where positions have other axes than a tensor, or longer ones (all but `axis`)."""
    index = shape_of(positions)
    if len(index) != len(shape) or any(
        n > s for a, (n, s) in enumerate(zip(index, shape, strict=True)) if a != axis
    ):
        but = "" if axis is None else f", axis {axis} aside"
        raise TensorError(
            f"{method}: an index of shape {index} for {of} of shape {tuple(shape)}",
            remedy=f"it has as many axes, none of them longer{but}",
        )


def castable(method: str, x: UOp, dtype: DType) -> UOp:
    """What is written to a tensor, in its dtype. Raises TensorError where that is of a lower kind."""
    if promote(method, x.dtype, dtype) is not dtype:
        raise TensorError(f"{method}: {x.dtype} into a tensor of {dtype}", remedy="cast one of them")
    return x.cast(dtype)


def _sum(x: UOp, at: UOp, values: UOp, axis: int, include: bool) -> UOp:
    return added(x if include else _number_sent(x, at, axis).eq(0).where(x, 0), at, values, axis)


def _prod(x: UOp, at: UOp, values: UOp, axis: int, include: bool) -> UOp:
    product = grouped(Ops.MUL, values, at, axis, shape_of(x)[axis])
    start = x.cast(product.dtype)
    if not include:
        start = _number_sent(x, at, axis).eq(0).where(start, 1)
    return (start * product).cast(x.dtype)


def _mean(x: UOp, at: UOp, values: UOp, axis: int, include: bool) -> UOp:
    inner = accumulator(x.dtype)
    total = _sum(x.cast(inner), at, values.cast(inner), axis, include)
    sent = _number_sent(x, at, axis)
    number = (sent + 1 if include else sent.maximum(1)).cast(inner)
    return (total / number if x.dtype.is_float else total // number).cast(x.dtype)


def _number_sent(x: UOp, at: UOp, axis: int) -> UOp:
    """How many positions name each element of `x`."""
    one = broadcast_to(UOp.const(dtypes.i32, 1), at.shape)
    return grouped(Ops.ADD, one, at, axis, shape_of(x)[axis])


def _amax(x: UOp, at: UOp, values: UOp, axis: int, include: bool) -> UOp:
    greatest = grouped(Ops.MAX, values, at, axis, shape_of(x)[axis]).cast(x.dtype)
    kept = broadcast_to(UOp.const(dtypes.bool, True), x.shape) if include else _number_sent(x, at, axis).eq(0)
    out = (kept & (greatest < x) | compose.is_nan(x) & kept).where(x, greatest)
    if not x.dtype.is_float:
        return out
    # evenly to all that are the greatest: a sum of these, divided by their number, has that gradient
    inner = accumulator(x.dtype)
    out = detach(out)
    own = kept & x.eq(out)
    sent = values.eq(picked_along(out, at, axis))
    number = own.cast(inner) + grouped(Ops.ADD, sent.cast(inner), at, axis, shape_of(x)[axis])
    total = own.where(x.cast(inner), 0) + grouped(Ops.ADD, sent.where(values, 0), at, axis, shape_of(x)[axis])
    return with_gradient_of(out, (total / number).cast(x.dtype))


def _amin(x: UOp, at: UOp, values: UOp, axis: int, include: bool) -> UOp:
    return compose.mirrored(_amax(compose.mirrored(x), at, compose.mirrored(values), axis, include))


#: By name: from the tensor, positions and values (of one shape), an axis, and whether old elements are folded
#: too.
REDUCE: dict[str, Callable[[UOp, UOp, UOp, int, bool], UOp]] = {
    "sum": _sum,
    "prod": _prod,
    "mean": _mean,
    "amax": _amax,
    "amin": _amin,
}
