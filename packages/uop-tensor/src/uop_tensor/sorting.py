"""The order of elements along an axis, as positions: a sorting network of integers. Week 5.

Each element becomes 64 bits: above, its value as an integer of the same order; below, its position, which makes all of
them different, and the order stable. The network is Batcher's (1968) in the form without directions: to merge two sorted
halves of a block, each element is compared with its mirror image, then halves of halves with each other. All blocks of
a step are one value, so the kernels of a step are few, and the same in each merge.
"""

from __future__ import annotations

from uop_ir import AddrSpace, Ops, UOp, dtypes

from .compose import invert
from .creation import count
from .graph import shape_of
from .picking import picked_along

_SIGNED = {8: dtypes.i8, 16: dtypes.i16, 32: dtypes.i32, 64: dtypes.i64}


def order(x: UOp, axis: int, descending: bool) -> UOp:
    """The positions of the elements along an axis in ascending or descending order, as u32.

    Equal elements, such as 0.0 and -0.0, stay in their order; NaN is greater than all others.
    """
    last = [*(a for a in range(x.ndim) if a != axis), axis]
    back = sorted(range(x.ndim), key=last.__getitem__)
    found: UOp | None = None
    for word in _words(x.permute(last), descending):
        if found is not None:  # by less first, then by more: what is equal then stays in its order
            word = picked_along(word, found, x.ndim - 1)
        at = _order(word)
        found = at if found is None else picked_along(found, at, x.ndim - 1)
    assert found is not None
    return found.permute(back)


def _words(x: UOp, descending: bool) -> list[UOp]:
    """Values as u32 of the same order, or as two, the less significant one first."""
    if x.dtype.is_float:
        bits = x.eq(0).where(x.const_like(0), x).bitcast(_SIGNED[x.dtype.bits])
        # of negative numbers, the greater magnitude is the lesser
        x = (bits < 0).where(bits ^ int(bits.dtype.max), bits)
    wide = x.dtype.bits == 64
    signed, unsigned = (dtypes.i64, dtypes.u64) if wide else (dtypes.i32, dtypes.u32)
    if x.dtype.min < 0:
        x = x.cast(signed).cast(unsigned) ^ (1 << (unsigned.bits - 1))
    x = x.cast(unsigned)
    x = invert(x) if descending else x
    return [x.cast(dtypes.u32), (x >> 32).cast(dtypes.u32)] if wide else [x]


def _order(words: UOp) -> UOp:
    """The positions of u32s along the last axis in ascending order, stable."""
    *front, n = shape_of(words)
    size = 1
    while size < n:
        size *= 2
    x = (words.cast(dtypes.u64) << 32) | count(n, dtypes.u64)
    widths = [*((0, 0) for _ in front), (0, size - n)]
    x = invert(invert(x).pad(widths))  # what is added is the greatest
    block = 2
    while block <= size:
        x = _exchanged(x, block, mirrored=True)
        part = block // 2
        while part > 1:
            x = _exchanged(x, part, mirrored=False)
            part //= 2
        block *= 2
    return x.shrink([*((0, s) for s in front), (0, n)]).cast(dtypes.u32)


def _exchanged(x: UOp, block: int, mirrored: bool) -> UOp:
    """Of each pair of elements the lesser first: in each block those in the same place of both halves, or mirror images."""
    *front, size = shape_of(x)
    half = block // 2
    halves = x.reshape((*front, size // block, 2, half))
    partner = halves.flip([*(False for _ in front), False, True, mirrored])
    second = UOp.const(dtypes.bool, True).reshape((1, 1)).pad([(1, 0), (0, 0)])
    lesser = (partner < halves) ^ second
    return UOp(Ops.STAGE, (lesser.where(partner, halves),), AddrSpace.GLOBAL).reshape(x.shape)
