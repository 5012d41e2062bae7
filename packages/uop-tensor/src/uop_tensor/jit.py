"""jit: a function of tensors is traced once a signature, and replayed by one call. Week 5."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar, cast

from .jit_tree import Tree, flatten
from .live import JitError, capture
from .replay import Replay
from .trace import trace

#: The Python ints that an i32 holds.
I32 = range(-(1 << 31), 1 << 31)
P = ParamSpec("P")
R = TypeVar("R")


class Jitted(Generic[P, R]):
    """A function that `jit` has wrapped. `captures` has what is replayed, by signature; `traces` counts traces."""

    __name__: str

    def __init__(self, function: Callable[P, R]) -> None:
        update_wrapper(self, function, updated=())  # a callable object keeps its attributes to itself
        self.__name__ = getattr(function, "__name__", type(function).__name__)
        self.function = function
        self.captures: dict[object, Replay] = {}
        self.traces = 0

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if capture() is not None:  # part of the trace of another function
            return self.function(*args, **kwargs)
        given = arguments(self.__name__, args, kwargs)
        replay = self.captures.get(given.signature)
        if replay is None or not replay.valid():
            replay = trace(self.__name__, self.function, given)
            self.captures[given.signature] = replay
            self.traces += 1
        return cast(R, replay(given))


def arguments(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tree:
    """What a function is called with, as a tree of (args, kwargs). Raises JitError for what cannot be traced."""
    given = flatten(name, (args, kwargs))
    for n in given.numbers:
        if isinstance(n, int) and n not in I32:
            raise JitError(f"{name}: the argument {n} does not fit an i32", remedy="give a tensor")
    return given


def jit(function: Callable[P, R]) -> Jitted[P, R]:
    """Replay `function` instead of running it, as one call of the backend.

    Arguments: tensors, also in lists, tuples and dicts, and Python ints and floats (as i32 and f32 of shape ()) are
    inputs that may change from call to call; bool, str, None and dtypes are part of the signature, as are shapes,
    dtypes and structure. For a new signature the function is run once on values that do not exist yet; reading one
    (`numpy`, `item`, ...) raises JitError.

    Tensors that the function closes over are looked up at each call; those that it assigns are updated in place. A
    tensor that is an argument has the value with which the call began. What Python does beside tensors happens once, in
    the trace; gradients that the function leaves in `grad` do not outlive the call.
    """
    return Jitted(function)
