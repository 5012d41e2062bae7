"""What the C backend finds on this machine, what is missing, and how to get it. Week 3."""

from __future__ import annotations

import os
import platform
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

from uop_ir import UopError

from .cache import KernelSource, active_compiler, kernel_folder
from .compiler import OPENMP, find_compiler, too_old
from .cpu import threads
from .loader import ffi, load
from .machine import cpu_flags
from .upkeep import inventory

#: Bytes below which a disk is called full.
ROOM = 100_000_000
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
    least = too_old(found.version)
    detail = f"{' '.join(found.command)}: {found.version}"
    return ("warn", f"{detail}; it is not tested below {least}") if least else ("ok", detail)


def _flags() -> tuple[str, str]:
    return "ok", " ".join(active_compiler().flags)


def _openmp() -> tuple[str, str]:
    if OPENMP in active_compiler().flags:
        return "ok", OPENMP
    return (
        "warn",
        "none: kernels run on one thread (for gcc install libgomp1, for clang libomp-dev; on macOS gcc)",
    )


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
        found = inventory(folder)
        free = shutil.disk_usage(folder).free
    size = sum(kind.bytes for kind in found.values())
    detail = f"{folder}: {found['kernels'].count} kernels, {size / 1e6:.1f} MB, {free / 1e9:.1f} GB free"
    for wrong, what in (
        (not os.access(folder, os.W_OK), "it cannot be written (set UOP_CACHE to a folder that can)"),
        (_open_to_others(folder), "others may write to it, and what it holds is run (chmod 700)"),
        (
            _of_another(folder),
            "it is another user's, and what it holds is run (set UOP_CACHE to a folder of yours)",
        ),
        (free < ROOM, "the disk is nearly full (uopc cache prune)"),
    ):
        if wrong:
            return "warn", f"{detail}; {what}"
    return "ok", detail


def _open_to_others(folder: Path) -> bool:
    return any(path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH) for path in (folder.parent, folder))


def _of_another(folder: Path) -> bool:
    return any(path.stat().st_uid not in (os.geteuid(), 0) for path in (folder.parent, folder))


def _kernel() -> tuple[str, str]:
    """The whole way once: compiled or found, loaded, called."""
    signature = "void uop_doctor(void *const *buffers, const int64_t *scalars)"
    text = f"{signature};\n\n{signature}\n{{\n    *(int64_t *)buffers[0] = scalars[0] + 1;\n}}\n"
    (function,) = load([KernelSource("uop_doctor", "#include <stdint.h>", text)])
    out = ffi.new("int64_t *")
    function(ffi.new("void *[]", [out]), ffi.new("int64_t[]", [41]))
    return ("ok", "compiled, loaded, and right") if out[0] == 42 else ("missing", f"41 + 1 is {out[0]}")


#: Name, check, and whether it makes sense without a compiler. The compiler comes first.
CHECKS: tuple[tuple[str, Callable[[], tuple[str, str]], bool], ...] = (
    ("C compiler", _compiler, False),
    ("C flags", _flags, True),
    ("OpenMP", _openmp, True),
    ("threads", _threads, True),
    ("CPU features", _features, False),
    ("kernel cache", _cache, False),
    ("a kernel", _kernel, True),
)
