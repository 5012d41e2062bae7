"""The action `tensor_core`: a part of a sum of products becomes the work of a warp's tensor core. Week 8.

It splits the rows, the columns and the terms of a product of matrices by the shape of an instruction and
makes the inner parts warp axes: as loops they are the same sum. The pass `fragments` gives them to the lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from uop_codegen_c import ACTIONS, Checked, Retype, ScheduleError, Split
from uop_ir import AddrSpace, AxisType, Ops, UOp

from .banks import WARP
from .block_reduce import open_ranges
from .grid import MOST_THREADS
from .instructions import INSTRUCTIONS, Instruction
from .shared import memory_of, stores
from .staging import DIMENSIONS

PRODUCTS = ", ".join(f"{i.operand} to {i.accumulator}" for i in INSTRUCTIONS.values() if not i.rounds)


class Product(NamedTuple):
    """A sum of products that a tensor core can compute:
    the operand of the rows, that of the columns, and the instruction.
    """

    rows: UOp
    columns: UOp
    instruction: Instruction


@dataclass(frozen=True)
class TensorCore(Checked):
    """Split rows, columns and terms of a product by the shape of an instruction of a tensor core.

    The types of the product say which: f16 or bf16 summed in f32, i8 in i32. Each range becomes an outer and
    an inner one, numbered as by `split`, or is retyped where it is as long as the shape; the inner one is
    `warp`.
    The order in which the hardware adds needs the freedom to reassociate.
    """

    indexes = True

    numbers: tuple[int, ...]

    def __str__(self) -> str:
        return f"tensor_core ({', '.join(map(str, self.numbers))})"

    def check(self, root: UOp) -> None:
        m, n, k = self._ranges(root)
        nests = [nest for nest in root.src if nest.op is Ops.END and {m, n} <= {*nest.src[1:]}]
        if not nests or m is n:
            raise ScheduleError(
                f"tensor_core: no loop nest of stores has both range {m.arg[0]} and range {n.arg[0]}",
                remedy="the range of the rows, that of the columns, that of the sum",
            )
        sums = _sums(root, k)
        if not sums:
            raise ScheduleError(f"tensor_core: range {k.arg[0]} is of no reduction")
        for node in sums:
            for r, size in zip((m, n, k), product_of(node, (m, n), k).instruction.shape, strict=True):
                if r.src[0].op is not Ops.CONST or int(r.src[0].value) % size:
                    raise ScheduleError(
                        f"tensor_core: range {r.arg[0]} is no multiple of {size}", remedy=f"pad it to {size}"
                    )
                if r.arg[1] not in (AxisType.LOOP, AxisType.REDUCE):
                    raise ScheduleError(
                        f"tensor_core: range {r.arg[0]} is {r.arg[1].value} already",
                        remedy="retype what is outside",
                    )

    def reorders(self, root: UOp) -> UOp | None:
        return next((n for n in _sums(root, self._ranges(root)[2]) if n.dtype.is_float), None)

    def act(self, root: UOp) -> UOp:
        m, n, k = self._ranges(root)
        shape = product_of(_sums(root, k)[0], (m, n), k).instruction.shape
        for r, size in zip((m, n, k), shape, strict=True):
            number = int(r.arg[0])
            whole = int(r.src[0].value) == size
            action = Retype(number, AxisType.WARP) if whole else Split(number, size, AxisType.WARP)
            root = action.apply(root)
        return root

    def _ranges(self, root: UOp) -> tuple[UOp, UOp, UOp]:
        """The ranges of rows, columns and terms."""
        if len(self.numbers) != 3:
            raise ScheduleError(
                f"tensor_core: ranges {list(self.numbers)}",
                remedy="those of the rows, the columns, the terms",
            )
        m, n, k = (_find(root, number) for number in self.numbers)
        return m, n, k


ACTIONS["tensor_core"] = lambda read: TensorCore(read.ranges())


def _find(root: UOp, number: int) -> UOp:
    found = [r for r in root.toposort() if r.op is Ops.RANGE and r.arg[0] == number]
    if not found:
        raise ScheduleError(f"tensor_core: no range {number}")
    return found[0]


def _sums(root: UOp, k: UOp) -> list[UOp]:
    return [n for n in root.toposort() if n.op is Ops.REDUCE and k in n.src[1:]]


def product_of(node: UOp, axes: Sequence[UOp], k: UOp) -> Product:
    """A REDUCE over range k as a product of rows m and columns n. Raises ScheduleError where it is none."""
    value, (m, n) = node.src[0], axes
    if node.arg[0] is not Ops.ADD or value.op is not Ops.MUL or any(s.op is not Ops.CAST for s in value.src):
        raise ScheduleError(
            f"a reduction over range {k.arg[0]} that is no sum of products of two casts",
            remedy=f"a tensor core multiplies {PRODUCTS}",
        )
    factors = [cast.src[0] for cast in value.src]
    opened = open_ranges(value.toposort())
    if m not in opened[factors[0]]:
        factors.reverse()
    for factor, axis, other in ((factors[0], m, n), (factors[1], n, m)):
        if axis not in opened[factor] or other in opened[factor] or k not in opened[factor]:
            raise ScheduleError(
                f"a factor that does not depend on range {axis.arg[0]} and range {k.arg[0]}, and not on {other.arg[0]}",
                remedy="of a product of matrices, one has rows and terms, the other terms and columns",
            )
        if any(s.op is Ops.REDUCE for s in factor.toposort(gate=lambda s: s.op is not Ops.AFTER)):
            raise ScheduleError("a factor with a reduction of its own", remedy="store it in a kernel before")
    types = {factor.dtype for factor in factors}
    for row in INSTRUCTIONS.values():
        if types == {row.operand} and node.dtype is row.accumulator and not row.rounds:
            return Product(factors[0], factors[1], row)
    names = " and ".join(sorted(t.name for t in types))
    raise ScheduleError(f"products of {names} summed in {node.dtype}", remedy=f"a tensor core has {PRODUCTS}")


def warp_axes(nest: UOp) -> list[UOp]:
    """The ranges of a nest of stores that the lanes of a warp have together: rows, then columns."""
    return [r for r in nest.src[1:] if r.arg[1] is AxisType.WARP] if nest.op is Ops.END else []


def tiled(root: UOp) -> bool:
    """Whether a program has a nest of stores with warp axes."""
    return any(map(warp_axes, root.src))


def with_lanes(root: UOp) -> UOp:
    """A program whose nests have the lanes of a warp, innermost of the block's axes, in place of warp axes.

    What they repeat is as it was: this is what a launch looks like.
    """
    number = 1 + max(int(n.arg[0]) for n in root.toposort() if n.op is Ops.RANGE)
    return UOp.sink(
        *(
            n.replace(src=(n.src[0], *lane_order(n, UOp.range(WARP, number, AxisType.LOCAL))))
            if warp_axes(n)
            else n
            for n in root.src
        )
    )


def lane_order(nest: UOp, lane: UOp) -> list[UOp]:
    """The ranges of a nest with the lanes in place of its warp axes."""
    kept = [r for r in nest.src[1:] if r.arg[1] is not AxisType.WARP]
    place = sum(r.arg[1] in (AxisType.GLOBAL, AxisType.LOCAL) for r in kept)
    return [*kept[:place], lane, *kept[place:]]


def check_tiles(root: UOp) -> None:
    """Raise ScheduleError for a program at loop level with warp axes that are no tiles of a tensor core."""
    nest, *others = root.src
    axes = warp_axes(nest)
    if others or any(s.op is not Ops.STORE for s in stores(nest)):
        raise ScheduleError(
            "a tensor core in a kernel of several loop nests: not all lanes would reach it",
            remedy="pad instead of a split with a rest; one output a kernel",
        )
    order = list(root.toposort())
    sums = tile_sums(order)
    if len(axes) != 2 or not sums:
        raise ScheduleError(
            f"range {axes[0].arg[0]} of a store is warp",
            remedy="local, or tensor_core, which makes tiles of warps",
        )
    for node in sums:
        terms = terms_of(node)
        shape = product_of(node, axes, terms).instruction.shape
        have = tuple(int(r.src[0].value) if r.src[0].op is Ops.CONST else 0 for r in (*axes, terms))
        if have != shape:
            raise ScheduleError(
                f"warp axes of {have}, where the instruction has {shape}", remedy="tensor_core"
            )
        for r in node.src[1:]:
            if r.arg[1] not in (AxisType.REDUCE, AxisType.WARP, AxisType.UPCAST):
                raise ScheduleError(
                    f"range {r.arg[0]} of a tensor core's sum is {r.arg[1].value}", remedy="reduce"
                )
    tile = {*axes, *map(terms_of, sums)}
    for n in order:
        if (
            n.op is Ops.AFTER
            and memory_of(n).addrspace is not AddrSpace.GLOBAL
            and not tile.isdisjoint(n.src[1:])
        ):
            number = next(int(r.arg[0]) for r in n.src[1:] if r in tile)
            raise ScheduleError(
                f"a tile for each value of range {number}, warp", remedy=f"stage it over range {number} too"
            )
        if n.op is Ops.RANGE and not tile.isdisjoint(n.src[0].toposort()):
            raise ScheduleError(f"the size of range {n.arg[0]} depends on a warp axis")
    _check_block(nest)


def _check_block(nest: UOp) -> None:
    local = [r for r in nest.src[1:] if r.arg[1] is AxisType.LOCAL]
    sizes = [int(r.src[0].value) if r.src[0].op is Ops.CONST else 0 for r in local]
    threads = WARP
    for size in sizes:
        threads *= size
    if not 0 < threads <= MOST_THREADS or len(local) + 1 > DIMENSIONS:
        raise ScheduleError(
            f"{len(local)} local axes, {threads} threads with the lanes of each warp",
            remedy=f"constant sizes, at most {MOST_THREADS} threads along {DIMENSIONS} axes, the lanes among them",
        )


def tile_sums(order: Sequence[UOp]) -> list[UOp]:
    """The sums over warp axes of a program, as its nodes in order."""
    return [n for n in order if n.op is Ops.REDUCE and any(r.arg[1] is AxisType.WARP for r in n.src[1:])]


def terms_of(node: UOp) -> UOp:
    """The warp axis of a sum; of several the first."""
    return next(r for r in node.src[1:] if r.arg[1] is AxisType.WARP)
