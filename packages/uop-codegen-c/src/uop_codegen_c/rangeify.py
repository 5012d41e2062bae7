"""Rangeify: from tensors to loops. Every element gets an index; movement ops become index arithmetic. Week 4.

Two walks over the kernel's body. The first goes from the stores to the sources and collects, for each node,
the positions at which its users want it; movement ops pass them on through their index maps, a REDUCE adds
ranges of its own. The second goes from the sources to the stores and builds each node once for each position.
"""

from __future__ import annotations

from collections.abc import Callable

from uop_ir import (
    INDEX_MAPS,
    REDUCE_IDENTITY,
    AxisType,
    BackendError,
    Ops,
    UOp,
    VerifyError,
    call_params,
    dtypes,
    index,
    index_map,
    toposort,
)
from uop_rewrite import bounds

from .demands import Demand, Lowering, simplify
from .loops import memory_of, open_ranges
from .stage import stage_demand, stage_value
from .widen import NARROW

MEMORY = frozenset({Ops.PARAM, Ops.BUFFER, Ops.ALLOC})


def rangeify(body: UOp) -> UOp:
    """A kernel at tensor level, a SINK of STOREs to views of PARAMs, as loops over memory.

    Raises VerifyError where the body is no such SINK, or where one element that it stores depends on others
    of the same memory; BackendError for a COPY.
    """
    call_params(body)
    state = Lowering()
    order = body.toposort()
    for node in order:
        if node.op is Ops.COPY:
            raise BackendError(f"a kernel runs on one device: it has no {node.op!r}", remedy="COPY before it")
        below = max((state.depths[s] for s in node.src), default=0)
        state.depths[node] = below + 1 if node.op is Ops.REDUCE else below
    stores: list[tuple[UOp, tuple[UOp, ...]]] = []
    for store in body.src:
        if store.op is not Ops.STORE:
            raise VerifyError(f"a kernel's body is a SINK of STOREs, has {store.op!r}")
        if _is_empty(store.src[0].shape):
            continue
        ranges = state.new_ranges(store.src[0].shape, store.src[0].shape, AxisType.LOOP)
        stores.append((store, ranges))
        loops = tuple(r for r in ranges if r.op is Ops.RANGE)
        state.demand(store.src[0], ranges, None, loops)
        state.demand(store.src[1], _broadcast_at(store.src[1], ranges), None, loops)
    for node in reversed(order):
        for want in tuple(state.demands.get(node, ())):
            DEMAND.get(node.op, _demand_elementwise)(state, node, want)
    for node in order:
        for want in state.demands.get(node, ()):
            state.values[node, want] = BUILD.get(node.op, _build_elementwise)(state, node, want)
    return _check_stores(UOp.sink(*_nests(state, stores)))


def _check_stores(root: UOp) -> UOp:
    """All stores of a kernel see memory as it was before it.

    So what is stored to is read before all loops, or in the same loops and at the element that is stored
    there: before it is stored, as an AFTER says.
    """
    inside: set[UOp] = set()
    places: dict[UOp, set[tuple[UOp, ...]]] = {}
    for node in reversed(root.toposort()):
        if node.op is Ops.END or (node.op is Ops.REDUCE and not inside.isdisjoint(open_ranges(node))):
            inside.update(node.src[1:])
        elif node.op is Ops.STORE and memory_of(node.src[0]).op is Ops.PARAM:
            places.setdefault(memory_of(node.src[0]), set()).add(node.src[0].src[1:])
    for node in root.toposort():
        if node.op is Ops.LOAD and node.src[0].src[0] in places:
            same = places[node.src[0].src[0]] == {node.src[0].src[1:]}
            if not same and (len(root.src) > 1 or not inside.isdisjoint(open_ranges(node))):
                raise VerifyError(
                    f"argument {node.src[0].src[0].arg.slot} is stored to, and read at another element",
                    remedy="store to memory of its own",
                )
    return root


def _nests(state: Lowering, stores: list[tuple[UOp, tuple[UOp, ...]]]) -> list[UOp]:
    """One END for all stores that share their ranges."""
    groups: dict[tuple[UOp, ...], list[tuple[UOp, UOp]]] = {}
    for store, ranges in stores:
        place = _element(state, store.src[0], ranges)
        value = state.value(store.src[1], _broadcast_at(store.src[1], ranges), None)
        groups.setdefault(ranges, []).append((place, value))
    ends = []
    for ranges, group in groups.items():
        loops = tuple(r for r in ranges if r.op is Ops.RANGE)
        effects = _after_loads(group, loops)
        ends.append((effects[0] if len(effects) == 1 else UOp.sink(*effects)).end(*loops))
    return ends


def _after_loads(group: list[tuple[UOp, UOp]], loops: tuple[UOp, ...]) -> list[UOp]:
    """The stores of one iteration: each after the loads that see the same memory as it was."""
    memories = {place.src[0] for place, _ in group}
    read: dict[UOp, list[UOp]] = {}
    for node in toposort([value for _, value in group]):
        if node.op is Ops.LOAD and node.src[0].src[0] in memories and open_ranges(node) <= set(loops):
            read.setdefault(node.src[0].src[0], []).append(node)
    return [
        (
            place.src[0].after(*read[place.src[0]]).index(*place.src[1:]) if place.src[0] in read else place
        ).store(value)
        for place, value in group
    ]


def _element(state: Lowering, view: UOp, at: tuple[UOp, ...]) -> UOp:
    """The INDEX of an element of a view of memory."""
    position = at
    while view.op not in MEMORY:
        if view.op not in INDEX_MAPS or view.op is Ops.PAD:
            raise VerifyError(f"cannot store through {view.op!r}", remedy="store to a view of a PARAM")
        position, _ = index_map(view, position)
        view = view.src[0]
    return view.index(simplify(position[0]))


def _broadcast_at(source: UOp, at: tuple[UOp, ...]) -> tuple[UOp, ...]:
    """The position in an operand that broadcasts to the position `at` of the result."""
    if not source.shape:
        return ()
    return tuple(
        index(0) if s == 1 else i for s, i in zip(source.shape, at[-len(source.shape) :], strict=True)
    )


# elementwise, and everything that has no row below


def _demand_elementwise(state: Lowering, node: UOp, want: Demand) -> None:
    loops = state.within[node, want]
    state.asked[node, want] = [
        state.demand(s, _broadcast_at(s, want.at), want.valid, loops) for s in node.src
    ]


def _build_elementwise(state: Lowering, node: UOp, want: Demand) -> UOp:
    return node.replace(src=state.sources(node, want))


def _demand_none(state: Lowering, node: UOp, want: Demand) -> None:
    return None


def _demand_movement(state: Lowering, node: UOp, want: Demand) -> None:
    at, condition = index_map(node, want.at)
    loops = state.within[node, want]
    state.asked[node, want] = [state.demand(node.src[0], at, _both(want.valid, condition), loops)]
    if condition is not None:
        state.conditions[node, want] = condition


def _build_movement(state: Lowering, node: UOp, want: Demand) -> UOp:
    (value,) = state.sources(node, want)
    condition = state.conditions.get((node, want))
    if condition is None or (value.op is Ops.LOAD and len(value.src[0].src) == 3):
        return value
    return simplify(condition).where(value, node.const_like(0))


def _both(first: UOp | None, second: UOp | None) -> UOp | None:
    if first is None or second is None:
        return first or second
    return first & second


def _build_memory(state: Lowering, node: UOp, want: Demand) -> UOp:
    if not node.shape:
        return node
    return node.index(*want.at, *(() if want.valid is None else (want.valid,))).load()


def _is_empty(shape: tuple[int | UOp, ...]) -> bool:
    """Whether there is an axis without elements. No code is made for them: it would stand before a loop that
    never runs, and read what is not there.
    """
    return any(bounds(index(d))[1] == 0 for d in shape)


def _demand_reduce(state: Lowering, node: UOp, want: Demand) -> None:
    if _is_empty(node.src[0].shape[node.ndim :]):
        return
    ranges = state.reduce_ranges(node, want)
    loops = state.within[node, want] + tuple(r for r in ranges if r.op is Ops.RANGE)
    state.demand(node.src[0], want.at + ranges, want.valid, loops)


def _build_reduce(state: Lowering, node: UOp, want: Demand) -> UOp:
    """Narrow floats are folded in f32. An axis of size 1 is folded without a loop: identity + x."""
    op = node.arg[0]
    if _is_empty(node.src[0].shape[node.ndim :]):
        return UOp.const(node.dtype, REDUCE_IDENTITY[op](node.dtype))
    ranges = state.reduce_ranges(node, want)
    value = state.value(node.src[0], want.at + ranges, want.valid)
    wide = value.cast(dtypes.f32) if node.dtype in NARROW else value
    loops = tuple(r for r in ranges if r.op is Ops.RANGE)
    if loops:
        wide = wide.reduce(op, 0, loops)
    elif op is Ops.ADD and wide.dtype.is_float:
        wide = wide + 0.0
    return wide.cast(node.dtype)


def _demand_stack(state: Lowering, node: UOp, want: Demand) -> None:
    if _progression(node) is None:
        for source in node.src:
            state.demand(source, want.at[1:], want.valid, state.within[node, want])


def _progression(node: UOp) -> tuple[int, int] | None:
    """(first, step) of a STACK of integer constants in arithmetic progression; else None."""
    if node.dtype.is_float or any(s.op is not Ops.CONST for s in node.src):
        return None
    values = [int(s.value) for s in node.src]
    step = values[1] - values[0] if len(values) > 1 else 0
    return (values[0], step) if values == [values[0] + step * i for i in range(len(values))] else None


def _build_stack(state: Lowering, node: UOp, want: Demand) -> UOp:
    """The source at the first index: a formula where the sources are a progression, else a choice."""
    at = want.at[0]
    progression = _progression(node)
    if progression is not None:
        first, step = progression
        return simplify(at * step + first).cast(node.dtype)
    sources = [state.value(s, want.at[1:], want.valid) for s in node.src]
    out = sources[-1]
    for position in range(len(sources) - 2, -1, -1):
        out = at.eq(position).where(sources[position], out)
    return out


def _demand_stage(state: Lowering, node: UOp, want: Demand) -> None:
    if not _is_empty(node.shape):
        stage_demand(state, node)


def _build_stage(state: Lowering, node: UOp, want: Demand) -> UOp:
    return UOp.const(node.dtype, 0) if _is_empty(node.shape) else stage_value(state, node, want)


_Demander = Callable[[Lowering, UOp, Demand], None]
_Builder = Callable[[Lowering, UOp, Demand], UOp]

#: What each op asks of its sources; the ops that are not here ask for the same position, broadcast.
DEMAND: dict[Ops, _Demander] = {
    **dict.fromkeys(INDEX_MAPS, _demand_movement),
    **dict.fromkeys((*MEMORY, Ops.CONST, Ops.RANGE), _demand_none),
    Ops.REDUCE: _demand_reduce,
    Ops.STACK: _demand_stack,
    Ops.STAGE: _demand_stage,
}
#: What each op becomes at a position; the ops that are not here stay, on their sources at that position.
BUILD: dict[Ops, _Builder] = {
    **dict.fromkeys(INDEX_MAPS, _build_movement),
    **dict.fromkeys(MEMORY, _build_memory),
    Ops.CONST: lambda state, node, want: node,
    Ops.RANGE: lambda state, node, want: node,
    Ops.REDUCE: _build_reduce,
    Ops.STACK: _build_stack,
    Ops.STAGE: _build_stage,
}
