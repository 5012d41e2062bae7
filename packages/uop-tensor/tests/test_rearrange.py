"""Padding, repeating, rolling, turning and cutting against NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
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

SHAPES = st.lists(st.integers(0, 3), min_size=1, max_size=3).map(tuple)
#: Names of torch's modes of padding, and NumPy's.
MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def numbered(*shape: int) -> Array:
    return np.arange(np.prod(shape, dtype=int), dtype=np.int32).reshape(shape)


def same(found: Tensor, wanted: Array) -> None:
    """The same shape, dtype and elements."""
    np.testing.assert_array_equal(found.numpy(), wanted, strict=True)


def flat(pairs: list[tuple[int, int]]) -> list[int]:
    """Widths as torch writes them."""
    return [n for pair in reversed(pairs) for n in pair]


@pytest.mark.net
@settings(max_examples=60, deadline=None)
@given(SHAPES, st.data())
def test_both_ways_to_write_a_padding(shape: tuple[int, ...], data: st.DataObject) -> None:
    x = numbered(*shape)
    pairs = [(data.draw(st.integers(0, 2)), data.draw(st.integers(0, 2))) for _ in shape]
    wanted = np.pad(x, pairs, constant_values=7)
    same(Tensor(x).pad(pairs, value=7), wanted)
    same(Tensor(x).pad(flat(pairs), "constant", 7), wanted)
    same(
        Tensor(x).pad(flat(pairs[-1:]), value=7),
        np.pad(x, [(0, 0)] * (x.ndim - 1) + pairs[-1:], constant_values=7),
    )


@pytest.mark.parametrize("mode", MODES)
def test_what_an_axis_holds_is_padding(mode: str) -> None:
    x = numbered(2, 4, 3)
    for pairs in ([(0, 0), (3, 1), (0, 2)], [(1, 0), (2, 2), (2, 1)], [(0, 0), (0, 0), (0, 0)]):
        same(Tensor(x).pad(pairs, mode), np.pad(x, pairs, mode=MODES[mode]))  # type: ignore[call-overload]
    cut = np.pad(x, [(0, 0), (0, 0), (0, 2)], mode=MODES[mode])[:, 1:-2]  # type: ignore[call-overload]
    same(Tensor(x).pad((0, 2, -1, -2), mode), cut)


def test_padding_at_its_limits() -> None:
    same(Tensor(numbered(3)).pad((3, 3), "circular"), np.pad(numbered(3), 3, mode="wrap"))
    # what comes round again is what is left
    same(Tensor(numbered(4)).pad((-1, 3), "circular"), np.pad(numbered(4)[1:], (0, 3), mode="wrap"))
    with pytest.raises(TensorError, match="at most 3"):
        Tensor(numbered(4)).pad((-1, 4), "circular")
    same(Tensor(numbered(3)).pad((2, 2), "reflect"), np.pad(numbered(3), 2, mode="reflect"))
    same(Tensor(numbered(1)).pad((5, 0), "replicate"), np.zeros(6, np.int32))
    same(Tensor(numbered(2, 0)).pad([None, (0, 0)], "replicate"), numbered(2, 0))
    same(Tensor(5).pad([]), np.array(5))
    signs = Tensor([-0.0, 1.0]).pad((1, 1), "reflect").numpy()
    assert np.signbit(signs).tolist() == [False, True, False, True]


@pytest.mark.parametrize("mode", MODES)
def test_gradient_of_padding(mode: str) -> None:
    """Each element has what stands at its copies."""
    pairs = [(2, 1), (0, 2)]
    x = np.zeros((4, 3))
    seed = np.arange(7 * 5, dtype=float).reshape(7, 5)
    t = Tensor(x)
    (found,) = t.pad(pairs, mode).gradient(t, seed=Tensor(seed))
    source = np.pad(np.arange(12).reshape(4, 3), pairs, mode=MODES[mode])  # type: ignore[call-overload]
    np.testing.assert_array_equal(found.numpy(), np.bincount(source.ravel(), seed.ravel()).reshape(4, 3))


@settings(max_examples=40, deadline=None)
@given(SHAPES, st.data())
def test_roll_repeat_and_interleave(shape: tuple[int, ...], data: st.DataObject) -> None:
    x = numbered(*shape)
    axes = data.draw(st.lists(st.integers(-x.ndim, x.ndim - 1), max_size=3))
    shifts = [data.draw(st.integers(-5, 5)) for _ in axes]
    same(Tensor(x).roll(shifts, axes), np.roll(x, shifts, axes))
    shift = data.draw(st.integers(-5, 5))
    same(Tensor(x).roll(shift), np.roll(x, shift))
    axis, times = data.draw(st.integers(-x.ndim, x.ndim - 1)), data.draw(st.integers(0, 3))
    same(Tensor(x).repeat_interleave(times, axis), np.repeat(x, times, axis))
    same(Tensor(x).repeat_interleave(times), np.repeat(x, times))
    counts = tuple(data.draw(st.lists(st.integers(0, 2), max_size=4)))
    same(Tensor(x).tile(counts), np.tile(x, counts))
    if len(counts) >= x.ndim:
        same(Tensor(x).repeat(*counts), np.tile(x, counts))


@settings(max_examples=40, deadline=None)
@given(SHAPES, st.data())
def test_axes_move_and_parts(shape: tuple[int, ...], data: st.DataObject) -> None:
    x = numbered(*shape)
    axes = data.draw(st.permutations(range(x.ndim)))
    some = axes[: data.draw(st.integers(0, x.ndim))]
    places = data.draw(st.permutations(range(x.ndim)))[: len(some)]
    same(Tensor(x).movedim(some, places), np.moveaxis(x, some, places))
    same(Tensor(x).moveaxis(axes[0], -1), np.moveaxis(x, axes[0], -1))
    same(Tensor(x).swapaxes(axes[0], axes[-1]), np.swapaxes(x, axes[0], axes[-1]))
    axis, parts = axes[0], data.draw(st.integers(1, 4))
    for got, wanted in zip(Tensor(x).tensor_split(parts, axis), np.array_split(x, parts, axis), strict=True):
        same(got, wanted)
    cuts = data.draw(st.lists(st.integers(-4, 4), max_size=3))
    for got, wanted in zip(Tensor(x).tensor_split(cuts, axis), np.array_split(x, cuts, axis), strict=True):
        same(got, wanted)
    for got, i in zip(Tensor(x).unbind(axis), range(x.shape[axis]), strict=True):
        same(got, np.take(x, i, axis))
    same(Tensor(x).flipud(), np.flipud(x))
    if x.ndim > 1:
        for k in range(-1, 5):
            same(Tensor(x).rot90(k, axes[:2]), np.rot90(x, k, (axes[0], axes[1])))
        same(Tensor(x).fliplr(), np.fliplr(x))


def test_narrow_and_unflatten() -> None:
    x = numbered(4, 6)
    same(Tensor(x).narrow(1, 2, 3), x[:, 2:5])
    same(Tensor(x).narrow(-2, -3, 2), x[1:3])
    same(Tensor(x).narrow(0, 4, 0), x[4:])
    same(Tensor(x).unflatten(1, (2, -1)), x.reshape(4, 2, 3))
    same(Tensor(x).unflatten(-2, (1, 4)), x.reshape(1, 4, 6))


def test_shapes_of_others() -> None:
    x = Tensor(numbered(3, 1))
    assert x.expand_as(Tensor.zeros(2, 3, 4)).shape == (2, 3, 4)
    assert x.view_as(Tensor.zeros(1, 3)).shape == x.reshape_as(Tensor.zeros(1, 3)).shape == (1, 3)
    a, b = x.broadcast_tensors(Tensor(numbered(4)))
    same(a, np.broadcast_to(numbered(3, 1), (3, 4)))
    same(b, np.broadcast_to(numbered(4), (3, 4)))


@pytest.mark.parametrize("indexing", ["ij", "xy"])
def test_meshgrid(indexing: Any) -> None:
    given = numbered(2), numbered(3), numbered(4)
    for count in (1, 2, 3):
        found = Tensor.meshgrid(*map(Tensor, given[:count]), indexing=indexing)
        for got, wanted in zip(found, np.meshgrid(*given[:count], indexing=indexing), strict=True):
            same(got, wanted)
    assert [t.shape for t in Tensor(1).meshgrid(Tensor([1, 2]), indexing="ij")] == [(1, 2)] * 2


@pytest.mark.parametrize("dtype", [dtypes.bool, dtypes.i8, dtypes.f16, dtypes.bf16, dtypes.f64], ids=str)
def test_other_dtypes(dtype: Any) -> None:
    x = np.array([[1, 0, 3], [4, 5, 6]]).astype(dtype.numpy)
    same(Tensor(x).roll(1, 1), np.roll(x, 1, 1))
    same(Tensor(x).rot90(), np.rot90(x))
    same(Tensor(x).pad((1, 2), "reflect"), np.pad(x, ((0, 0), (1, 2)), mode="reflect"))


def test_in_compiled_code() -> None:
    with override(machine, dev=None):
        x = numbered(5, 7)
        same(
            Tensor(x).roll((2, -3), (0, 1)).pad((2, 1, 0, 3), "reflect").rot90(),
            np.rot90(np.pad(np.roll(x, (2, -3), (0, 1)), ((0, 3), (2, 1)), mode="reflect")),
        )


ERRORS: list[tuple[Callable[[Any], object], str]] = [
    (lambda t: t.pad([(1, 1)]), "pad"),
    (lambda t: t.pad((1, 1, 1)), r"pad: \(1, 1, 1\) for a tensor of shape \(2, 3\)"),
    (lambda t: t.pad((1, 1, 1, 1, 1, 1)), "pad"),
    (lambda t: t.pad([(1, 1), 2]), "pad"),
    (lambda t: t.pad([(1, 1), (0.5, 1)]), "pad"),
    (lambda t: t.pad((1, 1), 5.0), "pad: mode=5.0"),
    (lambda t: t.pad((1, 1), "reflect", 1), "a value is for"),
    (lambda t: t.pad((3, 0), "reflect"), "at most 2"),
    (lambda t: t.pad((4, 0), "circular"), "at most 3"),
    (lambda t: t[:, :0].pad((1, 0), "replicate"), "at most 0"),
    (lambda t: t.roll((1, 2), 0), "roll"),
    (lambda t: t.roll((1, 2)), "roll"),
    (lambda t: t.roll(1, 2), "roll: axis 2"),
    (lambda t: t.repeat(2), "repeat"),
    (lambda t: t.tile(2, -1), "tile"),
    (lambda t: t.repeat_interleave(-1), "repeat_interleave"),
    (lambda t: t.movedim((0, 1), (0, 0)), "movedim"),
    (lambda t: t.movedim(0, (0, 1)), "movedim"),
    (lambda t: t.swapaxes(0, 2), "axis 2"),
    (lambda t: t.rot90(1, (0, 0)), "rot90"),
    (lambda t: t[0].fliplr(), "fliplr"),
    (lambda t: t[0, 0].flipud(), "flip"),
    (lambda t: t.narrow(1, 2, 2), "narrow: 2 elements from 2 of an axis of size 3"),
    (lambda t: t.narrow(1, 0, -1), "narrow"),
    (lambda t: t.unflatten(1, (2, 2)), "unflatten"),
    (lambda t: t.tensor_split(0), "tensor_split"),
    (lambda t: t.unbind(2), "unbind: axis 2"),
    (lambda t: t.meshgrid(), "meshgrid"),
    (lambda t: t[0].meshgrid(indexing="yx"), "meshgrid: indexing='yx'"),
    (lambda t: t[0].meshgrid([1]), "int is no tensor"),
    (lambda t: t.broadcast_tensors(Tensor([1, 2])), "do not broadcast"),
]


@pytest.mark.parametrize(("wrong", "message"), ERRORS)
def test_errors_name_the_method(wrong: Callable[[Any], object], message: str) -> None:
    with pytest.raises(TensorError, match=message):
        wrong(Tensor(np.ones((2, 3), np.float32)))


@pytest.mark.parametrize("name", ["hstack", "vstack", "dstack"])
@pytest.mark.parametrize(
    "shapes", [[(), ()], [(3,), (3,)], [(2, 3), (2, 3)], [(2, 3, 1), (2, 3, 1)], [(1, 3)]]
)
def test_stacks(name: str, shapes: list[tuple[int, ...]]) -> None:
    arrays = [np.arange(math.prod(s)).reshape(s) + 9 * i for i, s in enumerate(shapes)]
    first, *others = map(Tensor, arrays)
    found, wanted = getattr(first, name)(*others).numpy(), getattr(np, name)(arrays)
    assert found.shape == wanted.shape
    np.testing.assert_array_equal(found, wanted)


def test_stacks_that_do_not_fit() -> None:
    with pytest.raises(TensorError, match="vstack: int is no tensor"):
        Tensor([1]).vstack([2])  # type: ignore[arg-type]
    with pytest.raises(TensorError, match=r"cat: \(1, 2\) does not join \(1, 3\)"):
        Tensor.ones(3).vstack(Tensor.ones(2))
