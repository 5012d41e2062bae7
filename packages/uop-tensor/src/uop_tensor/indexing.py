"""Reading and writing parts of a tensor: `x[...]` and `x[...] = y` as in NumPy. Week 5."""

from __future__ import annotations

from typing import Any, Self, cast

from uop_ir import DType, UOp, dtypes

from . import shapes
from .cumulative import Cumulative
from .data import Array, Number, from_array, nested
from .errors import TensorError
from .gradient import RULES
from .graph import broadcast_to, detach, known_device, shape_of, stored
from .live import capture
from .memory import numel
from .picking import added, replaced
from .promotion import DEFAULT, with_number
from .selection import Item, as_items, is_mask, select
from .value import Value, grad_enabled


class Indexing(Cumulative):
    """Indices are ints, slices of any step, None, Ellipsis, and tensors, arrays and lists of integers or
    bool, which broadcast together and stand where NumPy puts them.

    Positions in arrays and lists are checked at once. Those in tensors are not known: one out of range reads
    0 and writes nothing. A tensor of bool is read, as the shape of the result depends on it, so that it
    raises JitError within jit; as the index of an assignment of what does not depend on how many are true it
    is not.
    """

    def __getitem__(self, items: Item | tuple[Item, ...]) -> Self:
        """Raises TensorError for what does not fit the shape."""
        return self._of(select(self.uop, as_items(items), _read).value)

    def select(self, axis: int, index: int) -> Self:
        """The part at one position along an axis, without it."""
        at = shapes.one_axis("select", self.ndim, axis)
        return self[(*[slice(None)] * at, index)]

    def __setitem__(self, items: Item | tuple[Item, ...], value: object) -> None:
        """Give this tensor the value that has `value`,
        broadcast and cast to its dtype, in the place of `x[items]`.

        As with `assign`, what was computed from the old value keeps it, views too. Where a position is named
        twice the last element is taken. The gradient goes to `value`, and to the old value where that stays.
        Raises TensorError for what does not fit the shape, and for a tensor with `requires_grad`, outside of
        `no_grad`.
        """
        if self._requires_grad and grad_enabled():
            raise TensorError(
                "index: a tensor with requires_grad is written in part, where no gradient could flow",
                remedy="write within no_grad(), or use where",
            )
        new = written(self.uop, as_items(items), as_value(self.uop, value))
        self._rebind(new if grad_enabled() else detach(new))


def _read(mask: Value) -> Array:
    trace = capture()
    if trace is not None:
        trace.forbid("a bool index", "use where or masked_fill, or index the result after the call")
    return mask._data("index")


def as_value(x: UOp, value: object) -> UOp:
    """What is written, in the dtype of `x`."""
    home = known_device(x)
    if isinstance(value, Value):
        device = known_device(value.uop)
        if home is not None and device is not None and device != home:
            raise TensorError(
                f"index: a value on {device} is written to a tensor on {home}",
                remedy="move it with .to(device)",
            )
        weak = value._weak  # a number that takes the dtype of x, if x holds it
        if weak is not None and with_number("index", x.dtype, weak.kind()) is x.dtype:
            return weak.node(x.dtype)
        return value.uop.cast(x.dtype)
    if type(value) in DEFAULT:
        return _number(x.dtype, cast(Number, value))
    return from_array(nested("index", value), home).cast(x.dtype)


def _number(dtype: DType, value: Number) -> UOp:
    if dtype.is_int and isinstance(value, float):
        return UOp.const(dtypes.f64, value).cast(dtype)
    if dtype.is_int:
        with_number("index", dtype, value)
    return UOp.const(dtype, value != 0 if dtype is dtypes.bool else value)


def written(x: UOp, items: tuple[Any, ...], value: UOp, *, accumulate: bool = False) -> UOp:
    """`x` with a value in the place of `x[items]`, or added there."""
    masked = None if accumulate else _masked(x, items, value)
    if masked is not None:
        return masked
    ground = stored(x)  # no movement op sees through it: the way back ends there
    found = select(ground, items, _read)
    value = _fitted(value, found.shape)
    if 0 in found.shape:
        return x
    if found.at is not None:
        view, place, at = found.view.substitute({ground: x}), found.place, found.at
        before, after = found.shape[:place], found.shape[place + at.ndim :]
        values = value.reshape((*before, numel(at.shape), *after))
        rows, at = found._replace(view=view).rows, at.reshape((numel(at.shape),))
        if accumulate:
            every = broadcast_to(at.reshape((*at.shape, *(1,) * len(after))), values.shape)
            value = found.of_rows(added(rows, every, values, place))
        else:
            value = found.of_rows(replaced(rows, at, values, place))
    elif accumulate:
        value = found.view.substitute({ground: x}) + value
    placed = put_back(found.view, ground, value)
    if numel(found.view.shape) == numel(x.shape):
        return placed
    return put_back(found.view, ground, broadcast_to(UOp.const(dtypes.bool, True), value.shape)).where(
        placed, x
    )


def put_back(view: UOp, ground: UOp, value: UOp) -> UOp:
    """Each element of a value where that of a view came from,
    0 elsewhere: what the gradient of a view does.
    """
    while view is not ground:
        rule = RULES[view.op]
        assert rule is not None
        (placed,) = rule(view, value)
        assert placed is not None
        view, value = view.src[0], placed
    return value


def _masked(x: UOp, items: tuple[Any, ...], value: UOp) -> UOp | None:
    """`written` for one mask, beside it only slices of all,
    and a value that is the same for all that is true.
    """
    whole = [item is Ellipsis or (isinstance(item, slice) and item == slice(None)) for item in items]
    if whole.count(False) != 1 or not is_mask(items[whole.index(False)]):
        return None
    place = whole.index(False)
    mask: Value | Array = items[place]
    dots = [item is Ellipsis for item in items]
    before = x.ndim - mask.ndim - (len(items) - place - 1) if any(dots[:place]) else place
    after = x.ndim - mask.ndim - before
    fits = before >= place - 1 and after >= len(items) - place - 1 - sum(dots[place:]) and sum(dots) < 2
    if not fits or mask.shape != x.shape[before : before + mask.ndim]:
        return None
    if value.ndim > after:
        if value.shape[value.ndim - after - 1] != 1:
            return None
        front, back = value.shape[: value.ndim - after - 1], value.shape[value.ndim - after :]
        value = value.reshape((*front, *(1,) * mask.ndim, *back))
    node = mask.uop if isinstance(mask, Value) else from_array(mask, known_device(x))
    return node.reshape((*mask.shape, *(1,) * after)).where(_fitted(value, shape_of(x)), x)


def _fitted(value: UOp, shape: tuple[int, ...]) -> UOp:
    """A value broadcast to the shape of what it replaces;
    axes of size 1 in front are dropped, as NumPy does.
    """
    while value.ndim > len(shape) and value.shape[0] == 1:
        value = value.reshape(value.shape[1:])
    sizes = (1,) * (len(shape) - value.ndim) + shape_of(value)
    if len(sizes) != len(shape) or any(a not in (1, b) for a, b in zip(sizes, shape, strict=True)):
        raise TensorError(
            f"index: a value of shape {value.shape} is written to {shape}",
            remedy="aligned on the right, sizes must be equal or 1",
        )
    return broadcast_to(value, shape)
