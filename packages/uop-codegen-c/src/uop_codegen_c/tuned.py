"""Tuned: the schedules that were found by timing, on disk, by kernel and by CPU. Week 6.

The folder `tuned` of the kernel cache holds a folder a CPU, named by a digest of VERSION and of all that the
speed of a kernel hangs on: the model, its vectors, registers and threads,
the compiler with its flags, and the code that lowers. In it are

    <sha256>.json   one a kernel, named by its content and freedoms: the digest of the rest, then a Find

and beside the folders a file `lock`, held while a search times: two at once would time each other. A file
appears by a rename, whole. One that is damaged, or whose schedule is not legal, goes when it is read. Where
nothing was ever found there is no folder `tuned`, and to see that is all that a look costs.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from uop_ir import UOp, UopError

from .cache import active_compiler, cache_folder, digest, mark_used, read_checked, remove, write_checked
from .freedoms import Freedoms
from .generated import lowering_identity
from .machine import cpu_model, this_machine
from .schedule import Schedule

#: Part of the name of a CPU's folder: to be changed with what a Find is.
VERSION = "1"


@dataclass(frozen=True)
class Find:
    """What a search has found for a kernel: `schedule`, or None where none is faster than the chosen one.

    `chosen_seconds` and `seconds` are of one run by the chosen schedule and by the one found, in turns;
    `measured` schedules were timed, of which `refused` did not count. The search was to look around `width`
    at a time for so many seconds (`limit`).
    """

    schedule: str | None
    chosen: str
    chosen_seconds: float
    seconds: float
    measured: int
    refused: int
    width: int
    limit: float

    def covers(self, width: int, limit: float) -> bool:
        """Whether the search was as wide and as long as another would be."""
        return self.width >= width and self.limit >= limit

    @property
    def ratio(self) -> float:
        """How many times as fast as the chosen schedule."""
        return self.chosen_seconds / self.seconds

    @property
    def text(self) -> str:
        """The schedule as it is printed, which is never empty."""
        return "as chosen" if self.schedule is None else self.schedule or "none"

    def __str__(self) -> str:
        before, after = self.chosen_seconds * 1e3, self.seconds * 1e3
        return f"{before:.3f} ms, {after:.3f} ms, {self.ratio:.2f} times as fast: {self.text}"


def find_path(body: UOp, free: Freedoms) -> Path:
    """Where the Find of a kernel is, or would be. Raises BackendError where there is no compiler."""
    return cpu_folder() / f"{digest(body.key, repr(free))}.json"


def look_up(body: UOp, free: Freedoms) -> Find | None:
    """The Find of a kernel, if there is one for this CPU; a file that is none goes."""
    if not tuned_folder().is_dir():
        return None
    path = find_path(body, free)
    found = read_find(path)
    if found is None:
        forget_find(path)
    else:
        mark_used(path)
    return found


def read_find(path: Path) -> Find | None:
    """The Find in a file; None where there is none that is whole."""
    try:
        found = Find(**read_checked(path, VERSION))
        Schedule.parse(found.schedule or "")
        return found
    except (OSError, ValueError, TypeError, UopError):
        return None


def forget_find(path: Path) -> None:
    """Remove the file of a Find that is of no use, if it is there."""
    with suppress(OSError):  # a cache that cannot be written is read again
        remove(path)


def keep(path: Path, found: Find) -> None:
    """Write a Find. A folder that cannot be written keeps none."""
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, exist_ok=True)
        write_checked(path, asdict(found), VERSION)


@contextmanager
def alone() -> Iterator[None]:
    """Wait until no other process searches in this cache.
    Raises OSError where the folder cannot be written.
    """
    tuned_folder().mkdir(mode=0o700, parents=True, exist_ok=True)
    with (tuned_folder() / "lock").open("a") as lock:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def tuned_folder() -> Path:
    return cache_folder() / "c" / "tuned"


def cpu_folder() -> Path:
    """The folder of this CPU. Raises BackendError where there is no compiler."""
    parts = [cpu_model(), repr(this_machine()), active_compiler().identity, lowering_identity()]
    return tuned_folder() / digest(VERSION, *parts)
