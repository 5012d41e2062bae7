"""Array: a Tensor with the attributes that the standard gives to arrays. Week 5."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any, Self

from uop_tensor.errors import KindError, TensorError
from uop_tensor.tensor import Tensor

#: The versions of the standard of which this is an implementation.
API_VERSIONS = ("2023.12", "2022.12", "2021.12")


class Array(Tensor):
    """What all functions of the namespace return;
    they take any Tensor. Methods are those of Tensor, except `size`.
    """

    @property
    def size(self) -> int:  # type: ignore[override]  # of a Tensor, as of one of PyTorch, it is the shape
        """The number of elements."""
        return self.numel()

    def to_device(self, device: str, /, *, stream: object = None) -> Self:
        """The same value on another device. Raises BackendError for one that is not installed."""
        if stream is not None:
            raise TensorError(f"to_device: stream {stream}", remedy="no device has streams")
        return self.to(device)

    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        """The namespace. Raises TensorError for a version of the standard that it does not have."""
        if api_version not in (None, *API_VERSIONS):
            raise TensorError(
                f"__array_namespace__: version {api_version!r}", remedy=f"one of {', '.join(API_VERSIONS)}"
            )
        return sys.modules[__package__]

    def __index__(self) -> int:
        """The element of an array of shape () and an integer dtype."""
        if self.ndim or not self.dtype.is_int:
            raise KindError(f"index: an array {self.dtype}{self.shape}", remedy="one integer of shape ()")
        return int(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())


def as_array(x: Any) -> Array:
    """A Tensor as an Array. Raises KindError for what is none."""
    if isinstance(x, Array):
        return x
    if not isinstance(x, Tensor):
        raise KindError(f"array_api: {type(x).__name__} is no array", remedy="make one with asarray")
    return Array._of(x.uop)
