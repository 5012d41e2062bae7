"""Views, joins and indexing against NumPy."""

from collections.abc import Callable
from types import EllipsisType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from uop_ir import DType, Ops, dtypes
from uop_tensor import Tensor, TensorError

Array = npt.NDArray[Any]
Item = int | slice | EllipsisType | None
Case = tuple[tuple[int, ...], tuple[Item, ...]]

SHAPES = st.lists(st.integers(0, 4), max_size=4).map(tuple)


def numbered(shape: tuple[int, ...], dtype: npt.DTypeLike = np.int32) -> Array:
    return np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)


def same(found: Tensor, wanted: Array) -> None:
    array = found.numpy()
    assert array.shape == wanted.shape
    assert array.dtype == wanted.dtype
    np.testing.assert_array_equal(array, wanted)


def one_index(size: int) -> st.SearchStrategy[int | slice]:
    bound = st.none() | st.integers(-size - 2, size + 2)
    step = st.none() | st.sampled_from([1, 2, 3, -1, -2, -3, 7])
    parts = st.builds(slice, bound, bound, step)
    return parts | st.integers(-size, size - 1) if size else parts


@st.composite
def indexed(draw: st.DrawFn) -> Case:
    shape = draw(SHAPES)
    items: list[Item] = [draw(one_index(size)) for size in shape[: draw(st.integers(0, len(shape)))]]
    if draw(st.booleans()):
        items.insert(draw(st.integers(0, len(items))), Ellipsis)
        if draw(st.booleans()):
            items.append(None)
    for _ in range(draw(st.integers(0, 1))):
        items.insert(draw(st.integers(0, len(items))), None)
    return shape, tuple(items)


@pytest.mark.net
@settings(max_examples=150, deadline=None)
@given(indexed())
def test_basic_indexing(case: Case) -> None:
    shape, items = case
    x = numbered(shape)
    try:
        wanted = x[items]
    except IndexError:  # what follows Ellipsis was drawn for an axis in front
        with pytest.raises(TensorError):
            Tensor(x)[items]
        return
    same(Tensor(x)[items], np.asarray(wanted))


@settings(max_examples=60, deadline=None)
@given(indexed(), st.data())
def test_one_tensor_index(case: Case, data: st.DataObject) -> None:
    shape, items = case
    places = {i: item for i, item in enumerate(items) if isinstance(item, int)}
    if not places:
        return
    x = numbered(shape)
    try:
        x[items]
    except IndexError:
        return
    place = data.draw(st.sampled_from(sorted(places)))
    limit = abs(places[place]) if places[place] < 0 else places[place] + 1
    at = np.array(data.draw(st.lists(st.integers(-limit, limit - 1), max_size=3)), np.int64)
    at = at.reshape(data.draw(st.sampled_from([at.shape, (*at.shape, 1), (1, *at.shape)])))
    mixed = (*items[:place], at, *items[place + 1 :])
    try:
        wanted = x[mixed]
    except IndexError:
        return
    same(Tensor(x)[mixed], wanted)
    same(Tensor(x)[(*items[:place], Tensor(at), *items[place + 1 :])], wanted)


@pytest.mark.parametrize("dtype", [d for d in dtypes.all if d is not dtypes.index], ids=str)
def test_take_of_every_dtype(dtype: DType) -> None:
    x = np.array([[0, 1], [2, 3], [1, 0]]).astype(dtype.numpy)
    same(Tensor(x).take([2, 0, -1]), x[[2, 0, -1]])
    same(Tensor(x).take(Tensor([[1]]), axis=-1), np.take(x, [[1]], axis=-1))
    assert Tensor(x).take(1).shape == (2,)


@pytest.mark.parametrize("dtype", dtypes.ints, ids=str)
def test_positions_of_every_dtype(dtype: DType) -> None:
    x = numbered((300,))
    at = np.array([0, 5, 100]).astype(dtype.numpy)
    same(Tensor(x)[Tensor(at)], x[at])


def test_a_position_out_of_range_gives_zero() -> None:
    assert Tensor([5.0, 6.0]).take([2, -3, 1]).tolist() == [0, 0, 6]


def test_nan_and_infinity_are_taken_as_they_are_and_do_not_leak() -> None:
    x = np.array([np.nan, np.inf, 1.0])
    same(Tensor(x)[[2, 1, 0]], x[[2, 1, 0]])


def test_one_hot() -> None:
    at = np.array([[0, 2], [1, 5]])
    found = Tensor(at).one_hot(3)
    wanted = (at[..., None] == np.arange(3)).astype(np.int64)
    same(found, wanted)


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
        assert same_again.uop is x.uop or same_again.uop.op is Ops.RESHAPE


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
    (lambda t: t.squeeze(0), "squeeze: axis 0"),
    (lambda t: t.flip((0, 0)), "flip: an axis twice"),
    (lambda t: t.pad([(1, 1)]), "pad"),
    (lambda t: t.pad([(-3, 0), (0, 0)]), "pad"),
    (lambda t: t.shrink([(0, 3), None]), r"shrink: \(0, 3\) of an axis of size 2"),
    (lambda t: t.repeat(2), "repeat"),
    (lambda t: t.cat(Tensor([[1.0]])), "cat"),
    (lambda t: t.stack(Tensor([[1.0]])), "stack"),
    (lambda t: t.cat([t, t]), "cat: list is no tensor"),
    (lambda t: t.stack([t, t]), "stack: list is no tensor"),
    (lambda t: t.stack(np.ones((2, 3), np.float32)), "stack: ndarray is no tensor"),
    (lambda t: t.split([1, 2]), "split"),
    (lambda t: t[2], "index: 2 along an axis of size 2"),
    (lambda t: t[0, 0, 0], "index: 3 items"),
    (lambda t: t[..., ...], "index: more than one"),
    (lambda t: t[1.0], "index: float is no index"),
    (lambda t: t[::0], "index"),
    (lambda t: t[t > 0], "depends on data"),
    (lambda t: t[True], "depends on data"),
    (lambda t: t[t], "positions of dtype f32"),
    (lambda t: t[[0], [1]], "more than one tensor"),
    (lambda t: t.__setitem__(0, 1.0), "cannot be written"),
    (lambda t: t[0, 0].mT, "mT"),
    (lambda t: t.take([0.5]), "positions of dtype"),
]


@pytest.mark.parametrize(("wrong", "message"), ERRORS)
def test_errors_name_the_method(wrong: Callable[[Tensor], object], message: str) -> None:
    with pytest.raises(TensorError, match=message):
        wrong(Tensor(np.ones((2, 3), np.float32)))
