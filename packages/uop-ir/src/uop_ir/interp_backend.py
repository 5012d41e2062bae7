"""The INTERP backend: the reference interpreter behind the Backend protocol.
Slow, always there, the oracle. Week 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .backend import Limits, Plan, as_bytes
from .dtype import DType
from .errors import BackendError
from .infer_structure import call_params
from .interp import Interpreter, arranged
from .interp_steps import scalar
from .ops import Ops
from .uir_print import format_uir
from .uop import UOp

Bytes: TypeAlias = "npt.NDArray[np.uint8]"


@dataclass(frozen=True)
class InterpProgram:
    """A kernel that the interpreter runs as it is: its source is its text."""

    name: str
    body: UOp

    @property
    def source(self) -> str:
        return format_uir(self.body)


class InterpExecutable:
    """A linked plan. Its scratch memory is one arena, filled with NaN or -1 before each run."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._arena = np.empty(plan.arena, np.uint8)
        self._calls = [(call.src[0], call_params(call.src[0]), plan.arguments(call)) for call in plan.calls]

    def __call__(self, memory: Sequence[Bytes], scalars: Sequence[float | int]) -> None:
        """Run with the memory of the plan's inputs and the values of its scalars, in their order.

        Raises BackendError where their numbers or sizes do not fit the plan, BoundsError where a scalar is
        outside of its bounds or a kernel leaves its memory.
        """
        plan = self._plan
        if len(memory) != len(plan.inputs) or len(scalars) != len(plan.scalars):
            raise BackendError(
                f"the plan takes {len(plan.inputs)} memories and {len(plan.scalars)} scalars, "
                f"{len(memory)} and {len(scalars)} given"
            )
        self._arena.fill(0xFF)
        given = {
            node: _typed(data, node.arg.size, node.dtype)
            for node, data in zip(plan.inputs, memory, strict=True)
        }
        numbers = {node: scalar(node, value) for node, value in zip(plan.scalars, scalars, strict=True)}
        for body, params, arguments in self._calls:
            values = [self._argument(a, given, numbers) for a in arguments]
            bound = list(zip(params, values, strict=True))
            machine = Interpreter(
                {p: v for p, v in bound if p.shape}, {p: v for p, v in bound if not p.shape}
            )
            machine.run(arranged(body))

    def _argument(self, node: UOp, given: dict[UOp, npt.NDArray[Any]], numbers: dict[UOp, Any]) -> Any:
        if node in given:
            return given[node]
        if node.op is Ops.ALLOC:
            begin = self._plan.offsets[node.arg.slot]
            return _typed(self._arena[begin:], node.arg.size, node.dtype)
        if node in numbers:
            return numbers[node]
        if node.op is Ops.CONST:
            return node.value
        raise BackendError(f"argument {node!r} of a CALL is neither an input nor scratch of the plan")


def _typed(data: Bytes, size: int, dtype: DType) -> npt.NDArray[Any]:
    """The first `size` elements of memory."""
    nbytes = size * dtype.itemsize
    if len(data) < nbytes:
        raise BackendError(f"memory of {len(data)} bytes for {size} of {dtype}, which take {nbytes}")
    return data[:nbytes].view(dtype.numpy)


class InterpBackend:
    """Runs kernels in the interpreter. Memory is an array of bytes."""

    name = "INTERP"
    limits = Limits(arguments=1 << 16)

    def compile(self, bodies: Sequence[UOp]) -> list[InterpProgram]:
        """Check each body and arrange it. Raises VerifyError where one is not closed."""
        for body in bodies:
            call_params(body)
            arranged(body)
        return [InterpProgram(f"kernel_{body.key[:12]}", body) for body in bodies]

    def link(self, plan: Plan) -> InterpExecutable:
        self.compile(plan.bodies)
        return InterpExecutable(plan)

    def allocate(self, nbytes: int) -> Bytes:
        return np.empty(nbytes, np.uint8)

    def free(self, memory: Bytes) -> None:
        """Nothing to do: memory goes with its last reference."""

    def copy_in(self, memory: Bytes, data: npt.NDArray[Any]) -> None:
        """Copy a contiguous array of the memory's size into it. Raises BackendError for another size."""
        memory[:] = _fitting(memory, data)

    def copy_out(self, memory: Bytes, data: npt.NDArray[Any]) -> None:
        """Copy memory into a contiguous array of its size. Raises BackendError for another size."""
        _fitting(memory, data)[:] = memory

    def bytes_of(self, memory: Bytes) -> Bytes:
        """Memory is its bytes."""
        return memory

    def adopt(self, data: Bytes) -> Bytes:
        """Bytes are memory."""
        return data

    def synchronize(self) -> None:
        """Nothing to do: every run is done when it returns."""


def _fitting(memory: Bytes, data: npt.NDArray[Any]) -> Bytes:
    if data.nbytes != memory.nbytes or not data.flags.c_contiguous:
        raise BackendError(f"{data.nbytes} bytes of an array for {memory.nbytes} bytes of memory")
    return as_bytes(data)
