"""The command `uopc`: finds a subcommand among the installed ones,
runs it, and says our errors in one line. Week 1.
"""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version
from pathlib import Path
from typing import NoReturn, cast

from .errors import UopError
from .settings import wrong

USAGE = "uopc COMMAND ... | --help | --version"
INTERRUPTED = 130


class CommandParser(argparse.ArgumentParser):
    """An ArgumentParser for subcommands: a mistake in the arguments is a UopError, in one line."""

    def error(self, message: str) -> NoReturn:
        raise UopError(f"{self.prog}: {message}", remedy=f"see {self.prog} --help")


def main(argv: Sequence[str] | None = None) -> int:
    """Run `uopc` with these arguments (those of the process
    if None) and return its exit code, as in `errors`.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    if sys.stdout is None:  # closed before we began, as `>&-` does
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115  # for as long as the process lasts
    try:
        if wrong is not None:
            raise wrong
        code = _dispatch(arguments)
        sys.stdout.flush()
        return code
    except UopError as error:
        return _say(
            str(error) if error.span else f"uopc: error: {' '.join(str(error).split())}", error.exit_code
        )
    except MemoryError:
        return _say("uopc: error: not enough memory", 5)
    except KeyboardInterrupt:
        return _say("uopc: interrupted", INTERRUPTED)
    except OSError as error:
        # Whoever read our output has gone, or it has no room.
        # What is buffered must not fail again at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        gone = isinstance(error, BrokenPipeError)
        return 1 if gone else _say(f"uopc: error: {error.strerror or error}", 1)


def run_python(file: str, arguments: Sequence[str] = ()) -> None:
    """Run a Python program as Python itself would, with these arguments;
    what it prints goes to the error stream.

    So a command can say what the program does to the packages. Raises UopError where there is no such file.
    """
    if not Path(file).is_file():
        raise UopError(f"there is no file {file}", remedy="give a Python program")
    before = sys.argv, sys.path
    sys.argv, sys.path = [file, *arguments], [str(Path(file).resolve().parent), *sys.path]
    try:
        with redirect_stdout(sys.stderr):
            runpy.run_path(file, run_name="__main__")
    finally:
        sys.argv, sys.path = before


def run_python_or_model(name: str, arguments: Sequence[str], command: str) -> None:
    """Run a Python program or, where there is no file of this name,
    the model that an installed package knows by it.

    A model does one step of training, by the arguments as options, in which `command` stands before its name
    where they are refused. What is printed goes to the error stream. Raises UopError where there is neither.
    """
    models = installed_models()
    if Path(name).is_file() or not models:
        run_python(name, arguments)
    elif name in models:
        with redirect_stdout(sys.stderr):
            models[name].load()(arguments, f"{command} {name}")
    else:
        raise UopError(
            f"there is no file {name}, and no model of that name",
            remedy=f"give a Python program, or one of {', '.join(models)}",
        )


def installed_models() -> dict[str, EntryPoint]:
    """The models that the installed packages know by name: what each offers does a step of its training."""
    return {entry.name: entry for entry in entry_points(group="uop.models")}


def _say(message: str, code: int) -> int:
    print(message, file=sys.stderr)
    return code


def _dispatch(arguments: list[str]) -> int:
    name = arguments[0] if arguments else ""
    if name in _OPTIONS:
        print(_OPTIONS[name]())
        return 0
    commands = installed_commands()
    if name not in commands:
        what = f"no command {name!r}" if name else "no command given"
        raise UopError(what, remedy=f"installed: {', '.join(commands) or 'none'}; see uopc --help")
    command = _load(commands[name])
    try:
        return command(arguments[1:])
    except SystemExit as stop:
        # argparse stops the process: with 0 after --help, with 2 after a mistake, which is 1 here.
        if stop.code is None or isinstance(stop.code, int):
            return 1 if stop.code == 2 else stop.code or 0
        return _say(str(stop.code), 1)


def installed_commands() -> dict[str, EntryPoint]:
    """The subcommands that the installed packages offer, by name."""
    return {entry.name: entry for entry in sorted(entry_points(group="uop.commands"), key=lambda e: e.name)}


def _load(entry: EntryPoint) -> Callable[[list[str]], int]:
    try:
        return cast(Callable[[list[str]], int], entry.load())
    except (ImportError, AttributeError) as error:
        raise UopError(f"the command {entry.name} cannot be loaded from {entry.value}: {error}") from None


def _help() -> str:
    lines = [f"usage: {USAGE}", "", "commands:"]
    for name, entry in installed_commands().items():
        try:
            about = " ".join((_load(entry).__doc__ or "").split("\n\n")[0].split())
        except UopError as error:
            about = str(error)
        lines.append(f"  {name:<12}{about}")
    return "\n".join([*lines, "", "uopc COMMAND --help says more of one."])


def _version() -> str:
    try:
        return f"uopc {version('uop-ir')}"
    except PackageNotFoundError:
        return "uopc, not installed: run from its source"


_OPTIONS = {"--help": _help, "-h": _help, "help": _help, "--version": _version}
