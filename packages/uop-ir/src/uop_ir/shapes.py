"""Shapes of operands: how they broadcast, compare and print, and the sizes that an arg spells. Week 1."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from .dtype import DType, Kind, dtypes
from .errors import VerifyError
from .ops import AddrSpace, Ops

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


def fail(op: Ops, what: str, remedy: str | None = None, part: str | None = None) -> VerifyError:
    return VerifyError(f"{op!r}: {what}", remedy=remedy, part=part)


# shapes


def text(shape: Iterable[object]) -> str:
    """A shape as a tuple of sizes, symbolic ones by name."""
    dims = [str(d) if isinstance(d, int) else dim_name(d) for d in shape]
    return f"({', '.join(dims)}{',' if len(dims) == 1 else ''})"


def dim_name(dim: Any) -> str:
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


def sizes(op: Ops, src: tuple[UOp, ...], arg: Any) -> Shape:
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


def pairs(op: Ops, src: tuple[UOp, ...], arg: Any) -> tuple[tuple[int | UOp, int | UOp], ...]:
    """The (first, second) pairs of PAD and SHRINK, one an axis."""
    x = src[0]
    if not isinstance(arg, tuple) or any(not isinstance(p, tuple) or len(p) != 2 for p in arg):
        raise fail(op, f"arg must be a tuple of pairs, not {arg!r}")
    if len(arg) != len(x.shape):
        raise fail(op, f"{len(arg)} pairs for a value of shape {text(x.shape)}", "one pair an axis", "sizes")
    flat = sizes(op, src, tuple(size for pair in arg for size in pair))
    return tuple(zip(flat[::2], flat[1::2], strict=True))


def extent(begin: int | UOp, end: int | UOp) -> int | UOp:
    """end - begin, where `begin + constant` is known to be a constant long."""
    if isinstance(begin, int):
        return end - begin if isinstance(end, int) or begin else end
    if not isinstance(end, int) and end.op is Ops.ADD and end.src[0] is begin and end.src[1].op is Ops.CONST:
        return int(end.src[1].value)
    return index_of(end, begin) - begin


def index_of(size: int | UOp, like: UOp) -> UOp:
    return like.const_like(size) if isinstance(size, int) else size
