"""The grammar of `.uir` in docs/uir.md, read from there:
the parser knows what it spells, and nothing else.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from uop_ir import Ops, ParseError, UOp, UopError, format_uir, parse_uir
from uop_ir.uir_table import SPELLINGS

PAGE = Path(__file__).parents[1] / "docs" / "uir.md"
(TEXT,) = re.findall(r"```ebnf\n(.*?)```", PAGE.read_text(), re.DOTALL)
#: Rules whose parts stand close together; between those of the others there may be blanks.
TOKENS = {"name", "word", "string", "comment", "character", "escape", "letter", "digit", "hex"}
#: What the page says in words, as a regular expression, and characters to draw from.
IN_WORDS = {
    "A to Z and a to z": ("[A-Za-z]", "abxyzAZ"),
    "0 to 9": ("[0-9]", "0123456789"),
    "0 to 9, A to F and a to f": ("[0-9A-Fa-f]", "09afAF"),
    "any character but the quote, the backslash and newline": (r'[^"\\\n]', " a%#(\t\u00e9"),
    "any character but newline": (r"[^\n]", ' a%#"\\\t\u2603'),
    "line feed": (r"\n", "\n"),
}
#: Errors that say that a text is none of the grammar's; all others are about what its words mean.
OF_THE_GRAMMAR = re.compile(r"where .* belongs|in a tuple|no place here")

Tree = tuple[str, Any]


def read_grammar(text: str) -> dict[str, Tree]:
    """Each rule as a tree of alternatives, sequences, options, repetitions, rules, signs and words."""
    tokens: list[str] = re.findall(r"\"[^\"]*\"|'[^']*'|\?[^?]*\?|\w+|[=|;{}()\[\]]", text)
    at = 0

    def take(wanted: str | None = None) -> str:
        nonlocal at
        at += 1
        assert wanted in (None, tokens[at - 1]), (wanted, tokens[at - 3 : at + 2])
        return tokens[at - 1]

    def alternatives() -> Tree:
        options = [sequence()]
        while tokens[at] == "|":
            take()
            options.append(sequence())
        return options[0] if len(options) == 1 else ("or", options)

    def sequence() -> Tree:
        parts = []
        while tokens[at] not in "|;)]}":
            parts.append(part())
        return parts[0] if len(parts) == 1 else ("sequence", parts)

    def part() -> Tree:
        token = take()
        closing = {"(": (")", "group"), "[": ("]", "option"), "{": ("}", "repeat")}
        if token in closing:
            end, kind = closing[token]
            inner = alternatives()
            take(end)
            return inner if kind == "group" else (kind, inner)
        if token[0] == "?":
            return "words", token.strip("? ")
        return ("sign", token[1:-1]) if token[0] in "\"'" else ("rule", token)

    rules = {}
    while at < len(tokens):
        name = take()
        take("=")
        rules[name] = alternatives()
        take(";")
    return rules


RULES = read_grammar(TEXT)


def pattern(tree: Tree, blank: str) -> str:
    """A regular expression of what a tree spells: no rule of the grammar stands within itself."""
    kind, inner = tree
    if kind == "rule":
        close = inner in TOKENS
        text = pattern(RULES[inner], "" if close else blank)
        return f"{blank}(?>{text})" if close and blank else text
    if kind == "or":
        return f"(?:{'|'.join(pattern(i, blank) for i in inner)})"
    if kind == "sequence":
        return "".join(pattern(i, blank) for i in inner)
    if kind in ("option", "repeat"):
        # a token is as long as it can be: what it has taken is not given back
        more = {"option": "?", "repeat": "*"}[kind] + ("" if blank else "+")
        return f"(?:{pattern(inner, blank)}){more}"
    return blank + (IN_WORDS[inner][0] if kind == "words" else re.escape(inner))


LINE = re.compile(pattern(("rule", "line"), "[ \t\r]*") + "[ \t\r]*")


def derive(tree: Tree, rng: random.Random, known: dict[str, Callable[[], str]], blank: str) -> str:
    """A random text of a tree. Rules in `known` are drawn from there, most of the time."""
    kind, inner = tree
    if kind == "rule":
        close = inner in TOKENS
        if inner in known and rng.random() < 0.9:
            return blank + known[inner]()
        text = derive(RULES[inner], rng, known, "" if close else blank)
        return blank + text if close else text
    if kind == "or":
        return derive(rng.choice(inner), rng, known, blank)
    if kind == "sequence":
        return "".join(derive(i, rng, known, blank) for i in inner)
    if kind in ("option", "repeat"):
        times = rng.randint(0, 1) if kind == "option" else rng.choice([0, 0, 1, 1, 2, 3])
        return "".join(derive(inner, rng, known, blank) for _ in range(times))
    return (blank if rng.random() < 0.5 else "") + (
        rng.choice(IN_WORDS[inner][1]) if kind == "words" else inner
    )


KEYS = [key.name for spelling in SPELLINGS.values() for key in spelling.keys]
WORDS = [
    "0",
    "1",
    "4",
    "-1",
    "1.5",
    "0x1.8p+1",
    "nan",
    "true",
    "add",
    "f32",
    "index",
    "global",
    "loop",
    "n",
    "9" * 40,
]
#: Nodes that are right where the names in them are, so that others can stand on them.
SOUND = [
    "const 1 : dtype=f32",
    "buffer 4 : dtype=f32 slot=0",
    "neg {}",
    "add {}, {}",
    "reshape {}, (1,)",
    "sink {}, {}",
]


def random_program(rng: random.Random) -> str:
    """Lines derived from the grammar; each node that is made has a new name, most of the time."""
    lines = []
    for number in range(rng.randint(1, 5)):

        def name(number: int = number) -> str:
            return f"%{rng.randint(0, max(number - 1, 0))}"

        def node(number: int = number) -> str:
            return f"%{number} = {rng.choice(SOUND).format(name(), name())}"

        known: dict[str, Callable[[], str]] = {
            "name": name,
            "op": lambda: rng.choice(list(Ops)).value,
            "key": lambda: rng.choice(KEYS),
            "word": lambda: rng.choice(WORDS),
        }
        if rng.random() < 0.6:
            known["node"] = node
        line = derive(RULES["line"], rng, known, rng.choice([" ", " ", "\t ", "\r "]))
        lines.append(re.sub(r"^\s*%\d+", f"%{number}", line) if rng.random() < 0.9 else line)
    return "\n".join(lines)


def outcome(text: str) -> tuple[tuple[UOp, ...], UopError | None]:
    """The nodes of a text, or the error of ours."""
    try:
        return parse_uir(text).nodes, None
    except UopError as error:
        return (), error


def check(text: str) -> bool:
    """Whether a text is read. It is refused at the first
    line that the grammar does not spell, or before it.
    """
    lines = text.split("\n")
    wrong = next((n for n, line in enumerate(lines, 1) if not LINE.fullmatch(line)), None)
    nodes, error = outcome(text)
    if error is None:
        assert wrong is None, text
        again = format_uir(nodes)
        assert parse_uir(again).nodes == nodes
        assert format_uir(parse_uir(again).nodes) == again
        return True
    assert error.span is not None
    assert error.exit_code in (2, 3)
    if wrong is None or error.span.line < wrong:
        assert not OF_THE_GRAMMAR.search(error.message), text
    else:
        assert error.span.line == wrong
        assert isinstance(error, ParseError)
    return False


@pytest.mark.parametrize("count", [3000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_what_the_grammar_spells(count: int) -> None:
    rng = random.Random(1)  # noqa: S311
    read = sum(check(random_program(rng)) for _ in range(count))
    assert read > count // 20


@pytest.mark.parametrize("count", [3000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_what_is_near_the_grammar(count: int) -> None:
    """Characters taken out, put in or doubled: the parser and the grammar agree on what is left."""
    rng = random.Random(2)  # noqa: S311
    outside = 0
    for _ in range(count):
        text = random_program(rng)
        for _ in range(rng.randint(1, 3)):
            at = rng.randint(0, len(text))
            text = text[:at] + rng.choice(["", *'%=:,()"\\# \nx0\x00\u00e9']) + text[at + rng.randint(0, 1) :]
        outside += not all(LINE.fullmatch(line) for line in text.split("\n"))
        check(text)
    assert outside > count // 4


def test_the_pages_own_programs_are_of_the_grammar() -> None:
    programs = re.findall(r"```uir\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(programs) > 1
    assert all(LINE.fullmatch(line) for text in programs for line in text.split("\n"))
