"""Compile CUDA text to a cubin with NVRTC, which needs no GPU and no driver. Week 7.

cuda.core and NVRTC come with the extra `cuda` and are imported when they are asked for. Nothing here may call
the driver: where there is none, a call after a failed one waits for ever.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uop_codegen_c import settings as c_settings
from uop_ir import BackendError

#: The architectures that kernels are compiled for, Ampere (A100) and later; sm_90a is H100 with instructions
#: that no other GPU has.
ARCHITECTURES = (
    *("sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_103", "sm_110"),
    *("sm_120", "sm_121"),
)
#: Bytes on disk of machine code that is kept.
KEPT = 256_000_000
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
    log = io.StringIO()
    code = _compile(source, arch, logs=log, ptxas_options=["-v"])
    found = {name: max(map(int, said.findall(log.getvalue())), default=0) for name, said in REPORTS.items()}
    return Cubin(code, found["registers"], found["spills"], found["shared"], log.getvalue().strip("\0\n "))


def machine_code(source: str, arch: str) -> bytes:
    """The machine code of `compile_cubin`, kept on disk: in `cuda` below UOP_CACHE, or without that where
    cuda.core keeps what it compiles. Raises BackendError as `compile_cubin` does, and for a folder that
    cannot be used.
    """
    _core()
    from cuda.core.utils import FileStreamProgramCache

    path = Path(c_settings.uop_cache).absolute() / "cuda" if c_settings.uop_cache else None
    try:
        with FileStreamProgramCache(path, max_size_bytes=KEPT) as cache:
            return _compile(source, arch, cache=cache)
    except OSError as error:
        raise BackendError(
            f"the cache of machine code cannot be used: {error}",
            remedy="set UOP_CACHE to a folder that can be written",
        ) from None


def _compile(source: str, arch: str, ptxas_options: list[str] | None = None, **options: Any) -> bytes:
    if arch not in ARCHITECTURES:
        raise BackendError(f"no architecture {arch!r}", remedy=f"one of {', '.join(ARCHITECTURES)}")
    core = _core()
    chosen = core.ProgramOptions(
        arch=arch,
        std="c++17",
        fma=False,
        prec_div=True,
        prec_sqrt=True,
        ftz=False,
        ptxas_options=ptxas_options,
    )
    try:
        return bytes(core.Program(source, "c++", chosen).compile("cubin", **options).code)
    except OSError:
        raise
    except Exception as error:  # noqa: BLE001  the errors of cuda.core have no public name
        raise BackendError(f"NVRTC refuses the kernel: {_first_error(str(error))}") from None


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
