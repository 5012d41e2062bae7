"""Tensor: construction, values back to Python, assignment and gradients. Week 5."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt

from uop_ir import DType, Ops, UOp, get_backend

from .data import Data, from_array, node_of
from .errors import TensorError
from .gradient import gradient
from .graph import broadcast_to, detach, is_detached, known_device, stored
from .inplace import Changing
from .live import alive, capture
from .memory import whole_buffer
from .names import public_methods
from .realize import realize, realize_tensors
from .value import Value, grad_enabled


@public_methods
class Tensor(Changing):
    """An array whose elements are computed when they are asked for.

    Made from a Python number, nested lists or a NumPy array, whose data is copied. Python floats become f32,
    ints i64, bools bool; arrays keep their dtype. Operations build a graph; `realize`, `numpy`, `item`,
    `tolist`, `print` and `bool` compute. A tensor is a value: views do not alias; `assign` and
    `x[...] = y` give this tensor another value, while what was computed from the old one keeps it. What a
    method names `axis` and `keepdim` may be given as `dim` and `keepdims`.
    """

    def __init__(
        self,
        data: Data | UOp | Value,
        dtype: DType | None = None,
        device: str | None = None,
        requires_grad: bool = False,
    ) -> None:
        """Raises TensorError for ragged lists and for data that has no dtype here,
        BackendError for an unknown device.
        """
        if isinstance(data, UOp | Value):
            node = data if isinstance(data, UOp) else data.uop
            node = node if dtype is None else node.cast(dtype)
            node = node if device is None else _on_device(node, device)
        else:
            node = node_of(data, dtype, device)
        self._enter(node)
        if requires_grad:
            self.requires_grad = True

    @classmethod
    def as_tensor(cls, data: Data | Value, dtype: DType | None = None, device: str | None = None) -> Self:
        """A tensor as it is, cast or moved only if need be; all else as `Tensor(data, dtype, device)`."""
        if isinstance(data, cls) and dtype in (None, data.dtype) and device in (None, data.device):
            return data
        return cls(data, dtype, device)

    # values

    def realize(self, *others: Tensor) -> Self:
        """Compute this tensor and others now, together, and keep the results; returns this tensor.

        A gradient does not reach back behind a tensor that was realized before `backward`: that is an error
        there.
        """
        if capture() is not None:
            return self
        tensors: tuple[Tensor, ...] = (self, *others)
        cut = [t for t in tensors if t._feeds_backward()]
        realize_tensors(tensors)
        for t in cut:
            buffer = whole_buffer(t.uop)
            if buffer is not None:
                buffer.memo["tensor.cut"] = True
        for t in tensors:
            if t._requires_grad and not t._owns_memory():
                t.uop = from_array(t._data("realize"), known_device(t.uop))
        return self

    def _stored(self, method: str) -> UOp:
        trace = capture()
        if trace is not None:
            trace.forbid(method)
        if self._feeds_backward():
            # backward will want the graph, so it stays, and the value is computed beside it
            value = realize([self.uop])[0]
        else:
            realize_tensors([self])
            value = self.uop
        buffer = whole_buffer(value)
        assert buffer is not None
        return buffer

    # the same value elsewhere

    def detach(self) -> Self:
        """The same value, as a constant to `backward`."""
        return self._of(detach(self.uop))

    def clone(self) -> Self:
        """The same value as a tensor of its own."""
        return self._of(self.uop)

    def contiguous(self) -> Self:
        """The same value, stored by itself instead of computed within what uses it."""
        return self._of(self.uop if whole_buffer(self.uop) is not None else stored(self.uop))

    def to(self, device: str | DType | Value | None = None, dtype: DType | None = None) -> Self:
        """The same value on another device, or in another dtype,
        or both; a tensor stands for those that it has.

        Raises BackendError for a device that is not installed.
        """
        if isinstance(device, Value):
            return self.to(device.device, device.dtype)
        if isinstance(device, DType):
            device, dtype = None, device
        x = self.uop if dtype is None else self.uop.cast(dtype)
        return self._of(x if device is None else _on_device(x, device))

    def assign(self, value: Self | npt.NDArray[Any]) -> Self:
        """Give this tensor another value of the same shape and dtype; returns this tensor.

        What was computed from the old value keeps it. The memory of the old value is used again where nothing
        needs it. There is no aliasing as in NumPy: views made before do not change.
        """
        new = (
            value.uop if isinstance(value, Tensor) else from_array(np.asarray(value), known_device(self.uop))
        )
        if new.shape != self.shape or new.dtype is not self.dtype:
            raise TensorError(
                f"assign: {new.dtype}{new.shape} to a tensor {self.dtype}{self.shape}",
                remedy="shape and dtype must be equal; use expand, reshape or cast",
            )
        self._rebind(new)
        return self

    def _rebind(self, new: UOp) -> None:
        trace = capture()  # before a look at the value: where another thread traces, there is none
        old = whole_buffer(self.uop)
        if old is not None:
            self._assign_target = old
        self.uop = detach(new) if self._requires_grad else new
        if trace is not None:
            trace.assigned(self)

    # gradients

    @property
    def requires_grad(self) -> bool:
        """Whether `backward` fills `grad` of this tensor. Results of operations do not inherit it."""
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        """Raises TensorError for a dtype without gradients. The tensor gets memory of its own, if it has
        none.
        """
        if wanted:
            self._check_gradient()
        if wanted and not self._requires_grad and not self._owns_memory():
            self.uop = from_array(self._data("requires_grad"), known_device(self.uop))
        self._requires_grad = bool(wanted)

    def _owns_memory(self) -> bool:
        """Whether this tensor is a buffer that no other parameter is: parameters are told apart by their
        nodes.
        """
        own = whole_buffer(self.uop)
        return own is not None and all(whole_buffer(t.uop) is not own for t in _parameters() if t is not self)

    def _feeds_backward(self) -> bool:
        """Whether a later `backward` may go through this tensor: a parameter is in its graph."""
        if self._requires_grad or self._done or not self.dtype.is_float or not grad_enabled():
            return False
        parameters = {t.uop for t in _parameters()}
        return bool(parameters) and any(n in parameters for n in self.uop.toposort(gate=_open))

    def backward(self, seed: Tensor | None = None) -> Self:
        """Add the gradient of this tensor to `grad` of every live tensor that requires it and on which it
        depends.

        A tensor of more than one element needs a seed: the gradient of what follows with respect to it.
        Nothing is computed yet: gradients are lazy like other tensors. Returns this tensor. Raises
        TensorError where no such tensor is found, and where a realized tensor cuts the way.
        """
        by_node: dict[UOp, list[Tensor]] = {}
        for t in _parameters():
            by_node.setdefault(t.uop, []).append(t)
        nodes = self.uop.toposort(gate=lambda n: _open(n) and n not in by_node)
        leaves = [n for n in nodes if n in by_node]
        if any("tensor.cut" in n.memo for n in nodes if n not in by_node):
            raise TensorError(
                "backward: a tensor on the way to a parameter was realized before, or comes from a jitted function",
                remedy="call backward before realize, or within that function, or detach the tensor",
            )
        if not leaves:
            raise TensorError(
                "backward: no tensor with requires_grad=True on which this one depends",
                remedy="set requires_grad first",
            )
        if any(len(by_node[n]) > 1 for n in leaves):
            raise TensorError(
                "backward: two parameters have one and the same value", remedy="realize them after assign"
            )
        found = gradient([self.uop], [_seed("backward", self, seed)], leaves)
        for leaf, grad in zip(leaves, found, strict=True):
            (parameter,) = by_node[leaf]
            if grad is not None:
                new = self._of(detach(grad))
                parameter.grad = new if parameter.grad is None else parameter.grad + new
        self._done = True
        return self

    def gradient(self, *inputs: Tensor, seed: Tensor | None = None) -> tuple[Tensor, ...]:
        """The gradient of this tensor with respect to each of `inputs`, tensors that it was computed from.

        The results have gradients themselves. Raises TensorError for an input on which this tensor does not
        depend, and for one of a dtype without gradients.
        """
        for number, x in enumerate(inputs):
            if not x.dtype.is_float:
                raise TensorError(
                    f"gradient: input {number} is of dtype {x.dtype}", remedy="only floats have gradients"
                )
        found = gradient([self.uop], [_seed("gradient", self, seed)], [x.uop for x in inputs])
        for number, grad in enumerate(found):
            if grad is None:
                raise TensorError(
                    f"gradient: input {number} is not what this tensor was computed from",
                    remedy="what was read or realized is a value of its own, unless a tensor from which it was "
                    "computed has requires_grad=True",
                )
        return tuple(self._of(grad) for grad in found if grad is not None)


def _on_device(value: UOp, device: str) -> UOp:
    name = get_backend(device).name
    return value if (known_device(value) or get_backend().name) == name else UOp(Ops.COPY, (value,), name)


def _open(node: UOp) -> bool:
    return not is_detached(node)


def _parameters() -> list[Tensor]:
    return [t for t in alive() if isinstance(t, Tensor) and t._requires_grad]


def _seed(method: str, output: Tensor, seed: Tensor | None) -> UOp:
    if not output.dtype.is_float:
        raise TensorError(
            f"{method}: of a tensor of dtype {output.dtype}", remedy="only floats have gradients"
        )
    if seed is None and output.numel() != 1:
        raise TensorError(
            f"{method}: of a tensor of shape {output.shape}",
            remedy="reduce it to one element, or give a seed",
        )
    if seed is None:
        return broadcast_to(output.uop.const_like(1), output.shape)
    if seed.shape != output.shape or seed.dtype is not output.dtype:
        raise TensorError(
            f"{method}: a seed {seed.dtype}{seed.shape} for a tensor {output.dtype}{output.shape}",
            remedy="shape and dtype must be equal",
        )
    return seed.uop
