"""Progress of a training run: a bar with loss, speed and time that is left, and lines that stay. Week 9."""

from __future__ import annotations

import sys
from time import perf_counter
from types import TracebackType
from typing import Self

from tqdm import tqdm

__all__ = ["Progress"]

SECONDS = {True: 0.1, False: 10.0}  # between two drawings of the bar, on a terminal and in a file


class Progress:
    """The bar of a run of `steps` steps, `done` of which are behind it; a step has `items` of a `unit`."""

    def __init__(self, steps: int, done: int, items: int, unit: str) -> None:
        self.steps, self.items, self.unit = steps, items, unit
        self._bar = tqdm(
            total=steps * items,
            initial=done * items,
            unit=f" {unit}",
            unit_scale=True,
            dynamic_ncols=True,
            mininterval=SECONDS[sys.stderr.isatty()],
        )
        self._bar.set_description("compiling kernels")
        self._began = perf_counter()
        self._seconds: list[float] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._bar.close()

    def begin(self) -> None:
        """A step begins."""
        self._began = perf_counter()

    def end(self, done: int, loss: float) -> float:
        """It has ended: `done` steps are behind us, and this was its loss. The seconds that it took."""
        seconds = perf_counter() - self._began
        self._seconds.append(seconds)
        self._bar.set_description(f"step {done}/{self.steps}", refresh=False)
        self._bar.set_postfix(loss=f"{loss:.3f}", refresh=False)
        self._bar.update(self.items)
        return seconds

    def line(self, done: int, text: str) -> None:
        """Print a line above the bar: the step, `text`, and the speed since the last line."""
        self._bar.write(f"step {done}: {text}{self._speed()}")
        sys.stdout.flush()  # a pipe would keep it back for long

    def _speed(self) -> str:
        """The speed, without the first step of a process, which compiles."""
        measured = self._seconds[1:]
        if not measured or sum(measured) == 0:
            return ""
        speed = self.items * len(measured) / sum(measured)
        self._seconds = self._seconds[:1]
        return f", {speed:,.0f} {self.unit}/s"
