"""Where windows stand in a space: of one size, or as many as asked for. Week 5."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from uop_ir import UOp, dtypes

from . import compose
from .conv import Each, check_windows, each
from .creation import count
from .data import Array
from .errors import TensorError
from .graph import shape_of
from .padding import constant
from .windows import Sizes


class Places(NamedTuple):
    """Where windows of one size stand in a space."""

    lengths: Sizes
    size: Sizes
    stride: Sizes
    padding: Sizes
    dilation: Sizes
    places: Sizes

    def padded(self, x: UOp, value: UOp) -> UOp:
        """The space with all that windows reach."""
        ends = zip(
            self.places, self.size, self.stride, self.dilation, self.padding, self.lengths, strict=True
        )
        widths = [(p, max(p, (m - 1) * s + d * (k - 1) + 1 - n - p)) for m, k, s, d, p, n in ends]
        return constant(x, [(0, 0)] * (x.ndim - len(widths)) + widths, value)

    def positions(self, axis: int) -> UOp:
        """(places, size): the position of each element, negative before the space."""
        places, size = count(self.places[axis], dtypes.i32), count(self.size[axis], dtypes.i32)
        begin = (places * self.stride[axis] - self.padding[axis]).reshape((self.places[axis], 1))
        return begin + size * self.dilation[axis]

    def counts(self, axis: int, padding: bool) -> UOp:
        """How many elements of each window are in the space, or in it and its padding, for axes of places."""
        n, p = self.lengths[axis], self.padding[axis]
        begin = count(self.places[axis], dtypes.i32) * self.stride[axis] - p
        end = compose.minimum(begin + self.size[axis], begin.const_like(n + p))
        if not padding:
            begin, end = begin.maximum(0), compose.minimum(end, end.const_like(n))
        return along(end - begin, axis, len(self.places))


class Part(NamedTuple):
    """Windows of different lengths along an axis: of the i-th, begin[i] to end[i]."""

    begin: Array
    end: Array

    @property
    def positions(self) -> Array:
        """(places, most): the position of each element; behind the end of a window the last one's."""
        last: Array = self.end[:, None] - 1
        return np.where(self.inside, self._reached, last)

    @property
    def inside(self) -> Array:
        """(places, most): whether an element is within its window."""
        return np.less(self._reached, self.end[:, None])

    @property
    def _reached(self) -> Array:
        return np.add(self.begin[:, None], np.arange(int((self.end - self.begin).max())))


def _check_space(method: str, shape: Sizes, space: int) -> Sizes:
    if len(shape) not in (space + 1, space + 2):
        raise TensorError(
            f"{method}: a tensor of shape {shape}",
            remedy=f"(batch, channels, *space) or (channels, *space), with {space} axes of space",
        )
    return shape[-space:]


def places_of(
    method: str,
    shape: Sizes,
    space: int,
    kernel_size: Each,
    stride: Each | None,
    padding: Each,
    dilation: Each,
    ceil_mode: bool,
) -> Places:
    """Windows of one size; with `ceil_mode` the last may reach beyond the space.
    Raises TensorError where they do not fit.
    """
    lengths = _check_space(method, shape, space)
    size = each(method, "kernel_size", kernel_size, space, 1)
    strides = size if stride is None else each(method, "stride", stride, space, 1)
    widths = each(method, "padding", padding, space, 0)
    dilations = each(method, "dilation", dilation, space, 1)
    spans = [d * (k - 1) + 1 for k, d in zip(size, dilations, strict=True)]
    if any(2 * p > span for p, span in zip(widths, spans, strict=True)):
        raise TensorError(f"{method}: padding={widths} for windows of {size}", remedy="at most half a window")
    beyond = [s - 1 if ceil_mode and n else 0 for n, s in zip(lengths, strides, strict=True)]
    space_seen = tuple(n + 2 * p + b for n, p, b in zip(lengths, widths, beyond, strict=True))
    check_windows(method, shape, space_seen, size, dilations)
    found = []
    for n, s, p, span in zip(lengths, strides, widths, spans, strict=True):
        room = n + 2 * p - span
        last = -(-room // s) if ceil_mode else room // s
        found.append(last + (last * s < n + p))
    return Places(lengths, size, strides, widths, dilations, tuple(found))


def parts_of(method: str, shape: Sizes, space: int, output_size: Each | Sequence[int | None]) -> list[Part]:
    """As many windows as asked for along each axis. Raises TensorError for a space that is empty."""
    lengths = _check_space(method, shape, space)
    given = list(output_size) if isinstance(output_size, Sequence) else [output_size] * space
    given = given * space if len(given) == 1 else given
    if len(given) != space or min(lengths) == 0:
        raise TensorError(
            f"{method}: output_size={output_size!r} for a space of {lengths}",
            remedy=f"one number, or {space}, and a space that is not empty",
        )
    filled = [n if m is None else m for m, n in zip(given, lengths, strict=True)]
    counts = each(method, "output_size", filled, space, 1)
    steps = [np.arange(m + 1) for m in counts]
    return [Part(i[:-1] * n // m, -(-i[1:] * n // m)) for i, n, m in zip(steps, lengths, counts, strict=True)]


def crossed(x: UOp, axis: int, space: int) -> UOp:
    """(places, size) of an axis of space, among (*places, *size)."""
    places, size = shape_of(x)
    ones = (1,) * (space - 1)
    return x.reshape((*ones[:axis], places, *ones[axis:], *ones[:axis], size, *ones[axis:]))


def along(x: UOp, axis: int, space: int) -> UOp:
    """(places,) of an axis of space, among (*places,)."""
    return x.reshape((*x.shape, *(1,) * (space - 1 - axis)))
