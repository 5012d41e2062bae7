"""The backend CPU: kernels as C, run in this process. Week 3."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from uop_ir import BackendError, Executable, Limits, Plan, UOp
from uop_ir import settings as ir_settings

from .beam import tuned_text
from .cache import KernelSource, active_compiler
from .compiler import OPENMP
from .loader import load
from .machine import this_machine
from .memory import Memory, adopt, allocate, bytes_of, free
from .report import report
from .runtime import REPLAY, CpuProgram, replay
from .settings import settings


class CpuBackend:
    """Runs kernels on the CPU. Safe to use from several threads."""

    name = "CPU"

    def __init__(self, generate: Callable[[UOp], KernelSource] = tuned_text) -> None:
        """`generate`: from the body of a kernel to C."""
        self._generate = generate
        self._programs: weakref.WeakKeyDictionary[UOp, dict[Any, CpuProgram]] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()
        self._replay: Any = None
        self.limits = Limits(threads=threads())

    def compile(self, bodies: Sequence[UOp]) -> Sequence[CpuProgram]:
        """Compile kernels, all at once; those that are known come from memory or disk.
        Raises BackendError.
        """
        settled = (
            settings.opt,
            settings.strict,
            settings.cc,
            settings.uop_cache,
            settings.beam,
            settings.beam_seconds,
            ir_settings.check,
        )
        with self._lock:
            known = {body: self._programs.get(body, {}).get(settled) for body in bodies}
        new = {body: self._generate(body) for body, program in known.items() if program is None}
        functions: list[Any] = []
        if new or self._replay is None:
            *functions, self._replay = load([*new.values(), REPLAY])
        for (body, source), function in zip(new.items(), functions, strict=True):
            if ir_settings.debug >= 4:
                print(source.text)
            program = CpuProgram(source.name, source.text, function, source.flops, source.bytes)
            with self._lock:
                known[body] = self._programs.setdefault(body, {}).setdefault(settled, program)
        return [found for body in bodies if (found := known[body]) is not None]

    def link(self, plan: Plan) -> Executable:
        """Compile what is new of a plan and prepare its replay. Raises BackendError."""
        programs = self.compile([call.src[0] for call in plan.calls])
        return replay(plan, programs, self._replay)

    def allocate(self, nbytes: int) -> Memory:
        """Memory of so many bytes, not initialized. Raises BackendError where there is not so much."""
        return allocate(nbytes)

    def free(self, memory: Memory) -> None:
        """Give memory back."""
        free(memory)

    def copy_in(self, memory: Memory, data: npt.NDArray[Any]) -> None:
        """Copy a contiguous array of the memory's size into it. Raises BackendError for another size."""
        whole = self.bytes_of(memory)
        whole[:] = _as_bytes(whole, data)

    def copy_out(self, memory: Memory, data: npt.NDArray[Any]) -> None:
        """Copy memory into a contiguous, writable array of its size. Raises BackendError for another size."""
        whole = self.bytes_of(memory)
        _as_bytes(whole, data)[:] = whole

    def bytes_of(self, memory: Memory) -> npt.NDArray[np.uint8]:
        """The bytes themselves, which outlive `free`. Raises BackendError where they were freed."""
        return bytes_of(memory)

    def adopt(self, data: npt.NDArray[np.uint8]) -> Memory:
        """Memory that is the bytes of an array, which it keeps alive.
        Raises BackendError for one with gaps.
        """
        if not data.flags.c_contiguous:
            raise BackendError("memory of an array that is not contiguous", remedy="numpy.ascontiguousarray")
        return adopt(data)

    def report(self, body: UOp) -> Iterable[str]:
        """Lines about a kernel: its schedule, what each action is for,
        and its time beside what the machine can do.
        """
        return report(body)

    def synchronize(self) -> None:
        """Kernels are done when their call returns: nothing to wait for."""


def _as_bytes(whole: npt.NDArray[np.uint8], data: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    if data.nbytes != len(whole):
        raise BackendError(f"copy between an array of {data.nbytes} bytes and memory of {len(whole)}")
    if not data.flags.c_contiguous:
        raise BackendError("copy of an array that is not contiguous", remedy="numpy.ascontiguousarray")
    return data.reshape(-1).view(np.uint8)


def threads() -> int:
    """How many threads a kernel may use: OMP_NUM_THREADS, or the CPUs of this process; one without OpenMP."""
    try:
        if OPENMP not in active_compiler().flags:
            return 1
    except BackendError:
        return 1  # told when the first kernel is compiled: a backend may be asked for by someone who compiles nothing
    return this_machine().threads
