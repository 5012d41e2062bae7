"""Polynomials as graphs, for the definitions of functions. Week 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .ops import Ops
from .uop import UOp


def fused(x: UOp, y: UOp, z: UOp) -> UOp:
    """x * y + z, rounded once."""
    return x.alu(Ops.MULACC, y, z)


def rounded_twice(x: UOp, y: UOp, z: UOp) -> UOp:
    """x * y + z in two operations."""
    return x * y + z


def horner(
    x: UOp, coefficients: Sequence[float], multiply_add: Callable[[UOp, UOp, UOp], UOp] = rounded_twice
) -> UOp:
    """The polynomial with these coefficients, lowest power first, by Horner's rule."""
    value = x.const_like(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        value = multiply_add(value, x, x.const_like(coefficient))
    return value
