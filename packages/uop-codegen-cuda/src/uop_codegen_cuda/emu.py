"""The backend EMU: kernels as CUDA text, run on the CPU as a GPU would run them,
but for the time it takes. Week 7.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from uop_codegen_c import CpuBackend
from uop_ir import BackendError, Limits, Ops, Plan, UOp, call_params

from .arguments import check_run
from .check import Report, check_launch
from .emulate import EmuKernel, emulate
from .kernels import Kernels
from .lower import CudaSource
from .settings import settings


@dataclass(frozen=True)
class EmuProgram:
    """A compiled kernel: its CUDA text, and what launches it."""

    name: str
    source: str
    kernel: EmuKernel


def _programs(sources: Sequence[CudaSource]) -> list[EmuProgram]:
    return [EmuProgram(k.source.name, k.source.text, k) for k in emulate(sources)]


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
        self._kernels = Kernels(_programs)

    def compile(self, bodies: Sequence[UOp]) -> Sequence[EmuProgram]:  # type: ignore[override]
        """Compile kernels, all at once. Raises BackendError."""
        return self._kernels(bodies)

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
        data = [self._backend.bytes_of(given) for given in memory]
        check_run(plan, [len(d) for d in data], scalars)
        start = -(-self._arena.ctypes.data // 64) * 64
        places = {node: d.ctypes.data for node, d in zip(plan.inputs, data, strict=True)}
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
