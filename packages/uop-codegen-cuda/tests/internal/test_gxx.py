"""The flags of the emulator's compiler."""

from __future__ import annotations

from pathlib import Path

import pytest

from uop_codegen_cuda import gxx


@pytest.mark.parametrize(
    ("info", "flags"),
    [
        ("flags\t\t: fpu sse2 fma avx2\nbugs\t\t:\n", ("-mfma",)),
        ("flags\t\t: fpu sse2 fma4\nbugs\t\t: fma\n", ()),
        ("Features\t: fp asimd fma\n", ()),
        (None, ()),
    ],
)
def test_fused_operations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, info: str | None, flags: tuple[str, ...]
) -> None:
    file = tmp_path / "cpuinfo"
    if info is not None:
        file.write_text(info)
    monkeypatch.setattr(gxx, "CPU_INFO", file)
    gxx.fused_flags.cache_clear()
    try:
        assert gxx.fused_flags() == flags
    finally:
        gxx.fused_flags.cache_clear()
