"""What a jitted function depends on beside tensors and numbers:
static parameters, and values around it. Week 5.
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from inspect import Parameter
from types import CodeType, FunctionType
from typing import Any

from .errors import TensorError
from .jit_tree import Bounds, Size, Static
from .structure import identity

#: Values around a function that are part of its signature: they never change, but names may get others.
SCALARS = (bool, int, float, str, type(None))
_Call = tuple[tuple[Any, ...], dict[str, Any]]


def marked_arguments(
    function: Callable[..., Any], static: Collection[str], sizes: Mapping[str, tuple[int, int]]
) -> Callable[[tuple[Any, ...], dict[str, Any]], _Call]:
    """What marks the arguments of the parameters `static`, and of those that are `sizes`.

    Raises TensorError for a name that is no parameter, and for bounds that are no natural numbers in order.
    """
    if isinstance(static, str):
        raise TensorError(f"jit: static is {static!r}", remedy="give a list of names of parameters")
    signature = inspect.signature(function)
    for name in (*static, *sizes):
        if name not in signature.parameters:
            raise TensorError(f"jit: {name!r} is no parameter of {signature}")
        if signature.parameters[name].kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
            raise TensorError(
                f"jit: {name!r} of {signature} is as many arguments as are given",
                remedy="give what is static, or a size, a parameter of its own",
            )
        if name in static and name in sizes:
            raise TensorError(f"jit: {name!r} is both static and a size", remedy="choose one")
    marks: dict[str, Callable[[object], object]] = dict.fromkeys(static, Static)
    for name, given in sizes.items():
        bounds: object = given
        right = isinstance(bounds, tuple) and len(bounds) == 2 and all(type(n) is int for n in bounds)
        if not right or not 0 <= given[0] <= given[1]:
            raise TensorError(
                f"jit: the bounds of {name} are {given!r}", remedy="give (least, greatest), both ints"
            )
        marks[name] = partial(Size, bounds=Bounds(name, *given))

    def mark(args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Call:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        for name, made in marks.items():
            bound.arguments[name] = made(bound.arguments[name])
        return bound.args, bound.kwargs

    return mark


class Around:
    """The numbers, strings and None that a function reads from the functions and the module around it.

    A name that the function itself stores to counts as no input: a counter of calls, say.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._cells: list[Any] = []
        self._globals: list[tuple[dict[str, Any], str]] = []
        for part in functions_of(function):
            code, around = part.__code__, part.__globals__
            read, stored = _names(code)
            cells = zip(code.co_freevars, part.__closure__ or (), strict=True)
            self._cells += [cell for name, cell in cells if name not in stored]
            self._globals += [
                (around, name)
                for name in sorted(read - stored)
                if name not in around or isinstance(around[name], SCALARS)
            ]

    def reader(self) -> Callable[[], tuple[object, ...]]:
        """What tells what they are now. Most functions have none: `tuple` says so in the least time."""
        return self._values if self._cells or self._globals else tuple

    def _values(self) -> tuple[object, ...]:
        found = [_value(cell) for cell in self._cells]
        found += [around.get(name) for around, name in self._globals]
        return tuple([identity(v) if isinstance(v, SCALARS) else None for v in found])


def functions_of(function: Callable[..., Any]) -> list[FunctionType]:
    """The Python functions that something callable consists of:
    a method's, and those that a decorator has wrapped.
    """
    found: list[FunctionType] = []
    part: Any = function
    while part is not None and len(found) < 100:
        if isinstance(part, FunctionType):
            found.append(part)
        inner = next(
            (getattr(part, name) for name in ("__wrapped__", "__func__", "func") if hasattr(part, name)), None
        )
        if inner is None and not found and isinstance(type(part).__call__, FunctionType):
            inner = type(part).__call__
        part = inner
    return found


def code_names(code: CodeType) -> set[str]:
    """The names of code and of the functions within it: of globals, and of attributes too."""
    return set[str]().union(*(part.co_names for part in codes(code)))


def codes(code: CodeType) -> Iterator[CodeType]:
    """Code, and that of the functions within it."""
    yield code
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from codes(part)


def _value(cell: Any) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None


def _names(code: CodeType) -> tuple[set[str], set[str]]:
    """The global names that code and the functions within it read,
    and the names around it that they store to.
    """
    read, stored = set[str](), set[str]()
    for instruction in (step for part in codes(code) for step in dis.get_instructions(part)):
        if instruction.opname == "LOAD_GLOBAL":
            read.add(instruction.argval)
        elif instruction.opname in ("STORE_GLOBAL", "STORE_DEREF"):
            stored.add(instruction.argval)
    return read, stored
