"""Where values stand in a linear program: as far outside as they can,
computed once, in an order that the graph says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
import pytest

from uop_codegen_c import Freedoms, Machine, linearize, settings, stages
from uop_ir import AddrSpace, Kind, Ops, UOp, call_params, dtypes, index, override, run_program

F32 = dtypes.f32
PLAIN = Freedoms(optimize=False, contract=False, reassociate=False)


def param(slot: int, *shape: int) -> UOp:
    return UOp.param(slot, prod(shape), F32).reshape(shape)


def kernel(*values: UOp) -> UOp:
    """A kernel that stores values to its first arguments."""
    return UOp.sink(*(param(i, *v.shape).store(v) for i, v in enumerate(values)))  # type: ignore[arg-type]


def spread(x: UOp, *shape: int, axis: int) -> UOp:
    """A vector along one axis of a shape."""
    return x.reshape(tuple(s if a == axis else 1 for a, s in enumerate(shape))).expand(shape)


def rows(x: UOp, n: int) -> UOp:
    return x.reshape((*x.shape, 1)).expand((*x.shape, n))


def linear(body: UOp, free: Freedoms = PLAIN) -> list[UOp]:
    *_, (_, root) = stages(body, free)
    return linearize(root)


def loops_around(order: Sequence[UOp]) -> dict[UOp, tuple[UOp, ...]]:
    """The RANGEs that are open where each node of a linear program stands."""
    around: dict[UOp, tuple[UOp, ...]] = {}
    opened: list[UOp] = []
    for node in order:
        if node.op is Ops.END:
            del opened[len(opened) - len(node.src) + 1 :]
        around[node] = tuple(opened)
        if node.op is Ops.RANGE:
            opened.append(node)
    return around


def executed(body: UOp) -> Counter[Ops]:
    """How often each op on floats runs."""
    order = linear(body)
    counts: Counter[Ops] = Counter()
    for node, loops in loops_around(order).items():
        if node.dtype.is_float and node.op not in (Ops.CONST, Ops.ALLOC, Ops.AFTER, Ops.INDEX, Ops.PARAM):
            counts[node.op] += prod(int(r.src[0].value) for r in loops)
    return counts


def softmax(x: UOp) -> UOp:
    n: Any = x.shape[-1]
    e = (x - rows(x.reduce(Ops.MAX, 1), n)).alu(Ops.SQRT)
    return e / rows(e.reduce(Ops.ADD, 1), n)


def variance(x: UOp) -> UOp:
    n: Any = x.shape[-1]
    d = x - rows(x.reduce(Ops.ADD, 1) * (1 / n), n)
    return d / rows((d * d).reduce(Ops.ADD, 1).alu(Ops.SQRT), n)


A, B, C = param(1, 4), param(2, 5), param(3, 6)
X, SECOND = param(1, 4, 30), param(2, 4, 30)
SHAPE = (4, 5, 6)
CUBE = spread(A.alu(Ops.SQRT), *SHAPE, axis=0) * (spread(A, *SHAPE, axis=0) + spread(B, *SHAPE, axis=1)).alu(
    Ops.RECIP
) + spread(C, *SHAPE, axis=2)


def test_what_does_not_depend_on_a_loop_stands_outside_of_it() -> None:
    """A root for each of 4 rows, a reciprocal for each of 4 * 5 columns, a product and a sum an element."""
    counts = executed(kernel(CUBE))
    assert counts[Ops.SQRT] == 4
    assert counts[Ops.RECIP] == 4 * 5
    assert counts[Ops.MUL] == 4 * 5
    assert counts[Ops.ADD] == 4 * 5 + 4 * 5 * 6
    assert counts[Ops.LOAD] == 4 + 4 * 5 + 4 * 5 * 6


def test_a_reduction_that_depends_on_no_output_axis_runs_once() -> None:
    total = X.reduce(Ops.ADD, 2)
    value = param(2, 50) * total.reshape((1,)).expand((50,))
    assert executed(kernel(value))[Ops.ADD] == 120


def test_nothing_is_computed_twice_at_one_position() -> None:
    """Two stores and a sum that use one root, and reductions of one row that share a loop."""
    root = X.alu(Ops.SQRT)
    counts = executed(kernel(SECOND.alu(Ops.SQRT), SECOND.alu(Ops.SQRT) * 2.0))
    assert counts[Ops.SQRT] == counts[Ops.LOAD] == 120
    both = root.reduce(Ops.ADD, 1) * root.reduce(Ops.MAX, 1) + (root * root).reduce(Ops.ADD, 1)
    order = linear(kernel(both))
    assert executed(kernel(both))[Ops.SQRT] == 120
    assert [int(n.src[0].value) for n in order if n.op is Ops.RANGE] == [4, 30]


def test_a_store_waits_for_no_read_that_nothing_needs() -> None:
    """All but the first element is written over:
    a loop of its own for these reads nothing of what was there.
    """
    old, new = UOp.param(0, 7, dtypes.f64), UOp.param(1, 6, dtypes.f64)
    inside = UOp.const(dtypes.bool, True).reshape((1,)).expand((6,)).pad(((1, 0),))
    body = UOp.sink(old.store(inside.where(new.pad(((1, 0),)), old)))
    *_, (_, root) = stages(body, Freedoms(contract=False, reassociate=False), machine=Machine(32, 16, 1))
    order = linearize(root)
    used = {s for n in order for s in (n.src[:1] if n.op is Ops.AFTER else n.src)}
    assert all(n in used for n in order if n.op is Ops.LOAD)


def test_dependent_reductions_follow_one_another_and_nested_ones_stand_inside() -> None:
    assert [int(n.src[0].value) for n in linear(kernel(softmax(X))) if n.op is Ops.RANGE] == [4, 30, 30, 30]
    inner = X.reduce(Ops.ADD, 1)
    nested = linear(kernel((inner * inner).reduce(Ops.ADD, 1)))
    around = loops_around(nested)
    assert max(len(loops) for loops in around.values()) == 2
    assert executed(kernel((inner * inner).reduce(Ops.ADD, 1)))[Ops.ADD] == 120 + 4


IN_PLACE_X, IN_PLACE_Y = UOp.param(0, 8, F32), UOp.param(1, 8, F32)
STAGED = UOp(Ops.STAGE, (X * 2.0,), AddrSpace.LOCAL)
PROGRAMS: dict[str, UOp] = {
    "elementwise": kernel(CUBE),
    "softmax": kernel(softmax(X)),
    "variance": kernel(variance(X)),
    "several stores": kernel(SECOND + 1.0, SECOND * 2.0),
    "in place": UOp.sink(IN_PLACE_X.store(IN_PLACE_X * 2.0 + 1.0)),
    "exchanged in place": UOp.sink(IN_PLACE_X.store(IN_PLACE_Y), IN_PLACE_Y.store(IN_PLACE_X)),
    "both from both": UOp.sink(
        IN_PLACE_X.store(IN_PLACE_X + IN_PLACE_Y), IN_PLACE_Y.store(IN_PLACE_X * IN_PLACE_Y)
    ),
    "staged": kernel(STAGED + STAGED.flip((False, True))),
    "matmul": kernel(
        (rows(X, 8) * param(2, 30, 8).reshape((1, 30, 8)).expand((4, 30, 8))).permute((0, 2, 1)).reduce(Ops.ADD, 1)
    ),
}  # fmt: skip


@pytest.mark.parametrize("free", [PLAIN, Freedoms()], ids=["plain", "optimized"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_each_value_stands_in_the_loop_of_the_innermost_range_that_it_depends_on(
    name: str, free: Freedoms
) -> None:
    order = linear(PROGRAMS[name], free)
    around = loops_around(order)
    needs: dict[UOp, set[UOp]] = {}
    for node in order:
        closed = set(node.src[1:]) if node.op is Ops.END else set()
        needs[node] = set().union(*(needs[s] for s in node.src)) - closed
        if node.op is Ops.RANGE:
            needs[node] |= {node}
        elif node.dtype.kind is not Kind.VOID and node.op is not Ops.ALLOC:
            inner = max(
                (around[r].index(r) if r in around[r] else len(around[r]) for r in needs[node]), default=-1
            )
            assert len(around[node]) == inner + 1


def items(order: Sequence[UOp]) -> list[Any]:
    """A linear program as nested lists: nodes, and for each loop its RANGEs, what is in it, and its END."""
    out: list[Any] = [[]]
    for node in order:
        if node.op is Ops.RANGE:
            out.append([node])
        elif node.op is Ops.END:
            for _ in node.src[2:]:
                inner = out.pop()
                out[-1].append(inner)
            out[-1].append(node)
            loop = out.pop()
            out[-1].append(loop)
        else:
            out[-1].append(node)
    return out[0]  # type: ignore[no-any-return]


def nodes(item: Any) -> list[UOp]:
    return [n for i in item for n in nodes(i)] if isinstance(item, list) else [item]


def shuffled(block: list[Any], random: np.random.Generator) -> list[UOp]:
    """Another order of a block that keeps what the graph says: sources first. A loop stays one piece."""
    own = [set(nodes(i)) for i in block]
    before = [{s for n in piece for s in n.src} - piece for piece in own]
    here = set().union(*own)
    placed: set[UOp] = set()
    left = list(range(len(block)))
    out: list[UOp] = []
    while left:
        ready = [i for i in left if (before[i] & here) <= placed]
        chosen = int(random.choice(ready))
        left.remove(chosen)
        placed |= own[chosen]
        piece = block[chosen]
        if isinstance(piece, list):
            last = [piece[-1]] if not isinstance(piece[-1], list) and piece[-1].op is Ops.END else []
            inside = piece[1 : len(piece) - len(last)]
            out += [piece[0], *shuffled(inside, random), *last]
        else:
            out.append(piece)
    return out


@pytest.mark.net
@pytest.mark.parametrize("free", [PLAIN, Freedoms()], ids=["plain", "optimized"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_any_order_that_the_graph_allows_stores_the_same(name: str, free: Freedoms) -> None:
    body = PROGRAMS[name]
    order = linear(body, free)
    rng = np.random.default_rng(0)
    given = [rng.integers(1, 9, p.arg.size).astype(np.float32) for p in call_params(body)]

    def result(program: Sequence[UOp]) -> list[Any]:
        memory = [a.copy() for a in given]
        run_program(program, dict(zip(call_params(body), memory, strict=True)))
        return memory

    want = result(order)
    for seed in range(10):
        other = shuffled(items(order), np.random.default_rng(seed))
        assert sorted(map(id, other)) == sorted(map(id, order))
        for a, b in zip(result(other), want, strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_strict_sum_is_folded_from_left_to_right(run_cpu: Callable[..., Any]) -> None:
    """With vectors along another axis or none: as many lanes as there are would each have a part of it."""
    given = np.random.default_rng(0).standard_normal((3, 1000)).astype(np.float32)
    want = np.add.accumulate(given, 1, dtype=np.float32)[:, -1]
    body = kernel(param(1, 3, 1000).reduce(Ops.ADD, 1))
    arrays = [np.zeros(3, np.float32), given.reshape(-1)]
    with override(settings, strict=1):
        np.testing.assert_array_equal(run_cpu(body, arrays)[0], want)
    assert not np.array_equal(run_cpu(body, arrays)[0], want), "the freedom to reassociate is not taken"


@pytest.mark.parametrize("reader", ["behind the loop", "within the loop", "behind the loop around it"])
def test_an_accumulator_that_nothing_is_folded_into_is_read_as_it_was_before(reader: str) -> None:
    """It starts at 3; another, which counts, keeps the loop alive."""
    out, start = UOp.param(0, 4, F32), UOp.const(F32, 3.0)
    outer, r = UOp.range(4, 0), UOp.range(2, 1)
    idle, counts = (UOp.alloc(slot, 1, F32, AddrSpace.REG) for slot in (0, 1))
    steps, now = [], {}
    for memory, more in ((idle, None), (counts, 1.0)):
        begin = memory.after(outer).index(index(0)).store(start)
        now[memory] = memory.after(begin, r).index(index(0)).load()
        value = now[memory] if more is None else now[memory] + more
        steps.append(memory.after(begin).index(index(0)).store(value))
    if reader == "within the loop":
        seen = idle.after(steps[0]).index(index(0)).load()
        body = UOp.sink(out.index(outer).store(seen), steps[1]).end(r).end(outer)
    elif reader == "behind the loop":
        loop = UOp.sink(*steps).end(r)
        total = idle.after(loop).index(index(0)).load() + counts.after(loop).index(index(0)).load()
        body = out.index(outer).store(total).end(outer)
    else:
        loop = UOp.sink(*steps).end(r).end(outer)
        body = out.index(index(0)).store(idle.after(loop).index(index(0)).load())
    found = np.zeros(4, np.float32)
    order = linearize(UOp.sink(body))
    run_program(order, {out: found})
    want = {"behind the loop": [8.0] * 4, "within the loop": [3.0] * 4}.get(reader, [3.0, 0.0, 0.0, 0.0])
    np.testing.assert_array_equal(found, want)
    idles = [
        n
        for n in order
        if n.op is Ops.STORE and n.src[1].op is Ops.LOAD and n.src[0].addrspace is AddrSpace.REG
    ]
    assert len(idles) == (reader == "behind the loop around it")


@pytest.mark.parametrize("inner", [0, 2])
@pytest.mark.parametrize("depends", [False, True])
def test_what_waits_for_an_effect_stands_in_the_loop_that_repeats_it(
    inner: int, depends: bool, run_loops: Callable[..., Any]
) -> None:
    """It does not depend on the inner range itself, but where it is repeated the other stands before it."""
    out, total = UOp.param(0, 3, F32), UOp.param(1, 3, F32)
    i, k = UOp.range(3, 0), UOp.range(inner, 1)
    first = out.index(i).store(UOp.const(F32, 5.0))
    read = out.after(first).index(i).load()
    second = total.index(i).store(read + k.cast(F32) if depends else read * 2.0)
    body = UOp.sink(UOp.sink(first, second).end(i, k))
    order = linearize(body)
    around = loops_around(order)
    assert around[second] == around[first] == (i, k)
    given = [np.full(3, 9, np.float32), np.full(3, 9, np.float32)]
    memory = [a.copy() for a in given]
    run_program(body, {out: memory[0], total: memory[1]})
    for got, want in zip(run_loops(body, given), memory, strict=True):
        np.testing.assert_array_equal(got, want)
