"""Reading and writing parts of tensors against NumPy."""

from collections.abc import Callable
from types import EllipsisType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from uop_ir import DType, dtypes
from uop_tensor import JitError, Tensor, TensorError, gradient, jit, no_grad

Array = npt.NDArray[Any]
Item = int | slice | EllipsisType | Array | bool | None
Case = tuple[tuple[int, ...], tuple[Item, ...]]


def numbered(shape: tuple[int, ...], dtype: npt.DTypeLike = np.int32) -> Array:
    return np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)


def same(found: Tensor, wanted: Array) -> None:
    """The same shape, dtype and elements."""
    np.testing.assert_array_equal(found.numpy(), wanted, strict=True)


def one_index(size: int) -> st.SearchStrategy[int | slice]:
    bound = st.none() | st.integers(-size - 2, size + 2)
    step = st.none() | st.sampled_from([1, 2, 3, -1, -2, -3, 7])
    parts = st.builds(slice, bound, bound, step)
    return parts | st.integers(-size, size - 1) if size else parts


@st.composite
def indexed(draw: st.DrawFn, advanced: bool = True) -> Case:
    """A shape, and items: for each axis a number, a slice or positions;
    masks, None, Ellipsis, True and False.
    """
    shape = tuple(draw(st.lists(st.integers(0, 4), max_size=4)))
    together = tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=2)))
    items: list[Item] = []
    axis, end = 0, draw(st.integers(0, len(shape)))
    while axis < end:
        kind = draw(st.sampled_from(["basic", "basic", "positions", "mask"] if advanced else ["basic"]))
        if kind == "mask":
            taken = draw(st.integers(1, end - axis))
            size = int(np.prod(shape[axis : axis + taken]))
            bits = draw(st.lists(st.booleans(), min_size=size, max_size=size))
            items.append(np.array(bits, bool).reshape(shape[axis : axis + taken]))
            axis += taken
            continue
        size = shape[axis]
        if kind == "positions" and size:
            at = tuple(draw(st.sampled_from([n, 1])) for n in together)
            n = int(np.prod(at))
            items.append(
                np.array(draw(st.lists(st.integers(-size, size - 1), min_size=n, max_size=n))).reshape(at)
            )
        else:
            items.append(draw(one_index(size)))
        axis += 1
    more: list[Item] = [Ellipsis, None, True, False] if advanced else [Ellipsis, None]
    for item in more:
        if draw(st.integers(0, 3)) == 0:
            items.insert(draw(st.integers(0, len(items))), item)
    return shape, tuple(items)


def in_tensors(items: tuple[Item, ...], which: list[bool]) -> tuple[Any, ...]:
    """The items, some of the arrays and numbers as tensors."""
    arrays = (np.ndarray, int)
    return tuple(Tensor(i) if isinstance(i, arrays) and w else i for i, w in zip(items, which, strict=True))


def out_of_range(shape: tuple[int, ...], items: tuple[Item, ...]) -> bool:
    """Whether NumPy refuses the items."""
    try:
        numbered(shape)[items]
    except IndexError:
        return True
    return False


@pytest.mark.net
@settings(max_examples=150, deadline=None)
@given(indexed(advanced=False))
def test_numbers_and_slices(case: Case) -> None:
    shape, items = case
    x = numbered(shape)
    if out_of_range(shape, items):  # what follows Ellipsis was drawn for an axis in front
        with pytest.raises(TensorError):
            Tensor(x)[items]
        return
    same(Tensor(x)[items], np.asarray(x[items]))


@pytest.mark.net
@settings(max_examples=150, deadline=None)
@given(indexed(), st.data())
def test_every_index(case: Case, data: st.DataObject) -> None:
    shape, items = case
    if out_of_range(shape, items):
        with pytest.raises(TensorError):
            Tensor(numbered(shape))[items]
        return
    x = numbered(shape)
    wanted = np.asarray(x[items])
    same(Tensor(x)[items], wanted)
    which = data.draw(st.lists(st.booleans(), min_size=len(items), max_size=len(items)))
    same(Tensor(x)[in_tensors(items, which)], wanted)


@pytest.mark.net
@settings(max_examples=100, deadline=None)
@given(indexed(), st.data())
def test_every_index_of_an_assignment(case: Case, data: st.DataObject) -> None:
    """Also with positions that are named twice, values that broadcast and are of another dtype."""
    shape, items = case
    if out_of_range(shape, items):
        return
    x = numbered(shape)
    sizes = [data.draw(st.sampled_from([s, s, 1])) for s in np.shape(x[items])]
    value = 100 + numbered(
        tuple(sizes[data.draw(st.integers(0, len(sizes))) :]),
        data.draw(st.sampled_from([np.int32, np.float32])),
    )
    wanted = x.copy()
    wanted[items] = value
    t = Tensor(x)
    view, double = t[...], t * 2
    which = data.draw(st.lists(st.booleans(), min_size=len(items), max_size=len(items)))
    t[in_tensors(items, which)] = Tensor(value) if data.draw(st.booleans()) else value
    same(t, wanted)
    same(view, x)
    same(double, x * 2)


def specimens(dtype: DType) -> Array:
    """Elements whose bits could get lost."""
    if dtype is dtypes.bool:
        return np.array([False, True, True])
    if dtype.is_float:
        return np.array([-0.0, np.nan, -np.inf, np.inf, 0.0, 1.5, -2.0]).astype(dtype.numpy)
    return np.array([dtype.min, dtype.max, 0, 1], dtype.numpy)


def same_bits(found: Tensor, wanted: Array) -> None:
    array = found.numpy()
    assert array.dtype == wanted.dtype
    if array.dtype.kind in "biu":
        np.testing.assert_array_equal(array, wanted)
        return
    one, two = array.astype(np.float64), wanted.astype(np.float64)
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(np.signbit(one) & ~np.isnan(one), np.signbit(two) & ~np.isnan(two))


@pytest.mark.parametrize("dtype", [d for d in dtypes.all if d is not dtypes.index], ids=str)
def test_elements_of_every_dtype_keep_their_bits(dtype: DType) -> None:
    x = specimens(dtype)
    order = np.arange(len(x))[::-1]
    for at in (order, Tensor(order), order.tolist()):
        same_bits(Tensor(x)[at], x[order])
    t = Tensor(x)
    t[Tensor(order)] = x
    same_bits(t, x[order])
    t[1:] = x[:-1]
    same_bits(t, np.concatenate([x[order][:1], x[:-1]]))


@pytest.mark.parametrize("dtype", dtypes.ints, ids=str)
def test_positions_of_every_dtype(dtype: DType) -> None:
    x = numbered((300, 2))
    at = np.array([0, 5, 100]).astype(dtype.numpy)
    same(Tensor(x)[Tensor(at)], x[at])
    same(Tensor(x)[Tensor(at), [0, 1, -1]], x[at, [0, 1, -1]])


def test_positions_in_a_tensor_that_are_out_of_range() -> None:
    """They read 0 and write nothing, though beside another one they name an element."""
    x = np.ones((3, 4), np.float32)
    far = np.array([-4, -3, 2, 3, 1 << 40])
    assert Tensor(x)[Tensor(far)].sum(1).tolist() == [0, 4, 4, 0, 0]
    assert Tensor(x)[Tensor(far), 1].tolist() == [0, 1, 1, 0, 0]
    assert Tensor(x)[Tensor(far), Tensor([0])].tolist() == [0, 1, 1, 0, 0]
    t = Tensor(x)
    t[Tensor(far), Tensor([1])] = 5.0
    assert t.tolist() == [[1, 5, 1, 1], [1, 1, 1, 1], [1, 5, 1, 1]]
    huge = Tensor(np.array([2**64 - 1, 1], np.uint64))
    assert Tensor(x)[huge].sum(1).tolist() == [0, 4]


def test_a_value_is_cast_as_numpy_does() -> None:
    t = Tensor([1, 2, 3])
    t[0] = 7.9
    t[1:] = np.array([-1.5, 2.5])
    assert t.tolist() == [7, -1, 2]
    f = Tensor(np.zeros(2))
    f[0], f[1] = 0.1, True
    assert f.tolist() == [0.1, 1.0]
    b = Tensor([False, False])
    b[:] = [2, 0]
    assert b.tolist() == [True, False]
    z = Tensor(4.0)
    z[...] = 5
    assert z.item() == 5


def test_a_mask_takes_one_value_without_being_read() -> None:
    @jit
    def limited(x: Tensor, limit: Tensor) -> Tensor:
        x[x > limit] = limit
        return x.sum()

    x = Tensor([1.0, 5.0, 3.0])
    assert limited(x, Tensor(2.0)).item() == 5
    assert x.tolist() == [1, 2, 2]
    rows = Tensor(np.ones((2, 3), np.int32))
    rows[:, Tensor([True, False, True])] = Tensor([[5], [6]])
    assert rows.tolist() == [[5, 1, 5], [6, 1, 6]]
    rows[..., [True, True, False]] += 1
    assert rows.tolist() == [[6, 2, 5], [7, 2, 6]]


def test_a_mask_that_is_read_within_jit_is_an_error() -> None:
    with pytest.raises(JitError, match="a bool index asks for a value while <lambda> is traced"):
        jit(lambda x: x[x > 0])(Tensor([1.0]))

    def chosen(x: Tensor) -> None:
        x[x > 0] = Tensor([1.0, 2.0])

    with pytest.raises(JitError, match="a bool index asks for a value while chosen is traced"):
        jit(chosen)(Tensor([1.0]))
    same(jit(lambda x: x[np.array([True, False])])(Tensor([1, 2])), np.array([1]))


def test_an_assignment_is_state_within_jit() -> None:
    cache = Tensor(np.zeros((4, 2), np.float32))

    @jit
    def append(at: Tensor, row: Tensor) -> Tensor:
        cache[at] = row
        return cache.sum(0)

    wanted = np.zeros((4, 2), np.float32)
    for step in (0, 3, 1, 3):
        row = np.array([step, step + 0.5], np.float32)
        wanted[step] = row
        assert append(Tensor(step), Tensor(row)).tolist() == wanted.sum(0).tolist()
        assert cache.tolist() == wanted.tolist()
    assert append.traces == 1


def test_overlapping_parts() -> None:
    x = numbered((5,))
    t = Tensor(x)
    t.realize()
    t[1:] = t[:-1]
    t[::2] = t[::-2]
    assert t.tolist() == [3, 0, 1, 2, 0]


def test_gradients_flow_to_what_was_written_and_to_what_was_left() -> None:
    a, b = Tensor(np.array([1.0, 2.0, 3.0, 4.0])), Tensor(np.array([5.0, 6.0, 7.0]))
    y = a * 2
    y[Tensor([0, 2, 0])] = b * 3  # the first element of b is overwritten by the last
    y[3] = y[0]
    loss = (y * Tensor(np.array([1.0, 10.0, 100.0, 1000.0]))).sum()
    ga, gb = loss.gradient(a, b)
    assert ga.tolist() == [0, 20, 0, 0]
    assert gb.tolist() == [0, 300, 3003]


def test_gradients_of_reading() -> None:
    x = Tensor(np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
    for items in [
        (Tensor([0, -1, 0]),),
        (slice(None, None, -2), [2, 2]),
        ([[0], [1]], [0, 2]),
        (np.array([[True, False, True], [False, False, True]]),),
        (None, 1, ..., Tensor([1])),
    ]:
        out = x[items]
        seed = 1.0 + numbered(out.shape, np.float64)
        wanted = np.zeros((2, 3))
        at: Any = tuple(i.numpy() if isinstance(i, Tensor) else i for i in items)
        np.add.at(wanted, at, seed)
        (found,) = out.gradient(x, seed=Tensor(seed))
        assert found.tolist() == wanted.tolist()


def test_second_derivatives_of_picked_elements() -> None:
    x = Tensor(np.array([1.0, 2.0, 3.0]))
    y = x[Tensor([2, 0, 2])]
    (first,) = (y * y * y).sum().gradient(x)
    (second,) = first.sum().gradient(x)
    assert second.tolist() == [6, 0, 36]


def test_a_parameter_is_written_within_no_grad_only() -> None:
    p = Tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(TensorError, match="index: a tensor with requires_grad is written in part"):
        p[0] = 3.0
    with no_grad():
        p[0] = 3.0
    p.realize()
    (p * p).sum().backward()
    assert p.grad is not None
    assert p.grad.tolist() == [6, 4]


def test_what_is_written_within_no_grad_is_a_constant() -> None:
    x = Tensor([1.0, 2.0])
    y = x * 3
    with no_grad():
        y[0] = 1.0
    assert gradient([y.sum().uop], [Tensor(1.0).uop], [x.uop]) == [None]


ERRORS: list[tuple[Callable[[Any], object], str]] = [
    (lambda t: t[2], "index: 2 along an axis of size 2"),
    (lambda t: t[0, 0, 0], "index: 3 items"),
    (lambda t: t[..., ...], "index: more than one"),
    (lambda t: t[1.0], "index: float is no index"),
    (lambda t: t["a"], "index: str is no index"),
    (lambda t: t[::0], "index"),
    (lambda t: t[1.0:], "index: slice"),
    (lambda t: t[t], "positions of dtype f32"),
    (lambda t: t[[0.5]], "positions of dtype float64"),
    (lambda t: t[[[0], [0, 1]]], "index: .*rows of equal length"),
    (lambda t: t[[0, 2]], "index: 2 along an axis of size 2"),
    (lambda t: t[:, [-4]], "index: -4 along an axis of size 3"),
    (lambda t: t[[0, 1], [0, 1, 2]], r"index: shapes \(2,\) and \(3,\) do not broadcast"),
    (lambda t: t[[True]], r"index: a mask of shape \(1,\) for axes of sizes \(2,\)"),
    (lambda t: t[0, t > 0], "index: 3 items"),
    (lambda t: t.__setitem__(2, 1.0), "index: 2 along an axis of size 2"),
    (lambda t: t.__setitem__(0, [1.0, 2.0]), r"index: a value of shape \(2,\) is written to \(3,\)"),
    (lambda t: t.__setitem__(t > 0, [1.0, 2.0]), r"index: a value of shape \(2,\) is written to \(6,\)"),
    (lambda t: t.__setitem__(0, "a"), "no dtype"),
    (lambda t: t.__setitem__(0, [[1.0], [1.0, 2.0]]), "rows of equal length"),
    (lambda t: t.cast(dtypes.i8).__setitem__(0, 300), "index"),
]


@pytest.mark.parametrize(("wrong", "message"), ERRORS)
def test_errors_name_the_method(wrong: Callable[[Tensor], object], message: str) -> None:
    with pytest.raises(TensorError, match=message):
        wrong(Tensor(np.ones((2, 3), np.float32)))
