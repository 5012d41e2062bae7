"""Activation functions of neural networks, with the parameters of torch.nn.functional. Week 5."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from uop_ir import UOp

from . import compose, error_function, shapes, transcendental
from .errors import TensorError
from .special import Special
from .windows import cut

_GELU: dict[str, Callable[[UOp], UOp]] = {"none": error_function.gelu, "tanh": compose.gelu}


class Activations(Special):
    """Integers are taken as f32; f16 and bf16 are computed in f32 and rounded once. Corners have the gradient
    of torch: that of the constant side.
    """

    def gelu(self, approximate: str = "none") -> Self:
        """x * Phi(x), Phi the normal distribution's function;
        "tanh": by its usual approximation, as in GPT-2.
        """
        if approximate not in _GELU:
            raise TensorError(f"gelu: approximate={approximate!r}", remedy='give "none" or "tanh"')
        return self._real(_GELU[approximate])

    def quick_gelu(self) -> Self:
        """x * sigmoid(1.702 x)."""
        return self._real(compose.wide(lambda x: x * compose.sigmoid(x * 1.702)))

    def swish(self) -> Self:
        """`silu`."""
        return self.silu()

    def relu6(self) -> Self:
        """x brought between 0 and 6."""
        return self.hardtanh(0, 6)

    def hardtanh(self, min_val: float = -1, max_val: float = 1) -> Self:
        """x brought between two numbers; as `clip`, but the derivative at both is 0."""
        if not min_val <= max_val:
            raise TensorError(f"hardtanh: from {min_val} to {max_val}", remedy="min_val <= max_val")
        return self.maximum(min_val).minimum(max_val)

    def hardsigmoid(self) -> Self:
        """relu6(x + 3) / 6."""
        return self._real(_hard_sigmoid)

    def hardswish(self) -> Self:
        """x * relu6(x + 3) / 6."""
        return self._real(compose.wide(lambda x: x * _hard_sigmoid(x)))

    def leaky_relu(self, negative_slope: float = 0.01) -> Self:
        """x where it is positive, else negative_slope * x."""
        return self._real(compose.wide(lambda x: (x > 0).where(x, x * negative_slope)))

    def prelu(self, weight: Self) -> Self:
        """x where it is positive, else weight * x; `weight` has one element, or one a channel (axis 1)."""
        channels = self.shape[1] if self.ndim > 1 else 1
        if weight.ndim > 1 or weight.numel() not in (1, channels):
            raise TensorError(
                f"prelu: a weight of shape {weight.shape} for {self.shape}",
                remedy=f"give 1 element, or {channels}, one a channel",
            )
        along = (-1,) + (1,) * (self.ndim - 2) if weight.numel() > 1 else (1,) * self.ndim
        slope = self._of(weight.uop.reshape(shapes.filled("prelu", weight.shape, along)))
        return (self > 0).where(self, self * slope)

    def elu(self, alpha: float = 1.0) -> Self:
        """x where it is positive, else alpha * (exp(x) - 1)."""
        return self._real(lambda x: _elu(x, alpha, 1.0))

    def celu(self, alpha: float = 1.0) -> Self:
        """x where it is positive, else alpha * (exp(x / alpha) - 1)."""
        if alpha == 0:
            raise TensorError("celu: alpha=0", remedy="it divides x")
        return self._real(lambda x: _elu(x, alpha, alpha))

    def selu(self) -> Self:
        """1.0507... * elu(x, 1.6733...), which keeps mean 0 and variance 1 (Klambauer et al., 2017)."""
        return self._real(compose.wide(lambda x: _elu(x, 1.6732632423543772, 1.0) * 1.0507009873554805))

    def softplus(self, beta: float = 1.0, threshold: float = 20.0) -> Self:
        """log(1 + exp(beta * x)) / beta; x itself where beta * x exceeds the threshold."""
        if beta == 0:
            raise TensorError("softplus: beta=0", remedy="it divides the result")
        smooth = compose.wide(
            lambda x: (x * beta > threshold).where(x, transcendental.softplus(x * beta) * (1 / beta))
        )
        return self._real(smooth)

    def logsigmoid(self) -> Self:
        """log(sigmoid(x)) = -log(1 + exp(-x)), without overflow."""
        return self._real(compose.wide(lambda x: -transcendental.softplus(-x)))

    def mish(self) -> Self:
        """x * tanh(log(1 + exp(x)))."""
        return self._real(_mish)

    def softsign(self) -> Self:
        """x / (1 + |x|)."""
        return self._real(compose.wide(lambda x: x / (transcendental.magnitude(x) + 1)))

    def tanhshrink(self) -> Self:
        """x - tanh(x)."""
        return self._real(compose.wide(lambda x: x - compose.tanh(x)))

    def softshrink(self, lambd: float = 0.5) -> Self:
        """x brought nearer to 0 by `lambd`; 0 for what is as near as that."""
        if lambd < 0:
            raise TensorError(f"softshrink: lambd={lambd}", remedy="at least 0")
        shrink = compose.wide(lambda x: (x > lambd).where(x - lambd, (x < -lambd).where(x + lambd, x * 0)))
        return self._real(shrink)

    def hardshrink(self, lambd: float = 0.5) -> Self:
        """x, but 0 where it is from -lambd to lambd."""
        return self._real(lambda x: ((x > lambd) | (x < -lambd) | x.ne(x)).where(x, 0))

    def threshold(self, threshold: float, value: float) -> Self:
        """x where it exceeds the threshold, else `value`; NaN stays."""
        return self._real(lambda x: ((x > threshold) | x.ne(x)).where(x, value))

    def glu(self, axis: int = -1) -> Self:
        """The first half along an axis times the sigmoid of the second."""
        at = shapes.one_axis("glu", self.ndim, axis)
        size = self.shape[at]
        if size % 2:
            raise TensorError(
                f"glu: {size} elements along axis {axis} of {self.shape}", remedy="an even number"
            )
        left, right = (self._of(cut(self.uop, at, *b)) for b in ((0, size // 2), (size // 2, size)))
        return left * right.sigmoid()


@compose.wide
def _hard_sigmoid(x: UOp) -> UOp:
    return compose.minimum((x + 3).maximum(0), x.const_like(6)) * (1 / 6)


@compose.wide
def _elu(x: UOp, alpha: float, scale: float) -> UOp:
    positive = x > 0
    return positive.where(x, transcendental.expm1(positive.where(x.const_like(0), x * (1 / scale))) * alpha)


@compose.wide
def _mish(x: UOp) -> UOp:
    """tanh(log(u)) = (u*u - 1) / (u*u + 1) with u = 1 + exp(x),
    both divided by exp(2x) where x is positive.
    """
    negative = x < 0
    e = transcendental.exp_of_sum(negative.where(x, -x))
    numerator = negative.where(e * (e + 2), e + e + 1)
    return x * (numerator / (numerator + negative.where(e.const_like(2), e * e * 2)))
