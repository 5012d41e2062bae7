"""The CPU backend below the code generator: programs,
plans, memory, scalars. The kernels are written by hand.
"""

import gc
import os
import re
import shutil
import subprocess
import sys
import time
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from uop_codegen_c.cache import KernelSource, active_compiler
from uop_codegen_c.cpu import CpuBackend, threads
from uop_codegen_c.doctor import doctor
from uop_codegen_c.machine import this_machine
from uop_codegen_c.memory import Memory, bytes_of
from uop_codegen_c.runtime import scalar_bits
from uop_codegen_c.settings import settings
from uop_ir import (
    AddrSpace,
    BackendError,
    BoundsError,
    DType,
    Ops,
    Param,
    Plan,
    UOp,
    VerifyError,
    dtypes,
    override,
)
from uop_ir import settings as ir_settings

CC = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang") or ""
N = 8
PREAMBLE = "#include <stdint.h>\n"
C_TYPES = {
    dtypes.bool: "uint8_t",
    dtypes.i8: "int8_t",
    dtypes.i16: "int16_t",
    dtypes.i32: "int32_t",
    dtypes.i64: "int64_t",
    dtypes.u8: "uint8_t",
    dtypes.u16: "uint16_t",
    dtypes.u32: "uint32_t",
    dtypes.u64: "uint64_t",
    dtypes.f16: "uint16_t",
    dtypes.bf16: "uint16_t",
    dtypes.f32: "uint32_t",
    dtypes.f64: "uint64_t",
}


def function(name: str, lines: str, **fields: int) -> KernelSource:
    signature = f"void {name}(void *const *buffers, const int64_t *scalars)"
    return KernelSource(
        name, PREAMBLE, f"{signature};\n\n{signature}\n{{\n    (void)scalars;\n{lines}}}\n", **fields
    )


def scalar(name: str, dtype: DType) -> UOp:
    return UOp(Ops.PARAM, (), Param(dtype, name=name))


def out_and_in() -> tuple[UOp, UOp]:
    return UOp.param(0, N, dtypes.f32), UOp.param(1, N, dtypes.f32)


def square() -> UOp:
    out, x = out_and_in()
    return UOp.sink(out.store(x * x))


def scaled() -> UOp:
    out, x = out_and_in()
    return UOp.sink(out.store(x * scalar("scale", dtypes.f32) + scalar("bias", dtypes.f32)))


def head() -> UOp:
    """The first n elements doubled."""
    out, x = out_and_in()
    n = UOp.variable("n", 1, N)
    return UOp.sink(out.shrink([(0, n)]).store(x.shrink([(0, n)]) + x.shrink([(0, n)])))


def copy_of(dtype: DType) -> UOp:
    """A scalar put into memory, twice."""
    return UOp.sink(UOp.param(0, 2, dtype).store(scalar("value", dtype)))


LOOP = "    float *out = buffers[0];\n    const float *x = buffers[1];\n    for (int i = 0; i < %s; i++) {\n%s    }\n"
FLOAT = "        union { int64_t bits; float value; } %s = { scalars[%d] };\n"


def by_hand() -> dict[UOp, KernelSource]:
    """C for the bodies above. Scalars stand in the order of their names: bias, scale."""
    texts = {
        square(): function("square", LOOP % (N, "        out[i] = x[i] * x[i];\n"), flops=N, bytes=8 * N),
        scaled(): function(
            "scaled",
            LOOP
            % (
                N,
                FLOAT % ("bias", 0)
                + FLOAT % ("scale", 1)
                + "        out[i] = x[i] * scale.value + bias.value;\n",
            ),
        ),
        head(): function("head", LOOP % ("scalars[0]", "        out[i] = x[i] + x[i];\n")),
    }
    for dtype, c in C_TYPES.items():
        lines = f"    {c} *out = buffers[0];\n    out[0] = ({c})scalars[0];\n    out[1] = out[0];\n"
        texts[copy_of(dtype)] = function(f"copy_{dtype}", lines)
    return texts


KERNELS = by_hand()


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.getbasetemp() / "cpu-cache"
    with override(settings, uop_cache=str(folder), cc=""):
        yield


@pytest.fixture
def backend() -> CpuBackend:
    return CpuBackend(KERNELS.__getitem__)


def filled(backend: CpuBackend, data: npt.NDArray[Any]) -> Memory:
    memory = backend.allocate(data.nbytes)
    backend.copy_in(memory, data)
    return memory


def read(backend: CpuBackend, memory: Memory, dtype: npt.DTypeLike = np.float32) -> npt.NDArray[Any]:
    out: npt.NDArray[Any] = np.empty(memory.size // np.dtype(dtype).itemsize, dtype)
    backend.copy_out(memory, out)
    return out


def call(body: UOp, *arguments: UOp) -> UOp:
    return UOp(Ops.CALL, (body, *arguments))


def two_kernels() -> Plan:
    """out = (x * x) * scale + bias, the square in scratch memory at byte 64 of the arena."""
    out, x = UOp.param(0, N, dtypes.f32), UOp.param(1, N, dtypes.f32)
    scratch = UOp.alloc(5, N, dtypes.f32, AddrSpace.GLOBAL)
    rate, shift = scalar("rate", dtypes.f32), scalar("shift", dtypes.f32)
    first = call(square(), scratch, x)
    second = call(scaled(), out, scratch.after(first), shift, rate)
    return Plan((first, second), (out, x), (rate, shift), {5: 64}, 64 + 4 * N)


SCALARS = (scalar("bias", dtypes.f32), scalar("scale", dtypes.f32))
X = np.linspace(-3, 5, N, dtype=np.float32)


def expected(x: npt.NDArray[np.float32], rate: float, shift: float) -> npt.NDArray[np.float32]:
    return np.asarray(x * x * np.float32(rate) + np.float32(shift), np.float32)


def test_a_plan_is_replayed_with_new_scalars_and_new_memory(backend: CpuBackend) -> None:
    run = backend.link(two_kernels())
    out, x, other = backend.allocate(4 * N), filled(backend, X), filled(backend, X[::-1] + 1)
    run([out, x], [0.5, 2.0])
    np.testing.assert_array_equal(read(backend, out), expected(X, 0.5, 2.0))
    run([out, x], [0.1, -1])
    np.testing.assert_array_equal(read(backend, out), expected(X, 0.1, -1))
    run([out, other], [0.1, -1])
    np.testing.assert_array_equal(read(backend, out), expected(X[::-1] + 1, 0.1, -1))
    second = backend.allocate(4 * N)
    run([second, x], [3, 0])
    np.testing.assert_array_equal(read(backend, second), expected(X, 3, 0))
    np.testing.assert_array_equal(read(backend, out), expected(X[::-1] + 1, 0.1, -1))


def test_a_kernel_that_is_called_often_in_a_plan(backend: CpuBackend) -> None:
    params = [UOp.param(n, N, dtypes.f32) for n in range(4)]
    run = backend.link(Plan(tuple(call(square(), params[n + 1], params[n]) for n in range(3)), tuple(params)))
    memory = [filled(backend, X), *(backend.allocate(4 * N) for _ in range(3))]
    run(memory, [])
    np.testing.assert_array_equal(read(backend, memory[3]), ((X * X) * (X * X)) * ((X * X) * (X * X)))


def test_one_memory_given_twice(backend: CpuBackend) -> None:
    out, x = UOp.param(0, N, dtypes.f32), UOp.param(1, N, dtypes.f32)
    run = backend.link(Plan((call(square(), out, x),), (out, x)))
    memory = filled(backend, X)
    run([memory, memory], [])
    np.testing.assert_array_equal(read(backend, memory), X * X)


def test_an_empty_plan(backend: CpuBackend) -> None:
    backend.link(Plan((), ()))([], [])


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        (dtypes.bool, [True, False, 1]),
        (dtypes.i8, [-128, 127, 300]),
        (dtypes.i16, [-32768, 7]),
        (dtypes.i32, [-(2**31), 2**31 - 1, -1]),
        (dtypes.i64, [-(2**63), 2**63 - 1]),
        (dtypes.u8, [255, -1]),
        (dtypes.u16, [65535]),
        (dtypes.u32, [2**32 - 1]),
        (dtypes.u64, [2**64 - 1, 2**63]),
        (dtypes.f16, [0.1, -65504.0, 1e9, -0.0]),
        (dtypes.bf16, [0.1, -3e38]),
        (dtypes.f32, [0.1, -0.0, float("inf"), 1e-45, 1e300, np.float32(0.3)]),
        (dtypes.f64, [0.1, -0.0, float("-inf"), 5e-324]),
    ],
)
def test_scalars_of_each_type_keep_their_bits(backend: CpuBackend, dtype: DType, values: list[float]) -> None:
    out, value = UOp.param(0, 2, dtype), scalar("given", dtype)
    run = backend.link(Plan((call(copy_of(dtype), out, value),), (out,), (value,)))
    memory = backend.allocate(2 * dtype.itemsize)
    for given in values:
        run([memory], [given])
        with np.errstate(over="ignore"):
            one = np.array([given]).astype(object if dtype.is_int else dtype.numpy)
        bits = [int(v) % 2**dtype.bits for v in one] * 2 if dtype.is_int else np.repeat(one, 2)
        found = read(backend, memory, dtype.numpy)
        wanted = np.array(bits, f"u{dtype.itemsize}" if dtype.is_int else dtype.numpy)
        assert found.tobytes() == wanted.tobytes()


def test_a_scalar_with_no_place_in_its_type() -> None:
    with pytest.raises(VerifyError, match="no constant of type i32"):
        scalar_bits(dtypes.i32, 1.5)


def test_a_symbolic_size(backend: CpuBackend) -> None:
    out, x, n = UOp.param(0, N, dtypes.f32), UOp.param(1, N, dtypes.f32), UOp.variable("n", 1, N)
    run = backend.link(Plan((call(head(), out, x, n),), (out, x), (n,)))
    for size in range(1, N + 1):
        memory = filled(backend, np.zeros(N, np.float32))
        run([memory, filled(backend, X)], [size])
        np.testing.assert_array_equal(read(backend, memory), np.where(np.arange(N) < size, X + X, 0))
    for size in (0, N + 1, -1):
        with pytest.raises(BoundsError, match=f"variable n is {size}, outside of 1 to 8"):
            run([memory, memory], [size])
    with pytest.raises(VerifyError):
        run([memory, memory], [1.5])


def test_what_a_plan_is_run_with_is_checked(backend: CpuBackend) -> None:
    run = backend.link(two_kernels())
    out, x = backend.allocate(4 * N), filled(backend, X)
    with pytest.raises(BackendError, match="takes 2 memories, 1 given"):
        run([out], [1, 1])
    with pytest.raises(BackendError, match="takes 2 scalars, 1 given"):
        run([out, x], [1])
    with pytest.raises(BackendError, match="memory 1 of the plan has 28 bytes, needs 32"):
        run([out, backend.allocate(28)], [1, 1])
    run([out, x], [1, 1])
    backend.free(x)
    with pytest.raises(BackendError, match="memory 1 of the plan has been freed"):
        run([out, x], [1, 1])
    fresh = backend.link(two_kernels())
    backend.free(out)
    with pytest.raises(BackendError, match="memory 0 of the plan has been freed"):
        fresh([out, x], [1, 1])


def test_what_a_plan_is_made_of_is_checked(backend: CpuBackend) -> None:
    plan = two_kernels()
    out, x = plan.inputs
    with pytest.raises(BackendError, match="neither scratch memory nor a PARAM of the plan"):
        backend.link(Plan(plan.calls, (out,), plan.scalars, plan.offsets, plan.arena))
    with pytest.raises(BackendError, match="neither scratch memory nor a PARAM of the plan"):
        backend.link(Plan(plan.calls, (out, x), (), plan.offsets, plan.arena))
    for offsets, arena in (({}, 96), ({5: 96}, 96), ({5: 65}, 96), ({5: -1}, 96)):
        with pytest.raises(BackendError, match="scratch slot 5 of 32 bytes has no place in an arena of 96"):
            backend.link(Plan(plan.calls, (out, x), plan.scalars, offsets, arena))


def test_bodies_are_compiled_once_and_forgotten_with_their_graph(backend: CpuBackend) -> None:
    asked: list[UOp] = []

    def generate(body: UOp) -> KernelSource:
        asked.append(body)
        return KernelSource("square", PREAMBLE, KERNELS[square()].text)

    own = CpuBackend(generate)
    out, x = UOp.param(0, N + 1, dtypes.f32), UOp.param(1, N + 1, dtypes.f32)
    body = UOp.sink(out.store(x * x))
    first, again = own.compile([body, body])
    assert own.compile([body]) == [first] == [again]
    assert (len(asked), first.name, "x[i] * x[i]" in first.source) == (1, "square", True)
    with override(settings, opt=0):
        own.compile([body])
    with override(settings, strict=1):
        own.compile([body])
    for width, seconds in ((2, 30), (2, 30), (2, 40)):
        with override(settings, beam=width, beam_seconds=seconds):
            own.compile([body])
    assert len(asked) == 5
    dead = weakref.ref(body)
    asked.clear()
    del body, first, again
    gc.collect()
    assert dead() is None
    assert len(own._programs) == 0


def test_threads_compile_and_run(backend: CpuBackend) -> None:
    shared = backend.link(two_kernels())

    def work(number: int) -> None:
        own = CpuBackend(KERNELS.__getitem__).link(two_kernels())
        x = X + np.float32(number)
        for turn in range(200):
            memory = [backend.allocate(4 * N), filled(backend, x)]
            (shared if turn % 2 else own)(memory, [number, turn])
            np.testing.assert_array_equal(read(backend, memory[0]), expected(x, number, turn))

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(work, number) for number in range(4)]:
            done.result()


#: Says that it runs; waits, for a time, until another thread changes what it reads.
WAITING = function(
    "waiting",
    "    volatile float *out = buffers[0];\n    const volatile float *x = buffers[1];\n    out[0] = -1.0f;\n"
    "    for (int64_t i = 0; i < INT64_C(4000000000) && x[0] != 0.0f; i++) {\n    }\n"
    "    out[0] = x[0];\n",
)


def test_a_run_waits_for_the_one_before_it() -> None:
    """A plan has one table of pointers and scalars."""
    backend = CpuBackend(lambda _: WAITING)
    out, x = out_and_in()
    run = backend.link(Plan((call(square(), out, x),), (out, x)))
    nothing = np.zeros(N, np.float32)
    memory, others = ([filled(backend, nothing), filled(backend, x)] for x in (X, nothing))
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(run, memory, [])
        while read(backend, memory[0])[0] != -1.0:
            time.sleep(0.001)
        second = pool.submit(run, others, [])
        with pytest.raises(TimeoutError):
            second.result(0.1)
        backend.copy_in(memory[1], nothing)
        first.result()
        second.result()


def test_python_goes_on_while_a_kernel_runs() -> None:
    backend = CpuBackend(lambda _: WAITING)
    out, x = out_and_in()
    run = backend.link(Plan((call(square(), out, x),), (out, x)))
    memory = [backend.allocate(4 * N), filled(backend, X)]
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run, memory, [])
        backend.copy_in(memory[1], np.zeros(N, np.float32))
        running.result()
    assert read(backend, memory[0])[0] == 0


def test_the_generator_of_this_package_is_the_default() -> None:
    backend = CpuBackend()
    out, x = out_and_in()
    run = backend.link(Plan((call(square(), out, x), call(scaled(), x, out, *SCALARS)), (out, x), SCALARS))
    memory = [backend.allocate(4 * N), filled(backend, X)]
    run(memory, [2, 0.5])
    np.testing.assert_array_equal(read(backend, memory[0]), X * X)
    np.testing.assert_array_equal(read(backend, memory[1]), X * X * np.float32(0.5) + np.float32(2))


# memory


@pytest.mark.parametrize("nbytes", [0, 1, 63, 64, 4096, 1000001])
def test_memory_is_aligned(backend: CpuBackend, nbytes: int) -> None:
    data = np.random.default_rng(0).integers(0, 256, nbytes, np.uint8)
    memory = filled(backend, data)
    assert memory.data % 64 == 0
    np.testing.assert_array_equal(read(backend, memory, np.uint8), data)


def test_copies_are_checked(backend: CpuBackend) -> None:
    memory = backend.allocate(16)
    with pytest.raises(BackendError, match="array of 12 bytes and memory of 16"):
        backend.copy_in(memory, np.zeros(3, np.float32))
    with pytest.raises(BackendError, match="not contiguous"):
        backend.copy_out(memory, np.zeros((2, 4), np.float32)[:, ::2])
    with pytest.raises(BackendError, match="not contiguous"):
        backend.copy_out(memory, np.zeros((2, 2), np.float32, "F"))
    backend.free(memory)
    with pytest.raises(BackendError, match="freed"):
        backend.copy_in(memory, np.zeros(4, np.float32))


def test_memory_ends_with_its_handle_and_not_before(backend: CpuBackend) -> None:
    out, x = backend.allocate(4 * N), filled(backend, X)
    whole = weakref.ref(bytes_of(x).base)
    run = backend.link(two_kernels())
    run([out, x], [1, 0])
    assert whole() is not None
    del x
    gc.collect()
    assert whole() is None
    np.testing.assert_array_equal(read(backend, out), expected(X, 1, 0))
    backend.free(out)
    backend.free(out)


def test_memory_that_is_not_there(backend: CpuBackend) -> None:
    with pytest.raises(BackendError, match="cannot allocate"):
        backend.allocate(1 << 62)
    for size in (-1, -100):
        with pytest.raises(BackendError, match=f"cannot allocate {size} bytes"):
            backend.allocate(size)


# settings


def test_debug_prints_kernels_and_times(backend: CpuBackend, capsys: pytest.CaptureFixture[str]) -> None:
    out, x = backend.allocate(4 * N), filled(backend, X)
    with override(ir_settings, debug=4):
        run = backend.link(two_kernels())
        printed = capsys.readouterr().out
        backend.link(two_kernels())
        assert capsys.readouterr().out == ""
    assert printed.count("void square(void *const *buffers, const int64_t *scalars)\n{") == 1
    with override(ir_settings, debug=2):
        run([out, x], [0.5, 2])
    np.testing.assert_array_equal(read(backend, out), expected(X, 0.5, 2))
    first, second = capsys.readouterr().out.splitlines()
    assert first.split()[:2] == ["CPU", "square"]
    assert all(unit in first for unit in (" ms", "GFLOP/s", "GB/s"))
    assert "scaled" in second
    assert "GB/s" not in second
    run([out, x], [0.25, 1])
    assert capsys.readouterr().out == ""
    np.testing.assert_array_equal(read(backend, out), expected(X, 0.25, 1))
    backend.free(x)
    with (
        override(ir_settings, debug=2),
        pytest.raises(BackendError, match="memory 1 of the plan has been freed"),
    ):
        run([out, x], [0.5, 2])
    assert capsys.readouterr().out == ""


def test_a_missing_compiler_is_told_when_something_is_compiled() -> None:
    with override(settings, cc="/nowhere/cc"):
        backend = CpuBackend(KERNELS.__getitem__)
        assert backend.limits.threads == 1
        with pytest.raises(BackendError, match="no C compiler"):
            backend.compile([square()])


def test_threads_follow_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    if not any(finding[:2] == ("ok", "OpenMP") for finding in doctor()):
        pytest.skip("no OpenMP here")
    for text, count in (("3", 3), ("5,2", 5), ("many", len(os.sched_getaffinity(0)))):
        monkeypatch.setenv("OMP_NUM_THREADS", text)
        this_machine.cache_clear()
        assert threads() == CpuBackend(KERNELS.__getitem__).limits.threads == count
    this_machine.cache_clear()


CHILD = """\
    float *out = buffers[0];
    #pragma omp parallel for schedule(static)
    for (int i = 0; i < 8; i++) {
        out[i] = 0.0f;
    }
"""


@pytest.mark.net
@pytest.mark.parametrize(
    ("user", "shown"), [({}, "1000"), ({"GOMP_SPINCOUNT": "77"}, "77"), ({"OMP_WAIT_POLICY": "passive"}, "0")]
)
def test_threads_that_wait_soon_sleep(user: dict[str, str], shown: str) -> None:
    """OpenMP itself says what it has understood."""
    if "-fopenmp" not in active_compiler().flags or "gcc" not in active_compiler().version:
        pytest.skip("no GNU OpenMP here")
    code = f"import sys; sys.path[:0] = {[str(Path(__file__).parent), *sys.path]}\n"
    code += "from test_cpu import CHILD, function\nfrom uop_codegen_c.loader import load\nload([function('spread', CHILD)])"
    kept = {k: v for k, v in os.environ.items() if k not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**kept, "OMP_DISPLAY_ENV": "verbose", "UOP_CACHE": settings.uop_cache, **user},
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"GOMP_SPINCOUNT = '{shown}'" in done.stderr


# doctor


def test_doctor_finds_a_compiler() -> None:
    findings = {name: (status, detail) for status, name, detail in doctor()}
    assert findings["C compiler"][0] == "ok"
    assert "-ffp-contract=off" in findings["C flags"][1]
    assert findings["a kernel"] == ("ok", "compiled, loaded, and right")
    names = {"C compiler", "C flags", "OpenMP", "threads", "CPU features", "kernel cache", "a kernel"}
    assert set(findings) == names


def test_doctor_says_how_to_get_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with override(settings, cc="/nowhere/cc", uop_cache=str(tmp_path / "file" / "cache")):
        findings = {name: (status, detail) for status, name, detail in doctor()}
    assert findings["C compiler"][0] == "missing"
    assert "install gcc" in findings["C compiler"][1]
    assert findings["kernel cache"][0] == "missing"
    assert "set UOP_CACHE" in findings["kernel cache"][1]
    assert "OpenMP" not in findings


def cache_finding(folder: Path) -> tuple[str, str]:
    with override(settings, uop_cache=str(folder)):
        (finding,) = [(status, detail) for status, name, detail in doctor() if name == "kernel cache"]
    return finding


def test_doctor_says_what_the_cache_holds(tmp_path: Path) -> None:
    with override(settings, uop_cache=str(tmp_path)):
        CpuBackend(KERNELS.__getitem__).compile([square(), scaled()])
    status, detail = cache_finding(tmp_path)
    assert status == "ok"
    assert re.fullmatch(rf"{tmp_path}/c: 3 kernels, \d\.\d MB, [\d.]+ GB free", detail)  # two, and the replay


def test_doctor_warns_of_a_cache_that_others_may_write(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    status, detail = cache_finding(tmp_path)
    assert (status, "chmod 700" in detail) == ("warn", True)


def test_doctor_warns_of_a_cache_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.chown(tmp_path, 4321, -1) if os.geteuid() == 0 else monkeypatch.setattr(os, "geteuid", lambda: 4321)
    status, detail = cache_finding(tmp_path)
    assert (status, "another user's" in detail) == ("warn", True)


def test_doctor_warns_of_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=5_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    status, detail = cache_finding(tmp_path)
    assert (status, "0.0 GB free; the disk is nearly full (uopc cache prune)" in detail) == ("warn", True)


def test_doctor_tells_of_a_folder_that_nothing_runs_from(tmp_path: Path) -> None:
    """A compiler whose objects cannot be loaded stands for a folder that is mounted so."""
    cc = tmp_path / "cc"
    cc.write_text(
        f'#!/bin/sh\ncase "$*" in *" -E "*) exec {CC} "$@";; esac\nfor a; do case "$a" in *.so) echo x > "$a";; esac; done\n'
    )
    cc.chmod(0o755)
    with override(settings, cc=str(cc), uop_cache=str(tmp_path / "cache")):
        findings = {name: (status, detail) for status, name, detail in doctor()}
    assert findings["a kernel"][0] == "missing"
    assert "set UOP_CACHE to a folder that programs may run from" in findings["a kernel"][1]
