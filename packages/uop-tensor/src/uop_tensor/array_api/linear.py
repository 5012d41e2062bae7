"""Products of matrices and vectors. Week 5."""

from __future__ import annotations

from collections.abc import Sequence

from uop_tensor.errors import TensorError
from uop_tensor.tensor import Tensor

from .array import Array, as_array


def matmul(x1: Tensor, x2: Tensor, /) -> Array:
    """The matrix product over the last two axes, the ones before broadcasting; one axis is a vector."""
    return as_array(x1) @ as_array(x2)


def matrix_transpose(x: Tensor, /) -> Array:
    """The last two axes exchanged."""
    return as_array(x).mT


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Array:
    """The sum of products along an axis, which has as many elements in both; the others broadcast."""
    left, right = (as_array(x).moveaxis(axis, -1) for x in (x1, x2))
    if left.shape[-1] != right.shape[-1]:
        raise TensorError(
            f"vecdot: {left.shape[-1]} and {right.shape[-1]} elements along axis {axis}",
            remedy="as many in both",
        )
    return left.vecdot(right)


def tensordot(x1: Tensor, x2: Tensor, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Array:
    """The sum of products over the last `axes` axes of `x1` and the first ones of `x2`,
    or over the pairs named.
    """
    return as_array(x1).tensordot(as_array(x2), axes)
