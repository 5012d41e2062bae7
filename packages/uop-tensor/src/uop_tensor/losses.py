"""Losses between a tensor and targets of its shape, with the parameters of torch.nn.functional. Week 5."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Self

from uop_ir import UOp

from . import compose, transcendental
from .classes import Classes
from .errors import TensorError
from .graph import with_gradient_of
from .promotion import accumulator, as_float
from .value import Operand, Value, operands


class Losses(Classes):
    """`reduction` is "mean" (over all elements), "sum" or "none". Operands broadcast; f16 and bf16 are
    computed in f32 and rounded once.
    """

    def _loss(self, method: str, reduction: str, function: Callable[..., UOp], *others: Operand) -> Self:
        """A function of this tensor and others as one float dtype, then the reduction."""
        self._check_reduction(method, reduction)
        nodes = operands(method, self, *others)
        dtype = as_float(nodes[0].dtype)
        return self._reduced_loss(function(*(n.cast(accumulator(dtype)) for n in nodes)), reduction).cast(
            dtype
        )

    def mse_loss(self, target: Operand, reduction: str = "mean") -> Self:
        """The squared differences."""
        return self._loss("mse_loss", reduction, lambda x, y: (x - y) * (x - y), target)

    def l1_loss(self, target: Operand, reduction: str = "mean") -> Self:
        """The absolute differences; the derivative at 0 is 0."""
        return self._loss("l1_loss", reduction, lambda x, y: compose.absolute(x - y), target)

    def smooth_l1_loss(self, target: Operand, reduction: str = "mean", beta: float = 1.0) -> Self:
        """Of differences d: d*d / (2 beta) where |d| < beta, else |d| - beta / 2."""
        if beta < 0:
            raise TensorError(f"smooth_l1_loss: beta={beta}", remedy="at least 0")
        if beta == 0:
            return self.l1_loss(target, reduction)
        return self._loss("smooth_l1_loss", reduction, lambda x, y: _huber(x - y, beta) * (1 / beta), target)

    def huber_loss(self, target: Operand, reduction: str = "mean", delta: float = 1.0) -> Self:
        """Of differences d: d*d / 2 where |d| < delta, else delta * (|d| - delta / 2)."""
        if delta <= 0:
            raise TensorError(f"huber_loss: delta={delta}", remedy="more than 0")
        return self._loss("huber_loss", reduction, lambda x, y: _huber(x - y, delta), target)

    def binary_cross_entropy(
        self, target: Operand, weight: Operand | None = None, reduction: str = "mean"
    ) -> Self:
        """-(y log(x) + (1 - y) log(1 - x)) of probabilities x and targets y;
        a logarithm counts as -100 at least.
        """

        def loss(x: UOp, y: UOp, *scale: UOp) -> UOp:
            value = (y - 1) * _log_from(x, lambda v: transcendental.log1p(-v), end=1) - y * _log_from(
                x, compose.log, end=0
            )
            return _times(value, scale)

        return self._loss("binary_cross_entropy", reduction, loss, target, *_given(weight))

    def binary_cross_entropy_with_logits(
        self,
        target: Operand,
        weight: Operand | None = None,
        reduction: str = "mean",
        pos_weight: Operand | None = None,
    ) -> Self:
        """`binary_cross_entropy` of sigmoid(x), without overflow; `pos_weight` multiplies the part of y."""

        def loss(x: UOp, y: UOp, *rest: UOp) -> UOp:
            positive = rest[-1] * y if pos_weight is not None else y
            value = (1 - y) * x + (1 - y + positive) * transcendental.softplus(-x)
            return _times(value, rest[: weight is not None])

        return self._loss(
            "binary_cross_entropy_with_logits", reduction, loss, target, *_given(weight, pos_weight)
        )

    def binary_crossentropy(self, target: Operand, reduction: str = "mean") -> Self:
        """`binary_cross_entropy`."""
        return self.binary_cross_entropy(target, reduction=reduction)

    def binary_crossentropy_logits(
        self, target: Operand, reduction: str = "mean", pos_weight: Operand | None = None
    ) -> Self:
        """`binary_cross_entropy_with_logits`."""
        return self.binary_cross_entropy_with_logits(target, reduction=reduction, pos_weight=pos_weight)

    def kl_div(self, target: Operand, reduction: str = "mean", log_target: bool = False) -> Self:
        """y (log(y) - x) of log-probabilities x and probabilities y (`log_target`: their logarithms).

        "batchmean" divides the sum by the size of the first axis.
        """
        if reduction == "batchmean" and self.ndim == 0:
            raise TensorError(
                'kl_div: reduction="batchmean" of a tensor of shape ()', remedy="it needs an axis"
            )

        def loss(x: UOp, y: UOp) -> UOp:
            return compose.exp(y) * (y - x) if log_target else transcendental.xlogy(y, y) - y * x

        total = self._loss("kl_div", "sum" if reduction == "batchmean" else reduction, loss, target)
        return total / self.shape[0] if reduction == "batchmean" else total

    def poisson_nll_loss(
        self,
        target: Operand,
        log_input: bool = True,
        full: bool = False,
        eps: float = 1e-8,
        reduction: str = "mean",
    ) -> Self:
        """exp(x) - y x, x the logarithm of the rate; without `log_input`, x - y log(x + eps).

        `full` adds what is about log(y!) for y > 1: y log(y) - y + log(2 pi y) / 2 (Stirling).
        """

        def loss(x: UOp, y: UOp) -> UOp:
            value = compose.exp(x) - y * x if log_input else x - y * compose.log(x + eps)
            if not full:
                return value
            large = y > 1
            many = large.where(y, 1)
            log = compose.log(many)
            return value + large.where(many * log - many + (log + math.log(2 * math.pi)) * 0.5, 0)

        return self._loss("poisson_nll_loss", reduction, loss, target)

    def gaussian_nll_loss(
        self, target: Operand, var: Operand, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
    ) -> Self:
        """(log(v) + (x - y)**2 / v) / 2, v = max(var, eps),
        which passes the gradient; `full` adds log(2 pi) / 2.

        `var` is a number, or has a shape that broadcasts, or that of the tensor without the last axis.
        """
        if isinstance(var, Value) and var.shape != self.shape and var.shape == self.shape[:-1]:
            var = self._of(var.uop.reshape((*var.uop.shape, 1)))

        def loss(x: UOp, y: UOp, v: UOp) -> UOp:
            v = with_gradient_of((v < eps).where(v.const_like(eps), v), v)
            value = (compose.log(v) + (x - y) * (x - y) / v) * 0.5
            return value + 0.5 * math.log(2 * math.pi) if full else value

        return self._loss("gaussian_nll_loss", reduction, loss, target, var)

    def soft_margin_loss(self, target: Operand, reduction: str = "mean") -> Self:
        """log(1 + exp(-y x)) of targets y that are 1 or -1."""
        return self._loss(
            "soft_margin_loss", reduction, lambda x, y: transcendental.softplus(-(x * y)), target
        )

    def hinge_embedding_loss(self, target: Operand, margin: float = 1.0, reduction: str = "mean") -> Self:
        """x where the target is 1, max(0, margin - x) where it is -1."""

        def loss(x: UOp, y: UOp) -> UOp:
            return y.eq(1).where(x, 0) + y.eq(-1).where((margin - x).maximum(0), 0)

        return self._loss("hinge_embedding_loss", reduction, loss, target)

    def margin_ranking_loss(
        self, other: Operand, target: Operand, margin: float = 0.0, reduction: str = "mean"
    ) -> Self:
        """max(0, margin - y (x1 - x2)): of targets 1, x1 should be greater; of -1, less."""

        def loss(x: UOp, other: UOp, y: UOp) -> UOp:
            return (margin - y * (x - other)).maximum(0)

        return self._loss("margin_ranking_loss", reduction, loss, other, target)

    def cosine_embedding_loss(
        self, other: Self, target: Operand, margin: float = 0.0, reduction: str = "mean"
    ) -> Self:
        """Of vectors along the last axis: 1 - cos where the target is 1, max(0, cos - margin) where it is -1.

        As in PyTorch, 1e-12 is added to the square of each length, so that the gradient is finite at a vector
        of zeros.
        """
        lengths = ((self * self).sum(-1) + 1e-12) * ((other * other).sum(-1) + 1e-12)
        cosine = (self * other).sum(-1) / lengths.sqrt()

        def loss(x: UOp, y: UOp) -> UOp:
            return y.eq(1).where(1 - x, 0) + y.eq(-1).where((x - margin).maximum(0), 0)

        return cosine._loss("cosine_embedding_loss", reduction, loss, target)

    def triplet_margin_loss(
        self,
        positive: Self,
        negative: Self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        reduction: str = "mean",
    ) -> Self:
        """max(0, d(x, positive) - d(x, negative) + margin), d the `pairwise_distance` along the last axis.

        `swap` takes the lesser of d(x, negative) and d(positive, negative).
        """
        near, far = (self.pairwise_distance(other, p, eps) for other in (positive, negative))
        far = far.minimum(positive.pairwise_distance(negative, p, eps)) if swap else far
        return near._loss("triplet_margin_loss", reduction, lambda x, y: (x - y + margin).maximum(0), far)


def _given(*optional: Operand | None) -> tuple[Operand, ...]:
    return tuple(x for x in optional if x is not None)


def _times(value: UOp, scale: tuple[UOp, ...]) -> UOp:
    return value * scale[0] if scale else value


def _huber(d: UOp, delta: float) -> UOp:
    size = compose.absolute(d)
    return (size < delta).where(d * d * 0.5, (size - 0.5 * delta) * delta)


def _log_from(x: UOp, log: Callable[[UOp], UOp], end: float) -> UOp:
    """A logarithm of which -100 is the least value, the one at `end`; there its derivative is 0."""
    at_end = x.eq(end)
    value = log(at_end.where(x.const_like(0.5), x)).maximum(-100)
    return at_end.where(x.const_like(-100), value)
