"""uop-codegen-cuda: the kernels of uop-codegen-c mapped to threads and blocks, as CUDA text and cubins. Weeks 7 and 8."""

from .compile import Cubin, compile_cubin
from .lower import PASSES, CudaSource, emit_cuda, emit_linear, emit_map, generate
from .mapping import Block

__all__ = [
    "PASSES",
    "Block",
    "Cubin",
    "CudaSource",
    "compile_cubin",
    "emit_cuda",
    "emit_linear",
    "emit_map",
    "generate",
]
