"""Random programs of methods against NumPy: what moves,
picks, orders, folds and stores, exactly, for any shapes.

Elements are whole numbers, small enough that float64 has no rounding;
so values are equal, whatever the order of sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

from uop_tensor import Tensor

pytestmark = pytest.mark.net

Array = npt.NDArray[Any]
Draw = Callable[[st.SearchStrategy[Any]], Any]
#: A step: what it does to the tensors and to the arrays so far, as text too.
Step = tuple[str, Callable[[], Any], Callable[[], Any]]
GREATEST = 1e9
LARGEST = 400


def shape_of_size(draw: Draw, size: int) -> tuple[int, ...]:
    """Some shape with `size` elements."""
    shape: list[int] = []
    for _ in range(draw(st.integers(0, 3))):
        divisors = [d for d in range(1, size + 1) if size % d == 0] if size else [0, 1, 2]
        shape.append(draw(st.sampled_from(divisors)))
        size = size // shape[-1] if shape[-1] else 0
    if math.prod(shape) == 0 and size == 0:
        return (*shape, 0)
    return (*shape, size)


def slices(draw: Draw, n: int) -> slice:
    bound = st.none() | st.integers(-n - 2, n + 2)
    return slice(draw(bound), draw(bound), draw(st.sampled_from([None, 1, 2, 3, -1, -2])))


def basic_index(draw: Draw, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Ints, slices, None and one Ellipsis."""
    items: list[Any] = []
    for n in shape[: draw(st.integers(0, len(shape)))]:
        kind = draw(st.integers(0, 3))
        items.append(draw(st.integers(-n, n - 1)) if kind == 0 and n else slices(draw, n))
        if kind == 1:
            items.append(None)
    if draw(st.booleans()):
        at = draw(st.integers(0, len(items)))
        # what stands behind the dots counts from the end: only new axes may
        if all(i is None for i in items[at:]):
            items.insert(at, ...)
    return tuple(items)


def full_index(draw: Draw, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Integer arrays that broadcast, among slices, ints and one mask."""
    common = draw(st.sampled_from([(), (2,), (3,), (2, 3), (0,)]))
    items: list[Any] = []
    axis, masked = 0, False
    while axis < len(shape) and draw(st.integers(0, 4)):
        n = shape[axis]
        kind = draw(st.integers(0, 4))
        if kind == 0 and not masked and not any(isinstance(i, np.ndarray) for i in items):
            mask = draw(st.lists(st.booleans(), min_size=n, max_size=n))
            items.append(np.array(mask, bool).reshape(n))
            masked = True
        elif kind <= 2 and n and not masked:
            own = draw(st.sampled_from([common, common[-1:] if common else ()]))
            flat = draw(st.lists(st.integers(-n, n - 1), min_size=math.prod(own), max_size=math.prod(own)))
            items.append(np.array(flat, np.int64).reshape(own))
        else:
            items.append(slices(draw, n))
        axis += 1
    return tuple(items)


class Program:
    """Tensors and the arrays that they should be."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.tensors: list[Tensor] = []
        self.arrays: list[Array] = []
        for _ in range(draw(st.integers(1, 3))):
            self.new(tuple(draw(st.lists(st.sampled_from([0, 1, 2, 3, 4]), max_size=3))))

    def new(self, shape: tuple[int, ...]) -> int:
        dtype = self.draw(st.sampled_from([np.float64, np.int64]))
        size = math.prod(shape)
        flat = self.draw(st.lists(st.integers(-4, 4), min_size=size, max_size=size))
        array = np.array(flat, dtype).reshape(shape)
        return self.enter(Tensor(array), array)

    def enter(self, tensor: Tensor, array: Any) -> int:
        self.tensors.append(tensor)
        self.arrays.append(np.asarray(array))
        return len(self.tensors) - 1

    def pick(self) -> tuple[Tensor, Array]:
        i = self.draw(st.integers(0, len(self.tensors) - 1))
        return self.tensors[i], self.arrays[i]

    def axis(self, x: Array) -> int:
        assume(x.ndim > 0)
        return int(self.draw(st.integers(-x.ndim, x.ndim - 1)))

    def number(self, x: Array) -> tuple[Tensor, Array]:
        """A value as numbers: bool becomes i64."""
        i = next(i for i, a in enumerate(self.arrays) if a is x)
        t = self.tensors[i]
        return (t.long(), x.astype(np.int64)) if x.dtype == bool else (t, x)

    def step(self) -> None:
        name = self.draw(st.sampled_from(sorted(STEPS)))
        t, x = self.pick()
        what, tensor, array = STEPS[name](self, t, x)
        note(f"{len(self.tensors)}: {name} of {x.shape} {what}")
        wanted = np.asarray(array())
        assume(wanted.size <= LARGEST)
        assume(wanted.size == 0 or float(np.abs(wanted.astype(np.float64)).max()) < GREATEST)
        self.enter(tensor(), wanted)


def movement(p: Program, t: Tensor, x: Array) -> Step:
    kind = p.draw(st.integers(0, 9))
    if kind == 0:
        shape = shape_of_size(p.draw, x.size)
        return f"reshape {shape}", lambda: t.reshape(shape), lambda: x.reshape(shape)
    if kind == 1:
        order = p.draw(st.permutations(range(x.ndim)))
        return f"permute {order}", lambda: t.permute(tuple(order)), lambda: x.transpose(order)
    if kind == 2:
        axis = p.axis(x)
        return f"flip {axis}", lambda: t.flip(axis), lambda: np.flip(x, axis)
    if kind == 3:
        widths = [tuple(p.draw(st.tuples(st.integers(0, 2), st.integers(0, 2)))) for _ in x.shape]
        assume(x.ndim > 0)
        return f"pad {widths}", lambda: t.pad(widths), lambda: np.pad(x, widths)
    if kind == 4:
        axis, by = p.axis(x), p.draw(st.integers(-5, 5))
        return f"roll {by}, {axis}", lambda: t.roll(by, axis), lambda: np.roll(x, by, axis)
    if kind == 5:
        shape = (2, *(n if n != 1 else 3 for n in x.shape))
        return f"expand {shape}", lambda: t.expand(shape), lambda: np.broadcast_to(x, shape)
    if kind == 6:
        times = [p.draw(st.integers(0, 2)) for _ in range(x.ndim + p.draw(st.integers(0, 1)))]
        assume(times)
        return f"repeat {times}", lambda: t.repeat(*times), lambda: np.tile(x, times)
    if kind == 7:
        axis = p.axis(x)
        return (
            f"cat {axis}",
            lambda: t.cat(t.flip(axis), axis=axis),
            lambda: np.concatenate([x, np.flip(x, axis)], axis),
        )
    if kind == 8:
        axis = p.draw(st.integers(-x.ndim - 1, x.ndim))
        return f"stack {axis}", lambda: t.stack(t, axis=axis), lambda: np.stack([x, x], axis)
    at = p.draw(st.integers(-x.ndim - 1, x.ndim))
    return f"unsqueeze {at}", lambda: t.unsqueeze(at), lambda: np.expand_dims(x, at)


def indexed(p: Program, t: Tensor, x: Array) -> Step:
    index = p.draw(st.sampled_from([basic_index, full_index]))(p.draw, x.shape)
    return f"[{index}]", lambda: t[index], lambda: x[index]


def stored(p: Program, t: Tensor, x: Array) -> Step:
    index = p.draw(st.sampled_from([basic_index, full_index]))(p.draw, x.shape)
    shape = np.asarray(x[index]).shape
    shape = p.draw(st.sampled_from([shape, shape[1:], (1, *shape[1:]) if shape else (), ()]))
    # one value for elements that are named twice: which of several is stored last is left open
    value = (
        np.full(shape, p.draw(st.integers(-4, 4)))
        if _repeats(index)
        else np.arange(math.prod(shape)).reshape(shape)
    )

    def tensor() -> Tensor:
        copy = t.clone()
        copy[index] = Tensor(value)
        return copy

    def array() -> Array:
        copy = x.copy()
        copy[index] = value
        return copy

    return f"[{index}] = {value.tolist()}", tensor, array


def _repeats(index: tuple[Any, ...]) -> bool:
    return any(isinstance(i, np.ndarray) and i.dtype != bool for i in index)


def folded(p: Program, t: Tensor, x: Array) -> Step:
    name = p.draw(
        st.sampled_from(["sum", "prod", "max", "min", "any", "all", "argmax", "argmin", "count_nonzero"])
    )
    t, x = p.number(x)
    axis = p.draw(st.none() | st.integers(-x.ndim, x.ndim - 1)) if x.ndim else None
    keep = p.draw(st.booleans()) if name != "count_nonzero" else False
    if name in ("max", "min", "argmax", "argmin"):
        assume(x.shape[axis] if axis is not None else x.size)
    if name == "count_nonzero":
        return f"{name} {axis}", lambda: t.count_nonzero(axis), lambda: np.count_nonzero(x, axis)
    return (
        f"{name} {axis} {keep}",
        lambda: getattr(t, name)(axis, keepdim=keep),
        lambda: getattr(np, name)(x, axis=axis, keepdims=keep),
    )


def running(p: Program, t: Tensor, x: Array) -> Step:
    t, x = p.number(x)
    axis = p.axis(x)
    name = p.draw(st.sampled_from(["cumsum", "cumprod", "cummax", "cummin", "diff"]))
    of: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "cumsum": (lambda: t.cumsum(axis), lambda: np.cumsum(x, axis)),
        "cumprod": (lambda: t.cumprod(axis), lambda: np.cumprod(x, axis)),
        "cummax": (lambda: t.cummax(axis)[0], lambda: np.maximum.accumulate(x, axis)),
        "cummin": (lambda: t.cummin(axis)[0], lambda: np.minimum.accumulate(x, axis)),
        "diff": (lambda: t.diff(axis=axis), lambda: np.diff(x, axis=axis)),
    }
    return f"{name} {axis}", *of[name]


def ordered(p: Program, t: Tensor, x: Array) -> Step:
    t, x = p.number(x)
    axis = p.axis(x)
    down = p.draw(st.booleans())
    at = int(p.draw(st.integers(0, x.shape[axis])))

    def descending(a: Array) -> Array:
        return np.flip(np.sort(a, axis), axis) if down else np.sort(a, axis)

    of: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "sort": (lambda: t.sort(axis, descending=down)[0], lambda: descending(x)),
        "argsort": (lambda: t.argsort(axis), lambda: np.argsort(x, axis, kind="stable")),
        "topk": (
            lambda: t.topk(at, axis, largest=down)[0],
            lambda: np.take(descending(x), range(at), axis),
        ),
    }
    name = p.draw(st.sampled_from(sorted(of)))
    return f"{name} {axis} {down} {at}", *of[name]


def picked(p: Program, t: Tensor, x: Array) -> Step:
    axis = p.axis(x)
    n = x.shape[axis]
    assume(n > 0)
    shape = list(x.shape)
    shape[axis] = p.draw(st.integers(0, 3))
    size = math.prod(shape)
    flat = p.draw(st.lists(st.integers(0, n - 1), min_size=size, max_size=size))
    where = np.array(flat, np.int64).reshape(shape)
    return (
        f"gather {axis} {where.tolist()}",
        lambda: t.gather(axis, Tensor(where)),
        lambda: np.take_along_axis(x, where, axis),
    )


def scattered(p: Program, t: Tensor, x: Array) -> Step:
    t, x = p.number(x)
    axis = p.axis(x)
    n = x.shape[axis]
    assume(n > 0)
    size = x.size
    flat = p.draw(st.lists(st.integers(0, n - 1), min_size=size, max_size=size))
    where = np.array(flat, np.int64).reshape(x.shape)

    def array() -> Array:
        out = x.copy()
        for at in np.ndindex(x.shape):
            to = list(at)
            to[axis] = where[at]
            out[tuple(to)] += x[at]
        return out

    return f"scatter_add {axis} {where.tolist()}", lambda: t.scatter_add(axis, Tensor(where), t), array


def two(p: Program, t: Tensor, x: Array) -> Step:
    other, y = p.pick()
    try:
        np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        assume(False)
    other, y = p.number(y)
    t, x = p.number(x)
    of: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "+": (lambda: t + other, lambda: x + y),
        "-": (lambda: t - other, lambda: x - y),
        "*": (lambda: t * other, lambda: x * y),
        "<": (lambda: t < other, lambda: x < y),
        "==": (lambda: t == other, lambda: x == y),
        ">=": (lambda: t >= other, lambda: x >= y),
        "maximum": (lambda: t.maximum(other), lambda: np.maximum(x, y)),
        "minimum": (lambda: t.minimum(other), lambda: np.minimum(x, y)),
        "where": (lambda: (t > 0).where(t, other), lambda: np.where(x > 0, x, y)),
        "//": (lambda: t // (other.abs() + 1), lambda: x // (np.abs(y) + 1)),
        "%": (lambda: t % (other.abs() + 1), lambda: x % (np.abs(y) + 1)),
    }
    name = p.draw(st.sampled_from(sorted(of)))
    return f"{name} {y.shape}", *of[name]


def product(p: Program, t: Tensor, x: Array) -> Step:
    t, x = p.number(x)
    assume(x.ndim > 0)
    n, m = x.shape[-1], p.draw(st.integers(0, 3))
    y = np.arange(n * m).reshape(n, m) % 5 - 2
    y = y.astype(x.dtype)
    kind = p.draw(st.integers(0, 2))
    if kind == 0:
        return f"@ {y.shape}", lambda: t @ Tensor(y), lambda: x @ y
    if kind == 1:
        if x.ndim == 1:
            return "@ itself", lambda: t @ t, lambda: x @ x
        return "@ transposed", lambda: t @ t.mT, lambda: x @ np.swapaxes(x, -1, -2)
    return (
        "einsum",
        lambda: Tensor.einsum("...i,ij->j...", t, Tensor(y)),
        lambda: np.einsum("...i,ij->j...", x, y),
    )


STEPS: dict[str, Callable[[Program, Tensor, Array], Step]] = {
    f.__name__: f
    for f in (movement, indexed, stored, folded, running, ordered, picked, scattered, two, product)
}


@settings(max_examples=1000 if settings.get_current_profile_name() == "nightly" else 250)
@given(data=st.data())
def test_programs_are_what_numpy_makes_of_them(data: st.DataObject) -> None:
    program = Program(data.draw)
    for _ in range(data.draw(st.integers(1, 5))):
        program.step()
    for tensor, array in zip(program.tensors, program.arrays, strict=True):
        assert tensor.shape == array.shape
        np.testing.assert_array_equal(tensor.numpy(), array)
        assert tensor.numpy().dtype == array.dtype
