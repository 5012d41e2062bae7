"""Run the text of CUDA kernels on the CPU: compiled as C++, its threads one after the other. Week 7."""

from __future__ import annotations

import ctypes
import functools
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from uop_codegen_c import KernelSource, build
from uop_ir import BackendError, UOp

from .arguments import bits_of, grid_of
from .gxx import cpp_compiler
from .lower import CudaSource
from .settings import settings

ORDERS = ("ascending", "descending", "random")
#: What lets a thread wait for others: such kernels need a stack for each thread.
WAITS = re.compile(r"__sync|_sync\b|\bmma_")
#: Shared memory whose size is that of the launch, and the threads that a kernel is compiled for.
DYNAMIC = re.compile(r"\bextern\s+__shared__\s+([\w ]+?)\s*\b(\w+)\s*\[\s*\]\s*;")
BOUND = re.compile(r"__launch_bounds__\(\s*(\d+)")
MOST_THREADS = 1024
LAUNCH = """
static void {name}_thread(void *const *args) {{ emu_call({name}, args); }}
extern "C" const char *{name}_emu(void *const *args, const long long *launch)
{{
    return emu_launch({name}_thread, args, launch, __start_gpu_shared, __stop_gpu_shared);
}}
"""
#: One launch at a time: the runtime has one place for the thread that runs.
lock = threading.RLock()


@dataclass(frozen=True)
class EmuKernel:
    """A kernel that runs on the CPU."""

    source: CudaSource
    function: Any

    def __call__(self, addresses: Sequence[int], scalars: Mapping[UOp, float | int]) -> None:
        """Run it on memory at these addresses, in the order of its arguments,
        with these values of its scalar PARAMs.

        The order of the threads is that of the settings. Raises BoundsError for a variable outside of its
        bounds, BackendError for a block of more threads than 1024 or its launch bound,
        and where threads wait for others that never come.
        """
        launch(self.source, self.function, addresses, scalars, fibers=bool(WAITS.search(self.source.text)))


def launch(
    source: CudaSource,
    function: Any,
    addresses: Sequence[int],
    scalars: Mapping[UOp, float | int],
    fibers: bool = True,
) -> None:
    """Launch what a kernel was compiled to. Raises as EmuKernel does."""
    given = iter(addresses)
    arguments = [next(given) if p.arg.size is not None else bits_of(p, scalars[p]) for p in source.params]
    grid, block = grid_of(source, scalars), source.block
    if settings.emu_order not in ORDERS:
        raise BackendError(f"EMU_ORDER={settings.emu_order!r}", remedy=f"one of {', '.join(ORDERS)}")
    bound = BOUND.search(source.text)
    most = min(MOST_THREADS, int(bound[1]) if bound else MOST_THREADS)
    if prod(block) > most:
        shape = " x ".join(map(str, block))
        raise BackendError(f"{source.name}: a block of {shape} threads", remedy=f"at most {most}")
    numbers = [*grid, *block, ORDERS.index(settings.emu_order), settings.emu_seed, fibers]
    values = np.array(arguments, np.uint64)
    pointers = values.ctypes.data + 8 * np.arange(len(values), dtype=np.uint64)
    with lock:
        wrong = function(ctypes.c_void_p(pointers.ctypes.data), (ctypes.c_longlong * len(numbers))(*numbers))
    if wrong:
        raise BackendError(wrong.decode())


def emulate(sources: Sequence[CudaSource]) -> list[EmuKernel]:
    """Kernels that run on the CPU: compiled by g++ where the cache of kernels has them not.

    All together: what their texts define besides `definitions` has names that differ. Raises BackendError.
    """
    runtime()
    paths = build([_unit(s) for s in sources], cpp_compiler()) if sources else []
    return [EmuKernel(s, launcher(path, s.name)) for s, path in zip(sources, paths, strict=True)]


def _unit(source: CudaSource) -> KernelSource:
    """A kernel as C++: its definitions stand once for all kernels that have them."""
    own = source.text.removeprefix("\n\n".join(source.definitions))
    return as_cpp(source, source.definitions, own)


def as_cpp(source: CudaSource, definitions: Sequence[str], text: str) -> KernelSource:
    """Definitions and the text of a kernel after them as C++, with a function that launches it.

    Arrays in shared memory that get their size at the launch have it here.
    """
    sized = DYNAMIC.sub(rf"__shared__ \1 \2[{source.shared} / sizeof(\1)];", text)
    preamble = "\n\n".join([device_text("device.h"), *definitions])
    return KernelSource(f"{source.name}_emu", preamble, sized + LAUNCH.format(name=source.name))


def launcher(path: Path, name: str) -> Any:
    """The function of a compiled kernel that launches it."""
    function = getattr(ctypes.CDLL(str(path)), f"{name}_emu")
    function.restype = ctypes.c_char_p
    return function


@functools.cache
def runtime() -> ctypes.CDLL:
    """What runs the threads, loaded for all kernels to find."""
    text = "\n".join(map(device_text, ("device.h", "threads.cpp", "costs.cpp", "races.cpp", "check.cpp")))
    (path,) = build([KernelSource("emu_launch", "", text)], cpp_compiler())
    return ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)


@functools.cache
def device_text(name: str) -> str:
    """A file of the folder `emulator`."""
    return (files(__package__) / "emulator" / name).read_text()
