"""The commands: they train, resume and sample; a mistake is one line and exit code 1."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest

from uop_ir import UopError
from uop_nn import commands
from uop_nn.checkpoint import load_checkpoint
from uop_nn.options import read_config, to_toml
from uop_nn.train_gpt import GptOptions

pytestmark = pytest.mark.usefixtures("few_batches")

SMALL = "--steps 2 --batch 2 --context 8 --layers 1 --width 4 --heads 1"


def train(line: str, *more: str) -> int:
    return commands.train([*line.split(), *more])


def test_train_resume_and_sample(tmp_path: Path, text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    place = ["--out", str(folder)]
    assert train(f"gpt {SMALL}", "--text", str(text), *place) == 0
    out = capsys.readouterr().out
    assert "step 2: loss " in out
    assert "validation loss" in out
    assert f"saved {folder}/checkpoint.safetensors" in out
    assert "a sample:" in out
    assert {p.name for p in folder.iterdir()} == {
        "checkpoint.safetensors",
        "config.toml",
        "log.csv",
        "log.jsonl",
        "loss.png",
        "run.json",
    }

    assert train("gpt --resume", *place) == 0
    assert "all of the 2 steps are done" in capsys.readouterr().out
    # the sizes come from the checkpoint; the text may have moved
    moved = text.rename(tmp_path / "moved.txt")
    assert train("gpt --resume --steps 3", *place, "--text", str(moved)) == 0
    assert f"resumed after step 2 of {folder}/checkpoint.safetensors" in capsys.readouterr().out
    assert load_checkpoint(folder / "checkpoint.safetensors")[1]["step"] == 3

    arguments = [str(folder), "--prompt", "ab", "--length", "7", "--seed", "1", "--top-k", "3"]
    assert commands.sample(arguments) == 0
    first = capsys.readouterr().out
    assert first.startswith("ab")
    assert len(first) == 2 + 7 + 1
    assert commands.sample(arguments) == 0
    assert capsys.readouterr().out == first


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "MODEL"),
        ("cnn", "invalid choice: 'cnn'"),
        ("gpt --steps many", "--steps: invalid int value: 'many'"),
        ("gpt --steps 0", "--steps must be at least 1, not 0"),
        ("gpt --lr -1", "--lr must be above 0 and finite, not -1.0"),
        ("gpt --lr nan", "--lr must be above 0 and finite, not nan"),
        ("gpt --seed -1", "--seed must be at least 0, not -1"),
        ("gpt --validate-every 0", "--validate-every must be at least 1"),
        ("gpt --context 8 --heads 3", "width of 64 does not divide into 3 heads"),
        ("gpt --context 100000", "the context needs at least"),
        ("gpt --optimizer lbfgs", "--optimizer must be one of adamw, adam, lion, muon, sgd, not 'lbfgs'"),
        ("gpt --dropout 1", "--dropout must be less than 1, not 1.0"),
        ("gpt --ema -0.5", "--ema must be at least 0 and finite, not -0.5"),
        ("gpt --config missing.toml", "cannot read missing.toml"),
        ("gpt --depth 3", "unrecognized arguments: --depth 3"),
        ("mnist --context 3", "unrecognized arguments: --context 3"),
        ("gpt --text missing.txt", "cannot read missing.txt"),
        ("gpt --resume", "no checkpoint at"),
    ],
)
def test_mistakes_are_one_line(
    line: str, message: str, tmp_path: Path, text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    more = ["--text", str(text)] if line.startswith("gpt") and "--text" not in line else []
    with pytest.raises(UopError) as error:
        train(line, *more)
    assert error.value.exit_code == 1
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "runs").exists()


def test_other_options_of_a_resumed_run_are_refused(tmp_path: Path, text: Path) -> None:
    place = ["--out", str(tmp_path)]
    assert train(f"gpt {SMALL}", "--text", str(text), *place) == 0
    for line, message in (
        ("gpt --resume --width 4 --heads 2", "the run to resume has --heads 1, not 2"),
        ("gpt --resume --lr 1", "the run to resume has --lr 0.006, not 1.0"),
        ("mnist --resume", "checkpoint of kind gpt, not mnist"),
    ):
        with pytest.raises(UopError, match=message):
            train(line, *place)


def test_options_from_a_file(tmp_path: Path, text: Path) -> None:
    config = tmp_path / "small.toml"
    config.write_text(
        f"steps = 5\nbatch = 2\ncontext = 8\nlayers = 1\nwidth = 4\nheads = 1\nlr = 1\n"
        f'checkpoint-every = 3\ntext = "{text}"\nschedule = "constant"\n'
    )
    folder = tmp_path / "run"
    assert train("gpt --steps 2 --seed 7", "--config", str(config), "--out", str(folder)) == 0
    options = load_checkpoint(folder / "checkpoint.safetensors")[1]["options"]
    assert (options["steps"], options["checkpoint_every"], options["lr"]) == (2, 3, 1.0)  # a flag comes first
    # what the run has written repeats it
    written = tomllib.loads((folder / "config.toml").read_text())
    assert written == options
    again = tmp_path / "again"
    assert train("gpt", "--config", str(folder / "config.toml"), "--out", str(again)) == 0
    one, other = (load_checkpoint(f / "checkpoint.safetensors") for f in (folder, again))
    assert one[1] == other[1]
    assert all((array == other[0][name]).all() for name, array in one[0].items())
    about = json.loads((folder / "run.json").read_text())
    assert (about["kind"], about["seed"], about["parameters"]) == ("gpt", 7, 296)
    assert about["packages"]["numpy"] == np.__version__


def test_texts_of_a_file_of_options_come_back(tmp_path: Path) -> None:
    odd = GptOptions(text='a "quote", a \\ and \u00e9\u4e2d\n\t\x01', lr=1e-5)
    path = tmp_path / "odd.toml"
    path.write_text(to_toml(odd), encoding="utf-8")
    assert GptOptions(**read_config(path, GptOptions)) == odd


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("steps = 2.5", "steps must be of type int, not 2.5"),
        ("dropout = 1.5", r"bad\.toml: --dropout must be less than 1, not 1.5"),
        ("weight-decay = 0.1\nweight_decay = 0.2", "weight_decay stands twice"),
        ("steps = true", "steps must be of type int, not True"),
        ("lr = 'fast'", "lr must be of type float, not 'fast'"),
        ("stepz = 2", r"stepz is no option of this kind of run \(did you mean steps\?\)"),
        ("[model]\nwidth = 4", "model is no option"),
        ("steps = ", "is not TOML"),
        ("steps = 0", "--steps must be at least 1, not 0"),
    ],
)
def test_files_of_options_that_are_refused(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(content)
    with pytest.raises(UopError, match=message):
        train("gpt --config", str(path))


@pytest.mark.parametrize("help_of", [["--help"], ["gpt", "--help"], ["mnist", "--help"]])
def test_help(help_of: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        commands.train(help_of)
    assert stop.value.code == 0
    assert "usage: uopc train" in capsys.readouterr().out


def test_a_sample_without_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UopError, match="no checkpoint at runs/gpt"):
        commands.sample([])
