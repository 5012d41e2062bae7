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
    """The rate of each step, from 0: it rises in a line for `warmup` steps,
    then goes on as `schedule` says.
    """
    return SCHEDULES[options.schedule](options.steps, options.warmup, options.lr)


def _cosine(steps: int, warmup: int, lr: float) -> Callable[[int], float]:
    return lambda step: warmup_cosine(step, steps, lr, warmup=warmup)


def _constant(steps: int, warmup: int, lr: float) -> Callable[[int], float]:
    return _warmed_up(warmup, Constant(lr))


def _step_decay(steps: int, warmup: int, lr: float) -> Callable[[int], float]:
    """Three rates, for a third of the steps each."""
    return _warmed_up(warmup, StepDecay(lr, max((steps - warmup + 2) // 3, 1)))


def _one_cycle(steps: int, warmup: int, lr: float) -> Callable[[int], float]:
    return OneCycle(lr, steps)  # which has a rise of its own


def _warmed_up(warmup: int, then: Callable[[int], float]) -> Callable[[int], float]:
    return LinearWarmup(warmup, then) if warmup else then


#: By the name of a schedule: from steps, warmup and the greatest rate, the rate of each step.
SCHEDULES: dict[str, Callable[[int, int, float], Callable[[int], float]]] = {
    "cosine": _cosine,
    "constant": _constant,
    "step": _step_decay,
    "one-cycle": _one_cycle,
}


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
