"""A GPU that is not there: `driver.cpp` in place of libcuda.so.1, whose kernels run on the emulator.

A process that has called `install` finds this driver, and no other, for as long as it runs.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from uop_codegen_c import Compiler, KernelSource, build
from uop_codegen_cuda import CudaBackend, CudaSource, EmuKernel, emulate

#: With the name by which the driver is looked for: a process that has loaded it under any finds it.
FLAGS = (
    *("-x", "c++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"),
    "-Wl,-soname,libcuda.so.1",
)
#: What a backend has for as long as it lives.
ALIVE = {"context": 1, "stream": 1}


class FakeDriver:
    """What tests say to the driver, and what it has seen."""

    def __init__(self, library: Path) -> None:
        self._library = ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)
        for name in ("fake_calls", "fake_problems", "fake_alive"):
            getattr(self._library, name).restype = ctypes.c_char_p
        #: Kernels that are registered: they must live for as long as the driver may run them.
        self._kernels: dict[str, EmuKernel] = {}

    def reset(self) -> None:
        """A machine that has just been started."""
        self._library.fake_reset()

    def set(self, **values: int) -> None:
        """What the GPU is: its `devices`, `driver`, `major`, `minor`, `memory`, `pools`."""
        for name, value in values.items():
            self._library.fake_set(name.encode(), ctypes.c_long(value))

    def fail(self, name: str, code: int, number: int = 1) -> None:
        """Let a call of a function fail, the next or a later one; by the name `run`, the run of a kernel."""
        self._library.fake_fail(name.encode(), number, code)

    def calls(self, *names: str) -> list[str]:
        """The calls since this was last asked for, of functions with these names, or all: each with what
        it is about; `run NAME` for a kernel that ran.
        """
        lines: list[str] = self._library.fake_calls().decode().splitlines()
        return [line for line in lines if not names or line.split()[0] in names]

    def problems(self) -> list[str]:
        """What a driver would not have noticed."""
        found: list[str] = self._library.fake_problems().decode().splitlines()
        return found

    def alive(self) -> dict[str, int]:
        """How many of each kind of handle there are, and of memories; functions and nodes not counted."""
        lines = [line.split() for line in self._library.fake_alive().decode().splitlines()]
        return {kind: int(count) for kind, count in lines if kind not in ("function", "node")}

    def register(self, sources: Sequence[CudaSource]) -> None:
        """Say what kernels do: what their text does on the emulator."""
        for source, kernel in zip(sources, emulate(sources), strict=True):
            kinds = "".join("s" if p.arg.size is None else "p" for p in source.params)
            address = ctypes.cast(kernel.function, ctypes.c_void_p)
            self._library.fake_register(source.name.encode(), address, kinds.encode())
            self._kernels[source.name] = kernel


@cache
def install() -> FakeDriver:
    """Let this process find the driver, built by g++ where the cache of kernels has it not. Kernels that a
    backend loads from now on are registered.
    """
    text = Path(__file__).with_name("driver.cpp").read_text()
    compiler = Compiler(("g++",), FLAGS, "", " ".join(FLAGS))
    (library,) = build([KernelSource("fake_driver", "", text)], compiler)
    fake, load = FakeDriver(library), CudaBackend.load

    def registered(backend: CudaBackend, sources: Sequence[CudaSource]) -> object:
        programs = load(backend, sources)
        fake.register(sources)
        return programs

    CudaBackend.load = registered  # type: ignore[method-assign,assignment]  # for as long as the process runs
    return fake
