"""The C++ compiler of the emulator: which one, and with which flags. Week 7."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from pathlib import Path

from uop_codegen_c import Compiler
from uop_ir import BackendError
from uop_ir import settings as ir_settings

REMEDY = "apt install g++"
#: No fused operations but those of the text; CUDA's casts between types of pointers; setjmp between stacks.
FLAGS = (
    *("-x", "c++", "-std=c++17", "-O1", "-ffp-contract=off", "-fno-strict-aliasing", "-U_FORTIFY_SOURCE"),
    *("-fPIC", "-shared", "-Wno-psabi"),
)
#: What CHECK=1 adds. A kernel takes all arguments of its CALL;
#: a pragma such as `unroll` is for a GPU's compiler.
WARNINGS = (
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-unused-parameter",
    "-Wno-unused-variable",
    "-Wno-unused-function",
    "-Wno-unknown-pragmas",
)


#: Where Linux lists what a CPU can do, and the line of an x86 with fused operations.
CPU_INFO, FUSED = Path("/proc/cpuinfo"), re.compile(r"^flags\b.*\bfma\b", re.MULTILINE)


@functools.cache
def fused_flags() -> tuple[str, ...]:
    """What makes a fused operation one instruction, not a call of the C library, which rounds as it does.

    A CPU of another kind than x86 needs no flag for it.
    """
    try:
        return ("-mfma",) if FUSED.search(CPU_INFO.read_text()) else ()
    except OSError:
        return ()


def cpp_compiler(*flags: str) -> Compiler:
    """g++, with these flags besides its own. Raises BackendError where it is not there."""
    path = shutil.which("g++")
    if path is None:
        raise BackendError("no g++, which compiles CUDA text for the emulator", remedy=REMEDY)
    return _compiler(path, (*FLAGS, *fused_flags(), *(WARNINGS if ir_settings.check else ()), *flags))


@functools.cache
def _compiler(path: str, flags: tuple[str, ...]) -> Compiler:
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        raise BackendError(f"{path} does not run: {error}", remedy=REMEDY) from None
    version = done.stdout.partition("\n")[0]
    if "Free Software Foundation" not in done.stdout:
        raise BackendError(f"{path} is {version}, not GCC", remedy=REMEDY)
    return Compiler((path,), flags, version, "\n".join((path, *flags, version)))
