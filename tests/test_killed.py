"""A run that is killed, at any moment, goes on from
its checkpoint and ends with the same weights and the same log.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from uop_nn import load_checkpoint

UOPC = str(Path(sys.executable).parent / "uopc")
#: Everything that has state: dropout, averages of weights, several batches a step.
OPTIONS = (
    "--batch 2 --context 8 --layers 1 --width 8 --heads 2 --dropout 0.2 --ema 0.9 --accumulate 2 --clip 1 "
    "--schedule constant --validate-every 7 --checkpoint-every 3"
)


def start(folder: Path, text: Path, steps: int) -> subprocess.Popen[bytes]:
    """A run in a folder; where that has a checkpoint, the run goes on."""
    command = [UOPC, "train", "gpt", "--out", str(folder), "--steps", str(steps)]
    resumed = (folder / "checkpoint.safetensors").exists()
    command += ["--resume"] if resumed else [*OPTIONS.split(), "--text", str(text)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def finished(folder: Path) -> tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]]]:
    tensors, meta = load_checkpoint(folder / "checkpoint.safetensors")
    log = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return tensors, meta, [{**row, "seconds": 0} for row in log]


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.slow)], ids=["twice", "20 times"])
def test_a_killed_run_ends_with_the_same_weights(kills: int, tmp_path: Path) -> None:
    text, whole, killed = tmp_path / "text.txt", tmp_path / "whole", tmp_path / "killed"
    text.write_text("the quick brown fox\n" * 50)
    moments = np.random.default_rng(0)
    log = killed / "log.csv"
    for number in range(kills):
        process = start(killed, text, 10**6)
        if number % 3 < 2:  # a while after its first steps; else at any time from its first moment on
            grown = log.stat().st_size if log.exists() else 0
            while not (log.exists() and log.stat().st_size > grown + 200):
                time.sleep(0.001)
                assert process.poll() is None
        time.sleep(moments.uniform(0, 0.1 if number % 3 < 2 else 4))
        process.kill()
        assert process.wait() == -signal.SIGKILL
    steps = load_checkpoint(killed / "checkpoint.safetensors")[1]["step"] + 5
    assert start(killed, text, steps).wait(timeout=600) == 0
    assert start(whole, text, steps).wait(timeout=600) == 0
    tensors, meta, log_of_whole = finished(whole)
    others, meta_of_killed, log_of_killed = finished(killed)
    assert meta == meta_of_killed
    assert meta["step"] == steps
    assert tensors.keys() == others.keys()
    for name, array in tensors.items():
        np.testing.assert_array_equal(array, others[name], err_msg=name)
    assert log_of_whole == log_of_killed
    assert {path.name for path in killed.iterdir()} == {path.name for path in whole.iterdir()}
