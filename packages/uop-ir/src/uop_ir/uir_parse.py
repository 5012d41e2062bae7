"""Reads `.uir` text: a graph, one node a line, with the place of each node and of each mistake. Week 1."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from .arguments import shown
from .errors import ParseError, Span, UopError, VerifyError
from .levels import Level, level_of
from .ops import Ops
from .uir_table import SPELLINGS, Field, Spelling
from .uir_values import Fault, Token, quote
from .uop import UOp
from .walks import toposort

_OPS = {op.value: op for op in Ops}
_VERSION = re.compile(r"#!\s*uir\s+([^\s]+)\s*")
#: Every character of a line is in one of these; `bad` is what no token starts with.
_TOKEN = re.compile(
    r"[ \t\r]*(?:(?P<node>%[0-9]+)|(?P<word>[A-Za-z0-9_.+-]+)|(?P<punctuation>[=:,()])"
    r'|(?P<string>"(?:[^"\\]|\\.)*")|(?P<comment>\#.*)|(?P<bad>[^ \t\r]))',
    re.DOTALL,
)


@dataclass(frozen=True)
class Parsed:
    """A program that was read.

    `nodes`: the node of each line, in order; one that is spelled twice stands here twice.
    `outputs`: the operands of the sink that ends the program; without one, the nodes that no other uses, in
    order. `root`: that sink; without one, the output if there is one, else a new SINK of the outputs.
    `spans`: where the op of each node first stands.
    """

    nodes: tuple[UOp, ...]
    outputs: tuple[UOp, ...]
    root: UOp
    spans: dict[UOp, Span]

    @property
    def program(self) -> UOp | tuple[UOp, ...]:
        """What `verify` and `run_program` take: the nodes
        in order where the program is linear, else the root.
        """
        called = toposort(n.src[0] for n in self.nodes if n.op is Ops.CALL)
        linear = level_of(n.op for n in self.nodes if n not in called) is Level.LINEAR
        return self.nodes if linear else self.root


def parse_uir(text: str, file: str = "<string>") -> Parsed:
    """The program that a text spells; `file` is its name in errors.

    A slot names the same BUFFER in a text as in the process; slots that a text uses are not handed out again.
    Raises ParseError for what the grammar does not know,
    and VerifyError for a node that is ill-typed or ill-shaped, both with their place.
    """
    if not isinstance(text, str):
        raise UopError(f"parse_uir: {shown(text)} is no text", remedy="a str; read_uir reads a file")
    reader = _Reader(file)
    for number, line in enumerate(text.split("\n"), 1):
        reader.line(number, line.rstrip("\r"))
    return reader.parsed()


def read_uir(path: str | Path) -> Parsed:
    """The program in a file, UTF-8. Raises UopError where the file cannot be read,
    else as `parse_uir` does.
    """
    try:
        data = Path(path).read_bytes()
    except TypeError:
        raise UopError(f"read_uir: {shown(path)} is no path", remedy="a str or a Path") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise UopError(f"cannot read {str(path)!r}: {reason}") from None
    try:
        return parse_uir(data.decode("utf-8-sig"), str(path))
    except UnicodeDecodeError as error:
        *before, start = error.object[: error.start].decode("utf-8").split("\n")
        rest = error.object[error.start :].split(b"\n", 1)[0].decode("utf-8", "replace")
        span = Span(str(path), len(before) + 1, len(start) + 1, start + rest)
        raise ParseError("a byte that is not UTF-8", span=span) from None


class _Reader:
    """What has been read of a program, and the line at hand."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.named: dict[str, UOp] = {}
        self.nodes: list[UOp] = []
        self.spans: dict[UOp, Span] = {}
        self.number = 1
        self.text = ""
        self.tokens: list[Token] = []
        self.at = 0

    def parsed(self) -> Parsed:
        if not self.nodes:
            raise ParseError("a program without a node", span=Span(self.file, 1, 1, ""))
        used = {source for node in self.nodes for source in node.src}
        last = self.nodes[-1]
        if last.op is Ops.SINK and last not in used:
            return Parsed(tuple(self.nodes), last.src, last, self.spans)
        outputs = tuple(dict.fromkeys(node for node in self.nodes if node not in used))
        root = outputs[0] if len(outputs) == 1 else UOp.sink(*outputs)
        return Parsed(tuple(self.nodes), outputs, root, self.spans)

    def line(self, number: int, text: str) -> None:
        """Read one line: a node, a comment, or nothing."""
        self.number, self.text = number, text
        try:
            self.version()
            self.tokens = self.scan()
            self.at = 0
            if len(self.tokens) > 1:
                self.node()
        except Fault as fault:
            self.fail(fault.token.column, fault.what, fault.remedy)

    def fail(self, column: int, what: str, remedy: str | None) -> NoReturn:
        raise ParseError(what, span=self.span(column), remedy=remedy) from None

    def span(self, column: int) -> Span:
        return Span(self.file, self.number, column, self.text)

    def version(self) -> None:
        found = _VERSION.fullmatch(self.text) if self.number == 1 and self.text.startswith("#!") else None
        if found and found[1] != "1":
            column = found.start(1) + 1
            raise Fault(Token("word", found[1], column), "a version of .uir that this uopc cannot read", "1")

    # tokens

    def scan(self) -> list[Token]:
        """The tokens of the line, and an end."""
        tokens: list[Token] = []
        end = len(self.text) + 1
        for found in _TOKEN.finditer(self.text):
            kind, text = found.lastgroup or "", found[found.lastindex or 0]
            token = Token(kind, text, found.end() - len(text) + 1)
            if kind == "comment":
                end = token.column
                break
            if kind == "bad":
                raise Fault(token, f"a character that has no place here: {token.text!a}")
            tokens.append(token)
        tokens.append(Token("end", "the end of the line", end))
        return tokens

    def take(self) -> Token:
        """The next token; the end is never passed."""
        token = self.tokens[self.at]
        self.at += token.kind != "end"
        return token

    def next_is(self, text: str) -> bool:
        """Whether the next token is this punctuation; if so, it is taken."""
        token = self.tokens[self.at]
        found = token.kind == "punctuation" and token.text == text
        self.at += found
        return found

    def expect(self, text: str) -> None:
        if not self.next_is(text):
            raise Fault(self.tokens[self.at], f"{quote(self.tokens[self.at])} where {text!r} belongs")

    def value(self) -> Token:
        """An operand or the value of a key: a token, or a tuple of tokens and of tuples of tokens."""
        token = self.take()
        if token.kind in ("node", "word", "string"):
            return token
        if token.text != "(":
            raise Fault(token, f"{quote(token)} where a value belongs")
        items: list[Token] = []
        inner: list[Token] | None = None
        opened = token
        while True:
            item = self.take()
            if item.kind in ("node", "word", "string"):
                (items if inner is None else inner).append(item)
            elif item.text == "(" and inner is None:
                inner, opened = [], item
                continue
            elif item.text == ")" and inner is not None:
                items.append(Token("tuple", "", opened.column, tuple(inner)))
                inner = None
            elif item.text == ")":
                return Token("tuple", "", token.column, tuple(items))
            else:
                raise Fault(item, f"{quote(item)} in a tuple")
            if not self.next_is(",") and self.tokens[self.at].text != ")":
                raise Fault(self.tokens[self.at], f"{quote(self.tokens[self.at])} where ',' or ')' belongs")

    # a node

    def node(self) -> None:
        """`%N = op operand, ... : key=value ...`"""
        name = self.take()
        if name.kind != "node":
            raise Fault(name, f"{quote(name)} where a node belongs", "%N = op operand, ... : key=value ...")
        if name.text in self.named:
            raise Fault(name, f"{quote(name)} is defined twice")
        self.expect("=")
        word = self.take()
        if word.kind != "word" or word.text not in _OPS:
            raise Fault(word, f"{quote(word)} is no op")
        op = _OPS[word.text]
        spelling = SPELLINGS[op]
        sources, literal = self.operands(word, spelling)
        tokens = self.keys(word, spelling)
        if literal is not None and spelling.literal is not None:
            tokens[spelling.literal.name] = literal
        arg = spelling.join(self.fields(spelling, tokens))
        try:
            node = UOp(op, sources, arg)
        except VerifyError as error:
            error.span = self.span(tokens.get(error.part or "", word).column)
            raise
        self.named[name.text] = node
        self.nodes.append(node)
        if node not in self.spans:
            self.spans[node] = self.span(word.column)

    def operands(self, word: Token, spelling: Spelling) -> tuple[list[UOp], Token | None]:
        """The sources, and the literal that follows them."""
        sources: list[UOp] = []
        if self.tokens[self.at].kind == "end" or self.tokens[self.at].text == ":":
            return sources, None
        while True:
            token = self.value()
            if token.kind != "node":
                break
            sources.append(self.source(token))
            if not self.next_is(","):
                return sources, None
        if spelling.literal is None:
            raise Fault(token, f"{word.text} takes nodes only", "a constant is a node: %N = const ...")
        for item in token.items:
            sources.extend(self.source(t) for t in (item, *item.items) if t.kind == "node")
        if self.next_is(","):
            raise Fault(token, f"{spelling.literal.name} of {word.text} must be its last operand")
        return sources, token

    def source(self, token: Token) -> UOp:
        if token.text not in self.named:
            raise Fault(token, f"{quote(token)} is not defined above")
        return self.named[token.text]

    def keys(self, word: Token, spelling: Spelling) -> dict[str, Token]:
        """The token of each key."""
        tokens: dict[str, Token] = {}
        known = [key.name for key in spelling.keys]
        if self.tokens[self.at].kind != "end":
            self.expect(":")
        while self.tokens[self.at].kind != "end":
            key = self.take()
            if key.text not in known:
                remedy = f"one of {', '.join(known)}" if known else "it takes none"
                raise Fault(key, f"{quote(key)} is no key of {word.text}", remedy)
            if key.text in tokens:
                raise Fault(key, f"{quote(key)} is given twice")
            self.expect("=")
            tokens[key.text] = self.value()
        return tokens

    def fields(self, spelling: Spelling, tokens: dict[str, Token]) -> dict[str, Any]:
        """The values of literal and keys; Fault at the end of the line where one is missing."""
        fields: dict[str, Any] = {}
        wanted = spelling.keys if spelling.literal is None else (spelling.literal, *spelling.keys)
        for field in wanted:
            token = tokens.get(field.name)
            if token is not None:
                fields[field.name] = field.notation.read(token)
            elif field.optional:
                fields[field.name] = field.default
            else:
                raise self.missing(field, is_key=field in spelling.keys)
        return fields

    def missing(self, field: Field, *, is_key: bool) -> Fault:
        what = f"{field.name}= is missing" if is_key else f"the last operand, {field.name}, is missing"
        return Fault(self.tokens[-1], what, field.notation.what)
