"""Strategies of random well-typed programs at each level, for the property tests of this package."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st

from uop_ir import AddrSpace, AxisType, Const, DType, Ops, UOp, dtypes, index

SIZES = st.integers(0, 4)
UNARY = {Ops.RECIP, Ops.SQRT, Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.TRUNC}
ARITHMETIC = (Ops.ADD, Ops.SUB, Ops.MUL, Ops.DIV, Ops.MOD, Ops.MAX)
BITWISE = (Ops.AND, Ops.OR, Ops.XOR)
SHIFTS = (Ops.SHL, Ops.SHR)
COMPARE = (Ops.CMPLT, Ops.CMPNE, Ops.CMPEQ)
MEMORY = tuple(d for d in dtypes.all if d is not dtypes.index)


@st.composite
def constants(draw: st.DrawFn, dtype: DType) -> UOp:
    """A CONST of any bits: infinities, negative zeros and NaNs with payloads among the floats."""
    least, greatest = (0, (1 << dtype.bits) - 1) if dtype.is_float else (int(dtype.min), int(dtype.max))
    return UOp(Ops.CONST, (), Const(dtype, draw(st.integers(least, greatest))))


@st.composite
def leaves(draw: st.DrawFn) -> UOp:
    """A CONST, or memory of a small shape."""
    dtype = draw(st.sampled_from(MEMORY))
    if draw(st.booleans()):
        return draw(constants(dtype))
    shape = draw(st.lists(SIZES, max_size=3))
    size = 1
    for dim in shape:
        size *= dim
    if draw(st.booleans()):
        return UOp.param(draw(st.integers(0, 3)), size, dtype).reshape(shape)
    return UOp.buffer(size, dtype, draw(st.sampled_from(["CPU", "CUDA:1", "a b"]))).reshape(shape)


def _unary(draw: st.DrawFn, x: UOp) -> UOp:
    if x.dtype.is_float:
        return x.alu(draw(st.sampled_from(sorted(UNARY, key=lambda op: op.value))))
    return x if x.dtype is dtypes.bool else -x


def _binary(draw: st.DrawFn, x: UOp) -> UOp:
    """With a constant, a reversed self, or the first element: each broadcasts."""
    other = draw(st.sampled_from(["constant", "flipped", "self"]))
    y = {"constant": draw(constants(x.dtype)), "flipped": x.flip([True] * x.ndim), "self": x}[other]
    ops = [*COMPARE]
    if x.dtype is not dtypes.bool:
        ops.extend(ARITHMETIC)
    if not x.dtype.is_float:
        ops.extend(BITWISE)
    if x.dtype.is_int:
        ops.extend(SHIFTS)
    return x.alu(draw(st.sampled_from(ops)), y)


def _where(draw: st.DrawFn, x: UOp) -> UOp:
    return x.ne(x.const_like(0)).where(x, draw(constants(x.dtype)))


def _mulacc(draw: st.DrawFn, x: UOp) -> UOp:
    return x if x.dtype is dtypes.bool else x.alu(Ops.MULACC, x, draw(constants(x.dtype)))


def _cast(draw: st.DrawFn, x: UOp) -> UOp:
    return x.cast(draw(st.sampled_from(MEMORY)))


def _bitcast(draw: st.DrawFn, x: UOp) -> UOp:
    same = [d for d in MEMORY if d.bits == x.dtype.bits and d is not dtypes.bool]
    return x.bitcast(draw(st.sampled_from(same))) if x.dtype is not dtypes.bool else x


def _permute(draw: st.DrawFn, x: UOp) -> UOp:
    return x.permute(draw(st.permutations(range(x.ndim))))


def _flip(draw: st.DrawFn, x: UOp) -> UOp:
    return x.flip(draw(st.lists(st.booleans(), min_size=x.ndim, max_size=x.ndim)))


def _reshape(draw: st.DrawFn, x: UOp) -> UOp:
    """Two axes become one, or an axis of 1 is added."""
    at = draw(st.integers(0, x.ndim))
    if at + 1 < x.ndim and draw(st.booleans()):
        return x.reshape((*x.shape[:at], x.shape[at] * x.shape[at + 1], *x.shape[at + 2 :]))
    return x.reshape((*x.shape[:at], 1, *x.shape[at:])) if x.ndim < 5 else x


def _expand(draw: st.DrawFn, x: UOp) -> UOp:
    return x.expand([draw(SIZES) if size == 1 else size for size in x.shape])


def _pad(draw: st.DrawFn, x: UOp) -> UOp:
    return x.pad([(draw(st.integers(0, 2)), draw(st.integers(0, 2))) for _ in x.shape])


def _shrink(draw: st.DrawFn, x: UOp) -> UOp:
    sizes = [int(size) for size in x.shape if isinstance(size, int)]
    ends = [draw(st.integers(0, size)) for size in sizes]
    return x.shrink([(draw(st.integers(0, end)), end) for end in ends])


def _stack(draw: st.DrawFn, x: UOp) -> UOp:
    return UOp(Ops.STACK, (x,) * draw(st.integers(1, 3))) if x.ndim < 5 else x


def _reduce(draw: st.DrawFn, x: UOp) -> UOp:
    if x.dtype is dtypes.bool:
        return x
    return x.reduce(draw(st.sampled_from([Ops.ADD, Ops.MUL, Ops.MAX])), draw(st.integers(0, x.ndim)))


STEPS: tuple[Callable[[st.DrawFn, UOp], UOp], ...] = (
    _unary, _binary, _where, _mulacc, _cast, _bitcast,
    _permute, _flip, _reshape, _expand, _pad, _shrink, _stack, _reduce,
)  # fmt: skip


@st.composite
def tensor_graphs(draw: st.DrawFn) -> UOp:
    """A graph of up to 12 steps over up to 3 leaves; a SINK of some of its nodes, or one of them."""
    nodes = [draw(leaves()) for _ in range(draw(st.integers(1, 3)))]
    for _ in range(draw(st.integers(0, 12))):
        step = draw(st.sampled_from(STEPS))
        nodes.append(step(draw, draw(st.sampled_from(nodes))))
    if draw(st.booleans()):
        return UOp.sink(*draw(st.lists(st.sampled_from(nodes), max_size=3)))
    return nodes[-1]


# loops

AXES = (AxisType.LOOP, AxisType.REDUCE, AxisType.THREAD, AxisType.UNROLL, AxisType.GLOBAL)


def _position(draw: st.DrawFn, ranges: list[UOp]) -> UOp:
    """Index arithmetic on ranges and constants."""
    at = draw(st.sampled_from([*ranges, index(draw(st.integers(-3, 9)))]))
    for _ in range(draw(st.integers(0, 3))):
        other = draw(st.sampled_from([*ranges, index(draw(st.integers(-3, 9)))]))
        at = at.alu(draw(st.sampled_from(ARITHMETIC)), other)
    return at


def _place(draw: st.DrawFn, memory: UOp, ranges: list[UOp]) -> UOp:
    at = _position(draw, ranges)
    return memory.index(at, at < memory.arg.size) if draw(st.booleans()) else memory.index(at)


def _value(draw: st.DrawFn, dtype: DType, memory: list[UOp], ranges: list[UOp]) -> UOp:
    """A value of a dtype, from loads, ranges and elementwise steps."""
    x = _place(draw, draw(st.sampled_from(memory)), ranges).load()
    if draw(st.booleans()):
        x = draw(st.sampled_from(ranges)).cast(x.dtype)
    for _ in range(draw(st.integers(0, 4))):
        x = draw(st.sampled_from([_unary, _binary, _where, _mulacc, _cast, _bitcast]))(draw, x)
    return x.cast(dtype)


def _nest(draw: st.DrawFn, first: int, slot: int, reduces: bool) -> tuple[UOp, list[UOp]]:
    """A store in up to three loops of numbers from `first` on;
    the loops are open. With `reduces`, of a fold.
    """
    dtype = draw(st.sampled_from([d for d in MEMORY if d is not dtypes.bool]))
    sizes = [index(draw(SIZES)), UOp.variable("n", 1, 4)]
    ranges = [
        UOp.range(draw(st.sampled_from(sizes)), first + i, draw(st.sampled_from(AXES)))
        for i in range(draw(st.integers(1, 3)))
    ]
    memory = [UOp.param(slot + i, draw(st.integers(1, 9)), draw(st.sampled_from(MEMORY))) for i in (1, 2)]
    value = _value(draw, dtype, memory, ranges)
    if reduces and draw(st.booleans()):
        inner = [
            UOp.range(draw(SIZES), first + 3 + i, AxisType.REDUCE) for i in range(draw(st.integers(1, 2)))
        ]
        x = _value(draw, dtype, memory, [*ranges, *inner])
        value = value + x.reduce(draw(st.sampled_from([Ops.ADD, Ops.MUL, Ops.MAX])), 0, inner)
    if draw(st.booleans()):
        here = UOp.alloc(slot, 1, dtype, draw(st.sampled_from([AddrSpace.REG, AddrSpace.LOCAL]))).after(
            *ranges
        )
        lane = here.index(index(0))
        value = lane.after(lane.store(value)).load()
    return _place(draw, UOp.param(slot, 9, dtype), ranges).store(value), ranges


@st.composite
def loop_programs(draw: st.DrawFn) -> UOp:
    """A SINK of one or two stores in loops, some of them of reductions."""
    effects = []
    for place in range(draw(st.integers(1, 2))):
        store, ranges = _nest(draw, 10 * place, 3 * place, reduces=True)
        effects.append(store.end(*ranges))
    return UOp.sink(*effects)


@st.composite
def linear_programs(draw: st.DrawFn) -> list[UOp]:
    """Nests one after the other, the grid's index before them; a store may stand in an IF."""
    grid = [UOp(Ops.SPECIAL, (index(draw(SIZES)),), "gidx0")] if draw(st.booleans()) else []
    nodes: dict[UOp, None] = dict.fromkeys(n for g in grid for n in g.toposort())
    for place in range(draw(st.integers(1, 2))):
        store, ranges = _nest(draw, 10 * place, 3 * place, reduces=False)
        guard = _position(draw, grid + ranges) < _position(draw, grid + ranges)
        inside = [n for x in (*ranges, guard, store) for n in x.toposort() if n is not store]
        levels: list[dict[UOp, None]] = [{} for _ in range(len(ranges) + 1)]
        depth: dict[UOp, int] = {}
        for node in inside:
            own = ranges.index(node) + 1 if node in ranges else 0
            depth[node] = max([own, *(depth[s] for s in node.src)])
            if node not in ranges:
                levels[depth[node]][node] = None
        nodes.update(levels[0])
        for r, level in zip(ranges, levels[1:], strict=True):
            nodes.update({r: None, **level})
        guarded = draw(st.booleans())
        test = UOp(Ops.IF, (guard,))
        nodes.update(dict.fromkeys([test, store, UOp(Ops.ENDIF, (test,))] if guarded else [store]))
        nodes[store.end(*ranges)] = None
    return list(nodes)


@pytest.fixture(scope="session")
def graphs() -> Any:
    """The strategy `tensor_graphs`, for `data.draw`."""
    return tensor_graphs()


@pytest.fixture(scope="session")
def loops() -> Any:
    """The strategy `loop_programs`."""
    return loop_programs()


@pytest.fixture(scope="session")
def linears() -> Any:
    """The strategy `linear_programs`."""
    return linear_programs()
