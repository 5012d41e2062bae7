"""Nodes: interned, told apart, immutable, refused where they are wrong, and gone when nothing holds them."""

import gc
import math
import struct
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from fractions import Fraction
from operator import add, mul, neg, sub
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from uop_ir import AxisType, Const, DType, Kind, Ops, UOp, VerifyError, dtypes, index, toposort

F32, I32, INDEX = dtypes.f32, dtypes.i32, dtypes.index


# identity


def test_the_same_three_give_the_same_object() -> None:
    x = UOp.buffer(4, F32)
    assert UOp(Ops.RESHAPE, (x,), (2, 2)) is UOp(Ops.RESHAPE, [x], (2, 2))
    assert x + 1.0 is x + 1.0
    assert UOp.range(4, 0) is UOp.range(4, 0)
    assert UOp.range(4, 0) is not UOp.range(4, 0, AxisType.REDUCE)
    assert UOp.param(0, 4, F32) is not UOp.param(0, 4, I32)


@given(st.floats(), st.floats())
def test_float_constants_are_told_apart_by_bits(x: float, y: float) -> None:
    same = struct.pack("<d", x) == struct.pack("<d", y)
    assert (UOp.const(dtypes.f64, x) is UOp.const(dtypes.f64, y)) == same


def test_constants_of_equal_value_differ_by_type() -> None:
    equal: list[UOp] = [UOp.const(dtype, 1) for dtype in dtypes.all]
    assert len(set(equal)) == len(dtypes.all)
    assert [type(c.value) for c in equal] == [
        {Kind.BOOL: bool, Kind.FLOAT: float}.get(dtype.kind, int) for dtype in dtypes.all
    ]


@pytest.mark.parametrize("dtype", dtypes.floats, ids=str)
def test_an_integer_is_not_the_float_that_has_its_bits(dtype: DType) -> None:
    two = UOp.const(dtype, 2.0)
    assert two is UOp.const(dtype, 2)
    assert two is UOp(Ops.CONST, (), Const(dtype, two.arg.bits))
    assert UOp.const(dtype, two.arg.bits).value == two.arg.bits


def test_a_truth_is_the_integer_in_each_type() -> None:
    for dtype in dtypes.all:
        one = UOp.const(dtype, 1)
        assert UOp.const(dtype, True) is UOp.const(dtype, 1.0) is one
        assert type(one.arg.bits) is int


def test_nodes_cannot_be_written_to() -> None:
    x = UOp.const(I32, 1)
    for name in ("op", "src", "arg", "dtype", "shape", "addrspace", "memo", "other"):
        with pytest.raises(AttributeError, match="immutable"):
            setattr(x, name, None)
    assert x is UOp.const(I32, 1)
    assert x.value == 1


# constants: the oracle is exact rational arithmetic


def _nearest(value: Fraction, dtype: DType) -> float:
    """The value of a 16- or 32-bit float nearest to `value`,
    ties to the even mantissa; past the range infinite.
    """
    digits, least, most = {"f16": (11, -24, 16), "bf16": (8, -133, 128), "f32": (24, -149, 128)}[dtype.name]
    if value == 0:
        return 0.0
    power = math.floor(math.log2(abs(value))) + 1 if abs(value) >= Fraction(1, 2**1000) else -1000
    power += 1 if abs(value) >= Fraction(2) ** power else -1 if abs(value) < Fraction(2) ** (power - 1) else 0
    unit = Fraction(2) ** max(power - digits, least)
    near = round(value / unit) * unit  # round() of a Fraction takes ties to even
    return math.copysign(math.inf, value) if abs(near) >= Fraction(2) ** most else float(near)


NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(-70000, 70000),
    st.integers(-(2**70), 2**70),
    st.integers(2**24, 2**26).map(lambda n: n << 40),
    st.integers(2**24, 2**26).map(lambda n: (n << 36) + 1),
)


@pytest.mark.parametrize("dtype", [dtypes.f16, dtypes.bf16, F32], ids=str)
@given(value=NUMBERS)
def test_a_float_constant_is_the_nearest_one(dtype: DType, value: float) -> None:
    assert UOp.const(dtype, value).value == _nearest(Fraction(value), dtype)


@pytest.mark.parametrize("dtype", dtypes.floats, ids=str)
def test_an_integer_past_every_float_is_infinite(dtype: DType) -> None:
    assert UOp.const(dtype, 10**400).value == math.inf
    assert UOp.const(dtype, -(10**400)).value == -math.inf


@pytest.mark.parametrize("dtype", [dtypes.f16, dtypes.bf16, F32], ids=str)
@given(bits=st.integers(0, 2**32 - 1))
def test_the_value_of_a_constant_has_its_bits(dtype: DType, bits: int) -> None:
    """Quiet NaNs keep their payload through a Python float."""
    bits >>= 32 - dtype.bits
    value = UOp(Ops.CONST, (), Const(dtype, bits)).value
    expected = np.array(bits, f"u{dtype.itemsize}").view(dtype.numpy).astype(np.float64)
    assert struct.pack("<d", value) == struct.pack("<d", float(expected))
    if not math.isnan(value):
        assert UOp.const(dtype, value).arg.bits == bits


@given(st.sampled_from(dtypes.ints), st.integers(-(2**80), 2**80))
def test_integer_constants_wrap(dtype: DType, value: int) -> None:
    made = UOp.const(dtype, value).value
    assert dtype.min <= made <= dtype.max
    assert (made - value) % 2**dtype.bits == 0


@pytest.mark.parametrize("value", [0.5, math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("dtype", [I32, dtypes.u8, INDEX, dtypes.void], ids=str)
def test_what_is_no_integer_is_refused(dtype: DType, value: float) -> None:
    with pytest.raises(VerifyError, match="is no constant of type"):
        UOp.const(dtype, value)


# nodes that are wrong


@pytest.mark.parametrize("op", list(Ops), ids=str)
def test_a_source_that_is_no_node_is_refused(op: Ops) -> None:
    for src in [(1,), (UOp.const(I32, 1), "x"), (None, None, None)]:
        with pytest.raises(VerifyError, match="is no UOp"):
            UOp(op, src)  # type: ignore[arg-type]


def test_an_arg_that_can_change_is_refused() -> None:
    with pytest.raises(VerifyError, match="can change"):
        UOp(Ops.RESHAPE, (UOp.buffer(4, F32),), [2, 2])


def test_what_is_no_op_is_refused() -> None:
    with pytest.raises(VerifyError, match="is no op"):
        UOp("add", ())  # type: ignore[arg-type]


@pytest.mark.parametrize("op", [Ops.ADD, Ops.LOAD, Ops.SINK, Ops.WHERE, Ops.END], ids=str)
def test_an_arg_that_an_op_does_not_take_is_refused(op: Ops) -> None:
    x = UOp.param(0, 4, F32)
    src = {Ops.ADD: (x, x), Ops.LOAD: (x,), Ops.WHERE: (x.ne(0.0), x, x)}.get(op, (UOp.sink(),))
    UOp(op, src)
    with pytest.raises(VerifyError, match="takes no arg"):
        UOp(op, src, 1)


@pytest.mark.parametrize("bits", [256, -1])
def test_a_constant_outside_of_its_type_is_refused(bits: int) -> None:
    for dtype in (dtypes.u8, dtypes.bool):
        with pytest.raises(VerifyError, match="are no bits of"):
            UOp(Ops.CONST, (), Const(dtype, bits))


def shapes(rank: int = 4) -> st.SearchStrategy[tuple[int, ...]]:
    return st.lists(st.sampled_from([0, 1, 1, 2, 3]), max_size=rank).map(tuple)


@given(st.lists(shapes(), min_size=2, max_size=3))
def test_shapes_broadcast_as_those_of_numpy(given_shapes: list[tuple[int, ...]]) -> None:
    x = [UOp.param(0, math.prod(s), F32).reshape(s) for s in given_shapes]
    op = {2: Ops.MUL, 3: Ops.MULACC}[len(x)]
    try:
        expected = np.broadcast_shapes(*given_shapes)
    except ValueError:
        with pytest.raises(VerifyError, match="do not broadcast"):
            UOp(op, x)
    else:
        assert UOp(op, x).shape == expected


@given(shapes(3), st.data())
def test_reshapes_of_as_many_elements_and_no_others(shape: tuple[int, ...], data: st.DataObject) -> None:
    x, new = UOp.param(0, math.prod(shape), F32).reshape(shape), data.draw(shapes(3))
    if math.prod(shape) == math.prod(new):
        assert UOp(Ops.RESHAPE, (x,), new).shape == new
    else:
        with pytest.raises(VerifyError, match="as many elements"):
            UOp(Ops.RESHAPE, (x,), new)


N, M = UOp.variable("n", 1, 9), UOp.variable("m", 1, 9)
SIZES = st.recursive(
    st.sampled_from([N, M, *map(index, (0, 2, 3))]),
    lambda s: (
        st.builds(lambda op, a, b: op(a, b), st.sampled_from([add, sub, mul]), s, s)
        | st.builds(lambda a: -a, s)
    ),
    max_leaves=6,
)


#: The second of two sizes, and ways to write the first with the help of the second.
SECOND: list[Callable[[UOp, UOp], UOp]] = [
    lambda a, b: b,
    lambda a, b: b - b + a,
    lambda a, b: a * (b + 1) - b * a,
    lambda a, b: (a + b) * 1 + -b,
]


@given(SIZES, SIZES, st.sampled_from(SECOND))
@example(index(0), index(0), SECOND[0])  # a shape has numbers where a size is one
def test_symbolic_sizes_are_equal_where_all_values_are(
    a: UOp, b: UOp, second: Callable[[UOp, UOp], UOp]
) -> None:
    """Polynomials of these degrees that agree at all points of this grid are one."""
    points = [{"n": n, "m": m} for n in range(1, 10) for m in range(1, 10)]
    b = second(a, b)
    equal = all(size_at(a, p) == size_at(b, p) for p in points)
    x, y = (UOp.param(0, 9, F32).reshape((9, 1)).expand((9, size)) for size in (a, b))
    square = UOp.param(0, 9, F32).reshape((1, 9, 1)).expand((2, 9, a))
    if equal:
        assert (x + y).shape[1] in (x.shape[1], y.shape[1])
        assert UOp(Ops.STACK, (x, y)).shape == (2, *x.shape)
        assert square.reshape((18, b)).shape == (18, y.shape[1])
    else:
        with pytest.raises(VerifyError, match="do not broadcast"):
            x + y
        with pytest.raises(VerifyError, match="all must be alike"):
            UOp(Ops.STACK, (x, y))
        with pytest.raises(VerifyError, match="as many elements"):
            square.reshape((18, b))


@pytest.mark.parametrize(
    ("dtypes_", "arg", "what"),
    [
        ((F32, F32, F32), None, "the name of an instruction, not None"),
        ((F32, I32, F32), "mma", "dtype mismatch f32 vs i32"),
        ((dtypes.bool, dtypes.bool, I32), "mma", r"a has type bool\(2,\)"),
        ((F32, F32, INDEX), "mma", r"accumulator has type index\(2,\)"),
    ],
)
def test_a_tile_is_refused_that_no_tensor_core_takes(
    dtypes_: tuple[DType, ...], arg: object, what: str
) -> None:
    tiles = [UOp(Ops.STACK, (UOp.const(t, 1),) * 2) for t in dtypes_]
    with pytest.raises(VerifyError, match=what):
        UOp(Ops.WMMA, tiles, arg)


def test_a_tile_has_the_type_and_the_elements_of_its_accumulator() -> None:
    a, b, total = (
        UOp(Ops.STACK, (UOp.const(t, 1),) * n) for t, n in ((dtypes.f16, 8), (dtypes.f16, 4), (F32, 4))
    )
    tile = UOp(Ops.WMMA, (a, b, total), "mma")
    assert (tile.dtype, tile.shape) == (F32, (4,))


NONE = N - N


@pytest.mark.parametrize(
    ("shape", "new", "equal"),
    [
        ((NONE, 5), (NONE, 7), True),  # what both have is 0
        ((NONE, 5), (0, M), True),
        ((N, 4, N), (2, N, N, 2), True),
        ((N, 4, M), (M * 2, N, 1, 2), True),
        ((N, N, 2), (N, 2), False),
        ((N, 2), (N, N, 2), False),
        ((N, N, 2), (M, N, 2), False),
    ],
    ids=str,
)
def test_reshapes_of_what_is_alike(
    shape: tuple[int | UOp, ...], new: tuple[int | UOp, ...], equal: bool
) -> None:
    x = UOp.param(0, 1, F32).reshape((1,) * len(shape)).expand(shape)
    if equal:
        assert x.reshape(new).shape == new
    else:
        with pytest.raises(VerifyError, match="as many elements"):
            x.reshape(new)


def size_at(size: UOp, values: dict[str, int]) -> int:
    """The value of a size, by the integers of Python."""
    done: dict[UOp, int] = {}
    operators: dict[Ops, Callable[..., int]] = {Ops.ADD: add, Ops.SUB: sub, Ops.MUL: mul, Ops.NEG: neg}
    for node in size.toposort():
        if node.op in operators:
            done[node] = operators[node.op](*(done[s] for s in node.src))
        else:
            done[node] = values[node.arg.name] if node.op is Ops.PARAM else int(node.value)
    return done[size]


@pytest.mark.parametrize(
    "arg", [None, 2, (2,), (0, 0), (0, 2), (False, True), ("a", 1), (1.0, 0.0), (0, 1, 2)]
)
def test_what_is_no_order_of_two_axes_is_refused(arg: Any) -> None:
    x = UOp.param(0, 4, F32).reshape((2, 2))
    with pytest.raises(VerifyError, match="no order of the axes"):
        UOp(Ops.PERMUTE, (x,), arg)


# keys


@given(data=st.data())
def test_keys_are_equal_exactly_where_nodes_are(data: st.DataObject, graphs: Any) -> None:
    nodes = [*toposort([data.draw(graphs), data.draw(graphs)])]
    assert len({n.key for n in nodes}) == len(nodes)


def test_a_key_is_the_same_in_every_process() -> None:
    program = """
from uop_ir import *
x, n = UOp.param(0, 64, dtypes.f32), UOp.variable("n", 1, 8)
r, s = UOp.range(n, 0, AxisType.REDUCE), UOp.alloc(1, 8, dtypes.bf16, AddrSpace.LOCAL)
y = x.index(r * 8 + 3, r < 5).load()
z = (y.cast(dtypes.f64) * float("nan") + -0.0).reduce(Ops.ADD, 0, (r,)).cast(dtypes.bf16)
print(UOp.sink(s.index(UOp.const(dtypes.index, 0)).store(z)).key)
"""
    found = set()
    for seed in ("1", "2"):
        env = {"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)}
        found.add(
            subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, check=True).stdout
        )
    assert len(found) == 1


# life


@pytest.mark.net
def test_a_deep_chain_is_made_keyed_replaced_and_freed() -> None:
    x = UOp.param(0, 1, I32)
    root = x
    for _ in range(100_000):
        root = -root
    last = weakref.ref(root.src[0])
    assert len(root.key) > 0
    y = UOp.param(1, 1, I32)
    other = root.substitute({x: y})
    assert len(toposort([root, other])) == 200_002
    del root, other
    assert last() is None


def alive() -> int:
    gc.collect()
    return sum(type(o) is UOp for o in gc.get_objects())


def test_ten_programs_leave_no_more_nodes_than_one() -> None:
    def program(number: int) -> str:
        x = UOp.buffer(64, F32)
        y = x.reshape((8, 8))
        for k in range(50):
            y = (y + float(number * 50 + k)).permute((1, 0)).cast(dtypes.f64).cast(F32)
        return UOp.sink(y.reduce(Ops.ADD, 2), UOp.buffer(number + 1, I32)).key

    program(0)
    before = alive()
    for number in range(1, 11):
        program(number)
    assert alive() == before


def test_nodes_die_without_the_collector() -> None:
    gc.collect()
    gc.disable()
    try:
        node = UOp.const(I32, 123_456) + UOp.param(0, 1, I32)
        assert len(node.key) > 0
        dead = weakref.ref(node), weakref.ref(node.src[0])
        del node
        assert [d() for d in dead] == [None, None]
    finally:
        gc.enable()


def test_threads_that_make_the_same_nodes_get_the_same_objects() -> None:
    """Each round is made by all threads at once,
    while the round before dies; a switch can come at any bytecode.
    """
    threads, rounds, size = 4, 60, 40
    made: list[list[UOp]] = [[] for _ in range(threads)]
    start = threading.Barrier(threads)
    wrong: list[int] = []

    def work(me: int) -> None:
        for _ in range(rounds):
            start.wait()
            node = UOp.param(7, 1, I32)
            nodes = []
            for k in range(size):
                node = node + k
                nodes.append(node)
            made[me] = nodes
            start.wait()
            wrong.extend(a is not b for a, b in zip(nodes, made[0], strict=True) if a is not b)
            start.wait()
            made[me] = nodes = []
            del node

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        workers = [threading.Thread(target=work, args=(k,)) for k in range(threads)]
        for w in workers:
            w.start()
        for w in workers:
            w.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong


def test_threads_get_buffers_of_their_own() -> None:
    slots: list[int] = []
    workers = [
        threading.Thread(target=lambda: slots.extend(UOp.buffer(1, F32).arg.slot for _ in range(500)))
        for _ in range(4)
    ]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert len(set(slots)) == len(slots) == 2000
