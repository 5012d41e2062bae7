"""The op table: for each op its arity, what it accepts,
and the type, shape and address space of its result. Week 1.

A row is one line. `infer` is called once a new node and raises VerifyError,
naming the op, both sides and the remedy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .dtype import Kind, dtypes
from .errors import VerifyError
from .infer_structure import (
    after_type,
    alloc_type,
    buffer_type,
    call_type,
    copy_type,
    effect_type,
    end_type,
    if_type,
    index_type,
    load_type,
    param_type,
    range_type,
    reduce_type,
    special_type,
    stage_type,
    store_type,
    wmma_type,
)
from .infer_values import (
    bitcast_type,
    cast_type,
    const_type,
    expand_type,
    flip_type,
    pad_type,
    permute_type,
    reshape_type,
    shrink_type,
    stack_type,
    value_type,
    where_type,
)
from .ops import Ops
from .shapes import (
    BITS,
    FLOAT,
    INTEGER,
    NUMBER,
    VALUE,
    Infer,
    Result,
    fail,
)

if TYPE_CHECKING:
    from .uop import UOp


@dataclass(frozen=True)
class Row:
    """What the IR knows of one op: how many sources (None:
    any number more), what it accepts, what it means.
    """

    least: int
    most: int | None
    infer: Infer
    meaning: str
    arg: bool = False  # whether it has one, which `infer` then checks


#: One row an op.
OPS: dict[Ops, Row] = {
    Ops.CALL: Row(
        1, None, call_type, "run a kernel's body with arguments: memory by slot, then scalars by name"
    ),
    Ops.PARAM: Row(
        0, 0, param_type, "an argument of a kernel: memory by slot, or a scalar by name", arg=True
    ),
    Ops.BUFFER: Row(0, 0, buffer_type, "memory of a device, with identity", arg=True),
    Ops.INDEX: Row(
        2, 3, index_type, "an element of memory, or a lane of a vector; invalid: reads 0, stores nothing"
    ),
    Ops.LOAD: Row(1, 1, load_type, "the value in memory"),
    Ops.STORE: Row(2, 2, store_type, "put a value into memory"),
    Ops.RESHAPE: Row(1, None, reshape_type, "the same elements, row-major, in another shape", arg=True),
    Ops.EXPAND: Row(1, None, expand_type, "axes of size 1 repeated to a size", arg=True),
    Ops.PERMUTE: Row(1, 1, permute_type, "axes in another order", arg=True),
    Ops.FLIP: Row(1, 1, flip_type, "marked axes reversed", arg=True),
    Ops.PAD: Row(1, None, pad_type, "each axis grown by (before, after), filled with zero", arg=True),
    Ops.SHRINK: Row(1, None, shrink_type, "of each axis the part (begin, end)", arg=True),
    Ops.STACK: Row(1, None, stack_type, "values of one shape along a new first axis"),
    Ops.REDUCE: Row(
        1,
        None,
        reduce_type,
        "fold the last n axes, or close ranges, left to right from the identity",
        arg=True,
    ),
    Ops.RANGE: Row(1, 1, range_type, "a loop index from 0 to the end, excluded", arg=True),
    Ops.END: Row(
        1, None, end_type, "the effect, once for each value of the ranges it closes, outermost first"
    ),
    Ops.STAGE: Row(1, 1, stage_type, "the operand, stored once and read many times", arg=True),
    Ops.ALLOC: Row(0, 0, alloc_type, "scratch memory of a program", arg=True),
    Ops.AFTER: Row(1, None, after_type, "the operand, after the effects"),
    Ops.COPY: Row(1, 1, copy_type, "the operand on another device", arg=True),
    Ops.CONST: Row(0, 0, const_type, "a constant, told apart by type and bits", arg=True),
    Ops.CAST: Row(
        1,
        1,
        cast_type,
        "to another type: to nearest even; float to integer truncates, saturates, NaN is 0",
        arg=True,
    ),
    Ops.BITCAST: Row(
        1,
        1,
        bitcast_type,
        "the same bits as another type; a float NaN gives the canonical quiet NaN",
        arg=True,
    ),
    Ops.RECIP: Row(1, 1, value_type(FLOAT), "1 / x, correctly rounded"),
    Ops.SQRT: Row(1, 1, value_type(FLOAT), "square root, correctly rounded"),
    Ops.EXP2: Row(1, 1, value_type(FLOAT), "2 to the x: its definition, at most 2 ulp from exact"),
    Ops.LOG2: Row(1, 1, value_type(FLOAT), "logarithm to base 2: its definition, at most 2 ulp from exact"),
    Ops.SIN: Row(1, 1, value_type(FLOAT), "sine: its definition, at most 2 ulp from exact"),
    Ops.TRUNC: Row(1, 1, value_type(FLOAT), "round towards zero"),
    Ops.NEG: Row(1, 1, value_type(NUMBER), "-x; flips the sign bit of floats, wraps on integers"),
    Ops.ADD: Row(2, 2, value_type(NUMBER), "x + y; integers wrap"),
    Ops.SUB: Row(2, 2, value_type(NUMBER), "x - y; integers wrap"),
    Ops.MUL: Row(2, 2, value_type(NUMBER), "x * y; integers wrap"),
    Ops.DIV: Row(2, 2, value_type(NUMBER), "x / y; integers floor, and x // 0 is 0"),
    Ops.MOD: Row(2, 2, value_type(NUMBER), "x - (x // y) * y, with the divisor's sign; x % 0 is x"),
    Ops.MAX: Row(2, 2, value_type(NUMBER), "y if y is NaN or x < y, else x"),
    Ops.AND: Row(2, 2, value_type(BITS), "bitwise and"),
    Ops.OR: Row(2, 2, value_type(BITS), "bitwise or"),
    Ops.XOR: Row(2, 2, value_type(BITS), "bitwise exclusive or"),
    Ops.SHL: Row(
        2, 2, value_type(INTEGER - {Kind.INDEX}), "x * 2**y; y is unsigned, the width or more gives 0"
    ),
    Ops.SHR: Row(
        2, 2, value_type(INTEGER - {Kind.INDEX}), "floor(x / 2**y); the width or more gives 0 or the sign"
    ),
    Ops.CMPLT: Row(2, 2, value_type(VALUE, dtypes.bool), "x < y"),
    Ops.CMPNE: Row(2, 2, value_type(VALUE, dtypes.bool), "x != y"),
    Ops.CMPEQ: Row(2, 2, value_type(VALUE, dtypes.bool), "x == y"),
    Ops.WHERE: Row(3, 3, where_type, "the second where the first is true, else the third"),
    Ops.MULACC: Row(3, 3, value_type(NUMBER - {Kind.INDEX}), "x * y + z, rounded once"),
    Ops.SINK: Row(0, None, effect_type, "the end of a program: its effects or outputs, in order"),
    Ops.SPECIAL: Row(1, 1, special_type, "an index of the device's grid, by name", arg=True),
    Ops.BARRIER: Row(0, None, effect_type, "all threads of a group wait here, after the effects"),
    Ops.IF: Row(1, 1, if_type, "what follows, up to ENDIF, only where true"),
    Ops.ENDIF: Row(1, 1, effect_type, "the end of an IF"),
    Ops.WMMA: Row(
        3,
        3,
        wmma_type,
        "a @ b + accumulator of the tiles of a warp; each lane has the elements that the instruction says",
        arg=True,
    ),
}


def infer(op: Ops, src: tuple[UOp, ...], arg: Any) -> Result:
    """The dtype, shape and address space of a node, or VerifyError where it is wrong."""
    row = OPS.get(op)
    if row is None:
        raise VerifyError(f"{op!r} is no op", remedy="a member of Ops")
    if len(src) < row.least or (row.most is not None and len(src) > row.most):
        most = "or more" if row.most is None else f"to {row.most}" if row.most != row.least else ""
        raise fail(op, f"{len(src)} sources given", f"it takes {row.least} {most}".rstrip())
    if arg is not None and not row.arg:
        raise fail(op, f"arg {arg!r} given", "it takes no arg")
    return row.infer(op, src, arg)
