"""Compile CUDA text to a cubin with NVRTC, which needs no GPU and no driver. Week 7.

cuda.core and NVRTC come with the extra `cuda` and are imported here alone, when they are asked for. Nothing
here may call the driver: where there is none, a call after a failed one waits for ever.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from typing import Any

from uop_ir import BackendError

#: The architectures that kernels are compiled for: A100, H100, and H100 with its own instructions.
ARCHITECTURES = ("sm_80", "sm_90", "sm_90a")
REMEDY = 'pip install "uop-codegen-cuda[cuda]"'
#: What ptxas says of a kernel, and the field of Cubin that it goes to.
REPORTS = {
    "registers": re.compile(r"Used (\d+) registers"),
    "spills": re.compile(r"(\d+) bytes spill stores"),
    "shared": re.compile(r"(\d+) bytes smem"),
}


@dataclass(frozen=True)
class Cubin:
    """Machine code for one architecture, with what the assembler said of its kernels.

    `registers` are those of a thread; `spills` the bytes that it stores because it has too few; `shared` the
    bytes of shared memory of a block: each the greatest of all kernels in the text.
    `log` has all that the compiler said.
    """

    code: bytes
    registers: int
    spills: int
    shared: int
    log: str


def compile_cubin(source: str, arch: str = "sm_80") -> Cubin:
    """A CUDA text as machine code for exactly this architecture.

    A multiplication and an addition are fused only where the text says so; divisions and square roots are
    correctly rounded. Raises BackendError where the extra is missing,
    for an unknown architecture, or with the compiler's errors.
    """
    if arch not in ARCHITECTURES:
        raise BackendError(f"no architecture {arch!r}", remedy=f"one of {', '.join(ARCHITECTURES)}")
    core = _core()
    options = core.ProgramOptions(
        arch=arch, std="c++17", fma=False, prec_div=True, prec_sqrt=True, ftz=False, ptxas_options=["-v"]
    )
    log = io.StringIO()
    try:
        code = bytes(core.Program(source, "c++", options).compile("cubin", logs=log).code)
    except Exception as error:  # noqa: BLE001  the errors of cuda.core have no public name
        raise BackendError(f"NVRTC refuses the kernel: {_first_error(str(error))}") from None
    found = {name: max(map(int, said.findall(log.getvalue())), default=0) for name, said in REPORTS.items()}
    return Cubin(code, found["registers"], found["spills"], found["shared"], log.getvalue().strip("\0\n "))


def compiler_version() -> str:
    """The version of NVRTC. Raises BackendError where the extra is missing."""
    _core()
    from cuda.bindings import nvrtc

    _, major, minor = nvrtc.nvrtcVersion()
    return f"{major}.{minor}"


def _core() -> Any:
    try:
        import cuda.core
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError) as error:
        raise BackendError(f"no NVRTC: {error}", remedy=REMEDY) from None
    return cuda.core


def _first_error(log: str) -> str:
    return next((line for line in log.splitlines() if "error" in line and "(" in line), log.strip())
