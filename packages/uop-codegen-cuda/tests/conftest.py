"""Kernels as CUDA text, run on the emulator in each order of its threads, against the interpreter;
and GPUs: one that is there, or one that `fake_gpu` makes believe.
"""

from __future__ import annotations

import gc
import importlib.util
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest

from uop_codegen_cuda import CudaSource, emulate, generate, settings
from uop_ir import (
    AddrSpace,
    BackendError,
    DType,
    Ops,
    Param,
    Plan,
    UOp,
    call_params,
    dtypes,
    override,
    run_program,
)
from uop_ir import settings as ir_settings

if TYPE_CHECKING:  # a package of week 7 has no backend for a GPU yet: what asks for one imports it
    from fake_driver import FakeDriver

    from uop_codegen_cuda import CudaBackend

sys.path.insert(0, str(Path(__file__).parent / "fake_gpu"))

Array = npt.NDArray[Any]
#: Run a kernel's body on arrays and scalars, in the order of its arguments; gives the arrays after it.
Runner = Callable[..., list[Array]]

#: Elements behind each array, which nobody may write to.
FENCE = 64


@pytest.fixture(scope="session")
def run_cuda() -> Runner:
    """Run a kernel's CUDA text on the emulator, in an order of its threads."""
    if shutil.which("g++") is None:
        pytest.skip("no g++ to compile CUDA text with (apt install g++)")

    def run(
        source: CudaSource, arrays: list[Array], *scalars: float, order: str = "descending"
    ) -> list[Array]:
        memory = [np.concatenate([a, np.full(FENCE, 77, a.dtype)]) for a in arrays]
        given = dict(zip(source.params[len(arrays) :], scalars, strict=True))
        with override(ir_settings, check=1):
            (kernel,) = emulate([source])
        with override(settings, emu_order=order):
            kernel([a.ctypes.data for a in memory], given)
        assert all((m[len(m) - FENCE :] == m.dtype.type(77)).all() for m in memory), source.text
        return [m[: len(m) - FENCE] for m in memory]

    return run


@pytest.fixture(scope="session")
def run_interp() -> Runner:
    """The same on the interpreter."""

    def run(body: UOp, arrays: list[Array], *scalars: float) -> list[Array]:
        params = call_params(body)
        out = [a.copy() for a in arrays]
        memory = dict(zip(params, out, strict=False))
        run_program(body, memory, dict(zip(params[len(out) :], scalars, strict=True)))
        return out

    return run


def assert_same_bits(got: Array, want: Array) -> None:
    """Equal bit for bit; all NaNs are one."""
    if got.dtype.kind == "f":
        nan = np.isnan(got) & np.isnan(want)
        unsigned = f"u{got.itemsize}"
        got, want = np.where(nan, 0, got).view(unsigned), np.where(nan, 0, want).view(unsigned)
    np.testing.assert_array_equal(got, want)


@pytest.fixture(scope="session")
def check(run_cuda: Runner, run_interp: Runner) -> Callable[..., CudaSource]:
    """Assert that a kernel with exact freedoms is the interpreter's,
    on arrays made for it; gives its text.
    """

    def run(body: UOp, *scalars: float, seed: int = 0, **options: Any) -> CudaSource:
        source = generate(body, **options)
        random = np.random.default_rng(seed)
        arrays = [filled(p.dtype, p.arg.size, random) for p in source.params if p.arg.size is not None]
        wanted = run_interp(body, arrays, *scalars)
        for order in ("ascending", "descending", "random"):
            got = run_cuda(source, arrays, *scalars, order=order)
            for mine, reference in zip(got, wanted, strict=True):
                assert_same_bits(mine, reference)
        return source

    return run


def filled(dtype: DType, size: int, random: np.random.Generator) -> Array:
    """Elements of a type, of all magnitudes that a kernel should bear."""
    if dtype is dtypes.bool:
        return random.integers(0, 2, size).astype(np.bool_)
    if dtype.is_float:
        return (random.standard_normal(size) * 3).astype(dtype.numpy)
    least = 0 if dtype.min == 0 else -9
    return random.integers(least, 10, size).astype(dtype.numpy)


@pytest.fixture(scope="session")
def scaled() -> Callable[..., tuple[Plan, UOp]]:
    """A plan of two kernels: scratch = x[:n] * rate, then out[:n] = scratch + x; and what that is."""

    def make(least: int = 1) -> tuple[Plan, UOp]:
        n = UOp.variable("n", least, 1000)
        rate = UOp(Ops.PARAM, (), Param(dtypes.f32, name="rate"))

        def first(memory: UOp) -> UOp:
            return memory.shrink([(0, n)])

        out, x, y = (UOp.param(i, 1000, dtypes.f32) for i in range(3))
        times = UOp.sink(first(out).store(first(x) * rate))
        plus = UOp.sink(first(out).store(first(x) + first(y)))
        scratch = UOp.alloc(0, 1000, dtypes.f32, AddrSpace.GLOBAL)
        call = UOp(Ops.CALL, (times, scratch, x, n, rate))
        calls = call, UOp(Ops.CALL, (plus, out, scratch.after(call), x, n))
        return Plan(calls, (out, x), (n, rate), {0: 256}, 4352), first(x) * rate + first(x)

    return make


@pytest.fixture(scope="session")
def fake_library() -> FakeDriver:
    """The driver of a GPU that is not there, for all of this process."""
    if importlib.util.find_spec("cuda") is None:
        pytest.skip('no CUDA for Python: pip install "uop-codegen-cuda[cuda]"')
    if shutil.which("g++") is None:
        pytest.skip("no g++ to build a driver with (apt install g++)")
    from fake_driver import install

    return install()


@pytest.fixture
def fake(fake_library: FakeDriver) -> Iterator[FakeDriver]:
    """A machine with such a GPU, on which nothing happens that a driver would not notice."""
    gc.collect()
    fake_library.reset()
    yield fake_library
    gc.collect()
    assert fake_library.problems() == []


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.gpu)])
def gpu(request: pytest.FixtureRequest) -> CudaBackend:
    """The backend CUDA, on a GPU that is not there; in tests marked `gpu` on one that is."""
    from fake_driver import install

    from uop_codegen_cuda import CudaBackend

    if request.param == "fake":
        request.getfixturevalue("fake")
    elif install.cache_info().currsize:
        pytest.skip("this process has the driver of a GPU that is not there: pytest -m gpu")
    try:
        return CudaBackend()
    except BackendError as error:
        if request.param == "fake":
            raise
        pytest.skip(str(error))
