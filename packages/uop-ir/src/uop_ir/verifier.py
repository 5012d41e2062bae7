"""The verifier: what must hold for a program as a whole, one rule a row. Week 1.

A node is checked when it is made (`table`); that a program is put together from them rightly is checked here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from . import arguments
from .dtype import dtypes
from .errors import Span, VerifyError
from .levels import ARGS, CONTENTS, Level, level_of
from .linear_order import Fault, completed, matched
from .ops import AddrSpace, Ops
from .ranges import closed_ranges, open_ranges, own_sources, postorder
from .uop import UOp
from .walks import base


@dataclass
class Facts:
    """A program to be checked: its nodes in order, operands first;
    `ordered` where the order is part of the program.
    """

    nodes: Sequence[UOp]
    root: UOp | None
    level: Level
    ordered: bool

    @cached_property
    def open_at(self) -> dict[UOp, frozenset[UOp]]:
        """The ranges open at each node of a graph."""
        return open_ranges(self.nodes)

    @cached_property
    def ranges(self) -> list[UOp]:
        return [n for n in self.nodes if n.op is Ops.RANGE]


class ProgramRule(NamedTuple):
    """What must hold for programs of some levels; `check` gives the nodes where it does not."""

    name: str
    levels: frozenset[Level]
    states: str
    check: Callable[[Facts], Iterator[Fault]]


# what a level contains


def _contents(program: Facts) -> Iterator[Fault]:
    for node in program.nodes:
        if node.op not in CONTENTS[program.level]:
            home = " or ".join(level.value for level in Level if node.op in CONTENTS[level])
            yield Fault(node, f"stands at {program.level.value} level", f"it belongs to {home} level")


def _args(program: Facts) -> Iterator[Fault]:
    for node in program.nodes:
        allowed = ARGS.get((program.level, node.op))
        if allowed is not None and allowed.part(node.arg) not in allowed.values:
            names = ", ".join(sorted(v.value for v in allowed.values))
            what = f"{allowed.part(node.arg).value} stands at {program.level.value} level"
            yield Fault(node, what, f"one of {names}")


def _ordered_ops(program: Facts) -> Iterator[Fault]:
    for node in program.nodes:
        if not program.ordered and node.op in (Ops.IF, Ops.ENDIF):
            yield Fault(node, "has a meaning only in a linear program", "give its nodes in order")


def _outputs(program: Facts) -> Iterator[Fault]:
    outputs = program.root.src if program.root is not None and program.root.op is Ops.SINK else ()
    values = [node for node in outputs if node.dtype is not dtypes.void]
    if values and len(values) < len(outputs):
        yield Fault(values[0], "a value beside effects", "STORE it too: a program gives one or the other")


#: What tells nodes of an op apart in a program: two with one key would be taken for each other.
_KEYS: dict[Ops, Callable[[Any], object]] = {
    Ops.RANGE: lambda arg: f"id {arg[0]}",
    Ops.SPECIAL: lambda arg: f"name {arg}",
    Ops.PARAM: lambda arg: f"name {arg.name}" if arg.size is None else f"slot {arg.slot}",
    Ops.BUFFER: lambda arg: f"slot {arg.slot}",
    Ops.ALLOC: lambda arg: f"slot {arg.slot}",
}


def _keys(program: Facts) -> Iterator[Fault]:
    first: dict[tuple[Ops, object], UOp] = {}
    for node in program.nodes:
        if node.op in _KEYS:
            key = _KEYS[node.op](node.arg)
            if first.setdefault((node.op, key), node) is not node:
                yield Fault(node, f"{key} is that of another {node.op.value}", "give each its own")


# ranges


def _closed(program: Facts) -> Iterator[Fault]:
    """A range left open at the root: nothing closes it, or something uses it that the loop does not hold."""
    if program.ordered or program.root is None:
        return
    closed = {r for node in program.nodes for r in closed_ranges(node)}
    for r in program.ranges:
        if r in program.open_at[program.root]:
            if r in closed:
                user = _user(program.root, r, program.open_at)
                yield Fault(
                    user, f"uses range {r.arg[0]} outside of the loop that closes it", "use it inside"
                )
            else:
                yield Fault(r, f"nothing closes range {r.arg[0]}", "END its effect, or REDUCE its value")


def _user(node: UOp, r: UOp, open_at: Mapping[UOp, frozenset[UOp]]) -> UOp:
    """A node that has the range as its source, on a way down from `node` on which the range is open."""
    while r not in own_sources(node):
        node = next(s for s in own_sources(node) if r in open_at[s])
    return node


def _closers(program: Facts) -> Iterator[Fault]:
    for node in program.nodes:
        closes = closed_ranges(node)
        if len(set(closes)) < len(closes):
            yield Fault(node, "closes a range twice", "name each range once")


def _nesting(program: Facts) -> Iterator[Fault]:
    if program.ordered:
        return
    for node in program.nodes:
        closes = closed_ranges(node)
        for place, r in enumerate(closes):
            inner = [q for q in closes[place + 1 :] if q in program.open_at[r]]
            if inner:
                what = f"the end of range {r.arg[0]} depends on range {inner[0].arg[0]}, which is inside it"
                yield Fault(node, what, "close the outermost first")


def _rebound(program: Facts) -> Iterator[Fault]:
    """A range that is closed within a loop over it:
    what is reckoned in both would have two values at once.
    """
    closers: dict[UOp, list[UOp]] = {}
    for node in program.nodes if not program.ordered else ():
        for r in closed_ranges(node):
            closers.setdefault(r, []).append(node)
    for r, several in closers.items():
        for outer in several if len(several) > 1 else ():
            closes = closed_ranges(outer)
            inside = {*closes[closes.index(r) :]}  # ranges whose loops run within that over r
            for node in reversed(postorder([outer], own_sources)[:-1]):
                if closed_ranges(node) and not inside.isdisjoint(program.open_at[node]):
                    if r in closed_ranges(node):
                        what = f"closes range {r.arg[0]} inside of a loop over it"
                        yield Fault(node, what, "give it a range of its own")
                    inside.update(closed_ranges(node))


# memory and registers

_BASES = frozenset({Ops.BUFFER, Ops.PARAM, Ops.ALLOC})
#: Ops whose operands may be memory as such; all others take values.
_TAKE_MEMORY = frozenset({Ops.INDEX, Ops.LOAD, Ops.STORE, Ops.AFTER, Ops.SINK})


def _places(program: Facts) -> Iterator[Fault]:
    for node in program.nodes:
        if node.op in (Ops.LOAD, Ops.STORE):
            place = base(node.src[0])
            if place.op is not Ops.INDEX or base(place.src[0]).op not in _BASES:
                yield Fault(
                    node, f"{place.op!r} names no element of memory", "INDEX a BUFFER, PARAM or ALLOC"
                )


def _loaded(program: Facts) -> Iterator[Fault]:
    for node in program.nodes:
        if node.op not in _TAKE_MEMORY and any(s.addrspace is not AddrSpace.ALU for s in node.src):
            yield Fault(node, "takes memory for a value", "LOAD it")
        if node.op is Ops.STORE and node.src[1].addrspace is not AddrSpace.ALU:
            yield Fault(node, "takes memory for a value", "LOAD it")


def _registers(program: Facts) -> Iterator[Fault]:
    for node in program.nodes:
        if len(node.shape) > 1 or not all(isinstance(size, int) for size in node.shape):
            yield Fault(node, f"a value of {len(node.shape)} axes", "a register has one, of a constant size")


# linear programs


def _order(program: Facts) -> Iterator[Fault]:
    if program.ordered:
        yield from completed(program.nodes)[1]


def _matched(program: Facts) -> Iterator[Fault]:
    if program.ordered:
        yield from matched(program.nodes)[1]


def _barriers(program: Facts) -> Iterator[Fault]:
    depth = 0
    for node in program.nodes:
        depth += (node.op is Ops.IF) - (node.op is Ops.ENDIF)
        if node.op is Ops.BARRIER and depth > 0:
            yield Fault(node, "stands in an IF: threads would wait for those that skip it", "move it out")


_ALL = frozenset(Level)
_LOOPS = frozenset({Level.LOOP, Level.LINEAR})
_LINEAR = frozenset({Level.LINEAR})
#: One row a rule, in the order in which they are asked.
RULES: tuple[ProgramRule, ...] = (
    ProgramRule("contents", _ALL, "each op is one of the level", _contents),
    ProgramRule("args", _ALL, "each op has an arg that the level allows", _args),
    ProgramRule("order of ifs", _LINEAR, "IF and ENDIF stand in a sequence, not in a graph", _ordered_ops),
    ProgramRule("outputs", _ALL, "a program gives values, or has effects", _outputs),
    ProgramRule("keys", _ALL, "slots, names and ids tell nodes of an op apart", _keys),
    ProgramRule("closers", _LOOPS, "an END or REDUCE names each range once", _closers),
    ProgramRule("nesting", _LOOPS, "the end of a range does not depend on a range inside it", _nesting),
    ProgramRule("rebound ranges", _LOOPS, "no range is closed inside of a loop over it", _rebound),
    ProgramRule("closed ranges", _LOOPS, "each range is closed, and used only inside its loop", _closed),
    ProgramRule("places", _LOOPS, "LOAD and STORE have an INDEX of memory", _places),
    ProgramRule("loaded values", _LOOPS, "memory is loaded before it is reckoned with", _loaded),
    ProgramRule("registers", _LOOPS, "a value is a scalar, or a vector of a constant size", _registers),
    ProgramRule("order", _LINEAR, "operands come first", _order),
    ProgramRule("matches", _LINEAR, "END and ENDIF close what was opened last, and all is closed", _matched),
    ProgramRule("barriers", _LINEAR, "no BARRIER stands in an IF", _barriers),
)


def verify(
    program: UOp | Sequence[UOp], level: Level | None = None, spans: Mapping[UOp, Span] | None = None
) -> Level:
    """The level of a program, which is checked as a whole; so is the body of each CALL in it.

    A node is a graph, whose level follows from its ops unless it is given; a sequence of nodes is a linear
    program. Raises VerifyError for the first rule of `RULES` that does not hold: its `node` is the one that
    is wrong, its `span` the place of that node where `spans` knows it.
    """
    facts = facts_of(program, level)
    checked: set[UOp] = set()
    waiting = [facts]
    while waiting:
        now = waiting.pop()
        for _, (node, what, remedy) in faults(now):
            span = spans.get(node) if spans else None
            raise VerifyError(f"{node.op!r}: {what}", remedy=remedy, node=node, span=span)
        new = dict.fromkeys(n.src[0] for n in now.nodes if n.op is Ops.CALL and n.src[0] not in checked)
        checked.update(new)
        waiting.extend(facts_of(body) for body in new)
    return facts.level


def faults(program: Facts) -> Iterator[tuple[ProgramRule, Fault]]:
    """All that is wrong with one program, rule by rule."""
    for rule in RULES:
        if program.level in rule.levels:
            yield from ((rule, fault) for fault in rule.check(program))


def facts_of(program: UOp | Sequence[UOp], level: Level | None = None) -> Facts:
    """A program as the rules see it."""
    if isinstance(program, UOp):
        nodes = postorder([program], own_sources)
        return Facts(nodes, program, level or level_of(n.op for n in nodes), ordered=False)
    program = arguments.nodes("verify", program)
    return Facts(program, program[-1] if program else None, level or Level.LINEAR, ordered=True)
