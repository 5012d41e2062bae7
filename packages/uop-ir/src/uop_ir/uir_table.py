"""How each op's arg is spelled in `.uir` text: one row an op, which both the printer and the parser read. Week 1.

    %N = op %N, ..., LITERAL : key=VALUE ...

An op has at most one literal, its last operand. Where a literal holds sizes, `%N` in it stands for a symbolic one:
None in the arg, and a source of the node after those that are written before.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

from .dtype import Const, DType, by_name, dtypes, float_from_bits, float_to_bits
from .errors import VerifyError
from .infer_structure import REDUCE_IDENTITY
from .ops import AddrSpace, Alloc, AxisType, Buffer, Ops, Param


class Token(NamedTuple):
    """A piece of a line: a node `%N`, a word, a string, punctuation, or a tuple of these. Columns count from 1."""

    kind: str
    text: str
    column: int
    items: tuple[Token, ...] = ()


class Fault(Exception):
    """What is wrong with a token, for the parser to say with its place."""

    def __init__(self, token: Token, what: str, remedy: str | None = None) -> None:
        super().__init__(what)
        self.token, self.what, self.remedy = token, what, remedy


@dataclass(frozen=True)
class Notation:
    """How one kind of value is read and written; `what` completes the sentence "... must be"."""

    what: str
    read: Callable[[Token], Any]
    write: Callable[[Any], str]


# single values

#: Digits that an integer may have: far more than any size, far fewer than Python refuses to convert.
DIGITS = 1000
_INTEGER = re.compile(r"[+-]?[0-9]+")
_FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|[+-]?(inf|nan)", re.IGNORECASE)
_HEX_FLOAT = re.compile(r"[+-]?0x([0-9a-f]+\.?[0-9a-f]*|\.[0-9a-f]+)(p[+-]?[0-9]+)?", re.IGNORECASE)
#: What float.hex writes and a reader does not miss: 0x1.8000000000000p+1 is 0x1.8p+1.
_ZEROS = re.compile(r"\.?0+(?=p)")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_BITS = re.compile(r"0x[0-9a-f]{1,16}")
_TRUTH = {"false": False, "true": True}


def quote(token: Token) -> str:
    """A token as an error shows it: not all of it where it is long."""
    text = f"({'...' if token.items else ''})" if token.kind == "tuple" else token.text
    return repr(text if len(text) <= 40 else f"{text[:40]}...")


def _integer(token: Token) -> int:
    if token.kind != "word" or not _INTEGER.fullmatch(token.text):
        raise Fault(token, f"{quote(token)} is no integer")
    if len(token.text) > DIGITS:
        raise Fault(token, f"an integer of {len(token.text)} digits", f"at most {DIGITS}")
    return int(token.text)


def _count(token: Token) -> int:
    value = _integer(token)
    if value < 0:
        raise Fault(token, f"{quote(token)} is less than 0")
    return value


def _truth(token: Token) -> bool:
    if token.text not in _TRUTH:
        raise Fault(token, f"{quote(token)} is neither true nor false")
    return _TRUTH[token.text]


def _dtype(token: Token) -> DType:
    try:
        return by_name(token.text)
    except VerifyError as error:
        raise Fault(token, f"{quote(token)} is no dtype", error.remedy) from None


def _words(values: type[Enum] | tuple[Enum, ...], what: str) -> Notation:
    """Members of an enum, by their values."""
    named = {str(v.value): v for v in values}

    def read(token: Token) -> Enum:
        if token.kind != "word" or token.text not in named:
            raise Fault(token, f"{quote(token)} is no {what}", f"one of {', '.join(named)}")
        return named[token.text]

    return Notation(what, read, lambda value: str(value.value))


def _string(token: Token) -> str:
    if token.kind == "string":
        try:
            return str(json.loads(token.text, strict=False))
        except ValueError:
            raise Fault(token, "a string with an escape that JSON does not know") from None
    if token.kind != "word":
        raise Fault(token, f"{quote(token)} is no name", 'a word, or a string in "..."')
    return token.text


def _quoted(value: str) -> str:
    return value if _PLAIN.fullmatch(value) else json.dumps(value)


# tuples


def _items(token: Token) -> tuple[Token, ...]:
    if token.kind != "tuple":
        raise Fault(token, f"{quote(token)} is no tuple", "such as (2, 3)")
    return token.items


def _tuple(items: list[str]) -> str:
    return f"({', '.join(items)}{',' if len(items) == 1 else ''})"


def _size(token: Token) -> int | None:
    return None if token.kind == "node" else _count(token)


def _write_size(value: int | None) -> str:
    return "{}" if value is None else str(value)


def _pair(token: Token) -> tuple[int | None, int | None]:
    items = _items(token)
    if len(items) != 2:
        raise Fault(token, f"a pair of {len(items)} sizes")
    return _size(items[0]), _size(items[1])


def _many(what: str, read: Callable[[Token], Any], write: Callable[[Any], str]) -> Notation:
    return Notation(
        what,
        lambda token: tuple([read(item) for item in _items(token)]),
        lambda value: _tuple([write(v) for v in value]),
    )


COUNT = Notation("an integer that is at least 0", _count, str)
INTEGER = Notation("an integer", _integer, str)
DTYPE = Notation("a dtype", _dtype, lambda value: str(value.name))
NAME = Notation("a name", _string, _quoted)
FOLD = _words(tuple(REDUCE_IDENTITY), "op to fold with")
AXIS = _words(AxisType, "axis type")
SPACE = _words(AddrSpace, "address space")
NUMBER = Notation("a number, true or false", lambda token: token, str)
BITS = Notation("a bit pattern such as 0x7fc00001", lambda token: token, str)
# Of a symbolic size only the place is written here: the printer puts the name of the node there.
SIZES = _many("a tuple of sizes", _size, _write_size)
PAIRS = _many("a tuple of pairs of sizes", _pair, lambda pair: _tuple([_write_size(v) for v in pair]))
ORDER = _many("a tuple of axes", _count, str)
FLAGS = _many("a tuple of true and false", _truth, lambda value: str(value).lower())


# constants


def _read_const(fields: dict[str, Any]) -> Const:
    token, dtype, bits = fields["value"], fields["dtype"], fields["bits"]
    if token.kind != "word":
        raise Fault(token, f"{quote(token)} is no constant", NUMBER.what)
    if bits is not None and not (dtype.is_float and token.text == "nan"):
        raise Fault(bits, "only a nan has bits=")
    if dtype is dtypes.bool:
        return Const(dtype, int(_truth(token)))
    if dtype.is_float:
        return Const(dtype, _float_bits(token, dtype) if bits is None else _nan_bits(bits, dtype))
    value = _integer(token)
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
}
#: One row an op; an op that is not named above has no arg.
SPELLINGS: dict[Ops, Spelling] = {op: _SPELLINGS.get(op, _NOTHING) for op in Ops}
