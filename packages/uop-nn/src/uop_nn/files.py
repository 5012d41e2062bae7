"""Write a file as a whole or not at all. Week 5."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

__all__ = ["remove_leftovers", "replacing"]


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Give a binary file that takes the place of `path` when the block ends without an exception.

    The bytes go to a temporary file in the folder of `path`, which is made where it is missing, and reach the
    disk before the name does. A reader therefore sees the old file or the new one, and an exception, Ctrl-C
    included, leaves the old one and no temporary file. Raises OSError where the folder cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files of `replacing` that processes which were killed have left in a folder."""
    for path in folder.glob(".*.*.tmp"):
        parts = path.name.split(".")
        if len(parts) > 4 and parts[-3].isdecimal() and len(parts[-2]) == 8 and not _runs(int(parts[-3])):
            path.unlink(missing_ok=True)


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OverflowError, PermissionError):
        return True
    return True
