"""What a launch is given: its grid and arguments, from the memory and scalars of a run. Week 7."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from uop_ir import BackendError, BoundsError, Ops, Plan, UOp, dtypes, evaluate

from .lower import CudaSource


def grid_of(source: CudaSource, scalars: Mapping[UOp, float | int]) -> list[int]:
    """The blocks of a launch in x, y and z, with these values of scalars."""
    return [
        int(n.value) if n.op is Ops.CONST else int(evaluate([n], scalars)[0])  # to evaluate takes 0.1 ms
        for n in source.grid
    ]


def bits_of(param: UOp, value: float) -> int:
    """The value of a scalar as a kernel reads it, low bytes first.
    Raises BoundsError, VerifyError for a wrong type.
    """
    if param.dtype is dtypes.index and not param.arg.min <= value <= param.arg.max:
        name, low, high = param.arg.name, param.arg.min, param.arg.max
        raise BoundsError(
            f"variable {name} is {value}, outside of {low} to {high}",
            remedy=f"{low} to {high}, or wider bounds of {name}",
        )
    return int(UOp.const(param.dtype, value).arg.bits) & (1 << 64) - 1


def check_run(plan: Plan, sizes: Sequence[int], scalars: Sequence[float | int]) -> None:
    """Raise BackendError where memories of these sizes, -1 for one that is freed, and so many scalars do not
    fit a plan.
    """
    if len(sizes) != len(plan.inputs) or len(scalars) != len(plan.scalars):
        raise BackendError(
            f"the plan takes {len(plan.inputs)} memories and {len(plan.scalars)} scalars, "
            f"{len(sizes)} and {len(scalars)} given",
            remedy="a memory for each of plan.inputs, a value for each of plan.scalars",
        )
    for number, (node, have) in enumerate(zip(plan.inputs, sizes, strict=True)):
        need = node.arg.size * node.dtype.itemsize
        if have < need:
            what = "been freed" if have < 0 else f"{have} bytes, needs {need}"
            raise BackendError(f"memory {number} of the plan has {what}", remedy=f"allocate({need})")
