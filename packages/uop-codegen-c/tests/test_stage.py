"""STAGE: what is filled once and read at several positions,
in the loops that its value needs and no others.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import pytest

from uop_codegen_c import Freedoms, Schedule, generate, linearize, settings, stages
from uop_ir import AddrSpace, BackendError, DType, Limits, Ops, UOp, call_params, dtypes, override

F32 = dtypes.f32
PLAIN = Freedoms(optimize=False, contract=False, reassociate=False)


def param(slot: int, *shape: int) -> UOp:
    return UOp.param(slot, prod(shape), F32).reshape(shape)


def local(x: UOp) -> UOp:
    return UOp(Ops.STAGE, (x,), AddrSpace.LOCAL)


def reg(x: UOp) -> UOp:
    return UOp(Ops.STAGE, (x,), AddrSpace.REG)


def kernel(value: UOp) -> UOp:
    return UOp.sink(param(0, *value.shape).store(value))  # type: ignore[arg-type]  # sizes are ints


def rows(x: UOp, n: int) -> UOp:
    """A value a row, beside each of n columns."""
    return x.reshape((*x.shape, 1)).expand((*x.shape, n))


def matmul(a: UOp, b: UOp) -> UOp:
    (n, k), (_, m) = a.shape, b.shape
    left = a.reshape((n, 1, k)).expand((n, m, k))
    return (left * b.permute((1, 0)).reshape((1, m, k)).expand((n, m, k))).reduce(Ops.ADD, 1)


def softmax(x: UOp) -> UOp:
    n: Any = x.shape[1]
    e = local((x - rows(reg(x.reduce(Ops.MAX, 1)), n)).alu(Ops.EXP2))
    return e / rows(e.reduce(Ops.ADD, 1), n)


X, Y = param(1, 5, 24), param(2, 24, 6)
DOUBLED = local(X * 2.0)
ROOT = X.alu(Ops.SQRT)
KERNELS: dict[str, tuple[UOp, int]] = {
    # by name: the kernel, and how many elements of scratch memory it has
    "a row, read from both ends": (kernel(DOUBLED + DOUBLED.flip((False, True))), 24),
    "columns, read from both ends": (kernel(DOUBLED + DOUBLED.flip((True, False))), 120),
    "all, read in another order": (kernel(DOUBLED + DOUBLED.flip((True, True))), 120),
    "a row of the left operand": (kernel(matmul(local(ROOT), Y)), 24),
    "all of the right operand": (kernel(matmul(X, local(Y.alu(Ops.SQRT)))), 144),
    "the exponentials of a row": (kernel(softmax(X)), 25),
    "one element in a register": (kernel(reg(X * 2.0) + 1.0), 1),
    "padded": (kernel(DOUBLED.pad(((1, 0), (2, 1)))), 120),
    "padded at the end": (kernel(DOUBLED.pad(((0, 0), (0, 1)))), 24),
    "a sum in scratch": (kernel(rows(local(X.reduce(Ops.ADD, 1)), 3) * 2.0), 1),
    "scratch of scratch": (kernel(local(DOUBLED + 1.0) + DOUBLED.flip((False, True))), 25),
}


@pytest.mark.net
@pytest.mark.parametrize("opt", [0, 1])
@pytest.mark.parametrize("name", KERNELS)
def test_values_are_those_of_the_interpreter(
    run_cpu: Callable[..., Any],
    run_interp: Callable[..., Any],
    same_bits: Callable[..., None],
    name: str,
    opt: int,
) -> None:
    body = KERNELS[name][0]
    rng = np.random.default_rng(0)
    given = [rng.integers(0, 9, p.arg.size).astype(np.float32) for p in call_params(body)]
    with override(settings, opt=opt, strict=1):
        same_bits(run_cpu(body, given)[0], run_interp(body, given)[0])


@pytest.mark.parametrize("name", KERNELS)
def test_scratch_stands_inside_of_the_loops_that_it_uses(name: str) -> None:
    body, elements = KERNELS[name]
    root = next(iter(stages(body, PLAIN)))[1]
    assert sum(n.arg.size for n in root.toposort() if n.op is Ops.ALLOC) == elements


def test_scratch_of_a_row_is_in_the_loop_of_the_row() -> None:
    """Each thread that takes rows has its own."""
    for name in ("a row, read from both ends", "a row of the left operand", "the exponentials of a row"):
        *_, (_, root) = stages(KERNELS[name][0], PLAIN)
        order = linearize(root)
        first = next(n for n in order if n.op is Ops.RANGE)
        assert first.arg[0] == 0
        scratch = [n for n in order if n.op is Ops.ALLOC and n.arg.addrspace is AddrSpace.LOCAL]
        assert scratch
        assert min(map(order.index, scratch)) > order.index(first)


def test_a_sum_that_fills_scratch_for_each_term_is_not_split_over_lanes(run_cpu: Callable[..., Any]) -> None:
    x = local(param(1, 24, 16).permute((1, 0)) * 2.0)
    total = (x + x.flip((False, True))).reduce(Ops.MAX, 1).reduce(Ops.ADD, 1)
    given = np.random.default_rng(0).integers(-9, 9, (24, 16)).astype(np.float32)
    out = run_cpu(kernel(total), [np.zeros(1, np.float32), given.reshape(-1)])[0]
    assert out[0] == (2 * (given + given[::-1])).max(0).sum()


@pytest.mark.parametrize("summed", [False, True], ids=["last axis", "reduction"])
def test_an_axis_inside_of_which_scratch_is_filled_has_no_lanes(
    run_cpu: Callable[..., Any], summed: bool
) -> None:
    """Along that axis memory is contiguous, so that there would be vectors but for the scratch memory."""
    row = local(param(1, 3, 6, 64).permute((0, 2, 1)) * 2.0)
    value = (row * row.flip((False, False, True))).reduce(Ops.ADD, 1)
    given = np.random.default_rng(0).integers(-9, 9, (3, 6, 64)).astype(np.float32)
    want = (4 * given * given[:, ::-1]).sum(1)
    if summed:
        value, want = value.reduce(Ops.ADD, 1), want.sum(1)
    (out, _) = run_cpu(kernel(value), [np.zeros(want.size, np.float32), given.reshape(-1)])
    np.testing.assert_array_equal(out, want.reshape(-1))


def test_what_is_staged_is_computed_once() -> None:
    """The root of a left operand once an element, not once a product; of exponentials, one an element."""
    once, again = kernel(matmul(local(ROOT), Y)), kernel(matmul(ROOT, Y))
    assert generate(again, PLAIN).flops - generate(once, PLAIN).flops == 5 * 24 * 6 - 5 * 24
    for name in ("a row, read from both ends", "columns, read from both ends", "all, read in another order"):
        assert generate(KERNELS[name][0], PLAIN).flops == 2 * 120


def test_what_a_kernel_has_no_room_for_is_refused() -> None:
    long = local(param(1, 1_000_000) * 2.0)
    with pytest.raises(
        BackendError, match="1000000 elements of f32 in local memory, where a kernel has room"
    ):
        generate(kernel(long + long.flip((True,))))
    for size in (room := Limits.local_memory // 4, room + 1):
        x = local(param(1, size) * 2.0)
        if size == room:
            assert f"buf0[{size}]" in generate(kernel(x + x.flip((True,)))).text
            continue
        with pytest.raises(
            BackendError, match=f"{size} elements of f32 in local memory, where .* for {room}"
        ):
            generate(kernel(x + x.flip((True,))))
    assert "buf0[1]" in generate(kernel(long + 1.0), PLAIN).text
    row = reg(X * 2.0)
    with pytest.raises(BackendError, match="24 elements of f32 in reg memory, where a kernel has room for 1"):
        generate(kernel(row + row.flip((False, True))))


def test_a_symbolic_axis_of_scratch_has_its_greatest_size(
    run_cpu: Callable[..., Any], run_interp: Callable[..., Any]
) -> None:
    n = UOp.variable("n", 0, 24)
    x = param(1, 5, 24).shrink(((0, 5), (0, n)))
    twice = local(x * 2.0)
    body = UOp.sink(param(0, 5, 24).shrink(((0, 5), (0, n))).store(twice + twice.flip((False, True))))
    assert "buf0[24]" in generate(body, PLAIN).text
    given = [np.zeros(120, np.float32), np.arange(120, dtype=np.float32)]
    for size in (0, 1, 23, 24):
        np.testing.assert_array_equal(run_cpu(body, given, size)[0], run_interp(body, given, size)[0])


def test_a_copy_of_a_fill_sums_up_its_own_row(
    run_scheduled: Callable[..., Any], run_interp: Callable[..., Any], same_bits: Callable[..., None]
) -> None:
    """Three rows side by side have scratch each,
    and one loop that sums up all three, until each fill gets its own.
    """
    x = local(param(1, 3, 4, 8).reduce(Ops.ADD, 1))
    body, copies = kernel(x + x.flip((False, True))), Schedule.parse("retype 0 upcast")
    *_, (_, root) = stages(body, PLAIN, schedule=copies)
    order = linearize(root)
    assert sum(n.op is Ops.ALLOC and n.arg.addrspace is AddrSpace.REG for n in order) == 3
    given = [np.zeros(12, np.float32), np.arange(96, dtype=np.float32)]
    same_bits(run_scheduled(body, PLAIN, copies, given)[0], run_interp(body, given)[0])


@pytest.mark.parametrize("dtype", [dtypes.u8, dtypes.i32, dtypes.i64], ids=str)
def test_scratch_memory_that_vectors_of_positions_read(
    run_cpu: Callable[..., Any], dtype: DType, same_bits: Callable[..., None]
) -> None:
    """x[i] of a staged x: a vector of positions is loaded, and 0 is read where one is out of range."""
    size, count = 17, 35
    x = UOp(Ops.STAGE, (UOp.param(1, size, dtypes.f32) * 2.0,), AddrSpace.LOCAL).reshape((1, size))
    at = UOp(Ops.STACK, [UOp.const(dtype, i) for i in range(size)]).reshape((1, size))
    chosen = at.eq(UOp.param(2, count, dtype).reshape((count, 1))).where(x, 0.0)
    body = UOp.sink(UOp.param(0, count, dtypes.f32).store(chosen.reduce(Ops.ADD, 1)))
    values = np.arange(1, size + 1, dtype=np.float32)
    places = (np.arange(count) * 5 % (size + 2)).astype(dtype.numpy)
    got = run_cpu(body, [np.zeros(count, np.float32), values, places])[0]
    same_bits(got, np.append(2 * values, np.zeros(2, np.float32))[places])
