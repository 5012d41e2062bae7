"""The errors of this package: a tensor operation that does not fit its operands,
memory that cannot be shared. Week 5.
"""

from __future__ import annotations

from uop_ir import UopError


class TensorError(UopError, ValueError):
    """Shapes, dtypes, axes or values that a tensor method does not take; names the method and the remedy."""

    exit_code = 3


class PositionError(TensorError, IndexError):
    """An axis, a position or a mask that a tensor does not have."""


class KindError(TensorError, TypeError):
    """An argument of a dtype or a type of Python that a function does not take."""


class ShareError(TensorError, BufferError):
    """Memory that cannot be shared as it is asked for; a BufferError, as other libraries expect it."""
