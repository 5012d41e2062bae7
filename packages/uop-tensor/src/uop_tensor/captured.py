"""What a trace uses from outside: values that live tensors have,
gradients, and the states that it assigns. Week 5.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from uop_ir import UOp

from .memory import whole_buffer
from .realize import duplicate, realize
from .tensor import Tensor


class GradOf:
    """Gives the gradient that a tensor has now, as a weakref gives its tensor."""

    def __init__(self, owner: Tensor) -> None:
        self.owner = weakref.ref(owner)

    def __call__(self) -> Tensor | None:
        owner = self.owner()
        return None if owner is None else owner.grad

    @property
    def gone(self) -> bool:
        """Whether the tensor has no gradient any more."""
        owner = self.owner()
        return owner is not None and owner.grad is None


class Captured:
    """A value from outside that a trace uses: the live tensors that have it, and its last known BUFFER.

    `tensors` are weakrefs, or what gives a tensor like them.
    """

    def __init__(self, tensors: Sequence[Callable[[], Tensor | None]], value: UOp, placeholder: UOp) -> None:
        self.tensors = list(tensors)
        self.placeholder = placeholder
        self.last = value
        self.buffer: UOp | None = None
        self.parted = False

    def alive(self) -> list[Tensor]:
        """Those of the tensors that still exist."""
        return [tensor for ref in self.tensors if (tensor := ref()) is not None]

    def valid(self) -> bool:
        """Whether some of the tensors still exist,
        and have one value, of the shape and dtype that were traced.
        """
        if self.parted:
            return False
        if len(self.tensors) == 1:  # most have one: 0.2 us, not 1
            tensor = self.tensors[0]()
            if tensor is not None and tensor.uop is self.last:
                return True
        if any(isinstance(ref, GradOf) and ref.gone for ref in self.tensors):
            return False
        values = {t.uop for t in self.alive()}
        if values == {self.last}:
            return True
        traced = self.placeholder
        return len(values) == 1 and all(v.shape == traced.shape and v.dtype is traced.dtype for v in values)

    def memory(self) -> UOp:
        """The BUFFER of the value now; it is realized, where it is not memory yet."""
        # most have one, with the value that it had: 0.2 us, not 1
        if self.buffer is not None and len(self.tensors) == 1:
            alone = self.tensors[0]()
            if alone is None or alone.uop is self.last:
                return self.buffer
        alive = self.alive()
        tensor = alive[0] if alive else None
        if self.buffer is None or (tensor is not None and tensor.uop is not self.last):
            if tensor is not None:
                realize_all(alive)
                self.last = tensor.uop
            else:
                (self.last,) = realize([self.last])
            self.buffer = whole_buffer(self.last)
            assert self.buffer is not None
        return self.buffer


@dataclass
class State:
    """A tensor that the function assigns: its new value is stored over the old one."""

    captured: Captured
    tensor: weakref.ref[Tensor]

    def leave(self) -> None:
        """Go to a copy of the memory, and leave the old one to the others that read it."""
        tensor, captured = self.tensor(), self.captured
        assert tensor is not None
        tensor.uop = captured.last = duplicate(tensor.uop)
        captured.buffer = whole_buffer(tensor.uop)
        # for this call, equal contents; for the next, a new trace
        captured.parted = len(captured.tensors) > 1
        captured.tensors = [self.tensor]


@dataclass(frozen=True)
class GradLeft:
    """A gradient that the function leaves: of an argument (its number) or of a tensor from outside. `had`: it
    had one before; `stored`: it has one afterwards."""

    place: int | weakref.ref[Tensor]
    had: bool
    stored: bool

    def valid(self) -> bool:
        """Whether the tensor has a gradient now just as it had one when it was traced."""
        tensor = None if isinstance(self.place, int) else self.place()
        return tensor is None or (tensor.grad is not None) == self.had


def realize_all(tensors: Sequence[Tensor]) -> None:
    """Realize those that are not."""
    lazy = [t for t in tensors if whole_buffer(t.uop) is None]
    if lazy:
        lazy[0].realize(*lazy[1:])
