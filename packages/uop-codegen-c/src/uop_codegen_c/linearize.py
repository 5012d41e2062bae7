"""Linearize: one order of instructions, every value in the outermost loop in which it can stand. Week 3.

A node stands in the loop of the innermost range that it depends on. Any order of the nodes of a loop is right
in which sources come first: what must see a store, or memory as it was before one, stands behind an AFTER.
The order here is the topological one of the graph,
except that the stores that nothing waits for come last, where a reader expects them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import count

from uop_ir import AddrSpace, Ops, UOp

from .loops import (
    AFTER,
    ALLOC,
    END,
    LOAD,
    RANGE,
    SINK,
    STORE,
    effects,
    memory_of,
    next_number,
    next_slot,
    open_ranges,
)

#: What waits for a store because it comes after it, and not because it reads what is stored.
REPEATED = frozenset({Ops.SINK, Ops.END})


def without_dead_loads(order: Sequence[UOp]) -> Sequence[UOp]:
    """A program, as its nodes in order, without loads that only an AFTER still names:
    a store waited for them, but what used them is gone.
    """
    if not any(s.op is LOAD for n in order if n.op is AFTER for s in n.src[1:]):
        return order
    needed: set[UOp] = set()
    stack = [order[-1]]
    while stack:
        node = stack.pop()
        if node not in needed:
            needed.add(node)
            waits = node.src[1:] if node.op is AFTER else ()
            stack += (s for s in node.src if s.op is not LOAD or s not in waits)
    new: dict[UOp, UOp] = {}
    for node in order:
        if node in needed:
            src = [new[s] for s in node.src if s in needed]
            new[node] = src[0] if node.op is AFTER and len(src) == 1 else node.replace(src=src)
    return list(new[order[-1]].toposort())


def without_dead_stores(order: Sequence[UOp]) -> Sequence[UOp]:
    """A program, as its nodes in order, without stores of what an accumulator holds already:
    nothing is folded into it.

    It is read behind the loop as it was before.
    A loop that stores nothing else goes; so does what nobody reads.
    """
    dead = _dead_stores(order)
    if not dead:
        return order
    gone = set(dead.values())
    loops = _loops_of(order, gone)
    new: dict[UOp, UOp] = {}
    for node in order:
        src = [new[s] for s in node.src if s not in gone]
        empty = node.op in REPEATED and (not src or (node.op is END and node.src[0] in gone))
        if empty or node in gone:
            gone.add(node)
        elif node.op is AFTER and {dead.get(node.src[0]), loops.get(node.src[0])} & set(node.src[1:]):
            new[node] = new[dead[node.src[0]].src[0].src[0]]
        else:
            new[node] = src[0] if node.op is AFTER and len(src) == 1 else node.replace(src=src)
    return list(new[order[-1]].toposort())


def _dead_stores(order: Sequence[UOp]) -> dict[UOp, UOp]:
    """For each accumulator of which nothing but its start is stored, the other store to it.

    None may wait for it in another way than behind the two, or behind the loop of the second.
    """
    stores: dict[UOp, list[UOp]] = {}
    for n in order:
        if n.op is STORE:
            stores.setdefault(memory_of(n.src[0]), []).append(n)
    dead = {m: both[1] for m, both in stores.items() if len(both) == 2 and _is_dead(both[1])}
    loops = _loops_of(order, set(dead.values())) if dead else {}
    for n in order if dead else ():
        if n.op is AFTER and n.src[0] in dead:
            known = {*stores[n.src[0]], loops.get(n.src[0])}
            if any(s not in known and s.op not in (RANGE, Ops.CONST) for s in n.src[1:]):
                del dead[n.src[0]]
    return dead


def _loops_of(order: Sequence[UOp], stores: Collection[UOp]) -> dict[UOp, UOp]:
    """For the memory of each of some stores the END that repeats it."""
    return {memory_of(s.src[0]): n for n in order if n.op is END for s in effects(n) if s in stores}


def _is_dead(store: UOp) -> bool:
    place, value = store.src
    same = value.op is LOAD and memory_of(place) is memory_of(value.src[0])
    return same and place.addrspace is AddrSpace.REG and place.src[0].op is AFTER


def without_unread_registers(order: Sequence[UOp]) -> Sequence[UOp]:
    """A program, as its nodes in order, without stores to registers that only what is stored to them reads.

    Each copy of a loop that several have shared has the registers of all.
    """
    needed = _needed(order)
    if len(needed) == len(order):
        return order
    new: dict[UOp, UOp] = {}
    for node in order:
        src = [new[s] for s in node.src if s in new]
        empty = node.op in REPEATED and (not src or (node.op is END and node.src[0] not in new))
        if node in needed and not empty:
            new[node] = src[0] if node.op is AFTER and len(src) == 1 else node.replace(src=src)
    return list(new[order[-1]].toposort())


def _needed(order: Sequence[UOp]) -> set[UOp]:
    """What a program computes or stores for its results: of a register, if it is read for one."""
    needed: set[UOp] = set()
    read: set[UOp] = set()
    waiting: dict[UOp, list[UOp]] = {}
    stack = [order[-1]]
    while stack:
        node = stack.pop()
        if node in needed:
            continue
        if node.op in (LOAD, STORE) and node.src[0].addrspace is AddrSpace.REG:
            register = memory_of(node.src[0])
            if node.op is LOAD:
                read.add(register)
                stack += waiting.pop(register, ())
            elif register not in read:
                waiting.setdefault(register, []).append(node)
                continue
        needed.add(node)
        stack += node.src
    return needed


def separate_loops(order: Sequence[UOp]) -> Sequence[UOp]:
    """A program, as its nodes in order, with one END for each range:
    a loop that closes the ranges of another gets ranges of its own.

    Copies of a loop come from upcast axes, and from reductions that share ranges in different places.
    """
    closed = [r for n in order if n.op is END for r in n.src[1:]]
    if len(set(closed)) == len(closed):
        return order
    number = next_number(order[-1])
    slots = count(next_slot(order[-1]))
    owner: dict[UOp, UOp] = {}
    new: dict[UOp, UOp] = {}
    for node in order:
        now = new[node] = node.replace(src=[new[s] for s in node.src])
        if node.op is not END:
            continue
        taken = [r for r in now.src[1:] if owner.get(r, now) is not now]
        if taken:
            own = {r: r.replace(arg=(number + i, r.arg[1])) for i, r in enumerate(taken)}
            number += len(own)
            now = new[node] = _within(now, own, slots)
        owner.update((r, now) for r in now.src[1:])
    # the loops within one that got ranges of its own are copies now
    return separate_loops(list(new[order[-1]].toposort()))


def _within(loop: UOp, own: dict[UOp, UOp], slots: Iterator[int]) -> UOp:
    """A loop with ranges replaced in what stands inside of it,
    and only there; scratch memory in them is its own too.
    """
    order = loop.toposort(gate=lambda n: n is loop or not own.keys().isdisjoint(open_ranges(n)))
    new: dict[UOp, UOp] = dict(own)
    for node in order:
        if _places_scratch(node) and not own.keys().isdisjoint(node.src) and node.src[0] not in new:
            arg = node.src[0].arg
            new[node.src[0]] = UOp.alloc(next(slots), arg.size, arg.dtype, arg.addrspace)
    for node in order:
        if node not in new:
            inside = node is loop or not own.keys().isdisjoint(open_ranges(node))
            new[node] = node.replace(src=[new[s] for s in node.src]) if inside else node
    return new[loop]


class Nest:
    """Where each range and each node of a program stands."""

    def __init__(self, order: Sequence[UOp]) -> None:
        self.order = order
        self.chains: dict[UOp, tuple[UOp, ...]] = {}
        self._of_open: dict[frozenset[UOp], tuple[UOp, ...]] = {}
        for node in reversed(self.order):  # an outer END comes after those inside it
            if node.op is END:
                outer = self.chain(node)
                for i, r in enumerate(node.src[1:]):
                    self.chains[r] = (*outer, *node.src[1 : i + 2])

    def chain(self, node: UOp) -> tuple[UOp, ...]:
        """The ranges of the loops around a node, outermost first."""
        opened = open_ranges(node)
        if opened not in self._of_open:
            chains = [self.chains[r] for r in opened if r in self.chains]
            self._of_open[opened] = max(chains, key=len, default=())
        return self._of_open[opened]


def linearize(root: UOp) -> list[UOp]:
    """The nodes of a program in order: a RANGE opens a loop, the END that names it closes it."""
    live = without_dead_stores(without_dead_loads(list(root.toposort())))
    apart = separate_loops(live)
    nest = Nest(apart if apart is live else without_unread_registers(apart))
    blocks: dict[tuple[UOp, ...], list[UOp]] = {}
    waited = {s for n in nest.order if n.op not in REPEATED for s in n.src}
    homes = _scratch_homes(nest) | _effect_homes(nest)
    for node in nest.order:
        if node.op is not RANGE:
            blocks.setdefault(homes.get(node, nest.chain(node)), []).append(node)
    for block in blocks.values():
        block.sort(key=lambda n: (n.op is SINK) * 2 + (n.op is STORE and n not in waited))
    out: list[UOp] = []
    _emit((), blocks, out)
    return out


def _emit(chain: tuple[UOp, ...], blocks: dict[tuple[UOp, ...], list[UOp]], out: list[UOp]) -> None:
    """One loop's nodes in order; recursion is as deep as the loops."""
    for node in blocks.pop(chain, []):
        if node.op is END:
            inner = chain
            for r in node.src[1:]:
                inner = (*inner, r)
                out.append(r)
                _emit(inner, blocks, out)
        out.append(node)


def _effect_homes(nest: Nest) -> dict[UOp, tuple[UOp, ...]]:
    """What an END repeats stands in its innermost loop, whether it depends on its ranges or not;
    so does what waits for it there.
    """
    homes: dict[UOp, tuple[UOp, ...]] = {}
    for node in nest.order:
        if node.op is END:
            for e in (node.src[0], *effects(node)):
                homes[e] = nest.chains[node.src[-1]]
    deeper = {e: home for e, home in homes.items() if home != nest.chain(e)}
    for node in nest.order if deeper else ():
        if node.op is not END:
            around = max((deeper[s] for s in node.src if s in deeper), key=len, default=())
            if len(around) > len(homes.get(node, nest.chain(node))):
                homes[node] = deeper[node] = around
    return homes


def _scratch_homes(nest: Nest) -> dict[UOp, tuple[UOp, ...]]:
    """Scratch memory stands in the loops that an AFTER of ranges alone puts it in;
    a value of a range counts as one.
    """
    homes: dict[UOp, tuple[UOp, ...]] = {}
    for node in nest.order:
        if _places_scratch(node):
            homes[node.src[0]] = nest.chain(node)
    return homes


def _places_scratch(node: UOp) -> bool:
    """Whether a node is an AFTER of ranges alone,
    or of values of ranges, which says in which loops memory stands.
    """
    return (
        node.op is AFTER and node.src[0].op is ALLOC and all(s.op in (RANGE, Ops.CONST) for s in node.src[1:])
    )
