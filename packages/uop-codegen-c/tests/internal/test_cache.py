"""The kernel cache, with real compilers and real processes: what is compiled, and that nothing breaks it."""

import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from uop_codegen_c import cache as module
from uop_codegen_c import loader
from uop_codegen_c.cache import KernelSource, build, cache_folder
from uop_codegen_c.compiler import LONG_TEXT
from uop_codegen_c.loader import ffi, load
from uop_codegen_c.machine import cpus
from uop_codegen_c.settings import settings
from uop_ir import BackendError, override
from uop_ir import settings as ir_settings

CC = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang") or ""
PREAMBLE = "#include <stdint.h>\n\nstatic inline float twice(float x) { return x + x; }\n"


def kernel(number: int, text: str = "twice(x) + {number}.0f") -> KernelSource:
    """out[0] = 2 * in[0] + number."""
    name = f"k_{number}"
    body = text.replace("{number}", str(number))
    return KernelSource(
        name,
        PREAMBLE,
        f"void {name}(void *const *buffers, const int64_t *scalars);\n\n"
        f"void {name}(void *const *buffers, const int64_t *scalars)\n"
        "{\n"
        "    (void)scalars;\n"
        "    float x = *(const float *)buffers[1];\n"
        f"    *(float *)buffers[0] = {body};\n"
        "}\n",
    )


def results(kernels: Sequence[KernelSource], x: float = 10.0) -> list[float]:
    out, source = np.zeros(1, np.float32), np.array([x], np.float32)
    table = ffi.new("void *[]", [ffi.from_buffer(out), ffi.from_buffer(source)])
    found = []
    for function in load(kernels):
        function(table, ffi.NULL)
        found.append(float(out[0]))
    return found


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def objects(folder: Path) -> list[Path]:
    return sorted(folder.glob("c/*.so"))


def whole(path: Path) -> bool:
    return hashlib.sha256(path.read_bytes()).hexdigest() == path.stem


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A fresh cache folder, and a compiler that writes down what it compiles."""
    note = f'for a in "$@"; do case "$a" in */work-*.c) echo "$a" >> {tmp_path}/log;; esac; done'
    cc = script(tmp_path / "cc", f'{note}\nexec {CC} "$@"')
    with override(settings, uop_cache=str(tmp_path / "cache"), cc=cc):
        yield tmp_path / "cache"


def compiled(folder: Path) -> int:
    """How many files of kernels were compiled so far."""
    log = folder.parent / "log"
    return sum("openmp.c" not in line for line in log.read_text().splitlines()) if log.exists() else 0


def test_kernels_run(folder: Path) -> None:
    assert results([kernel(n) for n in range(5)]) == [20.0, 21.0, 22.0, 23.0, 24.0]


def test_a_file_for_each_cpu_and_nothing_twice(folder: Path) -> None:
    kernels = [kernel(n) for n in range(7)]
    units = min(7, cpus())
    paths = build(kernels)
    assert compiled(folder) == units == len(set(paths))
    assert build(kernels[::-1]) == paths[::-1]
    assert build(kernels[:2] * 2) == paths[:2] * 2
    assert compiled(folder) == units


def test_a_long_kernel_is_compiled_apart_and_with_less_optimization(folder: Path) -> None:
    cc, log = folder.parent / "wordy", folder.parent / "words"
    script(cc, f'echo "$@" >> {log}\nexec {CC} "$@"')
    with override(settings, cc=str(cc)):
        assert results([kernel(1), kernel(2, f"twice(x) + {{number}}.0f /* {'a' * LONG_TEXT} */")]) == [
            21,
            22,
        ]
    compilations = [line.split() for line in log.read_text().splitlines() if "/work-" in line]
    levels = [[word for word in words if word.startswith("-O")][-1] for words in compilations]
    assert sorted(levels) == ["-O1", "-O2", "-O2"]  # one is the probe for OpenMP


def test_only_what_is_missing_is_compiled(folder: Path) -> None:
    (old,) = build([kernel(1)])
    again, new = build([kernel(1), kernel(2)])
    assert (again, compiled(folder)) == (old, 2)
    assert b"k_1" not in new.read_bytes()


def test_name_changes_with_source_and_flags(folder: Path) -> None:
    build([kernel(1)])
    build([KernelSource("k_1", PREAMBLE + "\n", kernel(1).text)])
    with override(settings, cc=f"{settings.cc} -DOTHER"):
        build([kernel(1)])
    assert compiled(folder) == 3


def test_definitions_stand_once_in_a_file(folder: Path) -> None:
    """Kernels that share some of their definitions, in another order, and have others of their own."""
    head, one, two, both = (
        "#include <stdint.h>",
        *(
            f"static inline float {name}(float x)\n{{\n    return {value};\n}}"
            for name, value in (("one", "x + 1.0f"), ("two", "x + 2.0f"), ("both", "one(two(x))"))
        ),
    )
    preambles = [(one,), (two, one, both), (one, two), (two,)]
    uses = ["one(x)", "both(x)", "one(two(x))", "two(x)"]
    kernels = [
        KernelSource(f"k_{n}", "\n\n".join([head, *preambles[n]]), kernel(n, uses[n]).text) for n in range(4)
    ]
    with_one_cpu = module._unit(kernels)
    assert [with_one_cpu.count(f"float {name}(") for name in ("one", "two", "both")] == [1, 1, 1]
    assert results(kernels) == [11.0, 13.0, 13.0, 12.0]


@pytest.mark.parametrize("damage", ["truncate", "empty", "flip", "append", "remove"])
def test_a_damaged_object_is_compiled_again(folder: Path, damage: str) -> None:
    (path,) = build([kernel(1)])
    assert build([kernel(1)]) == [path]  # whole, when it was last looked at
    data = path.read_bytes()
    changed = {
        "truncate": data[: len(data) // 2],
        "empty": b"",
        "flip": data[:5000] + bytes([data[5000] ^ 1]) + data[5001:],
        "append": data + b"x",
    }
    if damage == "remove":
        path.unlink()
    else:
        path.write_bytes(changed[damage])
    assert results([kernel(1)]) == [21.0]
    assert (compiled(folder), path.read_bytes()) == (2, data)


def test_a_folder_in_place_of_what_is_cached_goes(folder: Path) -> None:
    """Of an object, then of the link to it."""
    for pattern in ("c/*.so", "c/*.k"):
        build([kernel(1)])
        (path,) = folder.glob(pattern)
        path.unlink()
        (path / "inside").mkdir(parents=True)
        assert results([kernel(1)]) == [21.0]
        assert path.is_file()


def test_an_object_of_another_name_is_compiled_again(folder: Path) -> None:
    """Both are whole; one has the bytes of the other."""
    (one,), (other,) = build([kernel(1)]), build([kernel(2)])
    data = one.read_bytes()
    other.replace(one)
    assert (results([kernel(1)]), results([kernel(2)])) == ([21.0], [22.0])
    assert (compiled(folder), one.read_bytes()) == (4, data)


def test_an_entry_that_names_another_object_is_replaced(folder: Path) -> None:
    build([kernel(1)])
    (entry,) = folder.glob("c/*.k")
    (other,) = build([kernel(2)])
    entry.unlink()
    entry.symlink_to(other.name)
    assert results([kernel(1), kernel(2)]) == [21.0, 22.0]
    assert compiled(folder) == 3


def test_an_object_that_goes_before_it_is_opened(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when another process prunes the cache, twice."""
    gone: list[Path] = []

    def build_and_lose(kernels: Sequence[KernelSource]) -> list[Path]:
        paths = build(kernels)
        if len(gone) < 2:
            gone.extend(paths)
            paths[0].unlink()
        return paths

    monkeypatch.setattr(loader, "build", build_and_lose)
    assert results([kernel(7)]) == [27.0]
    assert (compiled(folder), gone[0].exists()) == (3, True)


def test_a_use_is_written_down_once_a_day(folder: Path) -> None:
    (path,) = build([kernel(1)])
    now = time.time()
    for age, kept in ((module.DAY_SECONDS - 600, True), (module.DAY_SECONDS + 600, False)):
        os.utime(path, (now - age, now - age))
        build([kernel(1)])
        assert (path.stat().st_mtime < now - 60) == kept
    assert compiled(folder) == 1


def test_an_entry_that_names_nothing_is_replaced(folder: Path) -> None:
    build([kernel(1)])
    (entry,) = folder.glob("c/*.k")
    entry.unlink()
    entry.symlink_to("nothing.so")
    build([kernel(1)])
    assert (compiled(folder), entry.exists()) == (2, True)


def test_a_compiler_that_refuses(folder: Path) -> None:
    bad = kernel(2, "undeclared + {number}")
    with pytest.raises(BackendError) as caught:
        build([kernel(1), bad, kernel(3)])
    first, kept, *rest = str(caught.value).splitlines()
    assert re.fullmatch(r"C compiler .*/cc failed with status 1", first)
    source = Path(kept.removeprefix("source: "))
    assert source.parent == folder / "c" / "failed"
    assert bad.text in source.read_text()
    assert any(line.startswith(f"{source}:") and "undeclared" in line for line in rest)
    assert not list(folder.glob("c/work-*"))
    assert all(whole(path) for path in objects(folder))
    assert results([kernel(1), kernel(3)]) == [21.0, 23.0]


def test_a_warning_is_an_error_under_check(folder: Path) -> None:
    spare = [kernel(1, "x; float spare = x")]
    with override(ir_settings, check=1), pytest.raises(BackendError, match="unused"):
        build(spare)
    with override(ir_settings, check=0):
        assert build(spare)


def test_the_folder_is_private(folder: Path) -> None:
    build([kernel(1)])
    assert [path.stat().st_mode & 0o777 for path in (folder, folder / "c")] == [0o700, 0o700]


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        override(settings, uop_cache=str(tmp_path / "file" / "cache")),
        pytest.raises(BackendError, match=r"kernel cache .* cannot be used: Not a directory") as caught,
    ):
        build([kernel(1)])
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_that_cannot_be_written(folder: Path) -> None:
    build([kernel(1)])
    (folder / "c").chmod(0o500)
    assert results([kernel(1)]) == [21.0]
    with pytest.raises(BackendError, match="Permission denied"):
        build([kernel(2)])
    (folder / "c").chmod(0o700)


def test_where_the_cache_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with override(settings, uop_cache=""):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        assert cache_folder() == tmp_path / "uop"
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        assert cache_folder() == tmp_path / "home" / ".cache" / "uop"


def test_a_kernel_that_its_source_does_not_have(folder: Path) -> None:
    with pytest.raises(BackendError, match="cannot load absent") as error:
        load([KernelSource("absent", kernel(1).preamble, kernel(1).text)])
    assert error.value.remedy is not None
    assert "set CC" in error.value.remedy
    assert compiled(folder) == 2


@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")
def test_a_compiler_of_cplusplus_is_told_in_the_words_of_the_loader(tmp_path: Path) -> None:
    """In a process of its own, as it is the first error of its loader."""
    code = "from uop_codegen_c.doctor import doctor\nprint(*doctor(), sep='\\n')"
    env = {**os.environ, "CC": "g++", "UOP_CACHE": str(tmp_path)}
    said = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert "cannot load uop_doctor" in said.stdout
    assert "unknown reason" not in said.stdout
    assert "set CC to a compiler of C:" in said.stdout


def test_threads_compile_the_same(folder: Path) -> None:
    kernels = [kernel(n) for n in range(4)]
    found: list[list[float]] = []
    workers = [threading.Thread(target=lambda: found.append(results(kernels))) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert found == [[20.0, 21.0, 22.0, 23.0]] * 4
    assert compiled(folder) == min(4, cpus())


def test_old_work_is_swept(folder: Path) -> None:
    build([kernel(1)])
    old, young = folder / "c" / "work-old", folder / "c" / "work-young"
    for path in (old, young):
        path.mkdir()
        (path / "x.so").touch()
    text = folder / "c" / "work-text"
    text.touch()
    hours_ago = time.time() - module.STALE_SECONDS - 60
    for path in (old, text):
        os.utime(path, (hours_ago, hours_ago))
    build([kernel(2)])
    assert (old.exists(), text.exists(), young.exists()) == (False, False, True)


# several processes

CHILD = """
    import signal, sys, time
    from pathlib import Path
    from test_cache import kernel, results
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the suite runs in the background
    go = Path(sys.argv[1])
    print("ready", flush=True)
    while not go.exists():
        time.sleep(0.002)
    print(results([kernel(n) for n in range(6)]), flush=True)
"""


def child(folder: Path, go: Path, **environment: str) -> "subprocess.Popen[str]":
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    values = {"UOP_CACHE": str(folder), "CC": settings.cc, "PYTHONPATH": path, **environment}
    command = [sys.executable, "-c", textwrap.dedent(CHILD), str(go)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **values}
    )


@pytest.mark.net
def test_processes_compile_the_same_at_once(folder: Path, tmp_path: Path) -> None:
    go = tmp_path / "go"
    children = [child(folder, go) for _ in range(3)]
    for process in children:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    go.touch()
    for process in children:
        out, err = process.communicate(timeout=120)
        assert (out, err) == ("[20.0, 21.0, 22.0, 23.0, 24.0, 25.0]\n", "")
    assert all(whole(path) for path in objects(folder))
    assert compiled(folder) == min(6, cpus())


def interrupted_while_compiling(folder: Path, tmp_path: Path, how: signal.Signals) -> tuple[str, list[int]]:
    """End a process whose compilers have each written half an object and then hang:
    what it says, and their pids.
    """
    reached = tmp_path / "reached"
    slow = script(
        tmp_path / "slow",
        f"""\
        case "$*" in *openmp.c*|*" -E "*) exec {CC} "$@";; esac
        for a in "$@"; do case "$a" in *.so) printf half > "$a";; esac; done
        echo $$ >> {reached}
        exec sleep 1000""",
    )
    (tmp_path / "go").touch()
    process = child(folder, tmp_path / "go", CC=slow)
    compilers = min(6, cpus())
    for _ in range(3000):
        if reached.exists() and reached.read_text().count("\n") == compilers:
            break
        time.sleep(0.01)
    process.send_signal(how)
    _, said = process.communicate(timeout=60)
    return said, [int(pid) for pid in reached.read_text().split()]


def test_a_process_killed_while_compiling(folder: Path, tmp_path: Path) -> None:
    _, left = interrupted_while_compiling(folder, tmp_path, signal.SIGKILL)
    try:
        assert list(folder.glob("c/work-*/*.so"))
        assert objects(folder) == []
        assert results([kernel(n) for n in range(6)]) == [20.0 + n for n in range(6)]
        assert all(whole(path) for path in objects(folder))
    finally:
        for pid in left:
            os.kill(pid, signal.SIGKILL)


def test_ctrl_c_ends_the_compilers(folder: Path, tmp_path: Path) -> None:
    said, left = interrupted_while_compiling(folder, tmp_path, signal.SIGINT)
    assert said.endswith("KeyboardInterrupt\n")
    assert not list(folder.glob("c/work-*"))
    assert not [pid for pid in left if (Path("/proc") / str(pid)).exists()]
