"""The passes that installed packages offer by name: entry points of the group `uop.passes`. Week 1."""

from __future__ import annotations

from contextlib import suppress
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING

from uop_ir import UopError

if TYPE_CHECKING:
    from .passes import Pass

GROUP = "uop.passes"


def installed_passes() -> dict[str, EntryPoint]:
    """What can be asked for, by name. Each is a callable without arguments that gives a Pass,
    or a tuple of them.
    """
    return {entry.name: entry for entry in sorted(entry_points(group=GROUP), key=lambda e: (e.name, e.value))}


def offered_names() -> set[str]:
    """The names of all passes that the installed packages offer and that load."""
    names: set[str] = set()
    for name in installed_passes():
        with suppress(UopError):
            names |= {step.name for step in load_passes([name])}
    return names


def load_passes(names: list[str]) -> tuple[Pass, ...]:
    """The passes of these names, in order. Raises UopError for a name that no package offers,
    or that does not load.
    """
    installed = installed_passes()
    passes: list[Pass] = []
    for name in names:
        if name not in installed:
            raise UopError(f"no pass {name!r}", remedy=f"installed: {', '.join(installed) or 'none'}")
        try:
            made = installed[name].load()()
        except (ImportError, AttributeError) as error:
            value = installed[name].value
            raise UopError(f"the pass {name} cannot be loaded from {value}: {error}") from None
        passes += made if isinstance(made, tuple) else (made,)
    return tuple(passes)
