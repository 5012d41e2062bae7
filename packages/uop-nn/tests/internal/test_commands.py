"""The commands: they train, resume and sample; a mistake is one line and exit code 1."""

from __future__ import annotations

from pathlib import Path

import pytest

from uop_ir import UopError
from uop_nn import commands
from uop_nn.checkpoint import load_checkpoint

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
    assert {p.name for p in folder.iterdir()} == {"checkpoint.safetensors", "loss.png"}

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
