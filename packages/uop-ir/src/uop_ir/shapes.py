"""Shapes of operands: how they broadcast, compare and print, and the sizes that an arg spells. Week 1."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

from .dtype import DType, Kind, dtypes
from .errors import VerifyError
from .ops import AddrSpace, Ops
from .walks import toposort

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
#: By a name of its own: an attribute of an Enum takes ten times as long to find, and each new node asks.
ALU = AddrSpace.ALU


def is_of(kinds: frozenset[Kind], dtype: object) -> bool:
    """Whether this is a dtype of one of the kinds."""
    return isinstance(dtype, DType) and dtype.kind in kinds


def fail(op: Ops, what: str, remedy: str | None = None, part: str | None = None) -> VerifyError:
    return VerifyError(f"{op!r}: {what}", remedy=remedy, part=part)


# shapes


def text(shape: Iterable[object]) -> str:
    """A shape as a tuple of sizes, symbolic ones by name."""
    dims = [str(d) if isinstance(d, int) else dim_name(d) for d in shape]
    return f"({', '.join(dims)}{',' if len(dims) == 1 else ''})"


def dim_name(dim: Any) -> str:
    return str(dim.arg.name) if dim.op is Ops.PARAM else f"<{dim.op.value}>"


#: Bits of a number of elements, at most: far more than any memory has.
_MOST_BITS = 1 << 16
#: Terms that a size is written out into, at most; one that has more is a term of its own.
_MOST_TERMS = 64
#: A product of sizes, each to a power.
Term: TypeAlias = "frozenset[tuple[UOp, int]]"
Polynomial: TypeAlias = "dict[Term, int]"
_ONE: Term = frozenset()


def same(a: Shape, b: Shape) -> bool:
    """Whether two shapes are equal: their sizes are equal as polynomials of what is not ADD,
    SUB, NEG, MUL or CONST.
    """
    return a == b or (len(a) == len(b) and all(map(same_size, a, b)))


def same_size(a: int | UOp, b: int | UOp) -> bool:
    """Whether two sizes are equal, as in `same`."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    return a is b or elements((a,)) == elements((b,))


def same_elements(a: Shape, b: Shape) -> bool:
    """Whether two shapes have as many elements, as in `same`."""
    if all_natural(a) and all_natural(b):
        return math.prod(a) == math.prod(b)
    left: list[int | UOp] = []
    right = [*b]
    for size in a:  # what both have goes, which takes less time than to multiply it out
        if size in right:
            right.remove(size)
        else:
            left.append(size)
    return elements(tuple(left)) == elements(tuple(right)) or elements(a) == elements(b)


def elements(dims: Shape) -> Polynomial:
    """A product of sizes in a form that compares equal:
    for each product of symbolic ones, how often it is added.

    Raises VerifyError where a factor has more digits than any program needs.
    """
    if all_natural(dims):
        number = math.prod(dims)
        return {_ONE: number} if number else {}
    symbolic = [d for d in dims if not isinstance(d, int)]
    found: dict[UOp, Polynomial] = {}
    for node in toposort(symbolic, lambda n: n.op in _WRITTEN_OUT):
        write_out = _WRITTEN_OUT.get(node.op)
        form = write_out(node, *[found[s] for s in node.src]) if write_out else None
        found[node] = {frozenset({(node, 1)}): 1} if form is None or len(form) > _MOST_TERMS else form
    total = elements(tuple(d for d in dims if isinstance(d, int)))
    for dim in symbolic:
        total = _times(total, found[dim])
    return total


def _plus(a: Polynomial, b: Polynomial, sign: int = 1) -> Polynomial:
    out = dict(a)
    for term, k in b.items():
        out[term] = out.get(term, 0) + sign * k
    return {term: k for term, k in out.items() if k}


def _times(a: Polynomial, b: Polynomial) -> Polynomial:
    out: Polynomial = {}
    for one, k in a.items():
        for other, m in b.items():
            powers = dict(one)
            for size, power in other:
                powers[size] = powers.get(size, 0) + power
            if k.bit_length() + m.bit_length() > _MOST_BITS:
                raise VerifyError(f"a product of sizes of more than {_MOST_BITS} bits")
            term = frozenset(powers.items())
            out[term] = out.get(term, 0) + k * m
    return {term: k for term, k in out.items() if k}


#: How the polynomial of a size is made of those of its operands.
_WRITTEN_OUT: dict[Ops, Callable[..., Polynomial]] = {
    Ops.CONST: lambda node: {_ONE: node.arg.bits} if node.arg.bits else {},
    Ops.ADD: lambda _, a, b: _plus(a, b),
    Ops.SUB: lambda _, a, b: _plus(a, b, -1),
    Ops.NEG: lambda _, a: _plus({}, a, -1),
    Ops.MUL: lambda _, a, b: _times(a, b),
}


def broadcast(op: Ops, shapes: Sequence[Shape]) -> Shape:
    """Align shapes on the right; each axis is equal or 1.
    One of the shapes itself, where that is the result.
    """
    out = shapes[0]
    for shape in shapes:
        if len(shape) > len(out):
            out = shape
    for shape in shapes:
        first = len(out) - len(shape)
        if shape == out[first:]:  # the most common by far
            continue
        for axis, size in enumerate(shape, first):
            have = out[axis]
            if size == 1 or same_size(size, have):
                continue
            if have != 1:
                what = f"shapes {' and '.join(map(text, shapes))} do not broadcast"
                raise fail(op, what, "RESHAPE or EXPAND one")
            out = (*out[:axis], size, *out[axis + 1 :])
    return out


def all_natural(arg: tuple[object, ...]) -> TypeGuard[tuple[int, ...]]:
    """Whether all are ints that are at least 0."""
    for size in arg:  # noqa: SIM110  # a generator in all() takes three times as long
        if type(size) is not int or size < 0:
            return False
    return True


def all_bools(arg: tuple[object, ...]) -> bool:
    for a in arg:  # noqa: SIM110  # a generator in all() takes three times as long
        if type(a) is not bool:
            return False
    return True


def sizes(op: Ops, src: tuple[UOp, ...], arg: Any) -> Shape:
    """The dimensions that arg and the sources after the first spell together:
    a None takes the next source.
    """
    if not isinstance(arg, tuple):
        raise fail(op, f"arg must be a tuple of sizes, not {arg!r}")
    if len(src) == 1 and all_natural(arg):
        return arg
    given, asked = src[1:], arg.count(None)
    if len(given) != asked:
        raise fail(op, f"{len(given)} symbolic sizes given, {asked} asked for", part="sizes")
    out = list(arg)
    for dim in given:
        if dim.dtype is not dtypes.index or dim.shape != ():
            raise fail(op, "each symbolic size needs a source of dtype index and shape ()", part="sizes")
        out[out.index(None)] = dim.arg.bits if dim.op is Ops.CONST else dim
    for size in out:
        if (type(size) is not int or size < 0) and size not in given:
            raise fail(op, f"size {size!r} must be an int that is at least 0", part="sizes")
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
