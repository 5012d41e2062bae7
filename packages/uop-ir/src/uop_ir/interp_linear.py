"""Linear programs: nodes in one order, run as a processor would. Week 3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from .errors import VerifyError
from .linear_order import Fault, completed, matched
from .ops import Ops
from .uop import UOp


class Stepper(Protocol):
    """The machine: it runs one node and keeps the values."""

    values: dict[UOp, Any]

    def step(self, node: UOp) -> None:
        """Run one node whose sources have run."""


_LOOPS = frozenset({Ops.RANGE, Ops.SPECIAL})


def run_linear(nodes: Sequence[UOp], machine: Stepper) -> None:
    """Run `nodes` in order. A SPECIAL is a loop to the end of the program.

    Raises VerifyError where a node stands before its source, a REDUCE still holds ranges, an END or ENDIF
    does not match what was opened last, or a RANGE or IF is never closed.
    """
    nodes, early = completed(nodes)
    jumps, unmatched = matched(nodes)
    reduces = [
        Fault(n, "holds ranges", "make it an accumulator") for n in nodes if n.op is Ops.REDUCE and n.src[1:]
    ]
    _sound([*early, *reduces, *unmatched])
    loops: list[int] = []
    at = 0
    while at < len(nodes) or loops:
        if at == len(nodes):  # the end closes SPECIALs
            at = _advance(nodes, loops, 1, machine, at)
            continue
        node = nodes[at]
        if node.op in _LOOPS:
            if machine.values[node.src[0]] > 0:
                machine.values[node] = 0
                loops.append(at)
                at += 1
            else:
                at = _after_end(nodes, jumps[at], loops, machine)
        elif node.op is Ops.END:
            machine.step(node)
            at = _advance(nodes, loops, len(node.src) - 1, machine, at + 1)
        elif node.op is Ops.IF:
            at = at + 1 if machine.values[node.src[0]] else jumps[at]
        else:
            if node.op is not Ops.ENDIF:
                machine.step(node)
            at += 1


def _advance(nodes: Sequence[UOp], loops: list[int], closes: int, machine: Stepper, after: int) -> int:
    """The next value of the innermost of the loops that end here and is not done; where to go on."""
    for _ in range(closes):
        r = nodes[loops[-1]]
        machine.values[r] += 1
        if machine.values[r] < machine.values[r.src[0]]:
            return loops[-1] + 1
        loops.pop()
    return after


def _after_end(nodes: Sequence[UOp], end: int, loops: list[int], machine: Stepper) -> int:
    """Where to go on after a loop without iterations: its END may close loops around it, which go on."""
    if end == len(nodes):
        return end
    closed = nodes[end].src[1:]
    still = [i for i in loops if nodes[i] in closed]
    return _advance(nodes, loops, len(still), machine, end + 1)


def _sound(faults: Sequence[Fault]) -> None:
    for node, what, remedy in faults:
        raise VerifyError(f"{node.op!r}: {what}", remedy=remedy, node=node)
