"""Losses of class numbers: cross entropy and its relatives,
along any axis, weighted, smoothed, with gaps. Week 5.
"""

from __future__ import annotations

import math
from typing import Any, Self

import numpy.typing as npt

from uop_ir import Ops, UOp

from . import compose, shapes
from .distribution import Distribution
from .errors import TensorError
from .graph import detach, fold, shape_of
from .picking import one_hot
from .promotion import accumulator, as_float
from .value import Operand, device_beside, strong

REDUCTIONS = ("mean", "sum", "none")


class Classes(Distribution):
    """Scores have an axis of classes. Targets have the other axes, in their order, and name a class each.

    `axis` says which one it is. By default it is the one that fits the targets, the last or, as in torch,
    axis 1; where both fit, it must be given.
    """

    def cross_entropy(
        self,
        target: Self | npt.NDArray[Any],
        reduction: str = "mean",
        label_smoothing: float = 0.0,
        *,
        weight: Operand | None = None,
        ignore_index: int | None = -100,
        axis: int | None = None,
    ) -> Self:
        """-log(softmax(x)[target]) of scores x: of class numbers,
        or of probabilities in the shape of the scores.

        `weight` has a factor for each class. A target that is `ignore_index` does not count. "mean" divides
        by the sum of the factors of what counts (probabilities: by the number of positions).
        `label_smoothing` e takes (1 - e) target + e / classes in place of a target. A class number out of
        range counts as the class of the greatest score.
        """
        if not 0 <= label_smoothing <= 1:
            raise TensorError(f"cross_entropy: label_smoothing={label_smoothing}", remedy="from 0 to 1")
        return self._class_loss(
            "cross_entropy", target, reduction, label_smoothing, weight, ignore_index, axis
        )

    def nll_loss(
        self,
        target: Self | npt.NDArray[Any],
        weight: Operand | None = None,
        ignore_index: int | None = -100,
        reduction: str = "mean",
        axis: int | None = None,
    ) -> Self:
        """-x[target] of log-probabilities x and class numbers; see `cross_entropy`."""
        return self._class_loss("nll_loss", target, reduction, 0.0, weight, ignore_index, axis)

    def sparse_categorical_crossentropy(
        self,
        target: Self | npt.NDArray[Any],
        ignore_index: int = -1,
        label_smoothing: float = 0.0,
        reduction: str = "mean",
    ) -> Self:
        """`cross_entropy` along the last axis, with the name and the order of parameters of tinygrad."""
        return self.cross_entropy(target, reduction, label_smoothing, ignore_index=ignore_index, axis=-1)

    def _class_loss(
        self,
        method: str,
        target: Self | npt.NDArray[Any],
        reduction: str,
        smoothing: float,
        weight: Operand | None,
        ignored: int | None,
        axis: int | None,
    ) -> Self:
        self._check_reduction(method, reduction)
        at = strong(method, target, device_beside(self))
        if not isinstance(at, UOp):
            raise TensorError(f"{method}: a number as targets", remedy="give a tensor or an array")
        soft = method == "cross_entropy" and at.dtype.is_float and at.shape == self.shape
        if not (soft or at.dtype.is_int):
            raise TensorError(
                f"{method}: targets of dtype {at.dtype} and shape {at.shape} for scores of shape {self.shape}",
                remedy="cast class numbers of an integer dtype; probabilities have the shape of the scores",
            )
        along = self._class_axis(method, at.shape, axis, soft)
        dtype = as_float(self.dtype)
        x = _last(self.uop.cast(accumulator(dtype)), along)
        factors = None if weight is None else self._factors(method, weight, x)
        total = None
        if method == "cross_entropy":
            x = x - detach(fold(x, Ops.MAX, (x.ndim - 1,), keepdim=True))
            total = compose.log(fold(compose.exp(x), Ops.ADD, (x.ndim - 1,)))
        if soft and total is not None:
            losses = _of_probabilities(x, total, _last(at.cast(x.dtype), along), factors, smoothing)
            return self._reduced_loss(losses, reduction).cast(dtype)
        losses, counts = _of_numbers(x, total, at, factors, smoothing, ignored)
        if reduction != "mean" or counts is None:
            return self._reduced_loss(losses, reduction).cast(dtype)
        every = tuple(range(losses.ndim))
        return self._of((fold(losses, Ops.ADD, every) / fold(counts, Ops.ADD, every)).cast(dtype))

    def _class_axis(self, method: str, targets: tuple[int | UOp, ...], axis: int | None, soft: bool) -> int:
        """The axis of the classes: what is left without it is the shape of the targets."""
        if axis is not None:
            fitting = {shapes.one_axis(method, self.ndim, axis)}
        else:
            fitting = {self.ndim - 1, 1} if self.ndim > 2 else {*range(self.ndim)[-1:]}
        if not soft:
            fitting = {a for a in fitting if (*self.shape[:a], *self.shape[a + 1 :]) == targets}
        if not fitting:
            raise TensorError(
                f"{method}: targets of shape {targets} for scores of shape {self.shape}",
                remedy="they have the axes of the scores but that of the classes; axis=... says which it is",
            )
        if len(fitting) > 1:
            raise TensorError(
                f"{method}: the classes of scores of shape {self.shape} may be the last axis, or axis 1",
                remedy="give axis=-1 or axis=1",
            )
        return fitting.pop()

    def _factors(self, method: str, weight: Operand, x: UOp) -> UOp:
        factors = strong(method, weight, device_beside(self))
        if not isinstance(factors, UOp) or factors.shape != x.shape[-1:]:
            raise TensorError(
                f"{method}: a weight that is no vector of {x.shape[-1]} elements",
                remedy="give one number a class",
            )
        return factors.cast(x.dtype)

    def _check_reduction(self, method: str, reduction: str) -> None:
        if reduction not in REDUCTIONS:
            raise TensorError(f"{method}: reduction={reduction!r}", remedy='"mean", "sum" or "none"')

    def _reduced_loss(self, losses: UOp, reduction: str) -> Self:
        if reduction == "none":
            return self._of(losses)
        total = fold(losses, Ops.ADD, tuple(range(losses.ndim)))
        return self._of(total / math.prod(shape_of(losses)) if reduction == "mean" else total)


def _last(x: UOp, axis: int) -> UOp:
    """`x` with an axis moved to the end."""
    if axis == x.ndim - 1:
        return x
    return x.permute((*(a for a in range(x.ndim) if a != axis), axis))


def _of_numbers(
    x: UOp, total: UOp | None, at: UOp, factors: UOp | None, smoothing: float, ignored: int | None
) -> tuple[UOp, UOp | None]:
    """`total` - x[at] over the last axis (None: -x[at]),
    and what each position counts in a mean (None: all the same).
    """
    last, classes = (x.ndim - 1,), shape_of(x)[-1]
    chosen = one_hot(at, classes)
    picked = fold(chosen.where(x, 0), Ops.ADD, last)
    losses = -picked if total is None else total - picked
    counts = None if factors is None else fold(chosen.where(factors, 0), Ops.ADD, last)
    losses = losses if counts is None else losses * counts
    if smoothing and total is not None:
        rest = fold(x if factors is None else x * factors, Ops.ADD, last)
        whole = total * (classes if factors is None else fold(factors, Ops.ADD, (0,)))
        losses = losses * (1 - smoothing) + (whole - rest) * (smoothing / classes)
    if ignored is not None and at.dtype.min <= ignored <= at.dtype.max:
        counted = at.ne(ignored)
        losses = counted.where(losses, 0)
        counts = counted.cast(x.dtype) if counts is None else counted.where(counts, 0)
    return losses, counts


def _of_probabilities(x: UOp, total: UOp, target: UOp, factors: UOp | None, smoothing: float) -> UOp:
    """The sum of factor * probability * (total - x) over the last axis."""
    last, classes = (x.ndim - 1,), shape_of(x)[-1]
    target = target * (1 - smoothing) + smoothing / classes if smoothing else target
    target = target if factors is None else target * factors
    return total * fold(target, Ops.ADD, last) - fold(target * x, Ops.ADD, last)
