"""The main jobs, as a user runs them: `uopc train` and `uopc sample`,
from the shell, on kernels that we compile.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

UOPC = str(Path(sys.executable).parent / "uopc")
DATA = os.environ.get("UOP_DATA", "")
needs_data = pytest.mark.skipif(not DATA, reason="UOP_DATA is not set")


def uopc(*arguments: str, timeout: float = 300, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [UOPC, *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env={**os.environ, **settings},
    )


def numbers(what: str, output: str) -> list[float]:
    """What each line says of `what`."""
    return [float(found) for found in re.findall(rf"^step .*{what} ([0-9.]+)", output, re.MULTILINE)]


@needs_data
def test_the_mlp_reads_93_percent_of_the_digits(tmp_path: Path) -> None:
    done = uopc("train", "mnist", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "10,000 to test on" in done.stdout
    assert numbers("test accuracy", done.stdout)[-1] >= 93


@needs_data
def test_the_gpt_learns_within_60_steps(tmp_path: Path) -> None:
    done = uopc("train", "gpt", "--steps", "60", "--validate-every", "20", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "GPT of 111,360 parameters; 1,003,854 characters" in done.stdout
    losses = numbers("validation loss", done.stdout)
    assert losses == sorted(losses, reverse=True)
    # 4.17 is a guess among 65 characters, 3.3 knows their frequencies, 2.5 knows the frequencies of pairs
    assert losses[-1] < 2.7
    text = uopc("sample", str(tmp_path), "--prompt", "KING", "--length", "200")
    assert text.returncode == 0, text.stderr
    assert text.stdout.startswith("KING")
    assert len(text.stdout) == 4 + 200 + 1


@needs_data
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ for the emulator (apt install g++)")
def test_the_digits_are_learned_on_the_emulator_with_the_bits_of_the_interpreter(tmp_path: Path) -> None:
    """50 steps under STRICT=1: the losses, and the weights that are saved."""
    options = ("--steps", "50", "--batch", "32", "--hidden", "32", "--validate-every", "50")
    said, saved = [], []
    for device in ("EMU", "INTERP"):
        out = tmp_path / device
        done = uopc("train", "mnist", *options, "--out", str(out), DEV=device, STRICT="1")
        assert done.returncode == 0, done.stderr
        said.append([numbers(what, done.stdout) for what in ("loss", "test loss", "test accuracy")])
        saved.append((out / "checkpoint.safetensors").read_bytes())
    assert said[0] == said[1]
    assert said[0][2][-1] > 75
    assert saved[0] == saved[1]


@needs_data
@pytest.mark.slow
def test_the_gpt_of_the_main_job(tmp_path: Path) -> None:
    done = uopc("train", "gpt", "--out", str(tmp_path), timeout=1800)
    assert done.returncode == 0, done.stderr
    assert numbers("validation loss", done.stdout)[-1] <= 2.15
    sample = done.stdout.partition("a sample:\n")[2]
    assert re.search(r"^[A-Z][A-Z ]+:$", sample, re.MULTILINE), sample


def test_ctrl_c_keeps_a_checkpoint_that_goes_on(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the quick brown fox\n" * 50)
    folder = tmp_path / "run"
    command = [UOPC, "train", "gpt", "--text", str(text), "--out", str(folder), "--steps", "100000"]
    command += ["--validate-every", "20", "--batch", "2", "--context", "8", "--layers", "1", "--width", "8"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while not process.stdout.readline().startswith("step 20: "):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    (said,) = [line for line in stderr.splitlines() if line.startswith("interrupted")]
    match = re.fullmatch(
        rf"interrupted after step (\d+); {folder}/checkpoint.safetensors has step \1: .*", said
    )
    assert match, said
    step = int(match[1])
    resumed = uopc("train", "gpt", "--resume", "--steps", str(step + 2), "--out", str(folder))
    assert resumed.returncode == 0, resumed.stderr
    assert f"resumed after step {step} of" in resumed.stdout
    assert f"step {step + 2}: " in resumed.stdout


def test_ctrl_c_before_the_first_step(tmp_path: Path) -> None:
    """While it compiles: the signal goes to the compiler too, as from a terminal."""
    folder = tmp_path / "run"
    env = {**os.environ, "UOP_CACHE": str(tmp_path / "cache"), "UOP_DATA": str(tmp_path)}
    text = tmp_path / "text.txt"
    text.write_text("the quick brown fox\n" * 50)
    command = [UOPC, "train", "gpt", "--text", str(text), "--context", "8", "--out", str(folder)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, start_new_session=True
    ) as process:
        while not (folder / "checkpoint.safetensors").exists():
            assert process.poll() is None
            time.sleep(0.01)
        time.sleep(1)
        os.killpg(process.pid, signal.SIGINT)
        _, stderr = process.communicate(timeout=120)
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr
    assert "checkpoint.safetensors has step" in stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["train", "gpt", "--text", "short.txt"],
            "short.txt has 5 characters, but the context needs at least 650",
        ),
        (["train", "gpt", "--steps", "none"], "invalid int value: 'none'"),
        (["train", "gpt", "--out", "short.txt/run"], "cannot write the checkpoint short.txt/run"),
        (["train"], "MODEL"),
        (["sample", "missing"], "no checkpoint at missing"),
        (["sample", "short.txt"], "short.txt is not a safetensors file"),
    ],
)
def test_a_mistake_is_one_line(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("short.txt").write_text("short")
    done = uopc(*arguments)
    assert done.returncode == 1
    assert done.stderr.startswith("uopc: error: ")
    assert done.stderr.count("\n") == 1
    assert message in done.stderr


@pytest.mark.slow
def test_a_step_of_the_mlp_is_tuned_and_what_is_found_is_kept(tmp_path: Path) -> None:
    sizes = ("mlp", "--batch", "16", "--hidden", "16")
    first = uopc("tune", "--seconds", "1", "--width", "1", *sizes, UOP_CACHE=str(tmp_path))
    assert first.returncode == 0, first.stderr
    head, *rows, last = first.stdout.splitlines()
    assert head.split() == ["kernel", "stores", "before", "after", "ratio", "schedule"]
    assert last.startswith(f"{len(rows)} kernels, ")
    explained = uopc("explain", *sizes, UOP_CACHE=str(tmp_path)).stdout
    assert len(rows) == sum(int(n) for n in re.findall(r"^plan .* (\d+) different$", explained, re.MULTILINE))
    kept = {p.name for p in tmp_path.glob("c/tuned/*/*.json")}
    assert len(kept) == len(rows)
    again = uopc("tune", "--seconds", "1", "--width", "1", *sizes, UOP_CACHE=str(tmp_path))
    assert again.stdout == first.stdout, "nothing is searched a second time"
