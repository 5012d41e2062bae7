"""The passes of this package: `fold` and `simplify`. Week 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from uop_ir import UOp

from .collapse import collapse
from .engine import graph_rewrite
from .passes import Pass
from .symbolic import folding, symbolic

#: Index arithmetic, and sums over ranges that need no loop.
_collapsing = (symbolic + collapse).remembering()


@dataclass(frozen=True)
class Fold(Pass):
    """Ops on constants become constants."""

    name: ClassVar = "fold"
    purpose: ClassVar = "ops on constants become constants"

    def run(self, root: UOp) -> UOp:
        return graph_rewrite(root, folding)


@dataclass(frozen=True)
class Simplify(Pass):
    """Fold, cancel, canonicalize index arithmetic. `collapse`: also drop the loops of sums that need none."""

    name: ClassVar = "simplify"
    purpose: ClassVar = "fold, cancel, drop needless loops"

    collapse: bool = False

    def run(self, root: UOp) -> UOp:
        return graph_rewrite(root, _collapsing if self.collapse else symbolic)
