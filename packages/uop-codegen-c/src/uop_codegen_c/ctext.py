"""The C of each op: types, literals, templates,
and the helper functions that a kernel may need. Weeks 2 and 6.

A template is filled with the texts of the operands. Everything has one meaning in C: signed arithmetic goes
through unsigned, shifts and divisions through helpers, so that there is no undefined behaviour.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable

import numpy as np

from uop_ir import Const, DType, Kind, Ops, by_name, dtypes

SCALAR: dict[DType, str] = {
    dtypes.bool: "_Bool",
    dtypes.i8: "int8_t",
    dtypes.i16: "int16_t",
    dtypes.i32: "int32_t",
    dtypes.i64: "int64_t",
    dtypes.u8: "uint8_t",
    dtypes.u16: "uint16_t",
    dtypes.u32: "uint32_t",
    dtypes.u64: "uint64_t",
    dtypes.f16: "uint16_t",
    dtypes.bf16: "uint16_t",
    dtypes.f32: "float",
    dtypes.f64: "double",
}
UNSIGNED: dict[DType, DType] = {
    dtypes.i8: dtypes.u8,
    dtypes.i16: dtypes.u16,
    dtypes.i32: dtypes.u32,
    dtypes.i64: dtypes.u64,
}
#: The suffix of a compiler builtin for a float type: __builtin_sqrtf, __builtin_sqrt.
SUFFIX = {dtypes.f32: "f", dtypes.f64: ""}
#: The integer that has a float's width, and the bits of its canonical NaN.
CARRIER = {dtypes.f32: (dtypes.u32, "0x7fc00000u"), dtypes.f64: (dtypes.u64, "0x7ff8000000000000u")}
#: f16 and bf16 are kept as their bits. Of each: bits of the fraction, and the greatest exponent.
NARROW = {dtypes.f16: (10, 15), dtypes.bf16: (7, 127)}
INFIX = {
    Ops.ADD: "+", Ops.SUB: "-", Ops.MUL: "*", Ops.DIV: "/", Ops.AND: "&", Ops.OR: "|", Ops.XOR: "^",
    Ops.CMPLT: "<", Ops.CMPNE: "!=", Ops.CMPEQ: "==",
}  # fmt: skip


def vector(dtype: DType, lanes: int) -> str:
    """The name of a vector type; a vector of bool is a mask of 32-bit integers, 0 or -1."""
    return f"{'i32' if dtype is dtypes.bool else dtype.name}x{lanes}"


def ctype(dtype: DType, lanes: int) -> str:
    """The C type of a value; lanes 1 is a scalar."""
    return SCALAR[dtype] if lanes == 1 else vector(dtype, lanes)


def literal(const: Const) -> str:
    """A constant as C text with exactly its value;
    an int where C makes it one, with its sign in parentheses.
    """
    value, dtype = const.value, const.dtype
    if dtype is dtypes.bool:
        return "1" if value else "0"
    if dtype in NARROW:
        return f"0x{const.bits:04x}"
    if dtype.is_float:
        return _float_literal(float(value), dtype)
    number = int(value)
    if dtype is dtypes.u32:
        return f"{number}u"
    if dtype is dtypes.u64:
        return f"UINT64_C({number})"
    if dtype is dtypes.i64:
        return "INT64_MIN" if number == dtype.min else f"INT64_C({number})"
    if dtype is dtypes.i32 and number == dtype.min:
        return "INT32_MIN"
    return str(number)


def is_canonical(const: Const) -> bool:
    """Whether a NaN is the one that C can write: quiet, positive, of no payload."""
    return const.bits == int(CARRIER[const.dtype][1].rstrip("u"), 16)


def _float_literal(value: float, dtype: DType) -> str:
    if math.isnan(value):
        return f'__builtin_nan{SUFFIX[dtype]}("")'
    if math.isinf(value):
        return f"{'-' if value < 0 else ''}__builtin_inf{SUFFIX[dtype]}()"
    short = repr(value) if dtype is dtypes.f64 else _shortest_f32(value)
    return short + SUFFIX[dtype]


def _shortest_f32(value: float) -> str:
    """The shortest decimal that reads back as the same f32."""
    text = str(np.float32(value))
    return text if any(ch in text for ch in ".en") else text + ".0"


# helpers: a name, and the text that defines it


def typedef(dtype: DType, lanes: int) -> str:
    """A vector type, and the same with the alignment of one element for memory."""
    name, base, size = vector(dtype, lanes), SCALAR[dtype], lanes * dtype.itemsize
    return (
        f"typedef {base} {name} __attribute__((vector_size({size})));\n"
        f"typedef {base} {name}_memory __attribute__((vector_size({size}), aligned({dtype.itemsize}), may_alias));"
    )


_VECTOR = re.compile(rf"\b({'|'.join(t.name for t in SCALAR)})x(\d+)(?=\b|_memory)")


def typedefs(texts: Iterable[str], define: Callable[[DType, int], str]) -> list[str]:
    """The definitions of all vector types that stand in some texts."""
    found = sorted({(name, int(lanes)) for text in texts for name, lanes in _VECTOR.findall(text)})
    return [define(by_name(name), lanes) for name, lanes in found]


def function(name: str, result: str, arguments: str, *lines: str) -> tuple[str, str]:
    """A helper function from its statements."""
    body = "\n".join(f"    {line}" for line in lines)
    return name, f"static inline {result} {name}({arguments}) {{\n{body}\n}}"


def lanewise(scalar: str, result: DType, args: tuple[DType, ...], lanes: int) -> tuple[str, str]:
    """The vector form of a scalar helper, lane by lane."""
    out = vector(result, lanes)
    names = "xyz"[: len(args)]
    arguments = ", ".join(f"{vector(t, lanes)} {n}" for t, n in zip(args, names, strict=True))
    call = f"{scalar}({', '.join(f'{n}[i]' for n in names)})"
    return function(
        f"{scalar}_x{lanes}", out, arguments,
        f"{out} out = {{0}};", f"for (int i = 0; i < {lanes}; i++)", f"    out[i] = {call};", "return out;",
    )  # fmt: skip


def load_helper(t: DType, lanes: int) -> tuple[str, str]:
    """A vector from contiguous memory of any alignment; bytes 0 and 1 become a mask."""
    v = vector(t, lanes)
    if t is dtypes.bool:
        bytes_ = f"*(const {vector(dtypes.u8, lanes)}_memory *)place"
        return function(
            f"load_bool_x{lanes}", v, "const _Bool *place", f"return -__builtin_convertvector({bytes_}, {v});"
        )
    return function(f"load_{v}", v, f"const {SCALAR[t]} *place", f"return *(const {v}_memory *)place;")


def store_helper(t: DType, lanes: int) -> tuple[str, str]:
    """A vector into contiguous memory of any alignment; a mask becomes bytes 0 and 1."""
    v = vector(t, lanes)
    if t is dtypes.bool:
        u = vector(dtypes.u8, lanes)
        value = f"__builtin_convertvector(-x, {u})"
        return function(
            f"store_bool_x{lanes}", "void", f"_Bool *place, {v} x", f"*({u}_memory *)place = {value};"
        )
    return function(f"store_{v}", "void", f"{SCALAR[t]} *place, {v} x", f"*({v}_memory *)place = x;")


def sqrt_helper(t: DType) -> tuple[str, str]:
    return function(f"sqrt_{t}", SCALAR[t], f"{SCALAR[t]} x", f"return __builtin_sqrt{SUFFIX[t]}(x);")


def trunc_helper(t: DType) -> tuple[str, str]:
    return function(f"trunc_{t}", SCALAR[t], f"{SCALAR[t]} x", f"return __builtin_trunc{SUFFIX[t]}(x);")


def fma_helper(t: DType) -> tuple[str, str]:
    s = SCALAR[t]
    return function(f"fma_{t}", s, f"{s} x, {s} y, {s} z", f"return __builtin_fma{SUFFIX[t]}(x, y, z);")


#: Vector fused multiply-add: for each condition of the preprocessor the expression.
#: The lanes of `vfmaddps512_mask`, all of them, are an `unsigned short` to clang and a `short` to gcc.
FMA_VECTOR = {
    (dtypes.f32, 4): {"defined __FMA__": "__builtin_ia32_vfmaddps(x, y, z)"},
    (dtypes.f64, 2): {"defined __FMA__": "__builtin_ia32_vfmaddpd(x, y, z)"},
    (dtypes.f32, 8): {"defined __FMA__": "__builtin_ia32_vfmaddps256(x, y, z)"},
    (dtypes.f64, 4): {"defined __FMA__": "__builtin_ia32_vfmaddpd256(x, y, z)"},
    (dtypes.f32, 16): {
        "defined __AVX512F__ && defined __clang__": "__builtin_ia32_vfmaddps512_mask(x, y, z, 0xffff, 4)",
        "defined __AVX512F__": "__builtin_ia32_vfmaddps512_mask(x, y, z, -1, 4)",
    },
    (dtypes.f64, 8): {"defined __AVX512F__": "__builtin_ia32_vfmaddpd512_mask(x, y, z, 0xff, 4)"},
}


def fma_vector_helper(t: DType, lanes: int) -> tuple[str, str]:
    v = vector(t, lanes)
    lines = [
        f"{v} out;",
        f"for (int i = 0; i < {lanes}; i++)",
        f"    out[i] = __builtin_fma{SUFFIX[t]}(x[i], y[i], z[i]);",
        "return out;",
    ]
    if fused := FMA_VECTOR.get((t, lanes)):
        ifs = [
            line for condition, value in fused.items() for line in (f"#elif {condition}", f"return {value};")
        ]
        lines = ["#if" + ifs[0].removeprefix("#elif"), *ifs[1:], "#else", *lines, "#endif"]
    name, text = function(f"fma_{v}", v, f"{v} x, {v} y, {v} z", *lines)
    return name, text.replace("    #", "#")


def max_helper(t: DType) -> tuple[str, str]:
    s = SCALAR[t]
    test = "y != y || x < y" if t.is_float else "x < y"
    return function(f"max_{t}", s, f"{s} x, {s} y", f"return {test} ? y : x;")


def max_vector_helper(t: DType, lanes: int) -> tuple[str, str]:
    v, m = vector(t, lanes), vector(mask_of(t), lanes)
    test = "(x < y) | (y != y)" if t.is_float else "x < y"
    return function(
        f"max_{v}",
        v,
        f"{v} x, {v} y",
        f"{m} choose_y = {test};",
        f"return ({v})((({m})y & choose_y) | (({m})x & ~choose_y));",
    )


def mask_of(t: DType) -> DType:
    """The signed integer of a type's width, which a vector comparison gives."""
    if t is dtypes.bool:
        return dtypes.i32
    return {1: dtypes.i8, 2: dtypes.i16, 4: dtypes.i32, 8: dtypes.i64}[t.itemsize]


def select_helper(t: DType, lanes: int) -> tuple[str, str]:
    v, wide, mask = vector(t, lanes), vector(mask_of(t), lanes), vector(dtypes.bool, lanes)
    widen = "mask" if wide == mask else f"__builtin_convertvector(mask, {wide})"
    return function(
        f"select_{v}" if t is not dtypes.bool else f"select_bool_x{lanes}",
        v, f"{mask} mask, {v} x, {v} y",
        f"{wide} choose_x = {widen};", f"return ({v})((({wide})x & choose_x) | (({wide})y & ~choose_x));",
    )  # fmt: skip


def xor_helper(t: DType) -> tuple[str, str]:
    s = SCALAR[t]
    return function(f"xor_{t}", s, f"{s} x, {s} y", f"return ({s})(x ^ y);")


def extend_helper(t: DType) -> tuple[str, str]:
    """gcc says of `x | (uint32_t)y` with a narrow signed y that the result may change its sign:
    a helper hides it.
    """
    return function(f"{t}_to_u32", "uint32_t", f"{SCALAR[t]} x", "return (uint32_t)x;")


def floor_div_helper(t: DType) -> tuple[str, str]:
    s = SCALAR[t]
    if t.kind is Kind.UNSIGNED:
        return function(f"div_{t}", s, f"{s} x, {s} y", f"return y == 0 ? 0 : ({s})(x / y);")
    u = SCALAR[UNSIGNED[t]]
    return function(
        f"div_{t}", s, f"{s} x, {s} y",
        "if (y == 0)", "    return 0;",
        "if (y == -1)", f"    return ({s})(0u - ({u})x);",
        f"{s} quotient = ({s})(x / y);",
        f"return ({s})(quotient - (x % y != 0 && (x < 0) != (y < 0)));",
    )  # fmt: skip


def floor_mod_helper(t: DType) -> tuple[str, str]:
    s = SCALAR[t]
    if t.is_float:
        return function(
            f"mod_{t}", s, f"{s} x, {s} y",
            f"{s} rest = __builtin_fmod{SUFFIX[t]}(x, y);",
            "if (rest == 0)", f"    return __builtin_copysign{SUFFIX[t]}(rest, y);",
            "return (rest < 0) != (y < 0) ? rest + y : rest;",
        )  # fmt: skip
    if t.kind is Kind.UNSIGNED:
        return function(f"mod_{t}", s, f"{s} x, {s} y", f"return y == 0 ? x : ({s})(x % y);")
    return function(
        f"mod_{t}", s, f"{s} x, {s} y",
        "if (y == 0)", "    return x;",
        "if (y == -1)", "    return 0;",
        f"{s} rest = ({s})(x % y);",
        f"return rest != 0 && (rest < 0) != (y < 0) ? ({s})(rest + y) : rest;",
    )  # fmt: skip


def shift_helper(op: Ops, t: DType) -> tuple[str, str]:
    s = SCALAR[t]
    u = SCALAR[UNSIGNED.get(t, t)]
    wide = "uint64_t" if t.bits == 64 else "uint32_t"
    if op is Ops.SHL:
        return function(
            f"shl_{t}", s, f"{s} x, {s} y", f"return ({u})y >= {t.bits} ? 0 : ({s})(({wide})x << y);"
        )
    past = "x < 0 ? -1 : 0" if t.kind is Kind.SIGNED else "0"
    return function(
        f"shr_{t}", s, f"{s} x, {s} y", f"return ({u})y >= {t.bits} ? ({s})({past}) : ({s})(x >> y);"
    )


def to_int_helper(source: DType, target: DType) -> tuple[str, str]:
    """float to integer: truncated, saturated, NaN is 0."""
    s, t = SCALAR[source], SCALAR[target]
    top = float(1 << (target.bits - (target.kind is Kind.SIGNED)))
    bottom = -top if target.kind is Kind.SIGNED else 0.0
    high = literal(Const(target, int(target.max)))
    low = literal(Const(target, int(target.min)))
    end = SUFFIX[source]
    return function(
        f"{source}_to_{target}", t, f"{s} x",
        f"if (!(x > {bottom!r}{end}))", f"    return x != x ? 0 : {low};",
        f"return x >= {top!r}{end} ? {high} : ({t})x;",
    )  # fmt: skip


def bits_helper(source: DType, target: DType, lanes: int) -> tuple[str, str]:
    """The bits of a float as an integer; every NaN gives the canonical one."""
    carrier, nan = CARRIER[source]
    s, t = ctype(source, lanes), ctype(target, lanes)
    name = f"bits_{source}_to_{target}" + (f"_x{lanes}" if lanes > 1 else "")
    if lanes == 1:
        c = SCALAR[carrier]
        return function(
            name, t, f"{s} x",
            f"{c} bits;", "__builtin_memcpy(&bits, &x, sizeof bits);", f"return ({t})(x != x ? {nan} : bits);",
        )  # fmt: skip
    c, m = vector(carrier, lanes), vector(mask_of(source), lanes)
    return function(
        name, t, f"{s} x", f"{m} nan = x != x;", f"return ({t})((({c})x & ~({c})nan) | ({nan} & ({c})nan));"
    )


def float_helper(source: DType, target: DType) -> tuple[str, str]:
    """An integer's bits as a float."""
    return function(
        f"float_{source}_to_{target}", SCALAR[target], f"{SCALAR[source]} bits",
        f"{SCALAR[target]} x;", "__builtin_memcpy(&x, &bits, sizeof x);", "return x;",
    )  # fmt: skip


def widen_helper(t: DType) -> tuple[str, str]:
    """The bits of an f16 or bf16 as a float."""
    if t is dtypes.bf16:
        lines = ["uint32_t bits = (uint32_t)h << 16;"]
    else:
        lines = [
            "uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = h & 0x7fff;",
            "if (rest < 0x400) {",
            "    float small = (float)rest * 0x1p-24f;",
            "    return sign ? -small : small;",
            "}",
            "uint32_t bits = sign | ((rest << 13) + (rest < 0x7c00 ? 0x38000000 : 0x70000000));",
        ]
    return function(
        f"{t}_to_f32", "float", "uint16_t h", *lines,
        "float x;", "__builtin_memcpy(&x, &bits, sizeof x);", "return x;",
    )  # fmt: skip


def widen_bf16_helper(lanes: int) -> tuple[str, str]:
    """A vector of the bits of bf16s as floats, whose upper half they are."""
    f, u = vector(dtypes.f32, lanes), vector(dtypes.u32, lanes)
    return function(
        f"bf16_to_f32_x{lanes}", f, f"{vector(dtypes.bf16, lanes)} h",
        f"return ({f})(__builtin_convertvector(h, {u}) << 16);",
    )  # fmt: skip


def narrow_f32_helper(lanes: int) -> tuple[str, str]:
    """Floats as the bits of the nearest bf16, ties to even:
    a carry out of the lower half is right at every exponent.

    In integers, a vector at once: through `round_helper`, a lane by itself, it takes 30 times as long.
    """
    result, rounded = ctype(dtypes.bf16, lanes), "(bits + 0x7fff + (bits >> 16 & 1)) >> 16"
    if lanes == 1:
        return function(
            "f32_to_bf16", result, "float x",
            "uint32_t bits;", "__builtin_memcpy(&bits, &x, sizeof bits);",
            f"return (uint16_t)(x != x ? 0x7fc0 : {rounded});",
        )  # fmt: skip
    f, u = vector(dtypes.f32, lanes), vector(dtypes.u32, lanes)
    return function(
        f"f32_to_bf16_x{lanes}", result, f"{f} x",
        f"{u} bits = ({u})x, nan = ({u})(x != x);",
        f"return __builtin_convertvector((({rounded}) & ~nan) | (0x7fc0 & nan), {result});",
    )  # fmt: skip


def round_helper(t: DType) -> tuple[str, str]:
    """A double as the bits of the nearest f16 or bf16, ties to even."""
    fraction, top = NARROW[t]
    shift, least = 52 - fraction, 1 - top
    infinity = (2 * top + 1) << fraction
    return function(
        f"round_to_{t}", "uint16_t", "double x",
        "uint64_t bits;", "__builtin_memcpy(&bits, &x, sizeof bits);",
        "uint16_t sign = (uint16_t)(bits >> 48 & 0x8000);",
        "double size = sign ? -x : x;",
        "if (x != x)", f"    return 0x{infinity | 1 << (fraction - 1):04x};",
        f"if (size >= 0x{(4 << fraction) - 1:x}p{top - fraction - 1})", f"    return (uint16_t)(sign | 0x{infinity:04x});",
        f"if (size < 0x1p{least})",
        f"    return (uint16_t)(sign | (uint16_t)(size * 0x1p{fraction - least} + 0x1p52 - 0x1p52));",
        f"bits = (bits & 0x7fffffffffffffff) + 0x{(1 << (shift - 1)) - 1:x} + (bits >> {shift} & 1);",
        f"return (uint16_t)(sign | (uint16_t)((bits >> {shift}) - {(1023 - top) << fraction}));",
    )  # fmt: skip


def narrow_helper(source: DType, target: DType) -> tuple[str, str]:
    """A wider type as f16 or bf16, rounded once:
    what a double does not hold of an integer stays as a sticky bit.
    """
    s, name = SCALAR[source], f"{source}_to_{target}"
    if not (source.is_int and source.bits == 64):
        return function(name, "uint16_t", f"{s} x", f"return round_to_{target}((double)x);")
    negative = "x < 0" if source.kind is Kind.SIGNED else "0"
    return function(
        name, "uint16_t", f"{s} x",
        f"uint64_t size = {negative} ? 0u - (uint64_t)x : (uint64_t)x;",
        "if (size >> 53)", "    size = (size >> 11 | ((size & 2047) != 0)) << 11;",
        f"return round_to_{target}({negative} ? -(double)size : (double)size);",
    )  # fmt: skip


def narrow_bits_helper(source: DType, target: DType) -> tuple[str, str]:
    """The bits of an f16 or bf16 as an integer; every NaN gives the canonical one."""
    fraction, top = NARROW[source]
    infinity, t = (2 * top + 1) << fraction, SCALAR[target]
    nan = f"(h & 0x7fff) > 0x{infinity:04x}"
    return function(
        f"bits_{source}_to_{target}", t, "uint16_t h",
        f"return ({t})({nan} ? 0x{infinity | 1 << (fraction - 1):04x} : h);",
    )  # fmt: skip


def broadcast_helper(t: DType, lanes: int) -> tuple[str, str]:
    v = vector(t, lanes)
    name = f"broadcast_{v}" if t is not dtypes.bool else f"broadcast_bool_x{lanes}"
    value = "x ? -1 : 0" if t is dtypes.bool else "x"
    base = SCALAR[dtypes.i32 if t is dtypes.bool else t]
    first = f"{base} lane = {value};"
    return function(name, v, f"{SCALAR[t]} x", first, f"return ({v}){{{', '.join(['lane'] * lanes)}}};")
