"""The driver of a GPU: which GPU is there, or why none; its calls, and what their errors ask for. Week 8.

Each call is one of `cuda.bindings.driver`, which is the driver's own interface function by function and comes
with the extra `cuda`. (`cuda.core` is shorter to write, but asks for a device where one compiles, has no way
to give one node of a graph new arguments, and calls some hundred functions where some thirty are needed.)
Nothing is called before libcuda.so.1 is known to be there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from uop_ir import BackendError

from .compile import ARCHITECTURES, REMEDY, compiler_version

UPDATE = "update the driver: https://www.nvidia.com/drivers"
#: How to find what a kernel does wrong.
FIND = "DEBUG=2 names the kernel, and with DEV=EMU EMU_CHECK=1 the line"
#: What an error of the driver says, and what to do.
ERRORS = {
    "CUDA_ERROR_OUT_OF_MEMORY": (
        "the GPU has not so much memory left",
        "smaller batches, or fewer programs on it: nvidia-smi lists them",
    ),
    "CUDA_ERROR_NO_DEVICE": (
        "the driver finds no GPU",
        "nvidia-smi lists them; CUDA_VISIBLE_DEVICES hides them",
    ),
    "CUDA_ERROR_INVALID_DEVICE": (
        "the driver finds no such GPU",
        "nvidia-smi lists them; CUDA_VISIBLE_DEVICES hides them",
    ),
    "CUDA_ERROR_DEVICE_UNAVAILABLE": ("the GPU is taken", "nvidia-smi shows by whom, or its compute mode"),
    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH": (
        "libcuda.so.1 and the driver in the system's kernel are of two versions",
        "restart the machine, as after each update of the driver",
    ),
    "CUDA_ERROR_SYSTEM_NOT_READY": ("the driver is not ready", "start nvidia-fabricmanager, or restart"),
    "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE": ("this GPU has no forward compatibility", UPDATE),
    "CUDA_ERROR_NO_BINARY_FOR_GPU": ("machine code of another architecture", UPDATE),
    "CUDA_ERROR_INVALID_IMAGE": ("machine code that the driver does not know", UPDATE),
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": (
        "more registers or threads than the GPU has for a block",
        "a schedule with fewer threads a block",
    ),
    "CUDA_ERROR_INVALID_VALUE": ("an argument that the driver refuses", "compare it with the GPU's limits"),
}
#: Errors after which a process cannot use the GPU any more.
FATAL = {
    "CUDA_ERROR_ILLEGAL_ADDRESS": ("an access outside of memory", FIND),
    "CUDA_ERROR_MISALIGNED_ADDRESS": ("an access at no multiple of its size", FIND),
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": ("an instruction that the GPU has not", UPDATE),
    "CUDA_ERROR_LAUNCH_FAILED": ("the kernel failed", FIND),
    "CUDA_ERROR_LAUNCH_TIMEOUT": (
        "the kernel took longer than a GPU with a display may",
        "a GPU without one",
    ),
    "CUDA_ERROR_ECC_UNCORRECTABLE": ("a fault of memory that the GPU cannot correct", "nvidia-smi -q -d ECC"),
    "CUDA_ERROR_CONTEXT_IS_DESTROYED": ("the GPU was reset", "run the program again"),
    "CUDA_ERROR_UNKNOWN": ("the GPU does not answer", "dmesg has lines with NVRM; restart the machine"),
}


class DriverError(BackendError):
    """An error of the driver by its own `name`, in `doing` what.

    `fatal`: the process cannot use the GPU any more.
    """

    def __init__(self, name: str, doing: object, said: str = "an error") -> None:
        self.name, self.doing, self.fatal = name, doing, name in FATAL
        what, remedy = (ERRORS | FATAL).get(name, (said, None))
        if self.fatal:
            remedy = f"{remedy}; this process has lost the GPU"
        super().__init__(f"CUDA: {doing}: {what}, {name}", remedy=remedy)


@dataclass(frozen=True)
class Device:
    """A GPU: the driver's number of it, its name, its compute capability and its bytes of memory.

    `shared` is the most shared memory that a block may ask for; `driver` the version of CUDA that the driver
    is for.
    """

    number: Any
    name: str
    capability: tuple[int, int]
    memory: int
    shared: int
    driver: tuple[int, int]

    @property
    def arch(self) -> str:
        """The architecture to compile for."""
        return f"sm_{self.capability[0]}{self.capability[1]}"

    def __str__(self) -> str:
        capability, driver = (".".join(map(str, pair)) for pair in (self.capability, self.driver))
        return f"{self.name}, {self.memory / 1e9:.1f} GB, compute capability {capability}, driver for CUDA {driver}"


@cache
def driver() -> Any:
    """The bindings of the driver. Raises BackendError where they, or the driver, are not there."""
    try:
        from cuda import pathfinder
        from cuda.bindings import driver as bindings
    except ImportError as error:
        raise BackendError(f"no CUDA for Python: {error}", remedy=REMEDY) from None
    try:
        pathfinder.load_nvidia_dynamic_lib("cuda")
    except RuntimeError:
        raise BackendError(
            "no NVIDIA driver: libcuda.so.1 is not there",
            remedy="install the driver, https://www.nvidia.com/drivers; start a container with --gpus all",
        ) from None
    return bindings


def call(name: str, *arguments: Any, doing: object = None) -> Any:
    """The result of a function of the driver; None without one. `doing`: what an error is about.

    Raises DriverError, and BackendError for a function that the driver has not.
    """
    bindings = driver()
    try:
        code, *results = getattr(bindings, name)(*arguments)
    except RuntimeError as error:
        raise BackendError(f"CUDA: the driver has no {name}: {error}", remedy=UPDATE) from None
    if code != bindings.CUresult.CUDA_SUCCESS:
        _, said = bindings.cuGetErrorString(code)
        raise DriverError(code.name, doing or name, said.decode() if said else "an error")
    return results[0] if results else None


def probe() -> Device:
    """The first GPU that the driver shows. Raises BackendError, with the reason, where kernels cannot run.

    CUDA_VISIBLE_DEVICES, which the driver reads, chooses among several.
    """
    compiler = compiler_version()
    attributes = driver().CUdevice_attribute
    call("cuInit", 0)
    version = call("cuDriverGetVersion")
    have = (version // 1000, version % 1000 // 10)
    if have[0] < int(compiler.partition(".")[0]):
        raise BackendError(
            f"the driver is for CUDA {have[0]}.{have[1]}, and NVRTC {compiler} compiles for a later one",
            remedy=UPDATE,
        )
    number = call("cuDeviceGet", 0)

    def attribute(name: str) -> int:
        return int(call("cuDeviceGetAttribute", getattr(attributes, f"CU_DEVICE_ATTRIBUTE_{name}"), number))

    device = Device(
        number,
        call("cuDeviceGetName", 128, number).split(b"\0")[0].decode(),
        (attribute("COMPUTE_CAPABILITY_MAJOR"), attribute("COMPUTE_CAPABILITY_MINOR")),
        int(call("cuDeviceTotalMem", number)),
        attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        have,
    )
    if device.arch not in ARCHITECTURES:
        raise BackendError(
            f"kernels are not compiled for {device.name}, {device.arch}",
            remedy=f"one of {', '.join(ARCHITECTURES)}",
        )
    if not attribute("MEMORY_POOLS_SUPPORTED"):
        raise BackendError(
            f"{device.name} has no memory pools", remedy="a virtual GPU needs unified memory for them"
        )
    return device
