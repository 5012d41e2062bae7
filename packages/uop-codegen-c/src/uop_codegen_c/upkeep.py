"""The upkeep of the kernel cache: what it holds,
what of it is damaged, and what nobody has used for long. Week 2.

All of it is safe beside processes that compile and run: what is removed under their hands is made anew, and
an object that is loaded stays in memory when its name goes.
"""

from __future__ import annotations

import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .cache import is_whole, remove, sweep
from .generated import read_text
from .roofline import read_roofline
from .tuned import read_find


@dataclass
class Usage:
    """So many files of one kind, and their bytes."""

    count: int = 0
    bytes: int = 0


#: The files of each kind, by one or more patterns of where they are; kernels are links to objects.
KINDS = {
    "kernels": "*.k",
    "objects": "*.so",
    "texts": "*.json",
    "tuned": "tuned/*/*.json",
    "rooflines": "roofline-*",
    "failed": "failed/*",
    "unfinished": "work-* work-*/* tuned/*/work-*",
}
#: What is pruned: all of these can be made anew. The links to an object that goes, go with it.
PRUNED = ("objects", "texts", "tuned", "rooflines", "failed")


@dataclass(frozen=True)
class _File:
    path: Path
    bytes: int
    used: float


def inventory(folder: Path) -> dict[str, Usage]:
    """What is in the cache, by kind."""
    found = {}
    for kind, pattern in KINDS.items():
        files = list(_files(folder, pattern))
        found[kind] = Usage(len(files), sum(file.bytes for file in files))
    return found


def damaged(folder: Path) -> list[tuple[Path, str]]:
    """Each object, text, find and roofline that is not what its digest says, with what is wrong.

    They go, and links to nothing too.
    """
    wrong: list[tuple[Path, str]] = []
    for kind, right, what in CHECKS:
        for path in sorted(folder.glob(KINDS[kind])):
            if not right(path) and path.exists():  # it may have gone meanwhile
                remove(path)
                wrong.append((path, what))
    _drop_links(folder)
    return wrong


CHECKS: tuple[tuple[str, Callable[[Path], bool], str], ...] = (
    ("objects", is_whole, "is not what its name says"),
    ("texts", lambda path: read_text(path) is not None, "is not what its digest says"),
    ("tuned", lambda path: read_find(path) is not None, "is not what its digest says"),
    ("rooflines", lambda path: read_roofline(path) is not None, "is not what its digest says"),
)


def _drop_links(folder: Path) -> None:
    """Remove the kernels whose object has gone."""
    for link in folder.glob(KINDS["kernels"]):
        if not link.exists():
            link.unlink(missing_ok=True)


def prune(folder: Path, seconds: float | None = None, size: int | None = None) -> Usage:
    """Remove what was not used for so long, then what was
    not for longest until at most `size` bytes are left.

    Returns how many files went, and their bytes. Compilations that were killed go when an hour old.
    """
    sweep(folder)
    files = sorted((f for k in PRUNED for f in _files(folder, KINDS[k])), key=lambda f: (f.used, f.path))
    left, now, gone = sum(file.bytes for file in files), time.time(), Usage()
    for file in files:
        old = seconds is not None and now - file.used > seconds
        if old or (size is not None and left > size):
            file.path.unlink(missing_ok=True)
            left -= file.bytes
            gone.count, gone.bytes = gone.count + 1, gone.bytes + file.bytes
    _drop_links(folder)
    return gone


def _files(folder: Path, patterns: str) -> Iterator[_File]:
    """The files that match one of the patterns; folders and files that go meanwhile are none."""
    for within, _, name in (pattern.rpartition("/") for pattern in patterns.split()):
        for place in folder.glob(within) if within else (folder,):
            with suppress(FileNotFoundError):
                yield from _matching(place, name)


def _matching(place: Path, name: str) -> Iterator[_File]:
    for path in place.glob(name):
        with suppress(FileNotFoundError):
            status = path.lstat()
            if not stat.S_ISDIR(status.st_mode):
                yield _File(path, status.st_size, status.st_mtime)
