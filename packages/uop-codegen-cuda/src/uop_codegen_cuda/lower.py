"""The passes from a kernel at tensor level to CUDA text: those of C, with the grid in place of vectors. Week 7."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from uop_codegen_c import ORDER as C_ORDER
from uop_codegen_c import Freedoms, linearize, render
from uop_codegen_c import lowering as c_lowering
from uop_ir import UOp, call_params, format_uir
from uop_rewrite import Before, Pass, check_order, run_passes

from .dialect import CUDA, prelude
from .grid import launch, to_grid
from .mapping import map_axes


@dataclass(frozen=True)
class MapAxes(Pass):
    name: ClassVar = "map"
    purpose: ClassVar = "output axes become blocks and threads"

    freedoms: Freedoms = field(default_factory=Freedoms)

    def run(self, root: UOp) -> UOp:
        return map_axes(root, self.freedoms)


def lowering(freedoms: Freedoms) -> tuple[Pass, ...]:
    """The passes of a kernel, in order, with these freedoms.

    No loop carries a value, and nothing is scattered: on a grid each element is computed by a thread of its own.
    """
    return tuple(
        MapAxes(freedoms) if step.name == "optimize" else step
        for step in c_lowering(freedoms)
        if step.name != "carry"
    )


PASSES = lowering(Freedoms())
ORDER: tuple[Before, ...] = (
    *(rule for rule in C_ORDER if not {"optimize", "carry"} & {rule.first, rule.then}),
    Before("simplify", "map", "strides are read off simplified indices"),
    Before("map", "accumulate", "axis actions act on REDUCE, before it becomes accumulators"),
)
check_order(PASSES, ORDER)


@dataclass(frozen=True)
class CudaSource:
    """A kernel as CUDA text, complete, and how to launch it.

    `params` are its arguments in order, those of its CALL: memory by pointer, scalars by value, an index as int, or as
    int64_t where addresses need it. `grid` and `block` are the sizes in x, y and z; those of the grid are indices over
    the scalars. `definitions` are the parts of the text that come before the kernel, each the same under the same name
    in all kernels. `shared` is how many bytes of shared memory a launch adds to those that the text declares.
    """

    name: str
    text: str
    params: tuple[UOp, ...]
    grid: tuple[UOp, ...]
    block: tuple[int, ...]
    definitions: tuple[str, ...] = ()
    shared: int = 0


def stages(body: UOp, freedoms: Freedoms) -> Iterator[tuple[str, UOp | Sequence[UOp]]]:
    """A kernel after each pass, by the pass's name; then `linear`, the program of one thread, as a list."""
    root = body
    for step, root in run_passes(body, lowering(freedoms)):
        yield step.name, root
    yield "linear", to_grid(linearize(root))


def generate(body: UOp, freedoms: Freedoms | None = None, name: str | None = None) -> CudaSource:
    """A kernel, a closed SINK of STOREs at tensor level, as CUDA. Without a name, it is named by its content.

    Raises BackendError where it has a type or an op that CUDA has not.
    """
    *_, (_, order) = stages(body, freedoms or Freedoms())
    assert not isinstance(order, UOp)
    params = call_params(body)
    helpers, text = render(name or "kernel", order, params, CUDA)
    if name is None:
        digest = hashlib.sha256("\n".join([*helpers, text]).encode()).hexdigest()
        name = f"k_{digest[:16]}"
        text = text.replace(" kernel(", f" {name}(", 1)
    blocks, threads = launch(order)
    definitions = tuple(p for p in (prelude("\n".join([*helpers, text])), *helpers) if p)
    whole = "\n\n".join([*definitions, text]) + "\n"
    return CudaSource(name, whole, params, blocks, tuple(int(t.value) for t in threads), definitions)


def emit_cuda(body: UOp, freedoms: Freedoms) -> str:
    """A kernel as CUDA text, for `uopc compile --emit cuda`."""
    return generate(body, freedoms).text


def emit_map(body: UOp, freedoms: Freedoms) -> str:
    """A kernel as loops with axes of the grid, for `uopc compile --emit cuda-map`."""
    return format_uir(dict(stages(body, freedoms))["map"])


def emit_linear(body: UOp, freedoms: Freedoms) -> str:
    """The program of one thread, for `uopc compile --emit cuda-linear`."""
    return format_uir(dict(stages(body, freedoms))["linear"])
