"""The passes from a kernel at tensor level to the text of a C function, in order. Weeks 2 to 4 and 6."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

from uop_ir import INDEX_MAPS, BoundsError, Ops, UOp, call_params, definition
from uop_rewrite import (
    Before,
    Pass,
    Pattern,
    Rule,
    RuleSet,
    bounds,
    check_order,
    collapse,
    graph_rewrite,
    run_passes,
    symbolic,
)

from .accumulate import accumulate
from .cache import KernelSource
from .expand import expand
from .freedoms import Freedoms, current_freedoms
from .linearize import Nest, linearize
from .loops import length
from .optimize import optimize
from .rangeify import rangeify
from .render import render
from .widen import widen

FUNCTIONS = (Ops.EXP2, Ops.LOG2, Ops.SIN)
#: Each of these as its definition.
definitions = RuleSet(
    Rule(f"define {op.value}", Pattern(op, None, "n"), lambda n: definition(n.op, n.src[0]))
    for op in FUNCTIONS
)


def _check_bounds(root: UOp) -> UOp:
    """Every access in range by its bounds, or guarded by a validity. Raises BoundsError."""
    for node in root.toposort():
        if node.op is not Ops.INDEX or len(node.src) == 3:
            continue
        lo, hi = bounds(node.src[1])
        size = length(node.src[0])
        if size and not 0 <= lo <= hi < size and not _empty(node):
            raise BoundsError(f"{node.src[0]!r} of {size} elements is accessed at {lo} to {hi}")
    return root


def _empty(node: UOp) -> bool:
    """Whether a node stands in a loop that runs no time."""
    return any(n.op is Ops.RANGE and bounds(n.src[0])[1] == 0 for n in node.toposort())


PASSES: tuple[Pass, ...] = (
    Pass(
        "rangeify",
        lambda root, free: rangeify(root),
        "shapes become loops, movement ops index arithmetic",
        frozenset({*INDEX_MAPS, Ops.STAGE}),
    ),
    Pass(
        "simplify",
        lambda root, free: graph_rewrite(root, symbolic + collapse),
        "fold, cancel, drop needless loops",
    ),
    Pass("bounds", lambda root, free: _check_bounds(root), "every access in range, or guarded"),
    Pass("optimize", lambda root, free: optimize(root, free), "split, retype, reorder ranges; stage tiles"),
    Pass("expand", lambda root, free: expand(root), "upcast and vector axes become registers"),
    Pass(
        "define",
        lambda root, free: graph_rewrite(root, definitions),
        "EXP2, LOG2, SIN become their definitions",
        frozenset(FUNCTIONS),
    ),
    Pass("widen", lambda root, free: widen(root), "f16 and bf16 compute in f32"),
    Pass(
        "accumulate",
        lambda root, free: accumulate(root, free.contract),
        "REDUCE becomes accumulators",
        frozenset({Ops.REDUCE}),
    ),
    Pass("resimplify", lambda root, free: graph_rewrite(root, symbolic), "fold what expand and define made"),
)
ORDER: tuple[Before, ...] = (
    Before("rangeify", "simplify", "simplify works on indices"),
    Before("simplify", "bounds", "bounds are tight on simplified indices"),
    Before("simplify", "optimize", "strides are read off simplified indices"),
    Before("optimize", "expand", "expand acts on the axis types that optimize chose"),
    Before("expand", "accumulate", "an accumulator is needed for each copy and lane"),
    Before("define", "widen", "definitions of narrow floats are made of casts and f32"),
    Before("define", "resimplify", "definitions bring constants"),
)
check_order(PASSES, ORDER)


def stages(
    root: UOp, freedoms: Freedoms | None = None, first: str = PASSES[0].name
) -> Iterator[tuple[str, UOp]]:
    """A kernel after each pass from `first` on, by the pass's name."""
    free = freedoms or current_freedoms()
    names = [step.name for step in PASSES]
    for step, result in run_passes(root, PASSES[names.index(first) :], free):
        yield step.name, result


def generate(body: UOp, freedoms: Freedoms | None = None) -> KernelSource:
    """A kernel, a closed SINK of STOREs at tensor level, as C."""
    *_, (_, root) = stages(body, freedoms)
    return source(linearize(root), call_params(body))


def source(order: Sequence[UOp], params: Sequence[UOp]) -> KernelSource:
    """A linear program as C; `params` are the arguments of its CALL, in order. Its name is a digest of its text."""
    helpers, text = render("kernel", order, params)
    digest = hashlib.sha256("\n".join([*helpers, text]).encode()).hexdigest()
    name = f"k_{digest[:16]}"
    memory = sum(p.arg.size * p.arg.dtype.itemsize for p in params if p.arg.size is not None)
    return KernelSource(
        name, preamble(helpers), text.replace("void kernel(", f"void {name}(", 1), _flops(order), memory
    )


def preamble(helpers: list[str]) -> str:
    """What stands before kernels: the integer types and the helper functions that they need."""
    return "\n\n".join(["#include <stdint.h>", *helpers])


FLOPS = {
    **dict.fromkeys((Ops.ADD, Ops.SUB, Ops.MUL, Ops.DIV, Ops.MAX, Ops.SQRT, Ops.RECIP, Ops.NEG), 1),
    Ops.MULACC: 2,
}


def _flops(order: Sequence[UOp]) -> int:
    """Floating-point operations of one run, at the greatest sizes."""
    nest, total = Nest(order[-1]), 0
    for node in order:
        if node.dtype.is_float and node.op in FLOPS:
            times = FLOPS[node.op] * length(node)
            for r in nest.chain(node):
                times *= bounds(r.src[0])[1]
            total += times
    return total
