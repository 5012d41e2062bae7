"""The training loop: one jitted step again and again, with validation, checkpoints, and Ctrl-C. Week 9."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from uop_ir import BackendError, UopError
from uop_tensor import Tensor, get_rng_state, set_rng_state

from .checkpoint import CHECKPOINT, CheckpointError, load_checkpoint, save_checkpoint
from .files import remove_leftovers
from .interrupt import Interrupt
from .options import TrainOptions
from .plot import plot_losses
from .progress import Progress
from .run_log import RunLog, describe_run
from .train_step import TrainStep

__all__ = ["INTERRUPTED", "Batches", "Schedule", "Score", "Trainer", "TrainingError"]

PREVIOUS, PLOT = "previous.safetensors", "loss.png"
PLOT_SECONDS = 10.0  # from one plot to the next, where checkpoints are more frequent
RECENT = 20  # steps over which a line of progress averages the loss
INTERRUPTED = 130  # the exit code of a process that Ctrl-C has ended


class TrainingError(UopError):
    """A training run that cannot go on."""


class Batches(Protocol):
    """An endless source of batches whose place can be read and set; the place is what JSON can hold."""

    @property
    def state(self) -> dict[str, Any]: ...

    @state.setter
    def state(self, state: Mapping[str, Any]) -> None: ...

    def __next__(self) -> tuple[NDArray[Any], NDArray[Any]]: ...


class Keeper(Protocol):
    """What has tensors to be kept: a model, an optimizer, an average of weights."""

    def state_dict(self) -> dict[str, Tensor]: ...

    def load_state_dict(self, state: Mapping[str, Tensor | NDArray[Any]]) -> object: ...


class Score(NamedTuple):
    """What validation finds: the loss in nats, and a text that says it."""

    loss: float
    text: str


@dataclass(frozen=True)
class Schedule:
    """How long a run is, in steps, and what happens when;
    `rate(n)` is the learning rate of step n, from 0.
    """

    steps: int
    rate: Callable[[int], float]
    validate_every: int
    checkpoint_every: int


@dataclass
class Trainer:
    """A training run: the step, with the model and what changes it; what it learns from, and how far it has
    come.

    `description` goes into the checkpoint: its kind, its options, and all else that is needed to make the
    model again. A step has `items` of a `unit` (tokens, images). After each step `on_step` is called with the
    number of steps done.
    """

    step: TrainStep
    batches: Batches
    validate: Callable[[], Score]
    folder: Path
    options: TrainOptions
    description: Mapping[str, Any]
    items: int
    unit: str
    on_step: Callable[[int], None] = lambda done: None
    done: int = 0
    losses: list[float] = field(default_factory=list)
    scores: list[tuple[int, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.saved = 0  # the step of the checkpoint on disk
        self.plotted = -math.inf  # when
        self.log = RunLog(self.folder)

    @property
    def checkpoint(self) -> Path:
        return self.folder / CHECKPOINT

    def start(self) -> None:
        """Begin a new run with a checkpoint of the untrained model; one that lies there is kept under another
        name.

        Raises CheckpointError where the folder cannot be written.
        """
        remove_leftovers(self.folder)
        kept = self.folder / PREVIOUS
        if self.checkpoint.exists():
            try:
                self.checkpoint.replace(kept)
            except OSError as error:
                raise CheckpointError(f"cannot write to {self.folder}: {error.strerror}") from error
            print(f"the checkpoint of an earlier run is now {kept}")
        self.save()
        self._begin_log()

    def resume(self) -> None:
        """Take up the run that the checkpoint in the folder is of.
        Raises CheckpointError if it does not fit.
        """
        remove_leftovers(self.folder)
        tensors, meta = load_checkpoint(self.checkpoint)
        for name, value in self.description.items():
            if name != "options" and meta.get(name) != value:
                raise CheckpointError(f"{self.checkpoint} is of another run: it differs in its {name}")
        try:
            for prefix, keeper in self._keepers().items():
                keeper.load_state_dict(part(tensors, prefix))
            self.batches.state = meta["batches"]
            set_rng_state(meta["random"])
            self.done = self.saved = int(meta["step"])
            self.losses = tensors["losses"].tolist()
            self.scores = [(int(step), float(loss)) for step, loss in meta["scores"]]
        except (KeyError, TypeError, ValueError, UopError) as error:
            raise CheckpointError(f"{self.checkpoint} does not fit this training run: {error}") from error
        self._begin_log()

    def save(self) -> None:
        """Write the checkpoint. Raises TrainingError,
        and leaves the old one, if a parameter is not finite.
        """
        tensors = {
            f"{prefix}{name}": t.numpy()
            for prefix, keeper in self._keepers().items()
            for name, t in keeper.state_dict().items()
        }
        for name, array in part(tensors, "model.").items():
            if not np.isfinite(array).all():
                raise TrainingError(f"{name} is not finite after step {self.done}", remedy=self._way_out())
        tensors["losses"] = np.asarray(self.losses, np.float64)
        state = {
            "step": self.done,
            "batches": self.batches.state,
            "random": get_rng_state(),
            "scores": self.scores,
        }
        save_checkpoint(self.checkpoint, tensors, {**self.description, **state})
        self.saved = self.done

    def _begin_log(self) -> None:
        parameters = self.step.model.parameter_count()
        describe_run(self.folder, self.options, {"kind": self.description["kind"], "parameters": parameters})
        self.log.begin(self.done)

    def _keepers(self) -> dict[str, Keeper]:
        """What has state, by the beginning of the names of its tensors in the checkpoint."""
        keepers: dict[str, Keeper] = {"model.": self.step.model, "optimizer.": self.step.optimizer}
        if self.step.ema is not None:
            keepers["ema."] = self.step.ema
        return keepers

    def run(self, schedule: Schedule) -> int:
        """Train until `schedule.steps` steps are done; returns the exit code: 0, or 130 after Ctrl-C.

        After Ctrl-C the step that has begun is finished and saved; a second Ctrl-C stops at once. Raises
        TrainingError if the loss or a parameter is not finite; the last checkpoint stays.
        """
        with Interrupt() as interrupt:
            try:
                self._train(schedule, interrupt)
                if not interrupt.asked:
                    return 0
                self._keep()
            except BackendError:
                # Ctrl-C reaches the compiler too. Where one was running, no step was.
                if not interrupt.asked:
                    raise
                self._keep()
            except KeyboardInterrupt:
                pass
            finally:
                self.log.close()
        print(f"interrupted after step {self.done}; {self._kept()}", file=sys.stderr)
        return INTERRUPTED

    def _train(self, schedule: Schedule, interrupt: Interrupt) -> None:
        with Progress(schedule.steps, self.done, self.items, self.unit) as progress:
            while self.done < schedule.steps and not interrupt.asked:
                progress.begin()
                rate = schedule.rate(self.done)
                loss = self._step(rate)
                seconds = progress.end(self.done, loss)
                last = self.done == schedule.steps
                score = None
                if last or self.done % schedule.validate_every == 0:
                    score = self._validate()
                    self.scores.append((self.done, score.loss))
                    late = float(np.mean(self.losses[-RECENT:]))
                    progress.line(self.done, f"loss {late:.4f}, {score.text}")
                # before the checkpoint: of a step that is in it, the row is there too
                validation = None if score is None or not math.isfinite(score.loss) else score.loss
                self.log.add(
                    {
                        "step": self.done,
                        "loss": loss,
                        "lr": rate,
                        "seconds": round(seconds, 6),
                        "validation_loss": validation,
                    }
                )
                if last or self.done % schedule.checkpoint_every == 0:
                    self._keep(last)
                self.on_step(self.done)

    def _step(self, rate: float) -> float:
        place = self.batches.state
        try:
            loss = self.step([next(self.batches) for _ in range(self.step.accumulate)], rate)
        except BaseException:
            self.batches.state = place
            raise
        if not math.isfinite(loss):
            raise TrainingError(f"the loss is {loss} in step {self.done + 1}", remedy=self._way_out())
        self.losses.append(loss)
        self.done += 1
        return loss

    def _validate(self) -> Score:
        if self.step.ema is None:
            return self.validate()
        with self.step.ema.in_place():
            return self.validate()

    def _keep(self, last: bool = True) -> None:
        """Write the checkpoint, and the plot, unless there is a new one and this is not the last."""
        self.save()
        if last or monotonic() - self.plotted > PLOT_SECONDS:
            plot_losses(self.folder / PLOT, range(1, self.done + 1), self.losses, self.scores)
            self.plotted = monotonic()

    def _kept(self) -> str:
        return f"{self.checkpoint} has step {self.saved}: --resume goes on from there"

    def _way_out(self) -> str:
        return f"a smaller learning rate may help; {self.checkpoint} has step {self.saved}"


def part(tensors: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    """The tensors whose names begin with `prefix`, under the rest of their names."""
    return {name.removeprefix(prefix): array for name, array in tensors.items() if name.startswith(prefix)}
