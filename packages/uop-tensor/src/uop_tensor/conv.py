"""Convolutions and transposed convolutions of any rank: products of windows and weights, summed. Week 5."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self, TypeAlias

from uop_ir import UOp

from .convolve import convolve, deconvolve
from .errors import TensorError
from .graph import shape_of, stored
from .promotion import promote, refuse_bool
from .ranks import Ranks
from .shapes import integers
from .windows import Sizes

#: One number for all axes of space, or one for each.
Each: TypeAlias = "int | Sequence[int]"


class Convolution(Ranks):
    """A tensor is (batch, channels, *space), or without the batch;
    f16 and bf16 are summed in f32 and rounded once.

    As in all libraries of this kind a convolution does not reverse its weights.
    """

    def conv1d(
        self,
        weight: Self,
        bias: Self | None = None,
        stride: Each = 1,
        padding: Each | str = 0,
        dilation: Each = 1,
        groups: int = 1,
    ) -> Self:
        """`conv2d` over one axis of space."""
        return self._convolution("conv1d", 1, weight, bias, stride, padding, dilation, groups)

    def conv2d(
        self,
        weight: Self,
        bias: Self | None = None,
        stride: Each = 1,
        padding: Each | str = 0,
        dilation: Each = 1,
        groups: int = 1,
    ) -> Self:
        """The sums of products of a weight (out, channels / groups, *size) with each window of its size, plus
        a bias (out,): (batch, out, *places).

        The order of the parameters is torch's. The weight says over how many axes of space, as in tinygrad.
        `stride` is the distance between windows, `dilation` that between the elements of one. `padding` puts
        zeros at both ends of an axis: a number, one for each axis, "valid" (none) or "same" (as many places
        as elements, for a stride of 1; an odd zero stands at the end). Channels and outputs fall into
        `groups`, each with weights of its own.
        """
        return self._convolution("conv2d", None, weight, bias, stride, padding, dilation, groups)

    def conv3d(
        self,
        weight: Self,
        bias: Self | None = None,
        stride: Each = 1,
        padding: Each | str = 0,
        dilation: Each = 1,
        groups: int = 1,
    ) -> Self:
        """`conv2d` over three axes of space."""
        return self._convolution("conv3d", 3, weight, bias, stride, padding, dilation, groups)

    def conv_transpose1d(
        self,
        weight: Self,
        bias: Self | None = None,
        stride: Each = 1,
        padding: Each = 0,
        output_padding: Each = 0,
        groups: int = 1,
        dilation: Each = 1,
    ) -> Self:
        """`conv_transpose2d` over one axis of space."""
        return self._transposed(
            "conv_transpose1d", 1, weight, bias, stride, padding, output_padding, groups, dilation
        )

    def conv_transpose2d(
        self,
        weight: Self,
        bias: Self | None = None,
        stride: Each = 1,
        padding: Each = 0,
        output_padding: Each = 0,
        groups: int = 1,
        dilation: Each = 1,
    ) -> Self:
        """What the gradient of `conv2d` does to that of its result: each element times a weight (channels,
        out / groups, *size), added up at the window of its place.

        The order of the parameters is torch's. `padding` cuts elements off at both ends of an axis, and
        `output_padding`, less than the stride or the dilation, adds some at its end: a convolution with a
        stride has the same number of places for several sizes of its operand.
        """
        return self._transposed(
            "conv_transpose2d", None, weight, bias, stride, padding, output_padding, groups, dilation
        )

    def conv_transpose3d(
        self,
        weight: Self,
        bias: Self | None = None,
        stride: Each = 1,
        padding: Each = 0,
        output_padding: Each = 0,
        groups: int = 1,
        dilation: Each = 1,
    ) -> Self:
        """`conv_transpose2d` over three axes of space."""
        return self._transposed(
            "conv_transpose3d", 3, weight, bias, stride, padding, output_padding, groups, dilation
        )

    def _convolution(
        self,
        method: str,
        rank: int | None,
        weight: Self,
        bias: Self | None,
        stride: Each,
        padding: Each | str,
        dilation: Each,
        groups: int,
    ) -> Self:
        x, w, space = _operands(method, rank, self, weight, groups)
        outputs, channels, *size = shape_of(w)
        if shape_of(x)[1] != channels * groups or outputs % groups:
            raise TensorError(
                f"{method}: {self.shape} and a weight of shape {weight.shape} in {groups} groups",
                remedy="the weight is (out, channels / groups, *size), and groups divides out",
            )
        strides, dilations = (
            each(method, name, given, space, 1)
            for name, given in (("stride", stride), ("dilation", dilation))
        )
        widths = _widths(method, padding, tuple(size), strides, dilations)
        x = x.reshape((x.shape[0], groups, channels, *x.shape[2:]))
        w = w.reshape((groups, outputs // groups, channels, *size))
        padded = x.pad([(0, 0)] * 3 + widths)
        # in memory, so that windows of it are plain loads: each element is read many times
        x = padded if padded is x else stored(padded)
        check_windows(method, self.shape, shape_of(x)[3:], tuple(size), dilations)
        y = convolve(x, w, strides, dilations)
        return self._finished(method, y.reshape((y.shape[0], outputs, *y.shape[3:])), bias)

    def _transposed(
        self,
        method: str,
        rank: int | None,
        weight: Self,
        bias: Self | None,
        stride: Each,
        padding: Each,
        output_padding: Each,
        groups: int,
        dilation: Each,
    ) -> Self:
        x, w, space = _operands(method, rank, self, weight, groups)
        channels, outputs, *size = shape_of(w)
        if shape_of(x)[1] != channels or channels % groups:
            raise TensorError(
                f"{method}: {self.shape} and a weight of shape {weight.shape} in {groups} groups",
                remedy="the weight is (channels, out / groups, *size), and groups divides channels",
            )
        strides, dilations, cuts, more = (
            each(method, name, given, space, least)
            for name, given, least in (
                ("stride", stride, 1),
                ("dilation", dilation, 1),
                ("padding", padding, 0),
                ("output_padding", output_padding, 0),
            )
        )
        if any(m >= max(s, d) for m, s, d in zip(more, strides, dilations, strict=True)):
            raise TensorError(
                f"{method}: output_padding={more} for stride={strides} and dilation={dilations}",
                remedy="it is less than the stride or the dilation",
            )
        lengths = tuple(
            (n - 1) * s + d * (k - 1) + 1 + m - 2 * c
            for n, s, d, k, m, c in zip(shape_of(x)[2:], strides, dilations, size, more, cuts, strict=True)
        )
        if min(lengths) < 1:
            raise TensorError(
                f"{method}: padding={cuts} leaves a space of {lengths} for {self.shape} and a weight of shape "
                f"{weight.shape}",
                remedy="cut off less",
            )
        x = x.reshape((x.shape[0], groups, channels // groups, *x.shape[2:]))
        w = w.reshape((groups, channels // groups, outputs, *size))
        y = deconvolve(x, w, strides, dilations, cuts, lengths)
        return self._finished(method, y.reshape((y.shape[0], groups * outputs, *y.shape[3:])), bias)

    def _finished(self, method: str, y: UOp, bias: Self | None) -> Self:
        """With the bias, and without the batch where there was none."""
        out = self._of(y if y.ndim == self.ndim else y.reshape(y.shape[1:]))
        if bias is None:
            return out
        outputs = shape_of(y)[1]
        if bias.shape != (outputs,):
            raise TensorError(
                f"{method}: a bias of shape {bias.shape}", remedy=f"it has the shape ({outputs},)"
            )
        return out + bias.reshape((outputs, *(1,) * (y.ndim - 2)))


def each(method: str, name: str, given: Each, space: int, least: int) -> Sizes:
    """A parameter as one number for each axis of space. Raises TensorError where one is too small."""
    sizes = integers(method, (given,))
    sizes = sizes * space if len(sizes) == 1 else sizes
    if len(sizes) != space or min(sizes) < least:
        raise TensorError(
            f"{method}: {name}={given!r}",
            remedy=f"one number from {least}, or {space} of them, one an axis of space",
        )
    return sizes


def check_windows(method: str, shape: Sizes, space: Sizes, size: Sizes, dilation: Sizes) -> None:
    """Raise TensorError where a window is longer than an axis."""
    if any(n < d * (k - 1) + 1 or k < 1 for n, k, d in zip(space, size, dilation, strict=True)):
        raise TensorError(
            f"{method}: windows of size {size}, dilation {dilation}, in a padded space of {space}; the tensor has "
            f"the shape {shape}",
            remedy="a window fits into the space; pad more",
        )


def _operands(
    method: str, rank: int | None, x: Convolution, weight: Convolution, groups: int
) -> tuple[UOp, UOp, int]:
    """Nodes of one dtype, the first with a batch, and the number of axes of space."""
    if not isinstance(weight, Convolution):
        raise TensorError(f"{method}: a {type(weight).__name__} is no weight", remedy="give a tensor")
    space = weight.ndim - 2 if rank is None else rank
    if space < 1 or weight.ndim != space + 2 or x.ndim not in (space + 1, space + 2):
        raise TensorError(
            f"{method}: {x.shape} and a weight of shape {weight.shape}",
            remedy="a tensor (batch, channels, *space) or (channels, *space), and a weight with two axes and those "
            "of space",
        )
    if groups < 1:
        raise TensorError(f"{method}: groups={groups}", remedy="at least 1")
    dtype = promote(method, x.dtype, weight.dtype)
    refuse_bool(method, dtype)
    node = x.uop.cast(dtype)
    return node if x.ndim == space + 2 else node.reshape((1, *node.shape)), weight.uop.cast(dtype), space


def _widths(
    method: str, padding: Each | str, size: Sizes, stride: Sizes, dilation: Sizes
) -> list[tuple[int, int]]:
    """(before, after) of each axis of space."""
    if padding == "valid":
        return [(0, 0)] * len(size)
    if padding == "same":
        if any(s != 1 for s in stride):
            raise TensorError(f'{method}: padding="same" for stride={stride}', remedy="the stride is 1")
        missing = [d * (k - 1) for k, d in zip(size, dilation, strict=True)]
        return [(n // 2, n - n // 2) for n in missing]
    if isinstance(padding, str):
        raise TensorError(f"{method}: padding={padding!r}", remedy='a number, numbers, "same" or "valid"')
    return [(n, n) for n in each(method, "padding", padding, len(size), 0)]
