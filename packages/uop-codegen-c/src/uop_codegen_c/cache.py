"""The kernel cache: compiled kernels on disk, found by content, sound whatever is killed or damaged. Week 2.

A folder `c` below the cache folder holds

    <sha256>.so     a shared object with several kernels, named by its own bytes
    <sha256>.k      one a kernel, named by source, flags and compiler: a symbolic link to the object with it
    <sha256>.json   the text of a kernel, by what it was lowered from (`generated`)
    tuned/          schedules that timing has found (`tuned`)
    openmp-*        one a compiler: that it has OpenMP
    roofline-*      one a CPU and compiler: what they can do at most (`roofline`)
    failed/         the sources that a compiler refused
    lock-<digit>    advisory locks, by first digit of a kernel's name
    work-*          a compilation or a file under way, in `tuned/*` too; swept when an hour old

A name appears, by a rename, only after what it names is complete; an object is held against its name before
it is opened: a short or damaged one would end the process (SIGBUS), not raise. Whatever is not there, or not
whole, is made anew, so that any file may be removed at any time. The time of a file is that of its last use,
to a day. The kernels that are missing are grouped into as many files as there are CPUs: on two, 60 kernels
compile in 31 ms each that way, and in 81 ms one by one.
Long ones, which have flags of their own, are grouped apart.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar, cast

from uop_ir import BackendError

from .compiler import (
    LONG_TEXT,
    TIMEOUT,
    TIMEOUT_KERNEL,
    Compiler,
    Job,
    find_compiler,
    has_openmp,
    with_openmp,
)
from .machine import cpus
from .settings import settings

Made = TypeVar("Made")

#: Part of every name: to be changed with the layout of the cache.
VERSION = "2"
#: After which a compilation is taken to be dead, and a file to need a new time of last use.
STALE_SECONDS, DAY_SECONDS = 3600, 86400
#: Where processes that were killed leave files behind.
UNDER_WAY = ("work-*", "tuned/*/work-*")
DIAGNOSTIC_LINES = 12


@dataclass(frozen=True)
class KernelSource:
    """One kernel as C: the definitions that it stands on, and the text with its one external function.

    The function is `void NAME(void *const *buffers, const int64_t *scalars)`, and NAME differs where the text
    does. The preamble holds types and `static inline` functions, each after those that it needs, with blank
    lines between them and none within: in a file of several kernels each stands once, and the same name is
    the same definition. `flops` and `bytes` are those of one run, 0 if unknown.
    """

    name: str
    preamble: str
    text: str
    flops: int = 0
    bytes: int = 0


def cache_folder() -> Path:
    """The folder that all of uopc's caches are in,
    as the settings and the environment say. It may not exist yet.
    """
    if settings.uop_cache:
        return Path(settings.uop_cache).absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache").absolute() / "uop"
    except RuntimeError as error:
        raise BackendError(f"no cache folder: {error}", remedy="set UOP_CACHE to a folder") from None


def active_compiler() -> Compiler:
    """The compiler in use, with OpenMP where it has it. Raises BackendError where there is none."""
    found = find_compiler()
    with kernel_folder() as folder:
        return _with_openmp(found, folder)


def build(kernels: Sequence[KernelSource], compiler: Compiler | None = None) -> list[Path]:
    """For each kernel the shared object that has it: verified, and compiled now where it was missing.

    By the C compiler in use, or by one that is given, which may be of another language. Raises BackendError
    where there is no compiler, where it fails, or where the cache cannot be written.
    """
    compiler = compiler or active_compiler()
    keys = [kernel_key(kernel, compiler) for kernel in kernels]
    by_key = dict(zip(keys, kernels, strict=True))
    with kernel_folder() as folder:
        found = {key: _find(folder, key) for key in by_key}
        missing = [key for key in by_key if found[key] is None]
        if missing:
            sweep(folder)
            with _locked(folder, missing):
                found |= {key: _find(folder, key) for key in missing}
                missing = [key for key in missing if found[key] is None]
                found |= _compile(folder, compiler, {key: by_key[key] for key in missing})
    return [path for key in keys if (path := found[key]) is not None]


def forget(kernels: Sequence[KernelSource]) -> None:
    """Let the next `build` make these kernels anew."""
    compiler = active_compiler()
    with kernel_folder() as folder:
        for kernel in kernels:
            (folder / f"{kernel_key(kernel, compiler)}.k").unlink(missing_ok=True)


def kernel_key(kernel: KernelSource, compiler: Compiler) -> str:
    """The name of a kernel in the cache: a digest of its source, the flags and the compiler."""
    return digest(VERSION, kernel.name, kernel.preamble, kernel.text, compiler.identity)


@contextmanager
def kernel_folder() -> Iterator[Path]:
    """The folder of this cache, made where it is not there;
    what the system refuses inside is a BackendError.
    """
    folder = cache_folder() / "c"
    try:
        for path in (folder.parent, folder):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        yield folder
    except OSError as error:
        what = f"{error.strerror}: {error.filename}" if error.filename else str(error)
        raise BackendError(
            f"kernel cache {folder} cannot be used: {what}",
            remedy="set UOP_CACHE to a folder that can be written",
        ) from None


@functools.cache
def _with_openmp(compiler: Compiler, folder: Path) -> Compiler:
    """Probed once a cache. That there is none is not written down: installing OpenMP must have an effect."""
    known = folder / f"openmp-{digest(VERSION, compiler.identity)[:16]}"
    openmp = known.exists()
    if not openmp:
        with workspace(folder) as work:
            openmp = has_openmp(compiler, work)
        if openmp:
            known.touch()
    return with_openmp(compiler, openmp)


# reading


def _find(folder: Path, key: str) -> Path | None:
    """The object that has a kernel, or None where there is none that is whole."""
    try:
        path = folder / (folder / f"{key}.k").readlink()
    except OSError:
        return None
    if not is_whole(path):
        return None
    mark_used(path)
    return path


def is_whole(path: Path) -> bool:
    """Whether an object is there, with the bytes that its name says."""
    try:
        status = path.stat()
    except OSError:
        return False
    return _verify(path, status.st_ino, status.st_size, status.st_mtime_ns)


@functools.lru_cache(maxsize=4096)
def _verify(path: Path, inode: int, size: int, modified: int) -> bool:
    """Asked once for each state of a file."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() == path.stem
    except OSError:
        return False


def mark_used(path: Path) -> None:
    """Give a file of the cache the time of now, unless it was used within a day."""
    with suppress(OSError):  # a cache that cannot be written serves what it has
        if time.time() - path.stat().st_mtime > DAY_SECONDS:
            os.utime(path)


# writing


def _compile(folder: Path, compiler: Compiler, kernels: dict[str, KernelSource]) -> dict[str, Path]:
    """Compile kernels, as many files at once as there are CPUs.
    What succeeds is kept even if another file fails.
    """
    with workspace(folder) as work:
        jobs: list[Job] = []
        groups: list[list[str]] = []
        for long in (True, False):
            some = {key: kernel for key, kernel in kernels.items() if (len(kernel.text) >= LONG_TEXT) == long}
            for text, keys in _group(some, cpus()):
                source = work / f"{digest(text)[:16]}.c"
                source.write_text(text)
                timeout = TIMEOUT + TIMEOUT_KERNEL * len(keys)
                jobs.append(Job(source, source.with_suffix(".so"), timeout, long))
                groups.append(keys)
        found: dict[str, Path] = {}
        failures: list[BackendError] = []
        for job, said, keys in zip(jobs, compiler.run(jobs), groups, strict=True):
            if said is None:
                path = _publish(folder, job.output, keys)
                found |= dict.fromkeys(keys, path)
            else:
                failures.append(_failure(folder, job, said))
    if failures:
        raise failures[0]
    return found


def _group(kernels: dict[str, KernelSource], most: int) -> list[tuple[str, list[str]]]:
    """At most `most` files, of about equal length, each with the keys of its kernels."""
    groups: list[list[str]] = [[] for _ in range(min(most, len(kernels)))]
    lengths = [0] * len(groups)
    for key in sorted(kernels, key=lambda key: (-len(kernels[key].text), key)):
        least = lengths.index(min(lengths))
        groups[least].append(key)
        lengths[least] += len(kernels[key].text)
    return [(_unit([kernels[key] for key in group]), group) for group in groups]


def _unit(kernels: Sequence[KernelSource]) -> str:
    """The text of a file: all definitions once, then the kernels."""
    parts = dict.fromkeys(part.strip("\n") for kernel in kernels for part in kernel.preamble.split("\n\n"))
    return "\n\n".join([*parts, *(kernel.text.strip("\n") for kernel in kernels)]) + "\n"


def _publish(folder: Path, output: Path, keys: Sequence[str]) -> Path:
    """Give an object its name, then those of its kernels."""
    path = folder / f"{hashlib.sha256(output.read_bytes()).hexdigest()}.so"
    put(output, path)
    for key in keys:
        link = output.parent / f"{key}.k"
        link.symlink_to(path.name)
        put(link, folder / link.name)
    return path


def put(made: Path, path: Path) -> None:
    """Give what is complete its name in the cache,
    whatever stands there: a folder is nothing that is cached.
    """
    try:
        made.replace(path)
    except IsADirectoryError:
        remove(path)
        made.replace(path)


def write_whole(path: Path, text: str) -> None:
    """Write a file of the cache. Raises OSError where it cannot be written."""
    handle, made = tempfile.mkstemp(prefix="work-", dir=path.parent)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
        put(Path(made), path)
    except BaseException:
        remove(Path(made))
        raise


def write_checked(path: Path, value: object, *version: str) -> None:
    """Write a value as JSON behind a line with its digest. Raises OSError where it cannot be written."""
    text = json.dumps(value)
    write_whole(path, f"{digest(*version, text)}\n{text}")


def read_checked(path: Path, *version: str) -> Any:
    """The value in such a file.

    Raises OSError where there is none, ValueError where it is damaged or of another version.
    """
    written, text = path.read_text().split("\n", 1)
    if written != digest(*version, text):
        raise ValueError(f"{path} is not what its digest says")
    return json.loads(text)


def kept(path: Path, read: Callable[[Path], Made | None], make: Callable[[], Made], *version: str) -> Made:
    """A dataclass: what `read` finds in such a file,
    which counts as used, else what is made now, and kept there.
    """
    found = read(path)
    if found is not None:
        mark_used(path)
        return found
    made = make()
    with suppress(OSError):  # a cache that cannot be written serves what it has
        write_checked(path, asdict(cast("Any", made)), *version)
    return made


def remove(path: Path) -> None:
    """Remove a file of the cache, or a folder that stands in place of one, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _failure(folder: Path, job: Job, said: str) -> BackendError:
    """The error for a file that did not compile. Its source is kept."""
    kept = folder / "failed" / job.source.name
    kept.parent.mkdir(mode=0o700, exist_ok=True)
    job.source.replace(kept)
    first, *rest = said.replace(str(job.source), str(kept)).splitlines()
    return BackendError("\n".join([first, f"source: {kept}", *rest[:DIAGNOSTIC_LINES]]))


@contextmanager
def workspace(folder: Path) -> Iterator[Path]:
    """A folder for one compilation, beside what it will make, gone at the end."""
    work = Path(tempfile.mkdtemp(prefix="work-", dir=folder))
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


@contextmanager
def _locked(folder: Path, keys: Sequence[str]) -> Iterator[None]:
    """Hold the locks of these kernels; the system drops them if the process dies.

    They only spare double work. Where a file system has no locks,
    two processes compile the same and both succeed.
    """
    with ExitStack() as stack:
        for digit in sorted({key[0] for key in keys}):
            lock = stack.enter_context((folder / f"lock-{digit}").open("a"))
            with suppress(OSError):
                fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def sweep(folder: Path) -> None:
    """Remove what processes that were killed have left behind."""
    for path in chain.from_iterable(map(folder.glob, UNDER_WAY)):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > STALE_SECONDS:
                remove(path)


def digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
