"""Elements, parts and diagonals replaced, as a new tensor. Week 5."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Self

from uop_ir import Ops, UOp, dtypes

from . import shapes
from .cumulative import running
from .data import Array, Number
from .errors import TensorError
from .gather import REDUCE, Gather, Positions, castable
from .graph import broadcast_to, shape_of, stored
from .indexing import as_value, put_back, written
from .memory import numel
from .picking import named, picked, replaced
from .promotion import refuse_bool
from .selection import Item, as_items
from .value import Value


class Writing(Gather):
    """The results have the shape and dtype of the tensor. Where a position is named twice, the last element
    is taken. Positions in tensors that are out of range write nothing.
    """

    def index_fill(self, axis: int, index: Positions, value: Self | Number) -> Self:
        """This tensor with one value at the positions of a vector along an axis."""
        at = shapes.one_axis("index_fill", self.ndim, axis)
        positions = self._vector("index_fill", index, at)
        new = as_value(self.uop, value)
        if new.ndim:
            raise TensorError(
                f"index_fill: a value of shape {new.shape}", remedy="one number; use index_copy for more"
            )
        size = self.shape[at]
        chosen = named(positions, size).reshape((size, *(1,) * (self.ndim - at - 1)))
        return self._of(broadcast_to(chosen.where(new, self.uop), self.shape))

    def index_copy(self, axis: int, index: Positions, source: Self) -> Self:
        """This tensor with the parts of `source` along an axis at the positions of a vector."""
        at, positions, values = self._parts("index_copy", axis, index, source)
        return self._of(replaced(self.uop, positions, values, at))

    def index_reduce(
        self, axis: int, index: Positions, source: Self, reduce: str, include_self: bool = True
    ) -> Self:
        """This tensor with the parts of `source` that the positions of a vector along an axis name folded
        into its own: "prod", "mean", "amax" or "amin", as `scatter_reduce`.
        """
        if reduce not in REDUCE:
            raise TensorError(f"index_reduce: reduce={reduce!r}", remedy=f"one of {', '.join(REDUCE)}")
        refuse_bool("index_reduce", self.dtype)
        at, positions, values = self._parts("index_reduce", axis, index, source)
        every = broadcast_to(
            positions.reshape((*positions.shape, *(1,) * (self.ndim - at - 1))), values.shape
        )
        return self._of(REDUCE[reduce](self.uop, every, values, at, include_self))

    def index_put(self, indices: Sequence[Item], values: object, accumulate: bool = False) -> Self:
        """This tensor after `x[indices] = values`, or after all of them were added there (`accumulate`).

        `indices` has positions or a mask for each of the first axes; None takes all of one. What is added
        adds up where a position is named twice.
        """
        if accumulate:
            refuse_bool("index_put", self.dtype)
        items = as_items(tuple(slice(None) if i is None else i for i in indices))
        return self._of(written(self.uop, items, as_value(self.uop, values), accumulate=accumulate))

    def put(self, index: Positions, source: Self | Number, accumulate: bool = False) -> Self:
        """This tensor with the elements of `source` at positions of its elements, row-major."""
        flat = self.reshape(-1)
        positions = flat._positions("put", index, 0)
        if isinstance(source, Value) and source.numel() != numel(positions.shape):
            raise TensorError(
                f"put: {source.shape} at positions of shape {positions.shape}", remedy="one element each"
            )
        values = source.reshape(shape_of(positions)) if isinstance(source, Value) else source
        return flat.index_put((self._of(positions),), values, accumulate).reshape(self.shape)

    def masked_scatter(self, mask: Self | Array, source: Self) -> Self:
        """This tensor with the elements of `source`, row-major, one after the other where a mask is true.

        The mask broadcasts to this tensor, and is not read: where it is true more often than `source` has
        elements, these are followed by zeros.
        """
        chosen = self._mask("masked_scatter", mask)
        if shapes.broadcast("masked_scatter", self.shape, chosen.shape) != self.shape:
            raise TensorError(
                f"masked_scatter: a mask of shape {chosen.shape} for {self.shape}",
                remedy="it broadcasts to the shape of the tensor",
            )
        values = castable("masked_scatter", source.uop, self.dtype)
        chosen = broadcast_to(chosen, self.shape)
        flat = chosen.reshape((self.numel(),)).cast(dtypes.i64)
        # stored, so that the running sum is one walk before what it numbers is read
        number = stored(running(flat, Ops.ADD, 0)) - 1
        found = picked(values.reshape((source.numel(),)), number, 0).reshape(self.shape)
        return self._of(chosen.where(found, self.uop))

    # parts

    def select_scatter(self, src: Self, axis: int, index: int) -> Self:
        """This tensor with `src` as its part `select(axis, index)`."""
        at = shapes.one_axis("select_scatter", self.ndim, axis)
        return self._with("select_scatter", src, lambda x: x.select(at, index))

    def slice_scatter(
        self, src: Self, axis: int = 0, start: int | None = None, end: int | None = None, step: int = 1
    ) -> Self:
        """This tensor with `src` as its part `start:end:step` along an axis."""
        at = shapes.one_axis("slice_scatter", self.ndim, axis)
        if step < 1:
            raise TensorError(f"slice_scatter: step={step}", remedy="at least 1")
        part = (slice(None),) * at + (slice(start, end, step),)
        return self._with("slice_scatter", src, lambda x: x[part])

    def diagonal_scatter(self, src: Self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Self:
        """This tensor with `src` as its `diagonal(offset, axis1, axis2)`."""
        return self._with("diagonal_scatter", src, lambda x: x.diagonal(offset, axis1, axis2))

    def _with(self, method: str, src: Self, part: Callable[[Self], Self]) -> Self:
        """This tensor with another value in the place of a view of it."""
        ground = stored(self.uop)  # no movement op sees through it: the way back ends there
        view = part(self._of(ground)).uop
        if src.shape != view.shape:
            raise TensorError(
                f"{method}: {src.shape} for a part of shape {view.shape}", remedy="equal shapes"
            )
        value = castable(method, src.uop, self.dtype)
        if not numel(view.shape):
            return self
        here = put_back(view, ground, broadcast_to(UOp.const(dtypes.bool, True), view.shape))
        return self._of(here.where(put_back(view, ground, value), self.uop))
