"""The names: every op, the axis types of a RANGE,
the address spaces, and the args that carry data. Week 1.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from .dtype import DType


class Names(Enum):
    """An enum that is fast in a walk: Enum's own hash is a Python function, and members are single."""

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self._name_}"


class Ops(Names):
    """Every op. What each one means stands in its row of the op table (`OPS`)."""

    # kernels and memory
    CALL = "call"
    PARAM = "param"
    BUFFER = "buffer"
    INDEX = "index"
    LOAD = "load"
    STORE = "store"
    # movement
    RESHAPE = "reshape"
    EXPAND = "expand"
    PERMUTE = "permute"
    FLIP = "flip"
    PAD = "pad"
    SHRINK = "shrink"
    STACK = "stack"
    # loops and memory between them
    REDUCE = "reduce"
    RANGE = "range"
    END = "end"
    STAGE = "stage"
    ALLOC = "alloc"
    AFTER = "after"
    COPY = "copy"
    # values
    CONST = "const"
    CAST = "cast"
    BITCAST = "bitcast"
    RECIP = "recip"
    SQRT = "sqrt"
    EXP2 = "exp2"
    LOG2 = "log2"
    SIN = "sin"
    TRUNC = "trunc"
    NEG = "neg"
    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    DIV = "div"
    MOD = "mod"
    MAX = "max"
    AND = "and"
    OR = "or"
    XOR = "xor"
    SHL = "shl"
    SHR = "shr"
    CMPLT = "cmplt"
    CMPNE = "cmpne"
    CMPEQ = "cmpeq"
    WHERE = "where"
    MULACC = "mulacc"
    SINK = "sink"
    # late
    SPECIAL = "special"
    BARRIER = "barrier"
    IF = "if"
    ENDIF = "endif"
    WMMA = "wmma"


class AddrSpace(Names):
    """Where a value lives: in no memory (ALU), in registers,
    in memory shared by a group, in memory of the device.
    """

    ALU = "alu"
    REG = "reg"
    LOCAL = "local"
    GLOBAL = "global"


class AxisType(Names):
    """What becomes of a RANGE."""

    LOOP = "loop"
    REDUCE = "reduce"
    THREAD = "thread"
    UPCAST = "upcast"
    VECTOR = "vector"
    UNROLL = "unroll"
    GLOBAL = "global"
    LOCAL = "local"
    WARP = "warp"
    GROUP = "group"


class Buffer(NamedTuple):
    """arg of BUFFER: `size` elements of `dtype` on `device`. The slot is its identity, never used twice."""

    size: int
    dtype: DType
    slot: int
    device: str = "CPU"


class Param(NamedTuple):
    """arg of PARAM, in one of two forms.

    Memory: `size` elements of `dtype`; `slot` is its place among the memory arguments of the CALL.
    Scalar: `size` is None and `name` tells it apart;
    one of dtype index has bounds `min` and `max`, both included.
    """

    dtype: DType
    slot: int | None = None
    size: int | None = None
    name: str | None = None
    min: int | None = None
    max: int | None = None


class Alloc(NamedTuple):
    """arg of ALLOC: `size` elements of `dtype` in an address space; the slot tells two of a program apart."""

    size: int
    dtype: DType
    slot: int
    addrspace: AddrSpace
