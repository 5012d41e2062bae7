"""Run the examples of the docs and compare what they print,
or write what they print: python docs/examples.py.

In a Markdown file the fenced blocks are examples, by their language:

- `uir`, `python`, `cuda`, `c`, `toml`: a file,
  where the first line is a comment that begins with its name (`# gemm.uir: ...`);
- `console`: commands, `$ uopc ... [> FILE]`, `$ echo $?`, and programs (`$ python FILE`, `$ make`,
  `$ cc ...`, `$ ./FILE`), each with what it prints on both streams;
- `pycon`: Python, as doctest reads it; the blocks of a file are one session.

In what is printed `...` stands for any text, a time for any time, and the digest in a kernel's name for any
digest. What stands between `<!-- NAME -->` and `<!-- end -->` is made from the tables of uop-ir and the
docstrings of uop-tensor, see `reference.py` and `api.py`.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import runpy
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from uop_ir import override
from uop_ir.cli import main
from uop_ir.settings import in_force

DOCS = Path(__file__).parent
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
FILE = re.compile(r"(?:#|//) ([\w.]+\.(?:uir|py|cu|c|toml))\b")
#: What differs from run to run, from version to version: times, and the digest in a kernel's name.
VARIES = re.compile(r" +[0-9.]+(?= (?:ms|GFLOP/s|GB/s))|(?<=\bk_)[0-9a-f]{16}\b")
GENERATED = re.compile(r"<!-- ([a-z ]+) -->\n(?:(?!<!-- ).)*<!-- end -->", re.DOTALL)
CHECKER = doctest.OutputChecker()


def pages() -> list[Path]:
    """The files whose examples are run."""
    return sorted(DOCS.glob("*.md"))


def current(page: Path) -> str:
    """The text of a page as it should be. What its examples print stays as it is where it agrees."""
    text = page.read_text()
    session: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        text = BLOCK.sub(lambda block: _block(block, session), text)
    made = {
        name: part
        for script in ("reference.py", "api.py")
        for name, part in runpy.run_path(str(DOCS / script))["GENERATED"].items()
    }
    return GENERATED.sub(lambda found: f"<!-- {found[1]} -->\n{made[found[1]]()}<!-- end -->", text)


def _block(block: re.Match[str], session: dict[str, object]) -> str:
    language, body = block.groups()
    named = FILE.match(body)
    if language in ("uir", "python", "cuda", "c", "toml") and named:
        Path(named[1]).write_text(body)
    elif language == "console":
        codes: list[int] = []
        body = COMMAND.sub(lambda found: _command(found[1], found[2], codes), body)
    elif language == "pycon":
        body = "".join(_python(body, session))
    return f"```{language}\n{body}```"


def _same(said: str, found: str) -> bool:
    plain = [VARIES.sub("", text) for text in (said, found)]
    return CHECKER.check_output(plain[0], plain[1], doctest.ELLIPSIS)


def _command(line: str, said: str, codes: list[int]) -> str:
    """A command with what it prints; `codes` has the exit codes of those before it."""
    found = f"{codes[-1]}\n" if line == "echo $?" else _run(line, codes)
    blank = "\n" if said.endswith("\n\n") and not found.endswith("\n\n") else ""
    return f"$ {line}\n{said if _same(said.removesuffix(blank), found) else found + blank}"


def _run(line: str, codes: list[int]) -> str:
    words = shlex.split(line)
    set_here = {}
    while "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        set_here[name] = value
    printed = io.StringIO()
    if words[0] != "uopc":
        done = subprocess.run(
            [sys.executable if words[0] == "python" else words[0], *words[1:]],
            env={**os.environ, **set_here},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        codes.append(done.returncode)
        return done.stdout
    out = io.StringIO() if ">" in words else printed
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(printed))
        for settings in in_force.values():
            own = {f.name: f for f in fields(settings) if f.name.upper() in set_here}
            values = {
                name: int(set_here[name.upper()]) if isinstance(f.default, int) else set_here[name.upper()]
                for name, f in own.items()
            }
            stack.enter_context(override(settings, **values))
        codes.append(main(words[1:-2] if ">" in words else words[1:]))
    if ">" in words:
        Path(words[-1]).write_text(out.getvalue())
    return printed.getvalue()


def _python(body: str, session: dict[str, object]) -> Iterator[str]:
    """The pieces of a session, each example with what it prints."""
    runner = doctest.DocTestRunner(CHECKER, verbose=False, optionflags=doctest.ELLIPSIS)
    for piece in doctest.DocTestParser().parse(body):
        if isinstance(piece, str):
            yield piece
            continue
        found: list[str] = []
        test = doctest.DocTest([piece], session, "docs", None, None, None)
        test.globs = session
        runner.run(test, out=found.append, clear_globs=False)
        _, failed, got = "".join(found).partition("Got:\n")
        if not failed or got.lstrip().startswith("Traceback"):  # its last line says what it is
            lines = "".join(found).rstrip("\n").splitlines()
            got = f"    Traceback (most recent call last):\n        ...\n{lines[-1]}\n" if lines else ""
        source = [
            f"{'... ' if n else '>>> '}{line}".rstrip() for n, line in enumerate(piece.source.splitlines())
        ]
        yield "\n".join(source) + "\n"
        yield "".join(f"{line[4:]}\n" for line in got.rstrip("\n").splitlines()) if found else piece.want


if __name__ == "__main__":
    for path in pages():
        path.write_text(current(path))
