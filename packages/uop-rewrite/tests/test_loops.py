"""Rules without end: an error that names those that feed each other,
and shows both terms, soon, at any depth.
"""

from __future__ import annotations

from typing import Any

import pytest

from uop_ir import Ops, UOp, dtypes, parse_uir
from uop_rewrite import Order, Pattern, RewriteError, Rule, RuleSet, const, graph_rewrite, var

X, Y = UOp.param(0, 4, dtypes.i32), UOp.param(1, 4, dtypes.i32)
x, y, a = var("x"), var("y"), const("a")


def rule(name: str, op: Ops, replacement: Any, *src: Pattern) -> Rule:
    return Rule(name, Pattern(op, src or (x, y), "n"), replacement)


def around(n: UOp, depth: int) -> UOp:
    for i in range(depth):
        n = UOp(Ops.XOR, (n, Y)) if i % 2 else UOp(Ops.OR, (n, X))
    return n


ADD_TO_MUL = rule("add to mul", Ops.ADD, lambda x, y: x * y)
#: For each kind of loop: the rules, a term that they never finish, the rules to be named.
LOOPS: dict[str, tuple[list[Rule], UOp, set[str]]] = {
    "two rules": ([ADD_TO_MUL, rule("mul to add", Ops.MUL, lambda x, y: x + y)], X + Y, {"add to mul", "mul to add"}),
    "three rules": (
        [ADD_TO_MUL, rule("mul to sub", Ops.MUL, lambda x, y: x - y), rule("sub to add", Ops.SUB, lambda x, y: x + y)],
        X + Y,
        {"add to mul", "mul to sub", "sub to add"},
    ),
    "a way in": (
        [rule("neg to add", Ops.NEG, lambda x: x + x, x), ADD_TO_MUL, rule("back", Ops.MUL, lambda x, y: x + y)],
        -X,
        {"add to mul", "back"},
    ),
    "the term and more": ([rule("plus zero", Ops.ADD, lambda n: n + 0)], X + Y, {"plus zero"}),
    "the term deep inside": ([rule("wrap", Ops.ADD, lambda n: around(n, 50))], X + Y, {"wrap"}),
    "a leaf": ([Rule("leaf", Pattern(Ops.PARAM, (), "n"), lambda n: -n)], X, {"leaf"}),
    "a constant that counts": ([rule("count", Ops.ADD, lambda x, a: x + (a.value + 1), x, a)], X + 1, {"count"}),
    "terms that grow": ([rule("grow", Ops.MUL, lambda x, a: (-x) * (a.value + 1), x, a)], X * 1, {"grow"}),
    "growth below the root": (
        [rule("pull", Ops.NEG, lambda x: x - 1, x), rule("push", Ops.SUB, lambda x, a: -(x + (a.value + 1)), x, a)],
        -X,
        {"pull", "push"},
    ),
}  # fmt: skip


@pytest.mark.net
@pytest.mark.parametrize("kind", LOOPS)
@pytest.mark.parametrize("order", ["bottom-up", "top-down"])
@pytest.mark.parametrize("place", ["alone", "at the bottom", "at the top"])
def test_a_loop_is_an_error(kind: str, order: Order, place: str) -> None:
    rules, root, names = LOOPS[kind]
    if place == "at the bottom":
        root = around(root, 5000)
    if place == "at the top":
        root = root.substitute({X: around(X, 5000)})
    with pytest.raises(RewriteError) as error:
        graph_rewrite(root, RuleSet(rules), order=order)
    first, before, after = parts(str(error.value))
    assert set(first.removeprefix("rules rewrite for ever: ").split(", ")) == names
    assert before.dtype is after.dtype


def parts(message: str) -> tuple[str, UOp, UOp]:
    """The first line of an error, and the two terms that it prints, which are .uir and not long."""
    first, _, terms = message.partition("\nfrom\n")
    before, _, after = terms.partition("\nto\n")
    assert max(before.count("\n"), after.count("\n")) < 20
    return first, parse_uir(before, "before").nodes[-1], parse_uir(after, "after").nodes[-1]


def test_the_terms_of_a_short_loop_are_printed_whole() -> None:
    with pytest.raises(RewriteError) as error:
        graph_rewrite((X + Y) - 1, RuleSet(LOOPS["two rules"][0]))
    _, before, after = parts(str(error.value))
    assert (before, after) == (X + Y, X * Y)


def test_what_lies_deep_is_named_in_the_terms() -> None:
    with pytest.raises(RewriteError) as error:
        graph_rewrite(around(UOp.const(dtypes.i32, 3), 100) + Y, RuleSet(LOOPS["two rules"][0]))
    _, before, _ = parts(str(error.value))
    deep = [n for n in before.toposort() if n.op is Ops.PARAM and n.arg.name]
    assert [n.arg.name for n in deep] == ["deep0"]


def test_terms_that_cannot_be_cut_are_told_in_a_line() -> None:
    """What lies deeper is a value of many elements, for which no scalar stands."""
    deep = X.reshape((2, 2))
    for _ in range(30):
        deep = deep.permute((1, 0)).flip((True, False))
    with pytest.raises(RewriteError, match=r"(?s)from\nUOp\(Ops.ADD.*to\nUOp\(Ops.MUL"):
        graph_rewrite(deep + deep.flip((True, True)), RuleSet(LOOPS["two rules"][0]))


@pytest.mark.net
def test_long_work_that_ends_is_no_loop() -> None:
    """Thousands of replacements, one within the other, each of which goes deeper."""
    right, left = X, Y * 3999
    for i in range(4000):
        right = (Y * i).maximum(right)
    for i in reversed(range(3999)):
        left = left.maximum(Y * i)
    to_the_left = RuleSet([rule("turn", Ops.MAX, turned)])
    assert graph_rewrite(right, to_the_left, order="top-down") is left.maximum(X)


def turned(x: UOp, y: UOp) -> UOp | None:
    """max(x, max(p, q)) == max(max(x, p), q)"""
    return x.maximum(y.src[0]).maximum(y.src[1]) if y.op is Ops.MAX else None
