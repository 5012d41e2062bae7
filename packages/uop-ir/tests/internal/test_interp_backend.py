"""The INTERP backend against NumPy: plans with scratch, scalars, several kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from uop_ir import AddrSpace, BackendError, BoundsError, Ops, Param, Plan, UOp, VerifyError, dtypes, parse_uir
from uop_ir.backend import Backend
from uop_ir.interp_backend import InterpBackend

F32 = dtypes.f32


def body_scale(size: int) -> UOp:
    """out = x * rate"""
    out, x = UOp.param(0, size, F32), UOp.param(1, size, F32)
    rate = UOp(Ops.PARAM, (), Param(F32, name="rate"))
    return UOp.sink(out.store(x * rate))


def body_add(size: int) -> UOp:
    """out = x + y"""
    out, x, y = (UOp.param(slot, size, F32) for slot in range(3))
    return UOp.sink(out.store(x + y))


def filled(backend: Backend, data: npt.NDArray[Any]) -> Any:
    memory = backend.allocate(data.nbytes)
    backend.copy_in(memory, data)
    return memory


def two_kernels() -> Plan:
    """scratch = x * rate; out = scratch + x"""
    out, x = UOp.param(0, 8, F32), UOp.param(1, 8, F32)
    rate = UOp(Ops.PARAM, (), Param(F32, name="rate"))
    scratch = UOp.alloc(0, 8, F32, AddrSpace.GLOBAL)
    first = UOp(Ops.CALL, (body_scale(8), scratch, x, rate))
    second = UOp(Ops.CALL, (body_add(8), out, scratch.after(first), x))
    return Plan((first, second), (out, x), (rate,), {0: 32}, 64)


def test_a_plan_replays_with_other_memory_and_scalars() -> None:
    backend: Backend = InterpBackend()
    executable = backend.link(two_kernels())
    for seed, rate in ((0, 0.5), (1, -3.0)):
        x = np.random.default_rng(seed).standard_normal(8).astype(np.float32)
        out = backend.allocate(32)
        executable([out, filled(backend, x)], [rate])
        backend.synchronize()
        result = np.empty(8, np.float32)
        backend.copy_out(out, result)
        assert np.array_equal(result, x * np.float32(rate) + x)
        backend.free(out)


def test_in_place_update_with_a_second_output() -> None:
    weight, momentum, gradient = (UOp.param(slot, 4, F32) for slot in range(3))
    new = momentum * 0.5 + gradient
    body = UOp.sink(momentum.store(new), weight.store(weight - new))
    plan = Plan((UOp(Ops.CALL, (body, weight, momentum, gradient)),), (weight, momentum, gradient))
    w, m, g = (np.arange(4, dtype=np.float32) + k for k in range(3))
    backend = InterpBackend()
    memory = [filled(backend, a) for a in (w, m, g)]
    backend.link(plan)(memory, [])
    assert np.array_equal(memory[1].view(np.float32), m * 0.5 + g)
    assert np.array_equal(memory[0].view(np.float32), w - (m * np.float32(0.5) + g))


def test_symbolic_size_serves_every_size() -> None:
    n = UOp.variable("n", 1, 16)
    out, x = UOp.param(0, 1, F32), UOp.param(1, 16, F32)
    total = x.shrink([(0, n)]).reduce(Ops.ADD, 1)
    plan = Plan((UOp(Ops.CALL, (UOp.sink(out.store(total.reshape((1,)))), out, x, n)),), (out, x), (n,))
    backend = InterpBackend()
    executable = backend.link(plan)
    x_memory = filled(backend, np.arange(16, dtype=np.float32))
    out_memory = backend.allocate(4)
    for size in range(1, 17):
        executable([out_memory, x_memory], [size])
        assert out_memory.view(np.float32)[0] == size * (size - 1) / 2
    with pytest.raises(BoundsError, match="n = 17"):
        executable([out_memory, x_memory], [17])


def test_source_is_text_that_reads_back() -> None:
    body = body_scale(8)
    (program,) = InterpBackend().compile([body])
    assert program.name.startswith("kernel_")
    assert parse_uir(program.source).nodes[-1] is body


def test_what_does_not_fit_is_refused() -> None:
    backend = InterpBackend()
    executable = backend.link(two_kernels())
    with pytest.raises(BackendError, match="2 memories and 1 scalars"):
        executable([backend.allocate(32)], [1.0])
    with pytest.raises(BackendError, match="memory of 16 bytes"):
        executable([backend.allocate(16), backend.allocate(32)], [1.0])
    with pytest.raises(BackendError, match="12 bytes"):
        backend.copy_in(backend.allocate(8), np.zeros(3, np.float32))
    with pytest.raises(VerifyError, match="not closed"):
        backend.compile([UOp.sink(UOp.param(0, 4, F32).store(UOp.buffer(4, F32)))])
