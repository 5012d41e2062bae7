"""What it costs to compute an element, and where storing it is likely to pay. Week 5.

One cost decides between storing a value once and computing it again in each kernel,
at each place, that uses it:

    recompute = sum over the distinct uses of (evaluations * cost)
    realize   = elements * (cost + STORE) + sum over the distinct uses of (evaluations * LOAD)

The unit is one addition on one element.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import prod

from uop_ir import INDEX_MAPS, Ops, UOp

from .memory import extent, numel

#: A load is mostly served by a cache: its neighbours were just read, and so was the row it stands in. A store
#: ends in memory, is read back from there by another kernel, and needs the launch of that kernel: about as
#: much as 32 additions, on a CPU as on a GPU.
#: It is also what keeps the exponentials of a softmax, of cost 13, in one kernel.
LOAD, STORE = 1.0, 32.0
#: Additions that an op is worth; an op that is not named here is worth one.
WEIGHTS: dict[Ops, float] = {
    Ops.EXP2: 8.0,
    Ops.LOG2: 8.0,
    Ops.SIN: 8.0,
    Ops.DIV: 4.0,
    Ops.SQRT: 4.0,
    Ops.RECIP: 4.0,
    Ops.MOD: 4.0,
}
#: Costs multiply through REDUCEs in REDUCEs; past this they say no more than that it is too much.
MUCH = 1e30
#: What a value made of constants alone may cost and still be cheap.
SMALL = 8.0
COMPARISONS = (Ops.CMPEQ, Ops.CMPNE, Ops.CMPLT)


def is_memory(node: UOp) -> bool:
    """True for the memory arguments of a plan."""
    return node.op is Ops.PARAM and node.arg.size is not None


def is_leaf(node: UOp) -> bool:
    """True for what is there without computing: memory, scalars, constants."""
    return node.op in (Ops.PARAM, Ops.CONST)


def operands(node: UOp) -> tuple[UOp, ...]:
    """The sources whose elements a node uses: of a movement op the first, the others being sizes."""
    return node.src[:1] if node.op in INDEX_MAPS else node.src


def prices(elements: int, cost: float, evaluations: int) -> tuple[float, float]:
    """What a value costs that is stored once and loaded at each evaluation,
    and what one costs that is computed again.
    """
    return elements * (cost + STORE) + evaluations * LOAD, evaluations * cost


@dataclass
class Costs:
    """`cost`: of an element of each node. `cheap`: the nodes that are never worth storing.

    Cheap are leaves, movement and casts of cheap nodes, small values made of constants alone, and comparisons
    with a counter, which is made of tables of constants, such as 0, 1, 2, ...: the code generators turn a
    counter into a loop index, and a sum over such a comparison, a one-hot, into one load.
    """

    cost: dict[UOp, float] = field(default_factory=dict)
    cheap: set[UOp] = field(default_factory=set)


def costs(order: Iterable[UOp], outputs: set[UOp]) -> Costs:
    """The costs of the nodes of `order`, sources first.

    A source that is likely to be stored counts as a LOAD: an output, or a node with several users that is
    dear enough. What an EXPAND repeats counts once for all repetitions, as if it were computed outside of the
    loop that repeats it; a load of memory counts each time.
    """
    order = list(order)
    users = _users(order, outputs)
    found = Costs()
    price: dict[UOp, float] = {}
    loaded: set[UOp] = set()  # cheap, stored, or a view of such
    variable: set[UOp] = set()  # depends on memory, or has a loop of its own
    counters: set[UOp] = set()
    for node in order:
        own = _own(node, price, loaded)
        if is_memory(node) or node.op is Ops.REDUCE or any(s in variable for s in operands(node)):
            variable.add(node)
        elif node.op is Ops.STACK or any(s in counters for s in operands(node)):
            counters.add(node)
        small = is_leaf(node) or (node not in variable and own <= SMALL)
        view = (node.op in INDEX_MAPS or node.op in (Ops.CAST, Ops.BITCAST)) and node.src[0] in found.cheap
        if small or view or (node.op in COMPARISONS and any(s in counters for s in node.src)):
            found.cheap.add(node)
        fixed = node in found.cheap or node.op in INDEX_MAPS
        stored = not fixed and own * users[node] > own + STORE + users[node] * LOAD
        stored = stored or (node in outputs and own > LOAD)
        if stored or node in found.cheap or (node.op in INDEX_MAPS and node.src[0] in loaded):
            loaded.add(node)
        found.cost[node] = own
        price[node] = LOAD if stored else own
    return found


def _users(order: list[UOp], outputs: set[UOp]) -> dict[UOp, int]:
    """How many nodes use each; for movement, its users count."""
    users = {node: int(node in outputs) for node in order}
    for node in reversed(order):
        for source in set(operands(node)):
            users[source] += users[node] if node.op in INDEX_MAPS else 1
    return users


def _own(node: UOp, price: dict[UOp, float], loaded: set[UOp]) -> float:
    if is_leaf(node):
        return LOAD if is_memory(node) else 0.0
    if node.op is Ops.REDUCE:
        source = node.src[0]
        count = prod(map(extent, source.shape[len(node.shape) :]))
        return min(count * (price[source] + 1.0), MUCH)
    if node.op in INDEX_MAPS:
        return price[node.src[0]] * _share(node.src[0], node, loaded)
    if node.op is Ops.STACK:  # one of its operands, and the choice
        return max(price[s] for s in node.src) + (0.0 if all(s.op is Ops.CONST for s in node.src) else 1.0)
    weight = WEIGHTS.get(node.op, 1.0)
    return min(weight + sum(price[s] * _share(s, node, loaded) for s in operands(node)), MUCH)


def _share(source: UOp, node: UOp, loaded: set[UOp]) -> float:
    """How many elements of the source are computed for one of the node, at most one."""
    if source.shape == node.shape or source in loaded:
        return 1.0
    return min(numel(source.shape) / max(numel(node.shape), 1), 1.0)
