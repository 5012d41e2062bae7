"""The commands of this package: `uopc trace`, what each rule did,
and `uopc profile`, how long it took. Week 1.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TypeVar

from uop_ir import CommandParser, Level, Parsed, UOp, UopError, VerifyError, level_of, read_uir

from .installed import load_passes
from .profile import Profile, profile_table
from .settings import settings
from .trace import Trace
from .trace_html import trace_html
from .trace_json import trace_json
from .trace_text import summary, trace_text

#: The pass that the commands run when none is named.
DEFAULT = "simplify"
#: What a command of this module observes a program with.
Observing = TypeVar("Observing", Trace, Profile)


def trace_command(argv: list[str]) -> int:
    """Show what each rule does to a .uir program, step by step."""
    parser = _parser("trace", trace_command.__doc__)
    parser.add_argument("--json", metavar="FILE", help="write the trace as JSON")
    parser.add_argument("--html", metavar="FILE", help="write the trace as a page for a browser")
    options = parser.parse_args(argv)
    trace, program = _observed(Trace(), options.file, options.passes)
    first = list(dict.fromkeys(program.nodes))
    if options.json is not None:
        _write(options.json, json.dumps(trace_json(trace, first)) + "\n")
    if options.html is not None:
        _write(options.html, trace_html(trace, options.file, first))
    if options.json is None and options.html is None:
        for line in trace_text(trace, first, colour=sys.stdout.isatty() and not settings.no_color):
            print(line)
    else:
        print(*map(summary, trace.passes), sep="\n")
    return 0


def profile_command(argv: list[str]) -> int:
    """Show how long each pass and each rule takes on a .uir program."""
    parser = _parser("profile", profile_command.__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args(argv)
    profile, _ = _observed(Profile(), options.file, options.passes)
    print(json.dumps(profile.json()) if options.json else profile_table(profile))
    return 0


def _parser(name: str, about: str | None) -> CommandParser:
    parser = CommandParser(prog=f"uopc {name}", description=about, allow_abbrev=False)
    parser.add_argument("file", metavar="FILE.uir")
    parser.add_argument(
        "--pass",
        dest="passes",
        action="append",
        metavar="PASS",
        help=f"a pass, or several, separated by commas; may be given again (default {DEFAULT})",
    )
    return parser


def _observed(by: Observing, file: str, names: list[str] | None) -> tuple[Observing, Parsed]:
    """The passes of these names run on a file under observation; and the program in it."""
    passes = load_passes([name.strip() for name in ",".join(names or [DEFAULT]).split(",")])
    program = read_uir(file)
    for node in program.nodes:
        if level_of([node.op]) is Level.LINEAR:
            raise VerifyError(
                f"{node.op!r} makes the program linear: an order of nodes, not a graph to rewrite",
                span=program.spans[node],
                remedy="give a program at tensor or loop level",
            )
    try:
        by.run(program.root, passes)
    except UopError as error:
        if isinstance(error.node, UOp) and error.span is None:
            error.span = program.spans.get(error.node)
        raise
    return by, program


def _write(file: str, text: str) -> None:
    try:
        Path(file).write_text(text, encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise UopError(f"cannot write {file!r}: {reason}") from None
