"""From the options of a run: its optimizer, its learning rates, and its step. Week 9."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from uop_ir import by_name
from uop_tensor import Tensor

from .adaptive import Adam, AdamW, Lion
from .ema import Ema
from .module import Module
from .muon import Muon
from .optim import SGD, CombinedOptimizer, Optimizer
from .options import OptionError, TrainOptions
from .rates import Constant, LinearWarmup, OneCycle, StepDecay, warmup_cosine
from .train_step import TrainStep

__all__ = ["learning_rate", "train_step"]


def train_step(
    model: Module,
    loss: Callable[[Tensor, Tensor], Tensor],
    options: TrainOptions,
    *,
    betas: tuple[float, float] = (0.9, 0.999),
    matrices: Sequence[Tensor] = (),
) -> TrainStep:
    """The step that the options ask for; `matrices` are the weights of hidden layers, which Muon is for.

    Raises OptionError for Muon where there are none.
    """
    return TrainStep(
        model,
        _optimizer(model.parameters(), options, betas, matrices),
        loss,
        options.accumulate,
        options.clip,
        Ema(model, options.ema) if options.ema else None,
        by_name(options.dtype),
    )


def learning_rate(options: TrainOptions) -> Callable[[int], float]:
    """The rate of each step, from 0: it rises in a line for `warmup` steps, then goes on as `schedule` says."""
    steps, warmup, lr = options.steps, options.warmup, options.lr
    if options.schedule == "cosine":
        return lambda step: warmup_cosine(step, steps, lr, warmup=warmup)
    if options.schedule == "one-cycle":  # which has a rise of its own
        return OneCycle(lr, steps)
    thirds = StepDecay(lr, max((steps - warmup + 2) // 3, 1))
    then = Constant(lr) if options.schedule == "constant" else thirds
    return LinearWarmup(warmup, then) if warmup else then


def _optimizer(
    parameters: Sequence[Tensor],
    options: TrainOptions,
    betas: tuple[float, float],
    matrices: Sequence[Tensor],
) -> Optimizer:
    lr, decay = options.lr, options.weight_decay
    hidden = {id(p) for p in matrices}
    others = [p for p in parameters if id(p) not in hidden]
    if options.optimizer == "muon" and not matrices:
        raise OptionError("--optimizer muon is for matrices between layers, and this model has none")
    makers: dict[str, Callable[[], Optimizer]] = {
        "sgd": lambda: SGD(parameters, lr, momentum=0.9, weight_decay=decay),
        "adam": lambda: Adam(parameters, lr, betas=betas, weight_decay=decay),
        "adamw": lambda: AdamW(parameters, lr, betas=betas, weight_decay=decay),
        "lion": lambda: Lion(parameters, lr, weight_decay=decay),
        "muon": lambda: CombinedOptimizer(
            AdamW(others, lr, betas=betas, weight_decay=decay),
            Muon(matrices, lr, weight_decay=decay, like_adamw=True),
        ),
    }
    return makers[options.optimizer]()
