"""A graph as `.uir` text, one node a line, operands first;
and pickling, which goes through that text. Week 1.
"""

from __future__ import annotations

import copyreg
from collections.abc import Sequence
from typing import Any

from . import arguments
from .errors import VerifyError
from .uir_line import spell
from .uir_parse import parse_uir
from .uop import UOp


def format_uir(program: UOp | Sequence[UOp]) -> str:
    """A program as text that `parse_uir` reads back to the same nodes.

    A node: all that it stands on, itself last. A sequence (a linear program, say): these nodes in this order,
    each of whose sources must come before it. Raises VerifyError where one does not.
    """
    nodes = program.toposort() if isinstance(program, UOp) else arguments.nodes("format_uir", program)
    names: dict[UOp, str] = {}
    lines: list[str] = []
    for number, node in enumerate(nodes):
        missing = [s for s in node.src if s not in names]
        if missing:
            raise VerifyError(
                f"{node.op!r} at place {number} comes before its source {missing[0].op!r}",
                remedy="give the nodes operands first, or one root",
            )
        line = spell(node, [names[s] for s in node.src])
        names[node] = f"%{number}"
        lines.append(f"%{number} = {line}\n")
    return "".join(lines)


def _from_text(text: str) -> UOp:
    return parse_uir(text, "<pickle>").nodes[-1]


def _reduce(node: UOp) -> tuple[Any, ...]:
    return _from_text, (format_uir(node),)


copyreg.pickle(UOp, _reduce)
