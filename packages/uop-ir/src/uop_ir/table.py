"""The op table: for each op its arity, what it accepts, and the type, shape and address space of its result. Week 1.

A row is one line. `infer` is called once a new node and raises VerifyError, naming the op, both sides and the remedy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from .dtype import Const, DType, Kind, dtypes
from .errors import VerifyError
from .ops import AddrSpace, Alloc, AxisType, Buffer, Ops, Param

if TYPE_CHECKING:
    from .uop import UOp

Shape: TypeAlias = "tuple[int | UOp, ...]"
Result: TypeAlias = "tuple[DType, Shape, AddrSpace]"
Infer: TypeAlias = "Callable[[Ops, tuple[UOp, ...], Any], Result]"

NUMBER = frozenset({Kind.SIGNED, Kind.UNSIGNED, Kind.FLOAT, Kind.INDEX})
INTEGER = frozenset({Kind.SIGNED, Kind.UNSIGNED, Kind.INDEX})
BITS = frozenset({Kind.BOOL, Kind.SIGNED, Kind.UNSIGNED})
FLOAT = frozenset({Kind.FLOAT})
VALUE = NUMBER | {Kind.BOOL}
#: The ops that a REDUCE can fold with, and the value that it starts from.
REDUCE_IDENTITY: dict[Ops, Callable[[DType], float | int]] = {
    Ops.ADD: lambda dtype: 0,
    Ops.MUL: lambda dtype: 1,
    Ops.MAX: lambda dtype: dtype.min,
}


def fail(op: Ops, what: str, remedy: str | None = None, part: str | None = None) -> VerifyError:
    return VerifyError(f"{op!r}: {what}", remedy=remedy, part=part)


# shapes


def text(shape: Iterable[object]) -> str:
    """A shape as a tuple of sizes, symbolic ones by name."""
    dims = [str(d) if isinstance(d, int) else _dim_name(d) for d in shape]
    return f"({', '.join(dims)}{',' if len(dims) == 1 else ''})"


def _dim_name(dim: Any) -> str:
    return str(dim.arg.name) if dim.op is Ops.PARAM else f"<{dim.op.value}>"


def product(dims: Sequence[int | UOp]) -> tuple[int, tuple[int, ...]]:
    """A product of dimensions in a form that compares equal: the integer factor, and the symbolic ones sorted."""
    factor, symbolic, stack = 1, [], list(dims)
    while stack:
        dim = stack.pop()
        if isinstance(dim, int):
            factor *= dim
        elif dim.op is Ops.CONST:
            factor *= dim.value
        elif dim.op is Ops.MUL:
            stack.extend(dim.src)
        else:
            symbolic.append(id(dim))
    return factor, tuple(sorted(symbolic))


def broadcast(op: Ops, shapes: Sequence[Shape]) -> Shape:
    """Align shapes on the right; each axis is equal or 1."""
    first = shapes[0]
    if all(s == first for s in shapes):
        return first
    rank = max(map(len, shapes))
    out: list[int | UOp] = []
    for dims in zip(*((1,) * (rank - len(s)) + s for s in shapes), strict=True):
        sizes = [d for d in dims if d != 1]
        if any(s != sizes[0] for s in sizes[1:]):
            raise fail(
                op, f"shapes {' and '.join(map(text, shapes))} do not broadcast", "RESHAPE or EXPAND one"
            )
        out.append(sizes[0] if sizes else 1)
    return tuple(out)


def _sizes(op: Ops, src: tuple[UOp, ...], arg: Any) -> Shape:
    """The dimensions that arg and the sources after the first spell together: a None takes the next source."""
    if not isinstance(arg, tuple):
        raise fail(op, f"arg must be a tuple of sizes, not {arg!r}")
    symbolic = iter(src[1:])
    out: list[int | UOp] = []
    for size in arg:
        if size is not None:
            if type(size) is not int or size < 0:
                raise fail(op, f"size {size!r} must be an int that is at least 0", part="sizes")
            out.append(size)
            continue
        dim = next(symbolic, None)
        if dim is None or dim.dtype is not dtypes.index or dim.shape != ():
            raise fail(op, "each symbolic size needs a source of dtype index and shape ()", part="sizes")
        if dim.op is Ops.CONST and dim.arg.bits < 0:
            raise fail(op, f"size {dim.arg.bits} must be at least 0", part="sizes")
        out.append(dim.arg.bits if dim.op is Ops.CONST else dim)
    if next(symbolic, None) is not None:
        asked = sum(s is None for s in arg)
        raise fail(op, f"{len(src) - 1} symbolic sizes given, {asked} asked for", part="sizes")
    return tuple(out)


def _pairs(op: Ops, src: tuple[UOp, ...], arg: Any) -> tuple[tuple[int | UOp, int | UOp], ...]:
    """The (first, second) pairs of PAD and SHRINK, one an axis."""
    x = src[0]
    if not isinstance(arg, tuple) or any(not isinstance(p, tuple) or len(p) != 2 for p in arg):
        raise fail(op, f"arg must be a tuple of pairs, not {arg!r}")
    if len(arg) != len(x.shape):
        raise fail(op, f"{len(arg)} pairs for a value of shape {text(x.shape)}", "one pair an axis", "sizes")
    flat = _sizes(op, src, tuple(size for pair in arg for size in pair))
    return tuple(zip(flat[::2], flat[1::2], strict=True))


def _extent(begin: int | UOp, end: int | UOp) -> int | UOp:
    """end - begin, where `begin + constant` is known to be a constant long."""
    if isinstance(begin, int):
        return end - begin if isinstance(end, int) or begin else end
    if not isinstance(end, int) and end.op is Ops.ADD and end.src[0] is begin and end.src[1].op is Ops.CONST:
        return int(end.src[1].value)
    return index_of(end, begin) - begin


def index_of(size: int | UOp, like: UOp) -> UOp:
    return like.const_like(size) if isinstance(size, int) else size


# memory and kernels


def _buffer(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    if not isinstance(arg, Buffer) or arg.size < 0 or arg.dtype.kind not in VALUE - {Kind.INDEX}:
        raise fail(op, f"arg must be a Buffer of a dtype that has memory, not {arg!r}", part="dtype")
    return arg.dtype, (arg.size,), AddrSpace.GLOBAL


def _alloc(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    if (
        not isinstance(arg, Alloc)
        or arg.size < 0
        or arg.addrspace is AddrSpace.ALU
        or arg.dtype.kind not in VALUE
    ):
        raise fail(op, f"arg must be an Alloc in REG, LOCAL or GLOBAL, not {arg!r}")
    return arg.dtype, (arg.size,), arg.addrspace


def _param(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    if not isinstance(arg, Param) or arg.dtype.kind not in VALUE:
        raise fail(op, f"arg must be a Param, not {arg!r}")
    if arg.size is not None:
        if arg.slot is None or arg.slot < 0 or arg.size < 0 or arg.dtype is dtypes.index:
            raise fail(op, "memory needs a slot and a size that are at least 0, and a dtype other than index")
        return arg.dtype, (arg.size,), AddrSpace.GLOBAL
    if arg.name is None or not arg.name.isidentifier() or arg.slot is not None:
        what = f"a scalar is told apart by its name alone, an identifier, not {arg.name!r}"
        raise fail(op, what, part="slot" if arg.slot is not None else "name")
    if arg.dtype is dtypes.index and (arg.min is None or arg.max is None or arg.min > arg.max):
        what = f"variable {arg.name} needs min <= max, has min={arg.min} max={arg.max}"
        raise fail(op, what, part="min")
    return arg.dtype, (), AddrSpace.ALU


def _index(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    x, at = src[0], src[1]
    if len(x.shape) != 1:
        raise fail(op, f"memory or vector must have one axis, has shape {text(x.shape)}", "RESHAPE it first")
    if at.dtype is not dtypes.index:
        raise fail(op, f"position has dtype {at.dtype}, not index", "CAST it to index")
    if len(src) == 3 and src[2].dtype is not dtypes.bool:
        raise fail(op, f"validity has dtype {src[2].dtype}, not bool")
    return x.dtype, broadcast(op, [s.shape for s in src[1:]]), x.addrspace


def _load(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    if src[0].addrspace is AddrSpace.ALU:
        raise fail(op, f"operand {src[0].op!r} is no memory", "INDEX a BUFFER, PARAM or ALLOC")
    return src[0].dtype, src[0].shape, AddrSpace.ALU


def _store(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    target, value = src
    if target.addrspace is AddrSpace.ALU:
        raise fail(op, f"target {target.op!r} is no memory")
    if target.dtype is not value.dtype:
        raise fail(op, f"dtype mismatch {target.dtype} vs {value.dtype}", "use CAST")
    if target.shape != value.shape and broadcast(op, [target.shape, value.shape]) != target.shape:
        raise fail(op, f"value of shape {text(value.shape)} into memory of shape {text(target.shape)}")
    return dtypes.void, (), AddrSpace.ALU


def _call(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
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
        if param.shape != given.shape:
            raise fail(op, f"shape {text(given.shape)} given for {param.arg} of shape {text(param.shape)}")
    return dtypes.void, (), AddrSpace.ALU


def call_params(body: UOp) -> tuple[UOp, ...]:
    """The PARAMs of a kernel's body in the order of a CALL's arguments: memory by slot, then scalars by name.

    Raises VerifyError where the body is not closed: a BUFFER in it, a slot missing or used for two sizes.
    """
    nodes = body.toposort()
    for node in nodes:
        if node.op is Ops.BUFFER:
            raise fail(Ops.CALL, f"body is not closed: BUFFER slot {node.arg.slot} in it", "make it a PARAM")
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


# movement


def _reshape(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    x, shape = src[0], _sizes(op, src, arg)
    if product(x.shape) != product(shape):
        raise fail(op, f"{text(x.shape)} does not have as many elements as {text(shape)}", part="sizes")
    return x.dtype, shape, x.addrspace


def _expand(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    x, shape = src[0], _sizes(op, src, arg)
    if len(x.shape) != len(shape) or any(a != b and a != 1 for a, b in zip(x.shape, shape, strict=True)):
        what = f"{text(x.shape)} does not grow to {text(shape)}"
        raise fail(op, what, "an axis is kept or grows from 1", "sizes")
    return x.dtype, shape, x.addrspace


def _permute(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    x = src[0]
    if not isinstance(arg, tuple) or sorted(arg) != list(range(len(x.shape))):
        raise fail(op, f"{arg!r} is no order of the axes of {text(x.shape)}", part="axes")
    return x.dtype, tuple(x.shape[a] for a in arg), x.addrspace


def _flip(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    x = src[0]
    if not isinstance(arg, tuple) or len(arg) != len(x.shape) or any(type(a) is not bool for a in arg):
        raise fail(op, f"{arg!r} for a value of shape {text(x.shape)}", "one bool an axis", "axes")
    return x.dtype, x.shape, x.addrspace


def _pad(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    x, pairs = src[0], _pairs(op, src, arg)
    shape = tuple(_grow(size, before, after) for size, (before, after) in zip(x.shape, pairs, strict=True))
    return x.dtype, shape, AddrSpace.ALU


def _grow(size: int | UOp, before: int | UOp, after: int | UOp) -> int | UOp:
    for width in (before, after):
        size = width + size if isinstance(size, int) else (size if width == 0 else size + width)
    return size


def _shrink(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    x, pairs = src[0], _pairs(op, src, arg)
    for size, (begin, end) in zip(x.shape, pairs, strict=True):
        known = [d for d in (begin, end, size) if isinstance(d, int)]
        if known != sorted(known):
            what = f"part {text((begin, end))} of an axis of {text((size,))}"
            raise fail(op, what, "0 <= begin <= end <= size", "sizes")
        if not isinstance(end, int) and end.op is Ops.PARAM and isinstance(size, int) and end.arg.max > size:
            raise fail(op, f"end {end.arg.name} may be {end.arg.max}, past an axis of {size}", part="sizes")
    shape = tuple(_extent(begin, end) for begin, end in pairs)
    if any(isinstance(size, int) and size < 0 for size in shape):
        raise fail(op, f"parts of {text(shape)} elements", "0 <= begin <= end <= size", "sizes")
    return x.dtype, shape, x.addrspace


def _stack(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    first = src[0]
    for x in src[1:]:
        if x.dtype is not first.dtype or x.shape != first.shape:
            raise fail(
                op, f"{x.dtype}{text(x.shape)} beside {first.dtype}{text(first.shape)}", "all must be alike"
            )
    return first.dtype, (len(src), *first.shape), AddrSpace.ALU


# loops


def _reduce(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
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
    return x.dtype, x.shape[: len(x.shape) - pop], AddrSpace.ALU


def _check_ranges(op: Ops, ranges: tuple[UOp, ...]) -> None:
    for r in ranges:
        if r.op is not Ops.RANGE:
            raise fail(op, f"closes {r.op!r}, not a RANGE")


def _range(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    if src[0].dtype is not dtypes.index or src[0].shape != ():
        raise fail(op, f"end has type {src[0].dtype}{text(src[0].shape)}, not index()")
    if (
        not isinstance(arg, tuple)
        or len(arg) != 2
        or type(arg[0]) is not int
        or not isinstance(arg[1], AxisType)
    ):
        raise fail(op, f"arg must be (number, AxisType), not {arg!r}")
    return dtypes.index, (), AddrSpace.ALU


def _end(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    _check_ranges(op, src[1:])
    return dtypes.void, (), AddrSpace.ALU


def _stage(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    if not isinstance(arg, AddrSpace) or arg is AddrSpace.ALU:
        raise fail(op, f"arg must be REG, LOCAL or GLOBAL, not {arg!r}")
    return src[0].dtype, src[0].shape, AddrSpace.ALU


def _after(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    return src[0].dtype, src[0].shape, src[0].addrspace


def _copy(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    if not isinstance(arg, str):
        raise fail(op, f"arg must be the name of a device, not {arg!r}")
    return src[0].dtype, src[0].shape, AddrSpace.ALU


# values


def _const(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    if not isinstance(arg, Const):
        raise fail(op, f"arg must be a Const, not {arg!r}", "use UOp.const")
    if arg.dtype.kind not in VALUE:
        raise fail(op, f"no constant is of dtype {arg.dtype}", part="dtype")
    return arg.dtype, (), AddrSpace.ALU


def _same(op: Ops, src: tuple[UOp, ...], kinds: frozenset[Kind]) -> tuple[DType, Shape]:
    """The one dtype of all operands, which must be of a kind in `kinds`, and their broadcast shape."""
    dtype = src[0].dtype
    for x in src[1:]:
        if x.dtype is not dtype:
            raise fail(op, f"dtype mismatch {dtype} vs {x.dtype}", "use CAST")
    if dtype.kind not in kinds:
        names = ", ".join(sorted(k.value for k in kinds))
        raise fail(op, f"operand of dtype {dtype}", f"it takes {names}; use CAST")
    return dtype, broadcast(op, [x.shape for x in src])


def _value(kinds: frozenset[Kind], result: DType | None = None) -> Infer:
    """All operands of one dtype; the result has it too, unless `result` says otherwise."""

    def infer_value(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
        dtype, shape = _same(op, src, kinds)
        return result or dtype, shape, AddrSpace.ALU

    return infer_value


def _where(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    if src[0].dtype is not dtypes.bool:
        raise fail(op, f"condition has dtype {src[0].dtype}, not bool", "compare it with CMPNE")
    dtype, _ = _same(op, src[1:], VALUE)
    return dtype, broadcast(op, [x.shape for x in src]), AddrSpace.ALU


def _cast(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    if not isinstance(arg, DType) or arg.kind not in VALUE or src[0].dtype.kind not in VALUE:
        raise fail(op, f"from {src[0].dtype} to {arg!r}", part="dtype")
    return arg, src[0].shape, AddrSpace.ALU


def _bitcast(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    kinds = VALUE - {Kind.BOOL, Kind.INDEX}
    if not isinstance(arg, DType) or arg.kind not in kinds or src[0].dtype.kind not in kinds:
        raise fail(op, f"from {src[0].dtype} to {arg!r}", part="dtype")
    if arg.bits != src[0].dtype.bits:
        raise fail(op, f"{src[0].dtype} has {src[0].dtype.bits} bits, {arg} has {arg.bits}", part="dtype")
    return arg, src[0].shape, AddrSpace.ALU


# late


def _effect(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    return dtypes.void, (), AddrSpace.ALU


def _special(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    if not isinstance(arg, str) or src[0].dtype is not dtypes.index:
        raise fail(op, f"needs a name and an end of dtype index, has {arg!r}")
    return dtypes.index, (), AddrSpace.ALU


def _if(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    if src[0].dtype is not dtypes.bool or src[0].shape != ():
        raise fail(op, f"condition has type {src[0].dtype}{text(src[0].shape)}, not bool()")
    return dtypes.void, (), AddrSpace.ALU


def _reserved(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    raise fail(op, "the name is reserved: it has no semantics in this version")


@dataclass(frozen=True)
class Row:
    """What the IR knows of one op: how many sources (None: any number more), what it accepts, what it means."""

    least: int
    most: int | None
    infer: Infer
    meaning: str


#: One row an op.
OPS: dict[Ops, Row] = {
    Ops.CALL: Row(1, None, _call, "run a kernel's body with arguments: memory by slot, then scalars by name"),
    Ops.PARAM: Row(0, 0, _param, "an argument of a kernel: memory by slot, or a scalar by name"),
    Ops.BUFFER: Row(0, 0, _buffer, "memory of a device, with identity"),
    Ops.INDEX: Row(
        2, 3, _index, "an element of memory, or a lane of a vector; invalid: reads 0, stores nothing"
    ),
    Ops.LOAD: Row(1, 1, _load, "the value in memory"),
    Ops.STORE: Row(2, 2, _store, "put a value into memory"),
    Ops.RESHAPE: Row(1, None, _reshape, "the same elements, row-major, in another shape"),
    Ops.EXPAND: Row(1, None, _expand, "axes of size 1 repeated to a size"),
    Ops.PERMUTE: Row(1, 1, _permute, "axes in another order"),
    Ops.FLIP: Row(1, 1, _flip, "marked axes reversed"),
    Ops.PAD: Row(1, None, _pad, "each axis grown by (before, after), filled with zero"),
    Ops.SHRINK: Row(1, None, _shrink, "of each axis the part (begin, end)"),
    Ops.STACK: Row(1, None, _stack, "values of one shape along a new first axis"),
    Ops.REDUCE: Row(
        1, None, _reduce, "fold the last n axes, or close ranges, left to right from the identity"
    ),
    Ops.RANGE: Row(1, 1, _range, "a loop index from 0 to the end, excluded"),
    Ops.END: Row(1, None, _end, "the effect, once for each value of the ranges it closes, outermost first"),
    Ops.STAGE: Row(1, 1, _stage, "the operand, stored once and read many times"),
    Ops.ALLOC: Row(0, 0, _alloc, "scratch memory of a program"),
    Ops.AFTER: Row(1, None, _after, "the operand, after the effects"),
    Ops.COPY: Row(1, 1, _copy, "the operand on another device"),
    Ops.CONST: Row(0, 0, _const, "a constant, told apart by type and bits"),
    Ops.CAST: Row(
        1, 1, _cast, "to another type: to nearest even; float to integer truncates, saturates, NaN is 0"
    ),
    Ops.BITCAST: Row(
        1, 1, _bitcast, "the same bits as another type; a float NaN gives the canonical quiet NaN"
    ),
    Ops.RECIP: Row(1, 1, _value(FLOAT), "1 / x, correctly rounded"),
    Ops.SQRT: Row(1, 1, _value(FLOAT), "square root, correctly rounded"),
    Ops.EXP2: Row(1, 1, _value(FLOAT), "2 to the x: its definition, at most 2 ulp from exact"),
    Ops.LOG2: Row(1, 1, _value(FLOAT), "logarithm to base 2: its definition, at most 2 ulp from exact"),
    Ops.SIN: Row(1, 1, _value(FLOAT), "sine: its definition, at most 2 ulp from exact"),
    Ops.TRUNC: Row(1, 1, _value(FLOAT), "round towards zero"),
    Ops.NEG: Row(1, 1, _value(NUMBER), "-x; flips the sign bit of floats, wraps on integers"),
    Ops.ADD: Row(2, 2, _value(NUMBER), "x + y; integers wrap"),
    Ops.SUB: Row(2, 2, _value(NUMBER), "x - y; integers wrap"),
    Ops.MUL: Row(2, 2, _value(NUMBER), "x * y; integers wrap"),
    Ops.DIV: Row(2, 2, _value(NUMBER), "x / y; integers floor, and x // 0 is 0"),
    Ops.MOD: Row(2, 2, _value(NUMBER), "x - (x // y) * y, with the divisor's sign; x % 0 is x"),
    Ops.MAX: Row(2, 2, _value(NUMBER), "y if y is NaN or x < y, else x"),
    Ops.AND: Row(2, 2, _value(BITS), "bitwise and"),
    Ops.OR: Row(2, 2, _value(BITS), "bitwise or"),
    Ops.XOR: Row(2, 2, _value(BITS), "bitwise exclusive or"),
    Ops.SHL: Row(2, 2, _value(INTEGER - {Kind.INDEX}), "x * 2**y; y is unsigned, the width or more gives 0"),
    Ops.SHR: Row(
        2, 2, _value(INTEGER - {Kind.INDEX}), "floor(x / 2**y); the width or more gives 0 or the sign"
    ),
    Ops.CMPLT: Row(2, 2, _value(VALUE, dtypes.bool), "x < y"),
    Ops.CMPNE: Row(2, 2, _value(VALUE, dtypes.bool), "x != y"),
    Ops.CMPEQ: Row(2, 2, _value(VALUE, dtypes.bool), "x == y"),
    Ops.WHERE: Row(3, 3, _where, "the second where the first is true, else the third"),
    Ops.MULACC: Row(3, 3, _value(NUMBER - {Kind.INDEX}), "x * y + z, rounded once"),
    Ops.SINK: Row(0, None, _effect, "the end of a program: its effects or outputs, in order"),
    Ops.SPECIAL: Row(1, 1, _special, "an index of the device's grid, by name"),
    Ops.BARRIER: Row(0, None, _effect, "all threads of a group wait here, after the effects"),
    Ops.IF: Row(1, 1, _if, "what follows, up to ENDIF, only where true"),
    Ops.ENDIF: Row(1, 1, _effect, "the end of an IF"),
    Ops.WMMA: Row(3, 3, _reserved, "a tile of a matrix product, on a tensor core"),
}


def infer(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    """The dtype, shape and address space of a node, or VerifyError where it is wrong."""
    row = OPS[op]
    if len(src) < row.least or (row.most is not None and len(src) > row.most):
        most = "or more" if row.most is None else f"to {row.most}" if row.most != row.least else ""
        raise fail(op, f"{len(src)} sources given", f"it takes {row.least} {most}".rstrip())
    return row.infer(op, src, arg)
