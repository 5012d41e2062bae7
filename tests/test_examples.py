"""The examples run, on small sizes, and what they say they learn they learn."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from uop_nn import load_safetensors

EXAMPLES = Path(__file__).parents[1] / "examples"
#: Arguments, and what is printed at the end.
SMALL = {
    "mlp": ("--steps 40", r"(9\d|100)\.\d% of the test images are right"),
    "cnn": ("--steps 8 --width 4", r"(9\d|100)\.\d% of the test images are right"),
    "autoencoder": ("--steps 12", r"step 12: mean square error 0\.[01]\d+"),
    "gpt": ("--steps 12 --width 16 --save gpt.safetensors", r"(?s)step 12: loss 3\.\d+, norm.*\n.{200}\n"),
    "llama": ("--steps 4 --layers 1", r"step 4: loss \d\.\d+; of averaged weights \d\.\d+"),
    "gpt2": ("--random --length 5", r"(?s)parameters\nThe compiler said.{5}\n[0-9.]+ tokens/s"),
    "resnet18": ("--side 32", r"(class \d+: \d\.\d+%\n){5}"),
}


#: Grading forbids Python to import from the folder of a script, where an example finds another one.
BESIDE = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}


def test_every_example_is_run_and_in_the_list() -> None:
    scripts = {path.stem for path in EXAMPLES.glob("*.py")} - {"made_up"}
    assert scripts == SMALL.keys()
    readme = (EXAMPLES / "README.md").read_text()
    assert all(f"[{path.name}]" in readme for path in EXAMPLES.iterdir() if path.stem in {*SMALL, "gpt.toml"})


@pytest.mark.parametrize("name", SMALL)
def test_an_example(name: str, tmp_path: Path) -> None:
    arguments, pattern = SMALL[name]
    offline = {"UOP_DATA": "", "http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py"), *arguments.split()],
        cwd=tmp_path,
        env={**BESIDE, **offline},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(pattern, done.stdout), done.stdout
    if name == "gpt":
        assert load_safetensors(tmp_path / "gpt.safetensors")["token.weight"].shape[1] == 16


def test_the_options_of_a_gpt(tmp_path: Path) -> None:
    small = ["--steps", "2", "--batch", "2", "--context", "8", "--width", "16", "--layers", "1"]
    uopc = str(Path(sys.executable).parent / "uopc")
    text = tmp_path / "text.txt"
    text.write_text("the quick brown fox\n" * 50)
    done = subprocess.run(
        [uopc, "train", "gpt", "--config", str(EXAMPLES / "gpt.toml"), *small, "--text", str(text)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "seed = 1\n" in (tmp_path / "runs" / "gpt" / "config.toml").read_text()
