"""The two names of one parameter."""

from typing import Any

import pytest

from uop_tensor import Tensor, TensorError


def test_either_name() -> None:
    x: Any = Tensor([[1.0, 2.0], [3.0, 4.0]])  # the other names are not in the signatures
    assert x.sum(dim=1).tolist() == x.sum(axis=1).tolist() == [3, 7]
    assert x.sum(dim=0, keepdims=True).tolist() == x.sum(0, keepdim=True).tolist() == [[4, 6]]
    assert x.softmax(dim=0).shape == x.softmax(axis=0).shape
    assert x.sum.__name__ == "sum"
    assert x.sum.__doc__ == Tensor.sum.__doc__


def test_what_is_neither_or_both() -> None:
    x: Any = Tensor([[1.0, 2.0]])
    with pytest.raises(TensorError, match="sum: both axis and dim"):
        x.sum(axis=0, dim=0)
    with pytest.raises(TypeError, match="dims"):
        x.sum(dims=0)
    with pytest.raises(TypeError, match="dim"):
        x.reshape(dim=(2,))
