"""The kernels that a backend has compiled: each body once, with the freedoms in force. Week 7."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from uop_codegen_c import Freedoms, current_freedoms
from uop_ir import UOp
from uop_ir import settings as ir_settings

from .lower import CudaSource, generate

Kernel = TypeVar("Kernel")


class Kernels(Generic[Kernel]):
    """What `load` makes of the CUDA text of bodies, all new ones at once, for as long as a body lives."""

    def __init__(self, load: Callable[[Sequence[CudaSource]], Sequence[Kernel]]) -> None:
        self._load = load
        self._known: weakref.WeakKeyDictionary[UOp, dict[Freedoms, Kernel]] = weakref.WeakKeyDictionary()

    def __call__(self, bodies: Sequence[UOp]) -> list[Kernel]:
        """A kernel for each body. Raises BackendError."""
        free = current_freedoms()
        new = {b: generate(b, free) for b in bodies if free not in self._known.get(b, {})}
        for source in new.values() if ir_settings.debug >= 4 else ():
            print(source.text)
        for body, kernel in zip(new, self._load(list(new.values())), strict=True):
            self._known.setdefault(body, {})[free] = kernel
        return [self._known[body][free] for body in bodies]
