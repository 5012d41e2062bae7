"""Data from Python and NumPy as nodes. Week 5."""

from __future__ import annotations

from array import array as PythonArray
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from uop_ir import DType, UOp, UopError, from_numpy, get_backend

from .errors import TensorError
from .memory import new_buffer
from .promotion import DEFAULT, with_number

Number: TypeAlias = "bool | int | float"
Array: TypeAlias = "npt.NDArray[Any]"
Data: TypeAlias = "Number | Sequence[Any] | Array | np.generic"


def node_of(data: Data, dtype: DType | None, device: str | None) -> UOp:
    """Data as a node: a number as a CONST, all else as a copy in memory.

    Python floats are f32, ints i64; an array, or what NumPy takes for one, keeps its dtype, also in a list.
    Raises TensorError for ragged lists, for ints that `dtype` does
    not hold (those of an array wrap), and for what has no dtype.
    """
    if isinstance(data, bool | int | float) and not isinstance(data, np.generic) and device is None:
        own = dtype or DEFAULT[type(data)]
        with_number("Tensor", own, data)
        return UOp.const(DEFAULT[type(data)], data).cast(own) if own.is_int else UOp.const(own, data)
    typed = _is_typed(data)
    array = _array(data)
    if dtype is None:
        floats = array.dtype == np.float64 and not _holds_f64(data)
        return from_array(array.astype(np.float32) if floats else array, device)
    if not typed and dtype.is_int and array.dtype.kind in "iu":
        for number in (int(array.min(initial=0)), int(array.max(initial=0))):
            with_number("Tensor", dtype, number)
    if dtype.is_int and array.dtype.kind not in "biu":
        return from_array(array, device).cast(dtype)
    return from_array(array.astype(dtype.numpy), device)


def nested(method: str, given: object) -> Array:
    """Nested lists, or what NumPy takes for an array, as one.
    Raises TensorError for rows of unequal length.
    """
    try:
        return np.asarray(given)
    except (ValueError, TypeError, OverflowError) as error:
        raise TensorError(f"{method}: {error}", remedy="nested lists need rows of equal length") from None


def _is_typed(data: object) -> bool:
    """Whether data has a dtype of its own: an array of any library, a number of NumPy, a buffer."""
    return hasattr(data, "__array__") or isinstance(data, memoryview | PythonArray)


def _holds_f64(data: object) -> bool:
    """Whether f64 is the dtype of data, or of something in nested lists: not only that of Python's floats."""
    if _is_typed(data):
        return bool(np.asarray(data).dtype == np.float64)
    return isinstance(data, Sequence) and any(type(x) not in DEFAULT and _holds_f64(x) for x in data)


def _array(data: object) -> Array:
    """What is an array for NumPy, or nested lists of numbers, as an array."""
    if _is_typed(data):
        try:
            return np.asarray(data)
        except (TypeError, RuntimeError) as error:  # of a library whose memory NumPy cannot share
            raise TensorError(f"Tensor: {error}", remedy="use Tensor.from_dlpack") from None
    array = nested("Tensor", data)
    if array.dtype.kind not in "biuf":
        raise TensorError(
            f"Tensor: {type(data).__name__} does not hold numbers", remedy="give numbers, lists or an array"
        )
    return array


def from_array(array: Array, device: str | None = None) -> UOp:
    """A copy of an array in memory of a device. Raises TensorError for a NumPy dtype without counterpart."""
    dtype = dtype_of(array)
    backend = get_backend(device)
    buffer = new_buffer(backend, array.size, dtype)
    backend.copy_in(buffer.memo["memory"].handle, np.array(array, dtype.numpy, order="C"))
    return buffer.reshape(array.shape)


def dtype_of(array: Array) -> DType:
    """The dtype of an array. Raises TensorError for a NumPy dtype without counterpart."""
    try:
        return from_numpy(array.dtype)
    except UopError:
        raise TensorError(
            f"Tensor: no dtype for an array of {array.dtype}", remedy="convert it with astype"
        ) from None
