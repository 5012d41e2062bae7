"""The stream of a GPU: all that a process asks of it, in order; and the kernels that are under way. Week 8.

A call returns when its work is in the stream. An error of a kernel comes to light at some later call, and the
GPU does not say whose it is: the kernels since the last wait are remembered for it.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from uop_ir import BackendError

from .driver import Device, DriverError, call, driver
from .lower import CudaSource

#: Bytes of shared memory of a block that a launch may add without being allowed to before.
SHARED_UNASKED = 48 * 1024
#: Launches that an error names.
NAMED = 4


@dataclass(eq=False)
class GpuKernel:
    """A kernel that is loaded: its CUDA text, and what the driver knows it by."""

    source: CudaSource
    function: Any


class Launch(NamedTuple):
    """A kernel and the blocks of its grid in x, y and z."""

    kernel: GpuKernel
    grid: tuple[int, ...]

    def __str__(self) -> str:
        source = self.kernel.source
        grid, block = (" x ".join(map(str, sizes)) for sizes in (self.grid, source.block))
        return f"{source.name} on {grid} blocks of {block} threads"


class Stream:
    """The one stream of this process on a GPU. Safe to use from several threads."""

    def __init__(self, device: Device) -> None:
        """Raises BackendError where the GPU is not to be had."""
        self.device = device
        self._context = call("cuDevicePrimaryCtxRetain", device.number)
        self.make_current()
        bindings = driver()
        self.handle = call("cuStreamCreate", int(bindings.CUstream_flags.CU_STREAM_NON_BLOCKING))
        # memory that is freed stays with the process, for the next allocation
        pool = call("cuDeviceGetDefaultMemPool", device.number)
        keep = bindings.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        call("cuMemPoolSetAttribute", pool, keep, bindings.cuuint64_t(2**64 - 1))
        self._lock = threading.Lock()
        self._under_way: dict[Launch, None] = {}

    def make_current(self) -> None:
        """Let this thread's calls be about this GPU."""
        call("cuCtxSetCurrent", self._context)

    @contextmanager
    def using(self) -> Iterator[None]:
        """This thread alone puts work into the stream.

        Memory is given and freed without it: garbage is collected at any time.
        """
        with self._lock, self._naming():
            self.make_current()
            yield

    @contextmanager
    def _naming(self) -> Iterator[None]:
        """Let an error that is fatal name the kernels under way, of which one has caused it."""
        try:
            yield
        except DriverError as error:
            if not error.fatal:
                raise
            raise DriverError(error.name, self._suspects() or error.doing) from None

    def begin(self, launches: Sequence[Launch]) -> None:
        """Remember launches that are put into the stream next."""
        self._under_way |= dict.fromkeys(launches)

    def wait(self) -> None:
        """Wait until all is done. Within `using`. Raises BackendError where a kernel has failed."""
        call("cuStreamSynchronize", self.handle)
        self._under_way.clear()

    def launch(self, launch: Launch, arguments: int) -> None:
        """Put a launch into the stream, its arguments behind the pointers at this address. Within `using`."""
        source = launch.kernel.source
        function, shared = launch.kernel.function, source.shared
        self.begin([launch])
        call(
            *("cuLaunchKernel", function, *launch.grid, *source.block, shared, self.handle, arguments, 0),
            doing=launch,
        )

    def timed(self, work: Callable[[], None]) -> float:
        """For how many seconds the GPU is at what `work` puts into the stream. Within `using`."""
        events = [call("cuEventCreate", 0) for _ in range(2)]
        try:
            call("cuEventRecord", events[0], self.handle)
            work()
            call("cuEventRecord", events[1], self.handle)
            self.wait()
            return float(call("cuEventElapsedTime", *events)) / 1e3
        finally:
            with unless_lost():
                for event in events:
                    call("cuEventDestroy", event)

    def allocate(self, nbytes: int) -> int:
        """The address of memory of so many bytes, not initialized. Raises BackendError."""
        what = f"{nbytes} bytes on {self.device.name}"
        with self._naming():
            self.make_current()
            # the driver has no memory of 0 bytes
            return int(call("cuMemAllocAsync", max(nbytes, 1), self.handle, doing=what))

    def free(self, address: int) -> None:
        """Give memory back, for what comes after all that is in the stream."""
        with unless_lost():
            self.make_current()
            call("cuMemFreeAsync", address, self.handle)

    def load(self, source: CudaSource, code: bytes) -> GpuKernel:
        """A kernel from its machine code. It is unloaded when nobody has it any more.

        Raises BackendError for one that the driver does not load,
        or that takes more shared memory than a block has.
        """
        most = self.device.shared
        if source.shared > most:
            raise BackendError(
                f"{source.name}: {source.shared} bytes of shared memory a block",
                remedy=f"at most {most} on {self.device.name}",
            )
        with self._naming():
            self.make_current()
            module = call("cuModuleLoadData", code, doing=source.name)
            function = call("cuModuleGetFunction", module, source.name.encode(), doing=source.name)
            if source.shared > SHARED_UNASKED:
                allow = driver().CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                call("cuFuncSetAttribute", function, allow, source.shared, doing=source.name)
        kernel = GpuKernel(source, function)
        self.at_end(kernel, "cuModuleUnload", module)
        return kernel

    def at_end(self, owner: object, name: str, handle: Any) -> None:
        """Call a function on what the owner has when it is no more, and the stream is empty.

        At the end of the process the system does it.
        """
        weakref.finalize(owner, self._release, name, handle).atexit = False

    def _release(self, name: str, handle: Any) -> None:
        with unless_lost():
            self.make_current()
            call("cuStreamSynchronize", self.handle)
            call(name, handle)

    def _suspects(self) -> str:
        """The kernels of which one has failed."""
        launches = [str(launch) for launch in self._under_way]
        more = len(launches) - NAMED
        named = ", ".join(launches[:NAMED]) + (f" and {more} more" if more > 0 else "")
        return f"one of {named}" if len(launches) > 1 else named


@contextmanager
def unless_lost() -> Iterator[None]:
    """Do nothing about errors of a GPU that is lost: what was there is gone."""
    try:
        yield
    except DriverError as error:
        if not error.fatal:
            raise
