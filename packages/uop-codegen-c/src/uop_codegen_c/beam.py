"""Beam: the C of a kernel by the schedule that timing has found for it;
with BEAM=n one is searched for first. Week 6.

A schedule of the database is applied like one that a user gives: action by action, each of which must be
legal. One that is not is removed, and the kernel gets the schedule that is chosen for it. So does one that
cannot be searched.
"""

from __future__ import annotations

from collections.abc import Callable

from uop_ir import UOp, UopError
from uop_ir import settings as ir_settings

from .cache import KernelSource
from .freedoms import Freedoms, current_freedoms
from .generated import remembered
from .schedule import Schedule
from .settings import settings
from .tune import tune
from .tuned import Find, alone, find_path, forget_find, keep, look_up

#: Called with each kernel that has a Find when it is lowered,
#: and the Find, or the reason why it could not be searched.
WATCHERS: list[Callable[[UOp, Find | Exception], None]] = []


def tuned_text(body: UOp) -> KernelSource:
    """The C of a kernel, by the schedule that was found for it, else by the one that is chosen."""
    return applied(body)[1]


def applied(body: UOp) -> tuple[Find | None, KernelSource]:
    """What was found for a kernel, if its schedule is legal,
    and the C by it, else by the one that is chosen.
    """
    free = current_freedoms()
    found = find(body, free) if free.optimize else None
    if found is None or found.schedule is None:
        return found, remembered(body)
    if ir_settings.debug >= 3:
        print("schedule, found by timing:", found.text)
    try:
        return found, remembered(body, Schedule.parse(found.schedule))
    except UopError:
        forget_find(find_path(body, free))
        return None, remembered(body)


def find(body: UOp, free: Freedoms) -> Find | None:
    """What was found for a kernel, and with BEAM what is found now."""
    try:
        if settings.beam > 0:
            found: Find | None = search(body, free, settings.beam, settings.beam_seconds)
        else:
            found = look_up(body, free)
    except (UopError, OSError) as error:
        if ir_settings.debug >= 1:
            print(f"kernel {body.key[:12]} is not tuned: {error}")
        _tell(body, error)
        return None
    if found is not None:
        _tell(body, found)
    return found


def _tell(body: UOp, found: Find | Exception) -> None:
    for watcher in WATCHERS:
        watcher(body, found)


def search(
    body: UOp,
    free: Freedoms,
    width: int,
    seconds: float,
    say: Callable[[str], None] = lambda text: None,
    anew: bool = False,
) -> Find:
    """Tune a kernel and keep what is found, unless so wide
    and so long a search has been made, and not `anew`.

    Raises UopError where the kernel cannot be run by itself, OSError where the cache cannot be written.
    """
    found = look_up(body, free)
    if found is not None and found.covers(width, seconds) and not anew:
        return found
    with alone():
        found = look_up(body, free)  # another process may have searched meanwhile
        if found is None or anew or not found.covers(width, seconds):
            known = Schedule() if found is None else Schedule.parse(found.schedule or "")
            found = tune(body, free, width, seconds, say, known)
            keep(find_path(body, free), found)
            if ir_settings.debug >= 1:
                print(f"kernel {body.key[:12]} is tuned: {found}")
    return found
