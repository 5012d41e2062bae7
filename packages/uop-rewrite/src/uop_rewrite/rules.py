"""Rules, sets of them indexed by op, and regions of nodes that one rule rewrites together. Week 1."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from time import perf_counter
from typing import Any

from uop_ir import Kind, Ops, UOp, UopError

from .compiled import compile_regions, compile_rules, parameters, write_rules
from .observer import Observer
from .pattern import COMPARISONS, Pattern, fits, matches

INDEX = frozenset({Kind.INDEX})
INTEGERS = frozenset({Kind.SIGNED, Kind.UNSIGNED, Kind.INDEX})
FLOATS = frozenset({Kind.FLOAT})
NUMBERS = INTEGERS | FLOATS
BOOL = frozenset({Kind.BOOL})
VALUES = NUMBERS | BOOL
ANY = VALUES | {Kind.VOID}


#: The first rule that applies to a node in a context, and what it makes of it.
Find = Callable[[UOp, Any], "tuple[Rule, UOp] | None"]


class RewriteError(UopError):
    """A mistake in the rules: they feed each other for ever, change a dtype, or return what is no UOp."""


@dataclass(frozen=True, eq=False)
class Rule:
    """`pattern -> replacement`, valid for the types in `types`, where `when` holds.

    `types` speaks of the matched node's dtype, for comparisons of their operands'. `replacement` and `when`
    take the names of the pattern, and `ctx` if they want it; a replacement of None means: does not apply
    after all. What they raise is passed on. Raises RewriteError where they take a name that the pattern does
    not bind. Two rules are equal if they are one object.
    """

    name: str
    pattern: Pattern
    replacement: Callable[..., UOp | None]
    when: Callable[..., bool] | None = None
    types: frozenset[Kind] = VALUES

    #: The ops that sources of the node must be of.
    needs: frozenset[Ops] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "needs", frozenset(s.op for s in self.pattern.src or () if s.op is not None))
        bound = self.pattern.names | {"ctx"}
        for what, function in (("replacement", self.replacement), ("when", self.when)):
            unbound = set(parameters(function) if function else ()) - bound
            if unbound:
                raise RewriteError(
                    f"rule {self.name!r}: {what} takes {', '.join(sorted(unbound))}, which {self.pattern} does not bind"
                )

    def apply(self, node: UOp, ctx: Any = None) -> UOp | None:
        """The replacement for a node, or None where the rule does not apply.

        A replacement of another shape, which operands that broadcast can lead to, is not applied. Raises
        RewriteError for one of another dtype, and for one that is no UOp.
        """
        if subject(node) not in self.types:
            return None
        for bound in matches(self.pattern, node):
            if self.when is not None and not _call(self.when, bound, ctx):
                continue
            new = _call(self.replacement, bound, ctx)
            if new is not None and new is not node:
                if not isinstance(new, UOp):
                    raise self.no_uop(node, new)
                if new.shape == node.shape:
                    return self.checked(node, new)
        return None

    def checked(self, node: UOp, new: UOp) -> UOp:
        """`new`, which the rule made of a node of its shape.
        Raises RewriteError where it is of another dtype.
        """
        if new.dtype is not node.dtype:
            raise RewriteError(f"rule {self.name!r} makes {new!r} of {node!r}: another dtype")
        return new

    def no_uop(self, node: UOp, new: object) -> RewriteError:
        """The error of a replacement that is no UOp."""
        return RewriteError(
            f"rule {self.name!r} makes {new!r} of {node!r}: that is no UOp",
            remedy="return a UOp, or None where the rule does not apply",
        )


def _call(function: Callable[..., Any], bound: dict[str, UOp], ctx: Any) -> Any:
    return function(*(ctx if name == "ctx" else bound[name] for name in parameters(function)))


@dataclass(frozen=True, eq=False)
class Region:
    """Nodes that are rewritten together: a sum of many terms, a conjunction of many clauses.

    A node belongs to the region where one of `patterns` matches it and its type is one of `types`, as of a
    Rule. No rule is tried on a node that is read by nodes of its region only, the interior: one on the
    outermost node of the region must do for all. So a rule that gathers all terms of a sum runs once for each
    sum, not once for each of its prefixes, and a sum of n terms takes time in proportion to n.
    """

    name: str
    patterns: tuple[Pattern, ...]
    types: frozenset[Kind] = VALUES

    def has(self, node: UOp) -> bool:
        """Whether a node belongs to the region."""
        return subject(node) in self.types and any(fits(p, node, {}) for p in self.patterns)


def subject(node: UOp) -> Kind:
    """What `types` speaks of."""
    return node.src[0].dtype.kind if node.op in COMPARISONS else node.dtype.kind


_number = count()


class _ByOp(dict[Ops, Any]):
    """Something for each op, made when it is first asked for."""

    def __init__(self, make: Callable[[Ops], Any]) -> None:
        self.make = make

    def __missing__(self, op: Ops) -> Any:
        made = self[op] = self.make(op)
        return made


@dataclass(frozen=True)
class RuleSet:
    """Rules in order, indexed by the op of their pattern's root, and regions. `a + b` has the rules of both.

    `compiled`: whether the rules of an op become a Python function when the first node of that op is met, or
    each is tried by `Rule.apply`. Both give the same result. `remembers`: see `remembering`.
    """

    rules: tuple[Rule, ...]
    regions: tuple[Region, ...]
    compiled: bool
    remembers: bool
    #: Marks, in the memo of a node, that no rule applies to it or to what it stands on.
    mark: str = field(repr=False, compare=False)
    #: For each op the rules that can apply to it.
    index: dict[Ops, tuple[Rule, ...]] = field(repr=False, compare=False)
    #: For each op what finds the first rule that applies,
    #: None where no rule is for the op; and so for regions.
    finders: dict[Ops, Find | None] = field(repr=False, compare=False)
    finders_of_regions: dict[Ops, Callable[[UOp], Region | None] | None] = field(repr=False, compare=False)

    def __init__(
        self,
        rules: Iterable[Rule],
        regions: Iterable[Region] = (),
        compiled: bool = True,
        remembers: bool = False,
    ) -> None:
        set_ = object.__setattr__
        set_(self, "rules", tuple(rules))
        set_(self, "regions", tuple(dict.fromkeys(regions)))
        set_(self, "compiled", compiled)
        set_(self, "remembers", remembers)
        set_(self, "mark", f"rewritten {next(_number)}")
        set_(self, "index", _ByOp(lambda op: tuple(r for r in self.rules if r.pattern.op in (op, None))))
        set_(self, "finders", _ByOp(self._finder))
        set_(self, "finders_of_regions", _ByOp(self._finder_of_regions))

    def __add__(self, other: RuleSet) -> RuleSet:
        return RuleSet(
            self.rules + other.rules, self.regions + other.regions, self.compiled and other.compiled
        )

    def remembering(self) -> RuleSet:
        """These rules as a set that remembers to which nodes none applies,
        so that no rewrite enters them again.

        For rules that depend on the node alone,
        neither on a context nor on what can change, and for a set that lasts.
        """
        return RuleSet(self.rules, self.regions, self.compiled, remembers=True)

    def source(self, op: Ops) -> str:
        """The source of the function that the rules of an op become."""
        return "\n".join([*write_rules(op, self.index[op]).lines, ""])

    def rewrite(self, node: UOp, ctx: Any = None) -> tuple[Rule, UOp] | None:
        """The first rule that applies to a node, and what it makes of it."""
        find = self.finders[node.op]
        return None if find is None else find(node, ctx)

    def region(self, node: UOp) -> Region | None:
        """The first region that a node belongs to."""
        find = self.finders_of_regions[node.op]
        return None if find is None else find(node)

    def _finder(self, op: Ops) -> Find | None:
        rules = self.index[op]
        if not rules:
            return None
        return compile_rules(op, rules) if self.compiled else partial(_first_rule, rules)

    def _finder_of_regions(self, op: Ops) -> Callable[[UOp], Region | None] | None:
        regions = tuple(r for r in self.regions if any(p.op in (op, None) for p in r.patterns))
        if not regions:
            return None
        return compile_regions(op, regions) if self.compiled else partial(_first_region, regions)


def _first_rule(rules: tuple[Rule, ...], node: UOp, ctx: Any) -> tuple[Rule, UOp] | None:
    sources = {s.op for s in node.src}
    for rule in rules:
        if rule.needs <= sources:
            new = rule.apply(node, ctx)
            if new is not None:
                return rule, new
    return None


def _first_region(regions: tuple[Region, ...], node: UOp) -> Region | None:
    return next((r for r in regions if r.has(node)), None)


def timed(rules: RuleSet, watch: Observer, node: UOp, ctx: Any) -> tuple[Rule, UOp] | None:
    """As `RuleSet.rewrite`, telling an observer how long each rule took."""
    for rule in rules.index[node.op]:
        start = perf_counter()
        new = rule.apply(node, ctx)
        watch.tried(rule, perf_counter() - start, new is not None)
        if new is not None:
            return rule, new
    return None
