"""Memory, and the replay of a plan: one call from Python runs all kernels. Week 3.

All tables that a run needs are made when a plan is linked. A run puts the pointers of new memory and the values of
scalars where the kernels will look for them; the rest is a loop in C.
"""

from __future__ import annotations

import itertools
import struct
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from uop_ir import AddrSpace, BackendError, BoundsError, DType, Ops, Plan, UOp, call_params, dtypes
from uop_ir import settings as ir_settings

from .cache import KernelSource
from .loader import ffi

ALIGNMENT = 64
PLAN = """\
typedef void kernel_function(void *const *buffers, const int64_t *scalars);

struct uop_plan {
    int64_t kernel_count;
    kernel_function **kernels;
    void ***buffers;         /* of each kernel */
    int64_t **scalars;       /* of each kernel */
    int64_t patch_count;
    void ***patches;         /* where the pointer of an input belongs */
    int64_t *patch_inputs;   /* and of which */
    void **inputs;           /* of this run */
    int64_t gather_count;
    int64_t *gathered;       /* the scalars of all kernels */
    int64_t *gather_values;  /* and which value each is */
    int64_t *values;         /* of this run */
};
"""
REPLAY = KernelSource(
    name="uop_replay",
    preamble=f"#include <stdint.h>\n\n{PLAN}",
    text="""\
void uop_replay(const struct uop_plan *plan);

void uop_replay(const struct uop_plan *plan)
{
    for (int64_t i = 0; i < plan->patch_count; i++) {
        *plan->patches[i] = plan->inputs[plan->patch_inputs[i]];
    }
    for (int64_t i = 0; i < plan->gather_count; i++) {
        plan->gathered[i] = plan->values[plan->gather_values[i]];
    }
    for (int64_t i = 0; i < plan->kernel_count; i++) {
        plan->kernels[i](plan->buffers[i], plan->scalars[i]);
    }
}
""",
)
ffi.cdef(f"{PLAN}\ntypedef void replay_function(const struct uop_plan *plan);", override=True)
_keys = itertools.count(1)


class Memory:
    """Bytes that kernels may use, aligned to 64. `key` is never used twice; that of freed memory is 0."""

    __slots__ = ("bytes", "key", "pointer")

    def __init__(self, nbytes: int) -> None:
        """Raises BackendError where there is not so much memory."""
        try:
            block = np.empty(nbytes + ALIGNMENT, np.uint8)
        except (MemoryError, ValueError):
            raise BackendError(f"cannot allocate {nbytes} bytes") from None
        skip = -_address(block) % ALIGNMENT
        self.bytes: npt.NDArray[np.uint8] = block[skip : skip + nbytes]
        self.pointer = _address(block) + skip
        self.key = next(_keys)

    def free(self) -> None:
        """Give the bytes back. The handle is of no use afterwards."""
        self.bytes = np.empty(0, np.uint8)
        self.pointer = self.key = 0


def _address(array: npt.NDArray[Any]) -> int:
    return int(array.__array_interface__["data"][0])


@dataclass(eq=False)
class CpuProgram:
    """A compiled kernel: its C text, and a pointer to the function."""

    name: str
    source: str
    function: Any
    flops: int = 0
    bytes: int = 0


class Replay:
    """A linked plan. Raises BackendError where the plan does not fit together."""

    def __init__(self, plan: Plan, programs: Sequence[CpuProgram], replay: Any) -> None:
        """`programs`: the kernel of each of the plan's calls. `replay`: the function of REPLAY."""
        self._programs = tuple(programs)
        self._replay = ffi.cast("replay_function *", replay)
        self._lock = threading.Lock()
        self._arena = Memory(plan.arena)
        self._sizes = [int(p.arg.size) * p.dtype.itemsize for p in plan.inputs]
        self._keys: list[int] | None = None
        self._params = plan.scalars
        self._total = 0.0
        self._tables = _Tables(plan, self._programs, self._arena.pointer)

    def __call__(self, memory: Sequence[Any], scalars: Sequence[float | int]) -> None:
        """Run with the memory of the plan's inputs and the values of its scalars, in their order.

        One run at a time: another thread waits. Raises BackendError for memory that is missing, freed or too small,
        BoundsError for a variable outside of its bounds.
        """
        with self._lock:
            keys = [m.key for m in memory]
            if keys != self._keys:
                self._set_memory(memory, keys)
            if self._params or scalars:
                self._set_scalars(scalars)
            if ir_settings.debug >= 2:
                self._run_each()
            else:
                self._replay(self._tables.plan)

    def _set_memory(self, memory: Sequence[Memory], keys: list[int]) -> None:
        if len(memory) != len(self._sizes):
            raise BackendError(f"the plan takes {len(self._sizes)} memories, {len(memory)} given")
        for number, (given, size) in enumerate(zip(memory, self._sizes, strict=True)):
            if given.key == 0:
                raise BackendError(f"memory {number} of the plan has been freed")
            if len(given.bytes) < size:
                raise BackendError(f"memory {number} of the plan has {len(given.bytes)} bytes, needs {size}")
        for number, given in enumerate(memory):
            self._tables.inputs[number] = given.pointer
        self._keys = keys

    def _set_scalars(self, scalars: Sequence[float | int]) -> None:
        if len(scalars) != len(self._params):
            raise BackendError(f"the plan takes {len(self._params)} scalars, {len(scalars)} given")
        for number, (param, value) in enumerate(zip(self._params, scalars, strict=True)):
            if param.dtype is dtypes.index and not param.arg.min <= value <= param.arg.max:
                name, low, high = param.arg.name, param.arg.min, param.arg.max
                raise BoundsError(f"variable {name} is {value}, outside of {low} to {high}")
            self._tables.values[number] = scalar_bits(param.dtype, value)

    def _run_each(self) -> None:
        """Run kernel by kernel, with a line for each."""
        plan = self._tables.plan
        count, plan.kernel_count = plan.kernel_count, 0
        self._replay(plan)
        plan.kernel_count = count
        for number, program in enumerate(self._programs):
            began = time.perf_counter()
            program.function(plan.buffers[number], plan.scalars[number])
            seconds = time.perf_counter() - began
            self._total += seconds
            print(_line(program, seconds, self._total))


#: A shorter way than a CONST, for what changes in each step: 0.5 us, not 5.
_PACKED: dict[DType, tuple[Callable[[float], bytes], Callable[[bytes], tuple[int]]]] = {
    dtypes.f32: (struct.Struct("<f").pack, struct.Struct("<i").unpack),
    dtypes.f64: (struct.Struct("<d").pack, struct.Struct("<q").unpack),
}


def scalar_bits(dtype: DType, value: float) -> int:
    """A Python number as the int64 that a kernel takes it from: an integer itself, or a float's bits, low ones first.

    Raises VerifyError where the value has no place in the type: a fraction in an integer.
    """
    if dtype in _PACKED:
        to_bytes, to_bits = _PACKED[dtype]
        with suppress(OverflowError):  # past the range of f32: CONST makes it an infinity
            return int(to_bits(to_bytes(value))[0])
    elif type(value) is int and dtype.min <= value <= min(dtype.max, dtypes.i64.max):
        return value
    bits = int(UOp.const(dtype, value).arg.bits)
    return bits - (1 << 64) if bits >> 63 == 1 else bits


def _line(program: CpuProgram, seconds: float, total: float) -> str:
    flops = f"{program.flops / seconds / 1e9:8.1f} GFLOP/s" if program.flops else ""
    bandwidth = f"{program.bytes / seconds / 1e9:8.1f} GB/s" if program.bytes else ""
    return f"CPU  {program.name:<32} {seconds * 1e3:9.3f} ms {flops:16} {bandwidth:13} {total * 1e3:9.1f} ms in all"


class _Tables:
    """The C side of a plan: what every kernel finds in its buffers and scalars. Keeps alive what C points to."""

    def __init__(self, plan: Plan, programs: Sequence[CpuProgram], arena: int) -> None:
        inputs = {param: number for number, param in enumerate(plan.inputs)}
        scalars = {param: number for number, param in enumerate(plan.scalars)}
        pointers: list[int] = []
        patches: list[tuple[int, int]] = []
        gathers: list[int] = []
        starts = []
        for call in plan.calls:
            starts.append((len(pointers), len(gathers)))
            params = call_params(call.src[0])
            for param, given in zip(params, plan.arguments(call), strict=True):
                if param.arg.size is None:
                    gathers.append(_number(scalars, given))
                elif given.op is Ops.ALLOC:
                    pointers.append(arena + _offset(plan, given))
                else:
                    patches.append((len(pointers), _number(inputs, given)))
                    pointers.append(0)
        table = ffi.new("void *[]", [ffi.cast("void *", p) for p in pointers] + [ffi.NULL])
        gathered = ffi.new("int64_t[]", len(gathers))
        self.inputs = ffi.new("uintptr_t[]", len(inputs))
        self.values = ffi.new("int64_t[]", len(scalars))
        self.plan = ffi.new("struct uop_plan *")
        fields = {
            "kernels": ffi.new("kernel_function *[]", [p.function for p in programs]),
            "buffers": ffi.new("void **[]", [table + first for first, _ in starts]),
            "scalars": ffi.new("int64_t *[]", [gathered + first for _, first in starts]),
            "patches": ffi.new("void **[]", [table + place for place, _ in patches]),
            "patch_inputs": ffi.new("int64_t[]", [number for _, number in patches]),
            "inputs": ffi.cast("void **", self.inputs),
            "gathered": gathered,
            "gather_values": ffi.new("int64_t[]", gathers),
            "values": self.values,
        }
        for name, value in fields.items():
            setattr(self.plan, name, value)
        self.plan.kernel_count = len(programs)
        self.plan.patch_count = len(patches)
        self.plan.gather_count = len(gathers)
        self._alive = (table, fields)


def _number(params: dict[UOp, int], given: UOp) -> int:
    if given not in params:
        raise BackendError(
            f"argument {given!r} of a kernel is neither scratch memory nor a PARAM of the plan"
        )
    return params[given]


def _offset(plan: Plan, given: UOp) -> int:
    """The place of scratch memory in the arena."""
    offset = plan.offsets.get(given.arg.slot)
    nbytes = given.arg.size * given.dtype.itemsize
    if (
        given.arg.addrspace is not AddrSpace.GLOBAL
        or offset is None
        or not 0 <= offset <= plan.arena - nbytes
    ):
        raise BackendError(
            f"scratch slot {given.arg.slot} of {nbytes} bytes has no place in an arena of {plan.arena} bytes"
        )
    return offset
