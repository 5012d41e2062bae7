"""A plan is data: what it says of its calls, and how it prints."""

from __future__ import annotations

from uop_ir import AddrSpace, Ops, Plan, UOp, dtypes


def copy(size: int, factor: float) -> UOp:
    return UOp.sink(UOp.param(0, size, dtypes.f32).store(UOp.param(1, size, dtypes.f32) * factor))


def test_lifetimes_and_print() -> None:
    out, x = UOp.param(0, 4, dtypes.f32), UOp.param(1, 4, dtypes.f32)
    scratch = [UOp.alloc(slot, 4, dtypes.f32, AddrSpace.GLOBAL) for slot in range(2)]
    twice, thrice = copy(4, 2.0), copy(4, 3.0)
    first = UOp(Ops.CALL, (twice, scratch[0], x))
    second = UOp(Ops.CALL, (twice, scratch[1], scratch[0].after(first)))
    third = UOp(Ops.CALL, (thrice, out, scratch[1].after(second)))
    plan = Plan((first, second, third), (out, x), (), {0: 0, 1: 64}, 80)
    assert plan.bodies == (twice, thrice)
    assert plan.lifetimes == {0: (0, 1), 1: (1, 2)}
    assert str(plan) == (
        "plan: 3 calls of 2 kernels, arena of 80 bytes\n"
        f"  0: {twice.key[:12]}(scratch0, input1)\n"
        f"  1: {twice.key[:12]}(scratch1, scratch0)\n"
        f"  2: {thrice.key[:12]}(input0, scratch1)\n"
        "  scratch0: calls 0 to 1, at byte 0\n"
        "  scratch1: calls 1 to 2, at byte 64"
    )
