"""The order of elements: sort, topk, search in what is sorted, distinct elements. Week 5."""

from __future__ import annotations

from typing import Self

import numpy as np

from uop_ir import Ops, UOp, dtypes

from . import compose, shapes
from .data import Array, from_array
from .errors import TensorError
from .graph import broadcast_to, known_device, shape_of
from .picking import grouped, picked, picked_along, wrapped
from .promotion import DEFAULT, promote
from .sorting import order
from .value import Operand, device_beside, strong
from .windows import cut
from .writing import Writing


class Ordering(Writing):
    """NaN is greater than all other elements. What is sorted takes its gradient to where it came from.

    To sort n elements costs n log(n)^2 comparisons.
    """

    def sort(self, axis: int = -1, descending: bool = False, stable: bool = True) -> tuple[Self, Self]:
        """The elements along an axis in order, and the positions (i64) that they had.

        Equal elements stay in their order, whatever `stable` says.
        """
        at = shapes.one_axis("sort", self.ndim, axis)
        found = order(self.uop, at, descending)
        return self._of(picked_along(self.uop, found, at)), self._of(found.cast(dtypes.i64))

    def argsort(self, axis: int = -1, descending: bool = False, stable: bool = True) -> Self:
        """The positions of `sort`."""
        at = shapes.one_axis("argsort", self.ndim, axis)
        return self._of(order(self.uop, at, descending).cast(dtypes.i64))

    def topk(self, k: int, axis: int = -1, largest: bool = True, sorted_: bool = True) -> tuple[Self, Self]:
        """The `k` greatest elements along an axis (or the least), and the positions (i64) that they had.

        They are in order, whatever `sorted_` says; of equal elements the first ones are taken.
        """
        at = shapes.one_axis("topk", self.ndim, axis)
        size = self.shape[at]
        if not 0 <= k <= size:
            raise TensorError(f"topk: {k} elements along an axis of size {size}", remedy=f"0 to {size}")
        found = order(self.uop, at, largest)
        found = cut(found, at, 0, k)
        return self._of(picked_along(self.uop, found, at)), self._of(found.cast(dtypes.i64))

    def searchsorted(self, values: Operand, right: bool = False, side: str | None = None) -> Self:
        """Where `values` would be inserted into this tensor,
        sorted along its last axis, so that it stays sorted (i64).

        In front of equal elements, or behind them with `right` or `side="right"`. A vector takes values of
        any shape; otherwise values have the same sizes along all axes but the last. Each takes log(n) reads.
        """
        if side not in (None, "left", "right") or (side == "left" and right):
            raise TensorError(
                f"searchsorted: side={side!r}, right={right}", remedy='side is "left" or "right"'
            )
        if self.ndim == 0:
            raise TensorError("searchsorted: in a tensor of shape ()", remedy="sort along an axis")
        x, wanted = _alike("searchsorted", self, values)
        if self.ndim > 1 and (wanted.ndim != self.ndim or wanted.shape[:-1] != self.shape[:-1]):
            raise TensorError(
                f"searchsorted: values of shape {wanted.shape} in a tensor of shape {self.shape}",
                remedy="the axes in front must be equal",
            )
        return self._of(_search(x, wanted, right or side == "right").cast(dtypes.i64))

    def bucketize(self, boundaries: Operand, right: bool = False) -> Self:
        """`boundaries.searchsorted(self, right)`, of a sorted vector."""
        limits = strong("bucketize", boundaries, device_beside(self))
        if not isinstance(limits, UOp) or limits.ndim != 1:
            raise TensorError("bucketize: boundaries are a sorted vector", remedy="give a tensor or an array")
        return self._of(limits).searchsorted(self, right)

    def unique(
        self,
        sorted_: bool = True,
        return_inverse: bool = False,
        return_counts: bool = False,
        axis: int | None = None,
    ) -> Self | tuple[Self, ...]:
        """The distinct elements in order, or the distinct parts along an axis.

        With them, where asked for: which of them each element (or part) is, and how often each stands there
        (i64). Each NaN is distinct. The elements are read, and the results are constants to `backward`.
        """
        at = None if axis is None else shapes.one_axis("unique", self.ndim, axis)
        found = np.unique(
            self._data("unique"), return_inverse=True, return_counts=True, axis=at, equal_nan=False
        )
        shape = self.shape if at is None else (self.shape[at],)
        return self._chosen(found[0], found[1].reshape(shape), found[2], return_inverse, return_counts)

    def unique_consecutive(
        self, return_inverse: bool = False, return_counts: bool = False, axis: int | None = None
    ) -> Self | tuple[Self, ...]:
        """The elements, or the parts along an axis, without those that are equal to the one before them.

        With them, where asked for: which of them each element (or part) is, and how many each stands for
        (i64). Each NaN is distinct. The elements are read, and the results are constants to `backward`.
        """
        at = None if axis is None else shapes.one_axis("unique_consecutive", self.ndim, axis)
        data = self._data("unique_consecutive")
        parts = data.reshape(-1) if at is None else np.moveaxis(data, at, 0)
        others = tuple(range(1, parts.ndim))
        changed = (parts[1:] != parts[:-1]).any(others)
        first = np.flatnonzero(np.concatenate([np.ones(min(len(parts), 1), np.bool_), changed]))
        counts = np.diff(np.append(first, len(parts)))
        inverse = np.repeat(np.arange(len(first)), counts).reshape(self.shape if at is None else -1)
        found = parts[first] if at is None else np.moveaxis(parts[first], 0, at)
        return self._chosen(found, inverse, counts, return_inverse, return_counts)

    def _chosen(
        self, found: Array, inverse: Array, counts: Array, return_inverse: bool, return_counts: bool
    ) -> Self | tuple[Self, ...]:
        """Arrays that were asked for as tensors; one alone is no tuple."""
        home = known_device(self.uop)
        wanted = ((found, True), (inverse, return_inverse), (counts, return_counts))
        made = tuple(self._of(from_array(np.ascontiguousarray(a), home)) for a, want in wanted if want)
        return made if len(made) > 1 else made[0]

    def bincount(self, weights: Self | None = None, minlength: int = 0) -> Self:
        """How often 0, 1, 2, ... stand in a vector of integers (i64),
        or the sums of what `weights` has there.

        The result has `minlength` elements, or as many as the greatest integer, which is read, asks for.
        """
        if self.ndim != 1 or not self.dtype.is_int:
            raise TensorError(f"bincount: {self.dtype}{self.shape}", remedy="give a vector of integers")
        if weights is not None and weights.shape != self.shape:
            raise TensorError(
                f"bincount: weights of shape {weights.shape} for {self.shape}", remedy="one weight an element"
            )
        data = self._data("bincount")
        if data.min(initial=0) < 0:
            raise TensorError(f"bincount: {data.min()}", remedy="integers from 0")
        n = max(int(data.max()) + 1 if data.size else 0, minlength)
        given = UOp.const(dtypes.i64, 1) if weights is None else weights.uop
        dtype = given.dtype if weights is None or given.dtype.is_float else dtypes.f64
        total = grouped(Ops.ADD, broadcast_to(given.cast(dtype), self.shape), wrapped(self.uop, n), 0, n)
        return self._of(total.cast(dtype))


def _alike(method: str, *given: Operand) -> tuple[UOp, ...]:
    """Nodes of one dtype, which need not broadcast."""
    device = device_beside(*given)
    nodes = [
        n if isinstance(n, UOp) else UOp.const(DEFAULT[type(n)], n)
        for n in (strong(method, x, device) for x in given)
    ]
    dtype = promote(method, *(n.dtype for n in nodes))
    return tuple(n.cast(dtype) for n in nodes)


def _search(x: UOp, values: UOp, right: bool) -> UOp:
    """How many elements of the last axis are less than each value (`right`: at most equal).

    Of `left` elements from the `found`-th on, the half in front is passed by where its last one is less; so
    each read is in range, whatever was found.
    """
    left = shape_of(x)[-1]
    found = broadcast_to(UOp.const(dtypes.u32, 0), values.shape)
    while left:
        half = max(left // 2, 1)
        at = found + (half - 1)
        here = picked(x, at, 0) if x.ndim == 1 else picked_along(x, at, x.ndim - 1)
        passed = compose.invert(_less(values, here)) if right else _less(here, values)
        found = passed.where(found + half, found)
        left = left - half if left > 1 else 0
    return found


def _less(x: UOp, y: UOp) -> UOp:
    """x < y, where NaN is greater than all other numbers."""
    if not x.dtype.is_float:
        return x < y
    return (x < y) | (compose.is_nan(y) & x.eq(x))
