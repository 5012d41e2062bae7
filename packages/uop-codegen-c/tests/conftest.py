"""Kernels in a cache of the test's own, and what runs one on the backend and on the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from uop_codegen_c import (
    CpuBackend,
    Freedoms,
    KernelSource,
    Schedule,
    generate,
    linearize,
    render,
    settings,
    stages,
)
from uop_ir import Ops, Plan, UOp, call_params, dtypes, format_uir, override, run_program
from uop_ir import settings as ir_settings

Array = npt.NDArray[Any]
Runner = Callable[..., list[Array]]
Keeper = Callable[[str, UOp, int], AbstractContextManager[None]]


@pytest.fixture(scope="session")
def cpu(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CpuBackend]:
    """The backend, with an empty cache, and every pass verified."""
    with (
        override(settings, uop_cache=str(tmp_path_factory.mktemp("cache"))),
        override(ir_settings, check=1),
    ):
        yield CpuBackend()


def run_on(backend: CpuBackend, body: UOp, arrays: list[Array], *scalars: float) -> list[Array]:
    """Run the body of a kernel on arrays, in the order of its arguments; gives the arrays after it."""
    params = call_params(body)
    inputs = tuple(p for p in params if p.arg.size is not None)
    plan = Plan((UOp(Ops.CALL, (body, *params)),), inputs, params[len(inputs) :])
    memories = []
    for array in arrays:
        memory = backend.allocate(array.nbytes)
        backend.copy_in(memory, array)
        memories.append(memory)
    backend.link(plan)(memories, scalars)
    out = [np.empty_like(a) for a in arrays]
    for memory, array in zip(memories, out, strict=True):
        backend.copy_out(memory, array)
        backend.free(memory)
    return out


@pytest.fixture(scope="session")
def run_cpu(cpu: CpuBackend) -> Runner:
    """Run the body of a kernel on arrays, in the order of its arguments; gives the arrays after it."""
    return partial(run_on, cpu)


@pytest.fixture(scope="session")
def run_scheduled(cpu: CpuBackend) -> Runner:  # for its cache
    """The same with freedoms and a schedule of the kernel's own."""

    def run(body: UOp, freedoms: Freedoms, schedule: Schedule, arrays: list[Array]) -> list[Array]:
        backend = CpuBackend(lambda body: generate(body, freedoms, schedule=schedule))
        return run_on(backend, body, arrays)

    return run


@pytest.fixture(scope="session")
def run_loops(cpu: CpuBackend) -> Runner:  # for its cache
    """The same for a program of loops over memory, through the passes from the check of its accesses on."""

    def lowered(body: UOp) -> KernelSource:
        *_, (_, root) = stages(body, Freedoms(optimize=False, contract=False, reassociate=False), "bounds")
        helpers, text = render("kernel", linearize(root), call_params(body))
        return KernelSource("kernel", "\n\n".join(["#include <stdint.h>", *helpers]), text)

    return partial(run_on, CpuBackend(lowered))


@pytest.fixture(scope="session")
def run_interp() -> Runner:
    """The same on the interpreter."""

    def run(body: UOp, arrays: list[Array], *scalars: float) -> list[Array]:
        params = call_params(body)
        out = [a.copy() for a in arrays]
        run_program(
            body, dict(zip(params, out, strict=False)), dict(zip(params[len(out) :], scalars, strict=True))
        )
        return out

    return run


@pytest.fixture(scope="session")
def same_bits() -> Callable[[Array, Array], None]:
    """Assert that two arrays are equal bit for bit; all NaNs are one."""

    def check(got: Array, want: Array) -> None:
        if got.dtype.kind == "f" or got.dtype == dtypes.bf16.numpy:
            nan = np.isnan(got) & np.isnan(want)
            unsigned = f"u{got.itemsize}"
            got, want = np.where(nan, 0, got).view(unsigned), np.where(nan, 0, want).view(unsigned)
        elif got.dtype == np.bool_:  # of which NumPy takes any byte but 0 for True
            got, want = got.view(np.uint8), want.view(np.uint8)
        np.testing.assert_array_equal(got, want)

    return check


@pytest.fixture(scope="session")
def kept(pytestconfig: pytest.Config) -> Keeper:
    """A context in which a kernel whose test fails is kept as `.uir`,
    under a name and with the seed of its inputs.

    What is copied from there to the folder `kernels` is run with the other tests, by test_net.py.
    """
    folder = pytestconfig.cache.mkdir("kernels")

    @contextmanager
    def keep(name: str, body: UOp, seed: int) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            path = folder / f"{name}.uir"
            path.write_text(f"# inputs of seed {seed}\n{format_uir(body)}")
            error.add_note(f"the kernel is kept in {path}; copied to tests/kernels, it is run again")
            raise

    return keep
