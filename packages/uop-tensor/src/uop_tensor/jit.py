"""jit: a function of tensors is traced once a signature, and replayed by one call. Week 5."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import update_wrapper
from inspect import signature
from types import MethodType
from typing import Any, Generic, ParamSpec, TypeVar, overload
from weakref import ref

from .errors import TensorError
from .jit_tree import Tree, flatten, leaves_of
from .live import begin_work, end_work
from .replay import Replay
from .settings import settings
from .static import Around, marked_arguments
from .trace import trace
from .value import grad_enabled

P = ParamSpec("P")
R = TypeVar("R")


class Jitted(Generic[P, R]):
    """A function that `jit` has wrapped. `captures` has what is replayed,
    by signature; `traces` counts traces.
    """

    __name__: str

    def __init__(
        self,
        function: Callable[P, R],
        static: Collection[str] = (),
        sizes: Mapping[str, tuple[int, int]] | None = None,
    ) -> None:
        """Raises TensorError for what cannot be called,
        for names that are no parameters, and for wrong bounds.
        """
        if not callable(function):
            raise TensorError(f"jit: {type(function).__name__} is not callable", remedy="give a function")
        update_wrapper(self, function, updated=())  # a callable object keeps its attributes to itself
        self.__name__ = getattr(function, "__name__", type(function).__name__)
        self.function = function
        self.captures: OrderedDict[object, Replay] = OrderedDict()
        self.traces = 0
        self._static, self._sizes = static, sizes or {}
        self._mark = marked_arguments(function, static, self._sizes) if static or sizes else None
        self._around = Around(function).reader()
        self._methods: dict[int, Jitted[..., R]] = {}

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        given = None
        try:
            if begin_work() is not None:  # part of the trace of another function
                return self.function(*args, **kwargs)
            leaves = leaves_of(args) if not kwargs and self._mark is None else None
            if leaves is None:
                given = self._flatten(args, kwargs)
                leaves = given.signature(), given.tensors, given.numbers
            signature, tensors, numbers = leaves
            key = signature, grad_enabled(), self._around()
            replay = self.captures.get(key)
            if replay is None or not replay.valid():
                replay = self._trace(key, given or self._flatten(args, kwargs))
            elif len(self.captures) > 1:
                self.captures.move_to_end(key)
            if replay.assigns and (same := replay.found_around(tensors)):
                replay = self._of_same(key, same, given or self._flatten(args, kwargs))
            result: R = replay.run(tensors, numbers)
            return result
        finally:
            end_work()

    def _flatten(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tree:
        return flatten(self.__name__, (args, kwargs) if self._mark is None else self._mark(args, kwargs))

    def _of_same(self, key: object, same: Sequence[int], given: Tree) -> Replay:
        """The replay for arguments of which those of the numbers `same` are tensors that the function finds
        by itself too: one that it assigns is, under both names, what it was assigned.
        """
        key = key, *[(i, id(given.tensors[i])) for i in same]
        replay = self.captures.get(key)
        return replay if replay is not None and replay.valid() else self._trace(key, given, same)

    def _trace(self, key: object, given: Tree, same: Sequence[int] = ()) -> Replay:
        end_work()
        try:
            replay = trace(self.__name__, self.function, given, same=same)
        finally:
            begin_work()
        self.captures[key] = replay
        self.traces += 1
        while len(self.captures) > max(settings.jit_cache, 1):
            self.captures.popitem(last=False)
        return replay

    def __reduce__(self) -> Any:
        """A copy, also one from a pickle, has traces of its own:
        those of this one read the tensors around this one.
        """
        return Jitted, (self.function, self._static, self._sizes)

    def __get__(self, instance: object, owner: type | None = None) -> Jitted[..., R]:
        """As a method, it is jitted for each object by itself:
        what it reads of the object is part of the trace.

        Raises TensorError for an object of a class whose `__slots__` leave out `__weakref__`.
        """
        if instance is None:
            return self
        key = id(instance)
        if key not in self._methods:
            self._methods[key] = Jitted(
                _method(self.function, instance, self._methods), self._static, self._sizes
            )
        return Method(self._methods[key], instance)


class Method(Jitted[..., R]):
    """A jitted method as an object has it: it keeps the object alive,
    as Python's own do, and shares all else.
    """

    __slots__ = ("__self__",)

    def __init__(self, jitted: Jitted[..., R], instance: object) -> None:
        self.__dict__ = jitted.__dict__  # not a copy: traces are of the object, not of this way to it
        self.__self__ = instance

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Method) and self.__dict__ is other.__dict__

    def __hash__(self) -> int:
        return id(self.__dict__)


def _method(function: Callable[..., R], instance: object, methods: dict[int, Any]) -> Callable[..., R]:
    """The function with its first argument, which it does not keep alive."""
    key = id(instance)
    try:
        held = ref(instance, lambda _: methods.pop(key, None))
    except TypeError:
        kind = type(instance).__name__
        raise TensorError(
            f"jit: an object of {kind} cannot have jitted methods, as nothing can refer to it weakly",
            remedy=f'add "__weakref__" to the __slots__ of {kind}',
        ) from None

    def method(*args: Any, **kwargs: Any) -> R:
        return function(held(), *args, **kwargs)

    update_wrapper(method, function)
    method.__signature__ = signature(MethodType(function, instance))  # type: ignore[attr-defined]
    return method


@overload
def jit(
    function: Callable[P, R],
    *,
    static: Collection[str] = (),
    sizes: Mapping[str, tuple[int, int]] | None = None,
) -> Jitted[P, R]: ...
@overload
def jit(
    *, static: Collection[str] = (), sizes: Mapping[str, tuple[int, int]] | None = None
) -> Callable[[Callable[P, R]], Jitted[P, R]]: ...
def jit(
    function: Callable[..., Any] | None = None,
    *,
    static: Collection[str] = (),
    sizes: Mapping[str, tuple[int, int]] | None = None,
) -> Any:
    """Replay `function` instead of running it, as one call of the backend.

    Arguments: tensors, also in lists, tuples, dicts and dataclasses, and Python ints and floats are inputs
    that may change from call to call. A number stays a number: beside a tensor it takes that one's dtype, and
    what is computed from numbers alone, Python computes at each call. bool, str, None, enums, dtypes and the
    parameters named in `static` are part of the signature, as are shapes, dtypes, structure, and numbers and
    strings that the function finds around it. For a new signature the function is run once on values that do
    not exist yet; reading one (`numpy`, `item`, `if`, ...) raises JitError. The JIT_CACHE last signatures are
    kept.

    `sizes` has the least and the greatest value of parameters that are ints and may end slices and stand in
    shapes: one trace, and kernels compiled once, serve them all. No result's shape may depend on one.

    Tensors that the function closes over are looked up at each call; those that it assigns are updated in
    place. An argument that is one of these is that tensor, as without jit. Gradients that the function
    leaves in `grad` are left by each call, unless it has also assigned the tensor. What else Python does
    happens once, in the trace.
    """
    if function is None:
        return lambda found: Jitted(found, static, sizes)
    return Jitted(function, static, sizes)
