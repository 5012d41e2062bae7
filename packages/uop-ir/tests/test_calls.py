"""CALL and `inline_call`: what fits a body, and that both mean the same, whatever is given as memory."""

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from uop_ir import AddrSpace, Ops, UOp, VerifyError, dtypes, index, inline_call, run_program, toposort

F32 = dtypes.f32
Data = npt.NDArray[Any]
OUT, IN = UOp.param(0, 6, F32), UOp.param(1, 6, F32)
N = UOp.variable("n", 1, 6)
ZERO = UOp.const(F32, 0.0)
COPY = UOp.sink(OUT.store(IN * 2.0))
R = UOp.range(6, 0)


def call(body: UOp, *arguments: UOp) -> UOp:
    return UOp(Ops.CALL, (body, *arguments))


def memory(size: int = 6, dtype: Any = F32) -> UOp:
    return UOp.buffer(size, dtype)


# what fits


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: call(OUT.store(IN), OUT, IN), "body must be a SINK, not Ops.STORE"),
        (lambda: call(COPY, memory()), "body takes 2 arguments, 1 given"),
        (lambda: call(COPY, memory(), memory(6, dtypes.i32)), "dtype mismatch f32 vs i32"),
        (lambda: call(COPY, memory(), memory(7)), r"shape \(7,\) given"),
        (lambda: call(COPY, memory(), memory() + memory()), "Ops.ADD given .* is no memory .STORE it"),
        (lambda: call(COPY, memory(), memory(5).pad(((0, 1),))), "Ops.PAD given .* is no memory"),
        (lambda: call(UOp.sink(OUT.store(memory()))), "body is not closed: BUFFER slot"),
        (lambda: call(UOp.sink(OUT.index(R).store(ZERO)), memory()), "body is not closed: range 0 is open"),
        (lambda: call(UOp.sink(IN.store(ZERO)), memory()), "slots of the body must be 0 to n-1"),
        (lambda: call(UOp.sink(OUT.store(UOp.param(0, 6, dtypes.i32).cast(F32))), memory()), "0 to n-1"),
        (lambda: call(UOp.sink(OUT.store(N.cast(F32))), memory(), index(7)), "n = 7 .it takes 1 to 6"),
        (lambda: call(UOp.sink(OUT.store(N.cast(F32))), memory(), ZERO), "dtype mismatch index vs f32"),
        (lambda: inline_call(COPY), "Ops.SINK is no CALL"),
    ],
)  # fmt: skip
def test_what_does_not_fit(make: Callable[[], UOp], said: str) -> None:
    with pytest.raises(VerifyError, match=said):
        make()


def test_a_body_that_calls_has_params_of_its_own() -> None:
    inner = call(
        UOp.sink(UOp.param(0, 6, F32).store(UOp.param(1, 6, F32) + UOp.param(2, 6, F32))), OUT, IN, IN
    )
    twice = call(UOp.sink(inner), memory(), memory())
    data = dict(zip(twice.src[1:], (np.zeros(6, np.float32), np.arange(6, dtype=np.float32)), strict=True))
    run_program(UOp.sink(twice), data)
    assert data[twice.src[1]].tolist() == [0, 2, 4, 6, 8, 10]
    assert inline_call(twice).src[0].src[1:] == (twice.src[1], twice.src[2], twice.src[2])


# what is given as memory: a view and its elements in NumPy


def whole(size: int, dtype: Any) -> tuple[UOp, Callable[[Data], Data]]:
    return memory(size, dtype), lambda a: a


def flipped(size: int, dtype: Any) -> tuple[UOp, Callable[[Data], Data]]:
    return memory(size, dtype).flip((True,)), lambda a: a[::-1]


def part(size: int, dtype: Any) -> tuple[UOp, Callable[[Data], Data]]:
    return memory(size + 3, dtype).shrink(((2, size + 2),)), lambda a: a[2 : size + 2]


def column(size: int, dtype: Any) -> tuple[UOp, Callable[[Data], Data]]:
    """Every second element: of two columns the second."""
    pairs = memory(2 * size, dtype).reshape((size, 2)).shrink(((0, size), (1, 2)))
    return pairs.reshape((size,)), lambda a: a[1::2]


def turned(size: int, dtype: Any) -> tuple[UOp, Callable[[Data], Data]]:
    """A transposed matrix, which is no view of NumPy's: here it is the positions that are gathered."""
    rows = 2 if size % 2 == 0 else 1
    at = np.arange(size).reshape(rows, size // rows).T.reshape(-1)
    view = memory(size, dtype).reshape((rows, size // rows)).permute((1, 0)).reshape((size,))
    return view, lambda a: at  # positions


VIEWS = [whole, flipped, part, column, turned]


def positions(choose: Callable[[Data], Data], size: int) -> Data:
    return choose(np.arange(size))


def base(view: UOp) -> UOp:
    while view.src:
        view = view.src[0]
    return view


def check(
    body: UOp, stored: int, made: list[tuple[UOp, Callable[[Data], Data]]], scalars: tuple[UOp, ...] = ()
) -> None:
    """CALL, `inline_call`, and the body alone on copies that are put back, leave the same bytes in memory."""
    rng = np.random.default_rng(3)
    bases = [base(view) for view, _ in made]
    fill = {b: rng.integers(0, 256, b.arg.size * b.dtype.itemsize, np.uint8) for b in bases}
    fill = {b: (f % 2 if b.dtype is dtypes.bool else f).view(b.dtype.numpy) for b, f in fill.items()}
    node = call(body, *(view for view, _ in made), *scalars)
    results = []
    for program in (UOp.sink(node), inline_call(node)):
        data = {b: f.copy() for b, f in fill.items()}
        run_program(program, data)
        results.append(data)
    alone = {b: f.copy() for b, f in fill.items()}
    places = [positions(choose, b.arg.size) for b, (_, choose) in zip(bases, made, strict=True)]
    params = sorted(
        (n for n in body.toposort() if n.op is Ops.PARAM and n.shape), key=lambda n: int(n.arg.slot)
    )
    copies = {p: alone[b][at] for p, b, at in zip(params, bases, places, strict=True)}
    names = sorted(
        (n for n in body.toposort() if n.op is Ops.PARAM and not n.shape), key=lambda n: str(n.arg.name)
    )
    run_program(body, copies, {p: s.value for p, s in zip(names, scalars, strict=True)})
    for p, b, at in list(zip(params, bases, places, strict=True))[:stored]:
        alone[b][at] = copies[p]
    for data in results:
        assert all(data[b].tobytes() == alone[b].tobytes() for b in bases)


def as_body(root: UOp) -> tuple[UOp, int]:
    """A random graph as a kernel: its values go to the first PARAMs,
    its leaves are the PARAMs behind them.
    """
    values = [v for v in (root.src if root.op is Ops.SINK else (root,)) if v.dtype is not dtypes.index]
    leaves = [n for n in toposort(values) if n.op in (Ops.BUFFER, Ops.PARAM)]
    mapping = {n: UOp.param(len(values) + i, n.arg.size, n.dtype) for i, n in enumerate(leaves)}
    stores = []
    for slot, value in enumerate(values):
        sizes = [s for s in value.shape if isinstance(s, int)]
        out = UOp.param(slot, prod(sizes), value.dtype).reshape(value.shape)
        stores.append(out.store(value.substitute(mapping)))
    return UOp.sink(*stores), len(values)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_call_means_its_body(data: st.DataObject, graphs: Any) -> None:
    body, stored = as_body(data.draw(graphs))
    params = sorted((n for n in body.toposort() if n.op is Ops.PARAM), key=lambda n: int(n.arg.slot))
    made = [data.draw(st.sampled_from(VIEWS))(p.arg.size, p.dtype) for p in params]
    check(body, stored, made)


LOOPS = {
    "copy": UOp.sink(OUT.index(R).store(IN.index(R).load() * 2.0).end(R)),
    "guarded": UOp.sink(OUT.index(R, R < 4).store(IN.index(R + 2, R < 4).load()).end(R)),
    "sum": UOp.sink(OUT.index(index(2)).store(IN.index(R).load().reduce(Ops.ADD, 0, (R,)))),
    "vector": UOp.sink(
        OUT.index(UOp(Ops.STACK, tuple(index(i) for i in (5, 0, 1)))).store(
            IN.index(UOp(Ops.STACK, tuple(index(i) for i in (1, 3, 2)))).load()
        )
    ),
    "scratch": UOp.sink(
        OUT.index(R)
        .store(
            (lane := UOp.alloc(0, 1, F32, AddrSpace.REG).after(R).index(index(0)))
            .after(lane.store(IN.index(R).load() + 1.0))
            .load()
        )
        .end(R)
    ),
}  # fmt: skip


@pytest.mark.parametrize("body", LOOPS.values(), ids=LOOPS)
@pytest.mark.parametrize("out", VIEWS)
@pytest.mark.parametrize("given_in", VIEWS)
def test_loops_act_on_the_memory_under_a_view(body: UOp, out: Any, given_in: Any) -> None:
    check(body, 1, [out(6, F32), given_in(6, F32)])


@pytest.mark.parametrize("n", [1, 4, 6])
@pytest.mark.parametrize("out", VIEWS)
def test_symbolic_sizes_take_the_value_of_an_argument(n: int, out: Any) -> None:
    head = IN.shrink(((0, N),)).reshape((N, 1)).expand((N, 2)).pad(((0, N), (0, 0))).reduce(Ops.ADD, 1)
    body = UOp.sink(OUT.shrink(((0, N),)).store(head.shrink(((0, N),)) + head.reduce(Ops.MAX, 1)))
    check(body, 1, [out(6, F32), whole(6, F32)], (index(n),))
    inlined = inline_call(call(body, memory(), memory(), index(n)))
    assert all(isinstance(size, int) for node in inlined.toposort() for size in node.shape)
    assert all(node.op is not Ops.PARAM for node in inlined.toposort())


def test_a_variable_may_be_given_for_another() -> None:
    body = UOp.sink(OUT.shrink(((0, N),)).store(IN.shrink(((0, N),)) * N.cast(F32)))
    m = UOp.variable("m", 2, 5)
    out, data = memory(), memory()
    for program in (UOp.sink(call(body, out, data, m)), inline_call(call(body, out, data, m))):
        arrays = {out: np.zeros(6, np.float32), data: np.arange(6, dtype=np.float32)}
        run_program(program, arrays, {m: 4})
        assert arrays[out].tolist() == [0, 4, 8, 12, 0, 0]


def test_one_memory_given_twice() -> None:
    """All values of a kernel come before its stores: a reversal in place is one."""
    both = memory()
    node = call(UOp.sink(OUT.store(IN)), both, both.flip((True,)))
    for program in (UOp.sink(node), inline_call(node)):
        data = {both: np.arange(6, dtype=np.float32)}
        run_program(program, data)
        assert data[both].tolist() == [5, 4, 3, 2, 1, 0]


def test_calls_in_order_become_stores_in_order() -> None:
    a, b = memory(), memory()
    first = call(COPY, b, a)
    second = call(COPY, a, b.after(first))
    for program in (UOp.sink(second), inline_call(second)):
        data = {a: np.ones(6, np.float32), b: np.zeros(6, np.float32)}
        run_program(program, data)
        assert (data[a].tolist(), data[b].tolist()) == ([4.0] * 6, [2.0] * 6)


def test_scratch_of_the_body_and_of_the_arguments_stay_apart() -> None:
    scratch = UOp.alloc(0, 6, F32, AddrSpace.GLOBAL)
    body = UOp.sink(OUT.store(scratch.after(scratch.store(IN + 1.0))), UOp.param(2, 6, F32).store(IN))
    node = call(body, memory(), memory(), scratch)
    inlined = inline_call(node)
    assert len([n for n in inlined.toposort() if n.op is Ops.ALLOC]) == 2
    for program in (UOp.sink(node), inlined):
        data = {node.src[1]: np.zeros(6, np.float32), node.src[2]: np.arange(6, dtype=np.float32)}
        run_program(program, data)
        assert data[node.src[1]].tolist() == [1, 2, 3, 4, 5, 6]
