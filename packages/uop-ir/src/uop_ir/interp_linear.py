"""Linear programs: nodes in one order, run as a processor would. Week 3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from .errors import VerifyError
from .ops import Ops
from .uop import UOp


class Stepper(Protocol):
    """The machine: it runs one node and keeps the values."""

    values: dict[UOp, Any]

    def step(self, node: UOp) -> None:
        """Run one node whose sources have run."""


#: Nodes that need no place in the order: they have no moment.
_TIMELESS = frozenset({Ops.CONST, Ops.PARAM, Ops.BUFFER, Ops.ALLOC})
_LOOPS = frozenset({Ops.RANGE, Ops.SPECIAL})


def run_linear(nodes: Sequence[UOp], machine: Stepper) -> None:
    """Run `nodes` in order. A SPECIAL is a loop to the end of the program.

    Raises VerifyError where a node stands before its source, a REDUCE still holds ranges, an END or ENDIF does not
    match what was opened last, or a RANGE or IF is never closed.
    """
    nodes = _completed(nodes)
    jumps = _check(nodes)
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


def _completed(nodes: Sequence[UOp]) -> tuple[UOp, ...]:
    """The program with what it may leave out: constants and memory come first, an AFTER follows its memory."""
    listed, seen = set(nodes), set[UOp]()
    first: dict[UOp, None] = {}
    follow: dict[UOp, dict[UOp, None]] = {}
    for node in nodes:
        for source in node.src:
            chain = [source]
            while chain[-1].op is Ops.AFTER and chain[-1] not in listed:
                chain.append(chain[-1].src[0])
            under = chain.pop()
            if under not in seen:
                if under.op not in _TIMELESS:
                    raise VerifyError(f"{node!r} stands before its source {under!r}")
                first[under] = None
            follow.setdefault(under, {}).update(dict.fromkeys(reversed(chain)))
        seen.add(node)
    return tuple(n for node in (*first, *nodes) for n in (node, *follow.get(node, ())))


def _check(nodes: Sequence[UOp]) -> dict[int, int]:
    """For each RANGE the place of its END, for each IF that of its ENDIF."""
    jumps: dict[int, int] = {}
    opened: list[int] = []
    for at, node in enumerate(nodes):
        if node.op in _LOOPS or node.op is Ops.IF:
            opened.append(at)
        if node.op is Ops.REDUCE and len(node.src) > 1:
            raise VerifyError(f"{node.op!r} at {at} holds ranges", remedy="make it an accumulator")
        closes = node.src[1:] if node.op is Ops.END else node.src if node.op is Ops.ENDIF else ()
        for wanted in reversed(closes):
            if not opened or nodes[opened[-1]] is not wanted:
                last = nodes[opened[-1]] if opened else "nothing"
                raise VerifyError(
                    f"{node.op!r} at {at} closes {wanted!r}, but what was opened last is {last!r}"
                )
            jumps[opened.pop()] = at
    for at in opened:
        if nodes[at].op is not Ops.SPECIAL:
            raise VerifyError(f"{nodes[at].op!r} at {at} is never closed")
        jumps[at] = len(nodes)
    return jumps
