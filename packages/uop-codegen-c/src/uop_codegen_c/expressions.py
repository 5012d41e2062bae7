"""The text of each value from the texts of its sources. Weeks 2 and 6."""

from __future__ import annotations

import re
from collections.abc import Callable

from uop_ir import BackendError, Const, DType, Kind, Ops, UOp, dtypes
from uop_rewrite import bounds

from . import ctext
from .half_text import narrow_f16_helper, widen_f16_helper
from .loops import length
from .writer import (
    ATOM,
    BITS,
    CHOICE,
    COMPARE,
    CONDITION,
    EQUAL,
    PRODUCT,
    SUM,
    UNARY,
    Renderer,
    Text,
    lane_of,
)

#: Where a text calls a function.
CALL = re.compile(r"\w\(")


def expression(r: Renderer, node: UOp) -> Text:
    """The text of a value from the texts of its sources."""
    rule = EXPRESSION.get(node.op)
    if rule is None:
        raise BackendError(f"the {r.dialect.language} backend has no {node.op!r}")
    return rule(r, node)


def _const(r: Renderer, node: UOp) -> Text:
    if node.dtype in ctext.CARRIER and node.value != node.value and not ctext.is_canonical(node.arg):
        source = ctext.CARRIER[node.dtype][0]
        return Text(
            f"{r.helper(ctext.float_helper(source, node.dtype))}({ctext.literal(Const(source, node.arg.bits))})"
        )
    text = str(node.value) if node.dtype is dtypes.index else ctext.literal(node.arg)
    if (
        node.dtype is dtypes.index and node.value == dtypes.i64.min
    ):  # to C a minus and a number that is too large
        text = ctext.literal(Const(dtypes.i64, node.arg.bits))
    return Text(text, UNARY if text.startswith("-") else ATOM)


def _stack(r: Renderer, node: UOp) -> Text:
    lanes = len(node.src)
    elements = ", ".join(_stack_lane(r, s) for s in node.src)
    return Text(r.dialect.vector.format(r.type(node.dtype, lanes), elements), UNARY)


def _stack_lane(r: Renderer, node: UOp) -> str:
    text = r.text(node).text
    return f"-({text})" if node.dtype is dtypes.bool else text


def _lane_of(r: Renderer, node: UOp) -> Text:
    """INDEX of a vector by a constant lane. INDEX of memory is written where it is loaded or stored."""
    return Text(lane_of(r.operand(node.src[0], 2, ATOM), node.dtype, int(node.src[1].value)), ATOM)


def _arithmetic(r: Renderer, node: UOp) -> Text:
    """ADD, SUB, MUL: signed integers wrap by way of unsigned ones."""
    lanes, dtype, sign = length(node), node.dtype, ctext.INFIX[node.op]
    binding = PRODUCT if node.op is Ops.MUL else SUM
    left_binding, right_binding = binding, binding + (node.op is not Ops.ADD)
    if dtype is dtypes.index and lanes == 1:
        left, right = (s.within(b) for s, b in zip(
            (r.text(node.src[0]), r.text(node.src[1])), (left_binding, right_binding), strict=True))  # fmt: skip
        return Text(f"{left}{sign}{right}", binding)
    left, right = r.operand(node.src[0], lanes, left_binding), r.operand(node.src[1], lanes, binding + 1)
    if dtype.kind is not Kind.SIGNED and not (dtype.kind is Kind.UNSIGNED and dtype.bits < 32 and lanes == 1):
        return Text(f"{left} {sign} {right}", binding)
    if lanes > 1:
        u, t = ctext.vector(ctext.UNSIGNED[dtype], lanes), ctext.vector(dtype, lanes)
    else:
        u, t = ("uint64_t" if dtype.bits == 64 else "uint32_t"), ctext.SCALAR[dtype]
    left, right = r.operand(node.src[0], lanes, UNARY), r.operand(node.src[1], lanes, UNARY)
    return Text(f"({t})(({u}){left} {sign} ({u}){right})", UNARY)


def _infix(binding: int) -> Callable[[Renderer, UOp], Text]:
    """An operator on any type; C computes on int what is narrower,
    and the cast says that it is narrow again.
    """

    def rule(r: Renderer, node: UOp) -> Text:
        lanes = length(node)
        left, right = (r.operand(s, lanes, UNARY) for s in node.src)
        if node.dtype is dtypes.bool and lanes == 1 and CALL.search(left) and CALL.search(right):
            right = f"(int){right}"  # else clang asks if `&&` is meant, which would not call the second
        text = Text(f"{left} {ctext.INFIX[node.op]} {right}", binding)
        narrow = lanes == 1 and node.dtype.is_int and node.dtype.bits < 32
        return Text(f"({ctext.SCALAR[node.dtype]}){text.within(ATOM)}", UNARY) if narrow else text

    return rule


def _exclusive_or(r: Renderer, node: UOp) -> Text:
    """gcc takes `x ^ 255` of a narrow type for a complement and warns where it is compared:
    a helper hides it.
    """
    if length(node) == 1 and node.dtype.is_int and node.dtype.bits < 32:
        return _helper(ctext.xor_helper)(r, node)
    return _infix(BITS)(r, node)


def _compare(r: Renderer, node: UOp) -> Text:
    lanes, source = length(node), r.real(node.src[0].dtype)
    tight = dtypes.index in (node.src[0].dtype,) and lanes == 1
    left, right = (r.operand(s, lanes, SUM if tight else UNARY) for s in node.src)
    binding = COMPARE if node.op is Ops.CMPLT else EQUAL
    if lanes == 1:
        return Text(f"{left} {ctext.INFIX[node.op]} {right}", binding)
    if source is dtypes.bool and node.op is Ops.CMPLT:
        return Text(f"~{left} & {right}", BITS)
    text = f"{left} {ctext.INFIX[node.op]} {right}"
    if ctext.mask_of(source) is dtypes.i32:
        return Text(text, binding)
    return Text(f"__builtin_convertvector({text}, {ctext.vector(dtypes.bool, lanes)})")


def _helper(make: Callable[[DType], tuple[str, str]]) -> Callable[[Renderer, UOp], Text]:
    """A call of a scalar helper, or of its vector form lane by lane."""

    def rule(r: Renderer, node: UOp) -> Text:
        lanes, dtype = length(node), r.real(node.dtype)
        scalar = make(dtype)
        return _call(r, node, scalar, dtype, (dtype,) * len(node.src), lanes)

    return rule


def _call(
    r: Renderer, node: UOp, scalar: tuple[str, str], result: DType, args: tuple[DType, ...], lanes: int
) -> Text:
    name = r.helper(scalar)
    if lanes > 1:
        name = r.helper(scalar, ctext.lanewise(scalar[0], result, args, lanes))
    return Text(f"{name}({', '.join(r.operand(s, lanes) for s in node.src)})")


def _divide(r: Renderer, node: UOp) -> Text:
    """DIV and MOD: floats by operator, index by operator where neither side is negative,
    the rest by helper.
    """
    lanes = length(node)
    if node.dtype.is_float and node.op is Ops.DIV:
        return _infix(PRODUCT)(r, node)
    if (
        node.dtype is dtypes.index
        and lanes == 1
        and bounds(node.src[0])[0] >= 0
        and bounds(node.src[1])[0] > 0
    ):
        left, right = r.text(node.src[0]).within(PRODUCT), r.text(node.src[1]).within(UNARY)
        return Text(f"{left}{'/' if node.op is Ops.DIV else '%'}{right}", PRODUCT)
    return _helper(ctext.floor_div_helper if node.op is Ops.DIV else ctext.floor_mod_helper)(r, node)


def _shift(r: Renderer, node: UOp) -> Text:
    """A shift by a constant below the width is an operator; any other is a helper."""
    lanes, dtype, count = length(node), node.dtype, node.src[1]
    if count.op is Ops.CONST and 0 <= int(count.value) < dtype.bits and dtype.bits >= 32:
        x, n = r.operand(node.src[0], lanes, UNARY), int(count.value)
        if node.op is Ops.SHR:
            return Text(f"{x} >> {n}", BITS)
        if dtype.kind is Kind.UNSIGNED:
            return Text(f"{x} << {n}", BITS)
        unsigned = ctext.UNSIGNED[dtype]
        u = ctext.SCALAR[unsigned] if lanes == 1 else ctext.vector(unsigned, lanes)
        return Text(f"({r.type(dtype, lanes)})(({u}){x} << {n})", UNARY)
    return _helper(lambda t: ctext.shift_helper(node.op, t))(r, node)


def _negate(r: Renderer, node: UOp) -> Text:
    lanes, dtype = length(node), node.dtype
    x = r.operand(node.src[0], lanes, ATOM)
    if dtype.is_float or dtype is dtypes.index:
        return Text(f"-{x}" if not x.startswith("-") else f"-({x})", UNARY)
    unsigned = ctext.UNSIGNED.get(dtype, dtype)
    u = ctext.SCALAR[unsigned] if lanes == 1 else ctext.vector(unsigned, lanes)
    zero = "0u" if lanes == 1 else f"({u}){{0}}"
    return Text(f"({r.type(dtype, lanes)})({zero} - ({u}){x})", UNARY)


def _reciprocal(r: Renderer, node: UOp) -> Text:
    lanes = length(node)
    one = UOp.const(node.dtype, 1.0)
    r.texts.setdefault(one, _const(r, one))
    return Text(f"{r.operand(one, lanes)} / {r.operand(node.src[0], lanes, UNARY)}", PRODUCT)


def _maximum(r: Renderer, node: UOp) -> Text:
    lanes, dtype = length(node), r.real(node.dtype)
    if lanes == 1:
        name = r.helper(ctext.max_helper(dtype))
    else:
        name = r.helper(ctext.max_vector_helper(dtype, lanes))
    return Text(f"{name}({', '.join(r.operand(s, lanes) for s in node.src)})")


def _mulacc(r: Renderer, node: UOp) -> Text:
    lanes, dtype = length(node), node.dtype
    if not dtype.is_float:
        product = UOp(Ops.MUL, node.src[:2])
        r.texts[product] = _arithmetic(r, product)
        return _arithmetic(r, product + node.src[2])
    name = r.helper(ctext.fma_helper(dtype) if lanes == 1 else ctext.fma_vector_helper(dtype, lanes))
    return Text(f"{name}({', '.join(r.operand(s, lanes) for s in node.src)})")


def _wmma(r: Renderer, node: UOp) -> Text:
    if r.dialect.matrix is None:
        raise BackendError(f"the {r.dialect.language} backend has no {node.op!r}")
    name = r.helper(r.dialect.matrix(node.arg))
    return Text(f"{name}({', '.join(r.operand(s, length(s)) for s in node.src)})")


def _where(r: Renderer, node: UOp) -> Text:
    lanes, dtype = length(node), r.real(node.dtype)
    if not node.src[0].shape:
        condition = r.text(node.src[0]).within(CONDITION)
        yes, no = (r.operand(s, lanes, BITS) for s in node.src[1:])
        if yes == no:  # a cast and a bitcast of one integer: gcc makes an int of arms that are the same
            return Text(f"({r.type(node.dtype, lanes)})({condition} ? {yes} : {no})", UNARY)
        return Text(f"{condition} ? {yes} : {no}", CHOICE)
    name = r.helper(ctext.select_helper(dtype, lanes))
    return Text(f"{name}({', '.join(r.operand(s, lanes) for s in node.src)})")


WIDEN_VECTOR = {dtypes.f16: widen_f16_helper, dtypes.bf16: ctext.widen_bf16_helper}


def _cast(r: Renderer, node: UOp) -> Text:
    lanes, source, target = length(node), r.real(node.src[0].dtype), r.real(node.dtype)
    x = r.operand(node.src[0], lanes, UNARY)
    if source is target:
        return Text(x, UNARY)
    if source in ctext.NARROW:
        if target is dtypes.f32 and lanes > 1:
            return Text(f"{r.helper(WIDEN_VECTOR[source](lanes))}({x})")
        if target is dtypes.f32:
            return _call(r, node, ctext.widen_helper(source), target, (source,), lanes)
        wide = UOp(Ops.CAST, (node.src[0],), dtypes.f32)
        r.texts[wide] = _cast(r, wide)
        return _cast(r, UOp(Ops.CAST, (wide,), node.dtype))
    if source is dtypes.f32 and target is dtypes.f16 and lanes > 1:
        return Text(f"{r.helper(narrow_f16_helper(lanes))}({x})")
    if source is dtypes.f32 and target is dtypes.bf16:
        return Text(f"{r.helper(ctext.narrow_f32_helper(lanes))}({x})")
    if target in ctext.NARROW:
        r.helper(ctext.round_helper(target))
        return _call(r, node, ctext.narrow_helper(source, target), target, (source,), lanes)
    if target is dtypes.bool:
        if lanes == 1:
            return Text(f"{x} != 0", EQUAL)
        test = f"{x} != ({ctext.vector(source, lanes)}){{0}}"
        mask = ctext.vector(dtypes.bool, lanes)
        return (
            Text(test, EQUAL)
            if ctext.mask_of(source) is dtypes.i32
            else Text(f"__builtin_convertvector({test}, {mask})")
        )
    if source.is_float and not target.is_float:
        return _call(r, node, ctext.to_int_helper(source, target), target, (source,), lanes)
    if lanes == 1 and target is dtypes.u32 and source in (dtypes.i8, dtypes.i16):
        return _call(r, node, ctext.extend_helper(source), target, (source,), lanes)
    if lanes == 1:
        return Text(f"({ctext.SCALAR[target]}){r.text(node.src[0]).within(UNARY)}", UNARY)
    x = f"-({x})" if source is dtypes.bool else x
    return Text(f"__builtin_convertvector({x}, {ctext.vector(target, lanes)})")


def _bitcast(r: Renderer, node: UOp) -> Text:
    lanes, source, target = length(node), node.src[0].dtype, node.dtype
    x = r.operand(node.src[0], lanes)
    if source in ctext.NARROW and target.is_int:
        return _call(r, node, ctext.narrow_bits_helper(source, target), target, (source,), lanes)
    if source.is_float and not target.is_float:
        return Text(f"{r.helper(ctext.bits_helper(source, target, lanes))}({x})")
    if target in ctext.CARRIER and lanes == 1:
        return Text(f"{r.helper(ctext.float_helper(source, target))}({x})")
    return Text(f"({r.type(target, lanes)}){r.operand(node.src[0], lanes, UNARY)}", UNARY)


EXPRESSION: dict[Ops, Callable[[Renderer, UOp], Text]] = {
    Ops.CONST: _const,
    Ops.STACK: _stack,
    Ops.INDEX: _lane_of,
    Ops.ADD: _arithmetic,
    Ops.SUB: _arithmetic,
    Ops.MUL: _arithmetic,
    Ops.DIV: _divide,
    Ops.MOD: _divide,
    Ops.AND: _infix(BITS),
    Ops.OR: _infix(BITS),
    Ops.XOR: _exclusive_or,
    Ops.SHL: _shift,
    Ops.SHR: _shift,
    Ops.CMPLT: _compare,
    Ops.CMPNE: _compare,
    Ops.CMPEQ: _compare,
    Ops.MAX: _maximum,
    Ops.NEG: _negate,
    Ops.RECIP: _reciprocal,
    Ops.SQRT: _helper(ctext.sqrt_helper),
    Ops.TRUNC: _helper(ctext.trunc_helper),
    Ops.MULACC: _mulacc,
    Ops.WMMA: _wmma,
    Ops.WHERE: _where,
    Ops.CAST: _cast,
    Ops.BITCAST: _bitcast,
}
