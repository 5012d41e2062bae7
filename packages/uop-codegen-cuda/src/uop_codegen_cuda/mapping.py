"""Map the axes of a kernel to the grid: blocks and the threads of a block, by axis actions. Week 7.

The output axis along which the store is contiguous becomes the threads of a block, so that neighbours in a
warp touch neighbours in memory; where it is longer than a block it is cut into blocks. The other output axes
become blocks, up to the three dimensions of a grid; more stay loops, as reductions do. Of a product whose
operands are worth to be staged in shared memory, a block computes a tile instead.
"""

from __future__ import annotations

from dataclasses import dataclass

from uop_codegen_c import Action, Freedoms, Reorder, Retype, Schedule, ScheduleError, apply_schedule
from uop_ir import AxisType, Ops, UOp, index
from uop_rewrite import bounds, graph_rewrite, symbolic

from .grid import PREFIX, check_grid, dimensions
from .reduce_legal import check_reductions
from .rows import share_reductions
from .shared import check_shared, memory_of
from .staging import contiguous, stage_operands
from .tensor_core import check_tiles, tiled, with_lanes
from .tensor_tiles import tensor_tiles

#: Threads of a block, at most.
THREADS = 256


@dataclass(frozen=True)
class Block:
    """Cut a range of any size into blocks of `threads`: an outer GLOBAL range and an inner LOCAL one.

    The last block is short where the size is no multiple: the inner range ends at min(threads, size - outer *
    threads). Both take the place of the range, and the next two numbers.
    """

    number: int
    threads: int

    def apply(self, root: UOp) -> UOp:
        numbers = [int(n.arg[0]) for n in root.toposort() if n.op is Ops.RANGE]
        ends = [n for n in root.src if n.op is Ops.END and self.number in [r.arg[0] for r in n.src[1:]]]
        if not ends:
            raise ScheduleError(f"block: no store in a loop over range {self.number}")
        (end,) = ends
        r = next(r for r in end.src[1:] if r.arg[0] == self.number)
        size, first = r.src[0], max(numbers) + 1
        outer = UOp.range((size + (self.threads - 1)) // self.threads, first, AxisType.GLOBAL)
        whole = size.op is Ops.CONST and int(size.value) % self.threads == 0
        left = index(self.threads) if whole else least(size - outer * self.threads, self.threads)
        inner = UOp.range(left, first + 1, AxisType.LOCAL)
        body = end.src[0].substitute({r: outer * self.threads + inner})
        new = body.end(*(q for old in end.src[1:] for q in ((outer, inner) if old is r else (old,))))
        return graph_rewrite(UOp.sink(*(new if s is end else s for s in root.src)), symbolic)


def least(x: UOp, limit: int) -> UOp:
    """The lesser of an index and a constant."""
    return -((-x).maximum(-limit))


def map_axes(root: UOp, free: Freedoms, schedule: Schedule | None = None) -> UOp:
    """A program at loop level with its axes on the grid, by a schedule that is given or chosen.

    One thread runs it as it is where the freedoms forbid to optimize, and where one element of the output
    depends on another. Raises ScheduleError for a given schedule that is not legal.
    """
    if schedule is not None:
        new = apply_schedule(root, schedule, free)
        check_mapping(new)
        if not independent(root) and any(n.op is Ops.RANGE and n.arg[1] in PREFIX for n in new.toposort()):
            raise ScheduleError(
                "threads for elements of which one depends on another",
                remedy="a schedule without global and local",
            )
        return new
    return choose_mapping(root, free)[1]


def check_mapping(root: UOp) -> None:
    """Raise ScheduleError for a program at loop level that no launch runs as it is."""
    if tiled(root):
        check_tiles(root)
        root = with_lanes(root)
    else:
        check_reductions(root)
    check_shared(root)
    check_grid(root)


def choose_mapping(root: UOp, free: Freedoms) -> tuple[Schedule, UOp]:
    """The actions by which threads share operands or reductions,
    none where they share nothing, and the program on the grid.
    """
    if not (free.optimize and independent(root)):
        return Schedule(), root
    shared = tensor_tiles(root, free) or stage_operands(root) or share_reductions(root, free)
    if shared is not None:
        return shared
    for numbers in [{int(r.arg[0]) for r in n.src[1:]} for n in root.src if n.op is Ops.END]:
        root = apply_schedule(root, _nest(root, numbers))
    return Schedule(), root


def independent(root: UOp) -> bool:
    """Whether no element that is stored is read, or stored again, by the computation of another."""
    order = root.toposort()
    places: dict[UOp, set[tuple[UOp, ...]]] = {}
    for node in order:
        if node.op is Ops.STORE:
            places.setdefault(memory_of(node.src[0]), set()).add(node.src[0].src[1:])
    reads = [n.src[0] for n in order if n.op is Ops.LOAD and n.src[0].src[0] in places]
    return all(len(p) == 1 for p in places.values()) and all(r.src[1:] in places[r.src[0]] for r in reads)


def _nest(root: UOp, numbers: set[int]) -> list[Action]:
    """The actions for the loop nest over the ranges with these numbers."""
    (end,) = [n for n in root.src if n.op is Ops.END and {r.arg[0] for r in n.src[1:]} == numbers]
    extents = {int(r.arg[0]): bounds(r.src[0])[1] for r in end.src[1:]}
    threads = int((contiguous(end) or end.src[-1]).arg[0])
    others = [n for n in reversed(extents) if n != threads]
    actions: list[Action] = []
    if extents[threads] > THREADS:
        outer = max(int(n.arg[0]) for n in root.toposort() if n.op is Ops.RANGE) + 1
        actions.append(Block(threads, THREADS))
        extents[outer] = -(-extents[threads] // THREADS)
        others, threads = [outer, *others], outer + 1
    else:
        actions.append(Retype(threads, AxisType.LOCAL))
    grid = dimensions(others, extents)
    loops = [n for n in reversed(others) if n not in grid]
    actions += [Retype(n, AxisType.GLOBAL) for n in grid if n in numbers]
    wanted = (*reversed(grid), threads, *loops)
    return [*actions, Reorder(wanted)] if len(wanted) > 1 else actions
