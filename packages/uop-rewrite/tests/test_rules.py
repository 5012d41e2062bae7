"""Every rule alone, on instances of its pattern:
all values of types of 8 bits, special ones of wider types.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import pytest

from uop_ir import BoundsError, DType, Ops, UOp, VerifyError, dtypes, evaluate
from uop_rewrite import Pattern, Rule, RuleSet, graph_rewrite, symbolic

pytestmark = pytest.mark.net

Bound: TypeAlias = dict[str, UOp]

COMPARE = frozenset({Ops.CMPLT, Ops.CMPNE, Ops.CMPEQ})
CONVERT = frozenset({Ops.CAST, Ops.BITCAST})
ARITY = {
    Ops.NEG: 1,
    Ops.RECIP: 1,
    Ops.SQRT: 1,
    Ops.TRUNC: 1,
    Ops.CAST: 1,
    Ops.BITCAST: 1,
    Ops.MULACC: 3,
    Ops.WHERE: 3,
}
TYPES = (dtypes.bool, dtypes.i8, dtypes.u8, dtypes.i64, dtypes.u64, *dtypes.floats, dtypes.index)
CAST_TYPES = (dtypes.bool, dtypes.i8, dtypes.u8, dtypes.i32, dtypes.u64, dtypes.f16, dtypes.f32, dtypes.index)
R, V = UOp.range(12, 0), UOp.variable("v", -7, 6)
INDICES: tuple[UOp, ...] = (
    V, R, -V, V + 3, R * 4 + V, R * 6 - V * 4 + 1, V * -6 + R * -3 + 5, V // 3, V % 3, R % 4 * 2 + R // 4 * 8,
    R % 2 * 3 + R // 2 % 3 * 6, R % -2 * 3 + R // -2 % -3 * -6, R % 12 + V * 5, R % 6 // 2, V * R, R // 5 - R, V + 20,
)  # fmt: skip


def source_types(op: Ops, dtype: DType) -> list[tuple[DType, ...]]:
    """The types that the sources of a node of type `dtype` can have."""
    if op in CONVERT:
        return [(d,) for d in CAST_TYPES]
    if op is Ops.WHERE:
        return [(dtypes.bool, dtype, dtype)]
    if op in COMPARE:
        return [(d, d) for d in TYPES] if dtype is dtypes.bool else []
    return [(dtype,) * ARITY.get(op, 2)]


def variables(kit: Any, name: str, dtype: DType, wanted: slice) -> list[UOp]:
    flag, open_ = kit.scalar("flag", dtypes.bool), name.startswith("?")
    if dtype is dtypes.index:
        chosen = [flag.where(V.const_like(2), V.const_like(5)), flag.where(R, V), UOp.variable("one", 2, 2)]
        return [UOp.variable(name.strip("?"), -5, 6), *INDICES[wanted], *(chosen if open_ else [])]
    out: list[UOp] = [kit.scalar(name.strip("?"), dtype)]
    if dtype is dtypes.bool:
        return [*out, R.eq(2), *([flag, flag.ne(True)] if open_ or wanted.step == 1 else [])]
    if dtype.is_int and dtype is not dtypes.u64 and wanted.step == 1:  # of u64, sums are past an index
        summand = kit.scalar("s", dtype)
        out += [summand + 3, summand * 2 - out[0]]
    if open_:
        if dtype.is_int:
            out += [(R - 3).cast(dtype), R.cast(dtype)]
        out.append(flag.where(UOp.const(dtype, 1), UOp.const(dtype, 3)))
    return out


def constants(kit: Any, dtype: DType, wanted: slice) -> list[UOp]:
    if dtype is dtypes.index:
        return [UOp.const(dtype, v) for v in (-3, -1, 0, 1, 2, 3, 4, 6, 12)][wanted]
    few = [UOp.const(dtype, v) for v in ((False, True) if dtype is dtypes.bool else (1, 0.0, -0.0))]
    return few if wanted.step == 9 else [UOp.const(dtype, v.item()) for v in kit.special(dtype)]


def instances(
    kit: Any, pattern: Pattern, dtype: DType, bound: Bound, wanted: slice
) -> Iterator[tuple[UOp, Bound]]:
    """Nodes of a type that match a pattern, each with what the pattern's variables are bound to."""
    if pattern.op is None or pattern.op is Ops.CONST:
        name = str(pattern.name)
        if name in bound:
            if bound[name].dtype is dtype:
                yield bound[name], bound
            return
        leaves = [] if pattern.op is Ops.CONST else variables(kit, name, dtype, wanted)
        if pattern.op is Ops.CONST or name.startswith("?"):
            leaves = leaves + constants(kit, dtype, wanted)
        for leaf in leaves:
            yield leaf, {**bound, name: leaf}
        return
    for types in source_types(pattern.op, dtype):
        # where the pattern leaves the sources open: variables and constants
        sources = pattern.src or tuple(Pattern(name=f"?s{i}") for i in range(len(types)))
        found: list[tuple[tuple[UOp, ...], Bound]] = [((), bound)]
        for source, d in zip(sources, types, strict=True):
            found = [
                ((*nodes, node), after)
                for nodes, b in found
                for node, after in instances(kit, source, d, b, wanted)
            ]
        for nodes, after in found:
            try:
                node = UOp(pattern.op, nodes, dtype if pattern.op in CONVERT else None)
            except VerifyError:  # the op does not take these types
                break
            yield node, after


def domains(kit: Any, node: UOp) -> dict[UOp, Any]:
    """All values for the first two scalars of 8 bits, or the first of 16; special ones for the others."""
    scalars = [n for n in node.toposort() if n.op is Ops.PARAM and n.dtype is not dtypes.index]
    wide = {s for i, s in enumerate(scalars) if (s.dtype.bits <= 8 and i < 2) or i == 0}
    out = {s: kit.everything(s.dtype) if s in wide else kit.special(s.dtype) for s in scalars}
    if any(n.dtype is dtypes.index for n in node.toposort()):  # which has no place for more
        out = {s: v[v <= dtypes.i64.max] if s.dtype is dtypes.u64 else v for s, v in out.items()}
    return out


def numbered(rules: RuleSet) -> list[Any]:
    return [pytest.param(r, id=f"{r.name}-{r.pattern.op.value if r.pattern.op else ''}") for r in rules.rules]


#: Rules about memory are tested in test_guards.
VALUED = RuleSet(r for r in symbolic.rules if r.pattern.op not in (Ops.INDEX, Ops.LOAD))


@pytest.mark.parametrize("rule", numbered(VALUED))
def test_rule_keeps_every_value(kit: Any, rule: Rule) -> None:
    # where instances are many, fewer values of each operand
    many = 9 if rule.pattern.op in (Ops.WHERE, Ops.MULACC) else 3 if rule.pattern.src is None else 1
    wanted = slice(None, None, many)
    fired = set()
    for dtype in TYPES:
        for node, _ in instances(kit, rule.pattern, dtype, {}, wanted):
            try:
                new = rule.apply(node)
            except BoundsError:  # of constants
                with pytest.raises(BoundsError):
                    evaluate([node], {})
                continue
            if new is not None:
                kit.agree(node, new, domains(kit, node))
                fired.add(node.src[0].dtype.kind if node.op in COMPARE else node.dtype.kind)
    assert fired
    assert fired <= rule.types


def test_vectors_keep_their_shape() -> None:
    """Operands broadcast: the shape of a node may come from the operand that a rule would drop."""
    vector = UOp.param(0, 4, dtypes.i32)
    truths = vector < 2
    x = UOp.const(dtypes.i32, 1) + UOp.param(1, 1, dtypes.i32).reshape(())
    yes = UOp.const(dtypes.bool, True)
    at = vector.cast(dtypes.index)
    for node in (
        vector * 0, vector - vector, truths & False, truths | True, truths.where(x, x), yes.where(x, vector),
        truths.where(truths.where(x, vector), x), at % 1, at * 0, at - at, at < at + 0, at.maximum(1 << 40), at // 1 - at,
    ):  # fmt: skip
        after = graph_rewrite(node, symbolic)
        assert after.shape == node.shape == (4,)
        memory = {n: np.arange(n.arg.size, dtype=np.int32) for n in node.toposort() if n.op is Ops.PARAM}
        one, two = evaluate([node, after], memory)
        np.testing.assert_array_equal(two, one)


@pytest.mark.parametrize("dtype", [dtypes.i8, dtypes.f32, dtypes.bool, dtypes.index], ids=str)
def test_only_a_bool_is_negated_twice(kit: Any, dtype: DType) -> None:
    """`(x != 1) != true` is no x of another type."""
    before = (V if dtype is dtypes.index else kit.scalar("x", dtype)).ne(1).ne(True)
    kit.agree(before, graph_rewrite(before, symbolic))
