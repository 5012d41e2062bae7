"""How a value is spelled in `.uir` text: tokens,
and for each kind of value how it is read and written. Week 1.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from .dtype import DType, by_name
from .errors import VerifyError
from .infer_structure import REDUCE_IDENTITY
from .ops import AddrSpace, AxisType


class Token(NamedTuple):
    """A piece of a line: a node `%N`, a word, a string,
    punctuation, or a tuple of these. Columns count from 1.
    """

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
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_TRUTH = {"false": False, "true": True}


def quote(token: Token) -> str:
    """A token as an error shows it: not all of it where it is long."""
    text = f"({'...' if token.items else ''})" if token.kind == "tuple" else token.text
    return repr(text if len(text) <= 40 else f"{text[:40]}...")


def integer(token: Token) -> int:
    if token.kind != "word" or not _INTEGER.fullmatch(token.text):
        raise Fault(token, f"{quote(token)} is no integer")
    if len(token.text) > DIGITS:
        raise Fault(token, f"an integer of {len(token.text)} digits", f"at most {DIGITS}")
    return int(token.text)


def _count(token: Token) -> int:
    value = integer(token)
    if value < 0:
        raise Fault(token, f"{quote(token)} is less than 0")
    return value


def truth(token: Token) -> bool:
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
INTEGER = Notation("an integer", integer, str)
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
FLAGS = _many("a tuple of true and false", truth, lambda value: str(value).lower())
