"""What EXP2, LOG2 and SIN mean: graphs of arithmetic, one builder an op and float type. Week 1.

The interpreter evaluates these graphs and the code generators put them in the op's place, so all agree to the
bit. Each result is at most 2 ulp from the exact value over the whole range.
There is no branch and no loop: they vectorize.
"""

from __future__ import annotations

from collections.abc import Callable

from .arguments import node, operation
from .definition_sin import sine_f32, sine_f64
from .dtype import DType, dtypes
from .errors import VerifyError
from .ops import Ops
from .polynomial import fused, horner
from .uop import UOp

#: (2**f - 1) / f on [-1/2, 1/2], minimax, lowest power first: absolute error 2**-27, then 2**-62.
_EXP2_F32 = (
    0.6931471824645996,
    0.24022650718688965,
    0.055503569543361664,
    0.009618030861020088,
    0.001339086564257741,
    0.0001546963321743533,
)
_EXP2_F64 = (
    0.6931471805599453,
    0.24022650695910072,
    0.055504108664821625,
    0.009618129107628487,
    0.001333355814640647,
    0.000154035303933548,
    1.5252733841557788e-05,
    1.321548682326707e-06,
    1.01780570872494e-07,
    7.054891481587009e-09,
    4.455817988911093e-10,
    2.5737791001291482e-11,
)
#: log2(1 + r) / r for 1 + r from sqrt(1/2) to sqrt(2), minimax: absolute error 2**-27.
_LOG2_F32 = (
    1.4426950216293335,
    -0.7213473320007324,
    0.4808979034423828,
    -0.3606964349746704,
    0.28858527541160583,
    -0.23963662981987,
    0.20429590344429016,
    -0.1906120777130127,
    0.187827467918396,
    -0.11297746747732162,
)
#: (log(1 + r) - 2 s) / s**3 in s**2 where s = r / (2 + r), minimax: absolute error 2**-58.
_LOG_F64 = (
    0.6666666666666666,
    0.40000000000000885,
    0.2857142857079825,
    0.22222222392813573,
    0.18181795532652906,
    0.15386245095643877,
    0.13268638957899023,
    0.1308793779247146,
)
#: 1 / log(2): a part of 24 bits, and the rest.
_INVERSE_LN2 = (1.4426950216293335, 1.9259629911266175e-08)


def _power(n: UOp, dtype: DType, bias: int, digits: int) -> UOp:
    """2**n for an integer n in the range of exponents."""
    return ((n + bias) << n.const_like(digits)).bitcast(dtype)


def _exp2(x: UOp, bound: float, magic: float, digits: int, fraction: Callable[[UOp], UOp]) -> UOp:
    """2**x as 2**f * 2**n with n integer and |f| <= 1/2; `fraction` gives 2**f.

    Adding `magic`, 1.5 * 2**digits, rounds to an integer, which then stands in the low bits. 2**n is
    multiplied in two steps, each in range: the second one alone rounds to a denormal or overflows.
    """
    integer = dtypes.i32 if x.dtype is dtypes.f32 else dtypes.i64
    bias = (1 << (x.dtype.bits - digits - 2)) - 1
    near = (x < -bound).where(x.const_like(-bound), (x > bound).where(x.const_like(bound), x))
    shifted = near + magic
    n = shifted.bitcast(integer) - x.const_like(magic).bitcast(integer)
    half = n >> n.const_like(1)
    value = fraction(near - (shifted - magic))
    return value * _power(half, x.dtype, bias, digits) * _power(n - half, x.dtype, bias, digits)


def _exp2_f32(x: UOp) -> UOp:
    return _exp2(
        x, 160.0, 1.5 * 2.0**23, 23, lambda f: fused(horner(f, _EXP2_F32, fused), f, f.const_like(1))
    )


def _exp2_f64(x: UOp) -> UOp:
    return _exp2(x, 1100.0, 1.5 * 2.0**52, 52, lambda f: horner(f, _EXP2_F64) * f + 1.0)


def _split_exponent(x: UOp, integer: DType, digits: int) -> tuple[UOp, UOp]:
    """For positive x: e as a float, and m - 1, where x is m * 2**e and m lies from sqrt(1/2) to sqrt(2)."""
    bias = (1 << (x.dtype.bits - digits - 2)) - 1
    scale = digits + 1
    small = x < 2.0 ** (1 - bias)
    bits = small.where(x * 2.0**scale, x).bitcast(integer)
    root = x.const_like(0.5**0.5).bitcast(integer)
    one = x.const_like(1.0).bitcast(integer)
    bits = bits + (one - root)
    exponent = (bits >> bits.const_like(digits)) - small.where(
        bits.const_like(bias + scale), bits.const_like(bias)
    )
    mantissa = ((bits & ((1 << digits) - 1)) + root).bitcast(x.dtype)
    return exponent.cast(x.dtype), mantissa - 1.0


def _log2_edges(x: UOp, result: UOp) -> UOp:
    """The logarithm where x is 0, negative, infinite or NaN."""
    infinity = x.const_like(float("inf"))
    result = (x < infinity).where(result, x)
    return (x > 0.0).where(result, x.eq(0.0).where(-infinity, (x < 0.0).where(x.const_like(float("nan")), x)))


def _log2_f32(x: UOp) -> UOp:
    exponent, r = _split_exponent(x, dtypes.i32, 23)
    return _log2_edges(x, fused(horner(r, _LOG2_F32, fused), r, exponent))


def _log2_f64(x: UOp) -> UOp:
    """log(1 + r) is r - r*r/2 + s * (r*r/2 + rest),
    kept in two parts through the multiplication by 1 / log(2).

    The algorithm is that of the log2 of FreeBSD's libm (after fdlibm's log by K. C. Ng).
    """
    exponent, r = _split_exponent(x, dtypes.i64, 52)
    s = r / (r + 2.0)
    z = s * s
    half_square = r * r * 0.5
    correction = s * (half_square + z * horner(z, _LOG_F64))
    high_bits = (r - half_square).bitcast(dtypes.u64) & 0xFFFFFFFF00000000
    high = high_bits.bitcast(dtypes.f64)
    low = ((r - high) - half_square) + correction
    high_factor, low_factor = _INVERSE_LN2
    most = high * high_factor
    least = (low + high) * low_factor + low * high_factor
    total = exponent + most
    least = least + ((exponent - total) + most)
    return _log2_edges(x, total + least)


#: For each op and type its builder.
DEFINITIONS: dict[tuple[Ops, DType], Callable[[UOp], UOp]] = {
    (Ops.EXP2, dtypes.f32): _exp2_f32,
    (Ops.EXP2, dtypes.f64): _exp2_f64,
    (Ops.LOG2, dtypes.f32): _log2_f32,
    (Ops.LOG2, dtypes.f64): _log2_f64,
    (Ops.SIN, dtypes.f32): sine_f32,
    (Ops.SIN, dtypes.f64): sine_f64,
}
DEFINED = frozenset({Ops.EXP2, Ops.LOG2, Ops.SIN})


def definition(op: Ops, x: UOp) -> UOp:
    """The graph that EXP2, LOG2 or SIN of `x` means; f16 and bf16 compute in f32 and round once.

    Raises VerifyError for another op, or for an operand that is no float.
    """
    x = node("definition", x)
    if operation("definition", op) not in DEFINED or not x.dtype.is_float:
        raise VerifyError(
            f"{op!r} of {x.dtype} has no definition", remedy="EXP2, LOG2 and SIN of floats have"
        )
    if x.dtype.bits == 16:
        return DEFINITIONS[op, dtypes.f32](x.cast(dtypes.f32)).cast(x.dtype)
    return DEFINITIONS[op, x.dtype](x)
