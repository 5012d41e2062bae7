"""What models are made of: matrix products, normalization, attention, losses. Week 5."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy.typing as npt

from uop_ir import Ops, UOp, dtypes

from . import compose, shapes
from .creation import lower
from .errors import TensorError
from .graph import detach, fold
from .promotion import accumulator, promote, refuse_bool
from .value import Operand, device_beside, strong
from .warping import Warping


def matmul(x: UOp, y: UOp) -> UOp:
    """`x @ y` of nodes of one dtype: an elementwise product, summed over the last axis; f16 and bf16 add up
    in f32.
    """
    if x.ndim == 0 or y.ndim == 0:
        raise TensorError(
            f"@: shapes {x.shape} and {y.shape}", remedy="both need an axis; use * for a number"
        )
    refuse_bool("@", x.dtype)
    inner = -1 if y.ndim == 1 else -2
    if x.shape[-1] != y.shape[inner]:
        raise TensorError(
            f"@: shapes {x.shape} and {y.shape}: {x.shape[-1]} columns meet {y.shape[inner]} rows",
            remedy="the last axis of the left and the last but one of the right must be equal",
        )
    shapes.broadcast("@", x.shape[:-2], y.shape[:-2])
    dtype = x.dtype
    x, y = x.cast(accumulator(dtype)), y.cast(accumulator(dtype))
    if y.ndim > 1:
        y = y.permute((*range(y.ndim - 2), y.ndim - 1, y.ndim - 2))
        if x.ndim > 1:
            x = x.reshape((*x.shape[:-1], 1, x.shape[-1]))
            y = y.reshape((*y.shape[:-2], 1, *y.shape[-2:]))
    product = x * y
    return fold(product, Ops.ADD, (product.ndim - 1,)).cast(dtype)


class Functional(Warping):
    """Tensors of f16 and bf16 are normalized in f32 and rounded once."""

    def matmul(self, other: Operand) -> Self:
        """The matrix product over the last two axes, the ones before broadcasting; one axis is a vector."""
        return self._of(_product(self, other))

    dot = matmul

    def __matmul__(self, other: Operand) -> Self:
        return self._of(_product(self, other))

    def __rmatmul__(self, other: npt.NDArray[Any]) -> Self:
        return self._of(_product(other, self))

    def linear(self, weight: Self, bias: Self | None = None) -> Self:
        """`x @ weight.T + bias`; weight has shape (out, in)."""
        if weight.ndim != 2:
            raise TensorError(
                f"linear: a weight of shape {weight.shape}", remedy="it has the shape (out, in)"
            )
        out = self @ weight.T
        return out if bias is None else out + bias

    def scaled_dot_product_attention(
        self,
        key: Self,
        value: Self,
        attn_mask: Self | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Self:
        """softmax(q @ k.T * scale) @ v, with q (..., T, d), k (..., S, d), v (..., S, e).

        A bool mask keeps the positions that are true, any other is added; `is_causal` keeps column <= row. A
        row of which nothing is kept gives zeros. `scale` is 1 / sqrt(d) where none is given. Each weight is
        dropped with the probability `dropout_p`.
        `enable_gqa` repeats the heads (axis -3) of keys and values for groups of those of q.
        """
        if self.ndim < 2 or key.ndim < 2 or value.ndim < 2:
            raise TensorError(
                f"attention: shapes {self.shape}, {key.shape}, {value.shape}", remedy="two axes or more each"
            )
        if attn_mask is not None and is_causal:
            raise TensorError("attention: both a mask and is_causal", remedy="give one of them")
        if enable_gqa:
            key, value = self._heads(key), self._heads(value)
        scores = self @ key.mT * (1 / math.sqrt(self.shape[-1]) if scale is None else scale)
        if attn_mask is not None:
            masked = attn_mask.dtype is dtypes.bool
            scores = attn_mask.where(scores, -math.inf) if masked else scores + attn_mask
            weights = self._of(_softmax_of_kept(scores.uop))
        else:
            if is_causal:
                scores = self._of(lower(*scores.shape[-2:]).where(scores.uop, -math.inf))
            weights = scores.softmax(-1)
        return (weights.dropout(dropout_p) if dropout_p else weights) @ value

    def _heads(self, other: Self) -> Self:
        """Keys or values with as many heads as there are of queries."""
        if self.ndim < 3 or other.ndim < 3 or self.shape[-3] % max(other.shape[-3], 1):
            raise TensorError(
                f"attention: queries of shape {self.shape} and keys or values of shape {other.shape}",
                remedy="(..., heads, length, size), with as many heads of queries, or a multiple",
            )
        return other.repeat_interleave(self.shape[-3] // other.shape[-3], -3)


def _softmax_of_kept(scores: UOp) -> UOp:
    """The softmax along the last axis; zeros in a row that is -inf throughout."""
    last = (scores.ndim - 1,)
    x = scores.cast(accumulator(scores.dtype))
    greatest = detach(fold(x, Ops.MAX, last, keepdim=True))
    powers = compose.exp(x - greatest.eq(-math.inf).where(greatest.const_like(0), greatest))
    total = fold(powers, Ops.ADD, last, keepdim=True)
    return (powers / total.eq(0).where(total.const_like(1), total)).cast(scores.dtype)


def _product(left: Operand, right: Operand) -> UOp:
    device = device_beside(left, right)
    x, y = strong("@", left, device), strong("@", right, device)
    if not isinstance(x, UOp) or not isinstance(y, UOp):
        raise TensorError("@: a number is no matrix", remedy="use *")
    dtype = promote("@", x.dtype, y.dtype)
    return matmul(x.cast(dtype), y.cast(dtype))
