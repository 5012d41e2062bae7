"""`uopc doctor`: what is installed, what is missing, and how to get it. Week 1."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable
from dataclasses import fields
from importlib.metadata import PackageNotFoundError, distributions, entry_points, version
from typing import TypeAlias, cast

from .backend import backend_names, get_backend
from .cli import CommandParser, installed_commands
from .errors import BackendError, UopError
from .settings import in_force, settings

#: ("ok", "missing" or "warn"; what; details: its version,
#: or how to get it). Only what is missing is essential.
Finding: TypeAlias = "tuple[str, str, str]"
LIBRARIES = ("numpy", "ml_dtypes")
#: The backend that uop-ir itself brings: without it, its installation is broken.
OWN_BACKEND = "INTERP"


def doctor(argv: list[str]) -> int:
    """Say what is installed, what is missing and how to get it, and the settings in force."""
    parser = CommandParser(prog="uopc doctor", description=doctor.__doc__)
    parser.parse_args(argv)
    findings = [*_libraries(), *_packages(), *_backends(), *_commands(), *_reports()]
    for status, name, detail in findings:
        print(f"{status:<9}{name:<24}{' '.join(detail.split())}".rstrip())
    values = {
        field.name.upper(): getattr(held, field.name) for held in in_force.values() for field in fields(held)
    }
    for name, value in values.items():
        print(f"setting  {name:<24}{value!r}")
    missing = [name for status, name, _ in findings if status == "missing"]
    if missing:
        print(f"missing: {', '.join(missing)}")
    return BackendError.exit_code if missing else 0


def _libraries() -> Iterable[Finding]:
    yield "ok", "python", platform.python_version()
    for name in LIBRARIES:
        try:
            yield "ok", name, version(name)
        except PackageNotFoundError:
            yield "missing", name, f"pip install {name}"


def _packages() -> Iterable[Finding]:
    found = {d.name: d.version for d in distributions() if d.name.split("-")[0] in ("uop", "uopc")}
    for name in sorted(found):
        yield "ok", name, found[name]
    if "uopc" not in found:
        yield "warn", "uopc", "not all packages are here: pip install uopc"


def _backends() -> Iterable[Finding]:
    """One that does not load is missed only if it is our own, or the one asked for."""
    names = backend_names()
    essential = {OWN_BACKEND, settings.dev} - {""}
    for name in sorted({*names, *essential}, key=lambda n: names.index(n) if n in names else len(names)):
        try:
            get_backend(name)
            yield "ok", f"backend {name}", "loads"
        except (UopError, ImportError, OSError) as error:
            yield "missing" if name in essential else "warn", f"backend {name}", str(error)


def _commands() -> Iterable[Finding]:
    for name, entry in installed_commands().items():
        try:
            entry.load()
            yield "ok", f"command {name}", entry.value
        except (UopError, ImportError, AttributeError) as error:
            yield "missing", f"command {name}", str(error)


def _reports() -> Iterable[Finding]:
    """What the packages say of themselves: entry points of the group `uop.doctor`,
    functions without argument.
    """
    for entry in sorted(entry_points(group="uop.doctor"), key=lambda e: e.name):
        try:
            yield from cast(Callable[[], list[Finding]], entry.load())()
        except (UopError, ImportError, AttributeError, OSError) as error:
            yield "missing", f"report of {entry.name}", str(error)
