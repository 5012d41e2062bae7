"""Legal: which warp and group axes of a kernel's reductions a block of threads can share. Week 7.

The threads that share a reduction are the lanes of a warp, `threadIdx.x`, and the warps of a block,
`threadIdx.y`. All of them must come to each shuffle and each barrier,
and must have the same value where they exchange parts of one.
"""

from __future__ import annotations

from collections.abc import Sequence

from uop_codegen_c import ScheduleError
from uop_ir import AxisType, Ops, UOp

from .banks import WARP
from .block_reduce import SHARED_AXES, open_ranges, shared_axes
from .grid import MOST_THREADS
from .shared import OWN, stores
from .staging import DIMENSIONS


def check_reductions(root: UOp) -> None:
    """Raise ScheduleError for a program at loop level
    whose reductions the threads of a block cannot share.
    """
    order = list(root.toposort())
    reductions = [n for n in order if shared_axes(n)]
    for nest in order:
        for r in nest.src[1:] if nest.op is Ops.END else ():
            if r.arg[1] is AxisType.WARP:
                raise ScheduleError(f"range {r.arg[0]} of a store is warp", remedy="local")
    if not reductions:
        return
    opened = open_ranges(order)
    _check_nest(root)
    _check_sizes(reductions)
    for node in reductions:
        _check_within(node, opened[node])
    for r in (n for n in order if n.op is Ops.RANGE):
        for q in opened[r] - {r}:
            if q.arg[1] in OWN | SHARED_AXES:
                raise ScheduleError(
                    f"a reduction that threads share, where the size of range {r.arg[0]} depends on range {q.arg[0]}, "
                    f"{q.arg[1].value}: not all of them would reach its shuffles",
                    remedy=f"a size that is the same for all values of range {q.arg[0]}",
                )
    _check_block(root, reductions, opened)


def _check_nest(root: UOp) -> None:
    (nest, *others) = root.src
    if others or any(effect.op is not Ops.STORE for effect in stores(nest)):
        raise ScheduleError(
            "a reduction that threads share in a kernel of several loop nests: not all would reach its shuffles",
            remedy="pad instead of a split with a rest; one output a kernel",
        )


def _check_sizes(reductions: Sequence[UOp]) -> None:
    found: dict[AxisType, set[int]] = {axis: set() for axis in SHARED_AXES}
    for node in reductions:
        axes = shared_axes(node)
        for r in axes:
            if r.src[0].op is not Ops.CONST:
                raise ScheduleError(
                    f"range {r.arg[0]}, {r.arg[1].value}, has no constant size", remedy="a loop"
                )
            found[r.arg[1]].add(int(r.src[0].value))
        if len({r.arg[1] for r in axes}) < len(axes):
            names = ", ".join(f"range {r.arg[0]}, {r.arg[1].value}" for r in axes)
            raise ScheduleError(f"a reduction over {names}", remedy="one warp and one group axis a reduction")
    warps = found[AxisType.GROUP]
    if found[AxisType.WARP] != {WARP}:
        sizes = ", ".join(map(str, sorted(found[AxisType.WARP]))) or "no"
        raise ScheduleError(
            f"{sizes} lanes share a reduction", remedy=f"{WARP}, a whole warp: pad, and split by {WARP}"
        )
    if len(warps) > 1:
        raise ScheduleError(
            f"group axes of {sorted(warps)} warps in one kernel", remedy="the same number for all"
        )
    if warps and WARP * max(warps) > MOST_THREADS:
        raise ScheduleError(
            f"{max(warps)} warps of {WARP} threads a block", remedy=f"at most {MOST_THREADS // WARP} warps"
        )


def _check_within(node: UOp, loops: frozenset[UOp]) -> None:
    """No lane of a warp has a reduction of its own that its warp shares,
    no warp one that its block shares.
    """
    own = [AxisType.WARP] if {r.arg[1] for r in shared_axes(node)} == {AxisType.WARP} else [*SHARED_AXES]
    for r in loops:
        if r.arg[1] in own:
            inner = shared_axes(node)[0]
            raise ScheduleError(
                f"range {inner.arg[0]}, {inner.arg[1].value}, of a reduction within range {r.arg[0]}, {r.arg[1].value}",
                remedy="warp for the inner reduction, group for the outer one",
            )


def _check_block(root: UOp, reductions: Sequence[UOp], opened: dict[UOp, frozenset[UOp]]) -> None:
    """The local axes of the store: rows, of which each warp has its own,
    then those of the threads that share.
    """
    nest = root.src[0]
    local = [r for r in nest.src[1:] if r.arg[1] is AxisType.LOCAL] if nest.op is Ops.END else []
    used = {r for node in reductions for r in opened[node] if r.arg[1] is AxisType.LOCAL}
    groups = [r for node in reductions for r in shared_axes(node) if r.arg[1] is AxisType.GROUP]
    filling = min((int(r.arg[0]) for r in used.difference(local)), default=None)
    if filling is not None:
        raise ScheduleError(
            f"a reduction that threads share within range {filling}, local, which fills shared memory",
            remedy="stage no operand of it",
        )
    sizes = {r: int(r.src[0].value) if r.src[0].op is Ops.CONST else 0 for r in local}
    lanes = [r for r in local if r not in used]
    rows = [r for r in local if r in used]
    wanted = [int(r.src[0].value) for r in groups[:1]] + [WARP]
    if rows and groups:
        raise ScheduleError(
            f"range {rows[0].arg[0]}, local, where the warps of a block share a reduction for each of its values",
            remedy=f"make range {rows[0].arg[0]} global, or leave out group",
        )
    if lanes and ([sizes[r] for r in lanes] != wanted or local != rows + lanes):
        have = " x ".join(str(sizes[r]) for r in local)
        raise ScheduleError(
            f"local axes of {have}, where {' x '.join(map(str, wanted))} threads share a reduction",
            remedy=f"local axes of {' x '.join(map(str, wanted))}, behind those of rows, or none",
        )
    threads = WARP
    for r in rows:
        threads *= sizes[r]
    if not all(sizes.values()) or threads > MOST_THREADS or len(rows) + len(wanted) > DIMENSIONS:
        raise ScheduleError(
            f"{len(rows)} local axes of rows, {threads} threads with a warp for each row",
            remedy=f"constant sizes, at most {MOST_THREADS} threads along {DIMENSIONS} axes",
        )
