"""The backend CUDA: kernels as machine code, run on a GPU. Week 8.

A run returns when its kernels are in the stream of the GPU; copies and `synchronize` wait until all is done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from uop_ir import BackendError, Limits, Plan, UOp

from .arguments import bits_of, grid_of
from .compile import machine_code
from .driver import call, probe
from .gpu_replay import WORD, GpuExecutable, GpuMemory
from .kernels import Kernels
from .lower import CudaSource
from .stream import GpuKernel, Launch, Stream


@dataclass(eq=False)
class GpuProgram:
    """A kernel that is loaded, and what launches it."""

    kernel: GpuKernel
    stream: Stream

    @property
    def name(self) -> str:
        return self.kernel.source.name

    @property
    def source(self) -> str:
        return self.kernel.source.text

    def __call__(self, memory: Sequence[GpuMemory], scalars: Mapping[UOp, float | int]) -> None:
        """Launch it on memory, in the order of its arguments, with these values of its scalar PARAMs.

        Raises BoundsError for a variable outside of its bounds, BackendError where the GPU fails.
        """
        source, given = self.kernel.source, iter(memory)
        bits = [
            next(given).address if p.arg.size is not None else bits_of(p, scalars[p]) for p in source.params
        ]
        values = np.array(bits, np.uint64)
        pointers = values.ctypes.data + WORD * np.arange(len(bits), dtype=np.uint64)
        with self.stream.using():
            self.stream.launch(Launch(self.kernel, tuple(grid_of(source, scalars))), pointers.ctypes.data)


class CudaBackend:
    """Runs kernels on the first GPU that the driver shows. Safe to use from several threads."""

    name = "CUDA"

    def __init__(self) -> None:
        """Raises BackendError, with the reason, where there is no GPU to run kernels on."""
        self._stream = Stream(probe())
        self.limits = Limits()
        self._kernels = Kernels(self.load)
        self._scratch = GpuMemory(0, -1)

    def load(self, sources: Sequence[CudaSource]) -> list[GpuProgram]:
        """Kernels by their CUDA text, compiled for this GPU where that is not kept. Raises BackendError."""
        arch = self._stream.device.arch
        loaded = [self._stream.load(source, machine_code(source.text, arch)) for source in sources]
        return [GpuProgram(kernel, self._stream) for kernel in loaded]

    def compile(self, bodies: Sequence[UOp]) -> list[GpuProgram]:
        """Compile and load kernels, all at once. Raises BackendError."""
        return self._kernels(bodies)

    def link(self, plan: Plan) -> GpuExecutable:
        """Compile what is new of a plan and prepare its replay. Raises BackendError."""
        kernels = [program.kernel for program in self.compile([call.src[0] for call in plan.calls])]
        return GpuExecutable(self._stream, plan, kernels, self._scratch_of)

    def allocate(self, nbytes: int) -> GpuMemory:
        """Memory of so many bytes, not initialized. Raises BackendError where there is not so much."""
        if nbytes < 0:
            raise BackendError(f"cannot allocate {nbytes} bytes")
        return GpuMemory(self._stream.allocate(nbytes), nbytes)

    def free(self, memory: GpuMemory) -> None:
        """Give memory back. What is in the stream already still has it."""
        if memory.size >= 0:
            memory.size = -1
            self._stream.free(memory.address)

    def copy_in(self, memory: GpuMemory, data: npt.NDArray[Any]) -> None:
        """Copy a contiguous array of the memory's size into it. Raises BackendError for another size."""
        self._copy("cuMemcpyHtoDAsync", memory, data, (memory.address, data.ctypes.data))

    def copy_out(self, memory: GpuMemory, data: npt.NDArray[Any]) -> None:
        """Copy memory into a contiguous, writable array of its size. Raises BackendError for another size."""
        self._copy("cuMemcpyDtoHAsync", memory, data, (data.ctypes.data, memory.address))

    def synchronize(self) -> None:
        """Wait until all that was started is done. Raises BackendError where a kernel has failed."""
        with self._stream.using():
            self._stream.wait()

    def _copy(self, name: str, memory: GpuMemory, data: npt.NDArray[Any], addresses: tuple[int, int]) -> None:
        if memory.size < 0:
            raise BackendError("copy of memory that has been freed")
        if data.nbytes != memory.size:
            raise BackendError(f"copy between an array of {data.nbytes} bytes and memory of {memory.size}")
        if not data.flags.c_contiguous:
            raise BackendError("copy of an array that is not contiguous", remedy="numpy.ascontiguousarray")
        with self._stream.using():
            if data.nbytes:
                what = f"a copy of {data.nbytes} bytes"
                call(name, *addresses, data.nbytes, self._stream.handle, doing=what)
            self._stream.wait()

    def _scratch_of(self, nbytes: int) -> int:
        """The address of scratch memory. All plans have the same: they run one after the other."""
        if nbytes > self._scratch.size:
            self.free(self._scratch)
            self._scratch = self.allocate(nbytes)
        return self._scratch.address
