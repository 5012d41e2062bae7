"""Profiles: how often rules are tried and applied, and time, each second counted once."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar

from uop_ir import Ops, UOp, dtypes
from uop_rewrite import Pass, Pattern, Profile, Rule, RuleSet, graph_rewrite, observing, var

X = UOp.param(0, 4, dtypes.i32)
x = var("x")
PAUSE = 0.02


def slow_never(x: UOp) -> None:
    time.sleep(PAUSE)


SLOW = Rule("slow", Pattern(Ops.NEG, (x,)), slow_never)
TWICE = Rule("twice", Pattern(Ops.ADD, (x, x)), lambda x: x * 2)


@dataclass(frozen=True)
class Rewrite(Pass):
    name: ClassVar = "rewrite"
    purpose: ClassVar = "some rules"

    rules: RuleSet

    def run(self, root: UOp) -> UOp:
        return graph_rewrite(root, self.rules)


def test_counts_and_seconds() -> None:
    profile = Profile()
    rules = RuleSet([SLOW, TWICE])
    root = UOp.sink(-X, -(X + X), X + 1)
    profile.run(root, [Rewrite(rules), Rewrite(RuleSet([]))])
    first, second = profile.passes
    assert (first.name, first.before, first.after) == ("rewrite", 7, 8)
    slow, twice = first.rules["slow"], first.rules["twice"]
    assert (slow.tried, slow.applied, twice.tried, twice.applied) == (2, 0, 2, 1)
    assert first.seconds > slow.seconds + twice.seconds
    assert slow.seconds >= 2 * PAUSE > twice.seconds
    assert (second.rules, second.before, second.after) == ({}, 8, 8)
    assert second.seconds < PAUSE


def test_the_time_of_rules_within_a_rule_is_counted_once() -> None:
    outer = Rule("outer", Pattern(Ops.NEG, (x,)), lambda x: graph_rewrite(-x, RuleSet([SLOW, TWICE])))
    profile = Profile()
    profile.run(-(X + X), [Rewrite(RuleSet([outer]))])
    (step,) = profile.passes
    assert step.rules["slow"].seconds >= PAUSE > step.rules["outer"].seconds
    assert step.seconds > sum(rule.seconds for rule in step.rules.values())


def test_the_time_of_a_rule_within_another_is_taken_from_that_one_only() -> None:
    def look(x: UOp) -> None:
        graph_rewrite(-x, RuleSet([SLOW]))

    looks = Rule("looks", Pattern(Ops.NEG, (x,)), look)
    profile = Profile()
    profile.run(-X, [Rewrite(RuleSet([looks, SLOW]))])
    rules = profile.passes[0].rules
    assert rules["slow"].tried == 2
    assert rules["slow"].seconds >= 2 * PAUSE
    assert PAUSE > rules["looks"].seconds > 0


def test_rules_are_timed_outside_of_passes_too() -> None:
    profile = Profile()
    profile.run(-X, [Rewrite(RuleSet([SLOW]))])
    with observing(profile):
        graph_rewrite(X + X, RuleSet([TWICE]))
    assert [step.rules.keys() for step in profile.passes] == [{"slow"}]
    assert profile.rules.keys() == {"twice"}
    assert (profile.rules["twice"].tried, profile.rules["twice"].applied) == (1, 1)
