"""Render: a linear program as the text of one function, in C or a language like it. Weeks 2 and 3.

A value that is used once is written where it is used; one that is used again gets a name. Index arithmetic is
written in place, as a person would.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain

from uop_ir import BackendError, Ops, UOp, dtypes

from . import ctext
from .accesses import check_accesses, index_width
from .dialect import Argument, C, Dialect
from .expressions import expression
from .loops import END, RANGE, STORE, memory_of
from .names import scalar_name
from .statements import statement
from .writer import Renderer, Text


def render(
    name: str, order: Sequence[UOp], params: Sequence[UOp], dialect: Dialect = C
) -> tuple[list[str], str]:
    """The helpers and the function of a linear program; `params` in the order of a CALL's arguments.

    Raises BackendError where the program has a type or an op that the language has not, BoundsError where an
    access may be out of range, or an index beyond 64 bits.
    """
    r = Renderer(dialect, expression)
    r.uses = Counter(chain.from_iterable(node.src for node in order))
    r.hoisted = _hoisted(order)
    r.tiles = frozenset(s for n in order if n.op is Ops.WMMA for s in n.src)
    stores = [n for n in order if n.op is STORE]
    r.stores = frozenset(n.src[1] for n in stores)
    r.stored = frozenset(memory_of(n.src[0]) for n in stores)
    check_accesses(order)
    wide, r.anywhere = index_width(order)
    r.index_type = "int64_t" if wide else "int"
    opening = dialect.opening(name, _arguments(r, params, set(order)), order)
    r.helpers.update(opening.helpers)
    for line in opening.lines:
        r.line(line)
    for node in order:
        statement(r, node)
    body = "\n".join(r.lines)
    text = f"{opening.head}\n{body}\n}}"
    definitions = [*ctext.typedefs([*r.helpers.values(), text], dialect.typedef), *r.helpers.values()]
    return [dialect.spell(d) for d in definitions], dialect.spell(text)


def _hoisted(order: Sequence[UOp]) -> frozenset[UOp]:
    """Values to be computed where they stand: a deeper loop uses them,
    or index arithmetic, whose text is repeated.
    """
    depth = 0
    place: dict[UOp, int] = {}
    out: set[UOp] = set()
    for node in order:
        if node.op is END:
            depth -= len(node.src) - 1
        place[node] = depth
        index = node.dtype is dtypes.index
        for s in node.src:
            if place[s] < depth or (index and s.dtype is not dtypes.index):
                out.add(s)
        if node.op is RANGE:
            depth += 1
    return frozenset(out)


def _arguments(r: Renderer, params: Sequence[UOp], used: set[UOp]) -> list[Argument]:
    arguments: list[Argument] = []
    for param in params:
        arg = param.arg
        if r.real(arg.dtype) not in ctext.SCALAR:
            raise BackendError(
                f"the {r.dialect.language} backend has no {arg.dtype}", remedy="CAST it to f32"
            )
        name = f"data{arg.slot}" if arg.size is not None else scalar_name(arg.name, len(arguments))
        r.texts[param] = Text(name)
        arguments.append(Argument(param, name, r.type(arg.dtype, 1), param in r.stored, param in used))
    return arguments
