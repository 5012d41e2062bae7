"""The scheduler: how many kernels common programs take, what is stored, and what every plan keeps. Week 5."""

import math
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from uop_ir import AddrSpace, Limits, Ops, Plan, UOp, UopError, dtypes
from uop_tensor.plan import Want, make_plan
from uop_tensor.program import canonical

F32 = dtypes.f32


def plan(
    *values: UOp, donors: Mapping[int, UOp] | None = None, must: bool = False, limits: Limits | None = None
) -> Plan:
    """The plan of values; `donors` maps the number of a value to a BUFFER."""
    donors = {i: b.src[0] if b.op is Ops.RESHAPE else b for i, b in (donors or {}).items()}
    roots, buffers = canonical(values, donors.values())
    wants = tuple(Want(buffers.index(donors[i]), must) if i in donors else Want() for i in range(len(values)))
    made = make_plan(UOp.sink(*roots), len(buffers), wants, limits or Limits()).plan
    check(made)
    return made


def check(made: Plan) -> None:
    """Every call waits for the writers of what it reads;
    scratch that lives at one time does not share bytes.
    """
    written: dict[UOp, int] = {}
    lives: dict[UOp, list[int]] = {}
    for time, call in enumerate(made.calls):
        body, params = call.src[0], made.arguments(call)
        stored = {n.arg.slot for s in body.src for n in s.src[0].toposort() if n.op is Ops.PARAM}
        for slot, (argument, memory) in enumerate(zip(call.src[1:], params, strict=True)):
            if memory.op is Ops.ALLOC:
                lives.setdefault(memory, []).append(time)
                assert memory in written or slot in stored, "scratch is read before it is written"
                if memory in written and slot not in stored:
                    assert made.calls[written[memory]] in argument.src[1:]
        written.update({params[slot]: time for slot in stored})
    taken = [(a, made.offsets[a.arg.slot], t[0], t[-1]) for a, t in lives.items()]
    for i, (a, low, first, last) in enumerate(taken):
        assert low % 64 == 0
        assert low + a.arg.size * a.dtype.itemsize <= made.arena
        for b, low2, first2, last2 in taken[:i]:
            apart = low + a.arg.size * a.dtype.itemsize <= low2 or low2 + b.arg.size * b.dtype.itemsize <= low
            assert apart or last < first2 or last2 < first


def kernels(*values: UOp, **how: Any) -> int:
    return len(plan(*values, **how).calls)


def reductions(made: Plan) -> list[int]:
    """How many REDUCEs each kernel has."""
    return [sum(n.op is Ops.REDUCE for n in call.src[0].toposort()) for call in made.calls]


def test_elementwise_chain_is_one_kernel(graphs: SimpleNamespace) -> None:
    x = graphs.buffer(8, 16)
    assert kernels(((x + 1.0) * 2.0).maximum(0.0).alu(Ops.EXP2)) == 1


def test_first_taste_is_one_kernel(graphs: SimpleNamespace) -> None:
    assert kernels((graphs.buffer(2, 3) * 2.0 + 1.0).maximum(0.0).reduce(Ops.ADD, 1)) == 1


@pytest.mark.parametrize("shape", [(4, 8), (64, 65), (2, 4, 64, 64), (256, 1024)])
def test_softmax_is_one_kernel(graphs: SimpleNamespace, shape: tuple[int, ...]) -> None:
    assert kernels(graphs.softmax(graphs.buffer(*shape))) == 1


@pytest.mark.parametrize("shape", [(64, 64), (8, 512)])
def test_scaled_and_masked_softmax_is_one_kernel(graphs: SimpleNamespace, shape: tuple[int, ...]) -> None:
    mask = graphs.buffer(*shape, dtype=dtypes.bool)
    scores = mask.where(graphs.buffer(*shape) * 0.125, -math.inf)
    assert kernels(graphs.softmax(scores)) == 1


def test_layer_norm_is_one_kernel(graphs: SimpleNamespace) -> None:
    assert kernels(graphs.layer_norm(graphs.buffer(32, 64), graphs.buffer(64), graphs.buffer(64))) == 1


def test_linear_and_gelu_is_one_kernel(graphs: SimpleNamespace) -> None:
    assert (
        kernels(
            graphs.gelu(graphs.matmul(graphs.buffer(32, 64), graphs.buffer(64, 128)) + graphs.buffer(128))
        )
        == 1
    )


def test_two_layer_mlp_is_two_kernels(graphs: SimpleNamespace) -> None:
    h = graphs.gelu(graphs.matmul(graphs.buffer(32, 64), graphs.buffer(64, 128)) + graphs.buffer(128))
    made = plan(graphs.matmul(h, graphs.buffer(128, 10)) + graphs.buffer(10))
    assert reductions(made) == [1, 1]


def test_attention_is_three_kernels_after_the_projections(graphs: SimpleNamespace) -> None:
    q, k, v = (graphs.buffer(2, 4, 64, 16) for _ in range(3))
    scores = graphs.matmul(q, k.permute((0, 1, 3, 2))) * 0.25
    made = plan(graphs.matmul(graphs.softmax(scores), v))
    assert reductions(made) == [1, 2, 1]


def test_operand_of_a_matmul_that_is_dear_is_stored(graphs: SimpleNamespace) -> None:
    assert kernels(graphs.matmul(graphs.gelu(graphs.buffer(64, 64)), graphs.buffer(64, 64))) == 2
    assert (
        kernels(
            graphs.matmul(
                graphs.layer_norm(graphs.buffer(64, 64), graphs.buffer(64), graphs.buffer(64)),
                graphs.buffer(64, 64),
            )
        )
        == 2
    )


def test_operand_of_a_matmul_that_is_a_view_is_not_stored(graphs: SimpleNamespace) -> None:
    x = (
        graphs.buffer(64, 64)
        .permute((1, 0))
        .flip((True, False))
        .pad(((1, 1), (0, 0)))
        .shrink(((1, 65), (0, 64)))
    )
    assert kernels(graphs.matmul(x, graphs.buffer(64, 64, dtype=dtypes.f16).cast(F32))) == 1


def test_reduce_with_two_users_is_stored(graphs: SimpleNamespace) -> None:
    total = graphs.buffer(64, 512).reduce(Ops.ADD, 1)
    made = plan(total + 1.0, total.alu(Ops.EXP2))  # its users join its kernel, which then need not store it
    assert [len(call.src[0].src) for call in made.calls] == [2]
    other = total.reshape((64, 1)).expand((64, 512)) * graphs.buffer(64, 512)
    assert kernels(total + 1.0, other.permute((1, 0))) == 2


def test_reduce_within_a_reduce_is_stored_where_it_would_be_repeated(graphs: SimpleNamespace) -> None:
    assert (
        kernels(
            graphs.matmul(graphs.matmul(graphs.buffer(32, 32), graphs.buffer(32, 32)), graphs.buffer(32, 32))
        )
        == 2
    )
    assert kernels(graphs.buffer(8, 9, 10).reduce(Ops.ADD, 1).reduce(Ops.ADD, 1)) == 1


def test_residual_stream_is_stored_once(graphs: SimpleNamespace) -> None:
    x = graphs.buffer(32, 64)
    h = x + graphs.matmul(graphs.layer_norm(x, graphs.buffer(64), graphs.buffer(64)), graphs.buffer(64, 64))
    out = h + graphs.matmul(graphs.layer_norm(h, graphs.buffer(64), graphs.buffer(64)), graphs.buffer(64, 64))
    assert kernels(out) == 4


def test_cheap_value_with_two_users_is_computed_twice(graphs: SimpleNamespace) -> None:
    x = graphs.buffer(64, 64) + 1.0
    made = plan(
        graphs.matmul(graphs.buffer(64, 64), graphs.buffer(64, 64)) + x, x.permute((1, 0)).reduce(Ops.ADD, 1)
    )
    assert len(made.calls) == 2
    assert made.arena == 0


def test_identical_kernels_have_one_body(graphs: SimpleNamespace) -> None:
    made = plan(
        *(
            graphs.gelu(graphs.matmul(graphs.buffer(32, 64), graphs.buffer(64, 128)) + graphs.buffer(128))
            for _ in range(3)
        )
    )
    assert len(made.calls) == 3
    assert len(made.bodies) == 1


def test_optimizer_update_is_one_kernel_in_place(graphs: SimpleNamespace) -> None:
    values, donors = graphs.adam()
    made = plan(*values, donors=donors)
    assert len(made.calls) == 1
    assert len(made.calls[0].src[0].src) == 3
    assert len(made.inputs) == 4  # parameter, gradient and moments: nothing new


def test_optimizer_updates_of_two_parameters_share_a_body(graphs: SimpleNamespace) -> None:
    values, donors = graphs.adam(count=2)
    made = plan(*values, donors=donors)
    assert len(made.calls) == 2
    assert len(made.bodies) == 1
    assert len(made.inputs) == 8


def test_in_place_is_refused_where_another_element_is_read(graphs: SimpleNamespace) -> None:
    x = graphs.buffer(4, 4)
    turned = plan(x.permute((1, 0)) + 1.0, donors={0: x})
    assert len(turned.inputs) == 2
    row = plan(x - x.reduce(Ops.MAX, 1).reshape((4, 1)).expand((4, 4)), donors={0: x})
    assert len(row.inputs) == 2


def test_in_place_where_it_is_refused_can_be_forced_by_a_copy(graphs: SimpleNamespace) -> None:
    x = graphs.buffer(4, 4)
    made = plan(x.permute((1, 0)) + 1.0, donors={0: x}, must=True)
    assert len(made.calls) == 2
    assert len(made.inputs) == 1


def test_in_place_store_runs_after_other_readers(graphs: SimpleNamespace) -> None:
    x, y = graphs.buffer(16, 64), graphs.buffer(64, 16)
    made = plan(x * 2.0, graphs.matmul(x, y), donors={0: x})
    product, store = made.calls
    assert reductions(made) == [1, 0]
    assert product in next(a for a in store.src[1:] if a.op is Ops.AFTER).src[1:]


def test_in_place_is_refused_for_a_reader_of_the_result(graphs: SimpleNamespace) -> None:
    x = graphs.buffer(16, 16)
    new = graphs.matmul(x, graphs.buffer(16, 16)).reshape((16, 16)) + 1.0
    again = plan(new, graphs.matmul(new, x), donors={0: x})
    assert len(again.inputs) == 4


def test_swap_goes_through_scratch(graphs: SimpleNamespace) -> None:
    a, b = graphs.buffer(4), graphs.buffer(4)
    made = plan(b, a, donors={0: a, 1: b}, must=True)
    assert len(made.inputs) == 2
    assert len(made.calls) == 3


def test_constants_and_views_are_copied(graphs: SimpleNamespace) -> None:
    x = graphs.buffer(2, 3)
    assert kernels(x.permute((1, 0))) == 1
    assert kernels(UOp.const(F32, 2.0).reshape((1, 1)).expand((2, 3))) == 1


def test_nothing_is_run_for_no_elements(graphs: SimpleNamespace) -> None:
    assert kernels(graphs.buffer(0, 3) + 1.0) == 0
    assert kernels(graphs.buffer(3, 0).reduce(Ops.ADD, 1)) == 1


def test_limit_of_arguments(graphs: SimpleNamespace) -> None:
    values = [graphs.buffer(8) for _ in range(100)]
    total = values[0]
    for v in values[1:]:
        total = total + v
    for value, most in ((total, 16), (UOp(Ops.STACK, values), 20)):
        made = plan(value, limits=Limits(arguments=most))
        assert all(len(call.src) - 1 <= most for call in made.calls)
    assert kernels(total, limits=Limits(arguments=16)) == 8  # 15 values, six times 14 more, the last


def test_one_operation_with_too_many_arguments(graphs: SimpleNamespace) -> None:
    with pytest.raises(UopError, match="reads 3 values at once"):
        plan(UOp(Ops.MULACC, [graphs.buffer(8) for _ in range(3)]), limits=Limits(arguments=3))


def test_scratch_is_used_again(graphs: SimpleNamespace) -> None:
    x = graphs.buffer(64, 64)
    for _ in range(6):
        x = graphs.matmul(x, graphs.buffer(64, 64))
    made = plan(x)
    assert len(made.calls) == 6
    assert made.arena == 2 * 64 * 64 * 4


def test_long_chain(graphs: SimpleNamespace) -> None:
    x = graphs.buffer(8)
    for _ in range(10_000):
        x = x + 1.0
    made = plan(x)
    assert [sum(n.op is Ops.ADD for n in c.src[0].toposort()) for c in made.calls] == [2000] * 5
    assert made.arena == 2 * 64  # of two kernels, one reads what the other stores


def test_long_kernels_stay_apart(graphs: SimpleNamespace) -> None:
    """Values that share an operand would be one kernel, were it not for its length."""
    x = graphs.buffer(8)
    sines = [(x * float(i)).alu(Ops.SIN) for i in range(40)]
    assert kernels(*sines[:4]) == 1
    assert kernels(*sines) == 5


def test_a_long_kernel_is_not_cut_where_that_takes_much_memory(graphs: SimpleNamespace) -> None:
    x = graphs.buffer(100, 1).expand((100, 100)) + graphs.buffer(100)
    for i in range(3000):
        x = x * float(i)
    assert kernels(x.reduce(Ops.ADD, 1)) == 1


def test_plan_does_not_depend_on_the_run(graphs: SimpleNamespace) -> None:
    def build() -> list[str]:
        h = graphs.gelu(graphs.matmul(graphs.buffer(32, 64), graphs.buffer(64, 128)) + graphs.buffer(128))
        return [c.key for c in plan(graphs.matmul(h, graphs.buffer(128, 10)), graphs.softmax(h)).calls]

    assert build() == build()


def counter(n: int) -> UOp:
    return UOp(Ops.STACK, [UOp.const(dtypes.i32, i) for i in range(n)])


def one_hot_sum(values: int, count: int, op: Ops = Ops.ADD, identity: float = 0.0) -> UOp:
    """For each value the sum (or other fold) of the elements beside which it stands."""
    at, g = UOp.buffer(count, dtypes.i32), UOp.buffer(count, F32)
    mask = counter(values).reshape((values, 1)).eq(at.reshape((1, count)))
    return mask.where(g.reshape((1, count)), identity).reduce(op, 1)


def test_a_sum_that_scatters_is_stored_alone() -> None:
    """A code generator can then add each element where it belongs;
    within another kernel it would compare all.
    """
    total = one_hot_sum(50, 100)
    weight = UOp.buffer(50, F32)
    assert reductions(plan(weight - total * total)) == [1, 0]
    assert reductions(plan(total, weight - total * total)) == [1, 0]
    greatest = one_hot_sum(50, 100, Ops.MAX, -math.inf)
    assert reductions(plan(weight - greatest * greatest)) == [1, 0]
    turned = one_hot_sum(50, 100).reshape((5, 10)).permute((1, 0))
    assert reductions(plan(turned * 2.0)) == [1, 0]


def test_what_names_a_place_may_have_many_paths_to_memory() -> None:
    """2**60 of them: each step of a sorting network uses what is before it in two places."""
    at = UOp.buffer(64, dtypes.i32).reshape((64,))
    for step in range(60):
        block = 2 << step % 6
        other = at.reshape((64 // block, block)).flip((False, True)).reshape((64,))
        at = (
            UOp(Ops.STAGE, ((other < at).where(other, at),), AddrSpace.GLOBAL)
            if step % 2
            else at.maximum(other)
        )
    mask = counter(50).reshape((50, 1)).eq(at.reshape((1, 64)))
    total = mask.where(UOp.buffer(64, F32).reshape((1, 64)), 0.0).reduce(Ops.ADD, 1)
    assert reductions(plan(total * 2.0))[-2:] == [1, 0]


def test_sums_over_one_hot_masks_that_do_not_scatter_or_are_small_are_not_stored() -> None:
    total = one_hot_sum(50, 8)
    assert kernels(UOp.buffer(50, F32) - total * total) == 1
    at, table = UOp.buffer(10, dtypes.i32), UOp.buffer(100, F32)
    mask = counter(100).reshape((1, 100)).eq(at.reshape((10, 1)))
    picked = mask.where(table.reshape((1, 100)), 0.0).reduce(Ops.ADD, 1)
    assert kernels(picked * 2.0 + 1.0) == 1
