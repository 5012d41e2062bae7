"""The engine: applies rules to a graph, bottom-up or top-down to a fixpoint, or in a single walk. Week 1."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

from uop_ir import UOp, UopError

from .derivation import Derivation
from .observer import Observer, observer
from .rules import Find, Rule, RuleSet, timed

Order = Literal["bottom-up", "top-down", "single-walk"]
#: Told of a node that is put over rewritten sources, and of what it is then; for those who replay a rewrite.
Moved = Callable[[UOp, UOp], object]


def graph_rewrite(root: UOp, rules: RuleSet, ctx: Any = None, order: Order = "bottom-up") -> UOp:
    """The graph with the rules applied. Iterative; shared nodes once; the same node where nothing applies.

    - `bottom-up`: sources first, then the node over them, and what replaces it too, until no rule applies to
      any node (but to the interior of a Region, where rules run on the outermost node only).
    - `top-down`: a node as it stands, until no rule applies to it; then its sources; then the node over them,
      where they are others. It ends where no rule applies to any node.
    - `single-walk`: each node once, over its rewritten sources; what replaces it stays as the rule made it.

    Raises RewriteError, with the names of the rules and two terms, where rules feed each other for ever, and
    as Rule.apply does; UopError for another order, and for a root that is no UOp or rules that are no
    RuleSet. See `observing` for who may watch.
    """
    if not isinstance(root, UOp):
        raise UopError(f"graph_rewrite: {root!r} is no UOp", remedy="UOp.const makes one of a number")
    if not isinstance(rules, RuleSet):
        raise UopError(f"graph_rewrite: {rules!r} is no RuleSet", remedy="RuleSet([rule, ...])")
    if order not in ORDERS:
        raise UopError(f"no order {order!r}", remedy=f"one of {', '.join(ORDERS)}")
    watch = observer()
    if watch is None:
        return ORDERS[order](root, rules, rules.rewrite, ctx, None)
    watch.started(root, rules, order)
    result: UOp | None = None
    try:
        result = ORDERS[order](root, rules, partial(_watched, rules, watch), ctx, None)
        return result
    finally:
        watch.finished(root, result)


def _watched(rules: RuleSet, watch: Observer, node: UOp, ctx: Any) -> tuple[Rule, UOp] | None:
    found = timed(rules, watch, node, ctx) if watch.times else rules.rewrite(node, ctx)
    if found is not None:
        watch.applied(found[0], node, found[1])
    return found


def _bottom_up(root: UOp, rules: RuleSet, find: Find, ctx: Any, moved: Moved | None) -> UOp:
    """A visit of a node waits for its sources; of one that a rule replaces, for the replacement.

    A node of a region may be visited twice. As interior it is only put over the rewritten leaves of the
    region; for those who read it from outside, rules are applied to it. Where that came first, its result
    stands in the interior too. Each visit is made once,
    so that regions which share nodes, or stand one in the other, take linear time.
    """
    done: dict[UOp, UOp] = {}
    interior: dict[UOp, UOp] = {}
    derivation = Derivation()
    regions, region_of = rules.finders_of_regions, rules.region
    mark = rules.mark if rules.remembers and moved is None else ""
    #: Nodes to visit; (node, None), to visit as interior; (node, what replaces it).
    #: None: the one below has its sources.
    stack: list[Any] = [root]
    while stack:
        visit = stack.pop()
        ready = visit is None
        if ready:
            visit = stack.pop()
        inner = visit.__class__ is tuple
        node: UOp = visit
        if inner:
            node, after = visit
            if after is not None:
                done[node] = done[after]
                derivation.leave(after)
                continue
        if not ready:
            if node in done or (inner and node in interior):
                continue
            if mark in node.memo:
                done[node] = node
                continue
            if node.src:
                stack += (visit, None)
                find_region = regions[node.op]
                region = None if find_region is None else find_region(node)
                if region is None:
                    stack += node.src[::-1]
                else:
                    stack += [(s, None) if region_of(s) is region else s for s in node.src[::-1]]
                continue
        src = tuple([done[s] if s in done else interior[s] for s in node.src])
        now = node if src == node.src else node.replace(src=src)
        if moved is not None and now is not node:
            moved(node, now)
        if inner:
            interior[node] = interior[now] = now
            continue
        if now is not node and now in done:
            done[node] = done[now]
            continue
        found = find(now, ctx)
        if found is None:
            done[node] = done[now] = now
            if mark:
                now.memo[mark] = True
            continue
        rule, new = found
        derivation.enter(rule, now, new)
        stack.append((node, new))
        if now is not node:
            stack.append((now, new))
        stack.append(new)
    return done[root]


def _top_down(root: UOp, rules: RuleSet, find: Find, ctx: Any, moved: Moved | None) -> UOp:
    """A node is entered, when rules are applied to it, and left, when it is put over its sources."""
    done: dict[UOp, UOp] = {}
    derivation = Derivation()
    #: A node; whether its sources are rewritten; what replaces it, where a rule or rewritten sources do.
    stack: list[tuple[UOp, bool, UOp | None]] = [(root, False, None)]
    while stack:
        node, entered, after = stack.pop()
        if after is not None:
            done[node] = done[after]
            derivation.leave(after)
        elif node in done:
            continue
        elif not entered:
            found = find(node, ctx)
            if found is None:
                stack.append((node, True, None))
                stack += [(s, False, None) for s in reversed(node.src) if s not in done]
            else:
                rule, new = found
                derivation.enter(rule, node, new)
                stack += [(node, False, new), (new, False, None)]
        else:
            src = tuple(done[s] for s in node.src)
            if src == node.src:
                done[node] = node
            else:
                now = node.replace(src=src)
                if moved is not None:
                    moved(node, now)
                stack += [(node, False, now), (now, False, None)]
    return done[root]


def _single_walk(root: UOp, rules: RuleSet, find: Find, ctx: Any, moved: Moved | None) -> UOp:
    done: dict[UOp, UOp] = {}
    for node in root.toposort():
        src = tuple(done[s] for s in node.src)
        now = node if src == node.src else node.replace(src=src)
        if moved is not None and now is not node:
            moved(node, now)
        found = find(now, ctx)
        done[node] = now if found is None else found[1]
    return done[root]


ORDERS: dict[str, Callable[[UOp, RuleSet, Find, Any, Moved | None], UOp]] = {
    "bottom-up": _bottom_up,
    "top-down": _top_down,
    "single-walk": _single_walk,
}
