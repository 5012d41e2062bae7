"""The passes from a kernel at tensor level to loops that a renderer takes,
and why they stand in this order. Week 2.

Weeks 3 and 4 add to them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from uop_ir import INDEX_MAPS, Ops, UOp, definition
from uop_rewrite import (
    Before,
    Pass,
    Pattern,
    Rule,
    RuleSet,
    Simplify,
    check_order,
    graph_rewrite,
    spread,
)

from .accesses import check_accesses, guard_accesses
from .accumulate import accumulate
from .expand import expand
from .freedoms import Freedoms, current_freedoms
from .kernel import as_kernel
from .machine import Machine
from .optimize import optimize
from .prefix import carry_prefixes
from .rangeify import rangeify
from .scatter import scatter
from .schedule import Schedule
from .widen import widen

FUNCTIONS = frozenset({Ops.EXP2, Ops.LOG2, Ops.SIN})
#: Each of these as its definition.
definitions = RuleSet(
    Rule(f"define {op.value}", Pattern(op, None, "n"), lambda n: definition(n.op, n.src[0]))
    for op in (Ops.EXP2, Ops.LOG2, Ops.SIN)
)


@dataclass(frozen=True)
class Kernel(Pass):
    """Not one of PASSES: they start from a kernel."""

    name: ClassVar = "kernel"
    purpose: ClassVar = "values are stored, buffers become arguments"

    def run(self, root: UOp) -> UOp:
        return as_kernel(root)


@dataclass(frozen=True)
class Rangeify(Pass):
    name: ClassVar = "rangeify"
    purpose: ClassVar = "shapes become loops, movement ops index arithmetic"
    eliminates: ClassVar = frozenset({*INDEX_MAPS, Ops.STAGE})

    def run(self, root: UOp) -> UOp:
        return rangeify(root)


@dataclass(frozen=True)
class Carry(Pass):
    name: ClassVar = "carry"
    purpose: ClassVar = "prefix and scattered sums in one walk"

    reassociate: bool = field(default_factory=lambda: current_freedoms().reassociate)

    def run(self, root: UOp) -> UOp:
        return scatter(carry_prefixes(root, self.reassociate))


@dataclass(frozen=True)
class Guard(Pass):
    name: ClassVar = "guard"
    purpose: ClassVar = "masked accesses that are hard to prove in range, masked by it too"

    def run(self, root: UOp) -> UOp:
        return guard_accesses(root)


@dataclass(frozen=True)
class CheckBounds(Pass):
    name: ClassVar = "bounds"
    purpose: ClassVar = "every access in range, or guarded"

    def run(self, root: UOp) -> UOp:
        """The same graph. Raises BoundsError for an access that may be out of range, where it is valid."""
        check_accesses(root.toposort())
        return root


@dataclass(frozen=True)
class Optimize(Pass):
    name: ClassVar = "optimize"
    purpose: ClassVar = "split, retype, reorder ranges; stage tiles"

    freedoms: Freedoms = field(default_factory=current_freedoms)
    machine: Machine | None = None
    schedule: Schedule | None = None

    def run(self, root: UOp) -> UOp:
        return optimize(root, self.freedoms, self.machine, self.schedule)


@dataclass(frozen=True)
class Expand(Pass):
    name: ClassVar = "expand"
    purpose: ClassVar = "upcast and vector axes become registers"

    def run(self, root: UOp) -> UOp:
        return expand(root)


@dataclass(frozen=True)
class Define(Pass):
    name: ClassVar = "define"
    purpose: ClassVar = "EXP2, LOG2, SIN become their definitions"
    eliminates: ClassVar = FUNCTIONS

    def run(self, root: UOp) -> UOp:
        return graph_rewrite(root, definitions) if any(n.op in FUNCTIONS for n in root.toposort()) else root


@dataclass(frozen=True)
class Widen(Pass):
    name: ClassVar = "widen"
    purpose: ClassVar = "f16 and bf16 compute in f32"

    def run(self, root: UOp) -> UOp:
        return widen(root)


@dataclass(frozen=True)
class Resimplify(Simplify):
    name: ClassVar = "resimplify"
    purpose: ClassVar = "fold what expand and define made"


@dataclass(frozen=True)
class Reguard(Guard):
    name: ClassVar = "reguard"
    purpose: ClassVar = "the same where rules have dropped a guard; masks of vectors lane by lane"


@dataclass(frozen=True)
class Spread(Pass):
    name: ClassVar = "spread"
    purpose: ClassVar = "index sums term by term, each in the loop that it needs"

    def run(self, root: UOp) -> UOp:
        return graph_rewrite(root, spread)


@dataclass(frozen=True)
class Accumulate(Pass):
    name: ClassVar = "accumulate"
    purpose: ClassVar = "REDUCE becomes accumulators"
    eliminates: ClassVar = frozenset({Ops.REDUCE})

    contract: bool = field(default_factory=lambda: current_freedoms().contract)

    def run(self, root: UOp) -> UOp:
        return accumulate(root, self.contract, _settled)


def _settled(value: UOp) -> UOp:
    """A value as the passes before `accumulate` leave it."""
    for step in (Resimplify(), Reguard(), Spread()):
        value = step.run(value)
    return value


def lowering(
    freedoms: Freedoms, machine: Machine | None = None, schedule: Schedule | None = None
) -> tuple[Pass, ...]:
    """The passes of a kernel, in order, with these freedoms,
    for a machine: the one that we run on if None is given.

    Without a schedule, one is chosen.
    """
    return (
        Rangeify(),
        Simplify(collapse=True),
        Carry(freedoms.reassociate),
        Guard(),
        CheckBounds(),
        Optimize(freedoms, machine, schedule),
        Expand(),
        Define(),
        Widen(),
        Resimplify(),
        Reguard(),
        Spread(),
        Accumulate(freedoms.contract),
    )


def lower() -> tuple[Pass, ...]:
    """All passes of a program at tensor level, with the freedoms that the settings leave."""
    return (Kernel(), *lowering(current_freedoms()))


PASSES = lowering(Freedoms())
ORDER: tuple[Before, ...] = (
    Before("rangeify", "simplify", "simplify works on indices"),
    Before("simplify", "carry", "masks are read off simplified comparisons"),
    Before("carry", "guard", "it moves loads and stores"),
    Before("guard", "bounds", "what it guards is in range"),
    Before("carry", "optimize", "a loop that carries a value is not split"),
    Before("simplify", "bounds", "bounds are tight on simplified indices"),
    Before("simplify", "optimize", "strides are read off simplified indices"),
    Before("optimize", "expand", "expand acts on the axis types that optimize chose"),
    Before("expand", "accumulate", "an accumulator is needed for each copy and lane"),
    Before("define", "widen", "definitions of narrow floats are made of casts and f32"),
    Before("define", "resimplify", "definitions bring constants"),
    Before("resimplify", "reguard", "nothing after it may take a guard away"),
    Before("expand", "reguard", "it gives each lane of a vector a condition of its own"),
    Before("resimplify", "spread", "what simplifies makes sums short, not easy to hoist"),
    Before("spread", "accumulate", "what accumulators stand on is not made anew"),
)
check_order(PASSES, ORDER)
