"""Rules, sets of them indexed by op, and regions of nodes that one rule rewrites together. Week 1."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from uop_ir import Kind, Ops, UOp, UopError

from .observer import Observer
from .pattern import Pattern, matches

INDEX = frozenset({Kind.INDEX})
INTEGERS = frozenset({Kind.SIGNED, Kind.UNSIGNED, Kind.INDEX})
FLOATS = frozenset({Kind.FLOAT})
NUMBERS = INTEGERS | FLOATS
BOOL = frozenset({Kind.BOOL})
VALUES = NUMBERS | BOOL
ANY = VALUES | {Kind.VOID}
COMPARISONS = frozenset({Ops.CMPLT, Ops.CMPNE, Ops.CMPEQ})


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
        if subject(node) not in self.types:
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


@dataclass(frozen=True)
class Region:
    """Nodes that are rewritten together: a sum of many terms, a conjunction of many clauses.

    A node belongs to the region where one of `patterns` matches it and its type is one of `types`, as of a Rule. No
    rule is tried on a node that is read by nodes of its region only, the interior: one on the outermost node of the
    region must do for all. So a rule that gathers all terms of a sum runs once for each sum, not once for each of
    its prefixes, and a sum of n terms takes time in proportion to n.
    """

    name: str
    patterns: tuple[Pattern, ...]
    types: frozenset[Kind] = VALUES

    def has(self, node: UOp) -> bool:
        """Whether a node belongs to the region."""
        return subject(node) in self.types and any(True for p in self.patterns for _ in matches(p, node))


def subject(node: UOp) -> Kind:
    """What `types` speaks of."""
    return node.src[0].dtype.kind if node.op in COMPARISONS else node.dtype.kind


_parameters: dict[Callable[..., Any], tuple[str, ...]] = {}


def _call(function: Callable[..., Any], bound: dict[str, UOp], ctx: Any) -> Any:
    names = _parameters.get(function)
    if names is None:
        names = _parameters[function] = tuple(inspect.signature(function).parameters)
    return function(*(ctx if name == "ctx" else bound[name] for name in names))


@dataclass(frozen=True)
class RuleSet:
    """Rules in order, indexed by the op of their pattern's root, and regions. `a + b` has the rules of both."""

    rules: tuple[Rule, ...]
    regions: tuple[Region, ...]
    _by_op: dict[Any, tuple[Rule, ...]] = field(init=False, repr=False, compare=False)
    _regions: dict[Ops, tuple[Region, ...]] = field(init=False, repr=False, compare=False)

    def __init__(self, rules: Iterable[Rule], regions: Iterable[Region] = ()) -> None:
        rules, regions = tuple(rules), tuple(dict.fromkeys(regions))
        object.__setattr__(self, "rules", rules)
        object.__setattr__(self, "regions", regions)
        ops = {r.pattern.op for r in rules}
        by_op = {op: tuple(r for r in rules if r.pattern.op in (op, None)) for op in ops}
        object.__setattr__(self, "_by_op", by_op)
        inside = {p.op for r in regions for p in r.patterns}
        of_op = {op: tuple(r for r in regions if any(p.op is op for p in r.patterns)) for op in inside}
        object.__setattr__(self, "_regions", of_op)

    def __add__(self, other: RuleSet) -> RuleSet:
        return RuleSet(self.rules + other.rules, self.regions + other.regions)

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

    def region(self, node: UOp) -> Region | None:
        """The first region that a node belongs to."""
        for region in self._regions.get(node.op, ()):
            if region.has(node):
                return region
        return None
