"""One node as `.uir` spells it: its operands, literal and keys,
from the table that the parser reads too. Week 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .uir_table import SPELLINGS, Field

if TYPE_CHECKING:
    from .uop import UOp


def spell(node: UOp, names: Sequence[str]) -> str:
    """The part of a line behind `%N =`; `names` are those of the sources."""
    operands, keys = parts(node, names)
    return " ".join([node.op.value, *filter(None, [", ".join(operands)]), *([":", *keys] if keys else [])])


def parts(node: UOp, names: Sequence[str]) -> tuple[list[str], list[str]]:
    """The operands, a literal last, and the keys with their values."""
    spelling = SPELLINGS[node.op]
    fields = spelling.split(node.arg)
    operands = [*(names[:1] if spelling.symbolic else names)]
    literal = _value(spelling.literal, fields)
    if literal is not None:
        operands.append(literal.format(*names[1:]) if spelling.symbolic else literal)
    return operands, [f"{k.name}={value}" for k in spelling.keys if (value := _value(k, fields)) is not None]


def _value(field: Field | None, fields: dict[str, Any]) -> str | None:
    """The text of a field, None where it is left out."""
    if field is None:
        return None
    value = fields.get(field.name)
    return None if field.optional and value == field.default else field.notation.write(value)
