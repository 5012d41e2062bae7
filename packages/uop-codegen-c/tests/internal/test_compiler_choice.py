"""Which compiler is chosen, with which flags, on which system; and what makes another name in the cache.

The compilers are scripts that say of themselves what real ones say, refuse the flags that those refuse, and
hand the rest to the compiler of this machine.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from uop_codegen_c import compiler as module
from uop_codegen_c.cache import KernelSource, active_compiler, kernel_key
from uop_codegen_c.compiler import find_compiler, too_old
from uop_codegen_c.doctor import doctor
from uop_codegen_c.settings import settings
from uop_ir import BackendError, override
from uop_ir import settings as ir_settings

CC = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang") or ""
PATH = os.environ["PATH"]
CLANG_14 = shutil.which("clang-14")
GCC = """\
Target: {target}
gcc version {version} (Homebrew GCC {version})
 /usr/libexec/gcc/{target}/{version}/cc1 -E -quiet -v /dev/null {cpu} -mtune=generic"""
APPLE = """\
Apple clang version 15.0.0 (clang-1500.3.9.4)
Target: arm64-apple-darwin23.4.0
InstalledDir: /Library/Developer/CommandLineTools/usr/bin
 "/Library/Developer/CommandLineTools/usr/bin/clang" -cc1 -triple arm64-apple-macosx14.0.0 -target-cpu apple-m1"""
CLANG = """\
Debian clang version 14.0.6
Target: x86_64-pc-linux-gnu
 "/usr/lib/llvm-14/bin/clang" -cc1 -triple x86_64-pc-linux-gnu -E -target-cpu skylake-avx512"""


def gcc(version: str = "14.2.0", target: str = "x86_64-linux-gnu", cpu: str = "-march=skylake") -> str:
    return GCC.format(version=version, target=target, cpu=cpu)


def compiler(path: Path, says: str, *refused: str) -> str:
    """A compiler that says this when asked, and refuses these flags.
    It drops what is for another CPU than ours.
    """
    lines = [
        "#!/bin/sh",
        f"PATH='{PATH}'",
        *(
            f'case " $* " in *" {flag} "*) echo "error: unsupported option {flag}" >&2; exit 1;; esac'
            for flag in refused
        ),
        f'case " $* " in *" -v "*) cat >&2 <<"END"\n{says}\nEND\nexit 0;; esac',
        f"exec {CC} $(echo \"$@\" | sed 's/ -m[a-z-]*=[a-z0-9]*//g')",
    ]
    path.write_text("\n".join(lines) + "\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The only folder on the PATH."""
    bin = tmp_path / "bin"
    bin.mkdir()
    monkeypatch.setenv("PATH", str(bin))
    module._find.cache_clear()
    with override(settings, uop_cache=str(tmp_path / "cache"), cc=""):
        yield bin
    module._find.cache_clear()


# which


@pytest.mark.parametrize(
    ("platform", "there", "chosen"),
    [
        ("linux", ["gcc", "clang"], "gcc"),
        ("linux", ["clang", "cc"], "cc"),
        ("linux", ["clang-14", "gcc-12", "gcc-9"], "gcc-12"),
        ("linux", ["clang-14", "clang-15"], "clang-15"),
        ("linux", ["gcc-8", "clang-13"], None),
        ("darwin", ["cc", "gcc", "clang", "gcc-13", "gcc-14"], "gcc-14"),
        ("darwin", ["cc", "gcc", "clang"], "cc"),
    ],
)
def test_the_first_candidate_is_chosen(
    folder: Path, monkeypatch: pytest.MonkeyPatch, platform: str, there: list[str], chosen: str | None
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    for name in there:
        compiler(folder / name, gcc())
    if chosen is None:
        with pytest.raises(BackendError, match=r"^no C compiler .*gcc 9 or clang 14"):
            find_compiler()
    else:
        assert find_compiler().command == (str(folder / chosen),)


def test_one_that_does_not_work_is_passed_over(folder: Path) -> None:
    (folder / "cc").write_text("#!/bin/sh\nexit 1\n")
    (folder / "gcc").write_bytes(b"\x7fELF nonsense")
    for name in ("cc", "gcc"):
        (folder / name).chmod(0o755)
    with pytest.raises(BackendError, match="cc is no C compiler"):
        find_compiler()
    compiler(folder / "clang", CLANG)
    module._find.cache_clear()
    assert find_compiler().command == (str(folder / "clang"),)
    with override(settings, cc="cc"), pytest.raises(BackendError, match="cc is no C compiler"):
        find_compiler()


# with which flags


def test_apple_clang_has_no_openmp_and_another_flag_for_the_cpu(folder: Path) -> None:
    compiler(folder / "cc", APPLE, "-march=native", "-fopenmp")
    found = active_compiler()
    assert found.version.startswith("Apple clang version 15.0.0")
    assert "-mcpu=native" in found.flags
    assert "-Wno-unknown-pragmas" in found.flags
    assert not {"-march=native", "-fopenmp", module.CLANG_X86} & set(found.flags)
    findings = {name: (status, detail) for status, name, detail in doctor()}
    assert findings["C compiler"] == ("ok", f"{folder}/cc: Apple clang version 15.0.0 (clang-1500.3.9.4)")
    assert findings["OpenMP"][0] == "warn"
    assert "on macOS" in findings["OpenMP"][1]
    assert findings["a kernel"][0] == "ok"


def test_homebrew_gcc_has_openmp(folder: Path) -> None:
    compiler(folder / "gcc-14", gcc(target="aarch64-apple-darwin23"), "-march=native")
    found = active_compiler()
    assert {"-mcpu=native", "-fopenmp"} <= set(found.flags)


def test_a_compiler_that_knows_no_cpu(folder: Path) -> None:
    compiler(folder / "cc", gcc(), "-march=native", "-mcpu=native")
    assert not [flag for flag in find_compiler().flags if flag.startswith("-m")]


def test_clang_takes_whole_vectors_on_x86_only(folder: Path) -> None:
    compiler(folder / "clang", CLANG)
    assert module.CLANG_X86 in find_compiler().flags


# by which name in the cache

KERNEL = KernelSource("k", "#include <stdint.h>", "void k(void *const *buffers, const int64_t *scalars) {}")


def key(folder: Path, says: str, *refused: str, arguments: str = "", check: int = 0) -> str:
    """The name of a kernel under such a compiler at one path, found by a process with an empty cache."""
    path = compiler(folder / "one", says, *refused)
    cache = tempfile.mkdtemp(dir=folder.parent)
    module._find.cache_clear()
    with override(settings, cc=f"{path} {arguments}", uop_cache=cache), override(ir_settings, check=check):
        return kernel_key(KERNEL, active_compiler())


def test_whatever_changes_the_object_changes_the_name(folder: Path) -> None:
    keys = {
        "as it is": key(folder, gcc()),
        "another version": key(folder, gcc("14.2.1")),
        "another build": key(folder, gcc().replace("(Homebrew GCC 14.2.0)", "(Homebrew GCC 14.2.0_1)")),
        "another CPU": key(folder, gcc(cpu="-march=skylake-avx512")),
        "a CPU with one feature more": key(folder, gcc(cpu="-march=skylake -mavx512f")),
        "another target": key(folder, gcc(target="i686-linux-gnu")),
        "clang": key(folder, CLANG),
        "an argument": key(folder, gcc(), arguments="-DA"),
        "another argument": key(folder, gcc(), arguments="-DB"),
        "no flag for the CPU": key(folder, gcc(), "-march=native", "-mcpu=native"),
        "no OpenMP": key(folder, gcc(), "-fopenmp"),
        "CHECK": key(folder, gcc(), check=1),
    }
    assert len(set(keys.values())) == len(keys)
    assert key(folder, gcc()) == keys["as it is"]
    shutil.copy(folder / "one", folder / "two")
    with override(settings, cc=str(folder / "two")):
        assert kernel_key(KERNEL, active_compiler()) not in keys.values()


@pytest.mark.parametrize(
    ("version", "least"),
    [
        ("gcc version 8.3.0 (Debian 8.3.0-6)", "gcc 9"),
        ("gcc version 9.4.0 (Ubuntu 9.4.0-1ubuntu1~20.04.2)", None),
        ("gcc version 14.2.0 (Homebrew GCC 14.2.0)", None),
        ("Debian clang version 11.0.1-2", "clang 14"),
        ("Debian clang version 14.0.6", None),
        ("Apple clang version 15.0.0 (clang-1500.3.9.4)", None),
        ("Intel(R) oneAPI DPC++/C++ Compiler 2024.0.0", None),
    ],
)
def test_a_compiler_that_is_too_old_is_told(folder: Path, version: str, least: str | None) -> None:
    assert too_old(version) == least
    compiler(folder / "cc", version if " version " in version else f"{version}\nno version here")
    status, _, detail = doctor()[0]
    assert (status, "not tested below" in detail) == (("warn", True) if least else ("ok", False))


@pytest.mark.skipif(CLANG_14 is None, reason="no clang 14 here")
@pytest.mark.parametrize("check", [0, 1])
def test_a_real_clang(folder: Path, monkeypatch: pytest.MonkeyPatch, check: int) -> None:
    monkeypatch.setenv("PATH", PATH)
    with override(settings, cc=str(CLANG_14)), override(ir_settings, check=check):
        assert "clang version 14" in active_compiler().version
        findings = {name: (status, detail) for status, name, detail in doctor()}
    assert findings["a kernel"][0] == "ok"
