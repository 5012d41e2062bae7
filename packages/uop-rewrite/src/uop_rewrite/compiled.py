"""Compilation: the rules of one op as one Python function, whose source can be printed. Week 1.

The source is what one would write by hand: nested ifs, what rejects most nodes first, no dictionary of names.
It tries rules, and the orders of operands that commute,
as `Rule.apply` does, so that it gives the same result.
"""

from __future__ import annotations

import inspect
import linecache
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import count, groupby
from math import prod
from types import FunctionType
from typing import TYPE_CHECKING, Any

from uop_ir import OPS, Kind, Ops, UOp, dtypes

from .pattern import COMPARISONS, Pattern, fits, in_type

if TYPE_CHECKING:
    from .rules import Region, Rule

#: A pattern whose operands can be matched in more orders than this is left to `Rule.apply`.
MOST_ORDERS = 16
#: How many functions are kept, for sets of the same rules that are made again.
KEPT = 4096

#: What the names of a pattern are called in the source.
Bound = dict[str, str]
#: A pattern whose own tests stand already, and the node that it is held against.
Todo = Sequence[tuple[Pattern, str]]
#: Writes what is done where all tests hold.
Then = Callable[[int, Bound], None]


def parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of a function's parameters that have no default."""
    if not isinstance(function, FunctionType):
        given = inspect.signature(function).parameters.values()
        return tuple(p.name for p in given if p.default is p.empty)
    return function.__code__.co_varnames[: function.__code__.co_argcount - len(function.__defaults__ or ())]


class Writer:
    """Source text, line by line, and the objects that it names."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.made: Counter[str] = Counter()
        self.literals: dict[int, str] = {}
        self.scope: dict[str, Any] = (
            {op.name: op for op in Ops} | {k.value: k for k in Kind} | {"fits": fits, "UOp": UOp}
        )

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def when(self, depth: int, tests: Sequence[str]) -> int:
        """The depth of what is done where all tests hold."""
        if not tests:
            return depth
        self.line(depth, f"if {' and '.join(tests)}:")
        return depth + 1

    def name(self, stem: str, value: Any) -> str:
        """A name for an object."""
        name = f"{stem}{self.made[stem]}"
        self.made[stem] += 1
        self.scope[name] = value
        return name

    def literal(self, pattern: Pattern) -> str:
        """A name for the constants that a literal is in each type; one for all orders that it stands in."""
        if id(pattern) not in self.literals:
            assert pattern.value is not None
            found = {d: in_type(pattern.value, d) for d in dtypes.all}
            self.literals[id(pattern)] = self.name("constant", found)
        return self.literals[id(pattern)]

    def call(self, name: str, function: Callable[..., Any], bound: Bound) -> str:
        return f"{name}({', '.join('ctx' if p == 'ctx' else bound[p] for p in parameters(function))})"

    def tests(self, pattern: Pattern, node: str, bound: Bound) -> list[str]:
        """What a pattern asks of a node itself; binds its name."""
        out = []
        if pattern.value is not None:
            out.append(f"{node} is {self.literal(pattern)}.get({node}.dtype)")
        elif pattern.op is not None:
            out.append(f"{node}.op is {pattern.op.name}")
        if pattern.types is not None:
            out += _is_one_of(f"{node}.dtype.kind", pattern.types)
        if pattern.name is not None and bound.setdefault(pattern.name, node) != node:
            out.append(f"{node} is {bound[pattern.name]}")
        return out

    def match(self, depth: int, todo: Todo, bound: Bound, then: Then) -> None:
        """What patterns ask of the sources of their nodes, and what is done where all holds."""
        if not todo:
            then(depth, bound)
            return
        (pattern, node), *later = todo
        if pattern.src is None:
            self.match(depth, later, bound, then)
            return
        patterns, rest = given(pattern)
        sources = [f"{node}_{i}" for i in range(len(patterns))]
        fixed = has_sources(pattern.op) == len(sources)
        if not fixed:
            relation = "==" if pattern.rest is None else ">="
            depth = self.when(depth, [f"len({node}.src) {relation} {len(sources)}"])
        if not (fixed and node == "n"):
            for i, source in enumerate(sources):
                self.line(depth, f"{source} = {node}.src[{i}]")
        if rest is not None:
            then, later = partial(self.rest, pattern, node, later, then), []
        for order in range(pattern.orders):
            pairs = list(zip(patterns, sources[::-1] if order else sources, strict=True))
            after = dict(bound)
            tests = [f"{sources[0]} is not {sources[1]}"] if order else []
            for part, source in pairs:
                tests += self.tests(part, source, after)
            self.match(self.when(depth, tests), [*pairs, *later], after, then)

    def rest(self, pattern: Pattern, node: str, later: Todo, then: Then, depth: int, bound: Bound) -> None:
        """What a pattern asks of the sources after those that it gives one by one, and what comes later."""
        assert pattern.rest is not None
        if pattern.rest.src is None and pattern.rest.name is None:
            test = " and ".join(self.tests(pattern.rest, "s", {}))
        else:
            known = ", ".join(f"{n!r}: {bound[n]}" for n in sorted(pattern.shared))
            test = f"fits({self.name('rest', pattern.rest)}, s, {{{known}}})"
        further = f"{node}.src[{len(pattern.src or ())}:]"
        self.match(self.when(depth, [f"all({test} for s in {further})"]), later, bound, then)

    def rule(self, depth: int, rule: Rule) -> None:
        """A rule: returned, with what it makes of the node, where it applies."""
        self.line(depth, f"# {rule.name}: {rule.pattern}")
        own = self.name("rule", rule)
        if _all_orders(rule.pattern) > MOST_ORDERS:
            self.line(depth, f"new = {own}.apply(n, ctx)")
            self.line(self.when(depth, ["new is not None"]), f"return {own}, new")
            return
        make = self.name("make", rule.replacement)
        when = self.name("when", rule.when)

        def then(depth: int, bound: Bound) -> None:
            if rule.when is not None:
                depth = self.when(depth, [self.call(when, rule.when, bound)])
            self.line(depth, f"new = {self.call(make, rule.replacement, bound)}")
            depth = self.when(depth, ["new is not None", "new is not n"])
            self.line(self.when(depth, ["not isinstance(new, UOp)"]), f"raise {own}.no_uop(n, new)")
            self.line(self.when(depth, ["new.shape == n.shape"]), f"return {own}, {own}.checked(n, new)")

        self.pattern(depth, rule.pattern, then)

    def region(self, depth: int, region: Region, op: Ops) -> None:
        """A region: returned, where the node belongs to it."""
        result = self.name("region", region)
        self.line(depth, f"# {region.name}")
        for pattern in region.patterns:
            if pattern.op in (op, None):
                self.pattern(depth, pattern, lambda depth, bound: self.line(depth, f"return {result}"))

    def pattern(self, depth: int, pattern: Pattern, then: Then) -> None:
        """A pattern against the node `n`, of the op that the function is for."""
        bound: Bound = {}
        own = pattern if pattern.value is not None else replace(pattern, op=None)
        tests = self.tests(own, "n", bound)
        self.match(self.when(depth, tests), [(pattern, "n")], bound, then)


def has_sources(op: Ops | None) -> int | None:
    """How many sources each node of an op has, None where they differ."""
    return OPS[op].least if op is not None and OPS[op].least == OPS[op].most else None


def given(pattern: Pattern) -> tuple[tuple[Pattern, ...], Pattern | None]:
    """The patterns of sources one by one, and what is asked of any further ones:
    nothing, where there are none.
    """
    src, rest, sources = pattern.src or (), pattern.rest, has_sources(pattern.op)
    if rest is not None and sources is not None and not rest.names:
        return src + (rest,) * (sources - len(src)), None
    return src, None if rest == Pattern() else rest


def _is_one_of(kind: str, types: frozenset[Kind]) -> list[str]:
    """Tests of a kind, by identity: a look-up in a set calls the hash of Enum, a Python function."""
    inside, outside = [k.value for k in Kind if k in types], [k.value for k in Kind if k not in types]
    if len(outside) < len(inside):
        return [f"{kind} is not {k}" for k in outside]
    either = " or ".join(f"{kind} is {k}" for k in inside) or "False"
    return [f"({either})" if len(inside) > 1 else either]


def _all_orders(pattern: Pattern) -> int:
    return pattern.orders * prod(_all_orders(s) for s in pattern.src or ())


def _begin(op: Ops, parameters: str) -> Writer:
    out = Writer()
    out.line(0, f"def rewrite_{op.value}({parameters}):")
    sources = has_sources(op)
    if sources:
        names = ", ".join(f"n_{i}" for i in range(sources))
        out.line(1, f"{names} = n.src" if sources > 1 else f"({names},) = n.src")
    out.line(1, f"kind = {'n_0' if op in COMPARISONS else 'n'}.dtype.kind")
    return out


def write_rules(op: Ops, rules: Sequence[Rule]) -> Writer:
    """The function of a node of an op and a context that gives the first rule that applies,
    and what it makes.
    """
    out = _begin(op, "n, ctx")
    for types, group in groupby(rules, key=lambda r: r.types):
        depth = out.when(1, _is_one_of("kind", types))
        for rule in group:
            out.rule(depth, rule)
    return out


def write_regions(op: Ops, regions: Sequence[Region]) -> Writer:
    """The function of a node of an op that gives the first region that it belongs to."""
    out = _begin(op, "n")
    for region in regions:
        out.region(out.when(1, _is_one_of("kind", region.types)), region, op)
    return out


_number = count()


def _function(op: Ops, writer: Writer) -> Callable[..., Any]:
    """The function that a source defines. Tracebacks show its lines."""
    text = "\n".join(writer.lines)
    file = f"<{op} rules {next(_number)}>"
    exec(compile(text, file, "exec"), writer.scope)  # noqa: S102  # a source that we wrote
    function: Callable[..., Any] = writer.scope[f"rewrite_{op.value}"]
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    weakref.finalize(function, linecache.cache.pop, file, None)
    return function


@lru_cache(KEPT)
def compile_rules(op: Ops, rules: tuple[Rule, ...]) -> Callable[[UOp, Any], tuple[Rule, UOp] | None]:
    """The function of `write_rules`."""
    return _function(op, write_rules(op, rules))


@lru_cache(KEPT)
def compile_regions(op: Ops, regions: tuple[Region, ...]) -> Callable[[UOp], Region | None]:
    """The function of `write_regions`."""
    return _function(op, write_regions(op, regions))
