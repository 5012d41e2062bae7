"""What every optimizer does, and the simplest one, SGD; the update rules are PyTorch's. Week 5.

All that an optimizer remembers is in tensors that `step` assigns, so a jitted training step carries it on. A
learning rate that changes from step to step is an argument of the jitted function, handed on to `step`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uop_ir import UopError, dtypes
from uop_tensor import Tensor

from .module import Module, load_tensors

__all__ = [
    "SGD",
    "CombinedOptimizer",
    "Optimizer",
    "OptimizerError",
    "check",
    "decayed",
    "listed",
    "named",
    "with_gradients",
    "zeros_like",
]


class OptimizerError(UopError):
    """A hyperparameter out of range, or a step without gradients."""


#: What is taken for parameters by mistake, and what to give instead.
NO_PARAMETERS: tuple[tuple[type, str], ...] = (
    (Module, "give model.parameters()"),
    (Tensor, "give [tensor]"),
    (Mapping, "give the values of the dict"),
)


class Optimizer:
    """Changes parameters by their gradients. A subclass says how one parameter changes, in `update`."""

    def __init__(self, parameters: Iterable[Tensor], lr: float) -> None:
        """Raises OptimizerError for no parameters, one twice,
        one that has no gradient, or a negative rate.
        """
        self.parameters = to_optimize(parameters)
        check_rate(lr)
        self._lr = lr
        # As data, not as a constant of the graph: another rate is then the same program, and jit looks it up.
        self._rate = Tensor(np.asarray(lr, np.float32))

    @property
    def lr(self) -> float:
        """The learning rate of each step that is given none.
        Raises OptimizerError, when set, as a new optimizer.
        """
        return self._lr

    @lr.setter
    def lr(self, lr: float) -> None:
        check_rate(lr)
        self._lr = lr
        self._rate.assign(np.asarray(lr, np.float32))

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    def step(self, lr: float | Tensor | None = None) -> None:
        """Change every parameter that has a gradient; `lr` where given, a number or a tensor of one, is the
        rate.

        Nothing is computed before a value is asked for, or `realize` is called. Raises OptimizerError if no
        parameter has a gradient.
        """
        gradients = with_gradients("step", self.parameters)
        rate = self._rate if lr is None else lr
        if not isinstance(rate, Tensor):
            rate = Tensor(np.asarray(rate, np.float32))
        elif rate.dtype is not dtypes.f64:
            # also a number that a jitted function is given: all is computed in f32 then, as without jit
            rate = rate.cast(dtypes.f32)
        self.begin_step()
        for index, parameter, gradient in gradients:
            self.update(index, parameter, gradient, rate)

    def begin_step(self) -> None:
        """What changes once a step, before the parameters."""

    def update(self, index: int, parameter: Tensor, gradient: Tensor, lr: Tensor) -> None:
        """Assign the new value of parameter number `index`, and of what is remembered of it."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Tensor]:
        """What is remembered, by name and number of the parameter: the tensors themselves, not copies."""
        return {}

    def load_state_dict(self, state: Mapping[str, Tensor | NDArray[Any]]) -> None:
        """Continue from a state. Raises ModelError,
        and changes nothing, unless names, shapes and dtypes fit.
        """
        load_tensors(self.state_dict(), state)

    def realize(self) -> None:
        """Compute the new parameters, and what is remembered, now."""
        first, *others = [*self.parameters, *self.state_dict().values()]
        first.realize(*others)


class SGD(Optimizer):
    """Stochastic gradient descent: `p -= lr * g`.

    With momentum m: `b = m * b + g`, and b, or `g + m * b` with `nesterov`, in place of g. `weight_decay` w
    adds `w * p` to g.
    """

    def __init__(
        self,
        parameters: Iterable[Tensor],
        lr: float = 1e-2,
        *,
        momentum: float = 0.0,
        nesterov: bool = False,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(parameters, lr)
        check("momentum", momentum, 0 <= momentum < 1, "in [0, 1)")
        check("weight_decay", weight_decay, weight_decay >= 0, "at least 0")
        if nesterov and momentum == 0:
            raise OptimizerError("nesterov needs a momentum above 0")
        self.momentum, self.nesterov, self.weight_decay = momentum, nesterov, weight_decay
        self.buffers = zeros_like(self.parameters) if momentum else []

    def update(self, index: int, parameter: Tensor, gradient: Tensor, lr: Tensor) -> None:
        if self.weight_decay:
            gradient = gradient + self.weight_decay * parameter
        if self.momentum:
            buffer = self.buffers[index].assign(self.momentum * self.buffers[index] + gradient)
            gradient = gradient + self.momentum * buffer if self.nesterov else buffer
        parameter.assign(parameter - lr.cast(parameter.dtype) * gradient)

    def state_dict(self) -> dict[str, Tensor]:
        return named("momentum_buffer", self.buffers)


class CombinedOptimizer(Optimizer):
    """Several optimizers as one, each for parameters of its own: Muon for matrices beside AdamW for all else.

    A rate that is given to `step`, or set, is that of the first; those of the others keep their ratio to it.
    """

    def __init__(self, *optimizers: Optimizer) -> None:
        """Raises OptimizerError for no optimizers,
        for a parameter that several have, and for a first rate of 0.
        """
        if not optimizers:
            raise OptimizerError("a combined optimizer needs at least one optimizer")
        self.parameters = to_optimize(p for optimizer in optimizers for p in optimizer.parameters)
        self.optimizers = optimizers
        self._check_first(self.lr)

    @property
    def lr(self) -> float:
        """The learning rate of the first one. Raises OptimizerError for one that is not above 0,
        when it is set.
        """
        return self.optimizers[0].lr

    @lr.setter
    def lr(self, lr: float) -> None:
        check_rate(lr)
        self._check_first(lr)
        rates = [lr * (optimizer.lr / self.lr) for optimizer in self.optimizers]
        for optimizer, rate in zip(self.optimizers, rates, strict=True):
            optimizer.lr = rate

    def _check_first(self, lr: float) -> None:
        if lr == 0:
            raise OptimizerError(
                "the first of several optimizers needs a rate above 0: others are ratios of it"
            )

    def step(self, lr: float | Tensor | None = None) -> None:
        """Raises OptimizerError if one of the optimizers has no parameter with a gradient."""
        first = self.optimizers[0]
        for optimizer in self.optimizers:
            # the ratio of tensors: a jitted step serves all rates that are set
            optimizer.step(None if lr is None else lr * (optimizer._rate / first._rate))

    def state_dict(self) -> dict[str, Tensor]:
        return {
            f"{number}.{name}": tensor
            for number, optimizer in enumerate(self.optimizers)
            for name, tensor in optimizer.state_dict().items()
        }


def check_rate(lr: Any) -> None:
    """Raise OptimizerError for what is no learning rate."""
    check("lr", lr, isinstance(lr, Real) and 0 <= float(lr) < math.inf, "at least 0 and finite")


def check(name: str, value: object, fits: bool, what: str) -> None:
    """Raise OptimizerError for a hyperparameter that does not fit."""
    if not fits:
        raise OptimizerError(f"{name} must be {what}, not {value!r}")


def to_optimize(parameters: Iterable[Tensor]) -> list[Tensor]:
    """The parameters. Raises OptimizerError for none, one twice, and one that has no gradient."""
    found = listed("an optimizer", parameters)
    if not found:
        raise OptimizerError("an optimizer needs at least one parameter")
    if len({id(tensor) for tensor in found}) < len(found):
        raise OptimizerError("an optimizer was given one parameter twice")
    if not all(tensor.requires_grad for tensor in found):
        raise OptimizerError("a tensor to optimize does not require a gradient", remedy="set requires_grad")
    return found


def listed(who: str, parameters: Iterable[Tensor]) -> list[Tensor]:
    """The parameters. Raises OptimizerError for a model or a tensor in place of several,
    and for what is no tensor.
    """
    for kind, remedy in NO_PARAMETERS:
        if isinstance(parameters, kind):
            raise OptimizerError(
                f"{who} needs a list of parameters, not {type(parameters).__name__}", remedy=remedy
            )
    found = list(parameters)
    for parameter in found:
        if not isinstance(parameter, Tensor):
            raise OptimizerError(f"a parameter must be a Tensor, not {type(parameter).__name__}")
    return found


def with_gradients(method: str, parameters: Iterable[Tensor]) -> list[tuple[int, Tensor, Tensor]]:
    """The number of each parameter that has a gradient,
    it and the gradient. Raises OptimizerError if none has one.
    """
    given = listed(method, parameters)
    found = [(number, p, p.grad) for number, p in enumerate(given) if p.grad is not None]
    if not found:
        raise OptimizerError(
            f"{method}: no parameter has a gradient", remedy="call backward on the loss before"
        )
    return found


def decayed(parameter: Tensor, lr: Tensor, weight_decay: float) -> Tensor:
    """A parameter after decoupled weight decay, `p - lr * weight_decay * p`; itself where there is none."""
    return parameter * (1 - lr * weight_decay) if weight_decay else parameter


def zeros_like(tensors: Iterable[Tensor]) -> list[Tensor]:
    """Zeros in memory of their own, of the shape, dtype and device of each tensor."""
    return [Tensor(np.zeros(t.shape, t.dtype.numpy), device=t.device) for t in tensors]


def named(name: str, tensors: Iterable[Tensor]) -> dict[str, Tensor]:
    """Tensors under one name and their numbers, as a state dict has them."""
    return {f"{name}.{number}": tensor for number, tensor in enumerate(tensors)}
