"""From a graph to an order of execution: which nodes run in which loop. Week 1.

A node depends on the ranges that its sources depend on, less those that an END or a REDUCE closes. It runs in
the innermost loop of those ranges, once an iteration; what a loop needs from outside runs before the loop.
What an END repeats runs in its innermost loop,
whether it depends on its ranges or not: never, where one has no iterations.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from .errors import VerifyError
from .ops import Ops
from .ranges import closed_ranges, open_ranges, own_sources, postorder
from .uop import UOp


@dataclass
class Loop:
    """The ranges that `closer` closes, outermost first, and what runs in each of them.

    `levels[i]` runs once a value of `ranges[i]`, before the loop over `ranges[i + 1]`.
    """

    closer: UOp | None
    ranges: tuple[UOp, ...]
    levels: tuple[Block, ...]


@dataclass
class Block:
    """Nodes and loops in order of execution."""

    steps: list[UOp | Loop] = field(default_factory=list)


Below = Callable[[UOp], Sequence[UOp]]


def arrange(roots: Sequence[UOp]) -> Block:
    """The order in which the nodes below `roots` run. SPECIALs become loops around everything.

    Raises VerifyError where a range is used outside of what closes it.
    """
    order = postorder(roots, own_sources)
    grid = tuple(sorted((n for n in order if n.op is Ops.SPECIAL), key=lambda n: str(n.arg)))
    open_at = open_ranges(order)
    loops: dict[UOp, Loop] = {}
    needs: dict[UOp, tuple[UOp, ...]] = {}

    def below(node: UOp) -> Sequence[UOp]:
        return needs[node] if node in needs else own_sources(node)

    for node in order:
        if closed := closed_ranges(node):
            loops[node], needs[node] = _loop(node, closed, open_at, loops, below)
    for root in roots:
        for left in open_at[root] - set(grid):
            raise VerifyError(f"{left.op!r} {left.arg[0]} is used outside of its loop", remedy="END it")
    if not grid and not loops:
        return Block(list(order))
    if not grid:
        return Block([loops.get(n, n) for n in postorder(roots, below)])
    body = postorder(roots, below)
    outside = [n for n in body if not open_at[n] & set(grid)]
    levels = _levels([n for n in body if open_at[n] & set(grid)], grid, open_at, loops)
    return Block([*(loops.get(n, n) for n in outside), Loop(None, grid, levels)])


def _loop(
    node: UOp,
    ranges: tuple[UOp, ...],
    open_at: dict[UOp, frozenset[UOp]],
    loops: dict[UOp, Loop],
    below: Below,
) -> tuple[Loop, tuple[UOp, ...]]:
    """The loop of an END or a REDUCE, and the nodes outside that it needs."""
    closed = set(ranges)
    for place, r in enumerate(ranges):
        if late := open_at[r] & set(ranges[place + 1 :]):
            raise VerifyError(
                f"{node.op!r}: the end of range {r.arg[0]} depends on {len(late)} ranges inside it"
            )
    repeated = set(_effects(node)) if node.op is Ops.END else set[UOp]()
    needs: dict[UOp, None] = {}
    body: list[UOp] = []

    def inside(n: UOp) -> bool:
        return n in repeated or not closed.isdisjoint(open_at[n])

    for n in postorder((node.src[0], *ranges), lambda n: below(n) if inside(n) else ()):
        if inside(n):
            body.append(n)
        else:
            needs[n] = None
    return Loop(node, ranges, _levels(body, ranges, open_at, loops, repeated)), tuple(needs)


def _effects(end: UOp) -> tuple[UOp, ...]:
    """What an END repeats: its source, and where that is a SINK, the effects that it gathers."""
    effect = end.src[0]
    return (effect, *effect.src) if effect.op is Ops.SINK else (effect,)


def _levels(
    body: Iterable[UOp],
    ranges: tuple[UOp, ...],
    open_at: dict[UOp, frozenset[UOp]],
    loops: dict[UOp, Loop],
    repeated: Collection[UOp] = (),
) -> tuple[Block, ...]:
    """What runs in each loop: what is `repeated` in the innermost one, any other node in that of its
    innermost range, or of its sources where one of these runs further inside.
    """
    levels = tuple(Block() for _ in ranges)
    deepest: dict[UOp, int] = {}
    for node in body:
        if node not in ranges:
            own = [i for i, r in enumerate(ranges) if r in open_at[node] or node in repeated]
            deepest[node] = max(own + [deepest[s] for s in own_sources(node) if s in deepest])
            levels[deepest[node]].steps.append(loops.get(node, node))
    return levels
