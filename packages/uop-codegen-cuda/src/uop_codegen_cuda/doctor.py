"""What of CUDA is there: the compiler, which an extra brings, a GPU, and what the emulator needs. Week 7."""

from __future__ import annotations

from uop_ir import BackendError

from .compile import ARCHITECTURES, compiler_version
from .driver import probe
from .gxx import cpp_compiler


def doctor() -> list[tuple[str, str, str]]:
    """One finding a line: status, what was looked at, what was found or how to get it. Never raises."""
    return [_nvrtc(), _gpu(), _emulator()]


def _nvrtc() -> tuple[str, str, str]:
    try:
        return "ok", "NVRTC", f"{compiler_version()}, for {', '.join(ARCHITECTURES)}"
    except BackendError as error:
        return "warn", "NVRTC", f"CUDA text is not compiled to cubins: {error}"


def _gpu() -> tuple[str, str, str]:
    try:
        return "ok", "GPU", str(probe())
    except BackendError as error:
        return "warn", "GPU", f"DEV=CUDA runs nothing: {error}"


def _emulator() -> tuple[str, str, str]:
    try:
        return "ok", "EMU", cpp_compiler().version
    except BackendError as error:
        return "warn", "EMU", f"CUDA text is not run on the CPU: {error}"
