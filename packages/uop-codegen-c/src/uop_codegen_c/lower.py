"""A kernel at tensor level through the passes, to the text of a C function. Weeks 2 to 4 and 6."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

from uop_ir import BackendError, Ops, UOp, call_params
from uop_rewrite import bounds, run_passes

from .cache import KernelSource
from .freedoms import Freedoms, current_freedoms
from .linearize import linearize
from .loops import END, RANGE, length
from .machine import Machine
from .passes import PASSES, lowering
from .render import render
from .schedule import Schedule


def stages(
    root: UOp,
    freedoms: Freedoms | None = None,
    first: str = PASSES[0].name,
    machine: Machine | None = None,
    schedule: Schedule | None = None,
) -> Iterator[tuple[str, UOp]]:
    """A kernel after each pass from `first` on, by the pass's name;
    optimized by a schedule that is given, or chosen.

    Raises BackendError where no pass has that name.
    """
    passes = lowering(freedoms or current_freedoms(), machine, schedule)
    names = [step.name for step in passes]
    if first not in names:
        raise BackendError(f"stages: no pass {first!r}", remedy=f"one of {', '.join(names)}")
    for step, result in run_passes(root, passes[names.index(first) :]):
        yield step.name, result


def at_loop_level(body: UOp, freedoms: Freedoms) -> UOp:
    """A kernel as the program that schedules act on."""
    return next(root for name, root in stages(body, freedoms) if name == "bounds")


def generate(
    body: UOp,
    freedoms: Freedoms | None = None,
    machine: Machine | None = None,
    schedule: Schedule | None = None,
) -> KernelSource:
    """A kernel, a closed SINK of STOREs at tensor level,
    as C for a machine: the one that we run on if None is given.

    It is optimized by a schedule that is given, or chosen. Raises ScheduleError for one that is not legal.
    """
    *_, (_, root) = stages(body, freedoms, machine=machine, schedule=schedule)
    return source(linearize(root), call_params(body))


def source(order: Sequence[UOp], params: Sequence[UOp]) -> KernelSource:
    """A linear program as C; `params` are the arguments of its CALL,
    in order. Its name is a digest of its text.
    """
    helpers, text = render("kernel", order, params)
    digest = hashlib.sha256("\n".join([*helpers, text]).encode()).hexdigest()
    name = f"k_{digest[:16]}"
    return KernelSource(
        name,
        preamble(helpers),
        text.replace("void kernel(", f"void {name}(", 1),
        _flops(order),
        argument_bytes(params),
    )


def argument_bytes(params: Sequence[UOp]) -> int:
    """The bytes of the memory among the arguments of a kernel."""
    return sum(p.arg.size * p.dtype.itemsize for p in params if p.arg.size is not None)


def preamble(helpers: list[str]) -> str:
    """What stands before kernels: the integer types and the helper functions that they need."""
    return "\n\n".join(["#include <stdint.h>", *helpers])


FLOPS = {
    **dict.fromkeys((Ops.ADD, Ops.SUB, Ops.MUL, Ops.DIV, Ops.MAX, Ops.SQRT, Ops.RECIP, Ops.NEG), 1),
    Ops.MULACC: 2,
}


def _flops(order: Sequence[UOp]) -> int:
    """Floating-point operations of one run, at the greatest sizes."""
    total, times = 0, [1]
    for node in order:
        if node.op is RANGE:
            times.append(times[-1] * bounds(node.src[0])[1])
        elif node.op is END:
            del times[len(times) - len(node.src) + 1 :]
        elif node.op in FLOPS and node.dtype.is_float:
            total += FLOPS[node.op] * length(node) * times[-1]
    return total
