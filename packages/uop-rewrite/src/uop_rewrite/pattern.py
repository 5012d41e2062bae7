"""Patterns: terms with variables, as data, and the one function that matches them against nodes. Week 1.

A pattern is built by calling the name of an op: `DIV(DIV(x, a), b)`. `x`, `y`, `z` match any node, `a`, `b`, `c`
match constants; a name that stands twice must match one node twice. ADD, MUL, AND, OR, XOR, CMPEQ and CMPNE match
their operands in both orders.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from uop_ir import Ops, UOp

COMMUTATIVE = frozenset({Ops.ADD, Ops.MUL, Ops.AND, Ops.OR, Ops.XOR, Ops.CMPEQ, Ops.CMPNE})


@dataclass(frozen=True)
class Pattern:
    """Matches a node by op (None: any) and by its sources (None: any); `name` binds the node that it matched."""

    op: Ops | None = None
    src: tuple[Pattern, ...] | None = None
    name: str | None = None

    def named(self, name: str) -> Pattern:
        """The same pattern, binding the whole match to a name."""
        return Pattern(self.op, self.src, name)


def var(name: str) -> Pattern:
    """Matches any node."""
    return Pattern(name=name)


def const(name: str) -> Pattern:
    """Matches a constant."""
    return Pattern(Ops.CONST, None, name)


@dataclass(frozen=True)
class Builder:
    """Builds patterns of one op; without sources, the op with any sources."""

    op: Ops

    def __call__(self, *src: Pattern) -> Pattern:
        return Pattern(self.op, src or None)


ADD, SUB, MUL, DIV, MOD, MAX, NEG = (
    Builder(o) for o in (Ops.ADD, Ops.SUB, Ops.MUL, Ops.DIV, Ops.MOD, Ops.MAX, Ops.NEG)
)
AND, OR, XOR, CMPLT, CMPNE, CMPEQ, WHERE, CAST = (
    Builder(o) for o in (Ops.AND, Ops.OR, Ops.XOR, Ops.CMPLT, Ops.CMPNE, Ops.CMPEQ, Ops.WHERE, Ops.CAST)
)
x, y, z = var("x"), var("y"), var("z")
a, b, c = const("a"), const("b"), const("c")


def matches(pattern: Pattern, node: UOp, bound: dict[str, UOp] | None = None) -> Iterator[dict[str, UOp]]:
    """Every way in which a node matches, as what each name is bound to. `bound` is not changed."""
    bound = bound or {}
    if pattern.op is not None and pattern.op is not node.op:
        return
    if pattern.name is not None:
        if bound.get(pattern.name, node) is not node:
            return
        bound = {**bound, pattern.name: node}
    if pattern.src is None:
        yield bound
        return
    if len(pattern.src) != len(node.src):
        return
    yield from _sources(pattern.src, node.src, bound)
    if node.op in COMMUTATIVE and node.src[0] is not node.src[1]:
        yield from _sources(pattern.src, node.src[::-1], bound)


def _sources(
    patterns: tuple[Pattern, ...], nodes: tuple[UOp, ...], bound: dict[str, UOp]
) -> Iterator[dict[str, UOp]]:
    if not patterns:
        yield bound
        return
    for first in matches(patterns[0], nodes[0], bound):
        yield from _sources(patterns[1:], nodes[1:], first)
