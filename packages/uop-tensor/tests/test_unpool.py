"""Unpooling, fold and pools of norms against loops and PyTorch's documented results."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from uop_ir import dtypes
from uop_tensor import Tensor, TensorError

Array = npt.NDArray[Any]
RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("space", "size", "stride", "padding"), [(1, 2, None, 0), (2, 2, None, 0), (2, 3, 2, 1), (3, 2, 2, 0)]
)
def test_max_unpool_puts_each_element_back(space: int, size: int, stride: int | None, padding: int) -> None:
    x = RNG.permutation(2 * 3 * 6**space).reshape(2, 3, *(6,) * space).astype(np.float32)
    value, at = getattr(Tensor(x), f"max_pool{space}d")(size, stride, padding, return_indices=True)
    found = getattr(value, f"max_unpool{space}d")(at, size, stride, padding, output_size=x.shape)
    kept = np.zeros((2, 3, 6**space), np.float32)
    np.put_along_axis(kept, at.numpy().reshape(2, 3, -1), value.numpy().reshape(2, 3, -1), -1)
    assert found.shape == x.shape
    np.testing.assert_array_equal(found.numpy(), kept.reshape(x.shape))
    assert (kept == x.reshape(kept.shape))[kept != 0].all()


def test_max_unpool_without_a_batch_and_a_size() -> None:
    value, at = Tensor(np.arange(16.0).reshape(1, 4, 4)).max_pool2d(2, return_indices=True)
    wanted = np.zeros((4, 4))
    wanted[1::2, 1::2] = [[5, 7], [13, 15]]
    assert value.max_unpool2d(at, 2).tolist() == [wanted.tolist()]
    assert value.max_unpool2d(at, 2, output_size=(4, 4)).tolist() == [wanted.tolist()]


@pytest.mark.parametrize("case", [
    {"kernel_size": 2, "output_size": (4, 5)},
    {"kernel_size": (2, 3), "output_size": (5, 6), "stride": (2, 1), "padding": (1, 0)},
    {"kernel_size": 2, "output_size": (6, 7), "stride": 2, "dilation": (1, 2), "padding": 1},
    {"kernel_size": 2, "output_size": (5, 5), "stride": 3},
])  # fmt: skip
def test_fold(case: dict[str, Any]) -> None:
    two = {k: (v, v) if isinstance(v, int) else v for k, v in case.items()}
    size, space, stride, padding, dilation = (
        np.array(two.get(k, (d, d)))
        for k, d in (("kernel_size", 1), ("output_size", 1), ("stride", 1), ("padding", 0), ("dilation", 1))
    )
    places = (space + 2 * padding - dilation * (size - 1) - 1) // stride + 1
    x = RNG.normal(size=(2, 3 * size.prod(), places.prod()))
    wanted = np.zeros((2, 3, *(space + 2 * padding)))
    columns = x.reshape(2, 3, *size, *places)
    for i, j in np.ndindex(*size):
        for p, q in np.ndindex(*places):
            row, column = np.array([p, q]) * stride + np.array([i, j]) * dilation
            wanted[:, :, row, column] += columns[:, :, i, j, p, q]
    (top, left), (height, width) = padding, space
    wanted = wanted[:, :, top : top + height, left : left + width]
    np.testing.assert_allclose(Tensor(x).fold(**case).numpy(), wanted, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(Tensor(x[0]).fold(**case).numpy(), wanted[0], rtol=1e-12, atol=1e-12)
    # im2col is its transpose: <im2col(image), x> = <image, fold(x)>, and the elements are those of loops
    image = RNG.normal(size=(2, 3, *space))
    padded = np.pad(image, ((0, 0), (0, 0), *((n, n) for n in padding)))
    columns = np.zeros((2, 3, *size, *places))
    for i, j in np.ndindex(*size):
        for p, q in np.ndindex(*places):
            row, column = np.array([p, q]) * stride + np.array([i, j]) * dilation
            columns[:, :, i, j, p, q] = padded[:, :, row, column]
    options = {k: v for k, v in case.items() if k != "output_size"}
    np.testing.assert_array_equal(Tensor(image).im2col(**options).numpy(), columns.reshape(x.shape))
    np.testing.assert_array_equal(Tensor(image[0]).im2col(**options).numpy(), columns.reshape(x.shape)[0])


@pytest.mark.parametrize("p", [1, 2, 3, 2.5])
def test_lp_pool(p: float) -> None:
    x = RNG.uniform(0, 2, (2, 3, 6, 7))
    seen = np.lib.stride_tricks.sliding_window_view(x, (2, 3), (2, 3))[:, :, ::2, ::1]
    wanted = (seen**p).sum((-2, -1)) ** (1 / p)
    np.testing.assert_allclose(Tensor(x).lp_pool2d(p, (2, 3), (2, 1)).numpy(), wanted, rtol=1e-12)
    short = Tensor(x[0, 0]).lp_pool1d(p, 4, ceil_mode=True).numpy()
    whole, rest = (x[0, 0, :, :4] ** p).sum(1), (x[0, 0, :, 4:] ** p).mean(1) * 4
    np.testing.assert_allclose(short, np.stack([whole, rest], 1) ** (1 / p), rtol=1e-12)


def test_lp_pool_of_zeros_integers_and_short_floats() -> None:
    zero = Tensor.zeros(1, 1, 4)
    assert zero.lp_pool1d(2, 2).sum().gradient(zero)[0].tolist() == [[[0, 0, 0, 0]]]
    assert Tensor([[3, 4]]).lp_pool1d(2, 2).dtype is dtypes.f32
    assert Tensor([[3, 4]]).lp_pool1d(2, 2).tolist() == [[5]]
    short = Tensor([[300.0, 400.0]], dtype=dtypes.f16).lp_pool1d(
        2, 2
    )  # squares are greater than f16 has numbers
    assert short.dtype is dtypes.f16
    assert short.tolist() == [[500]]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda x: x.max_unpool2d(Tensor([1]), 2), r"max_unpool2d: indices of shape \(1,\) for \(1, 2, 2\)"),
        (lambda x: x.max_unpool1d(x, 2, output_size=(0,)), r"max_unpool1d: a space of \(0,\)"),
        (lambda x: x.max_unpool3d(x, 2), r"max_unpool3d: a tensor of shape \(1, 2, 2\)"),
        (
            lambda x: x.fold((4, 4), 2),
            r"fold: \(1, 2, 2\) as windows of size \(2, 2\) in a space of \(4, 4\)",
        ),
        (lambda x: x.fold((1, 1), 2), "fold: .* in a space of"),
        (lambda x: x.im2col(3), r"im2col: windows of size \(3, 3\)"),
        (lambda x: x[0].im2col(1), r"im2col: a tensor of shape \(2, 2\)"),
        (lambda x: x.lp_pool2d(0, 2), "lp_pool2d: norm_type=0"),
        (lambda x: x.lp_pool2d(2, 3), "lp_pool2d: windows of size"),
    ],
)
def test_errors(wrong: Callable[[Tensor], object], message: str) -> None:
    with pytest.raises(TensorError, match=message):
        wrong(Tensor.ones(1, 2, 2))
