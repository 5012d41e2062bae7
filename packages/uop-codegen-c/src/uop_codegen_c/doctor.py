"""What the C backend finds on this machine, what is missing, and how to get it. Week 3."""

from __future__ import annotations

import os
import platform
import stat
from collections.abc import Callable

from uop_ir import UopError

from .cache import active_compiler, kernel_folder
from .compiler import OPENMP, find_compiler
from .cpu import threads
from .machine import cpu_flags

#: Status (ok, warn or missing), what was looked at, what was found.
Finding = tuple[str, str, str]
#: What generated code gains from, where the CPU has it, by the names of /proc/cpuinfo.
FEATURES = (
    "sse4_2",
    "avx",
    "avx2",
    "fma",
    "f16c",
    "avx512f",
    "avx512_bf16",
    "avx512_fp16",
    "amx_bf16",
    "amx_tile",
    "asimd",
    "asimdhp",
    "bf16",
    "sve",
)


def doctor() -> list[Finding]:
    """One finding a line; what is missing says how to get it. Never raises."""
    findings: list[Finding] = []
    for name, check, needs_compiler in CHECKS:
        if needs_compiler and findings[0][0] == "missing":
            continue
        try:
            status, detail = check()
        except (UopError, OSError) as error:
            status, detail = "missing", str(error).replace("\n", "; ")
        findings.append((status, name, detail))
    return findings


def _compiler() -> tuple[str, str]:
    found = find_compiler()
    return "ok", f"{' '.join(found.command)}: {found.version}"


def _flags() -> tuple[str, str]:
    return "ok", " ".join(active_compiler().flags)


def _openmp() -> tuple[str, str]:
    if OPENMP in active_compiler().flags:
        return "ok", OPENMP
    return "warn", "none: kernels run on one thread (apt install libgomp1 for gcc, libomp-dev for clang)"


def _threads() -> tuple[str, str]:
    count, cpus = threads(), os.cpu_count()
    return "ok" if count > 1 or cpus == 1 else "warn", f"{count} of {cpus} CPUs (OMP_NUM_THREADS, affinity)"


def _features() -> tuple[str, str]:
    found = [feature for feature in FEATURES if feature in cpu_flags()]
    return "ok" if found else "warn", " ".join(
        found
    ) or f"unknown vector instructions of {platform.machine()}"


def _cache() -> tuple[str, str]:
    with kernel_folder() as folder:
        files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
        detail = f"{folder}: {len(files)} files, {sum(path.stat().st_size for path in files) / 1e6:.1f} MB"
    if not os.access(folder, os.W_OK):
        return "warn", f"{detail}; it cannot be written (set UOP_CACHE to a folder that can)"
    if any(path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH) for path in (folder.parent, folder)):
        return "warn", f"{detail}; others may write to it, and what it holds is run (chmod 700)"
    return "ok", detail


#: Name, check, and whether it makes sense without a compiler. The compiler comes first.
CHECKS: tuple[tuple[str, Callable[[], tuple[str, str]], bool], ...] = (
    ("C compiler", _compiler, False),
    ("C flags", _flags, True),
    ("OpenMP", _openmp, True),
    ("threads", _threads, True),
    ("CPU features", _features, False),
    ("kernel cache", _cache, False),
)
