"""Elements, parts and diagonals replaced, against assignments of NumPy."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from uop_ir import dtypes
from uop_tensor import Tensor, TensorError, jit

Array = npt.NDArray[Any]

RNG = np.random.default_rng(3)


def same(found: Tensor, wanted: Array) -> None:
    """The same shape, dtype and elements."""
    np.testing.assert_array_equal(found.numpy(), wanted, strict=True)


def assigned(x: Array, items: Any, value: Any) -> Array:
    y = x.copy()
    y[items] = value
    return y


def whole(*shape: int) -> Array:
    return RNG.integers(-9, 9, shape)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_positions_of_a_vector(axis: int) -> None:
    x, at = whole(3, 4, 2), np.array([0, -1])
    items = (slice(None),) * (axis % 3) + (at,)
    source = np.moveaxis(whole(2, 5, 5), 0, axis)[
        tuple(slice(None if a == axis % 3 else n) for a, n in enumerate(x.shape))
    ]
    same(Tensor(x).index_fill(axis, at, 7), assigned(x, items, 7))
    same(Tensor(x).index_fill(axis, Tensor(at), Tensor(7.9)), assigned(x, items, 7))
    same(Tensor(x).index_copy(axis, Tensor(at), Tensor(source)), assigned(x, items, source))
    product = assigned(x, items, x[items] * source)
    same(Tensor(x).index_reduce(axis, at, Tensor(source), "prod"), product)


def test_a_position_named_twice_or_out_of_range() -> None:
    x = Tensor([1.0, 2.0, 3.0])
    far = Tensor([1, 5, 1])
    assert x.index_copy(0, far, Tensor([7.0, 8.0, 9.0])).tolist() == [1, 9, 3]
    assert x.index_fill(0, far, -1).tolist() == [1, -1, 3]
    assert x.index_put((far,), Tensor([7.0, 8.0, 9.0])).tolist() == [1, 9, 3]
    assert x.index_put((far,), Tensor([7.0, 8.0, 9.0]), accumulate=True).tolist() == [1, 18, 3]
    assert x.index_fill(0, [], 5).tolist() == [1, 2, 3]
    assert Tensor(2).index_fill(0, [0], 5).tolist() == 5


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.float16])
def test_index_put(dtype: Any) -> None:
    x = whole(3, 4, 2).astype(dtype)
    pairs: list[tuple[Any, Any]] = [
        (([0, 2, 0], [1, -1, 1]), whole(3, 2)),
        (([[0], [1]], [1, 1]), whole(2)),
        ((None, [3, 3, 0]), 2),
        ((np.array([True, False, True]),), whole(4, 2)),
        ((x > 0,), 3),
        ((None, None, [1]), whole(3, 4, 1)),
    ]
    for indices, value in pairs:
        items: Any = tuple(slice(None) if i is None else i for i in indices)
        wanted = x.copy()
        np.add.at(wanted, items, np.asarray(value, dtype))
        given = Tensor(value) if isinstance(value, np.ndarray) else value
        same(Tensor(x).index_put(indices, given), assigned(x, items, value))
        same(Tensor(x).index_put(indices, given, accumulate=True), wanted)


def test_what_half_floats_add_up_to_is_rounded_once() -> None:
    small = Tensor(np.full(4096, 2.0**-11, np.float16))
    at = Tensor(np.zeros(4096, np.int64))
    assert Tensor(np.array([1.0], np.float16)).index_put((at,), small, accumulate=True).tolist() == [3]


def test_put() -> None:
    x, at, y = whole(3, 4), np.array([[0, -1], [5, 0]]), whole(2, 2)
    wanted = x.copy().ravel()
    wanted[at] = y
    same(Tensor(x).put(at, Tensor(y)), wanted.reshape(3, 4))
    wanted = x.copy().ravel()
    np.add.at(wanted, at, y)
    same(Tensor(x).put(Tensor(at), Tensor(y), accumulate=True), wanted.reshape(3, 4))


@pytest.mark.parametrize("shape", [(3, 4), (4,), (3, 1), ()])
def test_masked_scatter(shape: tuple[int, ...]) -> None:
    x, mask, source = whole(3, 4), RNG.random(shape) < 0.6, whole(13)
    wanted = x.copy()
    every = np.broadcast_to(mask, x.shape)
    wanted[every] = source[: every.sum()]
    same(Tensor(x).masked_scatter(Tensor(mask), Tensor(source)), wanted)


def test_masked_scatter_reads_no_mask() -> None:
    x = Tensor([1.0, 2.0, 3.0])
    assert x.masked_scatter(Tensor([True, True, True]), Tensor([5.0])).tolist() == [5, 0, 0]
    replayed = jit(lambda x, y: x.masked_scatter(x > 1, y))
    assert replayed(x, Tensor([8.0, 9.0])).tolist() == [1, 8, 9]
    assert Tensor(np.zeros((0, 2))).masked_scatter(Tensor([True, False]), Tensor(np.zeros(0))).shape == (0, 2)


def test_parts() -> None:
    x = whole(3, 4, 2)
    same(Tensor(x).select_scatter(Tensor(x[:, 0] * 2), 1, -2), assigned(x, np.s_[:, -2], x[:, 0] * 2))
    for start, end, step in ((None, None, 1), (1, -1, 1), (0, 9, 2), (-3, None, 3)):
        part = np.s_[:, start:end:step]
        same(Tensor(x).slice_scatter(Tensor(-x[part]), 1, start, end, step), assigned(x, part, -x[part]))
    assert Tensor([1, 2]).slice_scatter(Tensor(np.zeros(0, np.int64)), 0, 1, 1).tolist() == [1, 2]


@pytest.mark.parametrize("offset", [-2, 0, 1, 7])
def test_diagonals(offset: int) -> None:
    x = whole(3, 4, 2)
    y = whole(*x.diagonal(offset, -3, 1).shape)
    wanted = x.copy()
    i, j = np.indices((3, 4))
    wanted[(j - i) == offset] = y.T
    same(Tensor(x).diagonal_scatter(Tensor(y), offset, -3, 1), wanted)
    for axis1, axis2 in ((-2, -1), (0, 2), (3, 1)):
        v = whole(2, 3, 4)
        found = Tensor(v).diag_embed(offset, axis1, axis2).numpy()
        size = 4 + abs(offset)
        assert (found.shape[axis1], found.shape[axis2], found.ndim) == (size, size, 4)
        np.testing.assert_array_equal(found.diagonal(offset, axis1, axis2), v)
        assert abs(found).sum() == abs(v).sum()
    assert Tensor(np.zeros((2, 0))).diag_embed(offset).shape == (2, abs(offset), abs(offset))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda x: x.index_fill(0, [3], 1), "index_fill: 3 along an axis of size 3"),
        (lambda x: x.index_fill(0, [[1]], 1), r"index_fill: positions of shape \(1, 1\)"),
        (lambda x: x.index_fill(0, [1], Tensor([1.0, 2.0])), r"index_fill: a value of shape \(2,\)"),
        (lambda x: x.index_copy(1, [0], x), r"index_copy: \(3, 2\) at positions of shape \(1,\) of axis 1 of \(3, 2\)"),
        (lambda x: x.index_copy(0, [0], x[:1].cast(dtypes.f64)), "index_copy: f64 into a tensor of f32"),
        (lambda x: x.index_reduce(0, [0], x[:1], "least"), "index_reduce: reduce='least'"),
        (lambda x: x.index_put(1, 2.0), "index_put: indices=1"),
        (lambda x: x.index_put(([0],), Tensor([1.0] * 3)), r"a value of shape \(3,\) is written to \(1, 2\)"),
        (lambda x: (x > 0).index_put(([0],), True, accumulate=True), "index_put: operands of dtype bool"),
        (lambda x: x.put([0, 1], Tensor([1.0])), r"put: \(1,\) at positions of shape \(2,\)"),
        (lambda x: x.masked_scatter(x, x), "masked_scatter: a mask of dtype f32"),
        (lambda x: x.masked_scatter(Tensor([[[True]]]), x), r"masked_scatter: a mask of shape \(1, 1, 1\)"),
        (lambda x: x.select_scatter(x, 0, 0), r"select_scatter: \(3, 2\) for a part of shape \(2,\)"),
        (lambda x: x.slice_scatter(x, 0, 0, 3, 0), "slice_scatter: step=0"),
        (lambda x: x.diagonal_scatter(x), r"diagonal_scatter: \(3, 2\) for a part of shape \(2,\)"),
        (lambda x: x.diag_embed(0, 1, 1), "diag_embed: axis 1 twice"),
        (lambda x: x.sum().diag_embed(), r"diag_embed: a tensor of shape \(\)"),
    ],
)  # fmt: skip
def test_what_does_not_fit(wrong: Callable[[Tensor], Any], message: str) -> None:
    with pytest.raises(TensorError, match=message):
        wrong(Tensor.zeros(3, 2))
