"""Half text: vectors of the bits of f16s to floats and back, in integers, all lanes at once. Week 6.

What they give is what `widen_helper` and `round_helper` of `ctext` give for each lane, bit for bit. Both
halves of a choice are computed, and masks take one: with a lane by itself, and branches, a product and a sum
took 7 times as long.
"""

from __future__ import annotations

from uop_ir import dtypes

from .ctext import function, vector


def widen_f16_helper(lanes: int) -> tuple[str, str]:
    """A vector of the bits of f16s as floats. Subnormal ones are multiples of 2**-24, integers of 1."""
    f, i, u = (vector(t, lanes) for t in (dtypes.f32, dtypes.i32, dtypes.u32))
    return function(
        f"f16_to_f32_x{lanes}", f, f"{vector(dtypes.f16, lanes)} h",
        f"{u} bits = __builtin_convertvector(h, {u}), sign = (bits & 0x8000) << 16, rest = bits & 0x7fff;",
        f"{u} small = ({u})(({i})rest < 0x400), special = ({u})(({i})rest > 0x7bff);",
        f"{u} tiny = ({u})(__builtin_convertvector(({i})rest, {f}) * 0x1p-24f);",
        f"{u} usual = (rest << 13) + 0x38000000 + (special & 0x38000000);",
        f"return ({f})(sign | (tiny & small) | (usual & ~small));",
    )  # fmt: skip


def narrow_f16_helper(lanes: int) -> tuple[str, str]:
    """Floats as the bits of the nearest f16s, ties to even: a carry is right, from 65520 on it is infinity.

    A subnormal is rounded by adding it to 0.5, whose last place is that of the subnormals of f16.
    """
    f, i, u = (vector(t, lanes) for t in (dtypes.f32, dtypes.i32, dtypes.u32))
    result = vector(dtypes.f16, lanes)
    return function(
        f"f32_to_f16_x{lanes}", result, f"{f} x",
        f"{u} bits = ({u})x, sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff, nan = ({u})(x != x);",
        f"{u} small = ({u})(({i})size < 0x38800000), large = ({u})(({i})size > 0x477fefff);",
        f"{u} tiny = ({u})(({f})size + 0.5f) - 0x3f000000;",
        f"{u} usual = ((size + 0xfff + (size >> 13 & 1)) >> 13) - 0x1c000;",
        f"{u} half = (tiny & small) | (usual & ~small & ~large) | (0x7c00 & large) | sign;",
        f"return __builtin_convertvector((half & ~nan) | (0x7e00 & nan), {result});",
    )  # fmt: skip
