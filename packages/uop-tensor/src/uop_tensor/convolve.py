"""A convolution as nodes: windows times weights, summed in loops whose last one makes vectors. Week 5.

A code generator makes vectors along the last axis that a kernel stores. Along the last axis of space there
are none with a stride, and in short rows they are short at the end; so there, where a convolution is large
enough, its kernel stores the outputs last, from weights that are copied into that order.
benchmarks/convolution.py says what this buys.
"""

from __future__ import annotations

from math import prod

from uop_ir import Ops, UOp

from .graph import OWN_RULE, fold, shape_of, stored, with_gradient_of
from .promotion import accumulator
from .windows import Sizes, cut, spread, windows

#: From how many outputs on they make vectors, and how many products a sum must have to be worth the copies:
#: of a result, which is as large as the result of the convolution, and of the gradient with respect to the
#: weights.
OUTPUTS, PRODUCTS, PRODUCTS_OF_GRADIENT = 8, 64, 16
#: Rows of so many places make vectors: of any number, and of a multiple of four.
LONG_ROW, EVEN_ROW = 48, 24


def convolve(x: UOp, w: UOp, stride: Sizes, dilation: Sizes) -> UOp:
    """x (batch, groups, channels, *space), w (groups, outputs,
    channels, *size): (batch, groups, outputs, *places).

    f16 and bf16 are summed in f32. Its gradients are convolutions too, each with one sum.
    """
    lengths = shape_of(x)[3:]
    seen = windows(x, shape_of(w)[3:], stride, dilation)
    last = _large(w, PRODUCTS) and not _long_rows(shape_of(seen)[2 + len(stride)], stride[-1])
    value = (_outputs_last if last else _places_last)(seen, w)

    def rule(node: UOp, g: UOp) -> tuple[UOp | None, ...]:
        to_w = (_gradient_outputs_last if _large(w, PRODUCTS_OF_GRADIENT) else _gradient)(seen, g)
        return None, deconvolve(g, w, stride, dilation, (0,) * len(stride), lengths), to_w

    node = with_gradient_of(value, x, w)
    node.memo[OWN_RULE] = rule
    return node


def deconvolve(x: UOp, w: UOp, stride: Sizes, dilation: Sizes, cuts: Sizes, lengths: Sizes) -> UOp:
    """x (batch, groups, channels, *places), w (groups, channels,
    outputs, *size): (batch, groups, outputs, *lengths).

    A convolution with the weights reversed, of `x` with zeros around it. Of the space that it fills `cuts`
    elements are left out in front. With a stride s, the elements q * s + r see each s-th weight only, those
    from r on: the weights of the s phases r are weights of as many outputs, which are put side by side at the
    end, and no zero stands between the elements of `x`. With a dilation too, zeros do.
    """
    space = len(stride)
    phases = tuple(s if d == 1 else 1 for s, d in zip(stride, dilation, strict=True))
    wide, outputs = x, shape_of(w)[2]
    for axis, (s, p) in enumerate(zip(stride, phases, strict=True), 3):
        wide = spread(wide, axis, s // p)
    w = _phased(w, phases)
    skipped = [c // p for c, p in zip(cuts, phases, strict=True)]
    turns = [-(-(c + n) // p) - q for c, n, p, q in zip(cuts, lengths, phases, skipped, strict=True)]
    around = [
        (d * (k - 1) - q, n + q - m)
        for d, k, q, n, m in zip(dilation, shape_of(w)[3:], skipped, turns, shape_of(wide)[3:], strict=True)
    ]
    wide = wide.pad([(0, 0)] * 3 + [(max(before, 0), max(after, 0)) for before, after in around])
    for axis, (before, after) in enumerate(around, 3):
        wide = cut(wide, axis, max(-before, 0), shape_of(wide)[axis] - max(-after, 0))
    flipped = w.flip([a > 2 for a in range(w.ndim)]).permute((0, 2, 1, *range(3, 3 + space)))
    value = convolve(wide if wide is x else stored(wide), flipped, (1,) * space, dilation)
    value = _side_by_side(value, outputs, phases)
    for axis, (c, q, p, n) in enumerate(zip(cuts, skipped, phases, lengths, strict=True), 3):
        value = cut(value, axis, c - q * p, c - q * p + n)
    return value


def _phased(w: UOp, phases: Sizes) -> UOp:
    """Weights (groups, channels, outputs, *size) of each phase:
    (groups, channels, outputs * phases, *size / phases).
    """
    space = len(phases)
    if phases == (1,) * space:
        return w
    turns = [-(-k // p) for k, p in zip(shape_of(w)[3:], phases, strict=True)]
    missing = [n * p - k for n, p, k in zip(turns, phases, shape_of(w)[3:], strict=True)]
    w = w.pad([(0, 0)] * 3 + [(0, n) for n in missing])
    w = w.reshape((*w.shape[:3], *(n for pair in zip(turns, phases, strict=True) for n in pair)))
    w = w.permute((0, 1, 2, *range(4, w.ndim, 2), *range(3, w.ndim, 2)))
    return w.reshape((*w.shape[:2], prod(shape_of(w)[2 : 3 + space]), *turns))


def _side_by_side(y: UOp, outputs: int, phases: Sizes) -> UOp:
    """(batch, groups, outputs * phases, *places): (batch, groups, outputs, *(places * phases))."""
    space = len(phases)
    if phases == (1,) * space:
        return y
    batch, groups, _, *places = shape_of(y)
    y = y.reshape((batch, groups, outputs, *phases, *places))
    y = y.permute((0, 1, 2, *(a for n in range(space) for a in (3 + space + n, 3 + n))))
    return y.reshape((batch, groups, outputs, *(n * p for n, p in zip(places, phases, strict=True))))


def _large(w: UOp, products: int) -> bool:
    _, outputs, *summed = shape_of(w)
    return outputs >= OUTPUTS and prod(summed) >= products


def _long_rows(places: int, stride: int) -> bool:
    return stride == 1 and (places >= LONG_ROW or (places >= EVEN_ROW and places % 4 == 0))


def _places_last(seen: UOp, w: UOp) -> UOp:
    """Windows (batch, groups, channels, *places,
    *size) times weights, summed: (batch, groups, outputs, *places).
    """
    space = w.ndim - 3
    batch, groups, channels, *rest = seen.shape
    size, inner = w.shape[3:], accumulator(seen.dtype)
    left = seen.reshape((batch, groups, 1, channels, *rest)).cast(inner)
    right = w.reshape((*w.shape[:3], *(1,) * space, *size)).cast(inner)
    return fold(left * right, Ops.ADD, (3, *range(4 + space, 4 + 2 * space))).cast(seen.dtype)


def _outputs_last(seen: UOp, w: UOp) -> UOp:
    """As `_places_last`, of which it is a view: the kernel stores (batch, groups, *places, outputs)."""
    space = w.ndim - 3
    places, within = range(3, 3 + space), range(3 + space, 3 + 2 * space)
    groups, outputs, channels, *size = w.shape
    inner = accumulator(seen.dtype)
    left = seen.permute((0, 1, *places, 2, *within))
    left = left.reshape((*left.shape[: 2 + space], 1, channels, *size)).cast(inner)
    right = stored(w.permute((0, *range(2, w.ndim), 1))).permute((0, w.ndim - 1, *range(1, w.ndim - 1)))
    right = right.reshape((groups, *(1,) * space, outputs, channels, *size)).cast(inner)
    value = fold(left * right, Ops.ADD, range(3 + space, 4 + 2 * space)).cast(seen.dtype)
    return stored(value).permute((0, 1, 2 + space, *range(2, 2 + space)))


def _gradient(seen: UOp, g: UOp) -> UOp:
    """The sums over batch and places of windows times gradients (batch,
    groups, outputs, *places): the shape of w.
    """
    space = g.ndim - 3
    batch, groups, channels, *rest = seen.shape
    inner = accumulator(seen.dtype)
    left = seen.reshape((batch, groups, 1, channels, *rest)).cast(inner)
    right = g.reshape((*g.shape[:3], 1, *g.shape[3:], *(1,) * space)).cast(inner)
    return fold(left * right, Ops.ADD, (0, *range(4, 4 + space))).cast(g.dtype)


def _gradient_outputs_last(seen: UOp, g: UOp) -> UOp:
    """As `_gradient`, of which it is a view: the kernel stores (groups, *size, channels, outputs)."""
    space = g.ndim - 3
    places, within = range(3, 3 + space), range(3 + space, 3 + 2 * space)
    batch, groups, outputs, *rest = g.shape
    inner = accumulator(seen.dtype)
    left = seen.permute((1, *within, 2, 0, *places))
    left = left.reshape((*left.shape[: 2 + space], 1, batch, *rest)).cast(inner)
    right = stored(g.permute((0, 1, *places, 2))).permute((1, 2 + space, 0, *range(2, 2 + space)))
    right = right.reshape((groups, *(1,) * (space + 1), outputs, batch, *rest)).cast(inner)
    value = fold(left * right, Ops.ADD, range(3 + space, 4 + 2 * space)).cast(g.dtype)
    return stored(value).permute((0, 2 + space, 1 + space, *range(1, 1 + space)))
