"""What the tests share: the values of two expressions compared bit for bit,
and a strategy of index expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import settings
from hypothesis import strategies as st

from uop_ir import DType, Kind, Ops, Param, UOp, dtypes, evaluate
from uop_rewrite import Rule, RuleSet

Array = npt.NDArray[Any]

if settings.get_current_profile_name() == "default":  # without the conftest of the whole repository
    settings.register_profile("rewrite", deadline=None)
    settings.load_profile("rewrite")

#: Bit patterns of floats where rounding, signs and special values show.
FLOATS: dict[DType, tuple[float, ...]] = {
    d: (0.0, -0.0, 1.0, -1.0, 1.5, -2.0, 3.0, 0.1, np.inf, -np.inf, np.nan, tiny, -tiny, least, most, -most)
    for d, tiny, least, most in (
        (dtypes.f16, 6e-8, 6.104e-05, 65504.0),
        (dtypes.bf16, 9.2e-41, 1.18e-38, 3.39e38),
        (dtypes.f32, 1e-45, 1.18e-38, 3.4028235e38),
        (dtypes.f64, 5e-324, 2.3e-308, 1.79e308),
    )
}


def special(dtype: DType) -> Array:
    """Values of a type that rules are likely to get wrong."""
    if dtype.is_float:
        return np.array(FLOATS[dtype], np.float64).astype(dtype.numpy)
    if dtype is dtypes.bool:
        return np.array([False, True])
    least, most = int(dtype.min), int(dtype.max)
    found = {least, least + 1, most - 1, most, 0, 1, 2, 3, 7} | ({-1, -2, -5} if least else set())
    return np.array(sorted(found), dtype.numpy)


def everything(dtype: DType) -> Array:
    """All values of a type of 8 or 16 bits or of bool, special values of a wider one."""
    if dtype in (dtypes.f16, dtypes.bf16):
        return np.arange(1 << 16, dtype=np.uint16).view(dtype.numpy)
    if dtype.kind in (Kind.SIGNED, Kind.UNSIGNED) and dtype.bits == 8:
        return np.arange(int(dtype.min), int(dtype.max) + 1).astype(dtype.numpy)
    return special(dtype)


def domain(leaf: UOp) -> Array:
    """All values of an index variable or range with constant bounds; special values of another scalar."""
    if leaf.op is Ops.RANGE:
        return np.arange(int(leaf.src[0].value))
    if leaf.dtype is dtypes.index:
        return np.arange(leaf.arg.min, leaf.arg.max + 1)
    return special(leaf.dtype)


def is_leaf(node: UOp) -> bool:
    return node.op is Ops.RANGE or (node.op is Ops.PARAM and not node.shape)


def contents(memory: UOp) -> Array:
    """What a memory PARAM holds: special values of its type."""
    return np.resize(special(memory.dtype)[::-1], memory.arg.size)


def values(outputs: Sequence[UOp], domains: Mapping[UOp, Array] | None = None) -> list[Array]:
    """The values of expressions for all combinations of values of their leaves, by the interpreter.

    Leaves are scalars, and ranges that no REDUCE closes. Memory holds special values. Expressions of a shape
    are evaluated for some of the combinations.
    """
    order = UOp.sink(*outputs).toposort()
    closed = {r for n in order if n.op is Ops.REDUCE for r in n.src[1:]}
    sizing = UOp.sink(*(r.src[0] for r in closed)).toposort()  # what the ends of loops depend on
    entered = UOp.sink(*outputs).toposort(gate=lambda n: n in closed or not is_leaf(n))
    leaves = [n for n in entered if is_leaf(n) and n not in closed]
    chosen = {leaf: (domains or {}).get(leaf, domain(leaf)) for leaf in leaves}
    memory = {n: contents(n) for n in order if n.op is Ops.PARAM and n.shape}
    shaped = any(o.shape for o in outputs)
    outer = [leaf for leaf in leaves if shaped or leaf in sizing]
    combinations = list(product(*(chosen[leaf] for leaf in outer)))
    found = []
    for given in combinations[:: max(1, len(combinations) // 32)] if shaped else combinations:
        fixed = {leaf: leaf.const_like(value.item()) for leaf, value in zip(outer, given, strict=True)}
        some = [o.substitute(fixed) for o in outputs]
        found.append(_arrays(some, {n: v for n, v in chosen.items() if n not in fixed}, memory))
    return [np.concatenate([np.ravel(r) for r in results]) for results in zip(*found, strict=True)]


def _arrays(outputs: Sequence[UOp], chosen: Mapping[UOp, Array], memory: Mapping[UOp, Array]) -> list[Array]:
    """The leaves as arrays of all combinations of their values."""
    grids = [g.reshape(-1) for g in np.meshgrid(*chosen.values(), indexing="ij")] if chosen else []
    size = grids[0].size if grids else 1
    mapping: dict[UOp, UOp] = {}
    inputs: dict[UOp, Array] = dict(memory)
    for slot, (leaf, grid) in enumerate(zip(chosen, grids, strict=True), 1000):
        column = UOp.param(slot, size, dtypes.i64 if leaf.dtype is dtypes.index else leaf.dtype)
        mapping[leaf] = column.cast(leaf.dtype)
        inputs[column] = grid.astype(column.dtype.numpy)
    results = evaluate([o.substitute(mapping) for o in outputs], inputs)
    return [r if o.shape else np.broadcast_to(r, (size,)) for o, r in zip(outputs, results, strict=True)]


def bits(value: Array) -> Array:
    """The bits of an array, all NaNs alike."""
    if value.dtype.kind in "biu":
        return value
    unsigned = np.ascontiguousarray(value).view(f"u{value.dtype.itemsize}")
    with np.errstate(invalid="ignore"):  # signalling NaNs
        return np.where(np.isnan(value), unsigned.dtype.type(1), unsigned)


def agree(before: UOp, after: UOp, domains: Mapping[UOp, Array] | None = None) -> None:
    """Fail unless two expressions have one type and equal bits for all values of their leaves."""
    assert after.dtype is before.dtype
    assert after.shape == before.shape
    one, two = values([before, after], domains)
    np.testing.assert_array_equal(bits(two), bits(one))


def scalar(name: str, dtype: DType) -> UOp:
    return UOp(Ops.PARAM, (), Param(dtype, name=name))


R0, R1 = UOp.range(6, 0), UOp.range(4, 1)
V, W = UOp.variable("v", -3, 5), UOp.variable("w", 1, 3)


@st.composite
def index_expressions(draw: st.DrawFn, leaves: Sequence[UOp] = (R0, R1, V, W), most: int = 12) -> UOp:
    """A node of dtype index or bool, of up to `most` operations over a few ranged variables."""
    numbers = [*leaves, *(UOp.const(dtypes.index, draw(st.integers(-9, 9))) for _ in range(2))]
    truths = [numbers[0] < 3]

    def number() -> UOp:
        return draw(st.sampled_from(numbers))

    def truth() -> UOp:
        return draw(st.sampled_from(truths))

    def constant() -> int:
        return draw(st.integers(-9, 9))

    steps: tuple[Callable[[], UOp], ...] = (
        lambda: number() + number(),
        lambda: number() - number(),
        lambda: number() + constant(),
        lambda: number() * constant(),
        lambda: number() // constant(),
        lambda: number() % constant(),
        lambda: number() // abs(constant()),
        lambda: number() % abs(constant()),
        lambda: number() * number(),
        lambda: number() // number(),
        lambda: number() % number(),
        lambda: -number(),
        lambda: number().maximum(number()),
        lambda: truth().where(number(), number()),
        lambda: number() < number(),
        lambda: number() < constant(),
        lambda: number().eq(number()),
        lambda: number().ne(number()),
        lambda: truth() & truth(),
        lambda: truth() | truth(),
        lambda: truth().ne(True),
    )
    for _ in range(draw(st.integers(1, most))):
        new = draw(st.sampled_from(steps))()
        (truths if new.dtype is dtypes.bool else numbers).append(new)
    return new


class Fired:
    """An observer that gathers the names of the rules that apply."""

    times = False

    def __init__(self) -> None:
        self.rules: set[str] = set()

    def started(self, root: UOp, rules: RuleSet, order: str) -> None: ...
    def tried(self, rule: Rule, seconds: float, hit: bool) -> None: ...
    def finished(self, root: UOp, result: UOp | None) -> None: ...

    def applied(self, rule: Rule, before: UOp, after: UOp) -> None:
        self.rules.add(rule.name)


@pytest.fixture(scope="session")
def kit() -> Any:
    """The helpers of this file, under one name."""

    class Kit:
        Fired = Fired
        agree = staticmethod(agree)
        bits = staticmethod(bits)
        domain = staticmethod(domain)
        everything = staticmethod(everything)
        index_expressions = staticmethod(index_expressions)
        scalar = staticmethod(scalar)
        special = staticmethod(special)
        values = staticmethod(values)

    return Kit
