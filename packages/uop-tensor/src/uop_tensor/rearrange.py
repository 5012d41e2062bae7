"""Elements arranged anew: repeated, rolled, turned, cut into parts. Week 5."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Self

from . import shapes
from .errors import TensorError
from .graph import broadcast_to
from .movement import join, several
from .padding import Padding
from .windows import windows


class Rearrange(Padding):
    """What repeats is expanded, not copied; what is cut off is a view."""

    # other names and shapes

    def view_as(self, other: Self) -> Self:
        """`reshape` to the shape of another tensor."""
        return self.reshape(other.shape)

    reshape_as = view_as

    def expand_as(self, other: Self) -> Self:
        """`expand` to the shape of another tensor."""
        return self.expand(other.shape)

    def broadcast_tensors(self, *others: Self) -> tuple[Self, ...]:
        """This tensor and others, expanded to the shape that they broadcast to."""
        every = several("broadcast_tensors", (self, *others))
        shape = shapes.broadcast("broadcast_tensors", *(t.shape for t in every))
        return tuple(t._of(broadcast_to(t.uop, shape)) for t in every)

    def meshgrid(self, *others: Self, indexing: str = "ij") -> tuple[Self, ...]:
        """For tensors of one axis, or none, grids of the coordinates of every combination.

        Axis i of the grids belongs to tensor i; with `indexing="xy"` the first two axes are exchanged.
        """
        every = several("meshgrid", (self, *others))
        if indexing not in ("ij", "xy"):
            raise TensorError(f"meshgrid: indexing={indexing!r}", remedy='give "ij" or "xy"')
        for t in every:
            if t.ndim > 1:
                raise TensorError(f"meshgrid: a tensor of shape {t.shape}", remedy="it has one axis, or none")
        order = list(range(len(every)))
        if indexing == "xy":
            order[:2] = order[:2][::-1]
        grid = [0] * len(every)
        for t, axis in zip(every, order, strict=True):
            grid[axis] = t.numel()
        spread = [[n if a == axis else 1 for a, n in enumerate(grid)] for axis in order]
        return tuple(t.reshape(s).expand(grid) for t, s in zip(every, spread, strict=True))

    def unflatten(self, axis: int, sizes: Sequence[int]) -> Self:
        """One axis as several of these sizes; one size may be -1."""
        at = shapes.one_axis("unflatten", self.ndim, axis)
        new = shapes.filled("unflatten", self.shape[at : at + 1], shapes.integers("unflatten", (sizes,)))
        return self.reshape((*self.shape[:at], *new, *self.shape[at + 1 :]))

    # axes in another order

    def movedim(self, source: int | Sequence[int], destination: int | Sequence[int]) -> Self:
        """Axes moved to other places; the others keep their order."""
        given = [_many(axes) for axes in (source, destination)]
        old, new = ([shapes.one_axis("movedim", self.ndim, a) for a in axes] for axes in given)
        if len(old) != len(new) or len(set(old)) != len(old) or len(set(new)) != len(new):
            raise TensorError(
                f"movedim: {source} to {destination}", remedy="name as many places as axes, each once"
            )
        place = dict(zip(new, old, strict=True))
        rest = (a for a in range(self.ndim) if a not in old)
        return self.permute([place[a] if a in place else next(rest) for a in range(self.ndim)])

    moveaxis = movedim

    def swapaxes(self, first: int, second: int) -> Self:
        """Two axes exchanged."""
        return self.transpose(first, second)

    swapdims = swapaxes

    def rot90(self, k: int = 1, axes: Sequence[int] = (0, 1)) -> Self:
        """Turned k times by 90 degrees, from the first towards the second of two axes."""
        first, second = _pair_of_axes("rot90", self.ndim, axes)
        turned = self if k % 4 in (0, 3) else self.flip(second if k % 4 == 1 else (first, second))
        turned = turned if k % 4 != 3 else self.transpose(first, second).flip(second)
        return turned.transpose(first, second) if k % 4 == 1 else turned

    def fliplr(self) -> Self:
        """Axis 1 reversed."""
        if self.ndim < 2:
            raise TensorError(f"fliplr: a tensor of shape {self.shape}", remedy="it needs two axes or more")
        return self.flip(1)

    def flipud(self) -> Self:
        """Axis 0 reversed."""
        return self.flip(0)

    def roll(self, shifts: int | Sequence[int], axis: int | Sequence[int] | None = None) -> Self:
        """Elements moved on along axes, from the end back to the beginning;
        with no axis, in row-major order.
        """
        counts = _many(shifts)
        if axis is None:
            if len(counts) != 1:
                raise TensorError(
                    f"roll: shifts {counts} along no axis", remedy="name an axis for each shift"
                )
            return self.reshape(-1 if self.numel() else 0).roll(counts[0], 0).reshape(self.shape)
        axes = [shapes.one_axis("roll", self.ndim, a) for a in _many(axis)]
        if len(axes) != len(counts):
            raise TensorError(f"roll: shifts {counts} along axes {axes}", remedy="give one shift an axis")
        x = self
        for count, at in zip(counts, axes, strict=True):
            size = x.shape[at]
            back = count % size if size else 0
            if back:
                parts = x.narrow(at, size - back, back).uop, x.narrow(at, 0, size - back).uop
                x = self._of(join(parts, at))
        return x

    # joined

    def hstack(self, *others: Self) -> Self:
        """This tensor and others joined along axis 1; vectors and numbers along axis 0."""
        parts = self._of_axes("hstack", others, 1)
        return parts[0].cat(*parts[1:], axis=min(parts[0].ndim - 1, 1))

    def vstack(self, *others: Self) -> Self:
        """This tensor and others joined along axis 0; a vector is a row."""
        parts = self._of_axes("vstack", others, 2)
        return parts[0].cat(*parts[1:], axis=0)

    def dstack(self, *others: Self) -> Self:
        """This tensor and others joined along axis 2;
        a vector of n numbers is (1, n, 1), a matrix gets a last axis.
        """
        parts = self._of_axes("dstack", others, 2)
        parts = [x.unsqueeze(2) if x.ndim == 2 else x for x in parts]
        return parts[0].cat(*parts[1:], axis=2)

    def _of_axes(self, method: str, others: Sequence[Self], least: int) -> list[Self]:
        """Each with at least as many axes, new ones in front."""
        every = several(method, (self, *others))
        return [x.reshape((*(1,) * (least - x.ndim), *x.shape)) for x in every]

    # repeated

    def repeat(self, *times: int | Sequence[int]) -> Self:
        """The whole repeated along each axis; more counts than axes add axes in front."""
        return self._tiled("repeat", shapes.integers("repeat", times))

    def tile(self, *times: int | Sequence[int]) -> Self:
        """The whole repeated, as `repeat`; fewer counts than axes are those of the last axes."""
        counts = shapes.integers("tile", times)
        return self._tiled("tile", (1,) * (self.ndim - len(counts)) + counts)

    def _tiled(self, method: str, counts: tuple[int, ...]) -> Self:
        if len(counts) < self.ndim or min(counts, default=0) < 0:
            raise TensorError(
                f"{method}: {counts} for a tensor of shape {self.shape}",
                remedy="give one count from 0 an axis",
            )
        old = (1,) * (len(counts) - self.ndim) + self.shape
        x = self.uop.reshape([n for s in old for n in (1, s)])
        x = x.expand([n for c, s in zip(counts, old, strict=True) for n in (c, s)])
        return self._of(x.reshape([c * s for c, s in zip(counts, old, strict=True)]))

    def _interleaved(self, times: int, axis: int) -> Self:
        """Each element `times` times, along an axis."""
        if times < 0:
            raise TensorError(f"repeat_interleave: {times} times", remedy="give a count from 0")
        before, after = self.shape[: axis + 1], self.shape[axis + 1 :]
        x = self.uop.reshape((*before, 1, *after)).expand((*before, times, *after))
        return self._of(x.reshape((*before[:-1], before[-1] * times, *after)))

    # parts

    def narrow(self, axis: int, start: int, length: int) -> Self:
        """`length` elements of an axis from `start` on, which counts from the end where it is negative."""
        at = shapes.one_axis("narrow", self.ndim, axis)
        begin, count = shapes.integers("narrow", (start, length))
        size = self.shape[at]
        first = begin + size if begin < 0 else begin
        if count < 0 or not 0 <= first <= first + count <= size:
            raise TensorError(
                f"narrow: {count} elements from {begin} of an axis of size {size}",
                remedy="they must lie within it",
            )
        return self.shrink([(first, first + count) if a == at else None for a in range(self.ndim)])

    def split(self, sizes: int | Sequence[int], axis: int = 0) -> tuple[Self, ...]:
        """Parts of these sizes along an axis; one size:
        parts of that size, the last one shorter if it must be.
        """
        at = shapes.one_axis("split", self.ndim, axis)
        size = self.shape[at]
        if not isinstance(sizes, Sequence):
            (most,) = shapes.integers("split", (sizes,))
            if most < 1:
                raise TensorError(f"split: parts of size {most}", remedy="at least 1")
            sizes = [min(most, size - begin) for begin in range(0, size, most)] or [0]
        if sum(sizes) != size or min(sizes, default=0) < 0:
            raise TensorError(
                f"split: {list(sizes)} of an axis of size {size}", remedy="the sizes must add up to it"
            )
        return tuple(self.narrow(at, end - n, n) for n, end in zip(sizes, accumulate(sizes), strict=True))

    def chunk(self, count: int, axis: int = 0) -> tuple[Self, ...]:
        """At most `count` parts of equal size along an axis, the last one shorter if it must be."""
        if count < 1:
            raise TensorError(f"chunk: {count} parts", remedy="at least 1")
        size = self.shape[shapes.one_axis("chunk", self.ndim, axis)]
        return self.split(max(-(-size // count), 1), axis)

    def tensor_split(self, sections: int | Sequence[int], axis: int = 0) -> tuple[Self, ...]:
        """As many parts as `sections` says, the first ones longer by one if they must be;
        or cut at these positions.
        """
        at = shapes.one_axis("tensor_split", self.ndim, axis)
        size = self.shape[at]
        if not isinstance(sections, Sequence):
            (parts,) = shapes.integers("tensor_split", (sections,))
            if parts < 1:
                raise TensorError(f"tensor_split: {parts} parts", remedy="at least 1")
            short, longer = divmod(size, parts)
            return self.split([short + (i < longer) for i in range(parts)], at)
        cuts = [slice(c).indices(size)[1] for c in shapes.integers("tensor_split", (sections,))]
        bounds = zip([0, *cuts], [*cuts, size], strict=True)
        return tuple(self.narrow(at, begin, max(end - begin, 0)) for begin, end in bounds)

    def unbind(self, axis: int = 0) -> tuple[Self, ...]:
        """The parts of size 1 along an axis, without it."""
        at = shapes.one_axis("unbind", self.ndim, axis)
        return tuple(self.narrow(at, i, 1).squeeze(at) for i in range(self.shape[at]))

    def unfold(self, axis: int, size: int, step: int) -> Self:
        """Windows of `size` elements of an axis, `step` apart:
        that axis is the windows, a new last one what is in them.
        """
        at = shapes.one_axis("unfold", self.ndim, axis)
        length, stride = shapes.integers("unfold", (size, step))
        if not 0 < length <= self.shape[at] or stride < 1:
            raise TensorError(
                f"unfold: windows of {length}, {stride} apart, of an axis of size {self.shape[at]}",
                remedy="windows fit into the axis, and stand 1 apart or more",
            )
        x = windows(self.movedim(at, -1).uop, (length,), (stride,), (1,))
        return self._of(x).movedim(-2, at)


def _many(given: int | Sequence[int]) -> tuple[int, ...]:
    return tuple(given) if isinstance(given, Sequence) else (given,)


def _pair_of_axes(method: str, ndim: int, axes: Sequence[int]) -> tuple[int, int]:
    found = [shapes.one_axis(method, ndim, a) for a in axes]
    if len(found) != 2 or found[0] == found[1]:
        raise TensorError(f"{method}: axes {tuple(axes)}", remedy="name two axes")
    return found[0], found[1]
