"""Train an MLP or a CNN on digits or clothes: shuffled batches, and the accuracy on the test set. Week 9."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uop_tensor import Tensor, jit, manual_seed, no_grad

from .cnn import Cnn
from .data import DataError, Mnist, load_mnist
from .image_sets import load_fashion_mnist
from .mlp import Mlp
from .options import TrainOptions, default, option
from .recipes import train_step
from .train_step import TrainStep
from .training import Score, Trainer

__all__ = ["MnistOptions", "ShuffledBatches", "image_model", "image_step", "mnist_trainer"]

CHUNK = 1000  # test images at once


@dataclass(frozen=True)
class MnistOptions(TrainOptions):
    """The defaults are five times through 10,000 images."""

    steps: int = default("steps", 390)
    batch: int = default("batch", 128, "images at once")
    lr: float = default("lr", 5e-3)
    warmup: int = default("warmup", 20)
    validate_every: int = default("validate_every", 78, "steps from one look at the test set to the next")
    checkpoint_every: int = default("checkpoint_every", 78)
    model: str = option("mlp", "what is trained", choices=("mlp", "cnn"))
    data: str = option("mnist", "the images: digits or clothes", choices=("mnist", "fashion-mnist"))
    hidden: int = option(128, "width of the hidden layer of the MLP")


class ShuffledBatches:
    """An endless iterator over the examples in an order that is new in each epoch; what does not fill a batch
    waits.

    Each item is (x, y), `batch` examples long. The order of an epoch follows from the seed and its number, so
    the place is one number: how many batches were taken.
    """

    def __init__(self, x: NDArray[Any], y: NDArray[Any], batch: int, seed: int) -> None:
        """Raises DataError unless the examples, as many in x as in y, fill one batch."""
        if not 1 <= batch <= len(x) == len(y):
            raise DataError(f"{len(x)} and {len(y)} examples do not fill a batch of {batch}")
        self._x, self._y, self._batch, self._seed = x, y, batch, seed
        self._taken = 0

    def __iter__(self) -> ShuffledBatches:
        return self

    def __next__(self) -> tuple[NDArray[Any], NDArray[Any]]:
        epoch, number = divmod(self._taken, len(self._x) // self._batch)
        order = np.random.default_rng([self._seed, epoch]).permutation(len(self._x))
        chosen = order[number * self._batch : (number + 1) * self._batch]
        self._taken += 1
        return self._x[chosen], self._y[chosen]

    @property
    def state(self) -> dict[str, Any]:
        """How many batches were taken."""
        return {"taken": self._taken}

    @state.setter
    def state(self, state: Mapping[str, Any]) -> None:
        """Continue with the batch that followed when `state` was read. Raises DataError if it is no such
        state.
        """
        taken = state.get("taken")
        if not isinstance(taken, int) or taken < 0:
            raise DataError(f"not the state of shuffled batches: {dict(state)}")
        self._taken = taken


def image_model(options: MnistOptions, pixels: int) -> Mlp | Cnn:
    """The model that the options ask for, of images of so many pixels. Raises ModelError for sizes that will
    not do.
    """
    generator = np.random.default_rng(options.seed)
    if options.model == "mlp":
        return Mlp(generator, inputs=pixels, hidden=options.hidden)
    return Cnn(generator, side=math.isqrt(pixels))


def image_step(model: Mlp | Cnn, options: MnistOptions) -> TrainStep:
    """The step of its training."""
    matrices = [p for name, p in model.named_parameters() if p.ndim == 2 and not name.startswith("output")]
    return train_step(model, model.loss, options, matrices=matrices)


def mnist_trainer(folder: Path, options: MnistOptions, data: Mnist | None = None) -> Trainer:
    """A run in `folder` that has not begun, on `data` or those of the options.

    Raises UopError for data or sizes that will not do.
    """
    if data is None:
        data = load_mnist() if options.data == "mnist" else load_fashion_mnist()
    manual_seed(options.seed % (1 << 64))
    model = image_model(options, data.train_images.shape[1])
    print(
        f"{type(model).__name__.upper()} of {model.parameter_count():,} parameters; "
        f"{len(data.train_images):,} images to train on, {len(data.test_images):,} to test on"
    )
    return Trainer(
        step=image_step(model, options),
        batches=ShuffledBatches(data.train_images, data.train_labels, options.batch, options.seed),
        validate=_validation(model, data),
        folder=folder,
        options=options,
        description={"kind": "mnist", "options": asdict(options)},
        items=options.batch * options.accumulate,
        unit="images",
    )


def _validation(model: Mlp | Cnn, data: Mnist) -> Callable[[], Score]:
    """The mean loss and the accuracy on the test set."""

    def evaluate(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        with no_grad(), model.evaluating():
            scores = model(x)
            right = scores.argmax(-1) == y
            return scores.cross_entropy(y, reduction="sum", ignore_index=None), right.sum()

    jitted = jit(evaluate)

    def validate() -> Score:
        total, right = 0.0, 0
        count = len(data.test_images)
        for begin in range(0, count, CHUNK):
            part = slice(begin, begin + CHUNK)
            loss, hits = jitted(Tensor(data.test_images[part]), Tensor(data.test_labels[part]))
            total, right = total + float(loss.item()), right + int(hits.item())
        return Score(total / count, f"test loss {total / count:.4f}, test accuracy {right / count:.2%}")

    return validate
