"""What each op takes and gives, in words, for the reference:
one row an op, beside its row in the op table. Week 1.
"""

from __future__ import annotations

from typing import NamedTuple

from .ops import Ops


class Signature(NamedTuple):
    """The columns of the reference that say what fits an op.

    `operands`: by name, those in brackets may be missing. `types`: of the operands `->` of the result, where
    "same" is that of the operand before it (of the first, for a result).
    `shape`: of the result; "x's" is that of the operand x.
    """

    operands: str
    types: str
    shape: str


_VIEW = "any -> same"
_FUNCTION = Signature("x", "float -> same", "x's")
_ARITHMETIC = Signature("x, y", "number, same -> same", "broadcast")
_BITWISE = Signature("x, y", "bool or integer, same -> same", "broadcast")
_SHIFT = Signature("x, y", "integer, same -> same", "broadcast")
_COMPARISON = Signature("x, y", "any, same -> bool", "broadcast")
_EFFECTS = Signature("[effect, ...]", "any -> void", "()")

#: One row an op. Numbers are integers, floats and index;
#: integers are those that wrap: index is not among them.
SIGNATURES: dict[Ops, Signature] = {
    Ops.CALL: Signature("body, [argument, ...]", "void, those of the body's params -> void", "()"),
    Ops.PARAM: Signature("none", "any", "(size,), of a scalar ()"),
    Ops.BUFFER: Signature("none", "any but index", "(size,)"),
    Ops.INDEX: Signature(
        "x, position, [validity]", "any, index, bool -> x's", "position and validity, broadcast"
    ),
    Ops.LOAD: Signature("place", "any -> same", "place's"),
    Ops.STORE: Signature("place, value", "any, same -> void", "(); value's broadcasts to place's"),
    Ops.RESHAPE: Signature("x, [size, ...]", _VIEW, "sizes"),
    Ops.EXPAND: Signature("x, [size, ...]", _VIEW, "sizes"),
    Ops.PERMUTE: Signature("x", _VIEW, "x's, in the order of axes"),
    Ops.FLIP: Signature("x", _VIEW, "x's"),
    Ops.PAD: Signature("x, [size, ...]", _VIEW, "before + size + after, an axis"),
    Ops.SHRINK: Signature("x, [size, ...]", _VIEW, "end - begin, an axis"),
    Ops.STACK: Signature("x, [x, ...]", "any, all the same -> same", "(n, x's ...)"),
    Ops.REDUCE: Signature("x, [range, ...]", "number -> same", "x's, less its last pop axes"),
    Ops.RANGE: Signature("end", "index -> index", "()"),
    Ops.END: Signature("effect, [range, ...]", "any -> void", "()"),
    Ops.STAGE: Signature("x", _VIEW, "x's"),
    Ops.ALLOC: Signature("none", "any", "(size,)"),
    Ops.AFTER: Signature("x, [effect, ...]", _VIEW, "x's"),
    Ops.COPY: Signature("x", _VIEW, "x's"),
    Ops.CONST: Signature("none", "any", "()"),
    Ops.CAST: Signature("x", "any -> dtype", "x's"),
    Ops.BITCAST: Signature("x", "any but bool and index -> dtype, as wide", "x's"),
    **dict.fromkeys((Ops.RECIP, Ops.SQRT, Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.TRUNC), _FUNCTION),
    Ops.NEG: Signature("x", "number -> same", "x's"),
    **dict.fromkeys((Ops.ADD, Ops.SUB, Ops.MUL, Ops.DIV, Ops.MOD, Ops.MAX), _ARITHMETIC),
    **dict.fromkeys((Ops.AND, Ops.OR, Ops.XOR), _BITWISE),
    **dict.fromkeys((Ops.SHL, Ops.SHR), _SHIFT),
    **dict.fromkeys((Ops.CMPLT, Ops.CMPNE, Ops.CMPEQ), _COMPARISON),
    Ops.WHERE: Signature("condition, x, y", "bool, any, same -> x's", "broadcast"),
    Ops.MULACC: Signature("x, y, z", "integer or float, same, same -> same", "broadcast"),
    Ops.SINK: _EFFECTS,
    Ops.SPECIAL: Signature("end", "index -> index", "()"),
    Ops.BARRIER: _EFFECTS,
    Ops.IF: Signature("condition", "bool -> void", "()"),
    Ops.ENDIF: Signature("if", "void -> void", "()"),
    Ops.WMMA: Signature("a, b, accumulator", "number, same, number -> accumulator's", "accumulator's"),
}
