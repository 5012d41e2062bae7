"""A pytest plugin: every buffer of the CPU backend between two pages that may not be touched.

    PYTHONPATH=tests pytest -p guard_pages packages/uop-codegen-c/tests

What a kernel reads or writes outside of its buffers ends the process by SIGSEGV, at the first byte behind a
buffer, or with GUARD=start at the last byte before it. So do vectors that reach past the end. Each scratch
buffer of a plan has pages of its own. Bytes start as 0xA5,
so that what is read before it is written is not 0.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from uop_codegen_c import CpuBackend
from uop_ir import Executable, Ops, Plan, UOp

PAGE = mmap.PAGESIZE
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
NO_ACCESS = 0

Bytes = npt.NDArray[np.uint8]
#: What kernels see of each memory, for as long as its handle lives.
BYTES: weakref.WeakKeyDictionary[Any, Bytes] = weakref.WeakKeyDictionary()
PLAIN = {name: getattr(CpuBackend, name) for name in ("allocate", "free", "bytes_of", "link")}


def guarded(nbytes: int) -> tuple[Bytes, int]:
    """Bytes that end, or with GUARD=start begin, where a page of no access does; and their address."""
    inside = -(-nbytes // PAGE) * PAGE
    whole = mmap.mmap(-1, inside + 2 * PAGE)
    block = np.frombuffer(whole, np.uint8)
    address = int(block.__array_interface__["data"][0])
    for page in (address, address + PAGE + inside):
        if LIBC.mprotect(page, PAGE, NO_ACCESS):
            raise OSError(ctypes.get_errno(), "mprotect")
    begin = PAGE if os.environ.get("GUARD") == "start" else PAGE + inside - nbytes
    data = block[begin : begin + nbytes]
    data[:] = 0xA5
    return data, address + begin


def allocate(self: CpuBackend, nbytes: int) -> Any:
    """The memory that the backend gives, with a pointer to guarded bytes."""
    memory = PLAIN["allocate"](self, nbytes)
    BYTES[memory], memory.data = guarded(nbytes)
    return memory


def free(self: CpuBackend, memory: Any) -> None:
    PLAIN["free"](self, memory)
    BYTES.pop(memory, None)


def bytes_of(self: CpuBackend, memory: Any) -> Bytes:
    """What kernels see; of memory that was adopted, its own bytes."""
    return BYTES[memory] if memory in BYTES else PLAIN["bytes_of"](self, memory)


def link(self: CpuBackend, plan: Plan) -> Executable:
    """The plan with its scratch buffers as inputs, each with guarded memory."""
    scratch: dict[UOp, UOp] = {}
    first = 1 + max((int(p.arg.slot) for p in plan.inputs), default=-1)
    calls = []
    for call in plan.calls:
        for argument in plan.arguments(call):
            if argument.op is Ops.ALLOC and argument not in scratch:
                scratch[argument] = UOp.param(first + len(scratch), argument.arg.size, argument.dtype)
        calls.append(UOp(Ops.CALL, (call.src[0], *(scratch.get(a, a) for a in plan.arguments(call)))))
    run = PLAIN["link"](self, Plan(tuple(calls), (*plan.inputs, *scratch.values()), plan.scalars))
    own = [allocate(self, a.arg.size * a.dtype.itemsize) for a in scratch]

    def replay(memory: Sequence[Any], scalars: Sequence[float | int]) -> None:
        run([*memory, *own], scalars)

    return replay


for method in (allocate, free, bytes_of, link):
    setattr(CpuBackend, method.__name__, method)
# The compiler, which tests start, is not to run with what was loaded for the kernels.
os.environ.pop("LD_PRELOAD", None)
