"""How methods take arguments: by the names of torch and NumPy;
an axis of a scalar; a wrong type is an error. Week 5.
"""

from __future__ import annotations

import inspect
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
_TWO_AXES = {"dim0": "first", "dim1": "second", "axis0": "first", "axis1": "second"}
_FIRST_AND_SECOND = {
    f"{name}{number}": place
    for name in ("tensor", "mat", "vec", "batch")
    for number, place in ((1, "first"), (2, "second"))
}
_SIZE = {"size": "shape"}
_END = {"end": "stop"}
#: Other names of parameters of single methods, as torch has them.
#: A parameter of loose numbers is given one sequence.
OF_METHOD: dict[str, dict[str, str]] = {
    "addcdiv": _FIRST_AND_SECOND,
    "addcmul": _FIRST_AND_SECOND,
    "addmm": _FIRST_AND_SECOND,
    "addmv": {"mat": "matrix", "vec": "vector"},
    "addr": _FIRST_AND_SECOND,
    "arange": _END,
    "backward": {"gradient": "seed"},
    "baddbmm": _FIRST_AND_SECOND,
    "bmm": {"mat2": "other"},
    "broadcast_to": _SIZE,
    "chunk": {"chunks": "count"},
    "empty": _SIZE,
    "expand": _SIZE,
    "exponential": _SIZE,
    "flatten": {"start_dim": "start", "end_dim": "end"},
    "flip": {"dims": "axis"},
    "full": {**_SIZE, "fill_value": "value"},
    "full_like": {"fill_value": "value"},
    "linspace": _END,
    "logspace": _END,
    "mm": {"mat2": "other"},
    "mv": {"vec": "other"},
    "new_full": {**_SIZE, "fill_value": "value"},
    "new_ones": _SIZE,
    "new_zeros": _SIZE,
    "ones": _SIZE,
    "outer": {"vec2": "other"},
    "pad": {"pad": "padding"},
    "permute": {"dims": "order"},
    "rand": _SIZE,
    "randn": _SIZE,
    "repeat": {"repeats": "times"},
    "roll": {"dims": "axis"},
    "rot90": {"dims": "axes"},
    "scaled_dot_product_attention": {"mask": "attn_mask"},
    "split": {"split_size": "sizes", "split_size_or_sections": "sizes"},
    "swapaxes": _TWO_AXES,
    "swapdims": _TWO_AXES,
    "take": {"index": "indices"},
    "tensor_split": {"indices_or_sections": "sections"},
    "tile": {"dims": "times"},
    "transpose": _TWO_AXES,
    "trunc_normal": _SIZE,
    "unfold": {"dimension": "axis"},
    "zeros": _SIZE,
}
#: Methods along axes, to which a tensor of shape () is one of one axis,
#: as in torch; what they give then has shape ().
# fmt: off
OF_SCALARS = frozenset({
    "all", "amax", "amin", "aminmax", "any", "argmax", "argmin", "argsort", "count_nonzero", "cummax",
    "cummin", "cumprod", "cumsum", "index_add", "index_copy", "index_fill", "index_reduce", "index_select",
    "kthvalue", "log_softmax", "logcumsumexp", "logsumexp", "max", "mean", "median", "min", "mode", "nanmean",
    "nanmedian", "nansum", "norm", "prod", "softmax", "softmin", "sort", "squeeze", "std", "std_mean", "sum",
    "topk", "var", "var_mean",
})
# fmt: on
C = TypeVar("C", bound=type)


def public_methods(cls: C) -> C:
    """A class whose methods, also those that it inherits from this package, take all names of a parameter.

    Where a method fails and one of its arguments is of a wrong type, the error says so: a KindError of the
    method that was called, whatever failed within it.
    """
    for name in dir(cls):
        kept = next(base.__dict__[name] for base in cls.__mro__ if name in base.__dict__)
        function = kept.__func__ if isinstance(kept, classmethod | staticmethod) else kept
        own = isinstance(function, FunctionType) and function.__module__.split(".")[0] == __package__
        if own and (name == "__init__" or not name.startswith("_")):
            names = OTHER_NAME | OF_METHOD.get(name, {})
            function = _taking_scalars(function) if name in OF_SCALARS else function
            taken = taking(function, cls.__name__ if name == "__init__" else name, names)
            setattr(cls, name, type(kept)(taken) if isinstance(kept, classmethod | staticmethod) else taken)
    return cls


def _taking_scalars(function: Callable[..., Any]) -> Callable[..., Any]:
    """A method that takes a tensor of shape () as one of shape (1,), and gives shape () for it."""

    @wraps(function)
    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.uop.ndim:
            return function(self, *args, **kwargs)
        found = function(self.reshape(1), *args, **kwargs)
        if isinstance(found, tuple):
            return tuple(t.reshape(()) if t.numel() == 1 else t for t in found)
        return found.reshape(()) if found.numel() == 1 else found

    return called


def taking(function: Callable[..., Any], name: str, other_name: Mapping[str, str]) -> Callable[..., Any]:
    """A function that takes other names of its parameters,
    and names the argument on which it fails, if it is one.
    """
    parameters = inspect.signature(function).parameters
    own = [p.name for p in parameters.values() if p.kind is not p.VAR_KEYWORD]
    loose = {p.name for p in parameters.values() if p.kind is p.VAR_POSITIONAL}
    others = {o: proper for o, proper in other_name.items() if proper in own and o not in own}

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        for other in others.keys() & kwargs.keys() if kwargs else ():
            proper = others[other]
            if proper in kwargs:
                raise TensorError(f"{name}: both {proper} and {other}", remedy="they are one parameter")
            if proper in loose:
                args = (*args, kwargs.pop(other))
            else:
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
