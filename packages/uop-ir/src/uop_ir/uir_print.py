"""A graph as `.uir` text, one node a line, operands first; and pickling, which goes through that text. Week 1."""

from __future__ import annotations

import copyreg
from collections.abc import Sequence
from typing import Any

from .errors import VerifyError
from .uir_parse import parse_uir
from .uir_table import SPELLINGS, Field
from .uop import UOp


def format_uir(program: UOp | Sequence[UOp]) -> str:
    """A program as text that `parse_uir` reads back to the same nodes.

    A node: all that it stands on, itself last. A sequence (a linear program, say): these nodes in this order, each
    of whose sources must come before it. Raises VerifyError where one does not, or where an arg has no spelling.
    """
    nodes = program.toposort() if isinstance(program, UOp) else program
    names: dict[UOp, str] = {}
    lines: list[str] = []
    for number, node in enumerate(nodes):
        missing = [s for s in node.src if s not in names]
        if missing:
            raise VerifyError(
                f"{node.op!r} at place {number} comes before its source {missing[0].op!r}",
                remedy="give the nodes operands first, or one root",
            )
        line = _line(node, [names[s] for s in node.src])
        names[node] = f"%{number}"
        lines.append(f"%{number} = {line}\n")
    return "".join(lines)


def _line(node: UOp, names: list[str]) -> str:
    spelling = SPELLINGS[node.op]
    if not isinstance(node.arg, spelling.kind):
        raise VerifyError(f"{node.op!r}: arg {node.arg!r} has no spelling in .uir", remedy="leave it out")
    fields = spelling.split(node.arg)
    operands = names[:1] if spelling.symbolic else names
    literal = _value(spelling.literal, fields)
    if literal is not None:
        operands = [*operands, literal.format(*names[1:]) if spelling.symbolic else literal]
    keys = [f"{key.name}={value}" for key in spelling.keys if (value := _value(key, fields)) is not None]
    return " ".join([node.op.value, *filter(None, [", ".join(operands)]), *([":", *keys] if keys else [])])


def _value(field: Field | None, fields: dict[str, Any]) -> str | None:
    """The text of a field, None where it is left out."""
    if field is None:
        return None
    value = fields.get(field.name)
    return None if field.optional and value == field.default else field.notation.write(value)


def _from_text(text: str) -> UOp:
    return parse_uir(text, "<pickle>").nodes[-1]


def _reduce(node: UOp) -> tuple[Any, ...]:
    return _from_text, (format_uir(node),)


copyreg.pickle(UOp, _reduce)
