"""The order of elements along an axis, as positions: a sorting network of integers. Week 5.

Each element becomes 64 bits: above, its value as an integer of the same order; below, its position, which
makes all of them different, and the order stable. The network is Batcher's (1968) in the form without
directions: to merge two sorted halves of a block, each element is compared with its mirror image, then halves
of halves with each other. A step is one kernel for all blocks, and the same one in each merge: 2 log(n)
kernels to compile, of which log(n)^2 / 2 run.
"""

from __future__ import annotations

from uop_ir import Ops, UOp, dtypes

from .compose import invert
from .creation import count
from .graph import broadcast_to, fold, shape_of, stored
from .picking import grouped, picked_along
from .promotion import SIGNED

#: Up to so many elements are compared each with each: in 2 kernels, which are compiled in half the time of a
#: network's, and run at least as fast (1,000 rows of 32 elements in 3 ms instead of 11;
#: of 64 in 20 ms either way).
FEW = 64


def order(x: UOp, axis: int, descending: bool) -> UOp:
    """The positions of the elements along an axis in ascending or descending order, as u32.

    Equal elements, such as 0.0 and -0.0, stay in their order; NaN is greater than all others.
    """
    last = [*(a for a in range(x.ndim) if a != axis), axis]
    keys = _keys(x.permute(last), descending)
    found = _counted(keys) if shape_of(keys)[-1] <= FEW else _sorted(keys)
    return found.permute(sorted(range(x.ndim), key=last.__getitem__))


def _keys(x: UOp, descending: bool) -> UOp:
    """Values as u32 or u64 of the same order."""
    if x.dtype.is_float:
        bits = x.eq(0).where(x.const_like(0), x).bitcast(SIGNED[x.dtype.bits])
        # of negative numbers, the greater magnitude is the lesser
        x = (bits < 0).where(bits ^ int(bits.dtype.max), bits)
    signed, unsigned = (dtypes.i64, dtypes.u64) if x.dtype.bits == 64 else (dtypes.i32, dtypes.u32)
    if x.dtype.min < 0:
        x = x.cast(signed).cast(unsigned) ^ (1 << (unsigned.bits - 1))
    x = x.cast(unsigned)
    return invert(x) if descending else x


def _counted(keys: UOp) -> UOp:
    """The positions of keys along the last axis in ascending order, from how many come before each."""
    *front, n = shape_of(keys)
    number = count(n, dtypes.u32)
    one, other = keys.reshape((*front, n, 1)), keys.reshape((*front, 1, n))
    before = (other < one) | (other.eq(one) & (number < number.reshape((n, 1))))
    rank = fold(before.cast(dtypes.u32), Ops.ADD, (keys.ndim,))
    return grouped(Ops.ADD, broadcast_to(number, keys.shape), rank, keys.ndim - 1, n)


def _sorted(keys: UOp) -> UOp:
    """The positions of keys along the last axis in ascending order, by the network."""
    if keys.dtype is dtypes.u32:
        return _network((keys.cast(dtypes.u64) << 32) | count(shape_of(keys)[-1], dtypes.u64)).cast(
            dtypes.u32
        )
    # by the lower half first, then by the upper one: what is equal there stays in its order
    axis = keys.ndim - 1
    found = _sorted(keys.cast(dtypes.u32))
    return picked_along(found, _sorted(picked_along((keys >> 32).cast(dtypes.u32), found, axis)), axis)


def _network(x: UOp) -> UOp:
    """The elements along the last axis in ascending order."""
    *front, n = shape_of(x)
    size = 1 << (n - 1).bit_length()
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
    return x.shrink([*((0, s) for s in front), (0, n)])


def _exchanged(x: UOp, block: int, mirrored: bool) -> UOp:
    """Of each pair of elements the lesser first:
    in each block those in the same place of both halves, or mirror images.
    """
    *front, size = shape_of(x)
    half = block // 2
    halves = x.reshape((*front, size // block, 2, half))
    partner = halves.flip([*(False for _ in front), False, True, mirrored])
    second = UOp.const(dtypes.bool, True).reshape((1, 1)).pad([(1, 0), (0, 0)])
    lesser = (partner < halves) ^ second
    return stored(lesser.where(partner, halves)).reshape(x.shape)
