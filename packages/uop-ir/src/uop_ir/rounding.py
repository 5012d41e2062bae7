"""Arithmetic that rounds once where NumPy would round twice:
x * y + z, and conversions to 16-bit floats. Week 1.

The tool is rounding to odd: an inexact result takes the neighbour whose last bit is 1. A second rounding, to
at least two bits less, then gives what one rounding of the exact value would give (Boldo and Melquiond,
"Emulation of a FMA and correctly-rounded sums:
proved algorithms using rounding to odd", IEEE Transactions on Computers, 2008).
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from .dtype import DType

Array: TypeAlias = "npt.NDArray[Any]"

#: Where the split products of `_multiply_add_f64` neither overflow nor lose bits: factors, then the addend.
_FACTOR_LEAST, _FACTOR_MOST, _ADDEND_MOST = 2.0**-480, 2.0**480, 2.0**1000
#: Dekker's constant: cuts a float64 into two halves of 26 bits.
_SPLIT = 2.0**27 + 1


def multiply_add(x: Array, y: Array, z: Array) -> Array:
    """x * y + z of float32 or float64, rounded once.
    Overflow and NaN warnings are the caller's to silence.
    """
    return _multiply_add_f32(x, y, z) if x.dtype == np.float32 else _multiply_add_f64(x, y, z)


def _multiply_add_f32(x: Array, y: Array, z: Array) -> Array:
    product = x.astype(np.float64) * y.astype(np.float64)  # exact: 48 bits
    return _add_to_odd(product, z.astype(np.float64)).astype(np.float32)


def _multiply_add_f64(x: Array, y: Array, z: Array) -> Array:
    x, y, z = np.broadcast_arrays(x, y, z)
    plain = np.asarray(x * y + z)
    high, low = _two_product(x, y)
    middle, least = _two_sum(z, low)
    most, rest = _two_sum(high, middle)
    fused = most + _add_to_odd(least, rest)
    finite = np.isfinite(x) & np.isfinite(y) & np.isfinite(z)
    exact = ~finite | (x == 0) | (y == 0)
    small = np.minimum(np.abs(x), np.abs(y)) >= _FACTOR_LEAST
    large = (np.maximum(np.abs(x), np.abs(y)) <= _FACTOR_MOST) & (np.abs(z) <= _ADDEND_MOST)
    out = np.asarray(np.where(exact, plain, fused))
    for at in zip(*np.nonzero(np.atleast_1d(~exact & ~(small & large))), strict=True):
        place = at if out.ndim else ()
        out[place] = _exactly(float(x[place]), float(y[place]), float(z[place]))
    return out


def _exactly(x: float, y: float, z: float) -> float:
    """x * y + z of finite numbers by rational arithmetic."""
    total = Fraction(x) * Fraction(y) + Fraction(z)
    try:
        return float(total)
    except OverflowError:
        return float("inf") if total > 0 else float("-inf")


def _two_sum(x: Array, y: Array) -> tuple[Array, Array]:
    """The sum and its rounding error (Knuth)."""
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


def _two_product(x: Array, y: Array) -> tuple[Array, Array]:
    """The product and its rounding error (Dekker)."""
    product = x * y
    x_high = x * _SPLIT - (x * _SPLIT - x)
    y_high = y * _SPLIT - (y * _SPLIT - y)
    x_low, y_low = x - x_high, y - y_high
    return product, ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low


def _add_to_odd(x: Array, y: Array) -> Array:
    """x + y of float64, rounded to odd."""
    total, error = _two_sum(x, y)
    even = np.asarray(total).view(np.int64) & 1 == 0
    move = np.isfinite(total) & np.isfinite(error) & (error != 0) & even
    return np.asarray(np.where(move, np.nextafter(total, np.copysign(np.inf, error)), total))


def narrow(x: Array, dtype: DType) -> Array:
    """Numbers of any type as float16 or bfloat16, rounded once to nearest even."""
    if x.dtype.itemsize == 8 and x.dtype.kind in "iu":
        # 52 bits and a sticky last one: exact in float64, and on the right side of every midpoint
        x = np.where((x >> 52 == 0) | (x >> 52 == -1), x, ((x >> 12) | (x & 4095 != 0)) << 12)
    if x.dtype == np.float64 or (x.dtype.kind in "iu" and x.dtype.itemsize >= 4):
        x = _to_odd_f32(x.astype(np.float64))
    return np.asarray(x).astype(np.float32).astype(dtype.numpy)


def _to_odd_f32(x: Array) -> Array:
    """float64 as float32, rounded to odd."""
    near = np.asarray(x.astype(np.float32))
    back = near.astype(np.float64)
    bits = near.view(np.uint32) - (np.abs(back) > np.abs(x)).astype(np.uint32)
    return np.asarray(np.where((back == x) | np.isnan(x), near, (bits | np.uint32(1)).view(np.float32)))
