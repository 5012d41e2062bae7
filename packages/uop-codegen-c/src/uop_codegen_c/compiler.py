"""The C compiler: which one, with which flags, and how it is run. Week 2."""

from __future__ import annotations

import functools
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from uop_ir import BackendError
from uop_ir import settings as ir_settings

from .settings import settings

#: The least versions that will do. Apple numbers its clang by itself: its 14 is later than that of LLVM.
LEAST = {"gcc": 9, "clang": 14}
GCCS = tuple(f"gcc-{version}" for version in range(16, LEAST["gcc"] - 1, -1))
CLANGS = tuple(f"clang-{version}" for version in range(22, LEAST["clang"] - 1, -1))
#: Where CC names none. On macOS cc, gcc and clang are Apple's clang,
#: which has no OpenMP: Homebrew's GCC goes first.
CANDIDATES = {"darwin": (*GCCS, "cc", "clang")}
OTHER_CANDIDATES = ("cc", "gcc", "clang", *GCCS, *CLANGS)
REMEDY = "install gcc 9 or clang 14, or newer (apt install gcc; on macOS brew install gcc), or set CC to a C compiler"
#: No fast-math, here or at link time: it would set flush-to-zero for the whole process.
FLAGS: tuple[str, ...] = (
    "-O2",
    "-std=c17",
    "-fno-math-errno",
    "-ffp-contract=off",
    "-Wno-psabi",
    "-fPIC",
    "-shared",
)
#: What CHECK=1 adds: our C has no warnings,
#: but a compiler to come may have new ones, and no user should meet them.
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Werror")
#: The flag for the CPU that we run on, the first that is accepted:
#: clang on Arm knows only the second, or neither.
NATIVE: tuple[tuple[str, ...], ...] = (("-march=native",), ("-mcpu=native",), ())
OPENMP = "-fopenmp"
#: When it is only asked, clang complains of flags for the linker, under -Werror too.
TO_ASK = ("-Wno-unused-command-line-argument",)
#: Without OpenMP its pragmas mean nothing, and -Wall would say so.
NO_OPENMP = "-Wno-unknown-pragmas"
#: clang halves its vectors on CPUs with AVX-512 unless it is told not to.
CLANG_X86 = "-mprefer-vector-width=512"
#: Past 8 MB of conflicts gcc is to use its fast register allocator: the other takes quadratic time in a long
#: kernel without loops, 38 s where this one takes 4 (6,000 lines).
#: Kernels of less than some thousand values are not touched.
GCC_LONG = "--param=ira-max-conflict-table-size=8"
#: Characters from which on a kernel is compiled with LONG_FLAGS. Some passes of -O2 take quadratic time in a
#: long function: 16,000 operations, twice in the text, take gcc 125 s and clang minutes, and 9 s with these;
#: 4,000 take 8 s and 2. The code ran as fast on 1,000 to 4,000 operations: 0.60 ms and 0.59, 1.25 and 1.26.
LONG_TEXT = 60_000
LONG_FLAGS = ("-O1",)
#: gcc's dominator optimization is quadratic under -O1 too: half of 21 s where a maximum has no branches.
GCC_LONG_FLAGS = ("-fno-tree-dominator-opts",)
OPENMP_PROBE = """\
int omp_get_max_threads(void);
int probe(void);

int probe(void)
{
    int sum = omp_get_max_threads();
    #pragma omp parallel for reduction(+ : sum)
    for (int i = 0; i < 100; i++) {
        sum += i;
    }
    return sum;
}
"""
#: Seconds after which a compiler is taken to hang: for itself, and for each kernel in the file.
TIMEOUT, TIMEOUT_KERNEL = 60.0, 10.0


@dataclass(frozen=True)
class Job:
    """One file to compile: C source, the shared object to write,
    the seconds that this may take, and if it is long.
    """

    source: Path
    output: Path
    timeout: float = TIMEOUT
    long: bool = False


@dataclass(frozen=True)
class Compiler:
    """A C compiler that answered. `identity` changes whenever what it makes of a source might.

    `long_flags` are added for a file with a long kernel.
    """

    command: tuple[str, ...]
    flags: tuple[str, ...]
    version: str
    identity: str
    long_flags: tuple[str, ...] = ()

    def run(self, jobs: Sequence[Job]) -> list[str | None]:
        """Compile all jobs at the same time; for each None, or what went wrong and the compiler's own words.

        No compiler outlives the call, whatever ends it. A job's messages and the compiler's own temporary
        files stay in the folder of its output.
        """
        started: list[subprocess.Popen[bytes]] = []
        began = time.monotonic()
        try:
            with _ctrl_c_later():  # a process that is running already would not be known yet
                started.extend(self._start(job) for job in jobs)
            return [self._finish(*each, began) for each in zip(jobs, started, strict=True)]
        finally:
            for process in started:
                _kill(process)

    def _start(self, job: Job) -> subprocess.Popen[bytes]:
        flags = (*self.flags, *(self.long_flags if job.long else ()))
        command = [*self.command, *flags, str(job.source), "-o", str(job.output), "-lm"]
        with _log(job).open("wb") as log:
            try:
                return subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=_environment(TMPDIR=str(job.output.parent)),
                    process_group=0,
                )
            except OSError as error:
                raise BackendError(
                    f"C compiler {command[0]} does not run: {error.strerror}", remedy=REMEDY
                ) from None

    def _finish(self, job: Job, process: subprocess.Popen[bytes], began: float) -> str | None:
        name = f"C compiler {self.command[0]}"
        try:
            status = process.wait(max(began + job.timeout - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            return f"{name} took longer than {job.timeout:.0f} s"
        said = _log(job).read_text(errors="replace")
        if status < 0:
            return f"{name} was killed by signal {-status}\n{said}"
        if status > 0:
            return f"{name} failed with status {status}\n{said}"
        return None if job.output.is_file() else f"{name} wrote no object\n{said}"


def find_compiler() -> Compiler:
    """The compiler that the setting CC names, else the first of the candidates that works.

    Raises BackendError where there is none.
    """
    return _find(settings.cc, bool(ir_settings.check))


@functools.cache
def _find(wanted: str, check: bool) -> Compiler:
    failures: list[BackendError] = []
    for command in _commands(wanted):
        try:
            return _probe(command, (*FLAGS, *(WARNINGS if check else ())))
        except BackendError as error:
            failures.append(error)
    if failures:
        raise failures[0]
    raise BackendError(
        f"no C compiler: CC={wanted!r} is not there" if wanted else "no C compiler", remedy=REMEDY
    )


def _commands(wanted: str) -> list[tuple[str, ...]]:
    """What may be run as the compiler, the best first."""
    try:
        words = shlex.split(wanted)
    except ValueError as error:
        raise BackendError(f"CC={wanted!r}: {error}", remedy="quote it as a shell would") from None
    paths = [shutil.which(name) for name in words[:1] or CANDIDATES.get(sys.platform, OTHER_CANDIDATES)]
    return [(str(Path(path).absolute()), *words[1:]) for path in paths if path is not None]


def _probe(command: tuple[str, ...], flags: tuple[str, ...]) -> Compiler:
    """The compiler that a command is, with its flags. Raises BackendError where it is none."""
    for native in NATIVE:
        said = _identify(command, (*flags, *native))
        if said is not None:
            break
    else:
        raise BackendError(f"{shlex.join(command)} is no C compiler with GCC's options", remedy=REMEDY)
    lines = [line.strip() for line in said.splitlines()]
    version = next((line for line in lines if " version " in line), command[0])
    target = next((line for line in lines if "cc1" in line), "")
    wide = (CLANG_X86,) if "clang" in version and "x86" in target else ()
    gcc = "gcc version" in version
    flags = (*flags, *native, *wide, *((GCC_LONG,) if gcc else ()))
    long_flags = (*LONG_FLAGS, *(GCC_LONG_FLAGS if gcc else ()))
    identity = "\n".join((*command, *flags, f"from {LONG_TEXT} characters", *long_flags, version, target))
    return Compiler(command, flags, version, identity, long_flags)


def too_old(version: str) -> str | None:
    """The least version that will do, where a compiler calls itself by an older one."""
    found = re.search(r"\b(gcc|clang) version (\d+)", version)
    if found is None or int(found[2]) >= LEAST[found[1]]:
        return None
    return f"{found[1]} {LEAST[found[1]]}"


def _identify(command: tuple[str, ...], flags: tuple[str, ...]) -> str | None:
    """What the compiler says of itself and of the target that the flags mean; None where it refuses them."""
    try:
        done = subprocess.run(
            [*command, *flags, *TO_ASK, "-E", "-v", "-x", "c", os.devnull],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=TIMEOUT,
            cwd="/",
            env=_environment(),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BackendError(f"C compiler {command[0]} does not run: {error}", remedy=REMEDY) from None
    return done.stderr if done.returncode == 0 else None


def has_openmp(compiler: Compiler, folder: Path) -> bool:
    """Whether a program with OpenMP compiles and links. `folder` takes the probe's files."""
    source = folder / "openmp.c"
    source.write_text(OPENMP_PROBE)
    return with_openmp(compiler, True).run([Job(source, source.with_suffix(".so"))]) == [None]


def with_openmp(compiler: Compiler, openmp: bool) -> Compiler:
    """The compiler with the flag that turns OpenMP on, or with the one that accepts its pragmas."""
    flag = OPENMP if openmp else NO_OPENMP
    return replace(compiler, flags=(*compiler.flags, flag), identity=f"{compiler.identity}\n{flag}")


def _environment(**values: str) -> Mapping[str, str]:
    return {**os.environ, "LC_ALL": "C", **values}


def _log(job: Job) -> Path:
    return job.output.with_suffix(".log")


@contextmanager
def _ctrl_c_later() -> Iterator[None]:
    """Hold a Ctrl-C back until the end of a with block. Other threads than the main one get none."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    asked: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: asked.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)
        if asked:
            signal.raise_signal(signal.SIGINT)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a compiler and the programs that it has started, unless it is done."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
