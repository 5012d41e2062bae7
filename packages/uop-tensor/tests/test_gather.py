"""Gather, scatter, take, masks, one-hot and diagonals against NumPy and against loops."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from uop_ir import DType, dtypes
from uop_tensor import JitError, Tensor, TensorError, jit

Array = npt.NDArray[Any]
Slopes = Callable[..., None]

RNG = np.random.default_rng(5)


def same(found: Tensor, wanted: Array) -> None:
    """The same shape, dtype and elements."""
    np.testing.assert_array_equal(found.numpy(), wanted, strict=True)


def apart(*shape: int) -> Array:
    """Distinct values, none near another or near 0."""
    n = int(np.prod(shape))
    return RNG.permutation(np.arange(n) - n // 2 + 0.37).reshape(shape) * 0.7


# take


@pytest.mark.parametrize("dtype", [d for d in dtypes.all if d is not dtypes.index], ids=str)
def test_take_of_every_dtype(dtype: DType) -> None:
    x = np.array([[0, 1], [2, 3], [1, 0]]).astype(dtype.numpy)
    same(Tensor(x).take([2, 0, -1], 0), x[[2, 0, -1]])
    same(Tensor(x).take(Tensor([[1]]), axis=-1), np.take(x, [[1]], axis=-1))
    same(Tensor(x).take([[5, -6]]), np.take(x, [[5, -6]]))
    assert Tensor(x).take(1, 0).shape == (2,)
    assert Tensor(x).take(1).shape == ()


def test_index_select() -> None:
    x = RNG.random((3, 4, 2))
    same(Tensor(x).index_select(1, Tensor([3, 0, 3])), x[:, [3, 0, 3]])
    same(Tensor(x).index_select(-1, [1]), x[..., [1]])
    same(Tensor(x).index_select(0, 2), x[[2]])
    same(Tensor(x).index_select(0, []), x[:0])


def test_take_along_axis_broadcasts() -> None:
    x, at = RNG.random((3, 4)), np.array([[3, 0, -1, 2, 2]])
    same(Tensor(x).take_along_axis(at), np.take_along_axis(x, at, -1))
    same(
        Tensor(x[:1]).take_along_axis(Tensor(at.repeat(2, 0)), 1),
        np.take_along_axis(x[:1].repeat(2, 0), at.repeat(2, 0), 1),
    )
    same(Tensor(x).take_along_axis([11, -12], None), x.reshape(-1)[[11, -12]])


def test_names_of_torch() -> None:
    x: Any = Tensor([[1, 2], [3, 4]])  # the other names are not in the signatures
    assert x.gather(dim=1, index=[[1], [0]]).tolist() == [[2], [3]]
    assert x.take_along_dim([[1], [0]], dim=1).tolist() == [[2], [3]]
    assert x.diagonal(offset=1, dim1=0, dim2=1).tolist() == [2]
    assert x.topk(1, dim=0, sorted=True)[0].tolist() == [[3, 4]]
    assert x.scatter_add(dim=0, index=[[1, 0]], src=x).tolist() == [[1, 4], [4, 4]]


def test_gather_of_a_part() -> None:
    x = RNG.random((3, 4, 2))
    at = RNG.integers(-4, 4, (2, 5, 1))
    same(Tensor(x).gather(1, Tensor(at)), np.take_along_axis(x[:2, :, :1], at, 1))
    same(Tensor(x).gather(-2, at), np.take_along_axis(x[:2, :, :1], at, 1))
    same(Tensor(x).gather(0, np.zeros((0, 4, 2), np.int64)), x[:0])


def test_positions_in_tensors_that_are_out_of_range() -> None:
    x = Tensor([5.0, 6.0])
    far = Tensor([2, -3, 1])
    assert x.take(far).tolist() == [0, 0, 6]
    assert x.gather(0, far).tolist() == [0, 0, 6]
    assert x.scatter(0, far, 9.0).tolist() == [5, 9]
    assert x.scatter_add(0, far, Tensor([1.0, 2.0, 3.0])).tolist() == [5, 9]


# scatter


def scattered(x: Array, axis: int, at: Array, src: Array, reduce: str | None, include: bool) -> Array:
    """An element at a time."""
    sent: dict[tuple[int, ...], list[Any]] = {}
    for place in np.ndindex(*at.shape):
        target = list(place)
        target[axis] = at[place] % x.shape[axis]
        sent.setdefault(tuple(target), []).append(src[place])
    out = x.copy()
    for key, values in sent.items():
        if reduce is None:
            out[key] = values[-1]
            continue
        all_ = np.array([x[key], *values] if include else values)
        whole: dict[str, Callable[[], Any]] = {
            "sum": all_.sum,
            "prod": all_.prod,
            "amax": all_.max,
            "amin": all_.min,
        }
        floored = all_.sum() // len(all_) if x.dtype.kind in "iu" else all_.mean()
        out[key] = floored if reduce == "mean" else whole[reduce]()
    return out


@pytest.mark.parametrize("dtype", [np.float64, np.int32, np.uint8])
@pytest.mark.parametrize("reduce", [None, "sum", "prod", "amax", "amin", "mean"])
def test_scatter(reduce: str | None, dtype: Any) -> None:
    for shape, axis, sizes in (
        ((4,), 0, (6,)),
        ((3, 4), 0, (5, 2)),
        ((2, 3, 2), 1, (2, 3, 1)),
        ((2, 5), 1, (2, 0)),
    ):
        x = RNG.integers(0 if dtype is np.uint8 else -9, 9, shape).astype(dtype)
        src = RNG.integers(0 if dtype is np.uint8 else -9, 9, tuple(s + 1 for s in sizes)).astype(dtype)
        at = RNG.integers(-shape[axis], shape[axis], sizes)
        part = src[tuple(slice(s) for s in sizes)]
        for include in (True, False):
            wanted = scattered(x, axis, at, part, reduce, include)
            for given in (at, Tensor(at)):
                if reduce is None:
                    found = Tensor(x).scatter(axis, given, Tensor(src))
                else:
                    found = Tensor(x).scatter_reduce(axis, given, Tensor(src), reduce, include)
                assert found.numpy().dtype == wanted.dtype
                np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-14)


def test_scatter_of_a_number_and_by_other_names() -> None:
    x, at = Tensor([1, 2, 3, 4]), Tensor([0, 2, 2])
    assert x.scatter(0, at, 7).tolist() == [7, 2, 7, 4]
    assert x.scatter(0, at, 7, reduce="add").tolist() == [8, 2, 17, 4]
    assert x.scatter(0, at, 2, reduce="multiply").tolist() == [2, 2, 12, 4]
    assert x.scatter_add(0, at, Tensor([10, 20, 30])).tolist() == [11, 2, 53, 4]
    assert x.cast(dtypes.bool).scatter(0, at, False).tolist() == [False, True, False, True]


def test_index_add() -> None:
    x = RNG.integers(0, 9, (3, 4)).astype(np.float64)
    src = RNG.integers(0, 9, (3, 5)).astype(np.float64)
    at = np.array([0, 1, 1, -1, 0])
    wanted = x.copy()
    for column, place in enumerate(at):
        wanted[:, place] += 2 * src[:, column]
    same(Tensor(x).index_add(1, Tensor(at), Tensor(src), alpha=2), wanted)


def test_nan_infinity_and_zero_do_not_leak() -> None:
    """What nothing is sent to stays, bit for bit; what NaN is sent to is NaN, for extremes too."""
    x = np.array([-0.0, np.inf, 1.0, np.nan], np.float32)
    at, src = Tensor([2]), Tensor([np.nan])
    for reduce in ("sum", "prod", "mean", "amax", "amin"):
        for include in (True, False):
            found = Tensor(x).scatter_reduce(0, at, src, reduce, include).numpy()
            np.testing.assert_array_equal(found, [-0.0, np.inf, np.nan, np.nan])
            assert np.signbit(found[0])
    assert Tensor(x).scatter_reduce(0, Tensor([3]), Tensor([1.0]), "amax", False).tolist()[3] == 1


def test_half_precision_is_added_in_f32() -> None:
    small = np.full(4096, 2.0**-11, np.float16)
    at = Tensor(np.zeros(4096, np.int64))
    assert Tensor(np.array([1.0], np.float16)).scatter_add(0, at, Tensor(small)).tolist() == [3]
    mean = Tensor(np.array([1.0], np.float16)).scatter_reduce(0, at, Tensor(small), "mean", False)
    assert mean.tolist() == [2.0**-11]


AT = np.array([[0, 2, 2], [3, 0, -1]])


@pytest.mark.parametrize("include", [True, False])
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
def test_gradients_of_scatter_reduce(slopes_agree: Slopes, reduce: str, include: bool) -> None:
    slopes_agree(
        lambda x, y: x.scatter_reduce(0, Tensor(AT), y, reduce, include), apart(4, 3), apart(3, 4)[::-1] * 1.1
    )


def test_gradients(slopes_agree: Slopes) -> None:
    x, y = apart(4, 3), apart(2, 3)
    slopes_agree(lambda x: x.gather(0, Tensor(AT)), x)
    slopes_agree(lambda x: x.take([[1, 2], [1, 11]]), x)
    slopes_agree(lambda x, y: x.scatter(0, Tensor(AT), y), x, y)
    slopes_agree(lambda x, y: x.index_add(1, Tensor([2, 0, 2]), y, alpha=3), x, apart(4, 3))
    slopes_agree(lambda x, y: x.masked_fill(Tensor(x.numpy() > 1), y), x, np.array(0.5))
    slopes_agree(lambda x: x.masked_select(np.eye(4, 3, dtype=bool)), x)
    slopes_agree(lambda x: x.diagonal(-1), x)
    slopes_agree(lambda x: x.diag(1), apart(3))


def test_ties_of_extremes_share_the_gradient_evenly() -> None:
    x, y = Tensor(np.array([2.0, 0.0])), Tensor(np.array([2.0, 1.0, 2.0, 5.0]))
    out = x.scatter_reduce(0, Tensor([0, 0, 0, 1]), y, "amax").sum()
    gx, gy = out.gradient(x, y)
    assert gx.tolist() == pytest.approx([1 / 3, 0])
    assert gy.tolist() == pytest.approx([1 / 3, 0, 1 / 3, 1])


def test_second_derivatives_of_products() -> None:
    y = Tensor(np.array([2.0, 3.0, 5.0]))
    out = Tensor(np.array([7.0])).scatter_reduce(0, Tensor([0, 0, 0]), y, "prod").sum()
    (first,) = out.gradient(y)
    (second,) = first.sum().gradient(y)
    assert first.tolist() == [105, 70, 42]
    assert second.tolist() == [35 + 21, 35 + 14, 21 + 14]


# masks


def test_masked_fill() -> None:
    x = RNG.integers(0, 9, (2, 3))
    same(Tensor(x).masked_fill(Tensor([True, False, True]), 7), np.where([True, False, True], 7, x))
    same(Tensor(x).masked_fill(x > 4, 1.9), np.where(x > 4, 1, x))
    same(Tensor(x).masked_fill(Tensor(x > 4), Tensor([[1.0], [2.0]])), np.where(x > 4, [[1], [2]], x))
    assert Tensor(5.0).masked_fill(Tensor(True), 2).item() == 2


def test_masked_select() -> None:
    x = RNG.integers(0, 9, (2, 3))
    same(Tensor(x).masked_select(Tensor(x) > 4), x[x > 4])
    same(Tensor(x).masked_select(np.array([True, False, True])), x[:, [0, 2]].reshape(-1))
    same(Tensor(x[0]).masked_select(Tensor([[True], [False]])), x[0])
    same(Tensor(3).masked_select(Tensor(False)), np.array([], np.int64))


def test_nonzero() -> None:
    x = np.array([[0.0, -0.0, np.nan], [2.0, 0.0, 1.0]])
    found = Tensor(x).nonzero()
    assert isinstance(found, Tensor)
    same(found, np.argwhere(x))
    same(Tensor(x).argwhere(), np.argwhere(x))
    for one, two in zip(Tensor(x).nonzero(as_tuple=True), x.nonzero(), strict=True):
        same(one, two)
    assert Tensor(5).argwhere().shape == (1, 0)
    assert [t.tolist() for t in Tensor(5).nonzero(as_tuple=True)] == [[0]]
    assert Tensor(np.zeros((0, 2))).argwhere().shape == (0, 2)


def test_one_hot() -> None:
    at = np.array([[0, 2], [1, 5]])
    same(Tensor(at).one_hot(3), (at[..., None] == np.arange(3)).astype(np.int64))
    same(Tensor(at).one_hot(dtype=dtypes.f32), np.eye(6, dtype=np.float32)[at])
    assert Tensor(at[:0]).one_hot().shape == (0, 2, 0)


def test_what_reads_elements_is_an_error_within_jit() -> None:
    reading: list[Callable[[Tensor], Any]] = [
        lambda x: x.masked_select(x > 0),
        lambda x: x.argwhere(),
        lambda x: x.int().one_hot(),
    ]
    for function in reading:
        with pytest.raises(JitError, match="asks for a value while <lambda> is traced"):
            jit(function)(Tensor([1.0]))
    assert jit(lambda x: x.int().one_hot(2))(Tensor([1.0])).tolist() == [[0, 1]]


# diagonals


@pytest.mark.parametrize("shape", [(3, 3), (2, 4), (4, 2), (1, 3), (0, 2)])
def test_diagonals(shape: tuple[int, ...]) -> None:
    x = RNG.random((*shape, 2))
    for offset in range(-5, 6):
        same(Tensor(x).diagonal(offset), np.diagonal(x, offset))
        same(Tensor(x).diagonal(offset, 2, 0), np.diagonal(x, offset, 2, 0))
        same(Tensor(x[..., 0]).diag(offset), np.diag(x[..., 0], offset))
    same(Tensor(x[:, 0, 0]).diag(-2), np.diag(x[:, 0, 0], -2))


ERRORS: list[tuple[Callable[[Tensor], object], str]] = [
    (lambda t: t.take([0.5]), "take: positions of dtype float64"),
    (lambda t: t.take(t), "take: positions of dtype f32"),
    (lambda t: t.take([True]), "take: positions of dtype bool"),
    (lambda t: t.take([2], 0), "take: 2 along an axis of size 2"),
    (lambda t: t.take([-7]), "take: -7 along an axis of size 6"),
    (lambda t: t.take([0], 2), "take: axis 2"),
    (lambda t: t.gather(0, [0]), r"gather: an index of shape \(1,\) for a tensor of shape \(2, 3\)"),
    (lambda t: t.gather(0, [[0, 1, 0, 1]]), r"gather: an index of shape \(1, 4\)"),
    (lambda t: t.gather(0, [[3]]), "gather: 3 along an axis of size 2"),
    (lambda t: t.index_select(0, [[0]]), "index_select: positions of shape"),
    (lambda t: t.take_along_axis([0]), "take_along_axis: indices of shape"),
    (lambda t: t.take_along_axis([[0], [0], [0]]), "take_along_axis: shapes"),
    (lambda t: t.scatter(0, [[0]], t, "mean"), "scatter: reduce='mean'"),
    (lambda t: t.scatter_reduce(0, [[0]], t, "max"), "scatter_reduce: reduce='max'"),
    (
        lambda t: t.scatter(0, [[0, 1]], t[:, :1]),
        r"scatter: an index of shape \(1, 2\) for a source of shape \(2, 1\)",
    ),
    (lambda t: t.int().scatter_add(0, [[0]], t), "scatter_add: f32 into a tensor of i32"),
    (lambda t: t.bool().scatter_add(0, [[0]], t.bool()), "scatter_add: operands of dtype bool"),
    (lambda t: t.bool().scatter_reduce(0, [[0]], t.bool(), "amax"), "scatter_reduce: operands of dtype bool"),
    (lambda t: t.index_add(0, [0], t), r"index_add: \(2, 3\) at positions"),
    (lambda t: t.bool().index_add(0, [0], t[:1].bool()), "index_add: operands of dtype bool"),
    (lambda t: t.masked_fill(t, 0), "masked_fill: a mask of dtype f32"),
    (lambda t: t.masked_fill(t[None].expand(2, 2, 3) > 0, 0), "masked_fill: a mask of shape"),
    (lambda t: t.masked_select(t), "masked_select: a mask of dtype f32"),
    (lambda t: t.masked_select(t[:, :2] > 0), "masked_select: shapes"),
    (lambda t: t.one_hot(3), "one_hot: positions of dtype f32"),
    (lambda t: t.int().one_hot(-2), "one_hot: -2 classes"),
    (lambda t: t.diagonal(0, 1, -1), "diagonal: axis 1 twice"),
    (lambda t: t[0].diagonal(), "diagonal: axis 1"),
    (lambda t: t[None].diag(), "diag: a tensor of shape"),
]


@pytest.mark.parametrize(("wrong", "message"), ERRORS)
def test_errors_name_the_method(wrong: Callable[[Any], object], message: str) -> None:
    with pytest.raises(TensorError, match=message):
        wrong(Tensor(np.ones((2, 3), np.float32)))


def test_repeat_interleave_by_counts() -> None:
    x = np.arange(6).reshape(2, 3)
    for counts in ([1, 0, 2], np.array([2, 1, 0]), Tensor([0, 3, 1]), Tensor([2])):
        host = counts.numpy() if isinstance(counts, Tensor) else counts
        same(Tensor(x).repeat_interleave(counts, 1), np.repeat(x, host, 1))
    same(Tensor(x).repeat_interleave(Tensor([1, 0, 2, 0, 0, 1])), np.repeat(x, [1, 0, 2, 0, 0, 1]))
    for wrong in ([1, 2], [1, -1, 0], [1.0, 2.0, 3.0]):
        with pytest.raises(TensorError, match="repeat_interleave"):
            Tensor(x).repeat_interleave(wrong, 1)
    with pytest.raises(JitError):
        jit(lambda t: t.repeat_interleave(t))(Tensor([1, 2]))


def test_scatter_of_a_value() -> None:
    x, at = np.zeros((2, 3)), np.array([[0, 2], [1, 1]])
    wanted = x.copy()
    np.put_along_axis(wanted, at, 5.0, 1)
    same(Tensor(x).scatter(1, at, value=5.0), wanted)
    with pytest.raises(TensorError, match="scatter: neither src nor value"):
        Tensor(x).scatter(1, at)
    with pytest.raises(TensorError, match="scatter: both src and value"):
        Tensor(x).scatter(1, at, 1.0, value=5.0)
