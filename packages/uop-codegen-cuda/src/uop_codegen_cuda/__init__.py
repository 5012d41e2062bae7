"""uop-codegen-cuda: the kernels of uop-codegen-c mapped to threads and blocks, as CUDA text, cubins, and on a CPU. Weeks 7 and 8."""

from .compile import Cubin, compile_cubin
from .emu import EmuBackend
from .emulate import EmuKernel, emulate
from .lower import PASSES, CudaSource, emit_cuda, emit_linear, emit_map, generate
from .mapping import Block
from .settings import settings

__all__ = [
    "PASSES",
    "Block",
    "Cubin",
    "CudaSource",
    "EmuBackend",
    "EmuKernel",
    "compile_cubin",
    "emit_cuda",
    "emit_linear",
    "emit_map",
    "emulate",
    "generate",
    "settings",
]
