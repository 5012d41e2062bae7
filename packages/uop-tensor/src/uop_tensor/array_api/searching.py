"""Positions: indexing, searching, sorting, distinct elements. Week 5."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from uop_tensor.data import Number, from_array
from uop_tensor.errors import TensorError
from uop_tensor.graph import known_device
from uop_tensor.tensor import Tensor

from .array import Array, as_array


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Array:
    """The elements at the positions of a vector along an axis, which need not be named for a vector.

    Negative positions count from the end. Raises TensorError for positions of other shapes.
    """
    array, at = as_array(x), as_array(indices)
    if at.ndim != 1 or (axis is None and array.ndim != 1):
        raise TensorError(
            f"take: positions of shape {at.shape} of an array of shape {array.shape}, axis {axis}",
            remedy="a vector, and an axis",
        )
    return array.take(at, 0 if axis is None else axis)


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """The position of the first greatest element along an axis (None: of all, row-major); NaN is greatest."""
    return as_array(x).argmax(axis, keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """The position of the first least element along an axis (None: of all, row-major); NaN is least."""
    return as_array(x).argmin(axis, keepdims)


def nonzero(x: Tensor, /) -> tuple[Array, ...]:
    """Where elements are not zero, row-major, as a vector an axis.
    Raises TensorError for an array without axes.
    """
    array = as_array(x)
    if array.ndim == 0:
        raise TensorError("nonzero: an array of shape ()", remedy="it has no axis")
    found = array.nonzero(as_tuple=True)
    assert isinstance(found, tuple)
    return found


def where(condition: Tensor, x1: Tensor | Number, x2: Tensor | Number, /) -> Array:
    """`x1` where a condition of bool is true, else `x2`."""
    return as_array(condition).where(x1, x2)


def searchsorted(x1: Tensor, x2: Tensor, /, *, side: str = "left", sorter: Tensor | None = None) -> Array:
    """Where `x2` would be inserted into the vector `x1`, which is sorted, or is in the order of `sorter`."""
    vector = as_array(x1)
    if vector.ndim != 1:
        raise TensorError(f"searchsorted: in an array of shape {vector.shape}", remedy="give a vector")
    if sorter is not None:
        vector = take(vector, sorter)
    return vector.searchsorted(as_array(x2), side=side)


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """The elements along an axis in order; equal ones stay in their order. NaN is greatest."""
    return as_array(x).sort(axis, descending, stable)[0]


def argsort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """The positions of `sort`."""
    return as_array(x).argsort(axis, descending, stable)


class UniqueAll(NamedTuple):
    """Distinct elements, where each first stands,
    which of them each element is, and how often each stands there.
    """

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCounts(NamedTuple):
    """Distinct elements, and how often each stands there."""

    values: Array
    counts: Array


class UniqueInverse(NamedTuple):
    """Distinct elements, and which of them each element is."""

    values: Array
    inverse_indices: Array


def unique_all(x: Tensor, /) -> UniqueAll:
    """The distinct elements in order; each NaN is distinct. Elements are read."""
    array = as_array(x)
    data = array.numpy()
    values, first, inverse, counts = np.unique(
        data, return_index=True, return_inverse=True, return_counts=True, equal_nan=False
    )
    home = known_device(array.uop)
    made = (values, first, inverse.reshape(data.shape), counts)
    return UniqueAll(*(Array._of(from_array(a, home)) for a in made))


def unique_counts(x: Tensor, /) -> UniqueCounts:
    """The distinct elements in order, and how often each stands there."""
    found = unique_all(x)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """The distinct elements in order, and which of them each element is."""
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_values(x: Tensor, /) -> Array:
    """The distinct elements in order."""
    return unique_all(x).values
