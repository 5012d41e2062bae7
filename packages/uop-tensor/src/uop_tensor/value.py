"""What every tensor is: a node, and how it meets Python numbers, arrays and other tensors. Week 5.

The methods of Tensor stand in layers, each a class on the one below: Value, Arithmetic, Elementwise, Named,
Special, Activations, Movement, Padding, Rearrange, Creation, Random, Reduction, Cumulative, Indexing, Masks,
Gather, Writing, Ordering, Ranks, Convolution, Pooling, Unpooling, Resizing, Warping, Functional, Products,
LinearAlgebra, Statistics, Distribution, Classes, Losses, Margins, Norms, Sampling, Exchange, Reading,
Changing, Tensor.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import Any, Protocol, Self, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from uop_ir import DType, UOp, get_backend

from . import shapes
from .data import Number, from_array
from .errors import TensorError
from .graph import detach, known_device
from .live import register
from .promotion import DEFAULT, as_float, check_dtype, promote, with_number

Operand: TypeAlias = "Value | Number | np.generic | npt.NDArray[Any]"

_grad_enabled = [True]


def grad_enabled() -> bool:
    """Whether no `no_grad` is in force."""
    return _grad_enabled[-1]


@contextmanager
def no_grad() -> Iterator[None]:
    """Within it, results of tensor methods are constants to `backward`."""
    _grad_enabled.append(False)
    try:
        yield
    finally:
        _grad_enabled.pop()


class Weak(Protocol):
    """A Python number that is not known yet: one that a jitted function is given."""

    @property
    def kind(self) -> type: ...

    def node(self, dtype: DType) -> UOp:
        """The number as a node of a dtype."""


class Value:
    """A value that is computed when it is asked for. Values never change; `assign` gives a tensor another
    one.
    """

    #: NumPy leaves `array + tensor` to the tensor.
    __array_ufunc__ = None

    uop: UOp
    grad: Self | None = None
    _requires_grad: bool = False
    _assign_target: UOp | None = None
    _done: bool = False
    _weak: Weak | None = None

    def _enter(self, uop: UOp) -> None:
        check_dtype(uop.dtype)
        self.uop = uop
        register(self)

    @classmethod
    def _of(cls, uop: UOp) -> Self:
        """A tensor of a node."""
        self = cls.__new__(cls)
        self._enter(uop if grad_enabled() else detach(uop))
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each axis."""
        return cast("tuple[int, ...]", self.uop.shape)

    @property
    def dtype(self) -> DType:
        """The type of the elements, one of `uop_ir.dtypes`."""
        return self.uop.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.uop.shape)

    def numel(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    nelement = numel

    def dim(self) -> int:
        """The number of axes."""
        return self.ndim

    def element_size(self) -> int:
        """The bytes of one element."""
        return self.dtype.numpy.itemsize

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return self.numel() * self.element_size()

    def is_floating_point(self) -> bool:
        """Whether the dtype is f16, bf16, f32 or f64."""
        return self.dtype.is_float

    def size(self, axis: int | None = None) -> int | tuple[int, ...]:
        """The shape, or the size of one axis."""
        return self.shape if axis is None else self.shape[shapes.one_axis("size", self.ndim, axis)]

    @property
    def device(self) -> str:
        """The device of the tensor's memory; for a value that has none yet, the one on which it would be
        computed.
        """
        return known_device(self.uop) or get_backend(None).name

    def _data(self, method: str) -> npt.NDArray[Any]:
        """The elements, computed for `method`. Raises JitError while jit traces."""
        raise NotImplementedError

    def _rebind(self, new: UOp) -> None:
        """Give this tensor another value of its shape and dtype."""
        raise NotImplementedError

    def _check_gradient(self) -> None:
        """Raise TensorError for a dtype without gradients."""
        if not self.dtype.is_float:
            raise TensorError(
                f"requires_grad: a tensor of dtype {self.dtype}", remedy="only floats have gradients"
            )


def operands(method: str, *given: Operand) -> tuple[UOp, ...]:
    """Nodes of one dtype whose shapes broadcast; a Python number takes the dtype of the tensors beside it.

    Raises TensorError where shapes, dtypes or devices do not go together.
    """
    device = device_beside(*given)
    nodes = [_operand(method, x, device) for x in given]
    typed = [n for n in nodes if isinstance(n, UOp)]
    weak = [n if isinstance(n, int | float) else n.kind() for n in nodes if not isinstance(n, UOp)]
    dtype = (
        promote(method, *(n.dtype for n in typed))
        if typed
        else promote(method, *(DEFAULT[type(n)] for n in weak))
    )
    for number in weak:
        dtype = with_number(method, dtype, number)
    if typed:
        shapes.broadcast(method, *(n.shape for n in typed))
    devices = {d for n in typed if (d := known_device(n)) is not None}
    if len(devices) > 1:
        raise TensorError(
            f"{method}: operands on {' and '.join(sorted(devices))}", remedy="move one with .to(device)"
        )
    return tuple(
        n.cast(dtype)
        if isinstance(n, UOp)
        else UOp.const(dtype, n)
        if isinstance(n, int | float)
        else n.node(dtype)
        for n in nodes
    )


def _operand(method: str, given: Operand, device: str | None) -> UOp | Number | Weak:
    return (given._weak if isinstance(given, Value) else None) or strong(method, given, device)


def device_beside(*given: object) -> str | None:
    """The device of the first tensor that has one: where arrays beside it go."""
    return next((d for x in given if isinstance(x, Value) and (d := known_device(x.uop)) is not None), None)


def strong(method: str, given: Operand, device: str | None) -> UOp | Number:
    """A tensor's node, an array as a node on `device`, and a Python number as it is."""
    if isinstance(given, Value):
        return given.uop
    if type(given) in DEFAULT:
        return cast(Number, given)
    if isinstance(given, np.ndarray | np.generic):
        return from_array(np.asarray(given), device)
    raise TensorError(
        f"{method}: {type(given).__name__} is no operand", remedy="give a Tensor, an array or a number"
    )


def float_operand(x: UOp) -> UOp:
    """A value as a float: integers and bool become f32."""
    return x.cast(as_float(x.dtype))
