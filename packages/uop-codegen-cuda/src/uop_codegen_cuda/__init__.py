"""uop-codegen-cuda: the kernels of uop-codegen-c mapped to threads and blocks,
as CUDA text, cubins, and on a CPU. Weeks 7 and 8.
"""

from .check import Cost, Finding, Report, check_kernel
from .check_html import check_html
from .compile import Cubin, compile_cubin
from .cuda_file import read_cuda
from .emu import EmuBackend
from .emulate import EmuKernel, emulate
from .gpu import CudaBackend
from .instructions import INSTRUCTIONS, Instruction, Layout
from .lower import PASSES, CudaSource, chosen_schedule, emit_cuda, emit_linear, emit_map, generate, staging
from .mapping import Block
from .settings import settings
from .tensor_core import TensorCore

__all__ = [
    "INSTRUCTIONS",
    "PASSES",
    "Block",
    "Cost",
    "Cubin",
    "CudaBackend",
    "CudaSource",
    "EmuBackend",
    "EmuKernel",
    "Finding",
    "Instruction",
    "Layout",
    "Report",
    "TensorCore",
    "check_html",
    "check_kernel",
    "chosen_schedule",
    "compile_cubin",
    "emit_cuda",
    "emit_linear",
    "emit_map",
    "emulate",
    "generate",
    "read_cuda",
    "settings",
    "staging",
]
