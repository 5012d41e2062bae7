"""The texts of kernels on disk: a kernel that any process has lowered is not lowered again. Week 2.

A text is found by the content of the kernel's body, the freedoms, the machine, and the code that would lower
it: the files of this package and of those it stands on. So a change of a rule, or another package in place of
ours, finds nothing. A file that is damaged is not believed:
its digest is checked, and the kernel is lowered again.
"""

from __future__ import annotations

import functools
import hashlib
from importlib.resources import files
from pathlib import Path

from uop_ir import UOp, settings
from uop_rewrite import settings as rewrite_settings

from .cache import KernelSource, digest, kept, kernel_folder, read_checked
from .freedoms import current_freedoms
from .lower import generate
from .machine import this_machine
from .schedule import Schedule


def remembered(body: UOp, schedule: Schedule | None = None) -> KernelSource:
    """The C of a kernel, by a schedule or the one that is chosen:
    from the cache folder, or lowered now and kept there.

    From DEBUG=3 on, and under PRINT_AFTER, it is always lowered, so that what the passes do can be seen.
    """
    free = current_freedoms()
    lower = generate if schedule is None else functools.partial(generate, schedule=schedule)
    if settings.debug >= 3 or rewrite_settings.print_after:
        return lower(body, free)
    parts = [body.key, repr(free), repr(this_machine())]
    key = digest(lowering_identity(), *parts, *([] if schedule is None else [str(schedule)]))
    with kernel_folder() as folder:
        return kept(folder / f"{key}.json", read_text, lambda: lower(body, free))


@functools.cache
def lowering_identity() -> str:
    """A digest of the code that lowers kernels."""
    found = hashlib.sha256()
    for package in ("uop_ir", "uop_rewrite", "uop_codegen_c"):
        for path in sorted(files(package).iterdir(), key=lambda path: path.name):
            if path.name.endswith(".py"):
                found.update(path.name.encode() + b"\0" + path.read_bytes())
    return found.hexdigest()


def read_text(path: Path) -> KernelSource | None:
    """The text in a file of the cache; None where it is not there or not whole."""
    try:
        return KernelSource(**read_checked(path))
    except (OSError, ValueError, TypeError):
        return None
