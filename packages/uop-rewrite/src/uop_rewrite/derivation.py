"""Derivations: the replacements that are being rewritten,
one within the other, and the end of those without end.

Week 1. Rules that feed each other show as a term that comes back within its own derivation. Rules that grow a
term without end show in a long derivation that goes no deeper into the term that it began with.
"""

from __future__ import annotations

from uop_ir import DType, Ops, Param, UOp, UopError, dtypes, format_uir

from .rules import RewriteError, Rule

#: A derivation may have this many steps, and then this many after each that goes deeper.
LIMIT = 1000
#: Of a long derivation, the last steps tell which rules take part.
NAMED = 16
#: How many nodes of a term an error prints.
SHOWN = 12


class Derivation:
    """The replacements whose rewriting has begun and not ended, and the rule that made each."""

    def __init__(self) -> None:
        self.steps: dict[UOp, Rule] = {}
        #: Of a long derivation: the nodes of the term that it began with,
        #: those seen since, steps that saw none new.
        self.first: set[UOp] = set()
        self.seen: set[UOp] = set()
        self.idle = 0

    def enter(self, rule: Rule, before: UOp, after: UOp) -> None:
        """`after` takes the place of `before`. Raises RewriteError where this can have no end."""
        if after in self.steps:
            made = list(self.steps)
            self._fail([*list(self.steps.values())[made.index(after) + 1 :], rule], before, after)
        if len(self.steps) >= LIMIT:
            self.idle = 0 if self._deeper(after) else self.idle + 1
            if self.idle > LIMIT:
                self._fail([*list(self.steps.values())[-NAMED:], rule], before, after)
        self.steps[after] = rule

    def leave(self, after: UOp) -> None:
        """`after` is rewritten to its end."""
        self.steps.pop(after, None)
        if not self.steps and self.first:
            self.first, self.seen, self.idle = set(), set(), 0

    def _deeper(self, after: UOp) -> bool:
        """Whether a term stands on nodes of the first one, leaves apart, that none before it stood on."""
        if not self.first:
            self.first.update(next(iter(self.steps)).toposort())
        deeper = False
        stack = [after]
        while stack:
            node = stack.pop()
            if node in self.seen:
                continue
            self.seen.add(node)
            if node in self.first:
                deeper = deeper or bool(node.src)
            else:
                stack += node.src
        return deeper

    def _fail(self, rules: list[Rule], before: UOp, after: UOp) -> None:
        names = ", ".join(dict.fromkeys(r.name for r in rules))
        raise RewriteError(
            f"rules rewrite for ever: {names}\nfrom\n{shown(before)}to\n{shown(after)}".rstrip()
        )


def shown(node: UOp) -> str:
    """The text of a term, or of its outermost nodes:
    those deeper are scalars called `deep`, with a number.
    """
    near = [node]
    for n in near:
        near += [s for s in dict.fromkeys(n.src) if s not in near][: SHOWN - len(near)]
    new: dict[UOp, UOp] = {}
    try:
        for n in node.toposort(gate=lambda n: n in near):
            if n in near or not n.src:
                new[n] = n.replace(src=tuple(new[s] for s in n.src))
            else:
                new[n] = _scalar(n.dtype, f"deep{len(new)}")
        return format_uir(new[node])
    except UopError:  # what lies deeper is no scalar
        return f"{node!r}\n"


def _scalar(dtype: DType, name: str) -> UOp:
    least, greatest = (int(dtype.min), int(dtype.max)) if dtype is dtypes.index else (None, None)
    return UOp(Ops.PARAM, (), Param(dtype, name=name, min=least, max=greatest))
