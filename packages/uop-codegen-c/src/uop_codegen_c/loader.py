"""The loader: functions out of compiled objects, through cffi. Week 2.

One FFI and one signature serve all kernels: parsing declarations costs milliseconds,
and is done once. Calls release the interpreter's lock.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cffi

from uop_ir import BackendError

from .cache import KernelSource, build, forget

#: How often a waiting thread of GNU OpenMP looks before it sleeps. On CPUs that are busy with other
#: processes, a loop of 100 us on two threads takes 1000 to 5600 us in the mean with its default of 300000 (20
#: ms of looking), and 200 to 500 with 1000; on idle CPUs the median is 54 us with both. 0 costs 30 us a loop.
SPIN_COUNT = "1000"
#: How often kernels are found or made, where what was found has gone before it could be opened.
ATTEMPTS = 10

ffi: Any = cffi.FFI()
ffi.cdef(
    """
    void *dlopen(const char *path, int flags);
    void *dlsym(void *object, const char *name);
    char *dlerror(void);
    typedef void kernel_function(void *const *buffers, const int64_t *scalars);
    """
)
_system = ffi.dlopen(None)
_dlerror = _system.dlerror  # found now: to look a function up forgets the error that is asked for
_lock = threading.Lock()
_objects: dict[Path, Any] = {}


def load(kernels: Sequence[KernelSource]) -> list[Any]:
    """The functions of kernels, compiled where they are new: cffi pointers to `kernel_function`.

    They stay loaded for the process. An object that cannot be loaded is made anew once, as it may not be what
    a damaged cache says; and some times more where it has gone, as another process may prune the cache.
    Raises BackendError where a kernel cannot be compiled or loaded.
    """
    for attempt in range(ATTEMPTS):
        paths = build(kernels)
        lost = [
            pair for pair in zip(paths, kernels, strict=True) if _symbol(pair[0], pair[1].name) == ffi.NULL
        ]
        if not lost or (attempt > 0 and all(path.exists() for path, _ in lost)):
            break
        forget([kernel for _, kernel in lost])
    return [_function(path, kernel.name) for path, kernel in zip(paths, kernels, strict=True)]


def _function(path: Path, name: str) -> Any:
    found = _symbol(path, name)
    if found == ffi.NULL:
        reason = _reason()
        opened = "set CC to a compiler of C: one of C++ gives functions other names"
        closed = "set UOP_CACHE to a folder that programs may run from"
        raise BackendError(f"cannot load {name}: {reason}", remedy=opened if path in _objects else closed)
    return ffi.cast("kernel_function *", found)


def _symbol(path: Path, name: str) -> Any:
    """Where a function is; NULL where the object cannot be opened or does not have it."""
    with _lock:
        if path not in _objects:
            # OpenMP reads these once, when the first kernel brings it in
            if "OMP_WAIT_POLICY" not in os.environ:
                os.environ.setdefault("GOMP_SPINCOUNT", SPIN_COUNT)
            opened = _system.dlopen(bytes(path), ffi.RTLD_NOW | ffi.RTLD_LOCAL)
            if opened == ffi.NULL:
                return opened
            _objects[path] = opened
        return _system.dlsym(_objects[path], name.encode())


def _reason() -> str:
    reason = _dlerror()
    return str(ffi.string(reason).decode(errors="replace")) if reason else "unknown reason"
