"""What a backend is: the protocol between the tensors above and the code generators beside them. Week 1.

A kernel is `CALL(body, arguments...)`; a Plan is kernels in order, with the scratch memory between them.
Backends are found by entry points of the group `uop.backends`,
the name of the entry point being the name of the device.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
import numpy.typing as npt

from .arguments import shown
from .errors import BackendError
from .ops import Ops
from .settings import settings, wrong
from .uop import UOp

#: Backends in order of preference where DEV names none.
PREFERENCE = ("CPU", "INTERP")


@dataclass(frozen=True)
class Limits:
    """What a kernel may use: bytes of local memory, threads, memory arguments."""

    local_memory: int = 1 << 18
    threads: int = 1
    arguments: int = 64


@dataclass(frozen=True)
class Plan:
    """Kernels in order, and where their scratch memory lies.

    `calls`: each a CALL whose arguments are plan-level PARAMs (memory by slot: given at each run; scalars by
    name), GLOBAL ALLOCs (scratch), or AFTER(one of these, the CALLs that must come first). `offsets`: for
    each scratch slot its byte offset in one arena of `arena` bytes; slots whose lifetimes do not meet may
    share bytes. `inputs` and `scalars`: the plan-level PARAMs in the order in which a run takes them.
    """

    calls: tuple[UOp, ...]
    inputs: tuple[UOp, ...]
    scalars: tuple[UOp, ...] = ()
    offsets: dict[int, int] = field(default_factory=dict)
    arena: int = 0

    @property
    def bodies(self) -> tuple[UOp, ...]:
        """The distinct kernels, in order of first use."""
        return tuple(dict.fromkeys(call.src[0] for call in self.calls))

    def arguments(self, call: UOp) -> tuple[UOp, ...]:
        """The arguments of a call without their AFTERs."""
        return tuple(a.src[0] if a.op is Ops.AFTER else a for a in call.src[1:])

    @property
    def lifetimes(self) -> dict[int, tuple[int, int]]:
        """For each scratch slot the first and the last call that uses it, counted from 0."""
        spans: dict[int, tuple[int, int]] = {}
        for place, call in enumerate(self.calls):
            for argument in self.arguments(call):
                if argument.op is Ops.ALLOC:
                    slot = int(argument.arg.slot)
                    spans[slot] = (spans.get(slot, (place, place))[0], place)
        return spans

    def __str__(self) -> str:
        """A line a call: its kernel by the start of its key,
        and its arguments; then a line a scratch slot.
        """
        lines = [f"plan: {len(self.calls)} calls of {len(self.bodies)} kernels, arena of {self.arena} bytes"]
        for place, call in enumerate(self.calls):
            names = ", ".join(_argument_name(a) for a in self.arguments(call))
            lines.append(f"  {place}: {call.src[0].key[:12]}({names})")
        for slot, (first, last) in self.lifetimes.items():
            lines.append(f"  scratch{slot}: calls {first} to {last}, at byte {self.offsets[slot]}")
        return "\n".join(lines)


def _argument_name(argument: UOp) -> str:
    if argument.op is Ops.ALLOC:
        return f"scratch{argument.arg.slot}"
    return f"input{argument.arg.slot}" if argument.arg.size is not None else str(argument.arg.name)


class Program(Protocol):
    """A compiled kernel."""

    @property
    def name(self) -> str:
        """What it is called in the source."""

    @property
    def source(self) -> str:
        """What was compiled, as text."""


class Executable(Protocol):
    """A linked plan: one call replays it."""

    def __call__(self, memory: Sequence[Any], scalars: Sequence[float | int]) -> None:
        """Run with the memory of `plan.inputs` and the values of `plan.scalars`, in their order."""


class Backend(Protocol):
    """A device that runs kernels. Memory is what `allocate` returns:
    the rest of the stack never looks inside.
    """

    name: str
    limits: Limits

    def compile(self, bodies: Sequence[UOp]) -> Sequence[Program]:
        """Compile kernels, all at once. Raises BackendError."""

    def link(self, plan: Plan) -> Executable:
        """Compile what is new of a plan and prepare its replay."""

    def allocate(self, nbytes: int) -> Any:
        """Memory of so many bytes, not initialized."""

    def free(self, memory: Any) -> None:
        """Give memory back."""

    def copy_in(self, memory: Any, data: npt.NDArray[Any]) -> None:
        """Copy a contiguous array of the memory's size into it."""

    def copy_out(self, memory: Any, data: npt.NDArray[Any]) -> None:
        """Copy memory into a contiguous, writable array of its size."""

    def synchronize(self) -> None:
        """Wait until all that was started is done."""


@runtime_checkable
class HostMemory(Protocol):
    """What a backend has besides where its memory is that of this process: arrays without a copy."""

    def bytes_of(self, memory: Any) -> npt.NDArray[np.uint8]:
        """The bytes of memory themselves. They outlive `free`."""

    def adopt(self, data: npt.NDArray[np.uint8]) -> Any:
        """Memory that is the bytes of a contiguous array, which it keeps alive; kernels only read it."""


@runtime_checkable
class Reporting(Protocol):
    """What a backend has besides where it can say how it computes a kernel."""

    def report(self, body: UOp) -> Iterable[str]:
        """Lines about a kernel: what the backend makes of it and why,
        and how near that is to what the device can do.
        """


_loaded: dict[str, Backend] = {}


@cache
def backend_names() -> tuple[str, ...]:
    """The names of all installed backends, the preferred ones first.

    Read once: to look through what is installed takes 7 ms, and every new tensor asks for its backend.
    """
    names = {e.name for e in entry_points(group="uop.backends")}
    return tuple(n for n in PREFERENCE if n in names) + tuple(sorted(names - set(PREFERENCE)))


def get_backend(name: str | None = None) -> Backend:
    """The backend of this name; without one, that of the setting DEV, else the first of PREFERENCE installed.

    Raises BackendError for a name that is not installed, and UopError for settings that cannot be read.
    """
    if wrong is not None:
        raise wrong
    if not isinstance(name, str | None):
        raise BackendError(f"{shown(name)} is no name of a backend", remedy="a str")
    wanted = name or settings.dev or next(iter(backend_names()), None)
    if wanted is None:
        raise BackendError("no backend is installed", remedy="install uop-codegen-c, say")
    if wanted not in _loaded:
        found = [e for e in entry_points(group="uop.backends") if e.name == wanted]
        if not found:
            raise BackendError(f"no backend {wanted!r}", remedy=f"installed: {', '.join(backend_names())}")
        _loaded[wanted] = cast(Backend, found[0].load()())
    return _loaded[wanted]


def as_bytes(data: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """A contiguous array as its bytes, without a copy."""
    return data.reshape(-1).view(np.uint8)
