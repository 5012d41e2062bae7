"""The command `uopc explain`: the plans that a Python program makes, each with the reasons of its kernels. Week 5."""

from __future__ import annotations

import runpy
import sys
from argparse import REMAINDER
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

from uop_ir import CommandParser, UopError

from .explain import explain_plan
from .plan import Planned
from .program import WATCHERS


def explain_command(argv: list[str]) -> int:
    """Run a Python program, and say why each kernel of its plans ends where it ends."""
    parser = CommandParser(prog="uopc explain", description=explain_command.__doc__)
    parser.add_argument("file", help="a Python program; what it prints goes to the error stream")
    # also those that begin with a dash; argparse would name them beside a file that is missing
    parser.add_argument("arguments", nargs=REMAINDER, help="its arguments").required = False
    options = parser.parse_args(argv)
    if not Path(options.file).is_file():
        raise UopError(f"explain: there is no file {options.file}", remedy="give a Python program")
    plans: list[tuple[Planned, str]] = []
    with _arguments([options.file, *options.arguments]), redirect_stdout(sys.stderr):
        WATCHERS.append(lambda planned, name: plans.append((planned, name)))
        try:
            runpy.run_path(options.file, run_name="__main__")
        finally:
            WATCHERS.pop()
    print(
        "\n\n".join(explain_plan(planned, f"plan {n} on {name}") for n, (planned, name) in enumerate(plans))
    )
    return 0


@contextmanager
def _arguments(argv: list[str]) -> Iterator[None]:
    """The arguments and the folder of imports that a program finds that is run by Python itself."""
    before = sys.argv, sys.path
    sys.argv, sys.path = argv, [str(Path(argv[0]).resolve().parent), *sys.path]
    try:
        yield
    finally:
        sys.argv, sys.path = before
