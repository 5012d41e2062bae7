"""New arrays. Week 5."""

from __future__ import annotations

from typing import Any

import numpy as np

from uop_ir import DType, dtypes
from uop_tensor.data import Number
from uop_tensor.errors import KindError, ShareError, TensorError
from uop_tensor.tensor import Tensor

from .array import Array, as_array
from .data_types import astype
from .manipulation import stack

Shape = int | tuple[int, ...]


def asarray(
    obj: Any, /, *, dtype: DType | None = None, device: str | None = None, copy: bool | None = None
) -> Array:
    """An array of numbers, nested sequences of numbers and arrays, or of what is an array of any library.

    Memory of another library is shared where `copy` is False, and copied otherwise; an Array is returned as
    it is, unless `copy` is true or the dtype or device is another one.
    Raises ShareError where `copy=False` asks for what there is not.
    """
    if isinstance(obj, Tensor):
        return _moved(as_array(obj), dtype, device, copy)
    if isinstance(obj, complex) and not isinstance(obj, float):
        raise KindError(f"asarray: {obj!r}", remedy="there are no complex numbers")
    shared = hasattr(obj, "__dlpack__")
    if copy is False and shared:
        return _moved(Array.from_dlpack(obj, device, copy=False), dtype, device, False)
    if copy is False:
        raise ShareError(f"asarray: {type(obj).__name__} without a copy", remedy="copy=None")
    if isinstance(obj, list | tuple) and any(_has_arrays(part) for part in obj):
        return _moved(stack([asarray(part) for part in obj]), dtype, device, None)
    if shared and not hasattr(obj, "__array__"):
        return _moved(Array.from_dlpack(obj, copy=True), dtype, device, None)
    if isinstance(obj, memoryview | bytes | bytearray):
        obj = np.asarray(obj)
    return Array(obj, dtype, device)


def _has_arrays(obj: object) -> bool:
    return isinstance(obj, Tensor) or (isinstance(obj, list | tuple) and any(map(_has_arrays, obj)))


def _moved(x: Array, dtype: DType | None, device: str | None, copy: bool | None) -> Array:
    other = dtype not in (None, x.dtype) or device not in (None, x.device)
    if copy is False and other:
        raise ShareError(f"asarray: {x.dtype} on {x.device} in another dtype or device without a copy")
    return astype(x, dtype or x.dtype, copy=bool(copy), device=device)


def from_dlpack(x: Any, /, *, device: str | None = None, copy: bool | None = None) -> Array:
    """An array over the memory of what has `__dlpack__`; see Tensor.from_dlpack."""
    if isinstance(x, Tensor):
        return asarray(x, device=device, copy=copy)
    return Array.from_dlpack(x, device, copy)


def arange(
    start: Number,
    /,
    stop: Number | None = None,
    step: Number = 1,
    *,
    dtype: DType | None = None,
    device: str | None = None,
) -> Array:
    """start, start + step, ... up to stop, excluded; int64 from ints, else float32."""
    return _on(Array.arange(start, stop, step, dtype), device)


def linspace(
    start: Number,
    stop: Number,
    /,
    num: int,
    *,
    dtype: DType | None = None,
    device: str | None = None,
    endpoint: bool = True,
) -> Array:
    """`num` numbers at equal distances from `start` to `stop`, included unless `endpoint` is false."""
    return _on(Array.linspace(start, stop, num, dtype or dtypes.f32, endpoint), device)


def full(shape: Shape, fill_value: Number, *, dtype: DType | None = None, device: str | None = None) -> Array:
    """One number everywhere."""
    return Array.full(shape, fill_value, dtype, device)


def zeros(shape: Shape, *, dtype: DType | None = None, device: str | None = None) -> Array:
    """Zeros; float32 where no dtype is given."""
    return full(shape, 0, dtype=dtype or dtypes.f32, device=device)


def ones(shape: Shape, *, dtype: DType | None = None, device: str | None = None) -> Array:
    """Ones; float32 where no dtype is given."""
    return full(shape, 1, dtype=dtype or dtypes.f32, device=device)


def empty(shape: Shape, *, dtype: DType | None = None, device: str | None = None) -> Array:
    """Zeros: there is no value that is not defined."""
    return zeros(shape, dtype=dtype, device=device)


def full_like(
    x: Tensor, /, fill_value: Number, *, dtype: DType | None = None, device: str | None = None
) -> Array:
    """One number, in the shape, dtype and device of an array."""
    return full(x.shape, fill_value, dtype=dtype or x.dtype, device=device)


def zeros_like(x: Tensor, /, *, dtype: DType | None = None, device: str | None = None) -> Array:
    """Zeros in the shape and dtype of an array."""
    return full_like(x, 0, dtype=dtype, device=device)


def ones_like(x: Tensor, /, *, dtype: DType | None = None, device: str | None = None) -> Array:
    """Ones in the shape and dtype of an array."""
    return full_like(x, 1, dtype=dtype, device=device)


def empty_like(x: Tensor, /, *, dtype: DType | None = None, device: str | None = None) -> Array:
    """Zeros in the shape and dtype of an array."""
    return zeros_like(x, dtype=dtype, device=device)


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: DType | None = None,
    device: str | None = None,
) -> Array:
    """Ones where the column is the row plus `k`, zeros elsewhere."""
    sizes = n_rows, n_rows if n_cols is None else n_cols
    if min(sizes) < 0:
        raise TensorError(f"eye: {sizes[0]} rows and {sizes[1]} columns", remedy="0 or more of each")
    rows, columns = (arange(n, dtype=dtypes.i64) for n in sizes)
    return _on((rows.unsqueeze(1) == columns - k).cast(dtype or dtypes.f32), device)


def tril(x: Tensor, /, *, k: int = 0) -> Array:
    """The last two axes with zeros above a diagonal."""
    return as_array(x).tril(k)


def triu(x: Tensor, /, *, k: int = 0) -> Array:
    """The last two axes with zeros below a diagonal."""
    return as_array(x).triu(k)


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> list[Array]:
    """Vectors spread over a grid, one axis each. Raises TensorError for what are no vectors of one dtype."""
    if indexing not in ("xy", "ij"):
        raise TensorError(f"meshgrid: indexing={indexing!r}", remedy='"xy" or "ij"')
    vectors = [as_array(x) for x in arrays]
    if len({v.dtype for v in vectors}) > 1:
        raise TensorError(f"meshgrid: dtypes {', '.join(str(v.dtype) for v in vectors)}", remedy="cast them")
    return list(vectors[0].meshgrid(*vectors[1:], indexing=indexing)) if vectors else []


def _on(x: Array, device: str | None) -> Array:
    return x if device is None else x.to(device)
