"""Patterns: terms with variables, as data, and the one function that matches them against nodes. Week 1.

A pattern is built by calling the name of an op: `DIV(DIV(x, a), b)`. `x`, `y`, `z` match any node, `a`, `b`,
`c` match constants; a name that stands twice must match one node twice. A number matches the constant of that
value: `MUL(x, 0)`. `...` stands for any further sources, `each(p)` for further sources that all match p:
`STACK(x, each(x))`. ADD, MUL, AND, OR, XOR, CMPEQ and CMPNE match their operands in both orders.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import EllipsisType

from uop_ir import DType, Kind, Ops, UOp, UopError, VerifyError

COMMUTATIVE = frozenset({Ops.ADD, Ops.MUL, Ops.AND, Ops.OR, Ops.XOR, Ops.CMPEQ, Ops.CMPNE})

#: Ops whose rules speak of the type of their operands.
COMPARISONS = frozenset({Ops.CMPLT, Ops.CMPNE, Ops.CMPEQ})


@dataclass(frozen=True)
class Pattern:
    """Matches a node by op (None: any) and by its sources (None: any); `name` binds the node that it matched.

    `rest`: what each source after those of `src` must match; None: there are no more. A name in it is that of
    `src` or of the node, or else means any node, another one in each source. `value`: of a constant, brought
    into the type of the node that it is held against,
    where -0.0 is not 0.0. `types`: of the node (None: any).
    """

    op: Ops | None = None
    src: tuple[Pattern, ...] | None = None
    name: str | None = None
    rest: Pattern | None = None
    value: float | bool | None = None
    types: frozenset[Kind] | None = None

    def __post_init__(self) -> None:
        if self.rest is not None and self.src is None:
            object.__setattr__(self, "src", ())

    def named(self, name: str) -> Pattern:
        """The same pattern, binding the whole match to a name."""
        return replace(self, name=name)

    def of(self, types: frozenset[Kind]) -> Pattern:
        """The same pattern, for nodes of these types."""
        return replace(self, types=types)

    @property
    def names(self) -> frozenset[str]:
        """The names that a match binds."""
        own = frozenset() if self.name is None else frozenset({self.name})
        return own.union(*(s.names for s in self.src or ()))

    @property
    def shared(self) -> frozenset[str]:
        """The names of `rest` that the node or `src` binds."""
        return self.rest.names & self.names if self.rest is not None else frozenset()

    @property
    def orders(self) -> int:
        """In how many orders the sources are held against a node's: 2 where operands commute."""
        both = self.op in COMMUTATIVE and self.rest is None and len(self.src or ()) == 2
        return 2 if both else 1

    def __str__(self) -> str:
        """As it is written: `ADD(x, 0)`. A name before the whole: `n=CAST(x)`."""
        name = self.name or "_"
        if self.value is not None:
            return str(self.value)
        if self.op is None or (self.op is Ops.CONST and self.src is None):
            return name
        inner = ["..."] if self.src is None else [str(s) for s in self.src]
        if self.rest is not None:
            inner.append("..." if self.rest == Pattern() else f"each({self.rest})")
        return f"{f'{self.name}=' if self.name else ''}{self.op.name}({', '.join(inner)})"


def var(name: str) -> Pattern:
    """Matches any node."""
    return Pattern(name=name)


def const(name: str) -> Pattern:
    """Matches a constant."""
    return Pattern(Ops.CONST, None, name)


def literal(value: float | bool) -> Pattern:
    """Matches the constant of a value, in each type that has it."""
    return Pattern(Ops.CONST, value=value)


def in_type(value: float | bool, dtype: DType) -> UOp | None:
    """The constant that a literal stands for in a type, None where it has no place there."""
    try:
        return UOp.const(dtype, value)
    except VerifyError:
        return None


@dataclass(frozen=True)
class Each:
    """Any number of sources that all match one pattern."""

    pattern: Pattern


def each(pattern: Pattern) -> Each:
    """Any number of further sources, each of which matches."""
    return Each(pattern)


@dataclass(frozen=True)
class Builder:
    """Builds patterns of one op; without sources, the op with any sources."""

    op: Ops

    def __call__(self, *src: Pattern | float | Each | EllipsisType) -> Pattern:
        rest: Pattern | None = None
        given: list[Pattern] = []
        for s in src:
            if rest is not None:
                raise UopError(
                    f"pattern of {self.op.name}: only the last operand can stand for any number of sources"
                )
            if isinstance(s, Each | EllipsisType):
                rest = s.pattern if isinstance(s, Each) else Pattern()
            else:
                given.append(self._operand(s))
        return Pattern(self.op, tuple(given) if src else None, rest=rest)

    def _operand(self, given: object) -> Pattern:
        if isinstance(given, Pattern):
            return given
        if isinstance(given, bool | int | float):
            return literal(given)
        raise UopError(
            f"pattern of {self.op.name}: {given!r} is neither a pattern nor a number",
            remedy='var("x") is a pattern',
        )


ADD, SUB, MUL, DIV, MOD, MAX, NEG = (
    Builder(o) for o in (Ops.ADD, Ops.SUB, Ops.MUL, Ops.DIV, Ops.MOD, Ops.MAX, Ops.NEG)
)
AND, OR, XOR, CMPLT, CMPNE, CMPEQ, WHERE, CAST = (
    Builder(o) for o in (Ops.AND, Ops.OR, Ops.XOR, Ops.CMPLT, Ops.CMPNE, Ops.CMPEQ, Ops.WHERE, Ops.CAST)
)
STACK, SINK = Builder(Ops.STACK), Builder(Ops.SINK)
x, y, z = var("x"), var("y"), var("z")
a, b, c = const("a"), const("b"), const("c")

Bound = dict[str, UOp]


def matches(pattern: Pattern, node: UOp, bound: Bound | None = None) -> Iterator[Bound]:
    """Every way in which a node matches, as what each name is bound to. `bound` is not changed."""
    bound = bound or {}
    if pattern.op is not None and pattern.op is not node.op:
        return
    if pattern.types is not None and node.dtype.kind not in pattern.types:
        return
    if pattern.value is not None and node is not in_type(pattern.value, node.dtype):
        return
    if pattern.name is not None:
        if bound.get(pattern.name, node) is not node:
            return
        bound = {**bound, pattern.name: node}
    if pattern.src is None:
        yield bound
        return
    given, further = node.src[: len(pattern.src)], node.src[len(pattern.src) :]
    if len(given) < len(pattern.src) or (further and pattern.rest is None):
        return
    for found in _sources(pattern.src, given, bound):
        if pattern.rest is None or all(
            fits(pattern.rest, s, {n: found[n] for n in pattern.shared}) for s in further
        ):
            yield found
    if pattern.orders == 2 and given[0] is not given[1]:
        yield from _sources(pattern.src, given[::-1], bound)


def fits(pattern: Pattern, node: UOp, bound: Bound) -> bool:
    """Whether a node matches."""
    return any(True for _ in matches(pattern, node, bound))


def _sources(patterns: tuple[Pattern, ...], nodes: tuple[UOp, ...], bound: Bound) -> Iterator[Bound]:
    if not patterns:
        yield bound
        return
    for first in matches(patterns[0], nodes[0], bound):
        yield from _sources(patterns[1:], nodes[1:], first)
