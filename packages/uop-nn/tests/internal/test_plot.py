"""Loss plots: a PNG that another reader opens, written whole or not at all, and no global state."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from uop_nn.plot import PlotError, plot_losses

ORANGE = np.array([0xFF, 0x7F, 0x0E]) / 255  # tab:orange
BLUE = np.array([0x1F, 0x77, 0xB4]) / 255  # tab:blue


def count(path: Path, colour: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> int:
    return int((np.abs(imread(path)[..., :3] - colour) < 0.02).all(-1).sum())


def test_a_plot_shows_both_curves(tmp_path: Path) -> None:
    path = tmp_path / "plots" / "loss.png"
    steps = list(range(100))
    losses = [4 * math.exp(-step / 30) for step in steps]
    plot_losses(path, steps, losses, [(0, 4.1), (50, 1.0), (99, 0.4)])
    assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert imread(path).shape == (600, 960, 4)
    assert count(path, BLUE) > 200
    assert count(path, ORANGE) > 200
    assert [entry.name for entry in path.parent.iterdir()] == ["loss.png"]
    plot_losses(path, steps, losses)
    assert count(path, BLUE) > 200
    assert count(path, ORANGE) == 0


@pytest.mark.parametrize("losses", [[], [2.0], [math.nan, math.inf]])
def test_plots_of_next_to_nothing(tmp_path: Path, losses: list[float]) -> None:
    plot_losses(tmp_path / "loss.png", list(range(len(losses))), losses, [])
    assert imread(tmp_path / "loss.png").shape == (600, 960, 4)


def test_bad_plots(tmp_path: Path) -> None:
    with pytest.raises(PlotError, match="2 steps and 1 losses"):
        plot_losses(tmp_path / "loss.png", [0, 1], [1.0], [])
    with pytest.raises(PlotError, match="cannot write the plot"):
        plot_losses(tmp_path, [0], [1.0], [])


def test_pyplot_is_not_imported() -> None:
    code = "import sys, uop_nn.plot; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
