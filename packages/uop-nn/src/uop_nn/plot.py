"""Loss curves as a PNG. Week 5."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from uop_ir import UopError

from .files import replacing

__all__ = ["PlotError", "plot_losses"]


class PlotError(UopError):
    """A plot that cannot be drawn or written."""


def plot_losses(
    path: Path,
    steps: Sequence[int],
    losses: Sequence[float],
    validation: Sequence[tuple[int, float]] = (),
) -> None:
    """Draw the training loss (nats) over steps, and the (step, loss) pairs of `validation`, to a PNG at
    `path`.

    A loss that is not finite leaves a gap. Raises PlotError if `steps` and `losses` differ in length, or the
    file cannot be written; then an older plot stays.
    """
    if len(steps) != len(losses):
        raise PlotError(f"{len(steps)} steps and {len(losses)} losses: there must be one loss a step")
    # Here, not above: matplotlib takes two thirds of the time in which this package is imported.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # A Figure of our own with its canvas: pyplot would choose
    # a backend and keep the figure for the whole process.
    figure = Figure(figsize=(8, 5), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.plot(steps, losses, color="tab:blue", linewidth=1, label="training")
    if validation:
        axes.plot(
            *zip(*validation, strict=True), color="tab:orange", marker="o", markersize=4, label="validation"
        )
    axes.set_xlabel("step")
    axes.set_ylabel("loss (nats)")
    axes.grid(alpha=0.3)
    axes.legend()
    try:
        with replacing(Path(path)) as file:
            figure.savefig(file, format="png")
    except OSError as error:
        raise PlotError(f"cannot write the plot {path}: {error.strerror}") from error
