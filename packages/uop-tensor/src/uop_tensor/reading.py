"""Elements as values of Python and NumPy: numbers, lists, arrays, text. Week 5."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from uop_ir import dtypes

from .errors import KindError, TensorError
from .exchange import Exchange
from .live import capture


class Reading(Exchange):
    """What reads computes; while jit traces it is a JitError, as there is no value yet."""

    def numpy(self) -> npt.NDArray[Any]:
        """The elements as a new array."""
        return self._data("numpy()")

    def item(self) -> Any:
        """The element of a tensor that has one, as a Python number."""
        if self.numel() != 1:
            raise TensorError(
                f"item: a tensor of shape {self.shape}", remedy="it has one element; use tolist or numpy"
            )
        return self._data("item()").reshape(-1).tolist()[0]

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers."""
        return self._data("tolist()").tolist()

    def __bool__(self) -> bool:
        if self.numel() != 1:
            raise TensorError(f"bool: a tensor of shape {self.shape}", remedy="use any() or all()")
        return bool(self._data("bool()").reshape(-1)[0])

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __len__(self) -> int:
        if self.ndim == 0:
            raise TensorError("len: a tensor of shape ()", remedy="it has no axis")
        return self.shape[0]

    def __iter__(self) -> Iterator[Self]:
        return (self[i] for i in range(len(self)))

    def __index__(self) -> int:
        """For `range` and indices of Python: the one element of a tensor of integers."""
        if not self.dtype.is_int or self.numel() != 1:
            raise KindError(f"index: a tensor {self.dtype}{self.shape}", remedy="one element, an integer")
        return int(self.item())

    def __format__(self, spec: str) -> str:
        """`f"{loss:.3f}"`: the element of a tensor that has one,
        as `spec` says; without a spec, as `repr`.
        """
        return format(self.item(), spec) if spec else repr(self)

    def __repr__(self) -> str:
        if capture() is not None:
            return f"Tensor(shape={self.shape}, dtype={self.dtype}, traced)"
        data = self._data("repr()")
        data = data.astype(np.float32) if self.dtype is dtypes.bf16 else data  # NumPy shows its digits best
        text = np.array2string(data, separator=", ", prefix="Tensor(", threshold=1000)
        shape = f", shape={self.shape}" if self.numel() == 0 else ""
        grad = ", requires_grad=True" if self._requires_grad else ""
        return f"Tensor({text}{shape}, dtype={self.dtype}{grad})"
