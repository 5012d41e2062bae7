"""How methods take arguments: by two names, `dim` and `axis`, `keepdims` and `keepdim`; a wrong type is an error. Week 5."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from types import FunctionType
from typing import Any, TypeVar

from .arguments import misfit
from .errors import KindError, TensorError

#: The other name of a parameter, as PyTorch and NumPy have them.
OTHER_NAME = {
    "dim": "axis",
    "dim1": "axis1",
    "dim2": "axis2",
    "keepdims": "keepdim",
    "sorted": "sorted_",
}
C = TypeVar("C", bound=type)


def public_methods(cls: C) -> C:
    """A class whose methods, also those that it inherits from this package, take either name of such a parameter.

    Where a method fails and one of its arguments is of a wrong type, the error says so: a KindError of the method that
    was called, whatever failed within it.
    """
    for name in dir(cls):
        kept = next(base.__dict__[name] for base in cls.__mro__ if name in base.__dict__)
        function = kept.__func__ if isinstance(kept, classmethod | staticmethod) else kept
        own = isinstance(function, FunctionType) and function.__module__.split(".")[0] == __package__
        if own and (name == "__init__" or not name.startswith("_")):
            taken = taking(function, cls.__name__ if name == "__init__" else name, OTHER_NAME)
            setattr(cls, name, type(kept)(taken) if function is not kept else taken)
    return cls


def taking(function: Callable[..., Any], name: str, other_name: Mapping[str, str]) -> Callable[..., Any]:
    """A function that takes other names of its parameters, and names the argument on which it fails, if it is one."""
    code = function.__code__
    own = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    others = {o: proper for o, proper in other_name.items() if proper in own and o not in own}

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        for other in others.keys() & kwargs.keys() if kwargs else ():
            proper = others[other]
            if proper in kwargs:
                raise TensorError(f"{name}: both {proper} and {other}", remedy="they are one parameter")
            kwargs[proper] = kwargs.pop(other)
        try:
            return function(*args, **kwargs)
        except Exception as error:
            said = isinstance(error, TensorError) and not isinstance(error, KindError)
            found = None if said else misfit(function, args, kwargs)
            if found is None:
                raise
            raise KindError(f"{name}: {found[0]}", remedy=found[1]) from None

    return called
