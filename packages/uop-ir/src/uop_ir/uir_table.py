"""How each op's arg is spelled in `.uir` text:
one row an op, which both the printer and the parser read. Week 1.

    %N = op %N, ..., LITERAL : key=VALUE ...

An op has at most one literal, its last operand. Where a literal holds sizes, `%N` in it stands for a symbolic
one: None in the arg, and a source of the node after those that are written before.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from .dtype import Const, DType, dtypes, float_from_bits, float_to_bits
from .ops import Alloc, Buffer, Ops, Param
from .uir_values import (
    AXIS,
    BITS,
    COUNT,
    DTYPE,
    FLAGS,
    FOLD,
    INTEGER,
    NAME,
    NUMBER,
    ORDER,
    PAIRS,
    SIZES,
    SPACE,
    Fault,
    Notation,
    Token,
    integer,
    quote,
    truth,
)

# constants

_FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|[+-]?(inf|nan)", re.IGNORECASE)
_HEX_FLOAT = re.compile(r"[+-]?0x([0-9a-f]+\.?[0-9a-f]*|\.[0-9a-f]+)(p[+-]?[0-9]+)?", re.IGNORECASE)
#: What float.hex writes and a reader does not miss: 0x1.8000000000000p+1 is 0x1.8p+1.
_ZEROS = re.compile(r"\.?0+(?=p)")
_BITS = re.compile(r"0x[0-9a-f]{1,16}")


def _read_const(fields: dict[str, Any]) -> Const:
    token, dtype, bits = fields["value"], fields["dtype"], fields["bits"]
    if token.kind != "word":
        raise Fault(token, f"{quote(token)} is no constant", NUMBER.what)
    if bits is not None and not (dtype.is_float and token.text == "nan"):
        raise Fault(bits, "only a nan has bits=")
    if dtype is dtypes.bool:
        return Const(dtype, int(truth(token)))
    if dtype.is_float:
        return Const(dtype, _float_bits(token, dtype) if bits is None else _nan_bits(bits, dtype))
    value = integer(token)
    if dtype.is_int and not dtype.min <= value <= dtype.max:
        raise Fault(token, f"{quote(token)} does not fit {dtype}", f"{dtype.min} to {dtype.max}")
    return Const(dtype, value)


_INFINITE = {dtype: float_to_bits(dtype, math.inf) for dtype in dtypes.floats}


def _float_bits(token: Token, dtype: DType) -> int:
    """The bits of a hexadecimal or decimal float, rounded to nearest even (through f64)."""
    try:
        if _FLOAT.fullmatch(token.text):
            value = float(token.text)
        elif _HEX_FLOAT.fullmatch(token.text):
            value = float.fromhex(token.text)
        else:
            raise Fault(token, f"{quote(token)} is no number")
        bits = float_to_bits(dtype, value)
    except OverflowError:
        value, bits = math.inf, float_to_bits(dtype, math.inf)
    if bits & (1 << (dtype.bits - 1)) - 1 == _INFINITE[dtype] and "inf" not in token.text.lower():
        raise Fault(token, f"{quote(token)} does not fit {dtype}", "write inf for an infinity")
    return bits


def _nan_bits(token: Token, dtype: DType) -> int:
    if not _BITS.fullmatch(token.text):
        raise Fault(token, f"{quote(token)} is no bit pattern", "such as 0x7fc00001")
    bits = int(token.text, 16)
    if bits >> dtype.bits or not math.isnan(float_from_bits(dtype, bits)):
        raise Fault(token, f"{quote(token)} is no nan of {dtype}")
    return bits


def _write_const(arg: Const) -> dict[str, Any]:
    if arg.dtype is dtypes.bool:
        return {"value": str(arg.value).lower(), "dtype": arg.dtype}
    if not arg.dtype.is_float:
        return {"value": arg.bits, "dtype": arg.dtype}
    value = float_from_bits(arg.dtype, arg.bits)
    if not math.isnan(value):
        return {"value": _ZEROS.sub("", value.hex()), "dtype": arg.dtype}
    usual = arg.bits == float_to_bits(arg.dtype, math.nan)
    return {"value": "nan", "dtype": arg.dtype, "bits": None if usual else hex(arg.bits)}


# rows


@dataclass(frozen=True)
class Field:
    """A part of an arg. One with a default may be left out, and is where it has that value."""

    name: str
    notation: Notation
    optional: bool = False
    default: Any = None


Fields: TypeAlias = "dict[str, Any]"


@dataclass(frozen=True)
class Spelling:
    """The literal and the keys of an op, and how an arg is taken apart into them and put together."""

    literal: Field | None
    keys: tuple[Field, ...]
    split: Callable[[Any], Fields]
    join: Callable[[Fields], Any]

    @property
    def symbolic(self) -> bool:
        """Whether sources after the first stand in the literal."""
        return self.literal is not None and self.literal.notation in (SIZES, PAIRS)


def _record(kind: type, literal: Field | None, *keys: Field) -> Spelling:
    """An arg that is a named tuple, each field under its own name."""
    return Spelling(literal, keys, lambda arg: dict(arg._asdict()), lambda fields: kind(**fields))


def _sequence(*keys: Field) -> Spelling:
    """An arg that is a tuple, each entry under a key."""
    names = [key.name for key in keys]
    return Spelling(
        None,
        keys,
        lambda arg: dict(zip(names, arg, strict=True)),
        lambda fields: tuple(fields[name] for name in names),
    )


def _one(field: Field, *, literal: bool = False) -> Spelling:
    """An arg that is one value, as the literal or under a key."""
    name = field.name
    return Spelling(
        field if literal else None,
        () if literal else (field,),
        lambda arg: {name: arg},
        lambda fields: fields[name],
    )


_SIZE, _TYPE, _SLOT = Field("size", COUNT), Field("dtype", DTYPE), Field("slot", COUNT)
_NOTHING = Spelling(None, (), lambda arg: {}, lambda fields: None)
_SPELLINGS: dict[Ops, Spelling] = {
    Ops.PARAM: _record(
        Param,
        Field("size", COUNT, True),
        _TYPE,
        Field("slot", COUNT, True),
        Field("name", NAME, True),
        Field("min", INTEGER, True),
        Field("max", INTEGER, True),
    ),
    Ops.BUFFER: _record(Buffer, _SIZE, _TYPE, _SLOT, Field("device", NAME, True, "CPU")),
    Ops.ALLOC: _record(Alloc, _SIZE, _TYPE, _SLOT, Field("addrspace", SPACE)),
    Ops.CONST: Spelling(
        Field("value", NUMBER), (_TYPE, Field("bits", BITS, True)), _write_const, _read_const
    ),
    Ops.RESHAPE: _one(Field("sizes", SIZES), literal=True),
    Ops.EXPAND: _one(Field("sizes", SIZES), literal=True),
    Ops.PERMUTE: _one(Field("axes", ORDER), literal=True),
    Ops.FLIP: _one(Field("axes", FLAGS), literal=True),
    Ops.PAD: _one(Field("sizes", PAIRS), literal=True),
    Ops.SHRINK: _one(Field("sizes", PAIRS), literal=True),
    Ops.REDUCE: _sequence(Field("op", FOLD), Field("pop", INTEGER)),
    Ops.RANGE: _sequence(Field("id", INTEGER), Field("axis", AXIS)),
    Ops.STAGE: _one(Field("addrspace", SPACE)),
    Ops.COPY: _one(Field("device", NAME)),
    Ops.CAST: _one(_TYPE),
    Ops.BITCAST: _one(_TYPE),
    Ops.SPECIAL: _one(Field("name", NAME)),
    Ops.WMMA: _one(Field("name", NAME)),
}
#: One row an op; an op that is not named above has no arg.
SPELLINGS: dict[Ops, Spelling] = {op: _SPELLINGS.get(op, _NOTHING) for op in Ops}
