"""What a user sees: the kernels printed, what is compiled again and what is not,
one call a step, memory that goes.
"""

from __future__ import annotations

import contextlib
import gc
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from uop_codegen_c import PASSES
from uop_codegen_c import settings as c_settings
from uop_ir import Ops, Plan, UOp, call_params, dtypes, format_uir, get_backend, override, parse_uir, settings
from uop_nn import AdamW, Gpt, GptConfig
from uop_tensor import Tensor, clear_plans, jit

TASTE = """\
import numpy as np
from uopc import Tensor

print((Tensor(np.arange(6, dtype=np.float32).reshape(2, 3)) * 2 + 1).relu().sum(1).numpy())
"""
GEMM = """\
# C = A @ B for 4x4 matrices, from movement ops only
%0 = buffer 16 : dtype=f32 slot=0
%1 = buffer 16 : dtype=f32 slot=1
%2 = reshape %0, (4, 1, 4)
%3 = reshape %1, (4, 4)
%4 = permute %3, (1, 0)
%5 = reshape %4, (1, 4, 4)
%6 = mul %2, %5
%7 = reduce %6 : op=add pop=1
"""


def python(source: str, **env: str) -> str:
    """What a Python program prints."""
    done = subprocess.run(
        [sys.executable, "-c", source], env={**os.environ, **env}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


# the first taste


def test_the_taste_is_one_kernel_of_one_loop_nest(tmp_path: Path) -> None:
    said = python(TASTE, OPT="0", DEBUG="4", DEV="CPU", UOP_CACHE=str(tmp_path))
    kernel, _, after = said.partition("\n}\n")
    assert said.count("void k_") == 1
    assert kernel.count("for (") == 2
    assert re.findall(r"float (acc\d+) =", kernel) == ["acc0"]
    assert "data1[ridx0*3+ridx1]" in kernel
    timed, realized, printed = after.splitlines()
    assert re.search(r"[\d.]+ ms +[\d.]+ GFLOP/s +[\d.]+ GB/s +[\d.]+ ms in all", timed)
    assert re.search(r"1 kernel, schedule and compile [\d.]+ ms, run [\d.]+ ms", realized)
    assert printed == "[ 9. 27.]"


# what is compiled again, and what is not


@pytest.fixture
def logged_cc(tmp_path: Path) -> tuple[Path, Callable[[], int]]:
    """A C compiler that writes down when it is called to make an object; and how often it was."""
    log, script = tmp_path / "log", tmp_path / "cc"
    script.write_text(f'#!/bin/sh\nfor a; do [ "$a" = -o ] && echo "$*" >> {log}; done\nexec cc "$@"\n')
    script.chmod(0o755)
    return script, lambda: log.read_text().count("\n") if log.exists() else 0


def test_the_second_process_compiles_nothing(
    tmp_path: Path, logged_cc: tuple[Path, Callable[[], int]]
) -> None:
    script, compilations = logged_cc
    env = {"CC": str(script), "UOP_CACHE": str(tmp_path / "cache"), "DEV": "CPU"}
    assert python(TASTE, **env) == "[ 9. 27.]\n"
    first = compilations()
    assert first > 0
    objects = sorted((tmp_path / "cache").rglob("*.so"))
    assert python(TASTE, **env) == "[ 9. 27.]\n"
    assert compilations() == first
    assert sorted((tmp_path / "cache").rglob("*.so")) == objects


def test_the_second_program_of_a_shape_is_neither_scheduled_nor_compiled(
    tmp_path: Path, logged_cc: tuple[Path, Callable[[], int]], capsys: pytest.CaptureFixture[str]
) -> None:
    script, compilations = logged_cc
    clear_plans()
    rng, counts = np.random.default_rng(0), list[int]()
    with (
        override(c_settings, cc=str(script), uop_cache=str(tmp_path / "cache")),
        override(settings, debug=1),
    ):
        for number in range(3):
            x = rng.standard_normal((7, 11)).astype(np.float32)
            got = (Tensor(x) * 3 - 1).max(1).numpy()
            np.testing.assert_array_equal(got, (x * 3 - 1).max(1))
            (line,) = capsys.readouterr().out.splitlines()
            assert ("cached" in line) == (number > 0), line
            counts.append(compilations())
    assert counts[0] == counts[2] > 0


def test_one_kernel_serves_every_size(tmp_path: Path, logged_cc: tuple[Path, Callable[[], int]]) -> None:
    """Sum of x[:n] * x[:n] and x[:n] + 1, for n from 1 to 64."""
    script, compilations = logged_cc
    n = UOp.variable("n", 1, 64)
    x = UOp.param(2, 64, dtypes.f32).shrink(((0, n),))
    total = UOp.param(1, 1, dtypes.f32).reshape(()).store((x * x).reduce(Ops.ADD, 1))
    body = UOp.sink(UOp.param(0, 64, dtypes.f32).shrink(((0, n),)).store(x + 1.0), total)
    params = call_params(body)
    backend = get_backend("CPU")
    array = np.arange(64, dtype=np.float32)
    with override(c_settings, cc=str(script), uop_cache=str(tmp_path / "cache")):
        run = backend.link(Plan((UOp(Ops.CALL, (body, *params)),), params[:3], params[3:]))
        compiled = compilations()
        memory = [backend.allocate(256), backend.allocate(4), backend.allocate(256)]
        backend.copy_in(memory[2], array)
        out, sums = np.empty_like(array), np.empty(1, np.float32)
        for size in range(1, 65):
            backend.copy_in(memory[0], np.zeros_like(array))
            run(memory, [size])
            backend.copy_out(memory[0], out)
            backend.copy_out(memory[1], sums)
            np.testing.assert_array_equal(out, np.where(np.arange(64) < size, array + 1, 0))
            assert sums[0] == (array[:size] ** 2).sum()  # integers below 2**24: exact in any order
        assert compilations() == compiled > 0


# the command


@pytest.fixture
def uopc(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """The command, within this process: what it prints, where it succeeds."""
    (command,) = (e for e in entry_points(group="console_scripts") if e.name == "uopc")
    main = command.load()

    def run(*arguments: str) -> str:
        assert main(list(arguments)) == 0
        return capsys.readouterr().out

    return run


@pytest.fixture
def gemm(tmp_path: Path) -> str:
    path = tmp_path / "gemm.uir"
    path.write_text(GEMM)
    return str(path)


def test_uopc_run_multiplies_matrices(uopc: Callable[..., str], gemm: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-9, 9, (4, 4)).astype(np.float32) for _ in range(2))
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    said = uopc("run", gemm, "--input", f"0={tmp_path}/a.npy", "--input", f"1={tmp_path}/b.npy")
    assert said == f"%7: shape (4, 4), dtype f32\n{a @ b}\n"


def test_uopc_compile_prints_a_triple_loop(uopc: Callable[..., str], gemm: str) -> None:
    with override(c_settings, opt=0, strict=1):
        text = uopc("compile", gemm, "--emit", "c")
    loops = [line.strip() for line in text.splitlines() if "for (" in line]
    assert loops == [f"for (int ridx{i} = 0; ridx{i} < 4; ridx{i}++) {{" for i in range(3)]
    assert "acc0 = acc0 + data1[ridx0*4+ridx2] * data2[ridx2*4+ridx1];" in text


@pytest.mark.parametrize("stage", ["kernel", *(step.name for step in PASSES), "linear"])
def test_every_stage_reads_back(uopc: Callable[..., str], gemm: str, stage: str) -> None:
    text = uopc("compile", gemm, "--emit", stage)
    assert format_uir(parse_uir(text).nodes) == text


# a jitted step is one call


class Watched:
    """An Executable that counts its runs."""

    def __init__(self, run: Callable[..., None], runs: list[int]) -> None:
        self.run, self.runs = run, runs

    def __call__(self, memory: Sequence[Any], scalars: Sequence[float | int]) -> None:
        self.runs.append(len(memory))
        self.run(memory, scalars)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """An entry for each call that the CPU backend gets to run a plan."""
    backend = get_backend("CPU")
    link, found = backend.link, list[int]()
    clear_plans()
    monkeypatch.setattr(backend, "link", lambda plan: Watched(link(plan), found))
    yield found
    clear_plans()


@contextlib.contextmanager
def counted_nodes() -> Iterator[list[Ops]]:
    """The op of each node that is made, or asked for again."""
    made: list[Ops] = []
    new = UOp.__new__

    def watched(cls: type[UOp], op: Ops, src: Sequence[UOp] = (), arg: Any = None) -> UOp:
        made.append(op)
        return new(cls, op, src, arg)

    UOp.__new__ = watched  # type: ignore[method-assign]  # put back below
    try:
        yield made
    finally:
        UOp.__new__ = new  # type: ignore[method-assign]


def test_a_jitted_step_is_one_call(runs: list[int]) -> None:
    rng = np.random.default_rng(0)
    start = rng.standard_normal((4, 3)).astype(np.float32)
    w, count = Tensor(start, requires_grad=True), Tensor(np.zeros(3, np.float32))

    @jit
    def step(x: Tensor, lr: Tensor | float) -> tuple[Tensor, Tensor]:
        y = (x @ w).tanh()
        loss = (y * y).mean()
        loss.backward()
        assert w.grad is not None
        w.assign(w - w.grad * lr)
        count.assign(count + 1)
        w.grad = None
        return loss, y

    x = Tensor(rng.standard_normal((5, 4)).astype(np.float32))
    kept = [step(x, 0.5)]  # the memory of results that nobody holds would be used again
    wide, expected = start.astype(np.float64), []
    for lr in (0.5, 0.25, 0.125):
        z = np.tanh(x.numpy() @ wide)
        expected.append((z * z).mean())
        wide = wide - lr * x.numpy().T @ (2 * z / z.size * (1 - z * z))
    w.assign(start)
    w.realize()
    homes = (w.uop, count.uop)
    for number, lr in enumerate((0.5, 0.25, 0.125)):
        runs.clear()
        with counted_nodes() as made:
            kept.append(step(x, lr))
        loss, y = kept[-1]
        assert len(runs) == 1
        # two results, each a new BUFFER, and its shape where it has not just one axis; nothing of the graph
        assert set(made) <= {Ops.BUFFER, Ops.RESHAPE}
        assert made.count(Ops.BUFFER) == 2
        assert (w.uop, count.uop) == homes
        assert loss.item() == pytest.approx(expected[number], rel=1e-5)
        assert y.shape == (5, 3)
    np.testing.assert_allclose(w.numpy(), wide, rtol=1e-5, atol=1e-6)
    assert count.tolist() == [4, 4, 4]
    assert step.traces == 1


def test_a_jitted_update_makes_no_node(runs: list[int]) -> None:
    w = Tensor(np.ones(8, np.float32))

    @jit
    def update(x: Tensor, lr: Tensor | float) -> None:
        w.assign(w - x * lr)

    x = Tensor(np.ones(8, np.float32))
    update(x, 0.5)
    runs.clear()
    with counted_nodes() as made:
        update(x, 0.25)
    assert made == []
    assert len(runs) == 1
    assert w.tolist() == [0.25] * 8


# memory


def train() -> float:
    """A small run: model, optimizer, a jitted step, three steps."""
    model = Gpt(GptConfig(vocabulary=7, context=4, layers=1, width=8, heads=2), np.random.default_rng(0))
    optimizer = AdamW(model.parameters())

    @jit
    def step(x: Tensor, y: Tensor, lr: Tensor | float) -> Tensor:
        loss = model.loss(x, y)
        loss.backward()
        optimizer.step(lr)
        optimizer.zero_grad()
        return loss

    tokens = np.random.default_rng(1).integers(0, 7, (3, 2, 5)).astype(np.int32)
    return [float(step(Tensor(t[:, :-1]), Tensor(t[:, 1:]), 1e-2).item()) for t in tokens][-1]


def alive() -> int:
    clear_plans()
    gc.collect()
    return sum(type(thing) is UOp for thing in gc.get_objects())


def test_ten_training_runs_leave_no_more_nodes_than_one() -> None:
    losses = {train()}
    once = alive()
    losses |= {train() for _ in range(9)}
    assert alive() <= once
    assert len(losses) == 1  # each is the same run
