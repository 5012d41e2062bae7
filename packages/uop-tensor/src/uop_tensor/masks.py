"""Masks: what they choose, fill and count; one-hot vectors and diagonals. Week 5."""

from __future__ import annotations

from typing import Self

import numpy as np

from uop_ir import DType, UOp, dtypes

from . import shapes
from .data import Array, Number, from_array
from .einsum import diagonal
from .errors import TensorError
from .graph import broadcast_to, known_device, shape_of
from .indexing import Indexing, as_value
from .memory import numel
from .picking import one_hot, picked
from .value import Value
from .windows import cut


class Masks(Indexing):
    """A mask is a tensor or an array of bool. What has a shape that depends on elements reads them,
    and raises JitError within jit.
    """

    def masked_fill(self, mask: Self | Array, value: Self | Number) -> Self:
        """This tensor with one value, in its dtype,
        where a mask of bool is true; the mask broadcasts to its shape.
        """
        chosen = self._mask("masked_fill", mask)
        new = as_value(self.uop, value)
        if shapes.broadcast("masked_fill", self.shape, chosen.shape, new.shape) != self.shape:
            raise TensorError(
                f"masked_fill: a mask of shape {chosen.shape} and a value of shape {new.shape} for {self.shape}",
                remedy="both broadcast to the shape of the tensor",
            )
        return self._of(broadcast_to(chosen.where(new, self.uop), self.shape))

    def masked_select(self, mask: Self | Array) -> Self:
        """The elements where a mask, with which this tensor broadcasts,
        is true, row-major. The mask is read.
        """
        node = self._mask("masked_select", mask)
        x = broadcast_to(self.uop, shapes.broadcast("masked_select", self.shape, node.shape))
        data = mask._data("masked_select") if isinstance(mask, Value) else np.asarray(mask)
        found = np.flatnonzero(np.broadcast_to(data, shape_of(x)))
        return self._of(picked(x.reshape((numel(x.shape),)), from_array(found, known_device(x)), 0))

    def nonzero(self, as_tuple: bool = False) -> Self | tuple[Self, ...]:
        """Where elements are not zero, row-major, as a matrix of i64 with one row each;
        or as a vector an axis.

        The elements are read.
        """
        data = self.bool()._data("nonzero")
        home = known_device(self.uop)
        if as_tuple:
            return tuple(self._of(from_array(at, home)) for at in np.atleast_1d(data).nonzero())
        return self._of(from_array(np.argwhere(data), home))

    def argwhere(self) -> Self:
        """`nonzero()`."""
        found = self.nonzero()
        assert isinstance(found, Masks)
        return found

    def one_hot(self, num_classes: int = -1, dtype: DType = dtypes.i64) -> Self:
        """A new last axis of `num_classes` elements: 1 at the position that this integer names, else 0.

        -1: one more than the greatest integer, which is read.
        """
        if not self.dtype.is_int:
            raise TensorError(
                f"one_hot: positions of dtype {self.dtype}", remedy="positions are integers; cast them"
            )
        (num_classes,) = shapes.integers("one_hot", (num_classes,))
        if num_classes == -1:
            data = self._data("one_hot")
            num_classes = int(data.max()) + 1 if data.size else 0
        if num_classes < 0:
            raise TensorError(
                f"one_hot: {num_classes} classes", remedy="0 or more, or -1 to read the greatest"
            )
        return self._of(one_hot(self.uop, num_classes).cast(dtype))

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Self:
        """The diagonals of two axes, as a last axis:
        elements whose position along `axis2` is greater by `offset`.
        """
        one, two = (shapes.one_axis("diagonal", self.ndim, a) for a in (axis1, axis2))
        if one == two:
            raise TensorError(f"diagonal: axis {one} twice", remedy="name two axes")
        x = self.uop.permute([*(a for a in range(self.ndim) if a not in (one, two)), one, two])
        rows, columns = shape_of(x)[-2:]
        first = min(max(-offset, 0), rows), min(max(offset, 0), columns)
        n = min(rows - first[0], columns - first[1])
        for axis, begin in zip((-2, -1), first, strict=True):
            x = cut(x, x.ndim + axis, begin, begin + n)
        return self._of(diagonal(x))

    def diag(self, diagonal: int = 0) -> Self:
        """The diagonal of a matrix, or the matrix of zeros that has this vector on its diagonal."""
        if self.ndim == 2:
            return self.diagonal(diagonal)
        if self.ndim != 1:
            raise TensorError(f"diag: a tensor of shape {self.shape}", remedy="give a vector or a matrix")
        return self.diag_embed(diagonal)

    def diag_embed(self, offset: int = 0, axis1: int = -2, axis2: int = -1) -> Self:
        """Matrices of zeros that have the vectors of the last axis on a diagonal, along two new axes:
        `diagonal` undone.
        """
        if self.ndim == 0:
            raise TensorError("diag_embed: a tensor of shape ()", remedy="its last axis is the diagonals")
        one, two = (shapes.one_axis("diag_embed", self.ndim + 1, a) for a in (axis1, axis2))
        if one == two:
            raise TensorError(f"diag_embed: axis {one} twice", remedy="name two axes")
        *batch, n = self.shape
        around = [(0, 0)] * len(batch)
        whole = [(0, s) for s in batch]
        # rows of n + 1 elements that begin with one of the diagonal, read as rows of n
        x = self.uop.reshape((*batch, n, 1)).pad([*around, (0, 0), (0, n)]).reshape((*batch, n * (n + 1)))
        x = x.shrink([*whole, (0, n * n)]).reshape((*batch, n, n))
        above, below = max(offset, 0), max(-offset, 0)
        x = x.pad([*around, (below, above), (above, below)])
        return self._of(x).movedim((-2, -1), (one, two))

    def _mask(self, method: str, given: Value | Array) -> UOp:
        node = (
            given.uop if isinstance(given, Value) else from_array(np.asarray(given), known_device(self.uop))
        )
        if node.dtype is not dtypes.bool:
            raise TensorError(
                f"{method}: a mask of dtype {node.dtype}", remedy="a mask is bool; compare, or cast it"
            )
        return node
