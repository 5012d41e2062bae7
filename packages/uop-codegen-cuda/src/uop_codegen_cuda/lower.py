"""The passes from a kernel at tensor level to CUDA text:
those of C, with the grid in place of vectors. Week 7.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple

from uop_codegen_c import ORDER as C_ORDER
from uop_codegen_c import Freedoms, Schedule, Stage, linearize, render
from uop_codegen_c import lowering as c_lowering
from uop_ir import BackendError, UOp, UopError, call_params, format_uir
from uop_rewrite import Before, Pass, check_order, run_passes

from .barriers import with_barriers
from .block_reduce import BlockReduce, lane_fills
from .dialect import CUDA, prelude
from .fragments import Fragments
from .grid import launch, to_grid
from .mapping import choose_mapping, map_axes
from .shared import MOST_SHARED, fills, shared_bytes


@dataclass(frozen=True)
class MapAxes(Pass):
    name: ClassVar = "map"
    purpose: ClassVar = "output axes become blocks and threads"

    freedoms: Freedoms = field(default_factory=Freedoms)
    schedule: Schedule | None = None

    def run(self, root: UOp) -> UOp:
        return map_axes(root, self.freedoms, self.schedule)


def lowering(freedoms: Freedoms, schedule: Schedule | None = None) -> tuple[Pass, ...]:
    """The passes of a kernel, in order, with these freedoms. Without a schedule, one is chosen.

    No loop carries a value, and nothing is scattered:
    on a grid each element is computed by a thread of its own.
    """
    steps: list[Pass] = []
    for step in c_lowering(freedoms):
        if step.name == "resimplify":
            steps.append(BlockReduce())
        if step.name != "carry":
            steps.append(MapAxes(freedoms, schedule) if step.name == "optimize" else step)
        if step.name == "expand":
            steps.append(Fragments())
    return tuple(steps)


PASSES = lowering(Freedoms())
ORDER: tuple[Before, ...] = (
    *(rule for rule in C_ORDER if not {"optimize", "carry"} & {rule.first, rule.then}),
    Before("simplify", "map", "strides are read off simplified indices"),
    Before("map", "accumulate", "axis actions act on REDUCE, before it becomes accumulators"),
    Before("map", "block-reduce", "it acts on the axis types that map chose"),
    Before("expand", "block-reduce", "copies of a reduction are made in one walk"),
    Before("widen", "block-reduce", "threads exchange what they have folded, before it is rounded"),
    Before("expand", "fragments", "the tiles of a warp are copies, and share a loop"),
    Before("fragments", "block-reduce", "warp axes of what is left are reductions that lanes share"),
    Before("fragments", "widen", "a tensor core takes what is narrow"),
    Before("block-reduce", "accumulate", "each thread has an accumulator for its part"),
    Before("block-reduce", "resimplify", "a lane whose position is a constant is read by all"),
)
check_order(PASSES, ORDER)


@dataclass(frozen=True)
class CudaSource:
    """A kernel as CUDA text, complete, and how to launch it.

    `params` are its arguments in order, those of its CALL: memory by pointer, scalars by value, an index as
    int, or as int64_t where addresses need it. `grid` and `block` are the sizes in x, y and z; those of the
    grid are indices over the scalars. `definitions` are the parts of the text that come before the kernel,
    each the same under the same name in all kernels. `shared` is how many bytes of shared memory a launch
    adds to those that the text declares.
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
    yield "linear", thread_program(root).order


class ThreadProgram(NamedTuple):
    """The program of one thread, and the slots of memory that it shares: with its block, and with the lanes
    of its warp, each of which has an element in a register.
    """

    order: list[UOp]
    shared: frozenset[int]
    lanes: frozenset[int]


def thread_program(root: UOp) -> ThreadProgram:
    """The program of one thread of what the passes give.
    Raises BackendError for more shared memory than a block has.
    """
    order = linearize(root)
    filled = fills(order)
    nbytes = shared_bytes(filled)
    if nbytes > MOST_SHARED:
        raise BackendError(
            f"{nbytes} bytes of shared memory, at most {MOST_SHARED}", remedy="fewer reductions a kernel"
        )
    shared = _slots(m for memories in filled.values() for m in memories)
    lanes = _slots(m for _, memories in lane_fills(order) for m in memories)
    return ThreadProgram(with_barriers(to_grid(order), shared), shared, lanes)


def _slots(memories: Iterable[UOp]) -> frozenset[int]:
    return frozenset(int(memory.arg.slot) for memory in memories)


def generate(
    body: UOp, freedoms: Freedoms | None = None, name: str | None = None, schedule: Schedule | None = None
) -> CudaSource:
    """A kernel, a closed SINK of STOREs at tensor level, as CUDA. Without a name, it is named by its content.

    It is mapped to the grid by a schedule that is given, or chosen. Raises BackendError where it has a type
    or an op that CUDA has not, ScheduleError for a schedule that is not legal or asks for a launch that no
    GPU has, UopError for one that is no Schedule.
    """
    _check_type(schedule)
    *_, (_, root) = run_passes(body, lowering(freedoms or Freedoms(), schedule))
    program = thread_program(root)
    params = call_params(body)
    dialect = replace(CUDA, shared=program.shared, lanes=program.lanes)
    helpers, text = render(name or "kernel", program.order, params, dialect)
    if name is None:
        digest = hashlib.sha256("\n".join([*helpers, text]).encode()).hexdigest()
        name = f"k_{digest[:16]}"
        text = text.replace(" kernel(", f" {name}(", 1)
    blocks, threads = launch(program.order)
    definitions = tuple(p for p in (prelude("\n".join([*helpers, text])), *helpers) if p)
    whole = "\n\n".join([*definitions, text]) + "\n"
    return CudaSource(name, whole, params, blocks, tuple(int(t.value) for t in threads), definitions)


def _check_type(schedule: object) -> None:
    if not isinstance(schedule, Schedule | None):
        kind = type(schedule).__name__
        raise UopError(
            f"generate: schedule is of type {kind}, no Schedule",
            remedy="Schedule.parse(text), or Schedule(actions)",
        )


def chosen_schedule(body: UOp, freedoms: Freedoms | None = None) -> Schedule:
    """The actions that are chosen for the threads of a block to share operands,
    in shared memory, or reductions.

    None where they share nothing: then each thread computes an element of the output.
    """
    free = freedoms or Freedoms()
    at_loops = next(root for step, root in run_passes(body, lowering(free)) if step.name == "bounds")
    return choose_mapping(at_loops, free)[0]


def staging(body: UOp, freedoms: Freedoms | None = None) -> Schedule:
    """The actions that are chosen to stage the operands of a kernel in shared memory;
    none where none are staged.
    """
    schedule = chosen_schedule(body, freedoms)
    return schedule if any(isinstance(action, Stage) for action in schedule) else Schedule()


def emit_cuda(body: UOp, freedoms: Freedoms) -> str:
    """A kernel as CUDA text, for `uopc compile --emit cuda`."""
    return generate(body, freedoms).text


def emit_map(body: UOp, freedoms: Freedoms) -> str:
    """A kernel as loops with axes of the grid, for `uopc compile --emit cuda-map`."""
    return format_uir(dict(stages(body, freedoms))["map"])


def emit_linear(body: UOp, freedoms: Freedoms) -> str:
    """The program of one thread, for `uopc compile --emit cuda-linear`."""
    return format_uir(dict(stages(body, freedoms))["linear"])
