"""The error of this package: a tensor operation that does not fit its operands. Week 5."""

from __future__ import annotations

from uop_ir import UopError


class TensorError(UopError):
    """Shapes, dtypes, axes or values that a tensor method does not take; names the method and the remedy."""

    exit_code = 3
