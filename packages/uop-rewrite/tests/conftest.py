"""What the tests share: the values of two expressions compared bit for bit, and a strategy of index expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import settings
from hypothesis import strategies as st

from uop_ir import DType, Kind, Ops, Param, UOp, dtypes, evaluate

Array = npt.NDArray[Any]

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


def values(outputs: Sequence[UOp], domains: Mapping[UOp, Array] | None = None) -> list[Array]:
    """The values of scalar expressions for all combinations of values of their leaves, by the interpreter."""
    leaves = [n for n in UOp.sink(*outputs).toposort(gate=lambda n: not is_leaf(n)) if is_leaf(n)]
    given = [(domains or {}).get(leaf, domain(leaf)) for leaf in leaves]
    grids = [g.reshape(-1) for g in np.meshgrid(*given, indexing="ij")] if given else []
    size = grids[0].size if grids else 1
    mapping: dict[UOp, UOp] = {}
    inputs: dict[UOp, Array] = {}
    for slot, (leaf, grid) in enumerate(zip(leaves, grids, strict=True)):
        memory = UOp.param(slot, size, dtypes.i64 if leaf.dtype is dtypes.index else leaf.dtype)
        mapping[leaf] = memory.cast(leaf.dtype)
        inputs[memory] = grid.astype(memory.dtype.numpy)
    results = evaluate([o.substitute(mapping) for o in outputs], inputs)
    return [np.broadcast_to(r, (size,)) for r in results]


def bits(value: Array) -> Array:
    """The bits of an array, all NaNs alike."""
    if value.dtype.kind in "biu":
        return value
    unsigned = np.ascontiguousarray(value).view(f"u{value.dtype.itemsize}")
    with np.errstate(invalid="ignore"):  # signalling NaNs
        return np.where(np.isnan(value), unsigned.dtype.type(1), unsigned)


def agree(before: UOp, after: UOp, domains: Mapping[UOp, Array] | None = None) -> None:
    """Fail unless two scalar expressions have one type and equal bits for all values of their leaves."""
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


@pytest.fixture(scope="session")
def kit() -> Any:
    """The helpers of this file, under one name."""

    class Kit:
        agree = staticmethod(agree)
        bits = staticmethod(bits)
        domain = staticmethod(domain)
        everything = staticmethod(everything)
        index_expressions = staticmethod(index_expressions)
        scalar = staticmethod(scalar)
        special = staticmethod(special)
        values = staticmethod(values)

    return Kit
