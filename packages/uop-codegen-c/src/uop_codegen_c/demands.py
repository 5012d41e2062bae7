"""Demands: at which positions, within which loops, each node of a kernel is wanted. Week 4."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from uop_ir import AxisType, UOp, dtypes, index
from uop_rewrite import graph_rewrite, symbolic

from .loops import open_ranges

TRUE = UOp.const(dtypes.bool, True)


class Demand(NamedTuple):
    """A position in a node, one index an axis,
    and the condition under which the element exists (None: always).
    """

    at: tuple[UOp, ...]
    valid: UOp | None

    def ranges(self) -> frozenset[UOp]:
        """The ranges that the position and its condition depend on."""
        conditions = () if self.valid is None else (self.valid,)
        return frozenset[UOp]().union(*map(open_ranges, self.at + conditions))


@dataclass
class Lowering:
    """The state of one kernel's lowering."""

    demands: dict[UOp, dict[Demand, None]] = field(default_factory=dict)
    values: dict[tuple[UOp, Demand], UOp] = field(default_factory=dict)
    ranges: dict[object, tuple[UOp, ...]] = field(default_factory=dict)
    depths: dict[UOp, int] = field(default_factory=dict)
    within: dict[tuple[UOp, Demand], tuple[UOp, ...]] = field(default_factory=dict)
    #: What a node asked of its sources at a position,
    #: and the condition under which a movement op's element exists.
    asked: dict[tuple[UOp, Demand], list[Demand]] = field(default_factory=dict)
    conditions: dict[tuple[UOp, Demand], UOp] = field(default_factory=dict)
    count: int = 0
    scratch: int = 0

    def new_ranges(self, key: object, shape: tuple[int | UOp, ...], axis: AxisType) -> tuple[UOp, ...]:
        """One index an axis: a new RANGE, or 0 where the axis has size 1.
        The same key gives the same ranges.
        """
        if key not in self.ranges:
            out = []
            for size in shape:
                if size == 1:
                    out.append(index(0))
                else:
                    out.append(UOp.range(simplify(index(size)), self.count, axis))
                    self.count += 1
            self.ranges[key] = tuple(out)
        return self.ranges[key]

    def reduce_ranges(self, node: UOp, demand: Demand) -> tuple[UOp, ...]:
        """The ranges that a REDUCE folds at a position.
        Reductions that stand on as many others share one loop.
        """
        extents = node.src[0].shape[node.ndim :]
        return self.new_ranges((demand, extents, self.depths[node]), extents, AxisType.REDUCE)

    def demand(self, node: UOp, at: tuple[UOp, ...], valid: UOp | None, within: tuple[UOp, ...]) -> Demand:
        """Ask for a node at a position within loops, outermost first;
        those inside of all that it depends on go.
        """
        want = canonical(at, valid)
        used = want.ranges()
        inner = max((i for i, r in enumerate(within) if r in used), default=-1)
        loops = within[: inner + 1]
        self.demands.setdefault(node, {})[want] = None
        self.within[node, want] = common([self.within.get((node, want), loops), loops])
        return want

    def sources(self, node: UOp, demand: Demand) -> list[UOp]:
        """What the sources of a node became at the positions that it asked for; not those that are sizes."""
        return [self.values[s, want] for s, want in zip(node.src, self.asked[node, demand], strict=False)]

    def value(self, node: UOp, at: tuple[UOp, ...], valid: UOp | None) -> UOp:
        """What a node became at a position that was asked for."""
        return self.values[node, canonical(at, valid)]


def canonical(at: tuple[UOp, ...], valid: UOp | None) -> Demand:
    """A demand in the one form that equal positions share."""
    condition = None if valid is None else simplify(valid)
    return Demand(tuple(simplify(i) for i in at), None if condition is TRUE else condition)


def simplify(node: UOp) -> UOp:
    """A small index or condition in canonical form, kept in its memo."""
    if "simple" not in node.memo:
        node.memo["simple"] = graph_rewrite(node, symbolic)
    simple: UOp = node.memo["simple"]
    return simple


def common(chains: Sequence[tuple[UOp, ...]]) -> tuple[UOp, ...]:
    """The loops that chains of loops, outermost first, have in common."""
    out: list[UOp] = []
    for here in zip(*chains, strict=False):
        if any(r is not here[0] for r in here):
            break
        out.append(here[0])
    return tuple(out)
