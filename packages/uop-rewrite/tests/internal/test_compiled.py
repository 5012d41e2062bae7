"""Rules as Python source: the same matches in the same order as the matcher,
on random patterns and graphs.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import groupby
from random import Random as Draw
from typing import Any

import pytest

from uop_ir import Ops, UOp, UopError, VerifyError, dtypes
from uop_rewrite import (
    ANY,
    INDEX,
    Pattern,
    Region,
    RewriteError,
    Rule,
    RuleSet,
    const,
    each,
    graph_rewrite,
    literal,
    matches,
    symbolic,
    var,
)
from uop_rewrite.pattern import ADD, CAST, CMPLT, MUL, NEG, SINK, STACK, SUB, WHERE

pytestmark = pytest.mark.net

OPS = [Ops.ADD, Ops.SUB, Ops.NEG, Ops.MUL, Ops.CMPLT, Ops.CMPEQ, Ops.AND, Ops.WHERE, Ops.STACK, Ops.SINK]
ARITY = {Ops.NEG: 1, Ops.WHERE: 3}
X, Y, V = UOp.param(0, 4, dtypes.i32), UOp.param(1, 4, dtypes.i32), UOp.variable("v", -2, 3)
LEAVES = [
    X,
    Y,
    V,
    UOp.range(4, 0),
    *(UOp.const(d, k) for d in (dtypes.i32, dtypes.index) for k in (0, 1, -1)),
]

#: How many random graphs.
SEEDS = 400


def draws(count: int) -> Iterator[Draw]:
    return (Draw(seed) for seed in range(count))  # noqa: S311  # for tests


def graph(draw: Draw) -> list[UOp]:
    """Nodes over earlier nodes, the near ones more often, so that they repeat."""
    made = list(LEAVES)
    for _ in range(draw.randint(1, 12)):
        op = draw.choice(OPS)
        first = draw.choice(made[-4:] if draw.random() < 0.7 else made)
        others = [n for n in made if n.dtype is first.dtype]
        sources = ARITY.get(op, 2) if op is not Ops.SINK else draw.randint(0, 4)
        src = [first, *draw.choices(others, k=sources)][:sources]
        if op is Ops.WHERE:
            src[0] = draw.choice([n for n in made if n.dtype is dtypes.bool] or made)
        with suppress(VerifyError):  # an op that does not take these
            made.append(UOp(op, src))
    return made


def pattern_of(draw: Draw, node: UOp, depth: int = 0) -> Pattern:
    """A pattern that has parts of a node in it, so that it often matches; and often not."""
    if depth == 3 or (depth and draw.random() < 0.5):
        return leaf_of(draw, node)
    src = [pattern_of(draw, s, depth + 1) for s in node.src]
    if draw.random() < 0.3:
        src.reverse()
    op = node.op if draw.random() < 0.95 else draw.choice([*OPS, None])
    name = draw.choice("nx") if draw.random() < 0.2 else None
    if draw.random() < 0.1:
        return Pattern(op, None, name)
    if src and draw.random() < 0.3:
        return Pattern(op, tuple(src[: draw.randrange(len(src) + 1)]), name, src[-1])
    return Pattern(op, tuple(src), name)


def leaf_of(draw: Draw, node: UOp) -> Pattern:
    if node.op is Ops.CONST and draw.random() < 0.3:
        return literal(draw.choice([node.value, 1]))
    leaf = draw.choice([var(draw.choice("xy")), const(draw.choice("ab")), Pattern(), Pattern(node.op)])
    return leaf.of(frozenset({node.dtype.kind})) if draw.random() < 0.2 else leaf


def logged(pattern: Pattern, log: list[Any]) -> Callable[..., None]:
    """A replacement that takes all names of a pattern, and writes down what they are bound to."""
    names = sorted(pattern.names)
    text = f"lambda {', '.join(names)}: log.append(({' '.join(f'{n},' for n in names)}))"
    made: Callable[..., None] = eval(text, {"log": log})  # noqa: S307  # a text that we wrote
    return made


def test_compiled_rules_match_as_the_matcher_does() -> None:
    found = 0
    for draw in draws(SEEDS):
        made = graph(draw)
        found += compare(pattern_of(draw, draw.choice(made)), made)
    assert found > SEEDS / 2


def compare(pattern: Pattern, nodes: list[UOp]) -> int:
    """Check a pattern's matches with nodes; gives how many there are."""
    log: list[Any] = []
    found = 0
    rules = RuleSet([Rule("log", pattern, logged(pattern, log), types=ANY)])
    for node in nodes:
        log.clear()
        assert rules.rewrite(node) is None
        wanted = [tuple(m[n] for n in sorted(m)) for m in matches(pattern, node)]
        # where further sources match in many ways, the matcher gives one and the function may try more
        assert [k for k, _ in groupby(log)] == [k for k, _ in groupby(wanted)]
        found += len(wanted)
    return found


def test_compiled_sets_rewrite_as_interpreted_ones_do() -> None:
    """The first rule and the first match whose condition holds."""
    found = 0
    for draw in draws(SEEDS):
        made = graph(draw)
        rules = [random_rule(draw, str(i), made) for i in range(draw.randint(1, 5))]
        compiled, interpreted = RuleSet(rules), RuleSet(rules, compiled=False)
        for node in made:
            same = [n for n in made if n.dtype is node.dtype]
            wanted = interpreted.rewrite(node, same)
            assert compiled.rewrite(node, same) == wanted
            found += wanted is not None
    assert found > SEEDS / 2


def random_rule(draw: Draw, name: str, nodes: list[UOp]) -> Rule:
    pattern, k = pattern_of(draw, draw.choice(nodes)), draw.randrange(5)
    types = draw.choice([ANY, INDEX, ANY - INDEX])
    return Rule(name, pattern, lambda ctx: ctx[k % len(ctx)], condition_on(pattern, k), types)


def condition_on(pattern: Pattern, k: int) -> Callable[..., bool]:
    """A condition on what the names are bound to, true of about half."""
    names = sorted(pattern.names)
    text = f"lambda {', '.join(names)}: (sum(map(place, [{', '.join(names)}])) + {k}) % 2 == 0"
    made: Callable[..., bool] = eval(text, {"place": lambda n: len(n.src) + (n.op is Ops.CONST)})  # noqa: S307
    return made


def test_compiled_regions_have_the_same_nodes() -> None:
    found = 0
    for draw in draws(SEEDS):
        made = graph(draw)
        patterns = [pattern_of(draw, draw.choice(made)) for _ in range(3)]
        regions = [Region(str(p), (p,), draw.choice([ANY, INDEX])) for p in patterns]
        compiled, interpreted = RuleSet([], regions), RuleSet([], regions, compiled=False)
        for node in made:
            wanted = next((r for r in regions if r.has(node)), None)
            assert compiled.region(node) is wanted
            assert interpreted.region(node) is wanted
            found += wanted is not None
    assert found > SEEDS


def test_a_graph_is_rewritten_to_the_same() -> None:
    rules = RuleSet(symbolic.rules, symbolic.regions, compiled=False)
    for draw in draws(200):
        root = UOp.sink(*(n for n in graph(draw) if n.op is not Ops.SINK))
        assert graph_rewrite(root, symbolic) is graph_rewrite(root, rules)


x, y, a = var("x"), var("y"), const("a")


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        (MUL(x, 0), [X * 0, V * 0, UOp.const(dtypes.index, 0) * V], [X * 1, X + 0]),
        (ADD(x, -0.0), [V.cast(dtypes.f32) + -0.0], [V.cast(dtypes.f32) + 0.0]),
        (ADD(x, 0.5), [V.cast(dtypes.f32) + 0.5], [V + 0]),
        (SINK(x, ...), [UOp.sink(X), UOp.sink(X, Y, V)], [UOp.sink()]),
        (SINK(...), [UOp.sink(), UOp.sink(*LEAVES)], [X]),
        (STACK(x, each(x)), [UOp(Ops.STACK, (X, X, X)), UOp(Ops.STACK, (X,))], [UOp(Ops.STACK, (X, Y))]),
        (
            STACK(NEG(x), each(NEG(x))),
            [UOp(Ops.STACK, (-X, -X))],
            [UOp(Ops.STACK, (-X, -Y)), UOp(Ops.STACK, (-X, X))],
        ),
        (SINK(each(NEG(x))), [UOp.sink(-X, -Y), UOp.sink()], [UOp.sink(-X, Y)]),
        (ADD(each(a)), [UOp.const(dtypes.i32, 1) + 2], [X + 1]),
        (CAST(x.of(INDEX)), [V.cast(dtypes.i32)], [X.cast(dtypes.f32)]),
        (WHERE(CMPLT(x, y), x, y), [(X < Y).where(X, Y)], [(X < Y).where(Y, X)]),
        (SUB(NEG(x), x).named("n"), [-X - X], [-X - Y]),
    ],
    ids=str,
)
def test_patterns_mean_what_they_say(pattern: Pattern, yes: list[UOp], no: list[UOp]) -> None:
    for compiled in (True, False):
        rules = RuleSet([Rule("found", pattern, lambda ctx: ctx(), types=ANY)], compiled=compiled)

        for node in (*yes, *no):
            hits: list[UOp] = []
            rules.rewrite(node, lambda: hits.append(node))  # noqa: B023  # called at once
            assert bool(hits) is (node in yes), (compiled, node)


def test_only_the_last_sources_can_be_any_number() -> None:
    with pytest.raises(UopError, match="SINK: only the last operand"):
        SINK(..., x)


@pytest.mark.parametrize("operand", ["x", None, [x], 1j, Ops.ADD])
def test_what_is_neither_a_pattern_nor_a_number_is_refused(operand: Any) -> None:
    with pytest.raises(
        UopError, match=r'ADD: .* is neither a pattern nor a number \(var\("x"\) is a pattern\)'
    ):
        ADD(x, operand)


def test_a_name_that_the_pattern_does_not_bind_is_refused_where_the_rule_is_made() -> None:
    for pattern in (ADD(x, 0), SINK(x, each(y))):
        with pytest.raises(RewriteError, match=r"'lost': replacement takes y, which .* does not bind"):
            Rule("lost", pattern, lambda x, y: x + y)
    with pytest.raises(RewriteError, match="when takes a, which"):
        Rule("lost", ADD(x, y), lambda x: x, when=lambda ctx, a: bool(a))
    k = 3
    assert Rule("default", ADD(x, y), lambda x, k=k: x * k).apply(X + Y) is X * 3


def test_wide_nodes_match_without_recursion() -> None:
    wide = UOp.sink(*[X] * 50_000)
    for compiled in (True, False):
        rules = RuleSet([Rule("all", SINK(x, each(x)), lambda: UOp.sink(), types=ANY)], compiled=compiled)
        assert graph_rewrite(wide, rules) is UOp.sink()


def test_patterns_with_too_many_orders_are_left_to_the_matcher() -> None:
    deep = a
    for _ in range(6):
        deep = ADD(deep, x)
    rules = RuleSet([Rule("deep", deep, lambda a, x: x, types=ANY)])
    assert "apply" in rules.source(Ops.ADD)
    node = UOp.const(dtypes.i32, 3)
    for i in range(6):
        node = X + node if i % 2 else node + X
    assert graph_rewrite(node, rules) is X


def test_the_source_is_printed() -> None:
    rules = RuleSet([Rule("times zero", MUL(x, 0), lambda x: x.const_like(0), types=INDEX)])
    assert (
        rules.source(Ops.MUL)
        == """\
def rewrite_mul(n, ctx):
    n_0, n_1 = n.src
    kind = n.dtype.kind
    if kind is index:
        # times zero: MUL(x, 0)
        if n_1 is constant0.get(n_1.dtype):
            new = make0(n_0)
            if new is not None and new is not n:
                if not isinstance(new, UOp):
                    raise rule0.no_uop(n, new)
                if new.shape == n.shape:
                    return rule0, rule0.checked(n, new)
        if n_0 is not n_1 and n_0 is constant0.get(n_0.dtype):
            new = make0(n_1)
            if new is not None and new is not n:
                if not isinstance(new, UOp):
                    raise rule0.no_uop(n, new)
                if new.shape == n.shape:
                    return rule0, rule0.checked(n, new)
"""
    )


def test_tracebacks_show_the_source_as_long_as_the_function_lives() -> None:
    rules = RuleSet([Rule("broken", ADD(x, y), lambda ctx: ctx.missing)])
    with pytest.raises(AttributeError) as error:
        graph_rewrite(X + Y, rules)
    text = "".join(traceback.format_exception(error.value))
    assert "new = make0(ctx)" in text


def test_functions_are_shared_by_sets_of_the_same_rules() -> None:
    rule = Rule("swap", ADD(x, y), lambda x, y: x * y)
    first, second = RuleSet([rule]), RuleSet([rule]) + RuleSet([])
    assert first.finders[Ops.ADD] is second.finders[Ops.ADD]
    assert first.finders[Ops.MUL] is None
