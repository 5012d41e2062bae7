"""Fragments: the tiles of a tensor core in the registers of the lanes of a warp. Week 8.

The rows, columns and terms of a tile are warp axes (tensor_core.py). Here each lane gets its elements: those
of the operands as vectors, those of the sum as an accumulator of a WMMA, and those of the output as stores.
"""

from __future__ import annotations

from itertools import count
from typing import ClassVar

from uop_ir import AddrSpace, AxisType, Ops, UOp, index
from uop_rewrite import Pass

from .banks import WARP
from .block_reduce import open_ranges
from .instructions import Layout
from .shared import stores
from .tensor_core import lane_order, product_of, terms_of, tile_sums, tiled, warp_axes


class Fragments(Pass):
    name: ClassVar = "fragments"
    purpose: ClassVar = "tiles of tensor cores become registers of lanes"

    def run(self, root: UOp) -> UOp:
        return _Fragments(root).program() if tiled(root) else root


class _Fragments:
    """A program at loop level whose nest of stores has warp axes, as one with lanes in their place."""

    def __init__(self, root: UOp) -> None:
        (self.nest,) = root.src
        self.order = list(root.toposort())
        numbers = [int(n.arg[0]) for n in self.order if n.op is Ops.RANGE]
        self.lane = UOp.range(WARP, max(numbers) + 1, AxisType.LOCAL)
        self.slots = count(1 + max((int(n.arg.slot) for n in self.order if n.op is Ops.ALLOC), default=-1))
        self.axes = warp_axes(self.nest)
        self.products = {node: product_of(node, self.axes, terms_of(node)) for node in tile_sums(self.order)}

    def program(self) -> UOp:
        opened = open_ranges(self.order)
        loops: dict[tuple[tuple[UOp, ...], frozenset[UOp]], list[UOp]] = {}
        for node in self.products:
            loops.setdefault((node.src[1:], opened[node].difference(self.axes)), []).append(node)
        sums: dict[UOp, UOp] = {}
        for (ranges, outer), nodes in loops.items():
            own = [r for r in ranges if r.arg[1] is not AxisType.WARP]
            sums.update(zip(nodes, self.accumulated(nodes, own, outer | {self.lane}), strict=True))
        layout = next(iter(self.products.values())).instruction.c
        stored = []
        for element in range(layout.elements):
            at = dict(zip(self.axes, layout.place(self.lane, element), strict=True))
            at |= {node: value.index(index(element)) for node, value in sums.items()}
            stored += [store.substitute(at) for store in stores(self.nest)]
        return UOp.sink(UOp.sink(*stored).end(*lane_order(self.nest, self.lane)))

    def accumulated(self, nodes: list[UOp], ranges: list[UOp], outer: frozenset[UOp]) -> list[UOp]:
        """The elements that a lane has of sums over the same ranges, in one loop."""
        memories, steps = [], []
        for node in nodes:
            a, b, instruction = self.products[node]
            lanes = instruction.c.elements
            every = UOp(Ops.STACK, [index(i) for i in range(lanes)])
            memory = UOp.alloc(next(self.slots), lanes, node.dtype, AddrSpace.REG)
            zeros = UOp(Ops.STACK, [node.const_like(0)] * lanes)
            begin = memory.after(*sorted(outer, key=lambda r: int(r.arg[0]))).index(every).store(zeros)
            now = memory.after(begin, *ranges).index(every).load()
            m, n, k = *self.axes, terms_of(node)
            operands = (self.fragment(a, instruction.a, m, k), self.fragment(b, instruction.b, k, n))
            steps.append(
                memory.after(begin).index(every).store(UOp(Ops.WMMA, (*operands, now), instruction.name))
            )
            memories.append((memory, every))
        if not ranges:
            return [
                memory.after(step).index(at).load()
                for (memory, at), step in zip(memories, steps, strict=True)
            ]
        loop = (steps[0] if len(steps) == 1 else UOp.sink(*steps)).end(*ranges)
        return [memory.after(loop).index(at).load() for memory, at in memories]

    def fragment(self, operand: UOp, layout: Layout, rows: UOp, columns: UOp) -> UOp:
        """The elements of an operand's tile that a lane has."""
        places = (layout.place(self.lane, element) for element in range(layout.elements))
        return UOp(Ops.STACK, [operand.substitute({rows: row, columns: column}) for row, column in places])
