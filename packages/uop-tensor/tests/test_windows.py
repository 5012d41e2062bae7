"""Convolutions, pooling and resizing against loops in float64, and their gradients against differences."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from uop_ir import dtypes, override
from uop_ir import settings as machine
from uop_tensor import Tensor, TensorError

Array = npt.NDArray[Any]
Differences = Callable[..., Array]
RNG = np.random.default_rng(0)


def normal(*shape: int) -> Array:
    return RNG.standard_normal(shape)


def close(found: Tensor, wanted: Array, rtol: float = 1e-12) -> None:
    array = found.numpy()
    assert array.shape == wanted.shape
    np.testing.assert_allclose(array, wanted, rtol=rtol, atol=rtol)


def windows(x: Array, size: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> Iterator[Any]:
    """Each place in the space of x, and what stands in the window there."""
    space = x.shape[-len(size) :]
    places = [
        (n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(space, size, stride, dilation, strict=True)
    ]
    for place in itertools.product(*map(range, places)):
        at: Any = [
            slice(p * s, p * s + d * (k - 1) + 1, d)
            for p, k, s, d in zip(place, size, stride, dilation, strict=True)
        ]
        yield place, x[(..., *at)]


def convolved(x: Array, w: Array, stride: Sequence[int], dilation: Sequence[int], groups: int = 1) -> Array:
    """The sums of products of weights and padded windows."""
    channels, outputs = w.shape[1], w.shape[0] // groups
    found = {}
    for place, window in windows(x, w.shape[2:], stride, dilation):
        found[place] = np.stack(
            [
                (window[:, o // outputs * channels : (o // outputs + 1) * channels] * w[o]).sum(
                    tuple(range(1, w.ndim))
                )
                for o in range(w.shape[0])
            ],
            1,
        )
    shape = tuple(n + 1 for n in max(found))
    return np.stack(list(found.values()), -1).reshape((*x.shape[:1], w.shape[0], *shape))


@pytest.mark.net
@settings(max_examples=40, deadline=None)
@given(st.integers(1, 3), st.data())
def test_convolutions_of_every_kind(rank: int, data: st.DataObject) -> None:
    def some(low: int, high: int) -> tuple[int, ...]:
        return tuple(data.draw(st.integers(low, high)) for _ in range(rank))

    size, stride, dilation, padding = some(1, 3), some(1, 3), some(1, 2), some(0, 2)
    space = tuple(d * (k - 1) + 1 + n for d, k, n in zip(dilation, size, some(0, 3), strict=True))
    groups = data.draw(st.sampled_from([1, 2]))
    x, w = normal(2, 2 * groups, *space), normal(2 * groups, 2, *size)
    padded = np.pad(x, [(0, 0)] * 2 + [(p, p) for p in padding])
    wanted = convolved(padded, w, stride, dilation, groups)
    close(Tensor(x).conv2d(Tensor(w), None, stride, padding, dilation, groups), wanted)
    # the transposed one is its gradient: <conv(x), y> == <x, transposed(y)>
    y = normal(*wanted.shape)
    more = [
        n + 2 * p - (d * (k - 1) + 1 + (m - 1) * s)
        for n, p, d, k, m, s in zip(space, padding, dilation, size, wanted.shape[2:], stride, strict=True)
    ]
    if all(m < max(s, d) for m, s, d in zip(more, stride, dilation, strict=True)):
        back = Tensor(y).conv_transpose2d(Tensor(w), None, stride, padding, more, groups, dilation).numpy()
        assert back.shape == x.shape
        np.testing.assert_allclose((x * back).sum(), (wanted * y).sum(), rtol=1e-10, atol=1e-10)
        moved = Tensor(x)
        (grad,) = moved.conv2d(Tensor(w), None, stride, padding, dilation, groups).gradient(
            moved, seed=Tensor(y)
        )
        close(grad, back)


@pytest.mark.parametrize("padding", ["valid", "same", 1, (0, 2)], ids=str)
def test_padding_of_a_convolution(padding: Any) -> None:
    x, w, b = normal(2, 2, 5, 4), normal(3, 2, 2, 3), normal(3)
    widths = {
        "valid": ((0, 0), (0, 0)),
        "same": ((0, 1), (1, 1)),
        1: ((1, 1), (1, 1)),
        (0, 2): ((0, 0), (2, 2)),
    }
    wanted = convolved(np.pad(x, ((0, 0), (0, 0), *widths[padding])), w, (1, 1), (1, 1)) + b[:, None, None]
    close(Tensor(x).conv2d(Tensor(w), Tensor(b), padding=padding), wanted)
    close(Tensor(x[0]).conv2d(Tensor(w), Tensor(b), padding=padding), wanted[0])


def test_gradients_of_a_convolution(differences: Differences) -> None:
    x, w = normal(1, 2, 5, 4), normal(2, 2, 2, 3)
    stride, dilation = (2, 1), (2, 1)
    padded = ((0, 0), (0, 0), (1, 1), (1, 1))

    def conv(x: Array, w: Array) -> Array:
        return convolved(np.pad(x, padded), w, stride, dilation)

    seed = normal(*conv(x, w).shape)
    a, b = Tensor(x), Tensor(w)
    to_x, to_w = a.conv2d(b, None, stride, 1, dilation).gradient(a, b, seed=Tensor(seed))
    close(to_x, differences(lambda x: conv(x, w), x, seed), 1e-7)
    close(to_w, differences(lambda w: conv(x, w), w, seed), 1e-7)
    # each gradient has those of its own
    a, b = Tensor(x), Tensor(w)
    to_x, to_w = a.conv2d(b, None, stride, 1, dilation).square().sum().gradient(a, b)
    (twice,) = (to_x.square().sum() + to_w.square().sum()).gradient(a)

    def first(x: Array) -> Array:
        a, b = Tensor(x), Tensor(w)
        to_x, to_w = a.conv2d(b, None, stride, 1, dilation).square().sum().gradient(a, b)
        return (to_x.square().sum() + to_w.square().sum()).numpy()

    np.testing.assert_allclose(twice.numpy(), differences(first, x, np.ones(())), rtol=1e-6)


@pytest.mark.parametrize(("groups", "width"), [(1, 4), (2, 4), (1, 25), (1, 26), (2, 26)])
def test_large_convolutions(groups: int, width: int) -> None:
    """So many outputs and products that the loops stand in another order,
    unless rows are long: of 24, but not of 23.
    """
    x, w = normal(2, 8 * groups, 5, width), normal(9 * groups, 8, 3, 3)
    stride, dilation = (2, 1), (1, 1)
    wanted = convolved(x, w, stride, dilation, groups)
    seed = normal(*wanted.shape)
    a, b = Tensor(x), Tensor(w)
    value = a.conv2d(b, None, stride, 0, 1, groups)
    to_x, to_w = value.gradient(a, b, seed=Tensor(seed))
    close(value, wanted)
    x_wanted, w_wanted = np.zeros_like(x), np.zeros_like(w)
    for place, window in windows(x_wanted, (3, 3), stride, dilation):
        for o in range(9 * groups):
            c = slice(o // 9 * 8, o // 9 * 8 + 8)
            window[:, c] += seed[:, o, *place][:, None, None, None] * w[o]
            seen = x[:, c, place[0] * 2 : place[0] * 2 + 3, place[1] : place[1] + 3]
            w_wanted[o] += (seed[:, o, *place][:, None, None, None] * seen).sum(0)
    close(to_x, x_wanted)
    close(to_w, w_wanted)


def test_dtypes_of_a_convolution() -> None:
    x, w = RNG.integers(-9, 9, (1, 2, 6)), RNG.integers(-9, 9, (2, 2, 3))
    wanted = convolved(x, w, (1,), (1,))
    found = Tensor(x.astype(np.int32)).conv1d(Tensor(w.astype(np.int32)))
    assert found.dtype is dtypes.i32
    np.testing.assert_array_equal(found.numpy(), wanted)
    assert Tensor(x).conv1d(Tensor(w.astype(np.float32))).dtype is dtypes.f32
    for dtype in (dtypes.f16, dtypes.bf16):
        long = np.ones((1, 1, 300)).astype(dtype.numpy)
        found = Tensor(long).conv1d(Tensor(np.full((1, 1, 300), 0.01).astype(dtype.numpy)))
        assert found.dtype is dtype
        total = np.float32(np.asarray(0.01).astype(dtype.numpy)) * 300
        assert abs(found.item() - total) <= 0.01 * total
    with pytest.raises(TensorError, match="bool"):
        Tensor(x > 0).conv1d(Tensor(w > 0))


def test_empty_batches_and_places() -> None:
    w = Tensor.ones(3, 2, 2, 2)
    assert Tensor.ones(0, 2, 4, 4).conv2d(w).shape == (0, 3, 3, 3)
    assert Tensor.ones(0, 2, 4, 4).max_pool2d().numpy().shape == (0, 2, 2, 2)
    assert Tensor.ones(1, 0, 4, 4).conv2d(Tensor.ones(3, 0, 2, 2)).tolist() == np.zeros((1, 3, 3, 3)).tolist()
    assert Tensor.ones(1, 3, 1, 1).conv_transpose2d(w).shape == (1, 2, 2, 2)


POOLS = [
    (2, None, 0, False),
    (3, 2, 1, True),
    ((3, 2), (1, 3), (1, 0), False),
    (4, 3, 2, True),
    (9, (4, 3), 0, True),  # longer than the space
]


@pytest.mark.parametrize(("size", "stride", "padding", "ceil"), POOLS, ids=str)
def test_pools(size: Any, stride: Any, padding: Any, ceil: bool) -> None:
    """Windows of the padded space, cut off where a last one reaches further."""
    x = normal(2, 8, 7)
    k, p = (np.broadcast_to(n, 2) for n in (size, padding))
    s = k if stride is None else np.broadcast_to(stride, 2)
    lengths = np.array(x.shape[1:])
    room = lengths + 2 * p - k
    places = (-(-room // s) if ceil else room // s) + 1
    places -= (places - 1) * s >= lengths + p
    greatest, total, mean, counted, at = (np.zeros((2, *places)) for _ in range(5))
    for i, j in np.ndindex(*places):
        begin = np.array([i, j]) * s - p
        end = np.minimum(begin + k, lengths + p)
        (a, b), (c, d) = np.maximum(begin, 0), np.minimum(end, lengths)
        window = x[:, a:c, b:d].reshape(2, -1)
        greatest[:, i, j] = window.max(1)
        total[:, i, j] = window.sum(1)
        mean[:, i, j] = total[:, i, j] / np.prod(end - begin)
        counted[:, i, j] = window.mean(1)
        row, column = np.divmod(window.argmax(1), d - b)
        at[:, i, j] = (a + row) * 7 + b + column
    value, found = Tensor(x).max_pool2d(size, stride, padding, 1, ceil, True)
    close(value, greatest)
    assert found.dtype is dtypes.i64
    np.testing.assert_array_equal(found.numpy(), at)
    close(Tensor(x).avg_pool2d(size, stride, padding, ceil), mean)
    close(Tensor(x).avg_pool2d(size, stride, padding, ceil, False), counted)
    close(Tensor(x).avg_pool2d(size, stride, padding, ceil, divisor_override=3), total / 3)


@pytest.mark.parametrize("output", [3, (5, 2), (1, 7), (6, None)], ids=str)
def test_adaptive_pools(output: Any) -> None:
    x = normal(2, 5, 7)
    rows, columns = np.broadcast_to(output, 2) if isinstance(output, int) else (n or 7 for n in output)
    mean, greatest = np.zeros((2, rows, columns)), np.zeros((2, rows, columns))
    for i, j in np.ndindex(rows, columns):
        part = x[:, i * 5 // rows : -(-(i + 1) * 5 // rows), j * 7 // columns : -(-(j + 1) * 7 // columns)]
        mean[:, i, j], greatest[:, i, j] = part.mean((1, 2)), part.max((1, 2))
    close(Tensor(x).adaptive_avg_pool2d(output), mean)
    value, at = Tensor(x).adaptive_max_pool2d(output, return_indices=True)
    close(value, greatest)
    np.testing.assert_array_equal(
        np.take_along_axis(x.reshape(2, -1), at.numpy().reshape(2, -1), 1), greatest.reshape(2, -1)
    )


POOLED: dict[str, Callable[[Tensor], Tensor]] = {
    "max": lambda t: t.max_pool2d(3, 2, 1),
    "max dilated": lambda t: t.max_pool2d(2, 1, 0, 2),
    "avg": lambda t: t.avg_pool2d(3, 2, 1, True, False),
    "adaptive avg": lambda t: t.adaptive_avg_pool2d((3, 4)),
    "adaptive max": lambda t: t.adaptive_max_pool2d((3, 4)),
    "bilinear": lambda t: t.interpolate((7, 3), mode="bilinear"),
    "bicubic": lambda t: t.interpolate(scale_factor=(1.5, 0.8), mode="bicubic"),
    "nearest": lambda t: t.interpolate((8, 7)),
    "transposed": lambda t: t.conv_transpose2d(Tensor(np.arange(12.0).reshape(2, 1, 2, 3)), None, 2, 1),
    "windows": lambda t: t.unfold(1, 2, 2).unfold(2, 3, 1),
    "shuffled": lambda t: t.pixel_unshuffle(1).pixel_shuffle(1),
}


@pytest.mark.parametrize("name", POOLED)
def test_gradients(name: str, differences: Differences) -> None:
    x = normal(2, 5, 6)
    t = Tensor(x)
    value = POOLED[name](t)
    seed = normal(*value.shape)
    (found,) = value.gradient(t, seed=Tensor(seed))
    close(found, differences(lambda a: POOLED[name](Tensor(a)).numpy(), x, seed), 1e-7)


def test_pools_of_other_values() -> None:
    """NaN is the greatest and infinity of the padding never, ties share, integers and bool have a maximum."""
    assert Tensor([[1.0, np.nan, 2, 3]]).max_pool1d(2).tolist()[0][1] == 3
    assert np.isnan(Tensor([[1.0, np.nan, 2, 3]]).max_pool1d(2).numpy()[0, 0])
    assert Tensor([[-np.inf, -np.inf]]).max_pool1d(2, 2, 1, return_indices=True)[1].tolist() == [[0, 1]]
    t = Tensor([[2.0, 2.0, 0.0, 1.0]])
    assert t.max_pool1d(2).gradient(t, seed=Tensor([[6.0, 4.0]]))[0].tolist() == [[3, 3, 0, 4]]
    small = np.array([[-5, -7, -128, -128]], np.int8)
    assert Tensor(small).max_pool1d(2, 1, 1).tolist() == [[-5, -5, -7, -128, -128]]
    assert Tensor(small).max_pool1d(2).dtype is dtypes.i8
    assert Tensor([[True, False, False, False]]).max_pool1d(2).tolist() == [[True, False]]
    assert Tensor(small).avg_pool1d(2).tolist() == [[-6, -128]]
    assert Tensor([[60000, 60000]]).half().avg_pool1d(2).tolist() == [[60000]]
    assert np.signbit(Tensor([[-0.0, -0.0]]).max_pool1d(2).numpy()).all()


def test_interpolation() -> None:
    """Places between elements are as far from them as their weights say."""
    x = np.array([[[0.0, 10, 30]]])
    assert Tensor(x).interpolate(6).tolist() == [[[0, 0, 10, 10, 30, 30]]]
    assert Tensor(x).interpolate(2).tolist() == [[[0, 10]]]
    assert Tensor(x).interpolate(2, mode="nearest-exact").tolist() == [[[0, 30]]]
    close(Tensor(x).interpolate(6, mode="linear"), np.array([[[0, 2.5, 7.5, 15, 25, 30]]]))
    close(Tensor(x).interpolate(5, mode="linear", align_corners=True), np.array([[[0, 5, 10, 20, 30]]]))
    close(Tensor(x).interpolate(3, mode="linear"), x)
    rows, columns = np.arange(4.0)[:, None], np.arange(5.0)
    plane = (2 * rows + 3 * columns)[None, None]
    found = Tensor(plane).interpolate((7, 9), mode="bicubic", align_corners=True)
    wanted = 2 * np.linspace(0, 3, 7)[:, None] + 3 * np.linspace(0, 4, 9)
    inner = (slice(None), slice(None), slice(2, 5), slice(2, 7))  # the edges repeat elements
    np.testing.assert_allclose(found.numpy()[inner], wanted[None, None][inner], rtol=1e-12)
    assert Tensor([[[1, 2]]]).interpolate(4, mode="linear").dtype is dtypes.f32
    assert Tensor([[[1, 2]]]).interpolate(4).dtype is dtypes.i64
    y = normal(1, 2, 4, 6)
    close(Tensor(y).interpolate((2, 3), mode="area"), y.reshape(1, 2, 2, 2, 3, 2).mean((3, 5)))


def test_channels_become_space() -> None:
    x = np.arange(2 * 12 * 2 * 3).reshape(2, 12, 2, 3)
    found = Tensor(x).pixel_shuffle(2).numpy()
    assert found.shape == (2, 3, 4, 6)
    for c, i, j in np.ndindex(3, 4, 6):
        np.testing.assert_array_equal(found[:, c, i, j], x[:, c * 4 + i % 2 * 2 + j % 2, i // 2, j // 2])
    np.testing.assert_array_equal(Tensor(found).pixel_unshuffle(2).numpy(), x)


def test_in_compiled_code() -> None:
    with override(machine, dev=None):
        x, w = normal(2, 8, 12, 11).astype(np.float32), normal(8, 8, 3, 3).astype(np.float32)
        a, b = Tensor(x), Tensor(w)
        value = a.conv2d(b, None, 2, 1)
        wanted = convolved(
            np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))).astype(float), w.astype(float), (2, 2), (1, 1)
        )
        seed = normal(*wanted.shape).astype(np.float32)
        to_x, to_w = value.gradient(a, b, seed=Tensor(seed))
        np.testing.assert_allclose(value.numpy(), wanted, rtol=1e-4, atol=1e-4)
        assert to_x.shape == x.shape
        back = Tensor(seed).conv_transpose2d(b, None, 2, 1, (1, 0))
        np.testing.assert_allclose(to_x.numpy(), back.numpy(), rtol=1e-5, atol=1e-5)
        for i, j in np.ndindex(3, 3):
            part = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))[:, :, i : i + 11 : 2, j : j + 11 : 2]
            by_hand = np.einsum("nohw,nchw->oc", seed.astype(float), part[:, :, :6, :6].astype(float))
            np.testing.assert_allclose(to_w.numpy()[:, :, i, j], by_hand, rtol=1e-4, atol=1e-4)
        pooled = Tensor(x).max_pool2d(3, 2, 1, return_indices=True)
        np.testing.assert_array_equal(
            np.take_along_axis(x.reshape(2, 8, -1), pooled[1].numpy().reshape(2, 8, -1), 2).ravel(),
            pooled[0].numpy().ravel(),
        )


W = Tensor.ones(4, 2, 3, 3)
ERRORS: list[tuple[Callable[[Any], object], str]] = [
    (
        lambda t: t.conv2d(Tensor.ones(4, 3, 3, 3)),
        r"conv2d: \(1, 2, 5, 5\) and a weight of shape \(4, 3, 3, 3\)",
    ),
    (lambda t: t.conv2d(W, groups=2), "in 2 groups"),
    (lambda t: t.conv2d(W, groups=0), "groups=0"),
    (lambda t: t.conv2d(Tensor.ones(4, 2, 7, 3)), r"windows of size \(7, 3\)"),
    (lambda t: t.conv2d(W, dilation=3), "windows of size"),
    (lambda t: t.conv2d(W, Tensor.ones(3)), "a bias of shape"),
    (lambda t: t.conv2d(W, stride=0), "stride=0"),
    (lambda t: t.conv2d(W, stride=(1, 1, 1)), r"stride=\(1, 1, 1\)"),
    (lambda t: t.conv2d(W, padding=-1), "padding=-1"),
    (lambda t: t.conv2d(W, stride=2, padding="same"), "same"),
    (lambda t: t.conv2d(W, padding="full"), "padding='full'"),
    (lambda t: t.conv2d(1), "int is no weight"),
    (lambda t: t.conv1d(W), "conv1d"),
    (lambda t: t[0, 0].conv2d(W), "conv2d"),
    (lambda t: t.conv2d(Tensor.ones(4, 2)), "conv2d"),
    (lambda t: t.conv_transpose2d(W), "conv_transpose2d"),
    (lambda t: t.conv_transpose2d(Tensor.ones(2, 2, 3, 3), output_padding=1), "output_padding"),
    (lambda t: t.conv_transpose2d(Tensor.ones(2, 2, 3, 3), padding=4), "padding=\\(4, 4\\) leaves"),
    (lambda t: t.max_pool2d(6), "max_pool2d: windows of size"),
    (lambda t: t.max_pool2d(2, padding=2), "at most half a window"),
    (lambda t: t[0].max_pool3d(), "max_pool3d: a tensor of shape"),
    (lambda t: t.max_pool1d(), "max_pool1d: a tensor of shape"),
    (lambda t: t.avg_pool2d(0), "kernel_size=0"),
    (lambda t: t.avg_pool2d(divisor_override=0), "divisor_override=0"),
    (lambda t: t.adaptive_avg_pool2d((1, 2, 3)), "output_size"),
    (lambda t: t.adaptive_max_pool2d(0), "output_size"),
    (lambda t: t[:, :, :0].adaptive_avg_pool2d(1), "not empty"),
    (lambda t: t.interpolate(), "give one of them"),
    (lambda t: t.interpolate(3, 2.0), "give one of them"),
    (lambda t: t.interpolate(3, mode="trilinear"), "mode='trilinear' for a space of 2 axes"),
    (lambda t: t.interpolate(3, mode="cubic"), "mode='cubic'"),
    (lambda t: t.interpolate(3, align_corners=True), "align_corners"),
    (lambda t: t.interpolate(0), "size=0"),
    (lambda t: t.interpolate(scale_factor=0.1), "scale_factor=0.1"),
    (lambda t: t[0, 0].interpolate(3), "interpolate: a tensor of shape"),
    (lambda t: t.unfold(2, 6, 1), "unfold: windows of 6"),
    (lambda t: t.unfold(2, 2, 0), "unfold"),
    (lambda t: t.pixel_shuffle(2), "pixel_shuffle"),
    (lambda t: t.pixel_unshuffle(2), "pixel_unshuffle"),
]


@pytest.mark.parametrize(("wrong", "message"), ERRORS)
def test_errors_name_the_method(wrong: Callable[[Any], object], message: str) -> None:
    with pytest.raises(TensorError, match=message):
        wrong(Tensor.ones(1, 2, 5, 5))
