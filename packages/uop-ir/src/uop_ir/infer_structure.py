"""Inference for kernels, memory and loops: what each op accepts, and what it gives. Week 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import arguments
from .dtype import DType, Kind, dtypes
from .errors import VerifyError
from .ops import AddrSpace, Alloc, AxisType, Buffer, Ops, Param
from .ranges import open_ranges, own_sources, postorder
from .shapes import (
    ALU,
    NUMBER,
    VALUE,
    Result,
    all_natural,
    broadcast,
    fail,
    is_of,
    same,
    text,
)

if TYPE_CHECKING:
    from .uop import UOp

#: The ops that a REDUCE can fold with, and the value that it starts from.
REDUCE_IDENTITY: dict[Ops, Callable[[DType], float | int]] = {
    Ops.ADD: lambda dtype: 0,
    Ops.MUL: lambda dtype: 1,
    Ops.MAX: lambda dtype: dtype.min,
}


_MEMORY = VALUE - {Kind.INDEX}


# memory and kernels


def buffer_type(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    if (
        not isinstance(arg, Buffer)
        or not all_natural((arg.size, arg.slot))
        or not is_of(_MEMORY, arg.dtype)
        or not isinstance(arg.device, str)
    ):
        raise fail(op, f"arg must be a Buffer of a dtype that has memory, not {arg!r}", part="dtype")
    return arg.dtype, (arg.size,), AddrSpace.GLOBAL


def _is_space(arg: object) -> bool:
    return isinstance(arg, AddrSpace) and arg is not ALU


def alloc_type(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    if (
        not isinstance(arg, Alloc)
        or not all_natural((arg.size, arg.slot))
        or not is_of(VALUE, arg.dtype)
        or not _is_space(arg.addrspace)
    ):
        raise fail(op, f"arg must be an Alloc in REG, LOCAL or GLOBAL, not {arg!r}")
    return arg.dtype, (arg.size,), arg.addrspace


def param_type(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    if not isinstance(arg, Param) or not is_of(VALUE, arg.dtype):
        raise fail(op, f"arg must be a Param, not {arg!r}")
    if arg.size is not None:
        if not all_natural((arg.size, arg.slot)) or arg.dtype is dtypes.index:
            raise fail(op, "memory needs a slot and a size that are at least 0, and a dtype other than index")
        return arg.dtype, (arg.size,), AddrSpace.GLOBAL
    if not isinstance(arg.name, str) or not arg.name.isidentifier() or arg.slot is not None:
        what = f"a scalar is told apart by its name alone, an identifier, not {arg.name!r}"
        raise fail(op, what, part="slot" if arg.slot is not None else "name")
    if arg.dtype is dtypes.index and not (type(arg.min) is type(arg.max) is int and arg.min <= arg.max):
        kinds = {type(arg.min), type(arg.max)} - {int, type(None)}
        remedy = f"int() makes an int of {' and '.join(sorted(k.__name__ for k in kinds))}" if kinds else None
        what = f"variable {arg.name} needs min <= max, has min={arg.min} max={arg.max}"
        raise fail(op, what, remedy, "min")
    return arg.dtype, (), ALU


def index_type(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    x, at = src[0], src[1]
    if len(x.shape) != 1:
        raise fail(op, f"memory or vector must have one axis, has shape {text(x.shape)}", "RESHAPE it first")
    if at.dtype is not dtypes.index:
        raise fail(op, f"position has dtype {at.dtype}, not index", "CAST it to index")
    if len(src) == 3 and src[2].dtype is not dtypes.bool:
        raise fail(op, f"validity has dtype {src[2].dtype}, not bool")
    shape = at.shape if len(src) == 2 else broadcast(op, [at.shape, src[2].shape])
    return x.dtype, shape, x.addrspace


def load_type(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    if src[0].addrspace is ALU:
        raise fail(op, f"operand {src[0].op!r} is no memory", "INDEX a BUFFER, PARAM or ALLOC")
    return src[0].dtype, src[0].shape, ALU


def store_type(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    target, value = src
    if target.addrspace is ALU:
        raise fail(op, f"target {target.op!r} is no memory")
    if target.dtype is not value.dtype:
        raise fail(op, f"dtype mismatch {target.dtype} vs {value.dtype}", "use CAST")
    if target.shape != value.shape and not same(target.shape, broadcast(op, [target.shape, value.shape])):
        raise fail(op, f"value of shape {text(value.shape)} into memory of shape {text(target.shape)}")
    return dtypes.void, (), ALU


def call_type(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    body, args = src[0], src[1:]
    if body.op is not Ops.SINK:
        raise fail(op, f"body must be a SINK, not {body.op!r}")
    if "params" not in body.memo:
        body.memo["params"] = call_params(body)
    params = body.memo["params"]
    if len(params) != len(args):
        raise fail(op, f"body takes {len(params)} arguments, {len(args)} given")
    for param, given in zip(params, args, strict=True):
        if param.dtype is not given.dtype:
            raise fail(op, f"dtype mismatch {param.dtype} vs {given.dtype} for {param.arg}", "use CAST")
        if not same(param.shape, given.shape):
            raise fail(op, f"shape {text(given.shape)} given for {param.arg} of shape {text(param.shape)}")
        if param.shape and not _is_memory(given):
            raise fail(op, f"{given.op!r} given for {param.arg} is no memory", "STORE it to a BUFFER")
        if given.op is Ops.CONST and param.dtype is dtypes.index:
            least, most = param.arg.min, param.arg.max
            if not least <= given.arg.bits <= most:
                raise fail(op, f"{param.arg.name} = {given.arg.bits}", f"it takes {least} to {most}")
    return dtypes.void, (), ALU


#: Ops whose result has its elements in the memory of the operand.
_VIEWS = frozenset({Ops.RESHAPE, Ops.EXPAND, Ops.PERMUTE, Ops.FLIP, Ops.SHRINK, Ops.AFTER})


def _is_memory(node: UOp) -> bool:
    while node.op in _VIEWS:
        node = node.src[0]
    return node.op in (Ops.BUFFER, Ops.PARAM, Ops.ALLOC)


def call_params(body: UOp) -> tuple[UOp, ...]:
    """The PARAMs of a kernel's body in the order of a CALL's arguments: memory by slot, then scalars by name.

    Raises VerifyError where the body is not closed: a BUFFER or an open range in it, a slot missing or used
    for two sizes. The bodies that it calls are closed themselves.
    """
    nodes = postorder([arguments.node("call_params", body)], own_sources)
    for node in nodes:
        if node.op is Ops.BUFFER:
            raise fail(Ops.CALL, f"body is not closed: BUFFER slot {node.arg.slot} in it", "make it a PARAM")
    for r in open_ranges(nodes)[body]:
        if r.op is Ops.RANGE:
            raise fail(Ops.CALL, f"body is not closed: range {r.arg[0]} is open at its end", "END it")
    memory = sorted(
        (n for n in nodes if n.op is Ops.PARAM and n.arg.size is not None), key=lambda n: int(n.arg.slot)
    )
    scalars = sorted(
        (n for n in nodes if n.op is Ops.PARAM and n.arg.size is None), key=lambda n: str(n.arg.name)
    )
    if [n.arg.slot for n in memory] != list(range(len(memory))):
        raise fail(
            Ops.CALL, f"slots of the body must be 0 to n-1, once each, not {[n.arg.slot for n in memory]}"
        )
    names = [n.arg.name for n in scalars]
    if len(set(names)) != len(names):
        raise fail(Ops.CALL, f"two scalars of one name in {names}")
    return (*memory, *scalars)


# loops


def reduce_type(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    x = src[0]
    fold, pop = arg if isinstance(arg, tuple) and len(arg) == 2 else (None, None)
    if fold not in REDUCE_IDENTITY or type(pop) is not int:
        raise fail(op, f"arg must be (ADD, MUL or MAX, axes), not {arg!r}")
    if x.dtype.kind not in NUMBER:
        raise fail(op, f"{fold!r} of {x.dtype}", "CAST it to a number")
    if not 0 <= pop <= len(x.shape):
        raise VerifyError(
            f"reduce pops {pop} axes of a value of shape {text(x.shape)}",
            remedy=f"pop must be 0 to {len(x.shape)}",
            part="pop",
        )
    _check_ranges(op, src[1:])
    return x.dtype, x.shape[: len(x.shape) - pop], ALU


def _check_ranges(op: Ops, ranges: tuple[UOp, ...]) -> None:
    for r in ranges:
        if r.op is not Ops.RANGE:
            raise fail(op, f"closes {r.op!r}, not a RANGE")


def range_type(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    if src[0].dtype is not dtypes.index or src[0].shape != ():
        raise fail(op, f"end has type {src[0].dtype}{text(src[0].shape)}, not index()")
    if (
        not isinstance(arg, tuple)
        or len(arg) != 2
        or type(arg[0]) is not int
        or not isinstance(arg[1], AxisType)
    ):
        raise fail(op, f"arg must be (number, AxisType), not {arg!r}")
    return dtypes.index, (), ALU


def end_type(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    _check_ranges(op, src[1:])
    return dtypes.void, (), ALU


def stage_type(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    if not _is_space(arg):
        raise fail(op, f"arg must be REG, LOCAL or GLOBAL, not {arg!r}")
    return src[0].dtype, src[0].shape, ALU


def after_type(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    return src[0].dtype, src[0].shape, src[0].addrspace


def copy_type(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    if not isinstance(arg, str):
        raise fail(op, f"arg must be the name of a device, not {arg!r}")
    return src[0].dtype, src[0].shape, ALU


# late


def effect_type(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    return dtypes.void, (), ALU


def special_type(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    if not isinstance(arg, str) or src[0].dtype is not dtypes.index:
        raise fail(op, f"needs a name and an end of dtype index, has {arg!r}")
    return dtypes.index, (), ALU


def if_type(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    if src[0].dtype is not dtypes.bool or src[0].shape != ():
        raise fail(op, f"condition has type {src[0].dtype}{text(src[0].shape)}, not bool()")
    return dtypes.void, (), ALU


def wmma_type(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    a, b, accumulator = src
    if not isinstance(arg, str):
        raise fail(op, f"arg must be the name of an instruction, not {arg!r}")
    for node, what in zip(src, ("a", "b", "accumulator"), strict=True):
        if len(node.shape) != 1 or not is_of(NUMBER - {Kind.INDEX}, node.dtype) or node.addrspace is not ALU:
            raise fail(
                op, f"{what} has type {node.dtype}{text(node.shape)}", "a register of numbers, one axis"
            )
    if a.dtype is not b.dtype:
        raise fail(op, f"dtype mismatch {a.dtype} vs {b.dtype}", "use CAST")
    return accumulator.dtype, accumulator.shape, ALU
