"""The two names of one parameter, and arguments of a wrong type."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import uop_tensor.array_api
from uop_ir import dtypes
from uop_tensor import Tensor, TensorError, compose

#: What is deliberately wrong goes to functions of no type.
xp: Any = uop_tensor.array_api
untyped: Any = Tensor


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


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda x: untyped([1.0], dtype=np.float32), r"Tensor: dtype of type type \(give a dtype, such as"),
        (lambda x: untyped.zeros(2, dtype="f32"), "zeros: dtype='f32'"),
        (lambda x: untyped.rand(2, dtype="f32"), "rand: dtype='f32'"),
        (lambda x: x.cast("f32"), r"cast: dtype='f32' \(give a dtype"),
        (lambda x: x.addmm("a", x), r"addmm: first='a' \(give a Tensor\)"),
        (lambda x: x.outer([1.0]), r"outer: other=\[1.0\] \(give a Tensor\)"),
        (lambda x: x.gradient(3), "gradient: inputs=3"),
        (lambda x: x.topk("a"), r"topk: k='a' \(give an int\)"),
        (lambda x: x.softplus(beta="a"), r"softplus: beta='a' \(give a number\)"),
        (lambda x: x.std(correction=(1,)), r"std: correction=\(1,\) \(give a number\)"),
        (
            lambda x: x.shrink((0, 1)),
            r"shrink: bounds=\(0, 1\) \(give a sequence of pairs of ints, or None\)",
        ),
        (lambda x: x.split(((1, 1), (1, 1))), r"split: sizes=.* \(give an int or a sequence of ints\)"),
        (lambda x: x.pad(5, mode="reflect"), "pad: padding=5"),
        (lambda x: x.sum(keepdim=np.ones(3)), r"sum: keepdim of type ndarray \(give a bool\)"),
        (
            lambda x: x.quantile([[0.5], [0, 1]]),
            r"quantile: q=.* \(give a number or a sequence of numbers or",
        ),
        (lambda x: x.one_hot(math.inf), "one_hot: "),
        (lambda x: xp.zeros_like("a"), r"zeros_like: x='a' \(give a Tensor\)"),
        (lambda x: xp.reshape(x, 3.5), r"reshape: shape=3.5"),
        (lambda x: xp.ones((2,), dtype="float32"), "ones: dtype='float32'"),
    ],
)
def test_an_argument_of_a_wrong_type_is_named(wrong: Callable[[Any], object], message: str) -> None:
    x = Tensor([[1, 2], [3, 4]], dtype=dtypes.i32)
    with pytest.raises(TensorError, match=message) as caught:
        wrong(x)
    assert caught.value.__cause__ is None


def test_other_errors_stay_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of ours says what is wrong already; Python's own says what is missing;
    a bug is no mistake of the caller.
    """
    x = Tensor([1.0, 2.0])
    with pytest.raises(TensorError, match="axis 3"):
        x.sum(3)
    with pytest.raises(TypeError, match="missing"):
        x.expand_as()  # type: ignore[call-arg]
    monkeypatch.setattr(compose, "exp", lambda x: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        x.softmax()
