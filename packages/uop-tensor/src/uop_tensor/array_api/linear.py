"""Products of matrices and vectors. Week 5."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from uop_tensor import shapes
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
    """The sum of products along an axis, counted from the end; the others broadcast."""
    left, right = (as_array(x).moveaxis(axis, -1) for x in (x1, x2))
    if left.shape[-1] != right.shape[-1]:
        raise TensorError(
            f"vecdot: {left.shape[-1]} and {right.shape[-1]} elements along axis {axis}",
            remedy="as many in both",
        )
    product = left * right
    return product.sum(-1, dtype=product.dtype)


def tensordot(x1: Tensor, x2: Tensor, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Array:
    """The sum of products over the last `axes` axes of `x1` and the first ones of `x2`, or over the pairs named."""
    left, right = as_array(x1), as_array(x2)
    if isinstance(axes, int):
        axes = range(left.ndim - axes, left.ndim), range(axes)
    one, two = (
        [shapes.one_axis("tensordot", x.ndim, a) for a in given]
        for x, given in zip((left, right), axes, strict=True)
    )
    if [left.shape[a] for a in one] != [right.shape[a] for a in two]:
        raise TensorError(
            f"tensordot: axes {one} of {left.shape} and {two} of {right.shape}", remedy="of equal sizes"
        )
    rows = [a for a in range(left.ndim) if a not in one]
    columns = [a for a in range(right.ndim) if a not in two]
    folded = prod(left.shape[a] for a in one)
    x = left.permute(rows + one).reshape((prod(left.shape[a] for a in rows), folded))
    y = right.permute(two + columns).reshape((folded, prod(right.shape[a] for a in columns)))
    return (x @ y).reshape([left.shape[a] for a in rows] + [right.shape[a] for a in columns])
