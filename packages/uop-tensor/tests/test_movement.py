"""Views and joins against NumPy."""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from uop_tensor import Tensor, TensorError

Array = npt.NDArray[Any]

SHAPES = st.lists(st.integers(0, 4), max_size=4).map(tuple)


def numbered(shape: tuple[int, ...], dtype: npt.DTypeLike = np.int32) -> Array:
    return np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)


def same(found: Tensor, wanted: Array) -> None:
    """The same shape, dtype and elements."""
    np.testing.assert_array_equal(found.numpy(), wanted, strict=True)


@settings(max_examples=60, deadline=None)
@given(SHAPES, st.data())
def test_reshape(shape: tuple[int, ...], data: st.DataObject) -> None:
    x = numbered(shape)
    dims = [d for s in shape for d in {4: (2, 2), 3: (1, 3)}.get(s, (s,))]
    dims = data.draw(st.permutations(dims))
    same(Tensor(x).reshape(dims), x.reshape(dims))
    if dims and x.size:
        at = data.draw(st.integers(0, len(dims) - 1))
        same(Tensor(x).view(*dims[:at], -1, *dims[at + 1 :]), x.reshape(dims))
    same(Tensor(x).flatten(), x.reshape(-1))


def test_flatten_part() -> None:
    x = numbered((2, 3, 4, 5))
    same(Tensor(x).flatten(1, 2), x.reshape(2, 12, 5))
    same(Tensor(x).flatten(-2), x.reshape(2, 3, 20))
    same(Tensor(5).flatten(), np.array([5]))


@settings(max_examples=60, deadline=None)
@given(SHAPES, st.data())
def test_permute_flip_transpose(shape: tuple[int, ...], data: st.DataObject) -> None:
    x = numbered(shape)
    order = data.draw(st.permutations(range(x.ndim)))
    negative = [a - x.ndim if data.draw(st.booleans()) else a for a in order]
    same(Tensor(x).permute(*negative), x.transpose(order))
    axes = tuple(order[: data.draw(st.integers(0, x.ndim))])
    same(Tensor(x).flip(axes), np.flip(x, axes))
    same(Tensor(x).flip(), np.flip(x))
    same(Tensor(x).T, x.T)
    if x.ndim > 1:
        same(Tensor(x).mT, np.swapaxes(x, -1, -2))
        same(Tensor(x).transpose(order[0], order[1]), np.swapaxes(x, order[0], order[1]))


@settings(max_examples=60, deadline=None)
@given(SHAPES, st.data())
def test_expand_squeeze_unsqueeze(shape: tuple[int, ...], data: st.DataObject) -> None:
    shape = tuple(1 if s == 4 else s for s in shape)
    x = numbered(shape)
    target = tuple(data.draw(st.integers(0, 3)) if s == 1 else s for s in shape)
    target = tuple(data.draw(st.lists(st.integers(0, 3), max_size=2))) + target
    same(Tensor(x).expand(target), np.broadcast_to(x, target))
    same(Tensor(x).squeeze(), x.squeeze())
    every = tuple(range(x.ndim))
    same(Tensor(x).squeeze(every), x.squeeze())  # axes of other sizes stay
    at = data.draw(st.integers(-x.ndim - 1, x.ndim))
    same(Tensor(x).unsqueeze(at), np.expand_dims(x, at))
    same(Tensor(x).unsqueeze(at).squeeze(at), x)


def test_expand_keeps_with_minus_one() -> None:
    assert Tensor.zeros(3, 1).expand(2, -1, 4).shape == (2, 3, 4)
    assert Tensor(1.0).expand(2, 2).tolist() == [[1, 1], [1, 1]]


@pytest.mark.net
@settings(max_examples=60, deadline=None)
@given(SHAPES, st.data())
def test_pad_and_shrink(shape: tuple[int, ...], data: st.DataObject) -> None:
    x = numbered(shape)
    widths = [(data.draw(st.integers(0, 2)), data.draw(st.integers(0, 2))) for _ in shape]
    value = data.draw(st.sampled_from([0, 7]))
    padded = Tensor(x).pad(widths, value=value)
    wanted = np.pad(x, widths, constant_values=value) if shape else x
    same(padded, wanted)
    same(padded.shrink([(b, b + s) for (b, _), s in zip(widths, shape, strict=True)]), x)
    same(padded.pad([(-b, -a) for b, a in widths]), x)


def test_pad_with_infinity_and_nan() -> None:
    assert Tensor([1.0]).pad([(1, 2)], value=float("-inf")).tolist() == [-np.inf, 1, -np.inf, -np.inf]
    assert np.isnan(Tensor([1.0]).pad([(1, 0)], value=float("nan")).numpy()).tolist() == [True, False]
    assert Tensor([True]).pad([(1, 0)], value=True).tolist() == [True, True]


@settings(max_examples=60, deadline=None)
@given(SHAPES.filter(len), st.data())
def test_cat_stack_split(shape: tuple[int, ...], data: st.DataObject) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    parts = []
    for number in range(data.draw(st.integers(1, 3))):
        size = list(shape)
        size[axis] = data.draw(st.sampled_from([shape[axis], 1, 2]))
        parts.append(numbered(tuple(size)) + 100 * number)
    joined = Tensor.cat(*map(Tensor, parts), axis=axis)
    same(joined, np.concatenate(parts, axis))
    for part, again in zip(parts, joined.split([p.shape[axis] for p in parts], axis), strict=True):
        same(again, part)
    equal = [numbered(shape) + i for i in range(3)]
    at = data.draw(st.integers(-len(shape) - 1, len(shape)))
    same(Tensor.stack(*map(Tensor, equal), axis=at), np.stack(equal, at))
    counts = tuple(data.draw(st.integers(0, 2)) for _ in range(len(shape) + data.draw(st.integers(0, 1))))
    same(Tensor(equal[0]).repeat(counts), np.tile(equal[0], counts))


def test_cat_keeps_every_bit_and_promotes() -> None:
    x = np.array([-0.0, np.nan], np.float32)
    found = Tensor(x).cat(Tensor([1]), Tensor(x)).numpy()
    assert found.dtype == np.float32
    assert np.signbit(found[[0, 3]]).all()


def test_chunk_and_split_by_size() -> None:
    x = numbered((7,))
    assert [c.tolist() for c in Tensor(x).split(3)] == [[0, 1, 2], [3, 4, 5], [6]]
    assert [c.shape[0] for c in Tensor(x).chunk(3)] == [3, 3, 1]


def test_movement_adds_no_node_that_does_nothing() -> None:
    x = Tensor.zeros(2, 3).contiguous()
    for same_again in (
        x.reshape(2, 3),
        x.expand(2, 3),
        x.permute(0, 1),
        x.flip(()),
        x.pad([(0, 0), (0, 0)]),
        x.shrink([(0, 2), None]),
        x[:],
        x[...],
        x[0:2, ::1],
        x.cat(axis=1),
    ):
        assert same_again.uop is x.uop


ERRORS = [
    (lambda t: t.reshape(4), r"reshape: \(2, 3\) has 6 elements and does not fit \(4,\)"),
    (lambda t: t.reshape(-1, -1), "reshape"),
    (lambda t: t.reshape(-2, -3), "reshape"),
    (lambda t: t.reshape(-1, 0), "reshape"),
    (lambda t: t.reshape(2.0, 3), "reshape: sizes and axes are ints"),
    (lambda t: t.expand(2, 4), r"expand: \(2, 3\) does not grow to \(2, 4\)"),
    (lambda t: t.expand(3), "expand"),
    (lambda t: t.permute(0, 0), r"permute: \(0, 0\)"),
    (lambda t: t.permute(0), "permute"),
    (lambda t: t.transpose(0, 2), "transpose: axis 2 of a tensor of 2 axes"),
    (lambda t: t.flatten(1, 0), "flatten: axis 1 comes after axis 0"),
    (lambda t: t.squeeze(2), "squeeze: axis 2"),
    (lambda t: t.flip((0, 0)), "flip: an axis twice"),
    (lambda t: t.pad([(1, 1)]), "pad"),
    (lambda t: t.pad([(-3, 0), (0, 0)]), "pad"),
    (lambda t: t.shrink([(0, 3), None]), r"shrink: \(0, 3\) of an axis of size 2"),
    (lambda t: t.repeat(2), "repeat"),
    (lambda t: t.cat(Tensor([[1.0]])), "cat"),
    (lambda t: t.stack(Tensor([[1.0]])), "stack"),
    (lambda t: t.cat([t, 1]), "cat: int is no tensor"),
    (lambda t: type(t).stack([]), "stack: no tensors"),
    (lambda t: t.stack(np.ones((2, 3), np.float32)), "stack: ndarray is no tensor"),
    (lambda t: t.split([1, 2]), "split"),
    (lambda t: t[0, 0].mT, "mT"),
]


@pytest.mark.parametrize(("wrong", "message"), ERRORS)
def test_errors_name_the_method(wrong: Callable[[Tensor], object], message: str) -> None:
    with pytest.raises(TensorError, match=message):
        wrong(Tensor(np.ones((2, 3), np.float32)))


def test_joined_as_a_list() -> None:
    x, made = numbered((2, 3)), cast(Any, Tensor)  # types know tensors one by one
    same(made.cat([Tensor(x), Tensor(x + 1)], dim=1), np.concatenate([x, x + 1], 1))
    same(made(x).cat((Tensor(x + 1), Tensor(x))), np.concatenate([x, x + 1, x]))
    same(made.stack((Tensor(x), Tensor(-x)), axis=-1), np.stack([x, -x], -1))


def test_flip_takes_loose_axes() -> None:
    x = numbered((2, 3, 4))
    same(Tensor(x).flip(0, -1), x[::-1, :, ::-1])
