"""What of CUDA is there: the compiler, which an extra brings. Week 7."""

from __future__ import annotations

from uop_ir import BackendError

from .compile import ARCHITECTURES, compiler_version


def doctor() -> list[tuple[str, str, str]]:
    """One finding: status, what was looked at, what was found or how to get it. Never raises."""
    try:
        return [
            ("ok", "NVRTC", f"{compiler_version()}, for {', '.join(ARCHITECTURES)}; kernels are not run yet")
        ]
    except BackendError as error:
        return [("warn", "NVRTC", f"CUDA text is not compiled to cubins: {error}")]
