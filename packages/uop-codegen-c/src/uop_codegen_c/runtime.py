"""The replay of a plan: one call from Python runs all kernels. Week 3.

All tables that a run needs are made when a plan is linked. A run puts the values of scalars where the kernels
will look for them and hands on its memory, which C looks at:
benchmarks/launch.py measures what that costs beside a bare call.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from uop_ir import (
    AddrSpace,
    BackendError,
    BoundsError,
    DType,
    Executable,
    Ops,
    Plan,
    UOp,
    call_params,
    dtypes,
)
from uop_ir import settings as ir_settings

from .cache import KernelSource
from .loader import ffi
from .memory import STRUCT, Memory, allocate

PLAN = """\
typedef void kernel_function(void *const *buffers, const int64_t *scalars);

struct uop_plan {
    int64_t input_count;
    int64_t *input_sizes;
    int64_t kernel_count;
    kernel_function **kernels;
    void ***buffers;         /* of each kernel */
    int64_t **scalars;       /* of each kernel */
    int64_t patch_count;
    void ***patches;         /* where the pointer of an input belongs */
    int64_t *patch_inputs;   /* and of which */
    int64_t gather_count;
    int64_t *gathered;       /* the scalars of all kernels */
    int64_t *gather_values;  /* and which value each is */
    int64_t *values;         /* of this run */
};
"""
REPLAY = KernelSource(
    name="uop_replay",
    preamble=f"#include <stdint.h>\n\n{STRUCT}\n{PLAN}",
    text="""\
int64_t uop_replay(const struct uop_plan *plan, const struct uop_memory *const *inputs);

/* The number of the first input that is freed or too small, where no kernel is run; else -1. */
int64_t uop_replay(const struct uop_plan *plan, const struct uop_memory *const *inputs)
{
    for (int64_t i = 0; i < plan->input_count; i++) {
        if (inputs[i]->size < plan->input_sizes[i]) {
            return i;
        }
    }
    for (int64_t i = 0; i < plan->patch_count; i++) {
        *plan->patches[i] = inputs[plan->patch_inputs[i]]->data;
    }
    for (int64_t i = 0; i < plan->gather_count; i++) {
        plan->gathered[i] = plan->values[plan->gather_values[i]];
    }
    for (int64_t i = 0; i < plan->kernel_count; i++) {
        plan->kernels[i](plan->buffers[i], plan->scalars[i]);
    }
    return -1;
}
""",
)
ffi.cdef(
    f"{PLAN}\ntypedef int64_t replay_function(const struct uop_plan *plan, struct uop_memory *const *inputs);",
    override=True,
)
#: Where C's own conversion stores a Python float as it should: the pointer, and up to which value.
FLOATS = {dtypes.f32: ("float *", float(np.finfo(np.float32).max)), dtypes.f64: ("double *", math.inf)}


@dataclass(eq=False)
class CpuProgram:
    """A compiled kernel: its C text, and a pointer to the function."""

    name: str
    source: str
    function: Any
    flops: int = 0
    bytes: int = 0


def replay(plan: Plan, programs: Sequence[CpuProgram], function: Any) -> Executable:
    """A linked plan. `programs`: the kernel of each of its calls. `function`: that of REPLAY.

    Raises BackendError where the plan does not fit together. A function within a function, since a call of a
    method and a with-block take 0.3 us more, of the 1 us that a launch may take.
    """
    tables = _Tables(plan, programs)
    inputs, arity, table = len(plan.inputs), len(plan.scalars), tables.plan
    slots = [_slot(param, tables.values + number) for number, param in enumerate(plan.scalars)]
    run_all = ffi.cast("replay_function *", function)
    run_each = _OneByOne(run_all, tables, programs)
    lock = threading.Lock()
    acquire, release = lock.acquire, lock.release

    def run(memory: Sequence[Memory], scalars: Sequence[float | int]) -> None:
        """Run with the memory of the plan's inputs and the values of its scalars, in their order.

        One run at a time: another thread waits. Raises BackendError for memory that is missing, freed or too
        small, BoundsError for a variable outside of its bounds.
        """
        if len(memory) != inputs:
            raise BackendError(f"the plan takes {inputs} memories, {len(memory)} given")
        if len(scalars) != arity:
            raise BackendError(f"the plan takes {arity} scalars, {len(scalars)} given")
        acquire()
        try:
            if arity:
                for (kind, low, high, place, param), value in zip(slots, scalars):  # noqa: B905  # to test it takes 0.2 us
                    if type(value) is kind and low <= value <= high:
                        place[0] = value
                    else:
                        ffi.cast("int64_t *", place)[0] = _checked_bits(param, value)
            bad = run_all(table, memory) if ir_settings.debug < 2 else run_each(memory)
        finally:
            release()
        if bad >= 0:
            have, need = memory[bad].size, table.input_sizes[bad]
            what = "been freed" if have < 0 else f"{have} bytes, needs {need}"
            raise BackendError(f"memory {bad} of the plan has {what}")

    return run


def _slot(param: UOp, place: Any) -> tuple[type, float, float, Any, UOp]:
    """How a scalar is stored: at once at this place, if it is of this type and within these bounds.

    All others go the way of a CONST, which takes 10 times as long.
    """
    if param.dtype in FLOATS:
        pointer, most = FLOATS[param.dtype]
        return float, -most, most, ffi.cast(pointer, place), param
    if param.dtype is dtypes.index:
        return int, param.arg.min, param.arg.max, place, param
    if param.dtype.is_int:
        return int, param.dtype.min, min(param.dtype.max, dtypes.i64.max), place, param
    if param.dtype is dtypes.bool:
        return bool, False, True, place, param
    return float, math.inf, -math.inf, place, param  # 16-bit floats: no value is within these bounds


def _checked_bits(param: UOp, value: float) -> int:
    bits = scalar_bits(param.dtype, value)
    if param.dtype is dtypes.index and not param.arg.min <= value <= param.arg.max:
        name, low, high = param.arg.name, param.arg.min, param.arg.max
        raise BoundsError(f"variable {name} is {value}, outside of {low} to {high}")
    return bits


def scalar_bits(dtype: DType, value: float) -> int:
    """A Python number as the int64 that a kernel takes it from:
    an integer itself, or a float's bits, low ones first.

    Raises VerifyError where the value has no place in the type: a fraction in an integer.
    """
    bits = int(UOp.const(dtype, value).arg.bits)
    return bits - (1 << 64) if bits >> 63 == 1 else bits


class _OneByOne:
    """Runs a plan kernel by kernel, with a line for each."""

    def __init__(self, run_all: Any, tables: _Tables, programs: Sequence[CpuProgram]) -> None:
        self._run_all = run_all
        self._tables = tables
        self._programs = tuple(programs)
        self._total = 0.0

    def __call__(self, inputs: Sequence[Memory]) -> int:
        """What `uop_replay` says of the inputs."""
        plan = self._tables.plan
        plan.kernel_count = 0
        bad = int(self._run_all(plan, inputs))
        plan.kernel_count = len(self._programs)
        if bad < 0:
            for number, program in enumerate(self._programs):
                began = time.perf_counter()
                program.function(plan.buffers[number], plan.scalars[number])
                seconds = time.perf_counter() - began
                self._total += seconds
                print(_line(program, seconds, self._total))
        return bad


def _line(program: CpuProgram, seconds: float, total: float) -> str:
    flops = f"{program.flops / seconds / 1e9:8.1f} GFLOP/s" if program.flops else ""
    bandwidth = f"{program.bytes / seconds / 1e9:8.1f} GB/s" if program.bytes else ""
    return f"CPU  {program.name:<32} {seconds * 1e3:9.3f} ms {flops:16} {bandwidth:13} {total * 1e3:9.1f} ms in all"


class _Tables:
    """The C side of a plan: what every kernel finds in its buffers and scalars.
    Keeps alive what C points to.
    """

    def __init__(self, plan: Plan, programs: Sequence[CpuProgram]) -> None:
        memory = allocate(plan.arena)
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
                    pointers.append(memory.data + _offset(plan, given))
                else:
                    patches.append((len(pointers), _number(inputs, given)))
                    pointers.append(0)
        table = ffi.new("void *[]", [ffi.cast("void *", p) for p in pointers] + [ffi.NULL])
        gathered = ffi.new("int64_t[]", len(gathers))
        self.values = ffi.new("int64_t[]", len(scalars))
        self.plan = ffi.new("struct uop_plan *")
        fields = {
            "input_sizes": ffi.new("int64_t[]", [int(p.arg.size) * p.dtype.itemsize for p in inputs]),
            "kernels": ffi.new("kernel_function *[]", [p.function for p in programs]),
            "buffers": ffi.new("void **[]", [table + first for first, _ in starts]),
            "scalars": ffi.new("int64_t *[]", [gathered + first for _, first in starts]),
            "patches": ffi.new("void **[]", [table + place for place, _ in patches]),
            "patch_inputs": ffi.new("int64_t[]", [number for _, number in patches]),
            "gathered": gathered,
            "gather_values": ffi.new("int64_t[]", gathers),
            "values": self.values,
        }
        for name, value in fields.items():
            setattr(self.plan, name, value)
        self.plan.input_count = len(inputs)
        self.plan.kernel_count = len(programs)
        self.plan.patch_count = len(patches)
        self.plan.gather_count = len(gathers)
        self._alive = (memory, table, fields)


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
