"""Whole models as C: built by make, run without Python, equal to what we compute to the bit."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from uop_ir import DType, UopError, dtypes, override, settings
from uop_nn import AdamW, CharTokenizer, Gpt, GptConfig, Mlp, Module, save_checkpoint
from uop_tensor import Tensor, export, jit

Array = npt.NDArray[Any]
RNG = np.random.default_rng(0)
TEXT = "Whole models, as C: 32 characters or so.\n"
CONFIG = GptConfig(len(set(TEXT)), context=12, layers=2, width=16, heads=2, dropout=0.1)


def save(path: Path, model: Module, **meta: Any) -> Path:
    save_checkpoint(path, {f"model.{name}": t.numpy() for name, t in model.state_dict().items()}, meta)
    return path


def gpt(path: Path) -> tuple[Gpt, Path]:
    model = Gpt(CONFIG, np.random.default_rng(1))
    tokenizer = CharTokenizer(TEXT).to_dict()
    return model.eval(), save(path, model, kind="gpt", config=asdict(CONFIG), tokenizer=tokenizer)


def mlp(path: Path) -> tuple[Mlp, Path]:
    model = Mlp(np.random.default_rng(2), inputs=50, hidden=24, classes=7)
    return model, save(path, model, kind="mnist")


def uopc(*arguments: str) -> int:
    (main,) = (e for e in entry_points(group="console_scripts") if e.name == "uopc")
    code = main.load()(list(arguments))
    assert isinstance(code, int)
    return code


def make(folder: Path, *options: str) -> None:
    flags = "CFLAGS=-O2 -march=native -Wall -Wextra -Wconversion -Werror"
    done = subprocess.run(["make", flags, *options], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def run(
    folder: Path, name: str, given: Mapping[str, Array | float], *outputs: str, threads: int = 2
) -> list[bytes]:
    """The files that a program writes; it finds no Python, and nothing else of ours."""
    words = []
    for key, value in given.items():
        if isinstance(value, np.ndarray):
            value.tofile(folder / f"{key}.in")
        number = value.hex() if isinstance(value, float) else value
        words.append(f"{key}={key}.in" if isinstance(value, np.ndarray) else f"{key}={number}")
    words += [f"{key}={key}.out" for key in outputs]
    environment = {"OMP_NUM_THREADS": str(threads), "PATH": ""}
    done = subprocess.run(
        [f"./{name}", *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return [(folder / f"{key}.out").read_bytes() for key in outputs]


@pytest.mark.parametrize(("batch", "openmp"), [(1, "OPENMP=-fopenmp"), (5, "OPENMP=")])
def test_the_mlp(batch: int, openmp: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, checkpoint = mlp(tmp_path / "checkpoint.safetensors")
    folder = tmp_path / "c"
    command = ["export", "mnist", "--checkpoint", str(checkpoint), "--out", str(folder)]
    assert uopc(*command, "--batch", str(batch)) == 0
    assert "1,399 parameters" in capsys.readouterr().out
    make(folder, openmp)
    replay = jit(model.__call__)
    for _ in range(3):
        images = RNG.standard_normal((batch, 50)).astype(np.float32)
        want = replay(Tensor(images)).numpy()
        assert run(folder, "mnist", {"images": images}, "scores") == [want.tobytes()]


@pytest.mark.parametrize("batch", [1, 3])
def test_the_gpt(batch: int, tmp_path: Path) -> None:
    model, checkpoint = gpt(tmp_path / "checkpoint.safetensors")
    folder = tmp_path / "c"
    # the folder of a run is a checkpoint too
    assert (
        uopc("export", "gpt", "--checkpoint", str(tmp_path), "--out", str(folder), "--batch", str(batch)) == 0
    )
    make(folder)
    assert (folder / "gpt.txt").read_text(encoding="utf-8") == "".join(sorted(set(TEXT)))
    replay = jit(model.__call__)
    for threads in (1, 2, 3):
        tokens = RNG.integers(0, CONFIG.vocabulary, (batch, CONFIG.context)).astype(np.int32)
        want = replay(Tensor(tokens)).numpy()
        assert run(folder, "gpt", {"tokens": tokens}, "scores", threads=threads) == [want.tobytes()]
    written = {
        file.name: file.read_bytes() for file in folder.iterdir() if file.suffix in (".c", ".h", ".bin")
    }
    again = tmp_path / "again"
    command = ["uopc", "export", "gpt", "--checkpoint", str(checkpoint), "--out", str(again)]
    program = str(Path(sys.executable).parent / command[0])
    env = {**os.environ, "PYTHONHASHSEED": str(batch), "UOP_CACHE": str(tmp_path / "cache")}
    subprocess.run([program, *command[1:], "--batch", str(batch)], env=env, check=True, capture_output=True)
    assert written == {name: (again / name).read_bytes() for name in written}


TRAIN = """\
#include "step.h"
#include <stdio.h>
#include <string.h>

int main(void) {
    step_model *model = step_load("step.bin");
    FILE *file = fopen("batches", "rb");
    if (model == NULL || file == NULL) {
        return 1;
    }
    for (int i = 0; i < 4; i++) {
        for (const step_tensor *t = step_inputs; t->name != NULL; t++) {
            if (fread(step_data(model, t), 1, t->bytes, file) != t->bytes) {
                return 2;
            }
        }
        step_run(model, 0.03125 / (i + 1));
        fwrite(step_output_loss(model), sizeof(float), 1, stdout);
    }
    for (const step_tensor *t = step_weights; t->name != NULL; t++) {
        if (strstr(t->name, ".weight") != NULL || strstr(t->name, ".bias") != NULL) {
            fwrite(step_data(model, t), 1, t->bytes, stdout);
        }
    }
    fclose(file);
    step_free(model);
    return fflush(stdout) == 0 ? 0 : 3;
}
"""


def training() -> tuple[Mlp, Callable[[Tensor, Tensor, Tensor | float], Tensor]]:
    model = Mlp(np.random.default_rng(3), inputs=20, hidden=16, classes=5)
    optimizer = AdamW(model.parameters(), 1e-2)

    def step(x: Tensor, y: Tensor, rate: Tensor | float) -> Tensor:
        loss = model.loss(x, y)
        loss.backward()
        optimizer.step(rate)
        optimizer.zero_grad()
        return loss

    return model, step


def test_a_training_step_trains_without_python(tmp_path: Path) -> None:
    batches = [
        (RNG.standard_normal((6, 20)).astype(np.float32), RNG.integers(0, 5, 6).astype(np.int32))
        for _ in range(4)
    ]
    model, step = training()
    export(
        step,
        [Tensor(batches[0][0]), Tensor(batches[0][1]), 0.5],
        tmp_path,
        "step",
        weights=model.state_dict(),
        outputs=["loss"],
    )
    (tmp_path / "main.c").write_text(TRAIN)
    make(tmp_path)
    (tmp_path / "batches").write_bytes(b"".join(a.tobytes() for batch in batches for a in batch))
    said = subprocess.run(["./step"], cwd=tmp_path, capture_output=True, check=True).stdout
    model, step = training()
    replay = jit(step)
    losses = [replay(Tensor(x), Tensor(y), 0.03125 / (i + 1)).numpy() for i, (x, y) in enumerate(batches)]
    names = [
        line.split('"')[1] for line in (tmp_path / "step.c").read_text().splitlines() if '    {"' in line
    ]
    weights = model.state_dict()
    want = [a.tobytes() for a in losses] + [weights[n].numpy().tobytes() for n in names if n in weights]
    assert len(want) == 4 + len(weights)
    assert said == b"".join(want)


@pytest.mark.parametrize("dtype", [dtypes.f16, dtypes.bf16, dtypes.f64, dtypes.i64, dtypes.u8], ids=str)
def test_numbers_beside_tensors_of_every_dtype(dtype: DType, tmp_path: Path) -> None:
    def function(x: Tensor, n: int, rate: float) -> tuple[Tensor, ...]:
        return x * n - (n + 1), x * (rate / 3) if dtype.is_float else x // n, x.cast(dtypes.f32) * rate

    x = np.array([1, 3, 5], np.int8).astype(dtype.numpy)
    export(function, [Tensor(x, dtype=dtype), 1, 0.5], tmp_path, "model")
    make(tmp_path)
    for n, rate in ((3, 0.1), (7, 1e-3)):
        want = [t.numpy().tobytes() for t in jit(function)(Tensor(x, dtype=dtype), n, rate)]
        given: dict[str, Array | float] = {"x": x, "n": n, "rate": rate}
        assert run(tmp_path, "model", given, "output.0", "output.1", "output.2") == want


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gpt", "--checkpoint", "none"], "no checkpoint at none"),
        (
            ["gpt", "--checkpoint", "mlp.safetensors"],
            "mlp.safetensors is a checkpoint of kind mnist, not of a GPT",
        ),
        (
            ["mnist", "--checkpoint", "gpt.safetensors"],
            "gpt.safetensors is a checkpoint of kind gpt, not of images",
        ),
        (["mnist", "--checkpoint", "empty.safetensors"], "empty.safetensors is damaged"),
        (["mnist", "--checkpoint", "mlp.safetensors", "--batch", "0"], "--batch must be at least 1, not 0"),
        (
            ["mnist", "--checkpoint", "mlp.safetensors", "--out", "gpt.safetensors"],
            "cannot write to gpt.safetensors",
        ),
    ],
)
def test_what_the_command_refuses(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    gpt(Path("gpt.safetensors"))
    mlp(Path("mlp.safetensors"))
    save_checkpoint(Path("empty.safetensors"), {}, {"kind": "mnist"})
    assert uopc("export", *arguments) == 1
    assert message in capsys.readouterr().err


def test_a_device_without_c_is_named(tmp_path: Path) -> None:
    with override(settings, dev="INTERP"), pytest.raises(UopError, match=r"kernels of INTERP .*DEV=CPU"):
        export(lambda x: x + 1, [Tensor([1.0])], tmp_path, "model")


@pytest.mark.parametrize("count", [0, 1, 3])
def test_another_number_of_inputs_is_refused(count: int, tmp_path: Path) -> None:
    with pytest.raises(UopError, match=rf"model is called with {count} inputs, .*\(x, y\)"):
        export(lambda x, y: x + y, [Tensor([1.0])] * count, tmp_path, "model")
    with pytest.raises(UopError, match=rf"model is called with {count} inputs"):
        export(jit(lambda x, y: x + y), [Tensor([1.0])] * count, tmp_path, "model")


def test_a_result_in_two_places_has_both_names(tmp_path: Path) -> None:
    def model(x: Tensor) -> dict[str, Tensor]:
        y = x * 2
        return {"a": y, "b": y, "same": x}

    export(model, [Tensor(np.arange(3, dtype=np.float32), device="CPU")], tmp_path, "model")
    make(tmp_path)
    x = np.array([1, -2, 3], np.float32)
    found = run(tmp_path, "model", {"x": x}, "output.a", "output.b", "output.same")
    assert found == [(x * 2).tobytes(), (x * 2).tobytes(), x.tobytes()]


def test_a_copy_between_devices_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UopError, match="model moves a tensor to another device"):
        export(lambda x: x.to("INTERP") + 1, [Tensor([1.0], device="CPU")], tmp_path, "model")


def test_random_numbers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UopError, match="model draws random numbers"):
        export(lambda x: x.dropout(0.5), [Tensor([1.0], device="CPU")], tmp_path, "model")
