"""Machine code that is kept on disk: compiled once for an architecture, in the folder of caches."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from uop_codegen_c import settings
from uop_codegen_cuda import compile_cubin
from uop_codegen_cuda.compile import ARCHITECTURES, machine_code
from uop_ir import BackendError, override

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("cuda") is None, reason='no NVRTC: pip install "uop-codegen-cuda[cuda]"'
)
TEXT = 'extern "C" __global__ void kernel(float *x) { x[0] = x[1]; }'


def kept(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"]


def test_it_is_compiled_once_for_an_architecture(tmp_path: Path) -> None:
    with override(settings, uop_cache=str(tmp_path)):
        first = machine_code(TEXT, "sm_80")
        (path,) = kept(tmp_path / "cuda")
        assert machine_code(TEXT, "sm_80") == first == path.read_bytes()
        other = machine_code(TEXT, "sm_90")
    assert other != first
    assert len(kept(tmp_path / "cuda")) == 2


def test_a_text_that_is_refused_leaves_nothing(tmp_path: Path) -> None:
    with override(settings, uop_cache=str(tmp_path)), pytest.raises(BackendError, match="nope"):
        machine_code(TEXT.replace("x[1]", "nope"), "sm_80")
    assert kept(tmp_path) == []


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("")
    with (
        override(settings, uop_cache=str(path)),
        pytest.raises(
            BackendError, match=r"cache of machine code cannot be used: .*set UOP_CACHE to a folder"
        ),
    ):
        machine_code(TEXT, "sm_80")


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_the_compiler_knows_each_architecture(arch: str) -> None:
    assert compile_cubin(TEXT, arch).registers > 0
