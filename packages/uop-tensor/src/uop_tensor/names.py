"""Two names for one parameter: `dim` and `axis`, `keepdims` and `keepdim`, as PyTorch and NumPy have them. Week 5."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import FunctionType
from typing import Any, TypeVar

from .errors import TensorError

#: The other name of a parameter.
OTHER_NAME = {
    "dim": "axis",
    "dim1": "axis1",
    "dim2": "axis2",
    "keepdims": "keepdim",
    "sorted": "sorted_",
}
C = TypeVar("C", bound=type)


def both_names(cls: C) -> C:
    """A class whose methods, also those that it inherits from this package, take either name of such a parameter."""
    for name in dir(cls):
        kept = next(base.__dict__[name] for base in cls.__mro__ if name in base.__dict__)
        function = kept.__func__ if isinstance(kept, classmethod | staticmethod) else kept
        if isinstance(function, FunctionType) and function.__module__.split(".")[0] == __package__:
            code = function.__code__
            own = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            if any(proper in own and other not in own for other, proper in OTHER_NAME.items()):
                taken = _either(function)
                setattr(cls, name, type(kept)(taken) if function is not kept else taken)
    return cls


def _either(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        for other, proper in OTHER_NAME.items() if kwargs else ():
            if other in kwargs:
                if proper in kwargs:
                    raise TensorError(
                        f"{function.__name__}: both {proper} and {other}", remedy="they are one parameter"
                    )
                kwargs[proper] = kwargs.pop(other)
        return function(*args, **kwargs)

    return called
