"""Training: it learns, goes on bit for bit, survives Ctrl-C, and says why it stops."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from uop_ir import BackendError
from uop_nn.checkpoint import CheckpointError, load_checkpoint
from uop_nn.commands import schedule
from uop_nn.data import DataError, Mnist
from uop_nn.export_command import load_image_model
from uop_nn.interrupt import Interrupt
from uop_nn.options import OptionError
from uop_nn.run_log import RunLog
from uop_nn.train_gpt import GptOptions, gpt_trainer
from uop_nn.train_mnist import MnistOptions, ShuffledBatches, mnist_trainer
from uop_nn.train_step import TrainStep
from uop_nn.training import INTERRUPTED, Trainer, TrainingError

pytestmark = pytest.mark.usefixtures("few_batches")

Options = Callable[..., GptOptions]


def train(folder: Path, options: GptOptions, **changed: Any) -> Trainer:
    """A whole run."""
    trainer = replace(gpt_trainer(folder, options), **changed)
    trainer.start()
    assert trainer.run(schedule(options)) == 0
    return trainer


def interrupting(at: int) -> Callable[[int], None]:
    """Sends what Ctrl-C sends, after a step."""

    def on_step(done: int) -> None:
        if done == at:
            os.kill(os.getpid(), signal.SIGINT)

    return on_step


def rows(folder: Path) -> list[dict[str, Any]]:
    """The log of a run; its two files say the same."""
    found = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    with (folder / "log.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert [{k: "" if v is None else str(v) for k, v in row.items()} for row in found] == table
    return found


def test_a_tiny_gpt_learns_its_text(tmp_path: Path, tiny: Options) -> None:
    options = tiny(steps=30, validate_every=10)
    trainer = train(tmp_path / "run", options)
    assert len(trainer.losses) == 30
    # the text has 6 characters; it repeats every 10, so there is next to nothing to guess
    assert trainer.losses[0] == pytest.approx(np.log(6), abs=0.1)
    assert [step for step, _ in trainer.scores] == [10, 20, 30]
    assert trainer.scores[-1][1] < trainer.scores[0][1] < np.log(6)
    assert np.mean(trainer.losses[-5:]) < 1.2
    assert (tmp_path / "run" / "loss.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"dropout": 0.2, "ema": 0.5, "clip": 0.5, "accumulate": 2, "validate_every": 2},
        pytest.param({"optimizer": "muon", "schedule": "one-cycle"}, marks=pytest.mark.slow),
        pytest.param({"dtype": "bf16", "optimizer": "lion", "schedule": "step"}, marks=pytest.mark.slow),
        pytest.param({"optimizer": "sgd", "schedule": "constant"}, marks=pytest.mark.slow),
        pytest.param({"optimizer": "adam", "warmup": 0}, marks=pytest.mark.slow),
    ],
)
def test_what_is_resumed_goes_on_bit_for_bit(
    tmp_path: Path, tiny: Options, capsys: pytest.CaptureFixture[str], changed: dict[str, Any]
) -> None:
    options = tiny(**changed)
    whole = train(tmp_path / "whole", options)

    halted = replace(gpt_trainer(tmp_path / "halted", options), on_step=interrupting(3))
    halted.start()
    assert halted.run(schedule(options)) == INTERRUPTED
    assert halted.done == 3
    path = tmp_path / "halted" / "checkpoint.safetensors"
    assert f"interrupted after step 3; {path} has step 3" in capsys.readouterr().err

    resumed = gpt_trainer(tmp_path / "halted", options)
    resumed.resume()
    assert (resumed.done, resumed.losses) == (3, whole.losses[:3])
    assert resumed.run(schedule(options)) == 0
    assert resumed.losses == whole.losses
    assert resumed.scores == whole.scores
    first, one = load_checkpoint(tmp_path / "whole" / "checkpoint.safetensors")
    second, other = load_checkpoint(path)
    assert one == other
    assert first.keys() == second.keys()
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name], err_msg=name)
    logs = [rows(tmp_path / folder) for folder in ("whole", "halted")]
    assert [row["step"] for row in logs[0]] == list(range(1, options.steps + 1))
    assert [row["loss"] for row in logs[0]] == whole.losses
    for row, again in zip(*logs, strict=True):
        assert {**row, "seconds": 0} == {**again, "seconds": 0}


def test_a_second_ctrl_c_stops_at_once_and_the_checkpoint_stays(
    tmp_path: Path, tiny: Options, capsys: pytest.CaptureFixture[str]
) -> None:
    def twice(done: int) -> None:
        if done == 4:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

    options = tiny(checkpoint_every=3)
    trainer = replace(gpt_trainer(tmp_path, options), on_step=twice)
    trainer.start()
    before = signal.getsignal(signal.SIGINT)
    assert trainer.run(schedule(options)) == INTERRUPTED
    assert signal.getsignal(signal.SIGINT) is before
    assert load_checkpoint(trainer.checkpoint)[1]["step"] == 3
    assert "has step 3" in capsys.readouterr().err


def test_ctrl_c_that_also_stops_a_compiler(
    tmp_path: Path, tiny: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = tiny()
    trainer = gpt_trainer(tmp_path, options)
    trainer.start()
    place = trainer.batches.state

    def step(*_: object) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        raise BackendError("the compiler was killed")

    monkeypatch.setattr(TrainStep, "__call__", step)
    assert trainer.run(schedule(options)) == INTERRUPTED
    meta = load_checkpoint(trainer.checkpoint)[1]
    assert (meta["step"], meta["batches"]) == (0, place)

    def broken(*_: object) -> Any:
        raise BackendError("the compiler is broken")

    monkeypatch.setattr(TrainStep, "__call__", broken)
    with pytest.raises(BackendError, match="is broken"):
        trainer.run(schedule(options))


def test_interrupts_of_another_thread_are_left_alone() -> None:
    before = signal.getsignal(signal.SIGINT)
    seen = []

    def body() -> None:
        with Interrupt() as interrupt:
            seen.append((signal.getsignal(signal.SIGINT) is before, interrupt.asked))

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    assert seen == [(True, False)]


def test_a_loss_that_is_not_finite_stops_the_run(tmp_path: Path, tiny: Options) -> None:
    options = tiny(checkpoint_every=1)
    trainer = gpt_trainer(tmp_path, options)

    def poison(done: int) -> None:
        if done == 2:
            head = trainer.step.model.state_dict()["head.weight"]
            head.assign(np.full(head.shape, np.nan, np.float32))

    trainer.on_step = poison
    trainer.start()
    with pytest.raises(TrainingError, match=r"the loss is nan in step 3 .*smaller learning rate.*has step 2"):
        trainer.run(schedule(options))
    tensors, meta = load_checkpoint(trainer.checkpoint)
    assert meta["step"] == 2
    assert all(np.isfinite(array).all() for array in tensors.values())
    with pytest.raises(TrainingError, match=r"token\.weight is not finite after step 2"):
        trainer.save()
    assert load_checkpoint(trainer.checkpoint)[1]["step"] == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full, of Linux")
def test_a_row_for_which_there_is_no_room(tmp_path: Path) -> None:
    log = RunLog(tmp_path)
    log.begin(0)
    (tmp_path / "log.csv").unlink()
    (tmp_path / "log.csv").symlink_to("/dev/full")
    with pytest.raises(CheckpointError, match=r"cannot write .*log.csv: No space left on device"):
        log.add({"step": 1, "loss": 1.0, "lr": 0.1, "seconds": 0.1, "validation_loss": None})
    log.close()


def test_rows_after_the_checkpoint_are_dropped(tmp_path: Path) -> None:
    log = RunLog(tmp_path)
    log.begin(-1)
    made = [
        {"step": n, "loss": 1 / n, "lr": 0.1, "seconds": 0.5, "validation_loss": 2.0 if n == 2 else None}
        for n in range(1, 5)
    ]
    for row in made:
        log.add(row)
    log.close()
    assert rows(tmp_path) == made
    with (tmp_path / "log.jsonl").open("a") as file:
        file.write('{"step": 5, "lo')  # the process was killed here
    log.begin(3)
    assert rows(tmp_path) == made[:3]
    log.add(made[3])
    log.close()
    assert rows(tmp_path) == made
    log.begin(-1)
    assert rows(tmp_path) == []


def test_what_killed_processes_have_left_is_removed(tmp_path: Path, tiny: Options) -> None:
    gone = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True
    )
    left = tmp_path / f".checkpoint.safetensors.{int(gone.stdout)}.0123abcd.tmp"
    mine = tmp_path / f".loss.png.{os.getpid()}.0123abcd.tmp"
    other = tmp_path / ".notes.mine.tmp"
    for path in (left, mine, other):
        path.write_bytes(b"half")
    gpt_trainer(tmp_path, tiny()).start()
    assert not left.exists()
    assert mine.exists()
    assert other.exists()


def test_a_new_run_keeps_the_checkpoint_of_the_one_before(tmp_path: Path, tiny: Options) -> None:
    train(tmp_path, tiny(steps=1))
    gpt_trainer(tmp_path, tiny()).start()
    assert load_checkpoint(tmp_path / "checkpoint.safetensors")[1]["step"] == 0
    assert load_checkpoint(tmp_path / "previous.safetensors")[1]["step"] == 1


def test_what_cannot_be_resumed(tmp_path: Path, tiny: Options, text: Path) -> None:
    with pytest.raises(CheckpointError, match="no checkpoint at"):
        gpt_trainer(tmp_path / "none", tiny()).resume()
    gpt_trainer(tmp_path, tiny()).start()
    with pytest.raises(CheckpointError, match="differs in its config"):
        gpt_trainer(tmp_path, tiny(width=4)).resume()
    text.write_text(text.read_text().replace("abcab", "acbab"))
    with pytest.raises(CheckpointError, match="differs in its text"):
        gpt_trainer(tmp_path, tiny()).resume()


def test_folders_and_texts_that_will_not_do(tmp_path: Path, tiny: Options, text: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="cannot write the checkpoint"):
        gpt_trainer(tmp_path / "file", tiny()).start()
    text.write_text("short")
    with pytest.raises(DataError, match="has 5 characters, but the context needs at least 90"):
        gpt_trainer(tmp_path, tiny())


def digits(count: int) -> Mnist:
    """Images of 784 pixels whose class is the one bright row of ten."""
    random = np.random.default_rng(0)
    labels = random.integers(0, 10, 2 * count).astype(np.int32)
    images = random.uniform(0, 0.2, (2 * count, 784)).astype(np.float32)
    for image, label in zip(images, labels, strict=True):
        image[label * 70 : label * 70 + 70] += 0.8
    return Mnist(images[:count], labels[:count], images[count:], labels[count:])


@pytest.mark.parametrize(("model", "count", "steps"), [("mlp", 100, 20), ("cnn", 30, 12)])
def test_a_small_model_learns_bright_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], model: str, count: int, steps: int
) -> None:
    options = MnistOptions(
        steps=steps, batch=count // 5, hidden=8, lr=2e-2, warmup=1, validate_every=100, model=model
    )
    trainer = mnist_trainer(tmp_path, options, digits(count))
    trainer.start()
    assert trainer.run(schedule(options)) == 0
    assert trainer.losses[-1] < trainer.losses[0] / 2
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("step "))
    accuracy = float(line.partition("test accuracy ")[2].partition("%")[0])
    assert accuracy > 50
    data = digits(count)
    state = {name: t.numpy().astype(np.float64) for name, t in trainer.step.model.state_dict().items()}
    if model == "mlp":
        x = np.maximum(data.test_images @ state["hidden.weight"].T + state["hidden.bias"], 0)
        found = (x @ state["output.weight"].T + state["output.bias"]).argmax(-1)
        assert accuracy == pytest.approx(100 * (found == data.test_labels).mean(), abs=0.01)
    loaded, pixels = load_image_model(tmp_path)
    assert pixels == 784
    for name, t in loaded.state_dict().items():
        np.testing.assert_array_equal(t.numpy(), state[name].astype(np.float32))


def test_muon_is_for_matrices_between_layers(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="muon is for matrices between layers"):
        mnist_trainer(tmp_path, MnistOptions(model="cnn", optimizer="muon"), digits(100))
    trainer = mnist_trainer(tmp_path, MnistOptions(optimizer="muon", batch=10, hidden=8), digits(10))
    assert [p.shape for p in trainer.step.optimizer.parameters] == [(8,), (10, 8), (10,), (8, 784)]


def test_shuffled_batches_show_each_example_once_an_epoch() -> None:
    x = np.arange(10)

    def epoch(batches: Iterator[Any]) -> list[int]:
        taken = [next(batches) for _ in range(3)]
        assert all((a * 2 == b).all() for a, b in taken)
        return [int(i) for a, _ in taken for i in a]

    batches = ShuffledBatches(x, x * 2, 3, seed=1)
    first, second = epoch(batches), epoch(batches)
    assert len(set(first)) == len(set(second)) == 9
    assert first != second
    again = ShuffledBatches(x, x * 2, 3, seed=1)
    again.state = {"taken": 3}
    assert epoch(again) == second
    assert again.state == {"taken": 6}
    for wrong in ({}, {"taken": -1}, {"taken": "3"}):
        with pytest.raises(DataError, match="not the state"):
            again.state = wrong
    with pytest.raises(DataError, match="do not fill a batch of 11"):
        ShuffledBatches(x, x, 11, seed=0)
