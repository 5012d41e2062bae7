"""Graphs as pictures: DOT for other programs, SVG by a layout of our own, and what a notebook shows. Week 1.

The layout puts each node below its operands, a level a row, and orders a row by where the operands stand (the
barycenter method of Sugiyama, Tagawa and Toda, 1981, one sweep):
linear in the size of the graph, but for sorting.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple
from xml.sax.saxutils import escape

from . import arguments
from .inspection import label, tree, type_of
from .ops import Ops
from .walks import toposort

if TYPE_CHECKING:
    from .uop import UOp

_CHARACTER, _PADDING, _HEIGHT, _GAP, _ROW = 7, 16, 38, 18, 74
#: Fills by what a node is; all others are values.
_FILLS: dict[Ops, str] = {
    **dict.fromkeys((Ops.BUFFER, Ops.PARAM, Ops.ALLOC, Ops.INDEX, Ops.LOAD, Ops.STORE), "#dbe9f6"),
    **dict.fromkeys((Ops.RANGE, Ops.END, Ops.REDUCE, Ops.SPECIAL, Ops.IF, Ops.ENDIF), "#fde5c8"),
    **dict.fromkeys((Ops.SINK, Ops.AFTER, Ops.CALL, Ops.BARRIER, Ops.STAGE, Ops.COPY), "#e6e6e6"),
    **dict.fromkeys((Ops.RESHAPE, Ops.EXPAND, Ops.PERMUTE, Ops.FLIP, Ops.PAD, Ops.SHRINK), "#ddf0d6"),
}
_VALUE = "#ffffff"
#: Nodes of a graph that a notebook draws; of a larger one it shows the tree.
DRAWN = 200


def to_dot(root: UOp) -> str:
    """The graph below a node in the DOT language of Graphviz:
    a box a node, an edge from each operand, in order.
    """
    order = {node: number for number, node in enumerate(toposort((arguments.node("to_dot", root),)))}
    lines = ["digraph uop {", "  node [shape=box, style=filled, fontname=monospace];"]
    for node, number in order.items():
        text = "\\n".join(_quoted(t) for t in (label(node), type_of(node)))
        lines.append(f'  n{number} [label="{text}", fillcolor="{_FILLS.get(node.op, _VALUE)}"];')
        lines.extend(f"  n{order[source]} -> n{number};" for source in node.src)
    return "\n".join([*lines, "}", ""])


def _quoted(text: str) -> str:
    return _printable(text).replace("\\", "\\\\").replace('"', '\\"')


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


class Box(NamedTuple):
    """A node in the picture: its lines of text, the middle of its upper side, and its width, in pixels."""

    lines: tuple[str, str]
    x: float
    y: float
    width: float


def to_svg(root: UOp) -> str:
    """The graph below a node as an SVG document:
    operands above, a box a node with its op, arg, dtype and shape.
    """
    boxes = layout(arguments.node("to_svg", root))
    left = min(box.x - box.width / 2 for box in boxes.values()) - _GAP
    right = max(box.x + box.width / 2 for box in boxes.values()) + _GAP
    height = max(box.y for box in boxes.values()) + _HEIGHT + _GAP
    size = f'viewBox="{left:.0f} {-_GAP} {right - left:.0f} {height + _GAP:.0f}"'
    width = f'width="{right - left:.0f}" height="{height + _GAP:.0f}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {width} {size} font-family="monospace" font-size="11">'
    ]
    for node in boxes:
        lines.extend(_edges(node, boxes))
    for node, box in boxes.items():
        lines.append(
            f'<rect x="{box.x - box.width / 2:.0f}" y="{box.y:.0f}" width="{box.width:.0f}" height="{_HEIGHT}" '
            f'rx="4" fill="{_FILLS.get(node.op, _VALUE)}" stroke="#444444"/>'
        )
        for text, below in zip(box.lines, (16, 31), strict=True):
            at = f'x="{box.x:.0f}" y="{box.y + below:.0f}" text-anchor="middle"'
            lines.append(f"<text {at}>{escape(text)}</text>")
    return "\n".join([*lines, "</svg>", ""])


def _edges(node: UOp, boxes: dict[UOp, Box]) -> Iterator[str]:
    """A line from the lower side of each operand to the upper side of the node,
    side by side in their order.
    """
    box = boxes[node]
    for place, source in enumerate(node.src, 1):
        above = boxes[source]
        x = box.x - box.width / 2 + box.width * place / (len(node.src) + 1)
        yield (
            f'<line x1="{above.x:.0f}" y1="{above.y + _HEIGHT:.0f}" x2="{x:.0f}" y2="{box.y:.0f}" stroke="#888888"/>'
        )


def layout(root: UOp) -> dict[UOp, Box]:
    """Where each node stands, operands before what uses them."""
    order = list(toposort((root,)))
    rows: list[list[UOp]] = []
    level = _levels(order)
    for node in order:
        while len(rows) <= level[node]:
            rows.append([])
        rows[level[node]].append(node)
    boxes: dict[UOp, Box] = {}
    for y, row in enumerate(rows):
        wanted = {node: sum(boxes[s].x for s in node.src) / max(len(node.src), 1) for node in row}
        row.sort(key=lambda node: wanted[node])
        texts = {node: (_printable(label(node)), _printable(type_of(node))) for node in row}
        widths = [max(map(len, texts[node])) * _CHARACTER + _PADDING for node in row]
        x = -(sum(widths) + _GAP * (len(row) - 1)) / 2
        for node, width in zip(row, widths, strict=True):
            boxes[node] = Box(texts[node], x + width / 2, y * _ROW, width)
            x += width + _GAP
    return {node: boxes[node] for node in order}


def _levels(order: list[UOp]) -> dict[UOp, int]:
    """The row of each node: below its operands; a leaf stands right above the first node that uses it."""
    level: dict[UOp, int] = {}
    for node in order:
        level[node] = 1 + max((level[s] for s in node.src), default=-1)
    first: dict[UOp, int] = {}
    for node in order:
        for source in node.src:
            first[source] = min(first.get(source, level[node]), level[node])
    for node in order:
        if not node.src and node in first:
            level[node] = first[node] - 1
    return level


def to_html(root: UOp) -> str:
    """What a notebook shows of a node: the picture of its graph;
    of a large one its ops, and the top of its tree.
    """
    order = toposort((root,))
    if len(order) <= DRAWN:
        return to_svg(root)
    counts = Counter(node.op.value for node in order)
    ops = ", ".join(f"{count} {op}" for op, count in counts.most_common())
    return f"<p>{len(order)} nodes: {escape(ops)}</p>\n<pre>{escape(_lines(tree(root, 40)))}</pre>"


def _lines(text: str) -> str:
    return "\n".join(map(_printable, text.split("\n")))
