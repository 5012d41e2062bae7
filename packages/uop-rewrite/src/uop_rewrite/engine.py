"""Rules, sets of them, and the engine that rewrites a graph to a fixpoint. Week 1."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from uop_ir import Kind, Ops, UOp, UopError

from .observer import Observer, observer
from .pattern import Pattern, matches

INDEX = frozenset({Kind.INDEX})
INTEGERS = frozenset({Kind.SIGNED, Kind.UNSIGNED, Kind.INDEX})
FLOATS = frozenset({Kind.FLOAT})
NUMBERS = INTEGERS | FLOATS
BOOL = frozenset({Kind.BOOL})
VALUES = NUMBERS | BOOL
ANY = VALUES | {Kind.VOID}
#: A term that is rewritten this often in one place, beyond once for each node of the graph, grows without end.
LIMIT = 1000
_COMPARISONS = frozenset({Ops.CMPLT, Ops.CMPNE, Ops.CMPEQ})


class RewriteError(UopError):
    """Rules that feed each other for ever, or that change a dtype: a mistake in the rules, not in the program."""


@dataclass(frozen=True)
class Rule:
    """`pattern -> replacement`, valid for the types in `types`, where `when` holds.

    `types` speaks of the matched node's dtype, for comparisons of their operands'. `replacement` and `when` take the
    names of the pattern, and `ctx` if they want it; a replacement of None means: does not apply after all.
    """

    name: str
    pattern: Pattern
    replacement: Callable[..., UOp | None]
    when: Callable[..., bool] | None = None
    types: frozenset[Kind] = VALUES

    def apply(self, node: UOp, ctx: Any = None) -> UOp | None:
        """The replacement for a node, or None where the rule does not apply.

        A replacement of another shape, which operands that broadcast can lead to, is not applied. Raises RewriteError
        for one of another dtype.
        """
        if _subject(node) not in self.types:
            return None
        for bound in matches(self.pattern, node):
            if self.when is not None and not _call(self.when, bound, ctx):
                continue
            new: UOp | None = _call(self.replacement, bound, ctx)
            if new is None or new is node or new.shape != node.shape:
                continue
            if new.dtype is not node.dtype:
                raise RewriteError(f"rule {self.name!r} makes {new!r} of {node!r}: another dtype")
            return new
        return None


def _subject(node: UOp) -> Kind:
    return node.src[0].dtype.kind if node.op in _COMPARISONS else node.dtype.kind


_parameters: dict[Callable[..., Any], tuple[str, ...]] = {}


def _call(function: Callable[..., Any], bound: dict[str, UOp], ctx: Any) -> Any:
    names = _parameters.get(function)
    if names is None:
        names = _parameters[function] = tuple(inspect.signature(function).parameters)
    return function(*(ctx if name == "ctx" else bound[name] for name in names))


@dataclass(frozen=True)
class RuleSet:
    """Rules in order, indexed by the op of their pattern's root. `a + b` has the rules of both."""

    rules: tuple[Rule, ...]
    _by_op: dict[Any, tuple[Rule, ...]] = field(init=False, repr=False, compare=False)

    def __init__(self, rules: Iterable[Rule]) -> None:
        rules = tuple(rules)
        object.__setattr__(self, "rules", rules)
        ops = {r.pattern.op for r in rules}
        by_op = {op: tuple(r for r in rules if r.pattern.op in (op, None)) for op in ops}
        object.__setattr__(self, "_by_op", by_op)

    def __add__(self, other: RuleSet) -> RuleSet:
        return RuleSet(self.rules + other.rules)

    def rewrite(self, node: UOp, ctx: Any = None) -> tuple[Rule, UOp] | None:
        """The first rule that applies to a node, and what it makes of it."""
        for rule in self._by_op.get(node.op, self._by_op.get(None, ())):
            new = rule.apply(node, ctx)
            if new is not None:
                return rule, new
        return None

    def timed(self, node: UOp, ctx: Any, watch: Observer) -> tuple[Rule, UOp] | None:
        """As `rewrite`, telling an observer how long each rule took."""
        for rule in self._by_op.get(node.op, self._by_op.get(None, ())):
            start = perf_counter()
            new = rule.apply(node, ctx)
            watch.tried(rule, perf_counter() - start, new is not None)
            if new is not None:
                return rule, new
        return None


def graph_rewrite(root: UOp, rules: RuleSet, ctx: Any = None) -> UOp:
    """The graph with the rules applied, sources first, until none applies. Iterative; shared nodes once.

    Raises RewriteError, naming the rules, where they feed each other for ever. See `observing` for who may watch.
    """
    watch = observer()
    if watch is not None:
        watch.started(root, rules)
    done: dict[UOp, UOp] = {}
    active: dict[
        UOp, str
    ] = {}  # replacements that are being rewritten, one within the other, and their rules
    limit = LIMIT
    stack: list[tuple[UOp, UOp | None]] = [(root, None)]
    while stack:
        node, waiting = stack.pop()
        if waiting is not None:
            done[node] = done[waiting]
            active.pop(waiting, None)
            continue
        if node in done:
            continue
        missing = [s for s in node.src if s not in done]
        if missing:
            stack.append((node, None))
            stack.extend((s, None) for s in reversed(missing))
            continue
        src = tuple(done[s] for s in node.src)
        now = node if src == node.src else node.replace(src=src)
        if now is not node and now in done:
            done[node] = done[now]
            continue
        found = rules.rewrite(now, ctx) if watch is None or not watch.times else rules.timed(now, ctx, watch)
        if found is None:
            done[node] = done[now] = now
            continue
        rule, new = found
        if watch is not None:
            watch.applied(rule, now, new)
        if len(active) > limit == LIMIT:
            limit += len(root.toposort())
        if new in active or len(active) > limit:
            names = ", ".join(dict.fromkeys([*list(active.values())[-8:], rule.name]))
            raise RewriteError(f"rules rewrite for ever: {names}; from {now!r} to {new!r}")
        active[new] = rule.name
        stack.append((node, new))
        if now is not node:
            stack.append((now, new))
        stack.append((new, None))
    if watch is not None:
        watch.finished(root, done[root])
    return done[root]
