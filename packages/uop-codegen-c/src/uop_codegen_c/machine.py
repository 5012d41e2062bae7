"""What the optimizer must know of the machine: vector width, vector registers, threads. Week 6."""

from __future__ import annotations

import functools
import os
import platform
from dataclasses import dataclass
from pathlib import Path

from uop_ir import BackendError


@dataclass(frozen=True)
class Machine:
    """Bytes of a vector register, how many there are, and the threads that a kernel may use.

    Raises BackendError for vectors of no power of two from 16 bytes on,
    and where there is not one of the others.
    """

    vector_bytes: int
    registers: int
    threads: int

    def __post_init__(self) -> None:
        if self.vector_bytes < 16 or self.vector_bytes & (self.vector_bytes - 1):
            raise BackendError(f"{self}: vectors of {self.vector_bytes} bytes", remedy="16, 32 or 64")
        if self.registers < 1 or self.threads < 1:
            raise BackendError(f"{self}: no machine has so few", remedy="1 or more of each")


@functools.cache
def _cpu_info() -> dict[str, str]:
    """What the kernel of the system says of the first CPU; nothing where it says nothing."""
    info = Path("/proc/cpuinfo")
    if not info.exists():
        return {}
    found: dict[str, str] = {}
    for line in info.read_text().splitlines():
        if found and not line.strip():
            break
        key, _, value = line.partition(":")
        found[key.strip()] = value.strip()
    return found


def cpu_flags() -> frozenset[str]:
    """The feature names that the kernel of the system lists for the first CPU; empty where it lists none."""
    info = _cpu_info()
    return frozenset((info.get("flags") or info.get("Features") or "").split())


#: What /proc/cpuinfo tells models apart by: x86, then Arm.
MODEL = (
    *("vendor_id", "model name", "cpu family", "model", "stepping"),
    *("CPU implementer", "CPU part", "CPU variant", "CPU revision"),
)


def cpu_model() -> str:
    """The model of the CPU, as the system names it."""
    info = _cpu_info()
    return " ".join(info[key] for key in MODEL if key in info) or platform.processor()


def cpus() -> int:
    """The CPUs that this process may use. macOS has no affinity, and gives those of the machine."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@functools.cache
def this_machine() -> Machine:
    """The machine that we run on; OMP_NUM_THREADS limits the threads."""
    flags = cpu_flags()
    if "avx512f" in flags:
        width, registers = 64, 32
    elif "avx" in flags:
        width, registers = 32, 16
    else:
        width, registers = 16, 32 if platform.machine() in ("aarch64", "arm64") else 16
    asked = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    return Machine(width, registers, int(asked) if asked.isdigit() and int(asked) > 0 else cpus())
