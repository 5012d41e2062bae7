"""The C compiler: found, refused, run, stopped. Fake compilers are shell scripts around the real one."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from uop_codegen_c import compiler as module
from uop_codegen_c.cache import KernelSource, _with_openmp, active_compiler
from uop_codegen_c.compiler import Compiler, Job, find_compiler
from uop_codegen_c.loader import ffi, load
from uop_codegen_c.settings import settings
from uop_ir import BackendError, override
from uop_ir import settings as ir_settings

CC = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang") or ""


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def rejecting(path: Path, flag: str) -> str:
    return script(path, f'for a in "$@"; do [ "$a" = {flag} ] && exit 1; done; exec {CC} "$@"')


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path) -> Iterator[None]:
    with override(settings, uop_cache=str(tmp_path / "cache"), cc=""):
        yield


def test_the_setting_names_the_compiler_and_its_arguments() -> None:
    with override(settings, cc=f"{CC} -DLESS='a b'"):
        found = find_compiler()
    assert found.command == (str(Path(CC).absolute()), "-DLESS=a b")


def test_identity_tells_arguments_and_targets_apart() -> None:
    with override(settings, cc=f"{CC} -DA"):
        one = find_compiler()
    with override(settings, cc=f"{CC} -DB"):
        other = find_compiler()
    assert one.identity != other.identity
    # The oracle is the shell: what the compiler says that -march=native means must be part of the identity.
    said = subprocess.run(
        [CC, "-march=native", "-E", "-v", "-x", "c", os.devnull], capture_output=True, text=True, check=True
    ).stderr
    tuned = [
        w for line in said.splitlines() if "cc1" in line for w in line.split() if w.startswith("-mtune=")
    ]
    assert all(word in one.identity for word in tuned)


@pytest.mark.parametrize(
    ("cc", "what"),
    [
        ("/nowhere/cc", "'/nowhere/cc' is not there"),
        ("cc 'unclosed", "No closing quotation"),
        ("false", "no C compiler"),
        ("/dev/null", "not there"),
    ],
)
def test_a_compiler_that_is_none(cc: str, what: str) -> None:
    with override(settings, cc=cc), pytest.raises(BackendError, match=what) as caught:
        find_compiler()
    assert "\n" not in str(caught.value)
    assert caught.value.remedy
    assert caught.value.exit_code == 5


def test_no_compiler_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    module._find.cache_clear()
    with pytest.raises(BackendError, match=r"^no C compiler \(install gcc"):
        find_compiler()


def test_a_file_that_is_no_program(tmp_path: Path) -> None:
    path = tmp_path / "cc"
    path.write_bytes(b"\x7fELF nonsense")
    path.chmod(0o755)
    with override(settings, cc=str(path)), pytest.raises(BackendError, match="does not run"):
        find_compiler()


def test_flags_never_ask_for_fast_math() -> None:
    flags = active_compiler().flags
    assert not [f for f in flags if "fast" in f and f != "-ffp-contract=off"]
    assert {"-ffp-contract=off", "-fno-math-errno", "-O2", "-std=c17"} <= set(flags)


def test_check_makes_warnings_errors() -> None:
    with override(ir_settings, check=1):
        assert {"-Wall", "-Wextra", "-Wconversion", "-Werror"} <= set(active_compiler().flags)
    with override(ir_settings, check=0):
        assert "-Werror" not in active_compiler().flags


def test_loaded_kernels_leave_subnormals_alone() -> None:
    source = KernelSource(
        "half",
        "#include <stdint.h>\n",
        "void half(void *const *buffers, const int64_t *scalars)\n"
        "{\n    (void)scalars;\n    *(float *)buffers[0] *= 0.5f;\n}\n",
    )
    x = np.array([np.finfo(np.float32).tiny], np.float32)
    load([source])[0](ffi.new("void *[]", [ffi.from_buffer(x)]), ffi.NULL)
    assert x[0] == np.float32(2.0**-127)
    assert np.float32(2.0**-127) * np.float32(1) != 0


def test_without_march_native(tmp_path: Path) -> None:
    with override(settings, cc=rejecting(tmp_path / "cc", "-march=native")):
        assert "-march=native" not in find_compiler().flags
    assert "-march=native" in find_compiler().flags or os.uname().machine != "x86_64"


def test_without_openmp_pragmas_are_accepted_and_the_probe_is_tried_again(tmp_path: Path) -> None:
    source = tmp_path / "sum.c"
    source.write_text(
        "int sum(int n);\n\nint sum(int n)\n{\n    int s = 0;\n"
        "    #pragma omp parallel for reduction(+ : s)\n"
        "    for (int i = 0; i < n; i++) {\n        s += i;\n    }\n    return s;\n}\n"
    )
    with override(settings, cc=rejecting(tmp_path / "cc", "-fopenmp")):
        found = active_compiler()
        assert "-fopenmp" not in found.flags
    assert found.run([Job(source, tmp_path / "sum.so")]) == [None]
    assert not list((tmp_path / "cache" / "c").glob("openmp-*"))


def test_the_probe_of_openmp_runs_once_a_cache(tmp_path: Path) -> None:
    log = tmp_path / "log"
    cc = script(tmp_path / "cc", f'echo "$@" >> {log}; exec {CC} "$@"')
    for _ in range(2):
        module._find.cache_clear()
        _with_openmp.cache_clear()
        with override(settings, cc=cc):
            flags = active_compiler().flags
    if "-fopenmp" not in flags:
        pytest.skip("no OpenMP here")
    assert sum("openmp.c" in line for line in log.read_text().splitlines()) == 1


def fake(path: Path, text: str) -> Compiler:
    return Compiler((script(path, text),), (), "fake", "fake")


def run_one(compiler: Compiler, tmp_path: Path, timeout: float = 30) -> str:
    source = tmp_path / "x.c"
    source.write_text("int x;\n")
    (said,) = compiler.run([Job(source, tmp_path / "x.so", timeout)])
    assert said is not None
    return said


def test_what_went_wrong_is_told(tmp_path: Path) -> None:
    assert "failed with status 3\nbad luck" in run_one(
        fake(tmp_path / "cc", "echo bad luck >&2; exit 3"), tmp_path
    )
    assert "was killed by signal 9" in run_one(fake(tmp_path / "cc", "kill -9 $$"), tmp_path)
    assert "wrote no object" in run_one(fake(tmp_path / "cc", "exit 0"), tmp_path)


def test_a_compiler_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    hanging = fake(tmp_path / "cc", f"sleep 1000 & echo $! > {pid}; wait")
    began = time.monotonic()
    assert "took longer than 0 s" in run_one(hanging, tmp_path, timeout=0.4)
    assert time.monotonic() - began < 20
    child = Path("/proc") / pid.read_text().strip() / "stat"
    for _ in range(100):
        if not child.exists() or child.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.05)
    pytest.fail("the compiler's child outlived it")


def test_jobs_run_at_the_same_time(tmp_path: Path) -> None:
    # Each waits for the file of the other: one after the other they would never end.
    meeting = fake(
        tmp_path / "cc",
        'touch "$1.here"; while [ "$(ls $(dirname $1)/*.here | wc -l)" -lt 2 ]; do sleep 0.01; done; touch "$3"',
    )
    jobs = [Job(tmp_path / f"{n}.c", tmp_path / f"{n}.so", 30) for n in "ab"]
    assert meeting.run(jobs) == [None, None]
