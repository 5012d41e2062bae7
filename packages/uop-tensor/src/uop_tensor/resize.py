"""Space in another size: interpolation by neighbours, and channels that become space. Week 5."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, isfinite
from typing import NamedTuple, Self, TypeVar

import numpy as np

from uop_ir import UOp

from .conv import Each, each
from .data import Array
from .errors import TensorError
from .promotion import accumulator, as_float
from .shapes import integers
from .unpool import Unpooling

#: For how many axes of space a mode is meant.
RANKS: dict[str, tuple[int, ...]] = {
    "nearest": (1, 2, 3),
    "nearest-exact": (1, 2, 3),
    "linear": (1, 2, 3),
    "bilinear": (2,),
    "trilinear": (3,),
    "bicubic": (2,),
    "area": (1, 2, 3),
}
#: The parameter of the cubic kernel, as in torch.
CUBIC = -0.75
Numbers = TypeVar("Numbers", UOp, Array)


class Axis(NamedTuple):
    """An axis of space that changes its size; a place lies `scale` elements behind the one before it."""

    old: int
    new: int
    scale: float


class Resizing(Unpooling):
    """A tensor is (batch, channels, *space)."""

    def interpolate(
        self,
        size: Each | None = None,
        scale_factor: float | Sequence[float] | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> Self:
        """Space in another size, or in `scale_factor` times its size, rounded down.

        `mode` is "nearest" (the element at floor(i * old / new)), "nearest-exact" (at floor((i + 1/2) * old /
        new)), "linear" (of 1 to 3 axes, also named "bilinear" and "trilinear"), "bicubic" or "area" (as
        `adaptive_avg_pool2d`). Elements are the middles of cells, and space goes from edge to edge; with
        `align_corners` it goes from middle to middle of the outermost. A `scale_factor` is also the distance
        of elements, unless `recompute_scale_factor` takes that from the sizes.
        Integers are interpolated as f32. All as in torch.
        """
        axes = self._axes(size, scale_factor, bool(recompute_scale_factor))
        if mode not in RANKS or len(axes) not in RANKS[mode]:
            raise TensorError(
                f"interpolate: mode={mode!r} for a space of {len(axes)} axes, the tensor having {self.shape}",
                remedy=", ".join(
                    f"{m} ({'-'.join(map(str, sorted({min(r), max(r)})))})" for m, r in RANKS.items()
                ),
            )
        if align_corners is not None and mode in ("nearest", "nearest-exact", "area"):
            raise TensorError(
                f"interpolate: align_corners={align_corners} for mode={mode!r}",
                remedy="it is for linear and cubic modes",
            )
        if mode == "area":
            return self._adaptive_avg(len(axes), [a.new for a in axes])
        x = self
        for number, axis in enumerate(axes, self.ndim - len(axes)):
            if mode in _NEAREST:
                x = x._at(number, axis, _nearest(axis, _NEAREST[mode]))
            else:
                corners = bool(align_corners)
                x = x._weighted(number, *(_cubic if mode == "bicubic" else _linear)(axis, corners))
        return x

    def _axes(
        self, size: Each | None, scale_factor: float | Sequence[float] | None, recompute: bool
    ) -> list[Axis]:
        if (size is None) == (scale_factor is None) or (recompute and scale_factor is None):
            raise TensorError(
                f"interpolate: size={size}, scale_factor={scale_factor}", remedy="give one of them"
            )
        given = size if size is not None else scale_factor
        space = len(given) if isinstance(given, Sequence) else self.ndim - 2
        if not 0 < space <= self.ndim or 0 in self.shape[self.ndim - space :]:
            raise TensorError(
                f"interpolate: a tensor of shape {self.shape}",
                remedy="(batch, channels, *space), with a space that is not empty",
            )
        old = self.shape[self.ndim - space :]
        if size is not None:
            new = each("interpolate", "size", size, space, 1)
            return [Axis(n, m, n / m) for n, m in zip(old, new, strict=True)]
        wanted = list(scale_factor) if isinstance(scale_factor, Sequence) else [scale_factor] * space
        factors = [f for f in wanted if isinstance(f, int | float) and isfinite(f)]
        if len(factors) < space or any(n * f < 1 for n, f in zip(old, factors, strict=True)):
            raise TensorError(
                f"interpolate: scale_factor={scale_factor} for a space of {old}",
                remedy="numbers that leave an element an axis",
            )
        sizes = [floor(n * f) for n, f in zip(old, factors, strict=True)]
        return [
            Axis(n, m, n / m if recompute else 1 / f) for n, m, f in zip(old, sizes, factors, strict=True)
        ]

    def _at(self, number: int, axis: Axis, positions: Array) -> Self:
        """The elements at positions along an axis."""
        times = axis.new // axis.old
        if np.array_equal(positions, np.repeat(np.arange(axis.old), max(times, 1))):
            return self.repeat_interleave(times, number)
        return self[(slice(None),) * number + (positions,)]

    def _weighted(self, number: int, positions: Array, weights: Array) -> Self:
        """The sums of elements at positions (places, neighbours) along an axis, weighted."""
        dtype = as_float(self.dtype)
        inner = accumulator(dtype)
        neighbours = self[(slice(None),) * number + (positions,)].cast(inner)
        tail = (1,) * (self.ndim - number - 1)
        factors = weights.reshape((*weights.shape, *tail)).astype(inner.numpy)
        return (neighbours * factors).sum(number + 1).cast(dtype)

    def pixel_shuffle(self, upscale_factor: int) -> Self:
        """Channels that become space: (..., c * r * r, h, w) to (..., c, h * r, w * r)."""
        (r,) = integers("pixel_shuffle", (upscale_factor,))
        if self.ndim < 3 or r < 1 or self.shape[-3] % (r * r):
            raise TensorError(
                f"pixel_shuffle: {self.shape} by {r}",
                remedy="(..., channels, h, w), with r * r dividing channels",
            )
        *batch, channels, h, w = self.shape
        n = len(batch)
        x = self.reshape((*batch, channels // (r * r), r, r, h, w))
        x = x.permute((*range(n + 1), n + 3, n + 1, n + 4, n + 2))
        return x.reshape((*batch, channels // (r * r), h * r, w * r))

    def pixel_unshuffle(self, downscale_factor: int) -> Self:
        """Space that becomes channels: (..., c, h * r, w * r) to (..., c * r * r, h, w)."""
        (r,) = integers("pixel_unshuffle", (downscale_factor,))
        if self.ndim < 3 or r < 1 or self.shape[-1] % r or self.shape[-2] % r:
            raise TensorError(
                f"pixel_unshuffle: {self.shape} by {r}",
                remedy="(..., channels, h, w), with r dividing h and w",
            )
        *batch, channels, h, w = self.shape
        n = len(batch)
        x = self.reshape((*batch, channels, h // r, r, w // r, r))
        x = x.permute((*range(n + 1), n + 2, n + 4, n + 1, n + 3))
        return x.reshape((*batch, channels * r * r, h // r, w // r))


#: How far behind its beginning a place is looked up.
_NEAREST = {"nearest": 0.0, "nearest-exact": 0.5}


def _nearest(axis: Axis, offset: float) -> Array:
    """The positions of the elements that places take; in f32, as torch reckons them."""
    at = (np.arange(axis.new, dtype=np.float32) + np.float32(offset)) * np.float32(axis.scale)
    found: Array = np.minimum(np.floor(at).astype(np.int64), axis.old - 1)
    return found


def _source(axis: Axis, corners: bool) -> Array:
    """Where the middles of places lie, in elements."""
    places = np.arange(axis.new, dtype=np.float64)
    if corners:
        return places * ((axis.old - 1) / max(axis.new - 1, 1))
    return (places + 0.5) * axis.scale - 0.5


def _linear(axis: Axis, corners: bool) -> tuple[Array, Array]:
    """The two elements around each place, and their weights."""
    at = np.clip(_source(axis, corners), 0, axis.old - 1)
    first = np.floor(at).astype(np.int64)
    share = at - first
    return np.stack([first, np.minimum(first + 1, axis.old - 1)], 1), np.stack([1 - share, share], 1)


def _cubic(axis: Axis, corners: bool) -> tuple[Array, Array]:
    """The four elements around each place, and their weights."""
    at = _source(axis, corners)
    first = np.floor(at)
    away = np.abs((at - first)[:, None] - np.arange(-1, 3))
    positions = first.astype(np.int64)[:, None] + np.arange(-1, 3)
    return np.clip(positions, 0, axis.old - 1), np.where(away <= 1, cubic_near(away), cubic_far(away))


def cubic_near(away: Numbers) -> Numbers:
    """The cubic kernel at distances up to 1.

    Keys: Cubic convolution interpolation for digital image processing, 1981.
    """
    return ((CUBIC + 2) * away - (CUBIC + 3)) * away * away + 1


def cubic_far(away: Numbers) -> Numbers:
    """The cubic kernel at distances from 1 to 2."""
    return ((CUBIC * away - 5 * CUBIC) * away + 8 * CUBIC) * away - 4 * CUBIC
