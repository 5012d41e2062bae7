"""Folding axes: statistics, truth, running sums. Week 5."""

from __future__ import annotations

from uop_ir import DType
from uop_tensor.errors import TensorError
from uop_tensor.promotion import sum_type
from uop_tensor.tensor import Tensor

from .array import Array, as_array

Axes = int | tuple[int, ...] | None


def sum(x: Tensor, /, *, axis: Axes = None, dtype: DType | None = None, keepdims: bool = False) -> Array:
    """The sum; of signed integers and bool in int64, of unsigned ones in uint64, unless a dtype is given."""
    return as_array(x).sum(axis, keepdims, dtype)


def prod(x: Tensor, /, *, axis: Axes = None, dtype: DType | None = None, keepdims: bool = False) -> Array:
    """The product, in the dtype of `sum`."""
    return as_array(x).prod(axis, keepdims, dtype)


def max(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """The greatest; NaN where there is one. Raises TensorError for no elements."""
    return as_array(x).max(axis, keepdims)


def min(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """The least; NaN where there is one. Raises TensorError for no elements."""
    return as_array(x).min(axis, keepdims)


def mean(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """The sum divided by the number of elements."""
    return as_array(x).mean(axis, keepdims)


def var(x: Tensor, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Array:
    """The sum of squared distances from the mean, divided by the number of elements less `correction`."""
    return as_array(x).var(axis, keepdims, correction)


def std(x: Tensor, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Array:
    """The square root of the variance."""
    return as_array(x).std(axis, keepdims, correction)


def any(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """Whether an element is not zero."""
    return as_array(x).any(axis, keepdims)


def all(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """Whether no element is zero."""
    return as_array(x).all(axis, keepdims)


def cumulative_sum(
    x: Tensor, /, *, axis: int | None = None, dtype: DType | None = None, include_initial: bool = False
) -> Array:
    """The sums of the elements up to each one along an axis, in the dtype of `sum`; an axis that is alone
    need not be named. `include_initial` puts the empty sum in front.
    """
    array = as_array(x)
    if axis is None and array.ndim != 1:
        raise TensorError(f"cumulative_sum: an array of shape {array.shape}", remedy="name an axis")
    at = -1 if axis is None else axis
    total = array.cumsum(at, dtype or sum_type(array.dtype))
    if not include_initial:
        return total
    first = [1 if a == at % array.ndim else s for a, s in enumerate(array.shape)]
    return total.full(first, 0, total.dtype).cat(total, axis=at)
