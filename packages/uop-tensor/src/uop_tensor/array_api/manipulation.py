"""Arrays in another shape or order, joined, repeated, taken apart. Week 5."""

from __future__ import annotations

from collections.abc import Sequence

from uop_tensor.errors import TensorError
from uop_tensor.shapes import axes
from uop_tensor.tensor import Tensor

from .array import Array, as_array

Axes = int | tuple[int, ...]


def broadcast_to(x: Tensor, /, shape: tuple[int, ...]) -> Array:
    """An array with new axes in front and axes of size 1 repeated, in this shape."""
    return as_array(x).expand(_sizes(shape))


def broadcast_arrays(*arrays: Tensor) -> list[Array]:
    """Arrays in the shape that they have together."""
    given = [as_array(x) for x in arrays]
    return list(given[0].broadcast_tensors(*given[1:])) if given else []


def concat(arrays: Sequence[Tensor], /, *, axis: int | None = 0) -> Array:
    """Arrays joined along an axis; None: of all elements, row-major."""
    given = _several("concat", arrays)
    if axis is None:
        given, axis = [x.reshape((x.size,)) for x in given], 0
    return given[0].cat(*given[1:], axis=axis)


def stack(arrays: Sequence[Tensor], /, *, axis: int = 0) -> Array:
    """Arrays of one shape along a new axis."""
    given = _several("stack", arrays)
    return given[0].stack(*given[1:], axis=axis)


def _several(function: str, arrays: Sequence[Tensor]) -> list[Array]:
    given = [as_array(x) for x in arrays]
    if not given:
        raise TensorError(f"{function}: no arrays", remedy="give one or more")
    return given


def expand_dims(x: Tensor, /, axis: int = 0) -> Array:
    """A new axis of size 1 at `axis`."""
    return as_array(x).unsqueeze(axis)


def squeeze(x: Tensor, /, axis: Axes) -> Array:
    """Without the axes named. Raises TensorError for one that has another size than 1."""
    array = as_array(x)
    for a in axes("squeeze", array.ndim, axis):
        if array.shape[a] != 1:
            raise TensorError(
                f"squeeze: axis {a} of {array.shape} has size {array.shape[a]}", remedy="name axes of size 1"
            )
    return array.squeeze(axis)


def flip(x: Tensor, /, *, axis: Axes | None = None) -> Array:
    """The named axes (None: all) reversed."""
    return as_array(x).flip(axis)


def moveaxis(x: Tensor, source: Axes, destination: Axes, /) -> Array:
    """Axes moved to other places; the others keep their order."""
    return as_array(x).moveaxis(source, destination)


def permute_dims(x: Tensor, /, axes: tuple[int, ...]) -> Array:
    """The axes in another order."""
    return as_array(x).permute(tuple(axes))


def reshape(x: Tensor, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Array:
    """The same elements, row-major, in another shape;
    one size may be -1. It is a copy, whatever `copy` says.
    """
    return as_array(x).reshape(_sizes(shape))


def roll(x: Tensor, /, shift: Axes, *, axis: Axes | None = None) -> Array:
    """Elements moved on along axes, from the end back to the beginning; with no axis, in row-major order."""
    array = as_array(x)
    if isinstance(axis, tuple) and isinstance(shift, int):
        shift = (shift,) * len(axis)
    return array.roll(shift, axis)


def tile(x: Tensor, repetitions: tuple[int, ...], /) -> Array:
    """The whole repeated along axes; fewer counts than axes are those of the last axes."""
    return as_array(x).tile(_sizes(repetitions))


def repeat(x: Tensor, repeats: int | Tensor, /, *, axis: int | None = None) -> Array:
    """Each element repeated, along an axis (None: of all elements, row-major).

    An array of counts, one an element of the axis, is read.
    """
    return as_array(x).repeat_interleave(repeats if isinstance(repeats, int) else as_array(repeats), axis)


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The parts of size 1 along an axis, without it."""
    return as_array(x).unbind(axis)


def _sizes(given: int | Sequence[int]) -> tuple[int, ...]:
    return (given,) if isinstance(given, int) else tuple(given)
