"""Inference for values: movement and elementwise ops, what each accepts, and what it gives. Week 1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .dtype import CONST_RANGES, Const, DType, Kind, dtypes
from .ops import Ops
from .shapes import (
    ALU,
    VALUE,
    Infer,
    Result,
    all_bools,
    all_natural,
    broadcast,
    extent,
    fail,
    is_of,
    pairs,
    same,
    same_elements,
    same_size,
    sizes,
    text,
)

if TYPE_CHECKING:
    from .uop import UOp

#: What a BITCAST takes and gives.
_BITS = VALUE - {Kind.BOOL, Kind.INDEX}


# movement

#: Axes of a value, at most: one less than an array of NumPy 1 may have, since a fold takes one of its own.
MOST_AXES = 31


def _few(op: Ops, shape: tuple[int | UOp, ...]) -> tuple[int | UOp, ...]:
    if len(shape) > MOST_AXES:
        raise fail(op, f"a value of {len(shape)} axes", f"at most {MOST_AXES}", "sizes")
    return shape


def reshape_type(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    x, shape = src[0], _few(op, sizes(op, src, arg))
    if not same_elements(x.shape, shape):
        raise fail(op, f"{text(x.shape)} does not have as many elements as {text(shape)}", part="sizes")
    return x.dtype, shape, x.addrspace


def expand_type(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    x, shape = src[0], sizes(op, src, arg)
    if len(x.shape) != len(shape) or any(
        a != 1 and not same_size(a, b) for a, b in zip(x.shape, shape, strict=True)
    ):
        what = f"{text(x.shape)} does not grow to {text(shape)}"
        raise fail(op, what, "an axis is kept or grows from 1", "sizes")
    return x.dtype, shape, x.addrspace


def permute_type(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    x = src[0]
    rank = len(x.shape)
    if not (isinstance(arg, tuple) and len(arg) == rank and all_natural(arg) and {*arg} == {*range(rank)}):
        raise fail(op, f"{arg!r} is no order of the axes of {text(x.shape)}", part="axes")
    return x.dtype, tuple([x.shape[a] for a in arg]), x.addrspace


def flip_type(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    x = src[0]
    if not isinstance(arg, tuple) or len(arg) != len(x.shape) or not all_bools(arg):
        raise fail(op, f"{arg!r} for a value of shape {text(x.shape)}", "one bool an axis", "axes")
    return x.dtype, x.shape, x.addrspace


def pad_type(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    x, bounds = src[0], pairs(op, src, arg)
    shape = tuple(_grow(size, before, after) for size, (before, after) in zip(x.shape, bounds, strict=True))
    return x.dtype, shape, ALU


def _grow(size: int | UOp, before: int | UOp, after: int | UOp) -> int | UOp:
    for width in (before, after):
        size = width + size if isinstance(size, int) else (size if width == 0 else size + width)
    return size


def shrink_type(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    x, bounds = src[0], pairs(op, src, arg)
    for size, (begin, end) in zip(x.shape, bounds, strict=True):
        known = [d for d in (begin, end, size) if isinstance(d, int)]
        if known != sorted(known):
            what = f"part {text((begin, end))} of an axis of {text((size,))}"
            raise fail(op, what, "0 <= begin <= end <= size", "sizes")
        if not isinstance(end, int) and end.op is Ops.PARAM and isinstance(size, int) and end.arg.max > size:
            raise fail(op, f"end {end.arg.name} may be {end.arg.max}, past an axis of {size}", part="sizes")
    shape = tuple(extent(begin, end) for begin, end in bounds)
    if any(isinstance(size, int) and size < 0 for size in shape):
        raise fail(op, f"parts of {text(shape)} elements", "0 <= begin <= end <= size", "sizes")
    return x.dtype, shape, x.addrspace


def stack_type(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    first = src[0]
    for x in src[1:]:
        if x.dtype is not first.dtype or not same(x.shape, first.shape):
            raise fail(
                op, f"{x.dtype}{text(x.shape)} beside {first.dtype}{text(first.shape)}", "all must be alike"
            )
    return first.dtype, _few(op, (len(src), *first.shape)), ALU


# values


def const_type(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    if not isinstance(arg, Const):
        raise fail(op, f"arg must be a Const, not {arg!r}", "use UOp.const")
    dtype, bits = arg
    if dtype not in CONST_RANGES:
        raise fail(op, f"no constant is of dtype {dtype!r}", part="dtype")
    least, greatest = CONST_RANGES[dtype]
    if type(bits) is not int or (not least <= bits <= greatest and dtype is not dtypes.index):
        raise fail(op, f"{bits!r} are no bits of {dtype}", "use UOp.const", "bits")
    return dtype, (), ALU


def value_type(kinds: frozenset[Kind], result: DType | None = None) -> Infer:
    """All operands of one dtype, of a kind in `kinds`;
    the result has it too, unless `result` says otherwise.
    """

    def infer_value(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
        dtype, shape, alike = src[0].dtype, src[0].shape, True
        for x in src:
            if x.dtype is not dtype:
                raise fail(op, f"dtype mismatch {dtype} vs {x.dtype}", "use CAST")
            if x.shape != shape:
                alike = False
        if dtype.kind not in kinds:
            names = ", ".join(sorted(k.value for k in kinds))
            raise fail(op, f"operand of dtype {dtype}", f"it takes {names}; use CAST")
        return result or dtype, shape if alike else broadcast(op, [x.shape for x in src]), ALU

    return infer_value


def where_type(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    condition, yes, no = src
    if condition.dtype is not dtypes.bool:
        raise fail(op, f"condition has dtype {condition.dtype}, not bool", "compare it with CMPNE")
    if yes.dtype is not no.dtype:
        raise fail(op, f"dtype mismatch {yes.dtype} vs {no.dtype}", "use CAST")
    if yes.dtype.kind not in VALUE:
        raise fail(op, f"operand of dtype {yes.dtype}", "it takes values")
    return yes.dtype, broadcast(op, [x.shape for x in src]), ALU


def cast_type(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    if not is_of(VALUE, arg) or src[0].dtype.kind not in VALUE:
        raise fail(op, f"from {src[0].dtype} to {arg!r}", part="dtype")
    return arg, src[0].shape, ALU


def bitcast_type(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    if not is_of(_BITS, arg) or src[0].dtype.kind not in _BITS:
        raise fail(op, f"from {src[0].dtype} to {arg!r}", part="dtype")
    if arg.bits != src[0].dtype.bits:
        raise fail(op, f"{src[0].dtype} has {src[0].dtype.bits} bits, {arg} has {arg.bits}", part="dtype")
    return arg, src[0].shape, ALU
