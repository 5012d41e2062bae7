"""The backend EMU: kernels as CUDA text, run on the CPU as a GPU would run them,
but for the time it takes. Week 7.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from uop_codegen_c import CpuBackend, current_freedoms
from uop_ir import BackendError, Limits, Ops, Plan, UOp, call_params
from uop_ir import settings as ir_settings

from .check import Report, check_launch
from .emulate import EmuKernel, emulate
from .lower import generate
from .settings import settings


@dataclass(frozen=True)
class EmuProgram:
    """A compiled kernel: its CUDA text, and what launches it."""

    name: str
    source: str
    kernel: EmuKernel


class EmuBackend(CpuBackend):
    """Runs CUDA text on the CPU, in memory of this process: that of the backend CPU."""

    name = "EMU"
    #: Not `Reporting`: what the CPU's report says is about the kernels of C.
    report = None  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        self.limits = Limits()
        #: What EMU_CHECK has found: of each kernel the findings of all launches, and the costs of the last.
        self.reports: dict[str, Report] = {}
        self._known: weakref.WeakKeyDictionary[UOp, dict[Any, EmuProgram]] = weakref.WeakKeyDictionary()

    def compile(self, bodies: Sequence[UOp]) -> Sequence[EmuProgram]:  # type: ignore[override]
        """Compile kernels, all at once. Raises BackendError."""
        free = current_freedoms()
        new = {b: generate(b, free) for b in bodies if free not in self._known.get(b, {})}
        for body, kernel in zip(new, emulate(list(new.values())), strict=True):
            if ir_settings.debug >= 4:
                print(kernel.source.text)
            program = EmuProgram(kernel.source.name, kernel.source.text, kernel)
            self._known.setdefault(body, {})[free] = program
        return [self._known[body][free] for body in bodies]

    def link(self, plan: Plan) -> EmuExecutable:
        """Compile what is new of a plan and prepare its replay. Raises BackendError."""
        return EmuExecutable(self, plan, self.compile([call.src[0] for call in plan.calls]))


class EmuExecutable:
    """A linked plan: one kernel after the other, its scratch memory in one arena."""

    def __init__(self, backend: EmuBackend, plan: Plan, programs: Sequence[EmuProgram]) -> None:
        self._backend, self._plan = backend, plan
        self._arena = np.empty(plan.arena + 64, np.uint8)
        self._calls = [
            (program.kernel, call_params(call.src[0]), plan.arguments(call))
            for call, program in zip(plan.calls, programs, strict=True)
        ]
        arguments = [a for _, _, given in self._calls for a in given]
        self._constants = {a: a.value for a in arguments if a.op is Ops.CONST}

    def __call__(self, memory: Sequence[Any], scalars: Sequence[float | int]) -> None:
        """Run with the memory of the plan's inputs and the values of its scalars, in their order.

        Raises BackendError where their numbers or sizes do not fit the plan,
        BoundsError for a variable outside of its bounds.
        """
        plan = self._plan
        if len(memory) != len(plan.inputs) or len(scalars) != len(plan.scalars):
            raise BackendError(
                f"the plan takes {len(plan.inputs)} memories and {len(plan.scalars)} scalars, "
                f"{len(memory)} and {len(scalars)} given",
                remedy="a memory for each of plan.inputs, a value for each of plan.scalars",
            )
        start = -(-self._arena.ctypes.data // 64) * 64
        places: dict[UOp, int] = {}
        for number, (node, given) in enumerate(zip(plan.inputs, memory, strict=True)):
            data, need = self._backend.bytes_of(given), node.arg.size * node.dtype.itemsize
            if len(data) < need:
                raise BackendError(
                    f"memory {number} of the plan has {len(data)} bytes, needs {need}",
                    remedy=f"allocate({need})",
                )
            places[node] = data.ctypes.data
        values = self._constants | dict(zip(plan.scalars, scalars, strict=True))
        for kernel, params, arguments in self._calls:
            bound = list(zip(params, arguments, strict=True))
            addresses = [
                start + plan.offsets[a.arg.slot] if a.op is Ops.ALLOC else places[a]
                for p, a in bound
                if p.arg.size is not None
            ]
            numbers = {p: values[a] for p, a in bound if p.arg.size is None}
            if settings.emu_check:
                self._check(kernel, addresses, numbers)
            else:
                kernel(addresses, numbers)

    def _check(self, kernel: EmuKernel, addresses: Sequence[int], scalars: dict[UOp, Any]) -> None:
        sizes = [p.arg.size * p.dtype.itemsize for p in kernel.source.params if p.arg.size is not None]
        report = check_launch(kernel.source, addresses, sizes, scalars)
        reports, name = self._backend.reports, kernel.source.name
        reports[name] = report.after(reports[name]) if name in reports else report
        if report.findings and settings.emu_check == 1:
            raise BackendError(f"EMU_CHECK=1 found\n{report}")
