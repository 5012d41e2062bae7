"""Realize: scheduled kernels give what the graph means, bit for bit, in place or not. Week 5."""

import gc
import math
import weakref
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from uop_ir import Ops, Param, UOp, UopError, dtypes, evaluate, get_backend, override
from uop_ir import settings as ir_settings
from uop_tensor.live import alive, register
from uop_tensor.memory import buffers, extent, new_buffer, whole_buffer
from uop_tensor.program import COUNTERS, clear_plans, program
from uop_tensor.realize import realize, realize_tensors
from uop_tensor.settings import settings as tensor_settings

Array = npt.NDArray[Any]
F32 = dtypes.f32
BACKEND = get_backend("INTERP")
rng = np.random.default_rng(0)


def put(array: Array) -> UOp:
    array = np.asarray(array)
    buffer = new_buffer(BACKEND, array.size, next(d for d in dtypes.all if d.numpy == array.dtype))
    BACKEND.copy_in(buffer.memo["memory"].handle, np.ascontiguousarray(array))
    return buffer.reshape(array.shape)


def buffer_of(value: UOp) -> UOp:
    buffer = whole_buffer(value)
    assert buffer is not None
    return buffer


def get(value: UOp) -> Array:
    buffer = buffer_of(value)
    out = np.empty(tuple(map(extent, value.shape)), value.dtype.numpy)
    BACKEND.copy_out(buffer.memo["memory"].handle, out)
    return out


def data(*shape: int) -> UOp:
    return put(rng.standard_normal(shape).astype(np.float32))


def meaning(values: list[UOp]) -> list[Array]:
    """What the graphs mean, without any schedule."""
    leaves = {n for v in values for n in v.toposort() if n.op is Ops.BUFFER}
    return evaluate(values, {b: get(b) for b in leaves})


def agree(values: list[UOp], donate: Mapping[int, UOp] | None = None) -> None:
    expected = meaning(values)
    for value, want in zip(realize(values, donate, "INTERP"), expected, strict=True):
        np.testing.assert_array_equal(get(value), want)


@pytest.mark.parametrize(
    "make",
    [
        lambda graphs: graphs.softmax(data(4, 9)),
        lambda graphs: graphs.layer_norm(data(4, 8), data(8), data(8)),
        lambda graphs: graphs.gelu(graphs.matmul(data(4, 8), data(8, 5)) + data(5)),
        lambda graphs: graphs.matmul(
            graphs.softmax(graphs.matmul(data(2, 6, 4), data(2, 4, 6)) * 0.5), data(2, 6, 4)
        ),
        lambda graphs: data(3, 4).permute((1, 0)),
        lambda graphs: data(3, 4).flip((True, False)).pad(((1, 2), (0, 1))).shrink(((0, 5), (1, 5))) + 1.0,
        lambda graphs: UOp.const(F32, 2.5).reshape((1, 1)).expand((2, 3)),
        lambda graphs: UOp.const(F32, 2.5),
        lambda graphs: data(0, 3) + 1.0,
        lambda graphs: data(3, 0).reduce(Ops.ADD, 1),
        lambda graphs: data(5).reduce(Ops.MAX, 1),
        lambda graphs: UOp(Ops.STACK, [data(2) + float(i) for i in range(20)]),
        lambda graphs: UOp(Ops.STACK, [UOp.const(dtypes.i32, i) for i in range(20)]),
        lambda graphs: UOp(Ops.AFTER, (data(3),)) + UOp(Ops.AFTER, (data(3) * 2.0,)),
    ],
)
def test_values(graphs: SimpleNamespace, make: Callable[[SimpleNamespace], UOp]) -> None:
    agree([make(graphs)])


def test_outputs_that_belong_together(graphs: SimpleNamespace) -> None:
    x = data(4, 4)
    y = x + 1.0
    agree([y, y, y.reshape((2, 8)), y.reduce(Ops.ADD, 1), graphs.matmul(y, x), x])
    first, second = realize([y, y.reshape((16,))], device="INTERP")
    assert whole_buffer(first) is whole_buffer(second)


def test_what_is_realized_stays_as_it_is() -> None:
    x = data(4, 4)
    before = COUNTERS.realizes
    assert realize([x, x.reshape((16,))], device="INTERP") == [x, x.reshape((16,))]
    assert COUNTERS.realizes == before


def test_second_program_of_a_shape_is_not_scheduled(graphs: SimpleNamespace) -> None:
    clear_plans()
    realize([graphs.gelu(graphs.matmul(data(4, 8), data(8, 5)))], device="INTERP")
    plans, hits = COUNTERS.plans, COUNTERS.cache_hits
    agree([graphs.gelu(graphs.matmul(data(4, 8), data(8, 5)))])
    assert (COUNTERS.plans, COUNTERS.cache_hits) == (plans, hits + 1)
    agree([graphs.gelu(graphs.matmul(data(4, 8), data(8, 6)))])
    assert COUNTERS.plans == plans + 1


def test_same_buffer_twice_is_another_program() -> None:
    clear_plans()
    x, y = data(4), data(4)
    before = COUNTERS.plans
    agree([x * y])
    agree([x * x])
    assert COUNTERS.plans == before + 2


def test_in_place(graphs: SimpleNamespace) -> None:
    x = data(4, 4)
    expected = meaning([x * 2.0, graphs.matmul(x, x)])
    new, product = realize([x * 2.0, graphs.matmul(x, x)], {0: buffer_of(x)}, "INTERP")
    assert whole_buffer(new) is whole_buffer(x)
    np.testing.assert_array_equal(get(new), expected[0])
    np.testing.assert_array_equal(get(product), expected[1])


def test_in_place_gives_way_to_other_elements() -> None:
    x = data(4, 4)
    (want,) = meaning([x.permute((1, 0)) * 2.0])
    (new,) = realize([x.permute((1, 0)) * 2.0], {0: buffer_of(x)}, "INTERP")
    assert whole_buffer(new) is not whole_buffer(x)
    np.testing.assert_array_equal(get(new), want)


def test_optimizer_in_place(graphs: SimpleNamespace) -> None:
    values, donors = graphs.adam(data)
    donate = {i: buffer_of(b) for i, b in donors.items()}
    expected = meaning(values)
    for i, (value, want) in enumerate(zip(realize(values, donate, "INTERP"), expected, strict=True)):
        assert whole_buffer(value) is donate[i]
        np.testing.assert_array_equal(get(value), want)


@pytest.mark.parametrize("shape", [(4,), (2, 2)])
def test_memory_is_freed_with_its_buffer_at_once(shape: tuple[int, ...]) -> None:
    """The garbage collector, which does not know how large memory is, has nothing to do."""
    x = realize([data(*shape) + 1.0], device="INTERP")[0]
    assert buffers(x) == {buffer_of(x)}
    memory = weakref.ref(buffer_of(x))
    gc.disable()
    try:
        del x
        assert memory() is None
    finally:
        gc.enable()


@pytest.mark.net
def test_long_chain() -> None:
    x = y = put(np.arange(4, dtype=np.float32))
    for i in range(10_000):
        y = y + float(i % 3)
    np.testing.assert_array_equal(get(realize([y], device="INTERP")[0]), get(x) + 9999)


def test_debug_line(capsys: pytest.CaptureFixture[str]) -> None:
    with override(ir_settings, debug=1):
        realize([data(4) + 1.0], device="INTERP")
    assert "1 kernel, " in capsys.readouterr().out


def test_scalars() -> None:
    rate = UOp(Ops.PARAM, (), Param(F32, name="rate"))
    x = data(4)
    (y,) = realize([x * rate], device="INTERP", scalars={"rate": 0.5})
    np.testing.assert_array_equal(get(y), get(x) * np.float32(0.5))
    with pytest.raises(UopError, match="scalar rate has no value"):
        realize([x * rate], device="INTERP")


def test_values_on_two_devices() -> None:
    with pytest.raises(UopError, match="values on CPU and INTERP"):
        realize([data(4) + UOp.buffer(4, F32, "CPU")])


# tensors


class Lazy:
    def __init__(self, uop: UOp) -> None:
        self.uop = uop
        self._assign_target: UOp | None = None
        register(self)

    def assign(self, uop: UOp) -> None:
        self._assign_target = self._assign_target or whole_buffer(self.uop)
        self.uop = uop


def test_assign_goes_in_place_where_nobody_needs_the_old_value() -> None:
    t = Lazy(data(4))
    memory, old = whole_buffer(t.uop), get(t.uop)
    t.assign(t.uop * 2.0)
    realize_tensors([t])
    assert whole_buffer(t.uop) is memory
    np.testing.assert_array_equal(get(t.uop), old * 2)


@pytest.mark.parametrize("view", [lambda x: x, lambda x: x.flip((True,)) + 1.0])
def test_assign_leaves_the_old_value_to_others(view: Callable[[UOp], UOp]) -> None:
    t = Lazy(data(4))
    other = Lazy(view(t.uop))
    (want,) = meaning([other.uop])
    t.assign(t.uop * 2.0)
    realize_tensors([t])
    realize_tensors([other])
    np.testing.assert_array_equal(get(other.uop), want)


def test_assign_with_the_reader_in_the_same_call_goes_in_place() -> None:
    t = Lazy(data(4))
    memory = whole_buffer(t.uop)
    other = Lazy(t.uop.flip((True,)) + 1.0)
    (want,) = meaning([other.uop])
    t.assign(t.uop * 2.0)
    realize_tensors([t, other])
    assert whole_buffer(t.uop) is memory
    np.testing.assert_array_equal(get(other.uop), want)


def test_swap() -> None:
    a, b = Lazy(data(4)), Lazy(data(4))
    x, y = get(a.uop), get(b.uop)
    old = a.uop
    a.assign(b.uop)
    b.assign(old)
    realize_tensors([a, b])
    np.testing.assert_array_equal(get(a.uop), y)
    np.testing.assert_array_equal(get(b.uop), x)
    assert a in alive()


def test_symbolic_size_is_one_program() -> None:
    n = UOp.variable("n", 1, 8)
    x = data(8, 4)
    value = (x.shrink(((0, n), (0, 4))) * 2.0).reduce(Ops.ADD, 1) + 1.0
    clear_plans()
    before = COUNTERS.plans
    for size in (1, 5, 8):
        (out,) = realize([value], device="INTERP", scalars={"n": size})
        stored = next(b for b in out.toposort() if b.op is Ops.BUFFER)
        np.testing.assert_array_equal(get(stored)[:size], (get(x)[:size] * 2).sum(1, dtype=np.float32) + 1)
    assert COUNTERS.plans == before + 1


def test_plans_not_used_for_long_are_forgotten() -> None:
    clear_plans()
    programs: list[Callable[[UOp], UOp]] = [lambda x: x + 1.0, lambda x: x * 2.0, lambda x: -x]
    with override(tensor_settings, plan_cache=2):
        for make in programs:
            agree([make(data(3))])
        before = COUNTERS.plans
        agree([programs[2](data(3))])
        assert COUNTERS.plans == before
        agree([programs[0](data(3))])
        assert COUNTERS.plans == before + 1


def test_no_plan_is_kept_where_none_is_wanted() -> None:
    clear_plans()
    with override(tensor_settings, plan_cache=0):
        for _ in range(2):
            before = COUNTERS.plans
            agree([data(3) + 1.0])
            assert COUNTERS.plans == before + 1


# random graphs

UNARY = [
    lambda x: -x,
    lambda x: x * 0.5,
    lambda x: x.alu(Ops.EXP2),
    lambda x: x.alu(Ops.SIN),
    lambda x: x.cast(dtypes.i32).cast(F32),
    lambda x: x.reduce(Ops.ADD, 1).reshape((*x.shape[:-1], 1)).expand(x.shape),
    lambda x: x.reduce(Ops.MAX, 2).reshape((1, 1)).expand(x.shape),
    lambda x: x.reshape((x.shape[1], x.shape[0])).permute((1, 0)),
    lambda x: x.flip((True, False)),
    lambda x: x.pad(((1, 0), (0, 2))).shrink(((0, x.shape[0]), (1, x.shape[1] + 1))),
    lambda x: x.reduce(Ops.ADD, 1).reshape((1, x.shape[0])).expand((x.shape[1], x.shape[0])).permute((1, 0)),
    lambda x: UOp(Ops.STACK, [x, x + 1.0]).permute((1, 2, 0)).reduce(Ops.MAX, 1),
]
BINARY = [lambda x, y: x + y, lambda x, y: x * y, lambda x, y: x.maximum(y), lambda x, y: (x < y).where(x, y)]


@st.composite
def programs(draw: st.DrawFn) -> tuple[list[UOp], dict[int, UOp]]:
    """Graphs over two buffers of one shape: values to realize, and which of them go over a buffer."""
    shape = draw(st.sampled_from([(2, 3), (4, 4), (1, 5), (3, 1)]))
    nodes = [data(*shape), data(*shape)]
    for _ in range(draw(st.integers(1, 12))):
        if draw(st.booleans()):
            nodes.append(draw(st.sampled_from(UNARY))(draw(st.sampled_from(nodes))))
        else:
            nodes.append(
                draw(st.sampled_from(BINARY))(draw(st.sampled_from(nodes)), draw(st.sampled_from(nodes)))
            )
    values = draw(st.lists(st.sampled_from(nodes[2:]), min_size=1, max_size=4))
    chosen = draw(st.permutations(range(len(values))))[: draw(st.integers(0, 2))]
    return values, {i: buffer_of(nodes[k]) for k, i in enumerate(chosen)}


@pytest.mark.net
@settings(max_examples=150, deadline=None)
@given(programs())
def test_random_programs(program_: tuple[list[UOp], dict[int, UOp]]) -> None:
    values, donate = program_
    agree(values, donate)


@pytest.mark.net
@settings(max_examples=150, deadline=None)
@given(programs())
def test_random_programs_that_must_end_in_a_buffer(program_: tuple[list[UOp], dict[int, UOp]]) -> None:
    values, donate = program_
    expected = meaning(values)
    todo = program(values, [donate.get(i) for i in range(len(values))], True, BACKEND)
    ended = todo.run(todo.buffers, {})
    for i, (buffer, want) in enumerate(zip(ended, expected, strict=True)):
        assert buffer is donate.get(i, buffer)
        np.testing.assert_array_equal(get(buffer).reshape(want.shape), want)


def test_infinite_cost_is_decided(graphs: SimpleNamespace) -> None:
    x = data(2, 2)
    for _ in range(40):
        x = graphs.matmul(x, x) * 0.1
    agree([x])
    assert math.isfinite(float(get(realize([x], device="INTERP")[0]).sum()))
