"""Graphs for people: a node as one short line, and a tree in which what is shared is shown once. Week 1.

Both are the same in every process, for the same graph, and bounded: a graph of any size can be looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from . import arguments
from .dtype import dtypes
from .errors import VerifyError
from .ops import Ops
from .shapes import text
from .uir_line import parts
from .uir_table import SPELLINGS
from .walks import toposort

if TYPE_CHECKING:
    from .uop import UOp

#: Of a line at most the characters, the operands of a node,
#: and the characters of a name, a literal or a shape.
_LINE, _OPERANDS, _PIECE, _SHAPE = 90, 4, 40, 100
#: Of a tree, the levels that are shown.
_DEPTH = 50
#: Leaves that a line says by name alone.
_NAMES: dict[Ops, Callable[[UOp], str]] = {
    Ops.CONST: lambda node: str(node.arg.value).lower() if node.dtype is dtypes.bool else str(node.arg.value),
    Ops.PARAM: lambda node: str(node.arg.name) if node.arg.size is None else f"param{node.arg.slot}",
    Ops.BUFFER: lambda node: f"buffer{node.arg.slot}",
    Ops.ALLOC: lambda node: f"alloc{node.arg.slot}",
    Ops.RANGE: lambda node: f"range{node.arg[0]}",
    Ops.SPECIAL: lambda node: str(node.arg),
}


def one_line(node: UOp) -> str:
    """A node as an expression of its operands, with its type: `neg(buffer0) : f32(4,)`."""
    return f"{expression(node)} : {type_of(node)}"


def expression(node: UOp) -> str:
    """A node as an expression of its operands, as deep as a line has room: `neg(index(param0, range0))`."""
    for levels in (4, 3, 2):
        line = _expression(node, levels)
        if len(line) <= _LINE:
            return line
    return _expression(node, 1)


def type_of(node: UOp) -> str:
    """The dtype and the shape of a value; `void` of an effect."""
    return str(node.dtype) if node.dtype is dtypes.void else f"{node.dtype}{_cut(text(node.shape), _SHAPE)}"


def label(node: UOp) -> str:
    """The op and what its arg says, without operands and type: `reshape (2, 3)`, `range id=0 axis=loop`."""
    if node.op is Ops.CONST:
        return f"const {_short(node)}"
    operands, keys = parts(node, [_short(s) for s in node.src])
    arg = [*operands[_sources(node) :], *(key for key in keys if not key.startswith("dtype="))]
    return " ".join([node.op.value, *map(_cut, arg)])


def _short(node: UOp) -> str:
    return _cut(_NAMES[node.op](node)) if node.op in _NAMES else f"<{node.op.value}>"


def _cut(piece: str, most: int = _PIECE) -> str:
    return piece if len(piece) <= most else f"{piece[: most - 3]}..."


def _expression(node: UOp, levels: int) -> str:
    if node.op in _NAMES:
        return _short(node)
    if levels == 0:
        return "..."
    shown = [_expression(s, levels - 1) for s in node.src[:_OPERANDS]]
    more = node.src[_OPERANDS:]
    operands, keys = parts(node, [*shown, *("..." for _ in more)])
    sources = _sources(node)
    given = [*operands[:sources][:_OPERANDS], *(["..."] if sources > _OPERANDS else [])]
    return f"{node.op.value}({', '.join([*given, *map(_cut, [*operands[sources:], *keys])])})"


def _sources(node: UOp) -> int:
    """How many operands are nodes: sizes that are symbolic stand in the literal."""
    return 1 if SPELLINGS[node.op].symbolic else len(node.src)


# trees


def tree(root: UOp, limit: int = 200) -> str:
    """The graph below a node, operands indented below what uses them, one node a line with its type.

    A node that several use gets a number, is shown in full where it comes first, and is named by its number
    after that. After `limit` lines the tree ends with the number of nodes that it does not show;
    below 50 levels it has dots.
    """
    if type(limit) is not int:
        raise VerifyError(f"tree: {arguments.shown(limit)} is no number of lines", remedy="an int")
    order = toposort((root,))
    uses = Counter(s for node in order for s in node.src)
    numbers: dict[UOp, int] = {}
    shown: set[UOp] = set()
    lines: list[str] = []
    stack: list[tuple[UOp, str, str]] = [(root, "", "")]
    while stack and len(lines) < limit:
        node, first, rest = stack.pop()
        if len(rest) > 3 * _DEPTH:
            lines.append(f"{first}...")
            continue
        if node in shown and node.src:
            lines.append(f"{first}#{numbers[node]} {node.op.value}, as above")
            continue
        shown.add(node)
        number = ""
        if uses[node] > 1 and node.src:
            number = f"#{numbers.setdefault(node, len(numbers) + 1)} "
        lines.append(f"{first}{number}{label(node)} : {type_of(node)}")
        stack.extend(reversed(list(_branches(node.src, rest))))
    if len(shown) < len(order):
        lines.append(f"... {len(order) - len(shown)} more nodes")
    return "\n".join(lines)


def _branches(sources: Sequence[UOp], rest: str) -> Iterator[tuple[UOp, str, str]]:
    """Each operand with what stands before it, and before the lines below it."""
    for place, source in enumerate(sources, 1):
        last = place == len(sources)
        yield source, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  ")
