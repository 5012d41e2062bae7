"""Settings: one dataclass a package, read from the environment once,
overridden by a context manager. Week 1.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, TypeVar

from .errors import UopError

T = TypeVar("T")

#: The settings objects of all packages that have been imported, by their class.
in_force: dict[type[Any], Any] = {}


def read_settings(cls: type[T]) -> T:
    """An instance of a settings dataclass: each field takes the environment variable of its upper-case name.

    Fields are int or str with a default. Raises UopError
    where an int is asked for and something else stands there.
    """
    given: object = cls
    if not (isinstance(given, type) and is_dataclass(given)):
        raise UopError(f"read_settings: {cls!r} is no dataclass")
    values: dict[str, Any] = {}
    for field in fields(given):
        text = os.environ.get(field.name.upper())
        if text is None or text == "":
            continue
        if isinstance(field.default, int):
            try:
                values[field.name] = int(text)
            except ValueError:
                raise UopError(f"{field.name.upper()}={text!r} is not an integer") from None
        else:
            values[field.name] = text
    made = cls(**values)
    in_force[cls] = made
    return made


@contextmanager
def override(settings: object, **values: Any) -> Iterator[None]:
    """Set fields of a settings object for the time of a with block.
    Raises UopError for a field that it has not.
    """
    known = vars(settings) if is_dataclass(settings) else {}
    unknown = [name for name in values if name not in known]
    if unknown:
        what = f"override: {type(settings).__name__} has no setting {unknown[0]!r}"
        raise UopError(what, remedy=f"one of {', '.join(known)}" if known else "give a settings object")
    before = {name: known[name] for name in values}
    try:
        for name, value in values.items():
            setattr(settings, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(settings, name, value)


@dataclass
class IrSettings:
    """DEBUG: how much to say (0 to 4). CHECK: verify between passes.
    DEV: the backend; empty: the best installed.
    """

    debug: int = 0
    check: int = 0
    dev: str = ""


#: What is wrong with these settings in the environment. An import could only say it in a traceback, so the
#: defaults stand in until the command, or the first search for a backend, raises it.
wrong: UopError | None = None
try:
    settings = read_settings(IrSettings)
except UopError as error:
    settings, wrong = IrSettings(), error
