"""Losses that ask for a margin between classes, between labels, and between distances. Week 5."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from uop_ir import Ops, UOp

from . import transcendental
from .errors import TensorError
from .graph import fold, shape_of, unsqueezed
from .losses import Losses
from .picking import one_hot, picked_along, wrapped
from .promotion import accumulator, as_float
from .value import Operand, device_beside, strong


class Margins(Losses):
    """Scores are (samples, classes), or (classes) of one sample."""

    def multi_margin_loss(
        self,
        target: Operand,
        p: int = 1,
        margin: float = 1.0,
        weight: Operand | None = None,
        reduction: str = "mean",
    ) -> Self:
        """The mean over classes of max(0, margin - x[target] + x)**p, without that of the target.

        `weight` has a factor for each class, by which that of the target multiplies. p is 1 or 2.
        """
        method = "multi_margin_loss"
        if p not in (1, 2):
            raise TensorError(f"{method}: p={p}", remedy="1 or 2")
        x, at = self._scored(method, target, reduction)
        if at.shape != self.shape[:-1]:
            raise TensorError(
                f"{method}: targets of shape {at.shape} for scores of shape {self.shape}",
                remedy="one class number a sample",
            )
        last, classes = (x.ndim - 1,), shape_of(x)[-1]
        chosen = one_hot(at, classes)
        own = fold(chosen.where(x, 0), Ops.ADD, last, keepdim=True)
        far = (margin - own + x).maximum(0)
        far = far if p == 1 else far * far
        losses = fold(chosen.where(x.const_like(0), far), Ops.ADD, last) / classes
        if weight is not None:
            losses = losses * fold(chosen.where(self._factors(method, weight, x), 0), Ops.ADD, last)
        return self._reduced_loss(losses, reduction).cast(as_float(self.dtype))

    def multilabel_margin_loss(self, target: Operand, reduction: str = "mean") -> Self:
        """The sum over labels y and other classes i of max(0, 1 - x[y] + x[i]), divided by the classes.

        `target` has the shape of the scores: class numbers up to the first that is negative.
        """
        method = "multilabel_margin_loss"
        x, at = self._scored(method, target, reduction)
        if at.shape != self.shape:
            raise TensorError(
                f"{method}: targets of shape {at.shape} for scores of shape {self.shape}",
                remedy="equal shapes",
            )
        axis, classes = x.ndim - 1, shape_of(x)[-1]
        ended = self._of(at < 0).cumsum(axis).uop.ne(0)
        chosen = one_hot(at, classes)
        given = unsqueezed(ended ^ True, x.ndim)
        label = fold((chosen & given).cast(x.dtype), Ops.MAX, (axis,)).ne(0)
        own = picked_along(x, wrapped(at, classes), axis)
        far = (1 - unsqueezed(own, x.ndim) + unsqueezed(x, axis)).maximum(0)
        counted = given & (unsqueezed(label, axis) ^ True)
        losses = fold(counted.where(far, 0), Ops.ADD, (axis, axis + 1)) / classes
        return self._reduced_loss(losses, reduction).cast(as_float(self.dtype))

    def multilabel_soft_margin_loss(
        self, target: Operand, weight: Operand | None = None, reduction: str = "mean"
    ) -> Self:
        """The mean over classes of -(y log(sigmoid(x)) + (1 - y) log(sigmoid(-x))), of truths y.

        `weight` has a factor for each class.
        """

        def loss(x: UOp, y: UOp, *scale: UOp) -> UOp:
            value = y * transcendental.softplus(-x) + (1 - y) * transcendental.softplus(x)
            value = value * scale[0] if scale else value
            return fold(value, Ops.ADD, (value.ndim - 1,)) / shape_of(value)[-1]

        if self.ndim == 0:
            raise TensorError(
                "multilabel_soft_margin_loss: scores of shape ()", remedy="classes are the last axis"
            )
        given = (target,) if weight is None else (target, weight)
        return self._loss("multilabel_soft_margin_loss", reduction, loss, *given)

    def triplet_margin_with_distance_loss(
        self,
        positive: Self,
        negative: Self,
        *,
        distance_function: Callable[[Self, Self], Self] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> Self:
        """`triplet_margin_loss` with a distance of one's own (None: `pairwise_distance`)."""
        distance = distance_function or (lambda x, y: x.pairwise_distance(y))
        near, far = distance(self, positive), distance(self, negative)
        far = far.minimum(distance(positive, negative)) if swap else far
        return near._loss(
            "triplet_margin_with_distance_loss", reduction, lambda x, y: (x - y + margin).maximum(0), far
        )

    def _scored(self, method: str, target: Operand, reduction: str) -> tuple[UOp, UOp]:
        """The scores in a float dtype, f32 at least, and class numbers."""
        self._check_reduction(method, reduction)
        at = strong(method, target, device_beside(self))
        if self.ndim not in (1, 2) or not isinstance(at, UOp) or not at.dtype.is_int or not self.shape[-1]:
            what = at.dtype if isinstance(at, UOp) else type(at).__name__
            raise TensorError(
                f"{method}: scores of shape {self.shape} and targets of {what}",
                remedy="(samples, classes) or (classes), and class numbers of an integer dtype",
            )
        return self.uop.cast(accumulator(as_float(self.dtype))), at
